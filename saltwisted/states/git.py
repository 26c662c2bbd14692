"""
Checkouts of git repositories, and git's configuration.

C{latest} is in C{_git_latest}, C{detached} in C{_git_detached}; what they share in C{_git_work}.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._arguments import picked
from saltwisted.states._git_detached import Detached
from saltwisted.states._git_latest import Latest
from saltwisted.states._git_work import joined, reason, text_or_none, unknown_words
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__env__: str

_LATEST = (
    *("update_head", "force_checkout", "force_clone", "force_fetch", "force_reset", "submodules"),
    *("mirror", "fetch_tags", "sync_tags", "depth", "refspec_branch", "refspec_tag"),
)
"""Arguments of C{latest} that are handed on as they are."""


def __virtual__() -> Any:
    if "git.version" in __salt__:
        return True
    return False, "git module could not be loaded"


def _new(name: Any, result: bool | None = True) -> dict[str, Any]:
    return {"name": name, "result": result, "comment": "", "changes": {}}


def _end(ret: dict[str, Any], result: bool | None, comment: str) -> dict[str, Any]:
    ret["result"] = result
    ret["comment"] = comment
    return ret


def _wrong_latest(remote: Any, target: Any, rev: Any, force_reset: Any) -> str:
    """What is wrong with arguments of C{latest}; empty if nothing is."""
    for word, value in (("remote", remote), ("target", target)):
        if not value:
            return f"'{word}' argument is required"
    if not rev:
        return f"'{rev}' is not a valid value for the 'rev' argument"
    if force_reset not in (True, False, "remote-changes"):
        return "'force_reset' must be one of True, False, or 'remote-changes'"
    if not os.path.isabs(str(target)):
        return f"target '{target}' is not an absolute path"
    return ""


def latest(
    name: Any,
    target: Any,
    rev: Any = "HEAD",
    branch: Any = None,
    user: Any = None,
    password: Any = None,
    update_head: bool = True,
    force_checkout: bool = False,
    force_clone: bool = False,
    force_fetch: bool = False,
    force_reset: Any = False,
    submodules: bool = False,
    bare: bool = False,
    mirror: bool = False,
    remote: Any = "origin",
    fetch_tags: bool = True,
    sync_tags: bool = True,
    depth: Any = None,
    identity: Any = None,
    https_user: Any = None,
    https_pass: Any = None,
    refspec_branch: str = "*",
    refspec_tag: str = "*",
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A checkout is at the newest commit of a branch, or at a tag or commit.

    target
        The directory.
    rev
        The branch, tag or commit of the remote repository; its default branch if C{HEAD}.
    branch
        The local branch to have; whichever is checked out by default.
    user, password
        As whom to do it.
    update_head
        Move the checkout; otherwise only fetch.
    force_checkout, force_clone, force_fetch, force_reset
        Give up local changes, other files in the directory, references, or history.
        C{force_reset: remote-changes} gives up changes only if there is something new.
    submodules
        Have them as well.
    bare, mirror
        Have a repository without files.
    remote
        Its name here.
    fetch_tags, sync_tags, refspec_branch, refspec_tag
        Which branches and tags to fetch, and whether to remove others.
    depth
        How much of the history to have.
    identity, https_user, https_pass
        Keys, or a login.
    """
    ret = _new(name)
    wrong = unknown_words(kwargs)
    if wrong:
        return _end(ret, False, wrong)
    wrong = _wrong_latest(remote, target, rev, force_reset)
    if wrong:
        return _end(ret, False, wrong)
    work = Latest(
        salt=__salt__,
        test=bool(__opts__["test"]),
        env=__env__,
        ret=ret,
        name=name,
        target=str(target),
        user=text_or_none(user),
        password=text_or_none(password),
        encoding=output_encoding,
        remote=str(remote),
        identity=identity,
        https_user=text_or_none(https_user),
        https_pass=text_or_none(https_pass),
        rev=str(rev),
        branch=text_or_none(branch),
        bare=bare or mirror,
        **picked(locals(), _LATEST),
    )

    def whole() -> None:
        work.check_identity("identity")
        work.work()

    return work.run(whole)


