"""
Repositories that the package manager takes packages from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _apt_entries, _debsources
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from saltwisted.worker.systools import is_true

__salt__: Any
__opts__: Any
__grains__: Any
__context__: dict[str, Any]
__env__: str

_CAUTION = (
    "This may cause pkg states to behave differently than stated if this action is repeated"
    " without test=True, due to the differences in the configured repositories."
)


def __virtual__() -> bool:
    return "pkg.mod_repo" in __salt__


def _debian() -> bool:
    return bool(__grains__["os_family"] == "Debian")


def _wrong_words(words: Mapping[str, Any]) -> str:
    """What is wrong with the arguments that name a key."""
    said = ""
    server = "keyid" in words or "keyserver" in words
    if "key_url" in words and server:
        said = 'You may not use both "keyid"/"keyserver" and "key_url" argument.'
    if "key_text" in words and server:
        said = 'You may not use both "keyid"/"keyserver" and "key_text" argument.'
    if "key_text" in words and "key_url" in words:
        said = 'You may not use both "key_url" and "key_text" argument.'
    return said


def _prepared(
    name: str, ppa: Any, copr: Any, enabled: Any, disabled: Any, kwargs: dict[str, Any]
) -> str:
    """Complete the arguments for the platform; the repository as its module calls it."""
    family = __grains__["os_family"]
    repo = name
    kwargs["name"] = name
    if family == "Debian":
        if ppa is not None:
            repo = f"ppa:{ppa}"
        kwargs["disabled"] = is_true(disabled) if enabled is None else not is_true(enabled)
    elif family in ("RedHat", "Suse", "NILinuxRT", "Poky"):
        if family == "RedHat" and copr is not None:
            repo = f"copr:{copr}"
        if family in ("RedHat", "Suse") and "humanname" in kwargs:
            kwargs["name"] = kwargs.pop("humanname")
        kwargs["enabled"] = is_true(enabled) if disabled is None else not is_true(disabled)
    return repo


def _stale_lines(path: Any, name: str) -> bool:
    """Whether a file that is to hold one repository alone holds another line."""
    if not path or not os.path.isfile(path):
        return False
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream]
    except OSError:
        return False
    return any(line and line[0] != "#" and line != name.strip() for line in lines)


def _same_line(
    wanted: Mapping[str, Any], has: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a line of a C{.list} file says the same, in whatever order of components."""
    if wanted["disabled"]:
        return True
    text, _, comment = (part.strip() for part in has["line"].partition("#"))
    one, other = wanted["line"].split(), text.split()
    if one[:3] + sorted(one[3:]) != other[:3] + sorted(other[3:]):
        return False
    return "comments" not in kwargs or comment == _debsources.combine_comments(kwargs["comments"])


def _joined_comments(comments: Any) -> str:
    """Comments as the yum module keeps them: a line each, with a mark."""
    lines = comments if isinstance(comments, list) else [comments]
    return "\n".join(
        line if line.startswith("#") else f"# {line}" for line in (str(one) for one in lines)
    )


