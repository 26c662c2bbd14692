"""
Keys with which others may log in to an account.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import frozen

__salt__: Any
__opts__: Any
__context__: dict[str, Any]
__env__: str

_LINE = re.compile(r"^(.*?)\s?((?:sk-)?(?:ssh\-|ecds)[\w@.-]+\s.+)$")


@frozen
class _Key:
    text: str
    enc: str
    comment: str
    options: Any


def _key(name: str, enc: str, comment: str, options: Any, parts: int | None) -> _Key:
    """
    A key as an SLS names it: the key alone, with a comment, or a whole line.

    @param parts: at how many spaces to cut, so that a comment keeps its own; C{None} for all.
    """
    cuts = -1 if parts is None else parts
    match = _LINE.search(name)
    if match is None:
        words = name.split(None, -1 if parts is None else 1)
        return _Key(words[0], enc, words[1] if len(words) == 2 else comment, options)
    if match[1]:
        options = match[1].split(",")
    words = match[2].split(None, cuts)
    return _Key(words[1], words[0], words[2] if len(words) == 3 else comment, options)


def _forecast(
    adding: bool,
    user: str,
    name: str,
    enc: str,
    comment: str,
    options: Any,
    source: str,
    config: str,
    fingerprint_hash_type: str | None,
) -> tuple[bool | None, str]:
    if source:
        found = __salt__["ssh.check_key_file"](
            user, source, config, saltenv=__env__, fingerprint_hash_type=fingerprint_hash_type
        )
        settled = "exists" if adding else "add"
        said = [
            f"Set to {status}: {key}\n" if adding else f"Set to remove: {key}\n"
            for key, status in (found or {}).items()
            if status != settled
        ]
        if said:
            return None, "".join(said)
        problem = __context__.pop("ssh_auth.error", None)
        if problem:
            return False, problem
        return True, (
            f"All host keys in file {source} are already {'present' if adding else 'absent'}"
        )
    key = _key(name, enc, comment, options, None)
    status = __salt__["ssh.check_key"](
        user,
        key.text,
        key.enc,
        key.comment,
        key.options,
        config=config,
        fingerprint_hash_type=fingerprint_hash_type,
    )
    if not adding:
        if status in ("update", "exists"):
            return None, f"Key {key.text} for user {user} is set for removal"
        return True, "Key is already absent"
    if status == "exists":
        return True, f"The authorized host key {key.text} is already present for user {user}"
    past = {"update": "updated", "add": "added"}.get(status)
    return None, f"Key {key.text} for user {user} is set to be {past}" if past else key.comment


def present(
    name: str,
    user: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    source: str = "",
    options: Any = None,
    config: str = ".ssh/authorized_keys",
    fingerprint_hash_type: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A key, or those of a file, may log in.

    name
        The key, with or without its kind, options and comment.
    source
        A file with keys instead.
    options
        What they may do.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    key = _Key(name, enc, comment, options)
    if not source:
        key = _key(name, enc, comment, options, 2)
    if __opts__["test"]:
        ret["result"], ret["comment"] = _forecast(
            True,
            user,
            key.text,
            key.enc,
            key.comment,
            key.options or [],
            source,
            config,
            fingerprint_hash_type,
        )
        return ret
    if not source:
        did = __salt__["ssh.set_auth_key"](
            user,
            key.text,
            enc=key.enc,
            comment=key.comment,
            options=key.options or [],
            config=config,
            fingerprint_hash_type=fingerprint_hash_type,
        )
    elif not __salt__["cp.get_url"](source, None, saltenv=__env__):
        did = "no key"
    else:
        did = __salt__["ssh.set_auth_key_from_file"](
            user,
            source,
            config=config,
            saltenv=__env__,
            fingerprint_hash_type=fingerprint_hash_type,
            options=options,
        )
    _tell(ret, did, key.text, user, source)
    return ret


def _tell(ret: dict[str, Any], did: str, key: str, user: str, source: str) -> None:
    """Put into a return what became of a key."""
    whose = f"The authorized host key {key} for user {user} was"
    if did == "replace":
        ret["changes"][key] = "Updated"
        ret["comment"] = f"{whose} updated"
    elif did == "new":
        ret["changes"][key] = "New"
        ret["comment"] = f"{whose} added"
    elif did == "no change":
        ret["comment"] = f"The authorized host key {key} is already present for user {user}"
    elif did == "no key":
        ret["result"] = False
        ret["comment"] = f"Failed to add the ssh key. Source file {source} is missing"
    elif did == "fail":
        ret["result"] = False
        ret["comment"] = __context__.pop("ssh_auth.error", None) or (
            "Failed to add the ssh key. Is the home directory available, and/or does the key file"
            " exist?"
        )
    elif did in ("invalid", "Invalid public key"):
        ret["result"] = False
        ret["comment"] = "Invalid public ssh key, most likely has spaces or invalid syntax"


def absent(
    name: str,
    user: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    source: str = "",
    options: Any = None,
    config: str = ".ssh/authorized_keys",
    fingerprint_hash_type: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A key, or those of a file, may not log in. The arguments are those of C{present}.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    if __opts__["test"]:
        ret["result"], ret["comment"] = _forecast(
            False, user, name, enc, comment, options or [], source, config, fingerprint_hash_type
        )
        return ret
    text = name
    if not source:
        text = _key(name, enc, comment, options, 2).text
        ret["comment"] = __salt__["ssh.rm_auth_key"](
            user, text, config=config, fingerprint_hash_type=fingerprint_hash_type
        )
    elif __salt__["cp.get_url"](source, None, saltenv=__env__):
        ret["comment"] = __salt__["ssh.rm_auth_key_from_file"](
            user, source, config, saltenv=__env__, fingerprint_hash_type=fingerprint_hash_type
        )
    if ret["comment"] == "User authorized keys file not present":
        ret["result"] = False
    elif ret["comment"] == "Key removed":
        ret["changes"][text] = "Removed"
    return ret


def manage(
    name: str,
    ssh_keys: list[str],
    user: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    source: str = "",
    options: Any = None,
    config: str = ".ssh/authorized_keys",
    fingerprint_hash_type: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    These keys may log in to an account, and no others. Other arguments are those of C{present}.
    """
    ret: dict[str, Any] = {"name": "", "changes": {}, "result": True, "comment": ""}
    words: dict[str, Any] = {"config": config, "fingerprint_hash_type": fingerprint_hash_type}
    wanted = {word for line in ssh_keys for word in line.split(" ")}
    for key in __salt__["ssh.auth_keys"](user=user, **words):
        if key in wanted:
            continue
        if __opts__["test"]:
            ret["comment"] = f"{key} Key set for removal"
            ret["result"] = None
        else:
            gone = absent(key, user, enc, comment, source, options, **words)
            ret["changes"][key] = gone["comment"]
    for line in ssh_keys:
        one = present(line, user, enc, comment, source, options, **words)
        if one["changes"]:
            ret["changes"].update(one["changes"])
        else:
            ret["comment"] = f"{ret['comment']}\n{one['comment']}".strip()
        if one["result"] is None:
            ret["result"] = None
        elif not one["result"]:
            ret["result"] = False
    return ret
