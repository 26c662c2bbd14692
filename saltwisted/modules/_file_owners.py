"""
Who owns a path, what it is, and with which attributes; and changing that.

A part of the module C{file}: it needs nothing of the loader.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import stat
from typing import Any

from saltwisted.modules import _file_work, _files, _sums
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)


def gid_to_group(gid: Any) -> Any:
    """
    The name of a group id; the id itself if there is no such group.

    CLI Example::

        salt '*' file.gid_to_group 0
    """
    try:
        gid = int(gid)
    except ValueError:
        gid = group_to_gid(gid)
    if gid == "":
        return ""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return gid


def group_to_gid(group: Any) -> Any:
    """
    The id of a group, or an empty text.

    CLI Example::

        salt '*' file.group_to_gid root
    """
    if group is None:
        return ""
    if isinstance(group, int):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return ""


def uid_to_user(uid: Any) -> Any:
    """
    The name of a user id; the id itself if there is no such user.

    CLI Example::

        salt '*' file.uid_to_user 0
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid


def user_to_uid(user: Any) -> Any:
    """
    The id of a user (of the current one if not given), or an empty text.

    CLI Example::

        salt '*' file.user_to_uid root
    """
    if user is None:
        return os.geteuid()
    if isinstance(user, int):
        return user
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return ""


def lstat(path: str) -> dict[str, Any]:
    """
    The status of a path itself, as the system gives it; empty if there is nothing.

    CLI Example::

        salt '*' file.lstat /path/to/file
    """
    path = _files.absolute(path, "Path to file must be absolute.")
    try:
        found = os.lstat(path)
    except OSError:
        return {}
    return {
        f"st_{name}": getattr(found, f"st_{name}")
        for name in ("atime", "ctime", "gid", "mode", "mtime", "nlink", "size", "uid")
    }


