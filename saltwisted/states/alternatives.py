"""
Alternatives: which of several programs a common name stands for.

Stock Salt has these states up to 3006.
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any
__func_alias__ = {"set_": "set"}


def __virtual__() -> Any:
    if "alternatives.auto" in __salt__:
        return True
    return False, "alernatives module could not be loaded"


def install(name: str, link: str, path: str, priority: Any) -> dict[str, Any]:
    """
    A path is registered for a name.

    link
        The common name in the file system.
    priority
        Which is chosen when nobody chooses: the highest.
    """
    named = {"name": name, "link": link, "path": path, "priority": priority}
    ret: dict[str, Any] = {**named, "result": True, "changes": {}, "comment": ""}
    if __salt__["alternatives.check_exists"](name, path):
        ret["comment"] = f"Alternative {path} for {name} is already registered"
        return ret
    if __opts__["test"]:
        ret["comment"] = f"Alternative will be set for {name} to {path} with priority {priority}"
        ret["result"] = None
        return ret
    output = __salt__["alternatives.install"](name, link, path, priority)
    if not __salt__["alternatives.check_exists"](name, path):
        ret["result"] = False
        ret["comment"] = f"Alternative for {name} not installed: {output}"
        return ret
    if __salt__["alternatives.check_installed"](name, path):
        ret["comment"] = f"Alternative for {name} set to path {path} with priority {priority}"
    else:
        ret["comment"] = (
            f"Alternative {path} for {name} registered with priority {priority} and not set to"
            " default"
        )
    ret["changes"] = named
    return ret


def remove(name: str, path: str) -> dict[str, Any]:
    """
    A path is not registered for a name.
    """
    ret: dict[str, Any] = {
        "name": name,
        "path": path,
        "result": True,
        "changes": {},
        "comment": "",
    }
    if not __salt__["alternatives.check_exists"](name, path):
        current = __salt__["alternatives.show_current"](name)
        ret["result"] = bool(current)
        ret["comment"] = (
            f"Alternative for {name} is set to it's default path {current}"
            if current
            else f"Alternative for {name} doesn't exist"
        )
        return ret
    if __opts__["test"]:
        ret["comment"] = f"Alternative for {name} will be removed"
        ret["result"] = None
        return ret
    __salt__["alternatives.remove"](name, path)
    current = __salt__["alternatives.show_current"](name)
    ret["comment"] = f"Alternative for {name} removed"
    if current:
        ret["comment"] += f". Falling back to path {current}"
        ret["changes"] = {"path": current}
    return ret


def auto(name: str) -> dict[str, Any]:
    """
    A name stands for the path with the highest priority.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "comment": "", "changes": {}}
    if __salt__["alternatives.display"](name).splitlines()[0].endswith(" auto mode"):
        ret["comment"] = f"{name} already in auto mode"
    elif __opts__["test"]:
        ret["comment"] = f"{name} will be put in auto mode"
        ret["result"] = None
    else:
        ret["changes"]["result"] = __salt__["alternatives.auto"](name)
    return ret


def set_(name: str, path: str) -> dict[str, Any]:
    """
    A name stands for this path, which is registered for it.
    """
    ret: dict[str, Any] = {
        "name": name,
        "path": path,
        "result": True,
        "changes": {},
        "comment": "",
    }
    if __salt__["alternatives.show_current"](name) == path:
        ret["comment"] = f"Alternative for {name} already set to {path}"
        return ret
    lines = __salt__["alternatives.display"](name).splitlines()
    if not any(line.startswith(path) for line in lines):
        ret["result"] = False
        ret["comment"] = f"Alternative {path} for {name} doesn't exist"
        return ret
    if __opts__["test"]:
        ret["comment"] = f"Alternative for {name} will be set to path {path}"
        ret["result"] = None
        return ret
    __salt__["alternatives.set"](name, path)
    current = __salt__["alternatives.show_current"](name)
    if current == path:
        ret["comment"] = f"Alternative for {name} set to path {current}"
        ret["changes"] = {"path": current}
    else:
        ret["comment"] = f"Alternative for {name} not updated"
    return ret
