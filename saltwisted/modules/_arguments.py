"""
The arguments of a function that has many, handed on to what does its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import fields


def taken(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a call's arguments, C{locals()} where it begins, those that a class has fields for."""
    wanted = (each.name for each in fields(cls) if each.init)
    return {name: given[name] for name in wanted if name in given}


def picked(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Arguments by their names."""
    return {name: given[name] for name in names}
