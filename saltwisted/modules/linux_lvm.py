"""
Physical volumes, volume groups and logical volumes (LVM2).
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.worker import systools

log = logging.getLogger(__name__)

__virtualname__ = "lvm"
__salt__: dict[str, Any]

_PV = (
    "Physical Volume Device",
    "Volume Group Name",
    "Physical Volume Size (kB)",
    "Internal Physical Volume Number",
    "Physical Volume Status",
    "Physical Volume (not) Allocatable",
    "Current Logical Volumes Here",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Free Physical Extents",
    "Allocated Physical Extents",
)
_VG = (
    "Volume Group Name",
    "Volume Group Access",
    "Volume Group Status",
    "Internal Volume Group Number",
    "Maximum Logical Volumes",
    "Current Logical Volumes",
    "Open Logical Volumes",
    "Maximum Logical Volume Size",
    "Maximum Physical Volumes",
    "Current Physical Volumes",
    "Actual Physical Volumes",
    "Volume Group Size (kB)",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Allocated Physical Extents",
    "Free Physical Extents",
    "UUID",
)
_LV = (
    "Logical Volume Name",
    "Volume Group Name",
    "Logical Volume Access",
    "Logical Volume Status",
    "Internal Logical Volume Number",
    "Open Logical Volumes",
    "Logical Volume Size",
    "Current Logical Extents Associated",
    "Allocated Logical Extents",
    "Allocation Policy",
    "Read Ahead Sectors",
    "Major Device Number",
    "Minor Device Number",
)
_PVCREATE = (
    "metadatasize",
    "dataalignment",
    "dataalignmentoffset",
    "pvmetadatacopies",
    "metadatacopies",
    "metadataignore",
    "restorefile",
    "norestorefile",
    "labelsector",
    "setphysicalvolumesize",
)
_VGCREATE = (
    "addtag",
    "alloc",
    "autobackup",
    "clustered",
    "maxlogicalvolumes",
    "maxphysicalvolumes",
    "metadatatype",
    "vgmetadatacopies",
    "metadatacopies",
    "physicalextentsize",
    "zero",
)
_LVCREATE = (
    "activate",
    "chunksize",
    "contiguous",
    "discards",
    "stripes",
    "stripesize",
    "minor",
    "persistent",
    "mirrors",
    "monitor",
    "permission",
    "poolmetadatasize",
    "readahead",
    "regionsize",
    "type",
    "virtualsize",
    "zero",
)
_LVCREATE_ALONE = ("nosync", "noudevsync", "ignoremonitoring", "thin")


def __virtual__() -> Any:
    if systools.which("lvm"):
        return __virtualname__
    return (
        False,
        "The linux_lvm execution module cannot be loaded: the lvm binary is not in the path.",
    )


def _yes(force: Any) -> str:
    """Answer all questions, or let the program fail at them."""
    return "--yes" if force else "-qq"


def _run(cmd: list[Any]) -> dict[str, Any]:
    done: dict[str, Any] = __salt__["cmd.run_all"](cmd, python_shell=False)
    return done


def _said(cmd: list[Any], good: str) -> str:
    """Run a command; a sentence if it went well, what it says if not."""
    done = _run(cmd)
    return str(done.get("stderr")).strip() if done.get("retcode") else good


def _rows(program: str, name: str, quiet: bool) -> list[list[str]]:
    """What C{pvdisplay -c} and its sisters say."""
    cmd = [program, "-c", *([name] if name else [])]
    done = __salt__["cmd.run_all"](cmd, python_shell=False, ignore_retcode=quiet)
    if done["retcode"] != 0:
        return []
    return [line.strip().split(":") for line in done["stdout"].splitlines()]


def _list(names: Any) -> list[str]:
    return names.split(",") if isinstance(names, str) else list(names)


def _info() -> list[tuple[str, str]]:
    lines = __salt__["cmd.run"]("lvm version").splitlines()
    pairs = [line.split(":") for line in lines]
    return [(pair[0].strip(), pair[1].strip()) for pair in pairs if len(pair) > 1]


def version() -> str:
    """
    The version of LVM.

    CLI Example::

        salt '*' lvm.version
    """
    return _info()[0][1]


def fullversion() -> dict[str, str]:
    """
    The versions of LVM, its library and its driver.

    CLI Example::

        salt '*' lvm.fullversion
    """
    return dict(_info())


def pvdisplay(pvname: str = "", real: bool = False, quiet: bool = False) -> dict[str, Any]:
    """
    Physical volumes, by device.

    @param real: by the device that a link leads to.
    @param quiet: that there is none is no error for the log.

    CLI Example::

        salt '*' lvm.pvdisplay /dev/md0
    """
    found = {}
    for row in _rows("pvdisplay", pvname, quiet):
        if "is a new physical volume" in ":".join(row):
            continue
        facts = dict(zip(_PV, row, strict=False))
        device = os.path.realpath(row[0]) if real else row[0]
        if real:
            facts["Real Physical Volume Device"] = device
        found[device] = facts
    return found


def vgdisplay(vgname: str = "", quiet: bool = False) -> dict[str, Any]:
    """
    Volume groups, by name.

    @param quiet: that there is none is no error for the log.

    CLI Example::

        salt '*' lvm.vgdisplay nova-volumes
    """
    rows = _rows("vgdisplay", vgname, quiet)
    return {row[0]: dict(zip(_VG, row, strict=False)) for row in rows}


def lvdisplay(lvname: str = "", quiet: bool = False) -> dict[str, Any]:
    """
    Logical volumes, by path.

    @param quiet: that there is none is no error for the log.

    CLI Example::

        salt '*' lvm.lvdisplay /dev/vg_myserver/root
    """
    rows = _rows("lvdisplay", lvname, quiet)
    return {row[0]: dict(zip(_LV, row, strict=False)) for row in rows}


def pvcreate(devices: Any, override: bool = True, force: bool = True, **kwargs: Any) -> Any:
    """
    Make physical volumes; true, or what is wrong.

    @param override: pass over those that are volumes already.

    CLI Example::

        salt mymachine lvm.pvcreate /dev/sdb1,/dev/sdb2
        salt mymachine lvm.pvcreate /dev/sdb1 dataalignmentoffset=7s
    """
    if not devices:
        return "Error: at least one device is required"
    names = _list(devices)
    new = []
    for device in names:
        if not os.path.exists(device):
            return f"{device} does not exist"
        if not pvdisplay(device, quiet=True):
            new.append(device)
        elif not override:
            return f'Device "{device}" is already an LVM physical volume.'
    if not new:
        return True
    options = [(key, value) for key, value in kwargs.items() if value and key in _PVCREATE]
    words = [word for key, value in options for word in (f"--{key}", value)]
    done = _run(["pvcreate", _yes(force), *new, *words])
    if done.get("retcode"):
        return done.get("stderr")
    for device in names:
        if not pvdisplay(device):
            return f'Device "{device}" was not affected.'
    return True


def _volumes(program: str, devices: Any, override: bool, force: bool) -> Any:
    """Run a program on devices that are physical volumes; C{None} if none is, or its error."""
    found = []
    for device in _list(devices):
        if pvdisplay(device):
            found.append(device)
        elif not override:
            return f"{device} is not a physical volume"
    if not found:
        return True
    done = _run([program, _yes(force), *found])
    return done.get("stderr") if done.get("retcode") else None


def pvremove(devices: Any, override: bool = True, force: bool = True) -> Any:
    """
    Let devices be physical volumes no more; true, or what is wrong.

    @param override: pass over those that are none.

    CLI Example::

        salt mymachine lvm.pvremove /dev/sdb1,/dev/sdb2
    """
    answer = _volumes("pvremove", devices, override, force)
    if answer is not None:
        return answer
    for device in _list(devices):
        if pvdisplay(device, quiet=True):
            return f'Device "{device}" was not affected.'
    return True


def pvresize(devices: Any, override: bool = True, force: bool = True) -> Any:
    """
    Let physical volumes be as large as their devices; true, or what is wrong.

    @param override: pass over devices that are none.

    CLI Example::

        salt mymachine lvm.pvresize /dev/sdb1,/dev/sdb2
    """
    answer = _volumes("pvresize", devices, override, force)
    return True if answer is None else answer


def vgcreate(vgname: str, devices: Any, force: bool = False, **kwargs: Any) -> Any:
    """
    Make a volume group; gives its facts, and what the program said.

    CLI Example::

        salt mymachine lvm.vgcreate my_vg /dev/sdb1,/dev/sdb2
    """
    if not vgname or not devices:
        return "Error: vgname and device(s) are both required"
    options = [(key, value) for key, value in kwargs.items() if value and key in _VGCREATE]
    words = [word for key, value in options for word in (f"--{key}", value)]
    cmd = ["vgcreate", vgname, *_list(devices), _yes(force), *words]
    said = _said(cmd, f'Volume group "{vgname}" successfully created')
    return {**vgdisplay(vgname), "Output from vgcreate": said}


def vgextend(vgname: str, devices: Any, force: bool = False) -> Any:
    """
    Add physical volumes to a volume group; gives what the program said.

    CLI Example::

        salt mymachine lvm.vgextend my_vg /dev/sdb1,/dev/sdb2
    """
    if not vgname or not devices:
        return "Error: vgname and device(s) are both required"
    cmd = ["vgextend", vgname, _yes(force), *_list(devices)]
    said = _said(cmd, f'Volume group "{vgname}" successfully extended')
    return {"Output from vgextend": said}


def _size(size: Any, extents: Any, thinvolume: Any) -> list[str] | str:
    """The words for how large, or what is wrong."""
    if size:
        return ["-V" if thinvolume else "-L", f"{size}"]
    if extents and thinvolume:
        return "Error: Thin volume size cannot be specified as extents"
    if extents:
        return ["-l", f"{extents}"]
    return "Error: Either size or extents must be specified"


def lvcreate(
    lvname: str,
    vgname: str,
    size: Any = None,
    extents: Any = None,
    snapshot: str | None = None,
    pv: str | None = None,
    thinvolume: bool = False,
    thinpool: bool = False,
    force: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Make a logical volume; gives its facts, and what the program said.

    @param snapshot: the volume that this is to be a snapshot of.
    @param pv: the physical volume that it is on.

    CLI Example::

        salt '*' lvm.lvcreate new_volume_name vg_name size=10G
        salt '*' lvm.lvcreate new_snapshot vg_name snapshot=volume_name size=3G
        salt '*' lvm.lvcreate new_thinvolume_name vg_name/thinpool_name size=10G thinvolume=True
    """
    if size and extents:
        return "Error: Please specify only one of size or extents"
    if thinvolume and thinpool:
        return "Error: Please set only one of thinvolume or thinpool to True"
    words: list[Any] = [systools.which("lvcreate")]
    words += ["--thin"] if thinvolume else []
    words += ["--thinpool" if thinpool else "-n", lvname]
    words += ["-s", f"{vgname}/{snapshot}"] if snapshot else [vgname]
    large = _size(size, extents, thinvolume)
    if isinstance(large, str):
        return large
    words += large + ([pv] if pv else [])
    for key, value in kwargs.items():
        if key in _LVCREATE_ALONE:
            words.append(f"--{key}")
        elif key in _LVCREATE:
            words += [f"--{key}", f"{value}"]
    said = _said([*words, _yes(force)], f'Logical volume "{lvname}" created.')
    return {**lvdisplay(f"/dev/{vgname}/{lvname}"), "Output from lvcreate": said}


