"""
The worktrees of a repository.
"""

from __future__ import annotations

import logging
import os
import shutil
from typing import Any

from saltwisted.modules import _git_output, _packages
from saltwisted.modules._git import GitCalls, place, reserved, split_options
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)


_git = GitCalls(globals())


def is_worktree(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
) -> bool:
    """
    Whether a checkout is a worktree, which belongs to a repository elsewhere.

    CLI Example::

        salt '*' git.is_worktree /srv/checkout
    """
    try:
        git = _git(cwd, user, password, False, output_encoding)
        result = git.run("rev-parse", "--show-toplevel")
        with open(os.path.join(result["stdout"], ".git"), encoding="utf-8") as file:
            words = file.readline().split(None, 1)
    except (CommandExecutionError, OSError):
        return False
    return len(words) == 2 and words[0] == "gitdir:" and os.path.isabs(words[1])


def list_worktrees(
    cwd: str,
    stale: bool = False,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The worktrees of a repository whose directories are there.

    @param stale: those whose directories are gone; with C{all=True} both.
    @return: by directory C{HEAD}, C{branch}, C{detached}, C{stale}, and the C{tags} of a detached
        commit.

    CLI Example::

        salt '*' git.list_worktrees /srv/checkout all=True
    """
    _git.need_worktrees()
    (every,) = reserved(kwargs, "all")
    if every and stale:
        raise CommandExecutionError("'all' and 'stale' cannot both be set to True")
    if _git.older("2.7.0"):
        raise CommandExecutionError("git can list worktrees only from version 2.7.0")
    git = _git(cwd, user, password, output_encoding=output_encoding)
    found: dict[str, Any] = {}
    for facts in _git_output.worktrees(git.output("worktree", "list", "--porcelain")):
        gone = not os.path.isdir(facts["worktree"])
        if not every and gone != bool(stale):
            continue
        detached = facts["branch"] == "detached"
        entry = found[facts["worktree"]] = {
            "stale": gone,
            "HEAD": facts["HEAD"],
            "detached": detached,
            "branch": None if detached else facts["branch"].replace("refs/heads/", "", 1),
        }
        if detached:
            tags = git.output("tag", "--points-at", facts["HEAD"])
            if tags:
                entry["tags"] = tags.splitlines()
    return found


def worktree_add(
    cwd: str,
    worktree_path: str,
    ref: str | None = None,
    reset_branch: bool | None = None,
    force: bool | None = None,
    detach: bool = False,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Make a worktree.

    @param ref: the commit to check out, instead of the one that is checked out.
    @param reset_branch: the branch may exist and is set to that commit.
    @param detach: without a branch; else C{branch=} names it, or the directory does.

    CLI Example::

        salt '*' git.worktree_add /srv/checkout /srv/topic ref=origin/main branch=topic
    """
    _git.need_worktrees()
    (branch_,) = reserved(kwargs, "branch")
    if branch_ and detach:
        raise SaltInvocationError("Only one of 'branch' and 'detach' is allowed")
    command = ["worktree", "add"]
    if detach:
        if force:
            log.warning("'force' argument to git.worktree_add is ignored when detach=True")
        command.append("--detach")
    else:
        command += ["-B" if reset_branch else "-b", str(branch_ or os.path.basename(worktree_path))]
        if force:
            command.append("--force")
    command += [*split_options(opts), str(worktree_path), *([str(ref)] if ref else [])]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, mixed=True)


def worktree_prune(
    cwd: str,
    dry_run: bool = False,
    verbose: bool = True,
    expire: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Forget the worktrees whose directories are gone.

    @param expire: only those that are gone for so long, in git's words.
    @return: what was, or with C{dry_run} would be, removed.

    CLI Example::

        salt '*' git.worktree_prune /srv/checkout dry_run=True
    """
    _git.need_worktrees()
    command = ["worktree", "prune"]
    command += [*(["--dry-run"] if dry_run else []), *(["--verbose"] if verbose else [])]
    if expire:
        command += ["--expire", str(expire)]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    result = git.run(*command, *split_options(opts))
    # Since then what it does is no longer its output.
    newer = _packages.loose_compare(_git.version(), "2.35.0") > 0
    return str(result["stderr" if newer else "stdout"])


def worktree_rm(cwd: str, user: str | None = None, output_encoding: str | None = None) -> bool:
    """
    Remove the directory of a worktree.

    @raises CommandExecutionError: it is none, or is not there.

    CLI Example::

        salt '*' git.worktree_rm /srv/topic
    """
    _git.need_worktrees()
    cwd = place(cwd, user)
    if not os.path.exists(cwd):
        raise CommandExecutionError(f"{cwd} does not exist")
    if not is_worktree(cwd, output_encoding=output_encoding):
        raise CommandExecutionError(f"{cwd} is not a git worktree")
    try:
        shutil.rmtree(cwd)
    except OSError as error:
        raise CommandExecutionError(f"Unable to remove {cwd}: {error}") from error
    return True
