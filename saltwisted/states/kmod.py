"""
Modules of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "kmod.available" in __salt__:
        return True
    return False, "kmod module could not be loaded"


def _modules(names: Iterable[str], one: str, many: str) -> list[str]:
    """A sentence on one module or on several; none on none."""
    known = list(names)
    if not known:
        return []
    if len(known) == 1:
        return [f"{one.format(known[0])}"]
    return [many.format(", ".join(known))]


def _each(
    mods: Iterable[str], change: Callable[[str], Any], word: str, ret: dict[str, Any]
) -> tuple[list[str], list[str], list[tuple[str, Any]]]:
    """Change modules one by one: those that went well, did nothing, or failed (and why)."""
    good: list[str] = []
    idle: list[str] = []
    failed: list[tuple[str, Any]] = []
    for mod in mods:
        if mod in ret["changes"] and word == "loaded":
            # Another one has brought it along.
            good.append(mod)
            continue
        did = change(mod)
        if not isinstance(did, (list, tuple)):
            failed.append((mod, did))
        elif did:
            ret["changes"].update(dict.fromkeys(did, word))
            good.append(mod)
        else:
            idle.append(mod)
    if failed or idle:
        ret["result"] = False
    return good, idle, failed


def present(name: str, persist: bool = False, mods: Any = None) -> dict[str, Any]:
    """
    Modules are loaded.

    persist
        Also after the next boot.
    mods
        Several modules.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": ""}
    wanted = list(dict.fromkeys(mods if isinstance(mods, (list, tuple)) else [name]))
    loaded = set(__salt__["kmod.mod_list"]())
    if persist:
        loaded &= set(__salt__["kmod.mod_list"](True))
    said = _modules(
        [one for one in wanted if one in loaded],
        "Kernel module {} is already present",
        "Kernel modules {} are already present",
    )
    missing = [one for one in wanted if one not in loaded]
    if not missing:
        ret["comment"] = "\n".join(said)
        return ret
    if __opts__["test"]:
        ret["result"] = None
        said += _modules(
            missing,
            "Kernel module {} is set to be loaded",
            "Kernel modules {} are set to be loaded",
        )
        ret["comment"] = "\n".join(said)
        return ret
    known = set(__salt__["kmod.available"]())
    unknown = [one for one in missing if one not in known]
    if unknown:
        ret["result"] = False
    said += _modules(
        unknown, "Kernel module {} is unavailable", "Kernel modules {} are unavailable"
    )
    good, idle, failed = _each(
        [one for one in missing if one in known],
        lambda mod: __salt__["kmod.load"](mod, persist),
        "loaded",
        ret,
    )
    said += _modules(good, "Loaded kernel module {}", "Loaded kernel modules {}")
    said += _modules(idle, "Failed to load kernel module {}", "Failed to load kernel modules {}")
    said += [f"Failed to load kernel module {mod}: {text}" for mod, text in failed]
    ret["comment"] = "\n".join(said)
    return ret


def absent(
    name: str, persist: bool = False, comment: bool = True, mods: Any = None
) -> dict[str, Any]:
    """
    Modules are not loaded.

    persist
        Nor after the next boot.
    comment
        Comment them out where they are asked for, rather than remove them there.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": ""}
    wanted = list(mods if isinstance(mods, (list, tuple)) else [name])
    loaded = set(__salt__["kmod.mod_list"]())
    if persist:
        loaded |= set(__salt__["kmod.mod_list"](True))
    there = [one for one in dict.fromkeys(wanted) if one in loaded]
    if not there:
        said = _modules(
            wanted, "Kernel module {} is already removed", "Kernel modules {} are already removed"
        )
    elif __opts__["test"]:
        ret["result"] = None
        said = _modules(
            there,
            "Kernel module {} is set to be removed",
            "Kernel modules {} are set to be removed",
        )
    else:
        good, idle, failed = _each(
            there, lambda mod: __salt__["kmod.remove"](mod, persist, comment), "removed", ret
        )
        said = _modules(good, "Removed kernel module {}", "Removed kernel modules {}")
        said += _modules(
            idle, "Failed to remove kernel module {}", "Failed to remove kernel modules {}"
        )
        said += [f"Failed to remove kernel module {mod}: {text}" for mod, text in failed]
    ret["comment"] = "\n".join(said)
    return ret
