"""
That a path is there or not, moved, copied or kept for a while, as states of C{file}.
"""

from __future__ import annotations

import datetime
import os
import shutil
import urllib.parse
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._arguments import picked, taken
from saltwisted.states import _file_rules
from saltwisted.states._file_cached import Cached
from saltwisted.states._file_copied import Copied
from saltwisted.states._file_managed import SIGNED
from saltwisted.states._file_tidied import Tidied
from saltwisted.states._file_work import Surroundings, failed_ret, new_ret
from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any

_around = Surroundings(globals())


def exists(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A path is there; nothing is done about it if not.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.exists")
    if not os.path.exists(name):
        return failed_ret(ret, f"Specified path {name} does not exist")
    ret["comment"] = f"Path {name} exists"
    return ret


def missing(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A path is not there; nothing is done about it if it is.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.missing")
    if os.path.exists(name):
        return failed_ret(ret, f"Specified path {name} exists")
    ret["comment"] = f"Path {name} is missing"
    return ret


def absent(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Nothing is at a path: a file, a link, or a directory with all in it is removed.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.absent")
    if not os.path.isabs(name):
        return failed_ret(ret, f"Specified file {name} is not an absolute path")
    if name == "/":
        return failed_ret(ret, 'Refusing to make "/" absent')
    if os.path.isfile(name) or os.path.islink(name):
        kind = "file"
    elif os.path.isdir(name):
        kind = "directory"
    else:
        ret["comment"] = f"File {name} is not present"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"{kind.capitalize()} {name} is set for removal"
    else:
        try:
            __salt__["file.remove"](name, force=True)
        except CommandExecutionError as error:
            return failed_ret(ret, str(error))
        ret["comment"] = f"Removed {kind} {name}"
    ret["changes"]["removed"] = name
    return ret


def tidied(
    name: str,
    age: int = 0,
    matches: Any = None,
    rmdirs: bool = False,
    size: Any = 0,
    exclude: Any = None,
    full_path_match: bool = False,
    followlinks: bool = False,
    time_comparison: str = "atime",
    age_size_logical_operator: str = "OR",
    age_size_only: str | None = None,
    rmlinks: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A directory is rid of what is old or large enough.

    age, size
        In days, and in bytes (or C{1M}); one suffices, both must hold with
        C{age_size_logical_operator: AND}, one alone counts with C{age_size_only}.
    matches, exclude
        Lists of expressions on names, or on whole paths with C{full_path_match}.
    time_comparison
        C{atime}, C{mtime} or C{ctime}.
    """
    name = os.path.expanduser(name)
    return Tidied(around=_around(), **taken(Tidied, locals())).run()


def pruned(
    name: str, recurse: bool = False, ignore_errors: bool = False, older_than: Any = None
) -> dict[str, Any]:
    """
    A directory is not there, if it was empty; with C{recurse} empty ones below it go too.

    ignore_errors
        It is good enough that some were removed; includes C{recurse}.
    older_than
        Only directories unchanged for that many days.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    recurse = recurse or ignore_errors
    if not os.path.isdir(name):
        ret["comment"] = f"Directory {name} is not present"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["changes"]["deleted"] = name
        ret["comment"] = f"Directory {name} is set for removal"
        return ret
    did = __salt__["file.rmdir"](name, recurse=recurse, verbose=True, older_than=older_than)
    result = did.pop("result")
    if not result and not (ignore_errors and did["deleted"]):
        ret.update(result=result, changes=did, comment=f"Failed to remove directory {name}")
    elif not recurse:
        ret["comment"] = f"Removed directory {name}"
        ret["changes"]["deleted"] = name
    elif did["deleted"]:
        ret["comment"] = f"Recursively removed empty directories under {name}"
        ret["changes"]["deleted"] = sorted(did["deleted"])
    return ret


def retention_schedule(
    name: str, retain: dict[str, Any], strptime_format: str | None = None, timezone: Any = None
) -> dict[str, Any]:
    """
    Of the dated files in a directory those stay that a schedule keeps, such as backups.

    retain
        How many of C{most_recent}, C{first_of_hour}, C{first_of_day}, C{first_of_week},
        C{first_of_month}, C{first_of_year}; a number or C{all}.
    strptime_format
        How names tell the time; otherwise it is the time of change.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.retention_schedule")
    if not os.path.isdir(name):
        return failed_ret(ret, "Name provided to file.retention must be a directory")
    dated: dict[str, tuple[datetime.datetime, float]] = {}
    ignored = []
    for one in __salt__["file.readdir"](name):
        if strptime_format:
            try:
                when = datetime.datetime.strptime(one, strptime_format)  # noqa: DTZ007
                utc = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
                dated[one] = when, utc.timestamp()
            except ValueError:
                ignored.append(one)
            continue
        status = {} if one in (".", "..") else __salt__["file.lstat"](os.path.join(name, one))
        if status:
            seconds = status["st_mtime"]
            dated[one] = datetime.datetime.fromtimestamp(seconds, timezone), seconds
        else:
            ignored.append(one)
    keep = _file_rules.retained(dated, retain)
    doomed = sorted(set(dated) - keep, reverse=True)
    if doomed:
        ret["changes"] = {
            "retained": sorted(keep, reverse=True),
            "deleted": doomed,
            "ignored": sorted(ignored, reverse=True),
        }
    if __opts__["test"]:
        ret["comment"] = f"{len(doomed)} backups would have been removed from {name}.\n"
        if doomed:
            ret["result"] = None
    else:
        for one in doomed:
            __salt__["file.remove"](os.path.join(name, one))
        ret["comment"] = f"{len(doomed)} backups were removed from {name}.\n"
    return ret


def copy_(
    name: str,
    source: str,
    force: bool = False,
    makedirs: bool = False,
    preserve: bool = False,
    user: Any = None,
    group: Any = None,
    mode: Any = None,
    dir_mode: Any = None,
    subdir: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A file or directory of this machine has a copy.

    force
        What is in the way is replaced.
    preserve
        Owner and mode are the source's.
    subdir
        If the name is a directory, the copy goes into it.
    """
    name = os.path.expanduser(name)
    source = os.path.expanduser(source)
    return Copied(around=_around(), **taken(Copied, locals())).run()


def rename(
    name: str, source: str, force: bool = False, makedirs: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """
    A file or directory has moved to a new place.
    """
    name = os.path.expandvars(os.path.expanduser(name))
    source = os.path.expandvars(os.path.expanduser(source))
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.rename")
    if not os.path.isabs(name):
        return failed_ret(ret, f"Specified file {name} is not an absolute path")
    if not os.path.lexists(source):
        ret["comment"] = f'Source file "{source}" has already been moved out of place'
        return ret
    there = os.path.lexists(name)
    if there and not force:
        ret["comment"] = f'The target file "{name}" exists and will not be overwritten'
        return ret
    if __opts__["test"]:
        ret["comment"] = f'File "{source}" is set to be moved to "{name}"'
        ret["result"] = None
        return ret
    if there:
        try:
            __salt__["file.remove"](name)
        except OSError:
            return failed_ret(ret, f'Failed to delete "{name}" in preparation for forced move')
    folder = os.path.dirname(name)
    if not os.path.isdir(folder):
        if not makedirs:
            return failed_ret(ret, f"The target directory {folder} is not present")
        _around().make_parents(name)
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), name)
            os.unlink(source)
        else:
            shutil.move(source, name)
    except OSError:
        return failed_ret(ret, f'Failed to move "{source}" to "{name}"')
    ret["comment"] = f'Moved "{source}" to "{name}"'
    ret["changes"] = {name: source}
    return ret


def decode(
    name: str,
    encoded_data: str | None = None,
    contents_pillar: str | None = None,
    encoding_type: str = "base64",
    checksum: str = "md5",
) -> dict[str, Any]:
    """
    A file holds what a Base64 text, given or in pillar, stands for.
    """
    ret = new_ret(name, False)
    if not (encoded_data or contents_pillar):
        raise CommandExecutionError(
            "Specify either the 'encoded_data' or 'contents_pillar' argument."
        )
    if encoded_data and contents_pillar:
        raise CommandExecutionError(
            "Specify only one 'encoded_data' or 'contents_pillar' argument."
        )
    content: Any = encoded_data
    if not content:
        content = __salt__["pillar.get"](contents_pillar, False, unmask=True)
        if content is False:
            raise CommandExecutionError("Pillar data not found.")
    if __salt__["file.file_exists"](name):
        wanted = __salt__["hashutil.digest"](
            __salt__["hashutil.base64_decodestring"](content), checksum
        )
        have = __salt__["hashutil.digest_file"](name, checksum)
        if wanted == have:
            ret.update(result=True, comment="File is in the correct state.")
            return ret
        ret["changes"] = {"old": have, "new": wanted}
    if __opts__["test"] is True:
        ret.update(result=None, comment="File is set to be updated.")
        return ret
    ret["result"] = __salt__["hashutil.base64_decodefile"](content, name)
    ret["comment"] = "File was updated."
    if not ret["changes"]:
        made = __salt__["hashutil.digest_file"](name, checksum)
        ret["changes"] = {"old": None, "new": made}
    return ret


_NODES = {
    "c": ("character device", "file.is_chrdev"),
    "b": ("block device", "file.is_blkdev"),
    "p": ("fifo pipe", "file.is_fifo"),
}


def mknod(
    name: str,
    ntype: str,
    major: int = 0,
    minor: int = 0,
    user: Any = None,
    group: Any = None,
    mode: Any = "0600",
) -> dict[str, Any]:
    """
    A device or a pipe is there.

    ntype
        C{c}haracter device, C{b}lock device or C{p}ipe.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.mknod")
    if ntype not in _NODES:
        return failed_ret(
            ret,
            f"Node type unavailable: '{ntype}'. Available node types are character ('c'), block "
            "('b'), and pipe ('p')",
        )
    kind, is_one = _NODES[ntype]
    if __salt__["file.file_exists"](name):
        return failed_ret(ret, f"File {name} exists and is not a {kind}. Refusing to continue")
    kind = kind.capitalize()
    if not __salt__[is_one](name):
        if __opts__["test"]:
            ret.update(result=None, comment=f"{kind} {name} is set to be created")
            return ret
        made: dict[str, Any] = __salt__["file.mknod"](name, ntype, major, minor, user, group, mode)
        return made
    if ntype != "p":
        have = tuple(__salt__["file.get_devmm"](name))
        if have != (major, minor):
            return failed_ret(
                ret,
                f"{kind} {name} exists and has a different major/minor {have[0]}/{have[1]}. "
                "Refusing to continue",
            )
    checked: dict[str, Any] = __salt__["file.check_perms"](name, None, user, group, mode)[0]
    if not checked["changes"]:
        checked["comment"] = f"{kind} {name} is in the correct state"
    return checked


def cached(
    name: str,
    source_hash: Any = "",
    source_hash_name: str | None = None,
    skip_verify: bool = False,
    saltenv: str = "base",
    use_etag: bool = False,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    sig_backend: str = "gpg",
) -> dict[str, Any]:
    """
    What an address names is in the minion's cache, for C{cp.is_cached} and other states.
    """
    arguments = locals()
    signed = picked(arguments, SIGNED)
    return Cached(around=_around(), signed=signed, **taken(Cached, arguments)).run()


def not_cached(name: str, saltenv: str = "base") -> dict[str, Any]:
    """
    What an address names is not in the minion's cache.
    """
    ret = new_ret(name, False)
    try:
        parts = urllib.parse.urlparse(name)
    except Exception:
        return failed_ret(ret, "Only URLs or local file paths are valid input")
    if parts.scheme in _files.LOCAL_PROTOS:
        path = os.path.realpath(os.path.expanduser(parts.path))
        ret.update(result=True, comment=f"File {path} is a local path, no action taken")
        return ret
    copy = __salt__["cp.is_cached"](name, saltenv=saltenv)
    if not copy:
        ret.update(result=True, comment=f"{name} is not cached")
        return ret
    try:
        os.remove(copy)
    except OSError as error:
        return failed_ret(ret, f"Failed to delete {copy}: {error}")
    ret.update(result=True, changes={"deleted": True}, comment=f"{copy} was deleted")
    return ret


def shortcut(name: str, target: str, **kwargs: Any) -> dict[str, Any]:
    """
    A Windows shortcut; fails elsewhere.
    """
    return failed_ret(new_ret(name), "Shortcuts are only supported on Windows")
