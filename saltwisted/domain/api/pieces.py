"""
JSON in pieces: a large answer is encoded bit by bit, so that nothing else waits for it.

Joined together, the pieces are what C{json.dumps} makes of the whole value. A piece is at most
about C{PIECE} values, or C{TEXT} characters of text, so that each takes a fraction of a
millisecond. Small values are combined with their neighbours, because each piece has a cost too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

PIECE = 500
TEXT = 65_536
_SHARE = TEXT // PIECE
"""Characters that count as much as a value."""


class NotJson(ValueError):
    """A value that JSON cannot represent."""


class Weighed(dict[Any, Any]):
    """
    A map whose weight is known, because it is sent again and again, and whose JSON is kept. It must
    not be changed, nor what is in it.

    @ivar weight: the number of values for which it counts.
    """

    __slots__ = ("_text", "weight")
    weight: int

    def text(self) -> str:
        """
        Its JSON.

        @raises NotJson: something in it is no JSON.
        """
        try:
            return self._text
        except AttributeError:
            self._text: str = _whole(self)
            return self._text


def weighed(value: dict[Any, Any]) -> dict[Any, Any]:
    """
    The same map, weighed once for all; a map too small to be a piece by itself stays unchanged.
    """
    left = room_after(value)
    if left < 0:
        return value
    made = Weighed(value)
    made.weight = PIECE - left
    return made


def pieces(value: Any) -> Iterator[str]:
    """
    The document, in pieces.

    @raises NotJson: something in it cannot be JSON.
    """
    if room_after(value) >= 0:
        yield _whole(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), TEXT):
            yield _whole(value[start : start + TEXT])[1:-1]
        yield '"'
    elif isinstance(value, bytes):
        yield from pieces(value.decode("utf-8", "replace"))
    elif isinstance(value, Mapping):
        yield from _map(value)
    elif isinstance(value, (list, tuple)):
        yield from _list(value)
    else:
        yield _whole(value)


def _map(value: Mapping[Any, Any]) -> Iterator[str]:
    run: dict[Any, Any] = {}
    lead, room, made = "{", PIECE, 0
    for key, item in value.items():
        left = room_after(item, room) - 1 - key_weight(key)
        if left < 0 and run:
            yield lead + _items(run, made)
            lead, run, made = ", ", {}, 0
            left = room_after(item) - 1 - key_weight(key)
        if left >= 0:
            run[key] = item
            made += type(item) is Weighed
            room = left
            continue
        # The key as a map of one would have it: numbers and the like become text
        yield ("{" if lead == "{" else ", ") + _whole({key: 0})[1:-2]
        yield from pieces(item)
        lead, room = ", ", PIECE
    if run:
        yield lead + _items(run, made)
    yield "}"


def _items(run: Mapping[Any, Any], made: int) -> str:
    """
    The inside of a map.

    @param made: how many of its values have their JSON already.
    """
    if made < len(run):
        return _whole(run)[1:-1]
    texts = [
        f"{_quoted(key) if type(key) is str else _whole({key: 0})[1:-4]}: {item.text()}"
        for key, item in run.items()
    ]
    return ", ".join(texts)


def _list(value: Any) -> Iterator[str]:
    run: list[Any] = []
    lead, room = "[", PIECE
    for item in value:
        left = room_after(item, room) - 1
        if left < 0 and run:
            yield lead + _whole(run)[1:-1]
            lead, run = ", ", []
            left = room_after(item) - 1
        if left >= 0:
            run.append(item)
            room = left
            continue
        yield lead
        yield from pieces(item)
        lead, room = ", ", PIECE
    if run:
        yield lead + _whole(run)[1:-1]
    yield "]"


def room_after(value: Any, room: int = PIECE) -> int:
    """
    What is left of a room for so many values when this one is in it; below 0, it does not fit.

    Long texts count as several. It looks at no more than fits.
    """
    waiting: list[Any] = [(value,)]
    while waiting and room >= 0:
        for each in waiting.pop():
            kind = type(each)
            if kind is str or kind is bytes:
                room -= 1 + len(each) // _SHARE
            elif kind is dict:
                room -= 1 + len(each)
                if room >= 0:
                    room -= _keys_weight(each)
                    waiting.append(each.values())
            elif kind is list:
                room -= 1 + len(each)
                if room >= 0:
                    waiting.append(each)
            elif kind is Weighed:
                room -= each.weight
            elif kind in _PLAIN:
                # Asking whether it is a Mapping takes longer than all of the above
                room -= 1
            else:
                room -= 1 + _inside(each, waiting)
    return room


_PLAIN = frozenset((int, float, bool, type(None)))


def _inside(value: Any, waiting: list[Any]) -> int:
    """Have what is in a value looked at, where it is of an unusual kind; how much that is."""
    if isinstance(value, Mapping):
        waiting.append(value.values())
        return len(value) + _keys_weight(value)
    if isinstance(value, (list, tuple)):
        waiting.append(value)
        return len(value)
    return 0


def _keys_weight(keys: Mapping[Any, Any]) -> int:
    try:
        return len("".join(keys)) // _SHARE
    except TypeError:
        return sum(map(key_weight, keys))


def key_weight(key: Any) -> int:
    """As how many values the text of a key counts."""
    return len(key) // _SHARE if type(key) is str else 0


def _default(value: Any) -> Any:
    """What stands for a value that JSON has no words for: text for bytes, which msgpack has."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} is no JSON")


_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, default=_default).encode


def _whole(value: Any) -> str:
    try:
        try:
            return _encode(value)
        except TypeError:
            return _encode(_plain(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def _plain(value: Any) -> Any:
    """The same with text in the place of bytes, and maps that are Python's own."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
