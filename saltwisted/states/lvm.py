"""
Physical volumes, volume groups and logical volumes.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import ArgumentValueError

__salt__: Any
__opts__: Any

_MEGABYTES = {"s": 1 / 2048, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3}
_ORPHANS = ("", "#orphans_lvm2")
"""The group of a physical volume that is in none."""


def __virtual__() -> Any:
    if systools.which("lvm"):
        return "lvm"
    return False, "lvm command not found"


def _megabytes(size: Any) -> float:
    """A size with a unit, megabytes if there is none."""
    text = str(size).lower()
    unit = "m"
    if text.endswith("b"):
        text, unit = text[:-2], text[-2:-1]
    elif not text[-1:].isdigit():
        text, unit = text[:-1], text[-1:]
    if not text[-1:].isdigit():
        raise ArgumentValueError(f"Size {size} is invalid.")
    if unit not in _MEGABYTES:
        raise ArgumentValueError(f"Unit {unit} is invalid.")
    return int(text) * _MEGABYTES[unit]


def _new(name: str) -> dict[str, Any]:
    return {"changes": {}, "comment": "", "name": name, "result": True}


def _planned(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "result": None, "comment": comment}


def _failed(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "result": False, "comment": comment}


def pv_present(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A device is a physical volume.

    name
        The device.

    All other arguments are options of C{lvm.pvcreate}.
    """
    ret = _new(name)
    if __salt__["lvm.pvdisplay"](name, quiet=True):
        return {**ret, "comment": f"Physical Volume {name} already present"}
    if __opts__["test"]:
        return _planned(ret, f"Physical Volume {name} is set to be created")
    did = __salt__["lvm.pvcreate"](name, **kwargs)
    if not __salt__["lvm.pvdisplay"](name):
        return _failed(ret, f"Failed to create Physical Volume {name}")
    return {**ret, "changes": {"created": did}, "comment": f"Created Physical Volume {name}"}


def pv_absent(name: str) -> dict[str, Any]:
    """
    A device is no physical volume.

    name
        The device.
    """
    ret = _new(name)
    if not __salt__["lvm.pvdisplay"](name, quiet=True):
        return {**ret, "comment": f"Physical Volume {name} does not exist"}
    if __opts__["test"]:
        return _planned(ret, f"Physical Volume {name} is set to be removed")
    did = __salt__["lvm.pvremove"](name)
    if __salt__["lvm.pvdisplay"](name, quiet=True):
        return _failed(ret, f"Failed to remove Physical Volume {name}")
    return {**ret, "changes": {"removed": did}, "comment": f"Removed Physical Volume {name}"}


def _joined(name: str, device: str, ret: dict[str, Any]) -> str:
    """See that a device belongs to a group that is there; a line for the comment, or none."""
    real = os.path.realpath(device)

    def group() -> Any:
        facts = __salt__["lvm.pvdisplay"](real, real=True).get(real) or {}
        return facts.get("Volume Group Name")

    now = group()
    if now == name:
        return f"{device} is part of Volume Group"
    if now is None:
        ret["result"] = False
        return f"pv {device} is not present"
    if now not in _ORPHANS:
        ret["result"] = False
        return f"{device} is part of {now}"
    if __opts__["test"]:
        ret["result"] = None if ret["result"] else False
        return f"{device} is set to be added to {name}"
    __salt__["lvm.vgextend"](name, device)
    if group() != name:
        ret["result"] = False
        return f"{device} could not be added"
    ret["changes"][device] = f"added to {name}"
    return ""


def vg_present(name: str, devices: Any = None, **kwargs: Any) -> dict[str, Any]:
    """
    A volume group is there, and has these devices.

    name
        The group.
    devices
        The devices.

    All other arguments are options of C{lvm.vgcreate}.
    """
    ret = _new(name)
    names = devices.split(",") if isinstance(devices, str) else devices
    if __salt__["lvm.vgdisplay"](name, quiet=True):
        lines = [_joined(name, device, ret) for device in names or ()]
        head = f"Volume Group {name} already present"
        ret["comment"] = "\n".join([head, *(line for line in lines if line)])
        return ret
    if __opts__["test"]:
        return _planned(ret, f"Volume Group {name} is set to be created")
    did = __salt__["lvm.vgcreate"](name, names, **kwargs)
    if not __salt__["lvm.vgdisplay"](name):
        return _failed(ret, f"Failed to create Volume Group {name}")
    return {**ret, "changes": {"created": did}, "comment": f"Created Volume Group {name}"}


def vg_absent(name: str) -> dict[str, Any]:
    """
    A volume group is not there.

    name
        The group.
    """
    ret = _new(name)
    if not __salt__["lvm.vgdisplay"](name, quiet=True):
        return {**ret, "comment": f"Volume Group {name} already absent"}
    if __opts__["test"]:
        return _planned(ret, f"Volume Group {name} is set to be removed")
    did = __salt__["lvm.vgremove"](name)
    if __salt__["lvm.vgdisplay"](name, quiet=True):
        return _failed(ret, f"Failed to remove Volume Group {name}")
    return {**ret, "changes": {"removed": did}, "comment": f"Removed Volume Group {name}"}


