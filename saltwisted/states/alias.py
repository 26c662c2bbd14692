"""
Aliases of mail.
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any


def present(name: str, target: Any) -> dict[str, Any]:
    """
    An alias has this target, or this list of targets, and no other.

    name
        The alias.
    target
        Where its mail goes.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    if __salt__["aliases.has_target"](name, target):
        return {**ret, "comment": f"Alias {name} already present"}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Alias {name} -> {target} is set to be added"}
    if __salt__["aliases.set_target"](name, target):
        ret["changes"] = {"alias": name}
        return {**ret, "comment": f"Set email alias {name} -> {target}"}
    return {**ret, "result": False, "comment": f"Failed to set alias {name} -> {target}"}


def absent(name: str) -> dict[str, Any]:
    """
    An alias is not there.

    name
        The alias.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    if not __salt__["aliases.get_target"](name):
        return {**ret, "comment": f"Alias {name} already absent"}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Alias {name} is set to be removed"}
    if __salt__["aliases.rm_alias"](name):
        return {**ret, "changes": {"alias": name}, "comment": f"Removed alias {name}"}
    return {**ret, "result": False, "comment": f"Failed to remove alias {name}"}
