"""
States of the renderer C{stateconf}, which do nothing themselves.
"""

from __future__ import annotations

from typing import Any

__func_alias__ = {"set_": "set"}


def set_(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Arguments that the renderer gives to templates as variables, under the id of this state.

    name
        The id.
    """
    return {"name": name, "result": True, "changes": {}, "comment": ""}


def context(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    The same.

    name
        The id.
    """
    return set_(name, **kwargs)
