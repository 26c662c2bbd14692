"""
Which parts of a pillar can be sent: plain data without loops.

Modules put anything into a pillar: C{__opts__}, objects, maps that contain themselves. Stock writes
C{<Recursion on dict with id=...>} for a loop, and sends a minion nothing at all if there is an
object. Here a loop is named in the same way (without the number, which would change each time), and
an object only costs its own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.wire.msgpack import MAX_DEPTH, pack
from saltwisted.wire.text import HALVES, escaped

_LEFT_OUT = object()


def sendable(value: Any) -> tuple[Any, list[str]]:
    """
    The value itself if it can be sent; else a copy of what can.

    @return: the value, and the reason for each key that is left out.
    """
    try:
        pack(value)
    except TypeError:
        problems: list[str] = []
        kept = _copy(value, (), (), problems)
        return (None if kept is _LEFT_OUT else kept), problems
    return value, []


def _copy(value: Any, above: tuple[int, ...], keys: tuple[str, ...], problems: list[str]) -> Any:
    is_map = isinstance(value, Mapping)
    if is_map or isinstance(value, (list, tuple, set, frozenset)):
        if id(value) in above:
            return f"<Recursion on {type(value).__name__}>"
        if len(above) >= MAX_DEPTH:
            problems.append(_told(keys[:4], "nested too deeply"))
            return _LEFT_OUT
        here = (*above, id(value))
        if is_map:
            found = {}
            for key in list(value):
                name = (*keys, str(key))
                if not isinstance(key, (bytes, int, type(None))) and not _is_sent(key):
                    problems.append(_told((*keys, "a key"), _why(key)))
                    continue
                kept = _copy(value[key], here, name, problems)
                if kept is not _LEFT_OUT:
                    found[key] = kept
            return found
        items = [_copy(one, here, (*keys, str(at)), problems) for at, one in enumerate(value)]
        return [one for one in items if one is not _LEFT_OUT]
    if _is_sent(value):
        return value
    problems.append(_told(keys, _why(value)))
    return _LEFT_OUT


def _is_sent(value: Any) -> bool:
    try:
        pack(value)
    except TypeError:
        return False
    return True


def _why(value: Any) -> str:
    """What is wrong with a value that cannot be sent."""
    return HALVES if isinstance(value, str) else type(value).__name__


def _told(keys: tuple[str, ...], why: str) -> str:
    return escaped(f"{':'.join(keys) or 'the whole pillar'} cannot be sent: {why}")