def detached(
    name: Any,
    rev: Any,
    target: Any,
    remote: Any = "origin",
    user: Any = None,
    password: Any = None,
    force_clone: bool = False,
    force_checkout: bool = False,
    fetch_remote: bool = True,
    hard_reset: bool = False,
    submodules: bool = False,
    identity: Any = None,
    https_user: Any = None,
    https_pass: Any = None,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A checkout is at a commit, on no branch. Arguments are those of C{latest}.

    fetch_remote
        Look for the commit in the remote repository.
    hard_reset
        Give up local changes first.
    """
    ret = _new(name)
    wrong = unknown_words(kwargs)
    if wrong:
        return _end(ret, False, wrong)
    if not rev:
        return _end(ret, False, f"'{rev}' is not a valid value for the 'rev' argument")
    if not target:
        return _end(ret, False, f"'{rev}' is not a valid value for the 'target' argument")
    target = str(target)
    if not os.path.isabs(target):
        return _end(ret, False, f"Target '{target}' is not an absolute path")
    work = Detached(
        salt=__salt__,
        test=bool(__opts__["test"]),
        env=__env__,
        ret=ret,
        name=name,
        target=target,
        user=text_or_none(user),
        password=text_or_none(password),
        encoding=output_encoding,
        remote=str(remote),
        identity=identity,
        https_user=text_or_none(https_user),
        https_pass=text_or_none(https_pass),
        rev=str(rev),
        force_clone=force_clone,
        force_checkout=force_checkout,
        fetch_remote=fetch_remote,
        hard_reset=hard_reset,
        submodules=submodules,
    )

    def whole() -> None:
        work.check_identity("Identity")
        work.work()

    return work.run(whole)


def present(
    name: str,
    force: bool = False,
    bare: bool = True,
    template: str | None = None,
    separate_git_dir: str | None = None,
    shared: Any = None,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
) -> dict[str, Any]:
    """
    There is a repository, new or not.

    force
        Remove what else is there.
    bare
        Without files.
    template, separate_git_dir, shared
        As for C{git init}.
    """
    ret = _new(name)
    words: dict[str, Any] = {"user": user, "password": password, "output_encoding": output_encoding}
    kind = "bare " if bare else ""
    if os.path.isdir(name):
        if bare:
            there = os.path.isfile(os.path.join(name, "HEAD"))
        else:
            there = os.path.isdir(os.path.join(name, ".git")) or __salt__["git.is_worktree"](
                name, **words
            )
        if there:
            return ret
        ended = _make_room(ret, force, kind)
        if ended is not None:
            return ended
    if __opts__["test"]:
        ret["changes"]["new"] = name
        return _end(ret, None, f"New {kind}repository would be created")
    __salt__["git.init"](
        cwd=name,
        bare=bare,
        template=template,
        separate_git_dir=separate_git_dir,
        shared=shared,
        **words,
    )
    actions = [f"Initialized {kind}repository in {name}"]
    if template:
        actions.append(f"Template directory set to {template}")
    if separate_git_dir:
        actions.append(f"Gitdir set to {separate_git_dir}")
    ret["changes"]["new"] = name
    return _end(ret, True, joined(actions))


def _make_room(ret: dict[str, Any], force: bool, kind: str) -> dict[str, Any] | None:
    """Take away what is where a repository is to be; or the return, if that is not to be done."""
    name = ret["name"]
    if not force:
        if not os.listdir(name):
            return None
        text = (
            f"Target '{name}' exists, is non-empty, and is not a git repository. Set the"
            " 'force' option to True to remove this directory's contents and proceed with"
            " initializing a repository"
        )
        return _end(ret, False, text)
    if __opts__["test"]:
        ret["changes"] = {"new": name, "forced init": True}
        text = (
            f"Target directory {name} exists. Since force=True, the contents of {name}"
            f" would be deleted, and a {kind}repository would be initialized in its place."
        )
        return _end(ret, None, text)
    try:
        _files.remove_tree(name)
    except OSError as error:
        return _end(ret, False, f"Unable to remove {name}: {error}")
    ret["changes"]["forced init"] = True
    return None


def cloned(
    name: Any,
    target: Any,
    branch: Any = None,
    user: Any = None,
    password: Any = None,
    identity: Any = None,
    https_user: Any = None,
    https_pass: Any = None,
    output_encoding: str | None = None,
) -> dict[str, Any]:
    """
    There is a clone, at this branch if one is named; it is not updated.

    The arguments are those of C{latest}.
    """
    ret = _new(name, False)
    if target is None:
        return _end(ret, False, "'target' argument is required")
    target = str(target)
    if not os.path.isabs(target):
        return _end(ret, False, "'target' path must be absolute")
    branch = text_or_none(branch)
    if branch == "":
        return _end(ret, False, "Invalid 'branch' argument")
    words: dict[str, Any] = {"user": user, "password": password, "output_encoding": output_encoding}
    if os.path.exists(target):
        try:
            __salt__["git.status"](target, **words)
        except Exception as error:
            # Whatever it is, it is not a clone.
            return _end(ret, False, str(error))
        return _at_branch(ret, target, branch, words)
    with_branch = f" with branch '{branch}'" if branch is not None else ""
    if __opts__["test"]:
        ret["changes"]["new"] = f"{name} => {target}"
        return _end(ret, None, f"{name} would be cloned to {target}{with_branch}")
    try:
        __salt__["git.clone"](
            target,
            name,
            opts=["--branch", branch] if branch is not None else None,
            identity=identity,
            https_user=https_user,
            https_pass=https_pass,
            **words,
        )
    except CommandExecutionError as error:
        return _end(ret, False, f"Clone failed: {reason(error)}")
    ret["changes"]["new"] = f"{name} => {target}"
    return _end(ret, True, f"{name} cloned to {target}{with_branch}")


def _at_branch(
    ret: dict[str, Any], target: str, branch: str | None, words: dict[str, Any]
) -> dict[str, Any]:
    """A clone that is there gets to a branch."""
    text = f"Repository already exists at {target}"
    if branch is None:
        return _end(ret, True, text)
    current = __salt__["git.current_branch"](target, **words)
    if current == branch:
        return _end(ret, True, f"{text} and is checked out to branch '{branch}'")
    changes = {"branch": {"old": current, "new": branch}}
    if __opts__["test"]:
        ret["changes"] = changes
        return _end(ret, None, f"Branch would be changed to '{branch}'")
    rev, options = branch, None
    try:
        __salt__["git.rev_parse"](target, rev=branch, ignore_retcode=True, **words)
    except CommandExecutionError:
        rev, options = f"origin/{branch}", ["-b", branch]
    try:
        __salt__["git.checkout"](target, rev=rev, opts=options, **words)
    except CommandExecutionError as error:
        return _end(ret, False, f"Failed to change branch to '{branch}': {error}")
    ret["changes"] = changes
    return _end(ret, True, f"Branch changed to '{branch}'")


# -- configuration


def _config_words(
    ret: dict[str, Any], kwargs: dict[str, Any], repo: Any, names: tuple[str, ...]
) -> dict[str, Any] | None:
    """The words that Python keeps for itself (C{global}, C{all}); C{None} if some are wrong."""
    words = {word: kwargs.pop(word, False) for word in names}
    wrong = unknown_words(kwargs)
    if not wrong and not words["global"] and not repo:
        wrong = "Non-global config options require the 'repo' argument to be set"
    if wrong:
        _end(ret, False, wrong)
        return None
    return words


def _several(matches: dict[str, list[str]], least: int = 1) -> str:
    return "; ".join(
        f"{key} ({', '.join(values)})" for key, values in matches.items() if len(values) >= least
    )


def _unset(matches: dict[str, list[str]], what: dict[str, Any], words: dict[str, Any]) -> str:
    """Unset what an expression fits, once for each key; what to say if that failed."""
    failed = []
    for one in matches:
        try:
            __salt__["git.config_unset"](**what, **words)
        except CommandExecutionError as error:
            log.error("Failed to unset '%s': %s", one, reason(error))
            failed.append(one)
    if not failed:
        return ""
    return (
        "Error(s) occurred unsetting values for the following keys (see the minion log for"
        f" details): {', '.join(failed)}"
    )


def config_unset(
    name: Any,
    value_regex: Any = None,
    repo: str | None = None,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A key of git's configuration is not set.

    name
        The key, or an expression for several.
    value_regex
        Only where the value fits.
    repo
        The repository whose key it is; C{global: True} for the user's own.
    all
        Also where a key has several values.
    """
    ret = _new(name)
    ret["comment"] = "No matching keys are set"
    given = _config_words(ret, kwargs, repo, ("global", "all"))
    if given is None:
        return ret
    name = str(name)
    value_regex = text_or_none(value_regex)
    key = "^" + name.lstrip("^").rstrip("$") + "$"
    words: dict[str, Any] = {
        "cwd": repo,
        "user": user,
        "password": password,
        "output_encoding": output_encoding,
        "global": given["global"],
    }

    def values(regex: str | None) -> dict[str, list[str]]:
        found: dict[str, list[str]] = __salt__["git.config_get_regexp"](
            key=key, value_regex=regex, ignore_retcode=True, **words
        )
        return found

    matches = values(value_regex)
    if not matches:
        return ret
    several = "" if given["all"] else _several(matches, 2)
    if several:
        what = (
            "Multivar(s) matched by the key expression"
            if value_regex is None
            else "Multiple values are matched by value_regex for the following keys"
        )
        return _end(ret, False, f"{what} (set 'all' to True to force removal): {several}")
    if __opts__["test"]:
        ret["changes"] = matches
        return _end(ret, None, f"{len(matches)} key(s) would have value(s) unset")
    before = matches if value_regex is None else values(None)
    problem = _unset(matches, {"key": name, "value_regex": value_regex, "all": given["all"]}, words)
    if problem:
        return _end(ret, False, problem)
    after = values(None)
    for one, had in before.items():
        gone = [value for value in had if value not in after.get(one, ())]
        if gone:
            ret["changes"][one] = gone
    left = after if value_regex is None else values(value_regex)
    if left:
        return _end(ret, False, f"Failed to unset value(s): {_several(left)}")
    return _end(ret, True, "Value(s) successfully unset")


def config_set(
    name: Any,
    value: Any = None,
    multivar: Any = None,
    repo: str | None = None,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A key of git's configuration has a value, or several.

    multivar
        Several values, as a list or with commas between.
    repo
        The repository whose key it is; C{global: True} for the user's own.
    """
    ret = _new(name)
    if value is not None and multivar is not None:
        return _end(ret, False, "Only one of 'value' and 'multivar' is permitted")
    if value is None and multivar is None:
        return _end(ret, False, "One of 'value' and 'multivar' is required")
    given = _config_words(ret, kwargs, repo, ("global",))
    if given is None:
        return ret
    name = str(name)
    shown: Any = None
    desired: list[str] = []
    if value is not None:
        value = str(value)
        shown, desired = f"'{value}'", [value]
    if multivar is not None:
        items = multivar if isinstance(multivar, list) else str(multivar).split(",")
        shown = desired = multivar = [str(item) for item in items]
    words: dict[str, Any] = {
        "cwd": repo,
        "key": name,
        "user": user,
        "password": password,
        "output_encoding": output_encoding,
        "global": given["global"],
    }
    before = __salt__["git.config_get"](ignore_retcode=True, all=True, **words)
    what = f"{'Global key ' if given['global'] else ''}'{name}'"
    if desired == before:
        return _end(ret, True, f"{what} is already set to {shown}")
    how = "added as" if before is None else "set to"
    if __opts__["test"]:
        ret["changes"] = {"old": before, "new": desired}
        return _end(ret, None, f"{what} would be {how} {shown}")
    failed = f"Failed to set {'global key ' if given['global'] else ''}'{name}' to {shown}"
    try:
        after = __salt__["git.config_set"](value=value, multivar=multivar, **words)
    except CommandExecutionError as error:
        return _end(ret, False, f"{failed}: {reason(error)}")
    if before != after:
        ret["changes"][name] = {"old": before, "new": after}
    if after != desired:
        return _end(ret, False, failed)
    return _end(ret, True, f"{what} was {how} {shown}")
