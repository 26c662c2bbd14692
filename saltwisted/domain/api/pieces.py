"""
JSON in pieces: a large answer is made bit by bit, so that nothing else waits for it.

What comes out, put together, is what C{json.dumps} makes of the whole. A piece is at most about
C{PIECE} values, or C{TEXT} characters of one text, so that each takes a fraction of a millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

PIECE = 500
TEXT = 65_536

_encode = json.JSONEncoder(ensure_ascii=False).encode


class NotJson(ValueError):
    """A value that JSON has no words for."""


def pieces(value: Any) -> Iterator[str]:
    """
    The document, in pieces.

    @raises NotJson: something in it is no JSON.
    """
    if is_small(value):
        yield _whole(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), TEXT):
            yield _whole(value[start : start + TEXT])[1:-1]
        yield '"'
    elif isinstance(value, Mapping):
        yield from _map(value)
    elif isinstance(value, (list, tuple)):
        yield "["
        yield from _items([], value)
        yield "]"
    else:
        yield _whole(value)


def _map(value: Mapping[Any, Any]) -> Iterator[str]:
    yield "{"
    first = True
    for key, item in value.items():
        # The key as a map of one would have it: numbers and the like become text
        name = _whole({key: 0})[1:-4]
        yield f"{name}: " if first else f", {name}: "
        first = False
        yield from pieces(item)
    yield "}"


def _items(run: list[Any], value: Any) -> Iterator[str]:
    """Small items of a list go together, since each piece costs something too."""
    first = True
    for item in value:
        if len(run) < PIECE and not isinstance(item, (Mapping, list, tuple)) and is_small(item):
            run.append(item)
            continue
        if run:
            yield ("" if first else ", ") + _whole(run)[1:-1]
            first, run = False, []
        if not first:
            yield ", "
        first = False
        yield from pieces(item)
    if run:
        yield ("" if first else ", ") + _whole(run)[1:-1]


def _whole(value: Any) -> str:
    try:
        return _encode(_plain(value) if _has_odd(value) else value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def is_small(value: Any, most: int = PIECE) -> bool:
    """Whether so few values and characters are in it that it is one piece."""
    left = most
    characters = TEXT
    waiting = [value]
    while waiting:
        each = waiting.pop()
        left -= 1
        if isinstance(each, str):
            characters -= len(each)
        elif isinstance(each, Mapping):
            left -= len(each)
            if left >= 0:
                waiting.extend(each.values())
        elif isinstance(each, (list, tuple)):
            left -= len(each)
            if left >= 0:
                waiting.extend(each)
        if left < 0 or characters < 0:
            return False
    return True


def _has_odd(value: Any) -> bool:
    """Whether bytes are in it, which msgpack can carry and JSON cannot."""
    if isinstance(value, bytes):
        return True
    if isinstance(value, Mapping):
        return any(map(_has_odd, value.values())) or any(isinstance(k, bytes) for k in value)
    return isinstance(value, (list, tuple)) and any(map(_has_odd, value))


def _plain(value: Any) -> Any:
    """The same with text in the place of bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