def _resized(
    ret: dict[str, Any], name: str, path: str, facts: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """See that a volume that is there is as large as asked."""
    ret["comment"] = f"Logical Volume {name} already present"
    size, extents, force = how["size"], how["extents"], how["force"]
    if not size and not extents:
        return ret
    old_extents = int(facts["Current Logical Extents Associated"])
    old_mb = _megabytes(facts["Logical Volume Size"] + "s")
    new_mb = _megabytes(size) if size else old_mb
    new_extents = extents
    if size:
        new_extents = old_extents
    elif "%" in str(extents):
        kept = f"{extents} won't be resized."
        ret["comment"] = f"Logical Volume {name} already present, {kept}"
        new_extents = old_extents
    if force is False and (new_mb < old_mb or new_extents < old_extents):
        return _failed(ret, "To reduce a Logical Volume option 'force' must be True.")
    if new_mb == old_mb and new_extents == old_extents:
        return ret
    if __opts__["test"]:
        return _planned(ret, f"Logical Volume {name} is set to be resized")
    what = {"size": size} if size else {"extents": new_extents}
    did = __salt__["lvm.lvresize"](lvpath=path, **what, resizefs=how["resizefs"], force=force)
    if not did:
        return _failed(ret, "Failed to resize Logical Volume. Unknown Error.")
    facts = __salt__["lvm.lvdisplay"](path, quiet=True)[path]
    if _megabytes(facts["Logical Volume Size"] + "s") == old_mb:
        error = did["Output from lvresize"]
        return _failed(ret, f"Failed to resize Logical Volume {name}.\nError: {error}")
    return {**ret, "changes": {"resized": did}, "comment": f"Resized Logical Volume {name}"}


def lv_present(
    name: str,
    vgname: str | None = None,
    size: Any = None,
    extents: Any = None,
    snapshot: str | None = None,
    pv: str = "",
    thinvolume: bool = False,
    thinpool: bool = False,
    force: bool = False,
    resizefs: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A logical volume is there, and is as large as this.

    name
        The volume.
    vgname
        Its group.
    size
        In megabytes, or with a unit: S (sectors), M, G, T or P.
    extents
        In extents, rather; a percentage counts only for a new volume.
    snapshot
        The name of a snapshot of the volume, which is then what is to be there.
    pv
        The physical volume for it.
    thinvolume
        It is a thin volume.
    thinpool
        It is a pool of thin volumes.
    force
        Make it smaller if it is larger; answer all questions.
    resizefs
        The file system in it, too.

    All other arguments are options of C{lvm.lvcreate}.
    """
    ret = _new(name)
    if extents and size:
        return _failed(ret, "Only one of extents or size can be specified.")
    if size:
        # What is no size is refused before anything else.
        _megabytes(size)
    of = name if snapshot else None
    name = snapshot or name
    group = str(vgname).split("/", 1)[0] if thinvolume else vgname
    path = f"/dev/{group}/{name}"
    facts = __salt__["lvm.lvdisplay"](path, quiet=True).get(path)
    if facts:
        how = {"size": size, "extents": extents, "force": force, "resizefs": resizefs}
        return _resized(ret, name, path, facts, how)
    if __opts__["test"]:
        return _planned(ret, f"Logical Volume {name} is set to be created")
    thin = {"thinvolume": thinvolume, "thinpool": thinpool}
    how = {"size": size, "extents": extents, "snapshot": of, "pv": pv, "force": force, **thin}
    did = __salt__["lvm.lvcreate"](name, vgname, **how, **kwargs)
    if not __salt__["lvm.lvdisplay"](path):
        error = did["Output from lvcreate"] if isinstance(did, dict) else did
        return _failed(ret, f"Failed to create Logical Volume {name}. Error: {error}")
    return {**ret, "changes": {"created": did}, "comment": f"Created Logical Volume {name}"}


def lv_absent(name: str, vgname: str | None = None) -> dict[str, Any]:
    """
    A logical volume is not there.

    name
        The volume.
    vgname
        Its group.
    """
    ret = _new(name)
    path = f"/dev/{vgname}/{name}"
    if not __salt__["lvm.lvdisplay"](path, quiet=True):
        return {**ret, "comment": f"Logical Volume {name} already absent"}
    if __opts__["test"]:
        return _planned(ret, f"Logical Volume {name} is set to be removed")
    did = __salt__["lvm.lvremove"](name, vgname)
    if __salt__["lvm.lvdisplay"](path, quiet=True):
        return _failed(ret, f"Failed to remove Logical Volume {name}")
    return {**ret, "changes": {"removed": did}, "comment": f"Removed Logical Volume {name}"}
