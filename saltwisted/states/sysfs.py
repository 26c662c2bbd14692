"""
Attributes of the kernel's objects.
"""

from __future__ import annotations

import re
from typing import Any

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "sysfs.attr" in __salt__:
        return True
    return False, "sysfs module could not be loaded"


def present(name: str, value: Any, config: Any = None) -> dict[str, Any]:
    """
    An attribute has a value.

    name
        The attribute, below C{/sys}.
    value
        The value.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": ""}
    current = __salt__["sysfs.read"](name)
    if current is False:
        return {**ret, "result": False, "comment": f"SysFS attribute {name} doesn't exist."}
    if isinstance(current, dict):
        return {**ret, "result": False, "comment": f"{name} is not a SysFS attribute."}
    if isinstance(current, str):
        # Some say all that is possible, and have what is chosen in brackets.
        current = re.sub(r"(.*\[|\].*)", "", current)
    if value == current:
        return {**ret, "comment": f"SysFS attribute {name} is already set."}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"SysFS attribute {name} set to be changed."}
    if not __salt__["sysfs.write"](name, value):
        return {**ret, "result": False, "comment": f"Failed to set {name} to {value}"}
    comment = f"Updated SysFS attribute {name} to {value}"
    return {**ret, "changes": {name: value}, "comment": comment}