_KINDS = {
    stat.S_IFDIR: "dir",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def stats(path: str, hash_type: str | None = None, follow_symlinks: bool = True) -> dict[str, Any]:
    """
    What a file is: owner, mode, times, size, kind, and its hash if C{hash_type} is given.

    CLI Example::

        salt '*' file.stats /etc/passwd
    """
    path = _files.expanded(path)
    found = None
    if follow_symlinks:
        try:
            found = os.stat(path)
        except OSError:
            pass
    if found is None:
        try:
            found = os.lstat(path)
        except OSError as error:
            raise CommandExecutionError(f"Path not found: {path}") from error
    result = {
        "inode": found.st_ino,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "group": gid_to_group(found.st_gid),
        "user": uid_to_user(found.st_uid),
        "atime": found.st_atime,
        "mtime": found.st_mtime,
        "ctime": found.st_ctime,
        "size": found.st_size,
        "mode": _files.mode_text(found.st_mode),
    }
    if hash_type:
        result["sum"] = get_hash(path, hash_type)
    result["type"] = _KINDS.get(stat.S_IFMT(found.st_mode), "file")
    result["target"] = os.path.realpath(path) if follow_symlinks else os.path.abspath(path)
    return result


def get_gid(path: str, follow_symlinks: bool = True) -> Any:
    """
    The id of the group that owns a file.

    CLI Example::

        salt '*' file.get_gid /etc/passwd
    """
    return stats(path, follow_symlinks=follow_symlinks)["gid"]


def get_group(path: str, follow_symlinks: bool = True) -> Any:
    """
    The group that owns a file.

    CLI Example::

        salt '*' file.get_group /etc/passwd
    """
    return stats(path, follow_symlinks=follow_symlinks)["group"]


def get_uid(path: str, follow_symlinks: bool = True) -> Any:
    """
    The id of the user who owns a file.

    CLI Example::

        salt '*' file.get_uid /etc/passwd
    """
    return stats(path, follow_symlinks=follow_symlinks)["uid"]


def get_user(path: str, follow_symlinks: bool = True) -> Any:
    """
    The user who owns a file.

    CLI Example::

        salt '*' file.get_user /etc/passwd
    """
    return stats(path, follow_symlinks=follow_symlinks)["user"]


def get_mode(path: str, follow_symlinks: bool = True) -> Any:
    """
    The mode of a file, as octal text.

    CLI Example::

        salt '*' file.get_mode /etc/passwd
    """
    return stats(path, follow_symlinks=follow_symlinks)["mode"]


def set_mode(path: str, mode: Any) -> Any:
    """
    Set the mode of a file and answer with what it is then.

    CLI Example::

        salt '*' file.set_mode /etc/passwd 0644
    """
    path = _files.expanded(path)
    digits = str(mode).lstrip("0Oo") or "0"
    if not os.path.exists(path):
        raise CommandExecutionError(f"{path}: File not found")
    try:
        os.chmod(path, int(digits, 8))
    except (OSError, ValueError, OverflowError):
        return f"Invalid Mode {digits}"
    return get_mode(path)


def _ids(user: Any, group: Any) -> tuple[Any, Any, str]:
    """Ids for C{chown} (-1 is as it is), and what is wrong with the names."""
    error = ""
    uid, gid = user_to_uid(user), group_to_gid(group)
    if uid == "":
        error += "User does not exist\n" if user else ""
        uid = -1
    if gid == "":
        error += "Group does not exist\n" if group else ""
        gid = -1
    return uid, gid, error


def lchown(path: str, user: Any, group: Any) -> Any:
    """
    Set user and group of a file, or of a link itself; answers nothing, or with an error text.

    CLI Example::

        salt '*' file.chown /etc/passwd root root
    """
    uid, gid, error = _ids(user, group)
    if error:
        return error
    os.lchown(_files.expanded(path), uid, gid)
    return None


def chown(path: str, user: Any, group: Any) -> Any:
    """
    Set user and group of a file; answers nothing, or with an error text.

    CLI Example::

        salt '*' file.chown /etc/passwd root root
    """
    path = _files.expanded(path)
    uid, gid, error = _ids(user, group)
    if not os.path.exists(path):
        if not error:
            try:
                os.lchown(path, uid, gid)
            except OSError:
                pass
            else:
                return None
        error += "File not found"
    if error:
        return error
    os.chown(path, uid, gid)
    return None


def chgrp(path: str, group: Any) -> Any:
    """
    Set the group of a file.

    CLI Example::

        salt '*' file.chgrp /etc/passwd root
    """
    path = _files.expanded(path)
    return chown(path, get_user(path), group)


def lsattr(path: str) -> dict[str, list[str]]:
    """
    The attributes of a file as C{lsattr} shows them; of a directory those of what is in it.

    CLI Example::

        salt '*' file.lsattr foo1.txt
    """
    if not os.path.exists(path):
        raise SaltInvocationError(f"File or directory does not exist: {path}")
    paths = [path]
    if os.path.isdir(path):
        paths = [os.path.join(path, name) for name in os.listdir(path) if not name.startswith(".")]
    result = {}
    for each in paths:
        if not (os.path.isfile(each) or os.path.isdir(each)):
            continue
        try:
            bits = _file_work.inode_flags(each)
        except OSError:
            continue
        if bits is not None:
            result[each] = [letter for letter, bit in _file_work.FLAGS.items() if bits & bit]
    return result


def get_selinux_context(path: str) -> str:
    """
    The SELinux context of a path, or a text that there is none.

    CLI Example::

        salt '*' file.get_selinux_context /etc/hosts
    """
    try:
        return os.getxattr(path, "security.selinux").rstrip(b"\0").decode()
    except OSError:
        return f"No selinux context information is available for {path}"


def get_sum(path: str, form: str = "sha256") -> Any:
    """
    The hash of a file's content, or a text that there is no such file.

    CLI Example::

        salt '*' file.get_sum /etc/passwd sha512
    """
    path = _files.expanded(path)
    if not os.path.isfile(path):
        return "File not found"
    return _files.digest(path, form)


def get_hash(path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """
    The hash of a file's content.

    CLI Example::

        salt '*' file.get_hash /etc/shadow
    """
    return _files.digest(_files.expanded(path), form)


def check_hash(path: str, file_hash: Any) -> bool:
    """
    Whether a file has this hash: C{sha256:...}, C{md5=...}, or a bare one.

    CLI Example::

        salt '*' file.check_hash /etc/fstab md5:<md5sum>
    """
    path = _files.expanded(path)
    if not isinstance(file_hash, str):
        raise SaltInvocationError("hash must be a string")
    kind: str | None = None
    value = file_hash
    for separator in (":", "="):
        if separator in file_hash:
            kind, value = file_hash.split(separator, 1)
            break
    else:
        kind = _files.HASHES_REVMAP.get(len(file_hash))
        if kind is None:
            raise SaltInvocationError(
                f"Hash {file_hash} (length: {len(file_hash)}) could not be matched to a "
                "supported hash type. The supported hash types and lengths are: "
                f"{_sums.kinds_text()}"
            )
    return get_hash(path, kind) == value


def extract_hash(
    hash_fn: str,
    hash_type: str = "sha256",
    file_name: str = "",
    source: str = "",
    source_hash_name: str | None = None,
) -> dict[str, str] | None:
    """
    Find the hash for a file in a file of hashes, as C{source_hash} does.

    CLI Example::

        salt '*' file.extract_hash /path/to/hash/file sha512 /etc/foo
    """
    with open(hash_fn, encoding="utf-8", errors="replace", newline="") as lines:
        return _sums.extract(lines, hash_type, file_name, source, source_hash_name)
