"""
What C{git} knows of commits: their names, how they differ, and how lines of them are joined.
"""

from __future__ import annotations

import logging
import shlex
from typing import Any

from attrs import evolve

from saltwisted.modules._git import GitCalls, listed, reserved, split_options
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)


_git = GitCalls(globals())


def branch(
    cwd: str,
    name: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> bool:
    """
    Make a branch, or with C{opts} delete or rename it.

    CLI Example::

        salt '*' git.branch /srv/checkout topic opts='--force'
    """
    more = [] if name is None else [str(name)]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    git.run("branch", *split_options(opts), *more)
    return True


def current_branch(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The branch that is checked out; C{HEAD} if there is none.

    CLI Example::

        salt '*' git.current_branch /srv/checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("rev-parse", "--abbrev-ref", "HEAD")


def describe(
    cwd: str,
    rev: str = "HEAD",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The nearest tag of a commit and how far it is, or its short hash.

    CLI Example::

        salt '*' git.describe /srv/checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("describe", "--always", rev)


def diff(
    cwd: str | None,
    item1: str | None = None,
    item2: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    no_index: bool = False,
    cached: bool = False,
    paths: Any = None,
    output_encoding: str | None = None,
) -> str:
    """
    How two commits differ, or the checkout and one.

    @param no_index: compare two of the C{paths}, whether or not they are in the repository.
    @param cached: compare the index.

    CLI Example::

        salt '*' git.diff /srv/checkout v1.0 HEAD paths=README,setup.py
    """
    if no_index and cached:
        raise CommandExecutionError("The 'no_index' and 'cached' options cannot be used together")
    command = ["diff", *split_options(opts)]
    items = [str(item) for item in (item1, item2) if item]
    if no_index:
        command.append("--no-index")
        for item in items:
            log.warning(
                "Revision '%s' ignored in git diff, as revisions cannot be used when no_index=True",
                item,
            )
    elif cached:
        command.append("--cached")
        if item1:
            command.append(str(item1))
        if item2:
            log.warning(
                "Second revision '%s' ignored in git diff, at most one revision is considered when"
                " cached=True",
                item2,
            )
    else:
        command += items
    if paths:
        command += ["--", *listed(paths)]
    # Without the index git tells by its code that there are differences.
    git = _git(None, user, password, no_index, output_encoding, git_opts)
    return evolve(git, cwd=cwd).output(*command, failhard=not no_index, mixed=True)


def list_branches(
    cwd: str,
    remote: bool = False,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> list[str]:
    """
    The branches of the repository, or those of its remotes.

    CLI Example::

        salt '*' git.list_branches /srv/checkout remote=True
    """
    kind = "remotes" if remote else "heads"
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    output = git.output("for-each-ref", "--format", "%(refname:short)", f"refs/{kind}/")
    return list(output.splitlines())


def list_tags(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> list[str]:
    """
    The tags of the repository.

    CLI Example::

        salt '*' git.list_tags /srv/checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    output = git.output("for-each-ref", "--format", "%(refname:short)", "refs/tags/")
    return list(output.splitlines())


def merge(
    cwd: str,
    rev: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Merge a commit, or what the branch follows.

    CLI Example::

        salt '*' git.merge /srv/checkout topic
    """
    reserved(kwargs)
    more = [str(rev)] if rev else []
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity)
    return git.output("merge", *split_options(opts), *more)


def merge_base(
    cwd: str,
    refs: Any = None,
    octopus: bool = False,
    is_ancestor: bool = False,
    independent: bool = False,
    fork_point: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    The best common ancestor of commits, with C{all=True} a list of all of them.

    @param refs: a list, or text cut at its commas.
    @param octopus: of all at once.
    @param is_ancestor: tell whether the first of two is an ancestor of the second.
    @param independent: those that cannot be reached from others.
    @param fork_point: the commit at which a branch has left this one.

    CLI Example::

        salt '*' git.merge_base /srv/checkout refs=main,topic
    """
    (every,) = reserved(kwargs, "all")
    if every and (independent or is_ancestor or fork_point):
        raise SaltInvocationError(
            "The 'all' argument is not compatible with 'independent', 'is_ancestor', or"
            " 'fork_point'"
        )
    names = [] if refs is None else [name.strip() for name in listed(refs)]
    if sum(map(bool, (octopus, independent, is_ancestor, fork_point))) > 1:
        raise SaltInvocationError(
            "Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted"
        )
    if is_ancestor and len(names) != 2:
        raise SaltInvocationError("Two refs/commits are required if 'is_ancestor' is True")
    if fork_point and len(names) > 1:
        raise SaltInvocationError(
            "At most one ref/commit can be passed if 'fork_point' is specified"
        )
    command = ["merge-base", *split_options(opts), *(["--all"] if every else [])]
    flags = {"--octopus": octopus, "--is-ancestor": is_ancestor, "--independent": independent}
    command += [flag for flag, wanted in flags.items() if wanted]
    if fork_point:
        command += ["--fork-point", str(fork_point)]
        names = names or ["HEAD"]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    result = git.run(*command, *names, failhard=not is_ancestor)
    if is_ancestor:
        return result["retcode"] == 0
    bases = result["stdout"].splitlines()
    return bases if every else bases[0] if bases else ""


def merge_tree(
    cwd: str,
    ref1: str,
    ref2: str,
    base: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    What a merge would change, without doing it.

    CLI Example::

        salt '*' git.merge_tree /srv/checkout main topic
    """
    if base is None:
        try:
            base = merge_base(
                cwd,
                refs=[ref1, ref2],
                user=user,
                password=password,
                ignore_retcode=ignore_retcode,
                output_encoding=output_encoding,
            )
        except (SaltInvocationError, CommandExecutionError) as error:
            raise CommandExecutionError(
                f"Unable to determine merge base for {ref1} and {ref2}"
            ) from error
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("merge-tree", base, ref1, ref2)


def rebase(
    cwd: str,
    rev: str = "master",
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put the commits of this branch onto another one; C{rev} is split as a shell would.

    CLI Example::

        salt '*' git.rebase /srv/checkout main
    """
    words = split_options(opts)
    if "-i" in words or "--interactive" in words:
        raise SaltInvocationError("Interactive rebases are not supported")
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("rebase", *words, *shlex.split(str(rev)))


def rev_parse(
    cwd: str,
    rev: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Ask C{git rev-parse}.

    CLI Example::

        salt '*' git.rev_parse /srv/checkout main opts='--verify'
    """
    more = [] if rev is None else [str(rev)]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("rev-parse", *split_options(opts), *more)


def revision(
    cwd: str,
    rev: str = "HEAD",
    short: bool = False,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The hash of a commit.

    CLI Example::

        salt '*' git.revision /srv/checkout main short=True
    """
    more = ["--short"] if short else []
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("rev-parse", *more, rev)


def symbolic_ref(
    cwd: str,
    ref: str,
    value: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    What a symbolic name stands for, or with C{value} let it stand for that.

    CLI Example::

        salt '*' git.symbolic_ref /srv/checkout HEAD refs/heads/main
    """
    words = split_options(opts)
    if value is not None and ("-d" in words or "--delete" in words):
        raise SaltInvocationError(
            "Value cannot be set for symbolic ref if -d/--delete is included in opts"
        )
    more = (
        []
        if not value
        else [str(value)]
        if not isinstance(value, list)
        else [str(item) for item in value]
    )
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("symbolic-ref", *words, ref, *more)


def tag(
    cwd: str,
    name: str,
    ref: str = "HEAD",
    message: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Tag a commit; with a C{message} the tag is an object of its own.

    CLI Example::

        salt '*' git.tag /srv/checkout v1.0 message='The first one'
    """
    words = [word for word in split_options(opts) if word not in ("-a", "--annotate")]
    if any(word == "-m" or "--message" in word for word in words):
        raise SaltInvocationError('Tag messages must be passed in the "message" argument')
    command = ["tag"]
    if message is not None:
        command += ["-a", "-m", str(message)]
    command += [*words, str(name)]
    if "-d" not in words and "--delete" not in words:
        command.append(str(ref))
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, mixed=True)
