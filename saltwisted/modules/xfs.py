"""
File systems of the kind XFS.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

__salt__: dict[str, Any]
__grains__: dict[str, Any]


def __virtual__() -> bool:
    return bool(__grains__.get("kernel") == "Linux")


def _run(*words: Any) -> str:
    """
    What a program says.

    @raises CommandExecutionError: it failed, and says why.
    """
    cmd = [str(word) for word in words]
    done = __salt__["cmd.run_all"](cmd, python_shell=False)
    if done["retcode"] and done["stderr"]:
        raise CommandExecutionError(done["stderr"])
    return str(done["stdout"])


def _pairs(line: str) -> list[list[str]]:
    """The words C{key=value} of a line; values may have blanks in them, keys have none."""
    text = line.removeprefix("=").strip().replace(" = ", "=*** ").replace(" =", "=")
    words: list[str] = []
    for word in text.split(" "):
        if not words or "=" in word:
            words.append(word)
        else:
            words[-1] += f" {word}"
    return [word.split("=") for word in words]


def _geometry(text: str) -> dict[str, Any]:
    """What xfs_info and mkfs.xfs say."""
    found: dict[str, Any] = {}
    section = ""
    for raw in text.split("\n"):
        line = re.sub(r"\s+", " ", raw).strip().replace(", ", " ")
        if "=" not in line:
            continue
        pairs = _pairs(line)
        if not line.startswith("="):
            head = pairs.pop(0)
            section = head[0]
            found[section] = {"section": head[1] if head[1] != "***" else section}
        found[section].update(pairs)
    return found


def info(device: str) -> dict[str, Any]:
    """
    The geometry of a file system.

    CLI Example::

        salt '*' xfs.info /dev/sda1
    """
    done = __salt__["cmd.run_all"](["xfs_info", device], python_shell=False)
    if done.get("stderr"):
        raise CommandExecutionError(done["stderr"].replace("xfs_info:", "").strip())
    return _geometry(done["stdout"])


_DUMPED = {
    "session label:": "Session label",
    "media file size": "Media size",
    "dump complete:": "Dump complete",
    "Dump Status:": "Status",
}


def _dumped(text: str) -> dict[str, str]:
    """What xfsdump says."""
    found = {}
    summary = []
    is_summary = False
    for raw in text.split("\n"):
        line = raw.strip().removeprefix("xfsdump: ")
        is_summary = line.startswith("Dump Summary:") or (is_summary and line.startswith(" "))
        summary += [line.strip()] if is_summary and line.startswith(" ") else []
        if line.startswith("session id:"):
            found["Session ID"] = line.split(" ")[-1]
        for begin, key in _DUMPED.items():
            if line.startswith(begin):
                found[key] = line.removeprefix(begin).lstrip()
    if summary:
        found["Summary"] = " ".join(summary)
    return found


def dump(
    device: str, destination: str, level: Any = 0, label: str | None = None, noerase: Any = None
) -> dict[str, str]:
    """
    Dump a file system to a file or a tape.

    @param level: of the dump, 0 to 9.
    @param label: of the dump; one with the date if none is given.
    @param noerase: do not erase the medium first.

    CLI Example::

        salt '*' xfs.dump /dev/sda1 /detination/on/the/client label='Company accountancy'
    """
    if not systools.which("xfsdump"):
        raise CommandExecutionError('Utility "xfsdump" has to be installed or missing.')
    date = time.strftime("%Y.%m.%d, %H:%M")
    name = label or f'XFS dump for "{device}" of {date}'
    erase = [] if noerase else ["-E"]
    words = ["-L", name, "-l", level, "-f", destination, device]
    return _dumped(_run("xfsdump", "-F", *erase, *words))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip("\t"))


def _inventory(text: str) -> dict[str, Any]:
    """What xfsrestore says about its inventory: what is indented more belongs to what is above."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) == 1 and "restore status" in lines[0].lower():
        return {"restore_status": lines[0]}
    found: dict[str, Any] = {}
    above: list[tuple[int, dict[str, Any]]] = [(-1, found)]
    for line, after in itertools.pairwise(lines):
        key, _colon, value = line.strip().partition(":")
        while above[-1][0] >= _depth(line):
            above.pop()
        if value.strip() or _depth(after) <= _depth(line):
            above[-1][1][key.strip()] = value.strip()
        else:
            inner: dict[str, Any] = {}
            above[-1][1][key.strip()] = inner
            above.append((_depth(line), inner))
    if lines:
        found["restore_status"] = lines[-1]
    return found


def inventory() -> dict[str, Any]:
    """
    The inventory of dumps.

    CLI Example::

        salt '*' xfs.inventory
    """
    return _inventory(_run("xfsrestore", "-I"))


