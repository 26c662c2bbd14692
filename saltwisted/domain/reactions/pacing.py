"""
How often one entry reacts: C{throttle} and C{debounce}.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.reactions.entries import Entry, Interval

MOST = 50_000
"""Kinds of events that one entry tells apart; of more, the oldest are forgotten."""
REACT, DROP, WAIT = "react", "drop", "wait"


def kind_of(interval: Interval, tag: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """What an event is paced by: the values that C{by} names, as texts."""
    return tuple(tag if path == "tag" else _value(data, path) for path in interval.by)


def _value(data: Any, path: str) -> str:
    for word in path.split(":"):
        if not isinstance(data, Mapping) or word not in data:
            return ""
        data = data[word]
    return str(data)[:500]


class Pacing:
    """What is known of the events of each entry. Time is an argument."""

    def __init__(self) -> None:
        self._last: dict[int, OrderedDict[tuple[str, ...], float]] = {}

    def judge(self, entry: Entry, tag: str, data: Mapping[str, Any], now: float) -> str:
        """
        Whether an event is reacted to now, not at all, or when its kind has been quiet.
        """
        interval = entry.throttle or entry.debounce
        if interval is None:
            return REACT
        if entry.debounce is not None:
            return WAIT
        kind = kind_of(interval, tag, data)
        seen = self._last.setdefault(entry.number, OrderedDict())
        before = seen.get(kind)
        if before is not None and 0 <= now - before < interval.seconds:
            return DROP
        self._note(seen, kind, now)
        return REACT

    @staticmethod
    def _note(seen: OrderedDict[tuple[str, ...], float], kind: tuple[str, ...], now: float) -> None:
        seen[kind] = now
        seen.move_to_end(kind)
        while len(seen) > MOST:
            seen.popitem(last=False)
