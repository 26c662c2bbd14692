"""
Aggregation: data with a mark that it wants to be merged.

yamlex documents mark maps and lists with C{!aggregate}. If two such values meet, they are joined
instead of replaced. The C{aggregate} merge strategy uses the same rule with everything marked on
the first level.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any


class Aggregate:
    """Mark of a value that is joined with values of its kind."""


class AggregatedMap(OrderedDict[Any, Any], Aggregate):
    """A map that keeps the keys of both sides."""


class AggregatedSequence(list[Any], Aggregate):
    """A list that adds items that it does not have yet."""


def marked(value: Any, maps: type, lists: type) -> Any:
    """The value as an aggregate; a scalar becomes a list of one."""
    if isinstance(value, Aggregate):
        return value
    if isinstance(value, dict):
        return maps(value)
    if isinstance(value, (list, tuple, set)):
        return lists(value)
    return lists([value])


def merge_aggregated(
    older: Any,
    newer: Any,
    level: int | bool = False,
    maps: type = AggregatedMap,
    lists: type = AggregatedSequence,
) -> Any:
    """
    C{newer} over C{older}, joining what is marked.

    @param level: how many levels count as marked without being so; C{True}: all.
    """
    if level:
        older = marked(older, maps, lists)
        newer = marked(newer, maps, lists)
    below: int | bool = level if isinstance(level, bool) else max(level - 1, 0)
    if isinstance(older, dict) and isinstance(newer, dict):
        both = isinstance(older, Aggregate) and isinstance(newer, Aggregate)
        result = copy.copy(older if both else newer)
        for key, value in newer.items():
            if key in older:
                value = merge_aggregated(older[key], value, below, maps, lists)
            result[key] = value
        return result
    if isinstance(older, AggregatedSequence) and isinstance(newer, AggregatedSequence):
        joined = older.__class__(older)
        joined.extend(item for item in newer if item not in older)
        return joined
    return copy.copy(newer)