def prune_dump(sessionid: str) -> dict[str, str]:
    """
    Remove a session from the inventory of dumps.

    CLI Example::

        salt '*' xfs.prune_dump b74a3586-e52e-4a4a-8775-c3334fa8ea2c
    """
    lines = [line.strip() for line in _run("xfsinvutil", "-s", sessionid, "-F").split("\n") if line]
    rulers = [number for number, line in enumerate(lines) if line.startswith("-")]
    first = rulers[0] + 1 if rulers else len(lines)
    last = rulers[1] if len(rulers) > 1 else len(lines)
    found = {}
    for line in lines[first:last][1:]:
        key, colon, value = line.partition(":")
        if colon:
            found[key.strip().lower().replace(" ", "_")] = value.strip()
    if found.get("uuid") != sessionid:
        raise CommandExecutionError(f'Session UUID "{sessionid}" was not found.')
    return found


def _mounts() -> dict[str, dict[str, Any]]:
    found = {}
    for line in systools.read_text("/proc/mounts").splitlines():
        device, place, kind, options = line.split(" ")[:4]
        if kind == "xfs":
            found[device] = {"mount_point": place, "options": options.split(",")}
    return found


def _devices(text: str) -> dict[str, Any]:
    """What blkid says about file systems of this kind, and where they are mounted."""
    found: dict[str, Any] = {}
    for part in text.split("\n\n"):
        device: dict[str, Any] = {}
        for line in part.strip().split("\n"):
            key, equals, value = line.partition("=")
            if equals:
                device[key.lower()] = value
        if device.pop("type", None) == "xfs":
            device["label"] = device.get("label")
            found[device.pop("devname")] = device
    for name, mounted in _mounts().items():
        if name in found:
            found[name].update(mounted)
    return found


def devices() -> dict[str, Any]:
    """
    The devices with such a file system.

    CLI Example::

        salt '*' xfs.devices
    """
    return _devices(_run("blkid", "-o", "export"))


def estimate(path: str) -> dict[str, Any]:
    """
    How much room a directory would take in such a file system.

    CLI Example::

        salt '*' xfs.estimate /path/to/dir
    """
    if not os.path.exists(path):
        raise CommandExecutionError(f'Path "{path}" was not found.')
    lines = [line for line in _run("xfs_estimate", "-v", path).split("\n") if line.strip()]
    # The first key is Salt's, blank included.
    keys = ("block _size", "blocks", "megabytes", "logsize")
    return {name: dict(zip(keys, rest, strict=True)) for name, *rest in map(str.split, lines[1:])}


def mkfs(
    device: str,
    label: str | None = None,
    ssize: Any = None,
    noforce: Any = None,
    bso: str | None = None,
    gmo: str | None = None,
    ino: str | None = None,
    lso: str | None = None,
    rso: str | None = None,
    nmo: str | None = None,
    dso: str | None = None,
) -> dict[str, Any]:
    """
    Make a file system; what is on the device is lost.

    @param ssize: the size of a sector.
    @param noforce: not if there is one already.
    @param bso: options of blocks; C{gmo} those of the metadata, C{dso} of the data section,
        C{ino} of inodes, C{lso} of the log, C{nmo} of names, C{rso} of the real-time section.

    CLI Example::

        salt '*' xfs.mkfs /dev/sda1 dso='su=32k,sw=6' noforce=True
    """
    words: list[Any] = ["mkfs.xfs"]
    words += ["-L", label] if label else []
    words += ["-s", ssize] if ssize else []
    for switch, options in (
        ("-b", bso),
        ("-m", gmo),
        ("-n", nmo),
        ("-i", ino),
        ("-d", dso),
        ("-l", lso),
        ("-r", rso),
    ):
        if options and "=" in options:
            if any(option.count("=") != 1 for option in options.split(",")):
                raise CommandExecutionError(f'Wrong parameters "{options}" for option "{switch}"')
            words += [switch, options]
    words += [] if noforce else ["-f"]
    return _geometry(_run(*words, device))


def modify(
    device: str, label: str | None = None, lazy_counting: Any = None, uuid: Any = None
) -> dict[str, Any]:
    """
    Change a file system.

    @param uuid: a new one if true, none if false.

    CLI Example::

        salt '*' xfs.modify /dev/sda1 label='My backup' lazy_counting=False
    """
    if not label and lazy_counting is None and uuid is None:
        raise CommandExecutionError(f'Nothing specified for modification for "{device}" device')
    words = ["-L", label] if label else []
    if lazy_counting is False or lazy_counting:
        words += ["-c", "1" if lazy_counting else "0"]
    if uuid is False or uuid:
        words += ["-U", "generate" if uuid else "nil"]
    _run("xfs_admin", *words, device)
    return _devices(_run("blkid", "-o", "export", device))


def defragment(device: str) -> dict[str, str]:
    """
    Defragment a mounted file system.

    CLI Example::

        salt '*' xfs.defragment /dev/sda1
    """
    if device == "/":
        raise CommandExecutionError("Root is not a device.")
    if device not in _mounts():
        raise CommandExecutionError(f'Device "{device}" is not mounted')
    return {"log": _run("xfs_fsr", device)}
