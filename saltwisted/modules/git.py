"""
Repositories by the C{git} program.

C{cwd} is the checkout, from the home of C{user} (or of who runs this) if it is relative. C{opts}
go behind the subcommand and C{git_opts} before it, as a list or as text that is split as a shell
would. Most functions answer with what git has printed.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from saltwisted.modules import _data, _git_output, _packages
from saltwisted.modules._git import GitCall, place, redact, split_options, with_login
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__opts__: dict[str, Any]
__context__: dict[str, Any]

__func_alias__ = {"rm_": "rm"}


def __virtual__() -> Any:
    if systools.which("git") is None:
        return False, "The git execution module cannot be loaded: git unavailable."
    return True


def _listed(value: Any) -> list[str]:
    """A list as it is, else text cut at its commas."""
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    return str(value).split(",")


def _only(kwargs: Mapping[str, Any], *names: str) -> list[Any]:
    """
    Arguments whose names are taken by Python's own, in this order, C{None} if they are not given.

    @raises SaltInvocationError: there are others.
    """
    given = _data.clean_kwargs(**kwargs)
    found = [given.pop(name, None) for name in names]
    _data.invalid_kwargs(given)
    return found


def _git(
    cwd: Any,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    git_opts: Any = None,
    identity: Any = None,
    saltenv: str = "base",
) -> GitCall:
    """Git in a checkout, with what nearly every function here is given; see L{GitCall}."""
    return GitCall(
        salt=__salt__,
        asks="salt-call" in (__opts__.get("__cli") or ""),
        cwd=None if cwd is None else place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
        git_opts=git_opts,
        identity=identity,
        saltenv=saltenv,
    )


def _old(version_: str) -> bool:
    """Whether this git is older than that version."""
    return _packages.loose_compare(version(versioninfo=False), version_) < 0


def _check_worktree_support() -> None:
    if _old("2.5.0"):
        raise CommandExecutionError(
            "Worktrees are only supported in git 2.5.0 and newer (detected git version: "
            f"{version(versioninfo=False)})"
        )


def _git_config(
    everywhere: Any,
    cwd: Any,
    user: str | None,
    password: str | None,
    ignore_retcode: bool,
    output_encoding: str | None,
) -> GitCall:
    """
    Git for a repository, or for the user if C{everywhere}.

    @raises SaltInvocationError: it is not said for which.
    """
    if cwd is None and not everywhere:
        raise SaltInvocationError("'cwd' argument required unless global=True")
    return _git(cwd, user, password, ignore_retcode, output_encoding)


def _scope(everywhere: Any) -> str:
    return "--global" if everywhere else "--local"


def _values(git: GitCall, everywhere: Any, key: str) -> list[str] | None:
    """All values of a setting, C{None} if it is not set."""
    result = git.run("config", _scope(everywhere), "--get-all", key, failhard=False)
    return None if result["retcode"] == 1 else list(result["stdout"].splitlines())


def add(
    cwd: str,
    filename: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put a file into the index.

    @return: what git has printed, a line for each file.

    CLI Example::

        salt '*' git.add /srv/checkout file.txt opts='--force'
    """
    more = [word for word in split_options(opts) if word not in ("-v", "--verbose")]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("add", "--verbose", *more, "--", filename)