def _configured(
    wanted: Mapping[str, Any], has: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a repository is as wanted already."""
    family = __grains__["os_family"]
    for key, value in wanted.items():
        if key not in has:
            if key in ("comps", "key_url"):
                return False
            # A yum repository without the word is enabled.
            if key == "enabled" and not (family == "RedHat" and is_true(value)):
                return False
            continue
        old = has[key]
        if key in ("comps", "key_url"):
            same = sorted(value) == sorted(old)
        elif key == "line" and family == "Debian":
            same = _same_line(wanted, has, kwargs)
        elif key == "comments" and family == "RedHat":
            same = _joined_comments(value) == _joined_comments(old)
        elif key == "architectures" and value:
            same = set(value) == set(old)
        elif family in ("RedHat", "Suse") and (isinstance(value, bool) or isinstance(old, bool)):
            same = is_true(value) == is_true(old)
        else:
            same = str(value) == str(old)
        if not same:
            return False
    return True


def _checked(kwargs: dict[str, Any]) -> tuple[str, Any, Any]:
    """What is wrong with the words of C{managed}; whether the repository is used, and not."""
    if "repo" in kwargs:
        wrong = (
            "'repo' is not a supported argument for this state. The 'name' argument is probably"
            " what was intended."
        )
        return wrong, None, None
    enabled, disabled = kwargs.pop("enabled", None), kwargs.pop("disabled", None)
    if enabled is not None and disabled is not None:
        return "Only one of enabled/disabled is allowed", None, None
    if disabled is None and enabled is None:
        enabled = True
    secure = kwargs.get("key_url", "").strip().startswith("http:") is False
    if not kwargs.pop("allow_insecure_key", True) and not secure:
        wrong = "Cannot have 'key_url' using http with 'allow_insecure_key' set to True"
        return wrong, None, None
    return "", enabled, disabled


def managed(
    name: str, ppa: Any = None, copr: Any = None, aptkey: bool = True, **kwargs: Any
) -> dict[str, Any]:
    """
    A repository is configured.

    name
        The line as in C{sources.list}, for apt.
    enabled, disabled
        Whether it is used.
    file
        Where it stands; C{clean_file} for nothing else there.
    dist, comps, architectures, signedby, trusted, comments
        Its parts, where they differ from the line.
    key_url, key_text, keyid, keyserver
        The key that signs it.
    aptkey
        Give the key to C{apt-key} (where there is one) instead of a key ring of its own.
    refresh
        Read its package lists.
    """
    if not shutil.which("apt-key"):
        aptkey = False
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}

    def refuse(text: str) -> dict[str, Any]:
        ret["result"] = False
        ret["comment"] = text
        return ret

    if "pkg.get_repo" not in __salt__:
        return refuse("Repo management not implemented on this platform")
    wrong = _wrong_words(kwargs)
    if wrong:
        # Said, but not the end of it: as in stock.
        refuse(wrong)
    problem, enabled, disabled = _checked(kwargs)
    if problem:
        return refuse(problem)
    repo = _prepared(name, ppa, copr, enabled, disabled, kwargs)
    try:
        before = __salt__["pkg.get_repo"](repo=repo, **kwargs)
    except CommandExecutionError as error:
        return refuse(f"Failed to examine repo '{name}': {error}")
    wanted = _expanded(repo, kwargs) if _debian() else kwargs
    clean = bool(kwargs.get("clean_file", False))
    if before and not (clean and _stale_lines(kwargs.get("file"), name)):
        before.pop("file", None)
        wanted.pop("file", None)
        if _configured(wanted, before, kwargs):
            ret["result"] = True
            ret["comment"] = f"Package repo '{name}' already configured"
            return ret
    if _debian():
        _keep_addresses(wanted, before, kwargs)
    if __opts__["test"]:
        ret["comment"] = f"Package repo '{name}' would be configured. {_CAUTION}"
        ret["changes"] = _difference(wanted, before, wanted) if before else {"repo": name}
        return ret
    if clean:
        with open(kwargs["file"], "w", encoding="utf-8"):
            pass
    words: dict[str, Any] = {"saltenv": __env__, "aptkey": aptkey} if _debian() else {}
    try:
        __salt__["pkg.mod_repo"](repo, **words, **kwargs)
    except Exception as error:
        # Whatever it is, stock makes a comment of it.
        return refuse(f"Failed to configure repo '{name}': {error}")
    try:
        after = __salt__["pkg.get_repo"](repo=repo, **kwargs)
        ret["changes"] = _difference(wanted, before, after) if before else {"repo": repo}
    except Exception as error:
        return refuse(f"Failed to confirm config of repo '{name}': {error}")
    _forget_lists(ret["changes"])
    ret["result"] = True
    ret["comment"] = f"Configured package repo '{name}'"
    return ret


def _forget_lists(changes: dict[str, Any]) -> None:
    """Which packages there are is another question when repositories have changed."""
    if changes:
        __context__.pop("pkg._avail", None)


def _expanded(repo: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    return _apt_entries.expand_repo_def(
        os_name=__grains__["os"], os_codename=__grains__["oscodename"], repo=repo, **kwargs
    )


def _keep_addresses(
    wanted: Mapping[str, Any], before: Mapping[str, Any], kwargs: dict[str, Any]
) -> None:
    """Where an address changes, say so to the module, which looks for the entry by the old one."""
    if "uri" in wanted and "uri" in before and wanted["uri"] != before["uri"]:
        kwargs.setdefault("uri", wanted["uri"])
    if wanted.get("uris") and "uris" in before and wanted["uris"][0] not in before["uris"]:
        kwargs.setdefault("uris", wanted["uris"])


def _difference(
    keys: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        key: {"new": after.get(key), "old": before.get(key)}
        for key in keys
        if after.get(key) != before.get(key)
    }


def _stripped(repo: str) -> str:
    """A line without the slash at the end of its address."""
    return " ".join(
        word.rstrip("/") if word.startswith(("http://", "https://", "ftp://")) else word
        for word in repo.split()
    )


def absent(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A repository is not configured.

    keyid, keyid_ppa
        Remove its key as well.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}

    def refuse(text: str) -> dict[str, Any]:
        ret["result"] = False
        ret["comment"] = text
        return ret

    if "ppa" in kwargs and __grains__["os"] in ("Ubuntu", "Mint"):
        name = kwargs.pop("ppa")
        name = name if name.startswith("ppa:") else f"ppa:{name}"
    if "copr" in kwargs and __grains__["os_family"] == "RedHat":
        name = kwargs.pop("copr")
        name = name if name.startswith("copr:") else f"copr:{name}"
    with_key = any(kwargs.get(word) is not None for word in ("keyid", "keyid_ppa"))
    if with_key and "pkg.del_repo_key" not in __salt__:
        return refuse("Repo key management is not implemented for this platform")
    stripped = _stripped(name) if _debian() else name
    try:
        repo = __salt__["pkg.get_repo"](stripped, **kwargs)
    except CommandExecutionError as error:
        return refuse(f"Failed to configure repo '{name}': {error}")
    if repo and _debian():
        line = _debsources.Line(stripped)
        if set(line.architectures) != set(repo["architectures"]):
            repo = {}
    if not repo:
        ret["comment"] = f"Package repo {name} is absent"
        ret["result"] = True
        return ret
    if __opts__["test"]:
        ret["comment"] = f"Package repo '{name}' will be removed. {_CAUTION}"
        return ret
    try:
        __salt__["pkg.del_repo"](repo=stripped, **kwargs)
    except (CommandExecutionError, SaltInvocationError) as error:
        return refuse(error.strerror)
    if stripped in __salt__["pkg.list_repos"]():
        return refuse(f"Failed to remove repo {name}")
    ret["changes"]["repo"] = name
    ret["comment"] = f"Removed repo {name}"
    ret["result"] = True
    if with_key:
        try:
            keyid = __salt__["pkg.del_repo_key"](stripped, **kwargs)
        except (CommandExecutionError, SaltInvocationError) as error:
            return refuse(f"{ret['comment']}, but failed to remove key: {error}")
        ret["changes"]["keyid"] = keyid
        ret["comment"] += f", and keyid {keyid}"
    return ret
