"""
What the states of MySQL and MariaDB have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Ret = dict[str, Any]


def loadable(salt: Mapping[str, Any], function: str) -> Any:
    """C{__virtual__} of a state that needs this function."""
    return True if f"mysql.{function}" in salt else (False, "mysql module could not be loaded")


def new(name: str, comment: str = "") -> Ret:
    """A state that found nothing to do."""
    return {"name": name, "changes": {}, "result": True, "comment": comment}


def error(context: dict[str, Any]) -> str | None:
    """What the server said last, once."""
    found = context.pop("mysql.error", None)
    return None if found is None else str(found)


def with_error(context: dict[str, Any], comment: str) -> str:
    """A comment, and what the server said."""
    said = error(context)
    return comment if said is None else f"{comment} ({said})"


def failed(ret: Ret, comment: str) -> Ret:
    """What could not be done."""
    return {**ret, "result": False, "comment": comment}


def planned(ret: Ret, comment: str) -> Ret:
    """What would be done."""
    return {**ret, "result": None, "comment": comment}


def done(ret: Ret, comment: str, changes: Any) -> Ret:
    """What was done with the thing that the state names."""
    return {**ret, "comment": comment, "changes": {ret["name"]: changes}}