def archive(
    cwd: str,
    output: str,
    rev: str = "HEAD",
    prefix: str | None = None,
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> bool:
    """
    Write the files of a commit into an archive.

    @param output: the archive; its ending says its kind unless C{format} does.
    @param prefix: what goes before each name; C{None} for the name of the checkout and a slash.

    CLI Example::

        salt '*' git.archive /srv/checkout /tmp/checkout.tar.gz rev=v1.0
    """
    (format_,) = _only(kwargs, "format")
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    command = ["archive"]
    if prefix != "":
        command += ["--prefix", prefix or os.path.basename(place(cwd, user)) + os.sep]
    if format_:
        command += ["--format", str(format_)]
    git.run(*command, "--output", place(output, user), rev)
    return True


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


def checkout(
    cwd: str,
    rev: str | None = None,
    force: bool = False,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Check out a commit.

    @raises SaltInvocationError: no C{rev}, and no new branch in C{opts} either.

    CLI Example::

        salt '*' git.checkout /srv/checkout topic force=True
    """
    words = split_options(opts)
    if rev is None and "-b" not in words and "-B" not in words:
        raise SaltInvocationError("'rev' argument is required unless -b or -B in opts")
    command = [
        "checkout",
        *(["--force"] if force else []),
        *words,
        *([] if rev is None else [str(rev)]),
    ]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, mixed=True)


def clone(
    cwd: str,
    url: str | None = None,
    name: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> bool:
    """
    Clone a repository to C{cwd}, or into it as C{name}.

    @param identity: private keys to try, files or C{salt://} addresses.

    CLI Example::

        salt '*' git.clone /srv git://example.org/project.git name=checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    folder = place(cwd, user)
    if not url:
        raise SaltInvocationError("Missing 'url' argument")
    command = ["clone", *split_options(opts), "--", with_login(url, https_user, https_pass)]
    if name is None:
        evolve(git, cwd="/tmp").run(*command, folder)
    else:
        os.makedirs(folder, exist_ok=True)
        git.run(*command, name)
    return True


def commit(
    cwd: str,
    message: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    filename: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Commit the index, or just one file.

    CLI Example::

        salt '*' git.commit /srv/checkout 'A message' opts='--author="Me <me@example.org>"'
    """
    more = ["--", str(filename)] if filename else []
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("commit", "-m", message, *split_options(opts), *more)


def config_get(
    key: str,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    A setting of the repository, or with C{global=True} of the user.

    @return: its last value, C{None} if it is not set; with C{all=True} a list of all of them.

    CLI Example::

        salt '*' git.config_get user.name cwd=/srv/checkout
    """
    every, everywhere = _only(kwargs, "all", "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    values = _values(git, everywhere, key)
    if every or values is None:
        return values
    return values[-1] if values else ""


def config_get_regexp(
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, list[str]]:
    """
    The settings whose names, and values if asked, fit regular expressions.

    @return: the values of each.

    CLI Example::

        salt '*' git.config_get_regexp 'user\\..*' cwd=/srv/checkout
    """
    (everywhere,) = _only(kwargs, "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [value_regex]
    words = [_scope(everywhere), "--get-regexp", key, *more]
    result = git.run("config", *words, failhard=False)
    return _git_output.settings(result["stdout"]) if result["retcode"] != 1 else {}


config_get_regex = config_get_regexp


def config_set(
    key: str,
    value: Any = None,
    multivar: Any = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> list[str]:
    """
    Set a setting of the repository, or with C{global=True} of the user.

    @param value: the only value, or with C{add=True} one more.
    @param multivar: all the values, a list or text cut at its commas.
    @return: all values it has afterwards.

    CLI Example::

        salt '*' git.config_set user.email me@example.org cwd=/srv/checkout
    """
    add_, everywhere = _only(kwargs, "add", "global")
    if value is not None and multivar is not None:
        raise SaltInvocationError("Only one of 'value' and 'multivar' is permitted")
    if value is None and multivar is None:
        raise SaltInvocationError("One of 'value' and 'multivar' is required")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    values = [str(value)] if value is not None else _listed(multivar)
    for index, item in enumerate(values):
        how = "--add" if index or (add_ and value is not None) else "--replace-all"
        git.run("config", *(["--global"] if everywhere else []), how, key, item)
    return _values(git, everywhere, key)  # type: ignore[return-value]


def config_unset(
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> bool:
    """
    Remove a setting, with C{all=True} all its values.

    @raises CommandExecutionError: it is not there, or has several values.

    CLI Example::

        salt '*' git.config_unset user.email cwd=/srv/checkout
    """
    every, everywhere = _only(kwargs, "all", "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    words = ["--unset-all" if every else "--unset", _scope(everywhere), str(key)]
    if value_regex is not None:
        words.append(str(value_regex))
    result = git.run("config", *words, failhard=False)
    retcode = result["retcode"]
    if retcode == 0:
        return True
    if retcode == 1:
        raise CommandExecutionError("Section or key is invalid")
    if retcode == 5:
        if _values(git, everywhere, key) is None:
            raise CommandExecutionError(f"Key '{key}' does not exist")
        text = f"Multiple values exist for key '{key}'"
        if value_regex is not None:
            text += " and value_regex matches multiple values"
        raise CommandExecutionError(text)
    if retcode == 6:
        raise CommandExecutionError("The value_regex is invalid")
    text = f"Failed to unset key '{key}', git config returned exit code {retcode}"
    if result["stderr"]:
        text += f"; {result['stderr']}"
    raise CommandExecutionError(text)


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
        command += ["--", *_listed(paths)]
    # Without the index git tells by its code that there are differences.
    git = _git(None, user, password, no_index, output_encoding, git_opts)
    return evolve(git, cwd=cwd).output(*command, failhard=not no_index, mixed=True)


def discard_local_changes(
    cwd: str,
    path: str = ".",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Take a path from the index as it was.

    CLI Example::

        salt '*' git.discard_local_changes /srv/checkout path=README
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("checkout", "--", path, mixed=True)


def fetch(
    cwd: str,
    remote: str | None = None,
    force: bool = False,
    refspecs: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> dict[str, Any]:
    """
    Fetch from a remote.

    @return: C{updated branches} with their C{old} and C{new} hashes, and the names of
        C{new branches}, C{new tags} and C{updated tags}, each only if there are any.

    CLI Example::

        salt '*' git.fetch /srv/checkout origin
    """
    command = ["fetch", *(["--force"] if force else [])]
    command += [word for word in split_options(opts) if word not in ("-f", "--force")]
    if remote:
        command.append(str(remote))
    if refspecs is not None:
        command += _listed(refspecs)
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return _git_output.fetched(git.output(*command, mixed=True))


def init(
    cwd: str,
    bare: bool = False,
    template: str | None = None,
    separate_git_dir: str | None = None,
    shared: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Make a repository.

    @param shared: who may write: a word of git's, true or false, or a mode as a number whose
        decimal digits are meant as octal ones.

    CLI Example::

        salt '*' git.init /srv/checkout.git bare=True
    """
    cwd = place(cwd, user)
    command = ["init", *(["--bare"] if bare else [])]
    if template is not None:
        command.append(f"--template={template}")
    if separate_git_dir is not None:
        command.append(f"--separate-git-dir={separate_git_dir}")
    if shared is not None:
        if isinstance(shared, int) and not isinstance(shared, bool):
            shared = f"0{shared}"
        elif not isinstance(shared, str):
            shared = str(shared).lower()
        command.append(f"--shared={shared}")
    git = _git(None, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, *split_options(opts), cwd)


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
    _check_worktree_support()
    (every,) = _only(kwargs, "all")
    if every and stale:
        raise CommandExecutionError("'all' and 'stale' cannot both be set to True")
    if _old("2.7.0"):
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


def ls_remote(
    cwd: str | None = None,
    remote: str = "origin",
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    saltenv: str = "base",
) -> dict[str, str]:
    """
    The names of a remote, which may be an address, and their hashes.

    CLI Example::

        salt '*' git.ls_remote /srv/checkout origin ref=main
    """
    command = ["ls-remote", *split_options(opts)]
    command.append(with_login(remote, https_user, https_pass))
    if ref:
        command.append(str(ref))
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return _git_output.refs(git.output(*command))


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
    _only(kwargs)
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
    (every,) = _only(kwargs, "all")
    if every and (independent or is_ancestor or fork_point):
        raise SaltInvocationError(
            "The 'all' argument is not compatible with 'independent', 'is_ancestor', or"
            " 'fork_point'"
        )
    names = [] if refs is None else [name.strip() for name in _listed(refs)]
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


def pull(
    cwd: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> str:
    """
    Fetch what the branch follows and merge it.

    CLI Example::

        salt '*' git.pull /srv/checkout opts='--rebase origin main'
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("pull", *split_options(opts))


def push(
    cwd: str,
    remote: str | None = None,
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Send commits to a remote.

    @param ref: what to send, as C{local:remote} if it is to have another name there.

    CLI Example::

        salt '*' git.push /srv/checkout origin main
    """
    _only(kwargs)
    more = [str(word) for word in (remote, ref) if word is not None]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("push", *split_options(opts), *more)


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


def remote_get(
    cwd: str,
    remote: str = "origin",
    user: str | None = None,
    password: str | None = None,
    redact_auth: bool = True,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, str]:
    """
    The addresses of a remote, to C{fetch} and to C{push}.

    @raises CommandExecutionError: there is no such remote.

    CLI Example::

        salt '*' git.remote_get /srv/checkout origin
    """
    every = remotes(
        cwd,
        redact_auth=redact_auth,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    if remote not in every:
        raise CommandExecutionError(
            f"Remote '{remote}' not present in git checkout located at {place(cwd, user)}"
        )
    return every[remote]


def remote_refs(
    url: str,
    heads: bool = False,
    tags: bool = False,
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    saltenv: str = "base",
    **kwargs: Any,
) -> dict[str, str]:
    """
    The names in the repository at an address and their hashes.

    @param heads: only branches.
    @param tags: only tags.

    CLI Example::

        salt '*' git.remote_refs https://example.org/project.git heads=True filter=main
    """
    (pattern,) = _only(kwargs, "filter")
    command = ["ls-remote", *(["--heads"] if heads else []), *(["--tags"] if tags else [])]
    command.append(with_login(url, https_user, https_pass))
    if pattern:
        command.append(str(pattern))
    git = _git(
        None, user, password, ignore_retcode, output_encoding, identity=identity, saltenv=saltenv
    )
    return _git_output.refs(git.output(*command))


def remote_set(
    cwd: str,
    url: str,
    remote: str = "origin",
    user: str | None = None,
    password: str | None = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    push_url: str | None = None,
    push_https_user: str | None = None,
    push_https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, str]:
    """
    Give a remote its addresses, new or instead of what it had.

    @return: the addresses it has now.

    CLI Example::

        salt '*' git.remote_set /srv/checkout https://example.org/project.git remote=upstream
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    address = with_login(url, https_user, https_pass)
    if remote in remotes(cwd, user=user, password=password, output_encoding=output_encoding):
        log.debug("Remote '%s' already exists in %s, removing so it can be re-added", remote, cwd)
        git.run("remote", "rm", remote)
    git.run("remote", "add", remote, address)
    if push_url:
        address = with_login(push_url, push_https_user, push_https_pass)
        git.run("remote", "set-url", "--push", remote, address)
    return remote_get(
        cwd,
        remote,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )


def remotes(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    redact_auth: bool = True,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    The remotes of a checkout and their addresses.

    @param redact_auth: without users and passwords.

    CLI Example::

        salt '*' git.remotes /srv/checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    found = _git_output.remotes(git.output("remote", "--verbose"), cwd)
    if not redact_auth:
        return found
    return {
        name: {action: redact(url) for action, url in urls.items()} for name, urls in found.items()
    }


def reset(
    cwd: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Reset the checkout, the index or the branch, as C{opts} say.

    CLI Example::

        salt '*' git.reset /srv/checkout opts='--hard origin/main'
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity)
    return git.output("reset", *split_options(opts))


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


def rm_(
    cwd: str,
    filename: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Remove a file from the checkout and the index.

    CLI Example::

        salt '*' git.rm /srv/checkout file.txt opts='--cached'
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("rm", *split_options(opts), "--", filename)


def stash(
    cwd: str,
    action: str = "save",
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put changes aside, or fetch them back.

    CLI Example::

        salt '*' git.stash /srv/checkout pop opts='stash@{0}'
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("stash", action, *split_options(opts))


def status(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, list[str]]:
    """
    The files that are C{modified}, C{new}, C{deleted}, C{untracked}, or what git's letter says.

    CLI Example::

        salt '*' git.status /srv/checkout
    """
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return _git_output.status(git.output("status", "-z", "--porcelain"))


def submodule(
    cwd: str,
    command: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command of C{git submodule}.

    CLI Example::

        salt '*' git.submodule /srv/checkout update opts='--init --recursive'
    """
    (init_,) = _only(kwargs, "init")
    if init_:
        raise SaltInvocationError(
            "The 'init' argument is no longer supported. Either set 'command' to 'init', or include"
            " '--init' in the 'opts' argument and set 'command' to 'update'."
        )
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("submodule", command, *split_options(opts))


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


def version(versioninfo: bool = False) -> Any:
    """
    The version of git.

    @param versioninfo: as a list of its parts, numbers where they are.

    CLI Example::

        salt '*' git.version
    """
    if "git.version" not in __context__:
        try:
            words = _git(None).output("--version").split("(")[0].split(".windows")[0].split()
        except CommandExecutionError as error:
            log.error("Failed to obtain the git version (error follows):\n%s", error)
            words = []
        __context__["git.version"] = words[-1] if words else "unknown"
    found: str = __context__["git.version"]
    if not versioninfo:
        return found
    return [int(part) if part.isdigit() else part for part in found.split(".")]


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
    _check_worktree_support()
    (branch_,) = _only(kwargs, "branch")
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
    _check_worktree_support()
    command = ["worktree", "prune"]
    command += [*(["--dry-run"] if dry_run else []), *(["--verbose"] if verbose else [])]
    if expire:
        command += ["--expire", str(expire)]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    result = git.run(*command, *split_options(opts))
    # Since then what it does is no longer its output.
    newer = _packages.loose_compare(version(), "2.35.0") > 0
    return str(result["stderr" if newer else "stdout"])


def worktree_rm(cwd: str, user: str | None = None, output_encoding: str | None = None) -> bool:
    """
    Remove the directory of a worktree.

    @raises CommandExecutionError: it is none, or is not there.

    CLI Example::

        salt '*' git.worktree_rm /srv/topic
    """
    _check_worktree_support()
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
