"""
Undefined values inside containers.

A strict undefined value hidden in a list or map would reach a serialiser, which knows nothing of
it. Filters that walk data check first, and return an undefined value that names all of them, so
that the template fails with the right message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined


def undefined_in(value: Any) -> list[StrictUndefined]:
    """Every strict undefined in a nested value, cycles allowed."""
    found: list[StrictUndefined] = []
    if isinstance(value, (str, int)) or value is None:
        return found
    seen: set[int] = set()

    def walk(item: Any) -> None:
        if id(item) in seen:
            return
        seen.add(id(item))
        if isinstance(item, StrictUndefined):
            found.append(item)
        elif isinstance(item, Mapping):
            for key, inner in item.items():
                walk(key)
                walk(inner)
        elif isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
            for inner in item:
                walk(inner)

    walk(value)
    return found


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that turns undefined parts of its first argument into an undefined answer."""

    @wraps(function)
    def guarded(value: Any, *args: Any, **kwargs: Any) -> Any:
        found = undefined_in(value)
        if found:
            return StrictUndefined("\n".join(str(u._undefined_message) for u in found))
        return function(value, *args, **kwargs)

    return guarded
