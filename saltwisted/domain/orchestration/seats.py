"""
The seats of a run: the members on whose disks its lines count.

They are recorded in the run itself, in its first line and wherever they change. The latest that a
writer has written apply to that writer. So a node that takes a run over finds in its lines which
members it has to ask: it does not matter which members it knows, nor which have joined meanwhile.
When the members change, the seats follow in two lines. After the first one, a majority of the old
seats and one of the new ones are needed. The second one has only the new seats, and is written when
the first one counts. That is the joint consensus of Raft (Ongaro and Ousterhout 2014, section 6),
for one run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from saltwisted.domain.claims.electorate import (
    PAIR,
    Electorate,
    Seat,
    decode_electorate,
    encode_electorate,
    found,
)
from saltwisted.domain.orchestration.words import unpack_line

SEATS = "seats"
_NAMED = (b"\xa4what\xa5begun", b"\xa4what\xa5seats")
"""How packed lines begin that may name seats: the others need not be unpacked."""


def with_seats(line: Mapping[str, Any], seats: Electorate) -> dict[str, Any]:
    """The first line of a run, with its first seats."""
    return {**line, SEATS: encode_electorate(seats)}


def seats_line(seats: Electorate) -> dict[str, Any]:
    """The seats change."""
    return {"what": SEATS, SEATS: encode_electorate(seats)}


def seats_of(lines: Sequence[bytes]) -> tuple[Electorate | None, int]:
    """
    The latest seats, and how many lines there are up to those that name them; C{None} for a run
    that names none.

    @raises WireError: the line that names them is invalid.
    """
    for number in range(len(lines), 0, -1):
        packed = lines[number - 1]
        if packed[1:].startswith(_NAMED):
            seats = decode_electorate(unpack_line(packed).get(SEATS))
            if seats is not None:
                return seats, number
    return None, 0


def enough(
    have: Collection[str],
    seats: Electorate,
    linked: Collection[str],
    gone: Collection[str] = (),
    two: str = PAIR,
) -> bool:
    """
    Whether a line counts that these have; or, whether enough members have been asked.

    Of two seats, neither is a majority. The first by name must be among them, as for a claim
    (L{saltwisted.domain.claims.electorate}), and the other one while it is linked.

    @param have: keys.
    @param linked: the keys of those that can be reached now.
    @param gone: the keys of members that were removed or declared dead.
    @param two: the rule for two seats: C{pair} or C{both}.
    """
    if not seats.is_majority(have, gone, two):
        return False
    pairs = [each for each in seats.sets if len(each) == 2]
    near = {seat.key for pair in pairs for seat in pair if seat.key not in gone} & set(linked)
    return near <= set(have)


def next_seats(
    seats: Electorate,
    counts: bool,
    members: Iterable[Seat],
    whole: Collection[str],
    gone: Collection[str],
) -> Electorate | None:
    """
    The next step towards the present members, or C{None} when there is none to take now.

    A newcomer gets a seat when it has all lines: until then its silence could keep the
    others from a majority.

    @param counts: whether the line counts that the present seats are named in.
    @param whole: the keys of those that have all lines.
    """
    members = list(members)
    if seats.is_gone(gone):
        # Nothing would ever count again
        return found(members, seats) if members else None
    if not counts:
        return None
    return seats.next(each for each in members if seats.has(each.key) or each.key in whole)