def vgremove(vgname: str, force: bool = True) -> str:
    """
    Remove a volume group; gives what the program said.

    CLI Example::

        salt mymachine lvm.vgremove vgname
    """
    good = f'Volume group "{vgname}" successfully removed'
    return _said(["vgremove", vgname, _yes(force)], good)


def lvremove(lvname: str, vgname: str, force: bool = True) -> str:
    """
    Remove a logical volume; gives what the program said.

    CLI Example::

        salt '*' lvm.lvremove lvname vgname
    """
    good = f'Logical volume "{lvname}" successfully removed'
    return _said(["lvremove", f"{vgname}/{lvname}", _yes(force)], good)


def _resized(
    words: list[str], size: Any, extents: Any, lvpath: str | None, resizefs: bool
) -> str | None:
    """Give a volume another size; C{None} if it is not clear which, else what was said."""
    if size and extents:
        log.error("Error: Please specify only one of size or extents")
        return None
    large = _size(size, extents, False)
    if isinstance(large, str):
        log.error("%s", large)
        return None
    word = words[0].removeprefix("lv")
    good = f'Logical volume "{lvpath}" successfully {word}{"d" if word[-1] == "e" else "ed"}.'
    return _said([*words, *(["--resizefs"] if resizefs else []), *large, lvpath], good)


def lvresize(
    size: Any = None,
    lvpath: str | None = None,
    extents: Any = None,
    force: bool = False,
    resizefs: bool = False,
) -> dict[str, str]:
    """
    Give a logical volume another size; gives what the program said.

    @param resizefs: and its file system.

    CLI Example::

        salt '*' lvm.lvresize +12M /dev/mapper/vg1-test
    """
    words = ["lvresize", "--force" if force else "-qq"]
    said = _resized(words, size, extents, lvpath, resizefs)
    return {} if said is None else {"Output from lvresize": said}


def lvextend(
    size: Any = None,
    lvpath: str | None = None,
    extents: Any = None,
    force: bool = False,
    resizefs: bool = False,
) -> dict[str, str]:
    """
    Let a logical volume be larger; gives what the program said.

    @param resizefs: and its file system.

    CLI Example::

        salt '*' lvm.lvextend lvpath=/dev/mapper/vg1-test extents=+100%FREE
    """
    said = _resized(["lvextend", _yes(force)], size, extents, lvpath, resizefs)
    return {} if said is None else {"Output from lvextend": said}
