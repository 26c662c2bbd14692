"""
Sites of Debian's Apache.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states._apache_switch import switched

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "apache.a2ensite" in __salt__:
        return "apache_site"
    return False, "apache module could not be loaded"


def enabled(name: str) -> dict[str, Any]:
    """
    A site is enabled.

    name
        The site.
    """
    return switched(__salt__, __opts__["test"], name, "site", True)


def disabled(name: str) -> dict[str, Any]:
    """
    A site is not enabled.

    name
        The site.
    """
    return switched(__salt__, __opts__["test"], name, "site", False)
