"""
Pieces of configuration of Debian's Apache.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states._apache_switch import switched
from saltwisted.worker import systools

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "apache.a2enconf" in __salt__ and systools.which("a2enconf"):
        return "apache_conf"
    return False, "apache module could not be loaded"


def enabled(name: str) -> dict[str, Any]:
    """
    A piece of configuration is enabled.

    name
        The piece of configuration.
    """
    return switched(__salt__, __opts__["test"], name, "conf", True)


def disabled(name: str) -> dict[str, Any]:
    """
    A piece of configuration is not enabled.

    name
        The piece of configuration.
    """
    return switched(__salt__, __opts__["test"], name, "conf", False)
