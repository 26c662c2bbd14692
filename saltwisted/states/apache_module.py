"""
Modules of Debian's Apache.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states._apache_switch import switched

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "apache.a2enmod" in __salt__:
        return "apache_module"
    return False, "apache module could not be loaded"


def enabled(name: str) -> dict[str, Any]:
    """
    A module is enabled.

    name
        The module.
    """
    return switched(__salt__, __opts__["test"], name, "mod", True)


def disabled(name: str) -> dict[str, Any]:
    """
    A module is not enabled.

    name
        The module.
    """
    return switched(__salt__, __opts__["test"], name, "mod", False)
