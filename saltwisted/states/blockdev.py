"""
Block devices: how they are tuned, and their file systems.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from saltwisted.worker import systools

log = logging.getLogger(__name__)

__virtualname__ = "blockdev"
__salt__: Any
__opts__: Any

_ASKED = {
    "read-ahead": "getra",
    "filesystem-read-ahead": "getfra",
    "read-only": "getro",
    "read-write": "getro",
}
"""What C{disk.dump} calls the options."""

_TRIES = 10
_PAUSE = 3
"""How often, and how many seconds apart, is looked for a new file system."""


def __virtual__() -> Any:
    if "disk.tune" in __salt__:
        return __virtualname__
    return False, "Cannot load the blockdev state module: disk execution module not found"


def tuned(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A device has these options.

    name
        The device.
    read-ahead
        How much is read ahead.
    filesystem-read-ahead
        How much is read ahead for file systems.
    read-only
        It cannot be written.
    read-write
        It can be written.
    """
    ret: dict[str, Any] = {"changes": {}, "comment": "", "name": name, "result": True}
    if not __salt__["file.is_blkdev"](name):
        comment = f"Changes to {name} cannot be applied. Not a block device."
        return {**ret, "result": False, "comment": comment}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Changes to {name} will be applied "}
    before = __salt__["disk.dump"](name)
    after = __salt__["disk.tune"](name, **kwargs)
    for option, value in kwargs.items():
        asked = _ASKED.get(option)
        if asked is None or before[asked] == after[asked]:
            continue
        old, new = before[asked], after[asked]
        if isinstance(value, bool):
            old, new = old == "1", new == "1"
        if option == "read-write":
            old, new = not old, not new
        ret["changes"][option] = f"Changed from {old} to {new}"
    if not after:
        return {**ret, "result": False, "comment": f"Failed to modify block device {name}"}
    ret["comment"] = f"Block device {name} already in correct state"
    if ret["changes"]:
        ret["comment"] = f"Block device {name} successfully modified "
    return ret


def formatted(
    name: str, fs_type: str = "ext4", force: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """
    A device has a file system of a kind. Another one that is on it is lost.

    name
        The device.
    fs_type
        The kind.
    force
        Also if it is no partition.

    All other arguments are options of C{disk.format}.
    """
    ret: dict[str, Any] = {"changes": {}, "comment": "", "name": name, "result": False}
    if not os.path.exists(name):
        return {**ret, "comment": f"{name} does not exist"}
    if _kind(name) == fs_type:
        return {**ret, "result": True, "comment": f"{name} already formatted with {fs_type}"}
    if not systools.which(f"mkfs.{fs_type}"):
        return {**ret, "comment": f"Invalid fs_type: {fs_type}"}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Changes to {name} will be applied "}
    __salt__["disk.format"](name, fs_type, force=force, **kwargs)
    for number in range(_TRIES):
        log.info("Check blk fstype attempt %d of %d", number + 1, _TRIES)
        kind = _kind(name)
        if kind == fs_type:
            ret["changes"] = {"new": fs_type, "old": kind}
            return {**ret, "result": True, "comment": f"{name} has been formatted with {fs_type}"}
        if kind:
            break
        # A new file system may be seen only a little later.
        time.sleep(_PAUSE)
    return {**ret, "comment": f"Failed to format {name}"}


def _kind(name: str) -> str:
    """The kind of file system on a device; empty if there is none."""
    words = ["blkid", "-o", "value", "-s", "TYPE", name]
    return __salt__["cmd.run"](words, ignore_retcode=True) or ""
