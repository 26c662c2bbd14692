"""
Who has a vote, and what a majority is.

A majority is one of all members, alive or not; only members that were removed or declared dead do
not count. Nodes do not learn of a joining node at the same moment, and two halves of a cut cluster
can both admit nodes. So the voting members are not simply those that a node happens to know, but an
I{electorate}, which has a number (its epoch), and is changed by a claim that a majority of the
present one has to grant. While it changes, a majority of the old members and one of the new ones
are needed (as in Raft's joint consensus), for as long as anything lives that was granted before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attrs import frozen

from saltwisted.errors import WireError

PAIR, BOTH, ETCD = MODES = "pair", "both", "etcd"
"""What C{claims} may say: how two members decide, or that nobody votes."""
MOST_SEATS = 256


@frozen
class Seat:
    """
    A member that votes. Seats are ordered by node, then by key.

    @ivar key: the key by which it is known; a node that was rebuilt has another one.
    """

    node: str
    key: str

    def __lt__(self, other: Seat) -> bool:
        # Seats are sorted in each message: what attrs makes takes six times as long
        return (self.node, self.key) < (other.node, other.key)


Seats = tuple[Seat, ...]


@frozen
class Electorate:
    """
    @ivar epoch: counts the changes.
    @ivar sets: one set of members, sorted by name; during a change, the old one and the new one.
    """

    epoch: int
    sets: tuple[Seats, ...]

    @property
    def changes(self) -> bool:
        """Whether two majorities are needed."""
        return len(self.sets) > 1

    def seats(self) -> list[Seat]:
        """All that may vote."""
        return sorted({seat for seats in self.sets for seat in seats})

    def is_gone(self, gone: Collection[str]) -> bool:
        """Whether one of its sets has no member left: then it can decide nothing any more."""
        return any(all(seat.key in gone for seat in seats) for seats in self.sets)

    def may_forget(self, gone: Collection[str], two: str = PAIR) -> bool:
        """
        Whether the members that are gone had a majority without the others, who may then know
        nothing of what they granted.
        """
        return any(
            _is_majority(seats, {seat.key for seat in seats if seat.key in gone}, (), two)
            for seats in self.sets
        )

    def has(self, key: str) -> bool:
        """Whether somebody has a vote."""
        return any(seat.key == key for seats in self.sets for seat in seats)

    def next(self, wanted: Iterable[Seat]) -> Electorate | None:
        """The step towards these members, or C{None} when there is none to take."""
        if self.changes:
            return Electorate(self.epoch + 1, self.sets[1:])
        seats = tuple(sorted(set(wanted)))
        if not seats or seats == self.sets[0]:
            return None
        return Electorate(self.epoch + 1, (self.sets[0], seats))

    def is_majority(self, keys: Collection[str], gone: Collection[str], two: str = PAIR) -> bool:
        """
        Whether these together may grant.

        @param gone: members that were removed or declared dead.
        @param two: the rule for two members: C{pair} or C{both}.
        """
        return all(_is_majority(seats, keys, gone, two) for seats in self.sets)

    def arbiter(self) -> Seat | None:
        """Of two members the first by name, without which nothing is granted."""
        pairs = [seats for seats in self.sets if len(seats) == 2]
        return pairs[0][0] if pairs else None


def _is_majority(seats: Seats, keys: Collection[str], gone: Collection[str], two: str) -> bool:
    left = [seat.key for seat in seats if seat.key not in gone]
    have = len([key for key in left if key in keys])
    if len(seats) == 2 and len(left) == 2:
        # The rule is for a cluster of two, not for what is left of a larger one: there, others may
        # have granted something
        return have > 0 if two == BOTH else left[0] in keys
    return have * 2 > len(left)


def found(seats: Iterable[Seat], before: Electorate | None = None) -> Electorate:
    """The first one, or the first one after all that had a vote are gone."""
    epoch = 1 if before is None else before.epoch + 1
    return Electorate(epoch, (tuple(sorted(set(seats))),))


def encode_electorate(electorate: Electorate | None) -> Any:
    """As plain data."""
    if electorate is None:
        return None
    sets = [[[seat.node, seat.key] for seat in seats] for seats in electorate.sets]
    return [electorate.epoch, sets]


def decode_electorate(value: Any) -> Electorate | None:
    """
    The reverse.

    @raises WireError: it is none.
    """
    if value is None:
        return None
    try:
        epoch, sets = value
        if type(epoch) is not int or epoch < 1 or len(sets) not in (1, 2):
            raise WireError("electorate")
        return Electorate(epoch, tuple(_seats(seats) for seats in sets))
    except (TypeError, ValueError) as error:
        raise WireError("electorate") from error


def _seats(value: Sequence[Any]) -> Seats:
    if not 0 < len(value) <= MOST_SEATS:
        raise WireError("electorate-size")
    seats = []
    for node, key in value:
        if not isinstance(node, str) or not isinstance(key, str) or len(node) + len(key) > 512:
            raise WireError("electorate-seat")
        seats.append(Seat(node, key))
    return tuple(sorted(seats))
