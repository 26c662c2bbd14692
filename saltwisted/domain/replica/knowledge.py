"""
Knowledge: how far each stream is known, without gaps.

A plain map from L{Stream} to the number of the last entry up to which everything is present. A
stream that is not in the map is not known at all (0). Knowledge only grows, and two pieces of it
are joined by taking the larger number of each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.domain.replica.entry import Entry, Stream, decode_stream, is_number
from saltwisted.errors import WireError

Knowledge = Mapping[Stream, int]

MAX_STREAMS = 100_000


def advance(knowledge: dict[Stream, int], entries: Iterable[Entry]) -> list[Entry]:
    """
    Add entries, in place, as far as they follow without a gap.

    @return: those that were new, in order; known ones and those beyond a gap are left out.
    """
    taken = []
    for entry in entries:
        if entry.number == knowledge.get(entry.stream, 0) + 1:
            knowledge[entry.stream] = entry.number
            taken.append(entry)
    return taken


def encode_knowledge(knowledge: Knowledge) -> list[list[Any]]:
    """C{[[node, incarnation, number], ...]}, sorted: equal knowledge is equal bytes."""
    return [[s.node, s.incarnation, n] for s, n in sorted(knowledge.items()) if n > 0]


def decode_knowledge(rows: Any) -> dict[Stream, int]:
    """
    The reverse of L{encode_knowledge}.

    @raises WireError: for anything else.
    """
    if not isinstance(rows, list) or len(rows) > MAX_STREAMS:
        raise WireError("knowledge")
    result: dict[Stream, int] = {}
    for row in rows:
        if not isinstance(row, list) or len(row) != 3 or not is_number(row[2]):
            raise WireError("knowledge")
        result[decode_stream(row[0], row[1])] = row[2]
    return result
