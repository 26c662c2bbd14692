"""
What is known of the acts of others, without gaps: a version vector.

A source numbers its acts: it is a stream of a log, or a replica of a share. Knowledge is a plain
map from a source to the number up to which everything is known; a source that is not in it is not
known at all (0). Knowledge only grows, and two pieces of it are joined by taking the larger number
of each source.

After Parker and others, "Detection of Mutual Inconsistency in Distributed Systems" (1983); dots are
those of Almeida and others, "Scalable and Accurate Causality Tracking for Eventually Consistent
Stores" (2014).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Dot(NamedTuple, Generic[S]):
    """
    The name of one act of a source.

    @ivar number: 1 for the first; 0 is none: the merged state of several.
    """

    source: S
    number: int


def knows(knowledge: Mapping[S, int], dot: Dot[S]) -> bool:
    """Whether this one is known."""
    return knowledge.get(dot.source, 0) >= dot.number


def covers(knowledge: Mapping[S, int], other: Mapping[S, int]) -> bool:
    """Whether everything in C{other} is known."""
    return all(knowledge.get(source, 0) >= number for source, number in other.items())


def joined(*parts: Mapping[S, int]) -> dict[S, int]:
    """What is known when all of these are."""
    result: dict[S, int] = {}
    for part in parts:
        for source, number in part.items():
            if number > result.get(source, 0):
                result[source] = number
    return result


def count_missing(knowledge: Mapping[S, int], other: Mapping[S, int]) -> int:
    """How many dots of C{other} are not known."""
    return sum(max(0, number - knowledge.get(source, 0)) for source, number in other.items())


def beyond(knowledge: Mapping[S, int], before: Mapping[S, int]) -> dict[S, int]:
    """The part of C{knowledge} that was not in C{before}."""
    return {source: n for source, n in knowledge.items() if n > before.get(source, 0)}
