"""
Events of minions that match a reaction, from their acknowledgement to their end.

A node that acknowledges an event owes a reaction to it. So the event is recorded first: by the node
that received it from the minion, and by the nodes that are linked to it. The record is deleted when
its reaction is claimed, because the claim then says what will be done, or when it is reported as
lost. When a life of a node is over, other nodes take over its records.

L{Shelf} has the records of one node. It has no clock, no disk and no links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from saltwisted.errors import WireError

MOST, MOST_BYTES = 100_000, 256 * 1024 * 1024
"""Events that are kept at a time, and bytes of them; beyond it no more are acknowledged."""
PATIENCE = 2.0
"""Seconds without a link after which a node is taken for dead here: it may dial again at once."""
TURN = 3.0
"""Seconds that a node has for what it takes up, before the next one does it as well."""

Id = tuple[str, int, int]
"""Source, number and part: what an event is known by on all nodes."""


@frozen(kw_only=True)
class Kept:
    """
    A recorded event.

    @ivar source: the node that received it, and in which of its lives: C{node#life}.
    @ivar number: counts the events of that life.
    @ivar part: the entry that is handled separately (L{part_of}); 0 for all others together.
    @ivar key: what is claimed for it.
    @ivar at: time of day when it was recorded, by the clock of the node that has the row.
    @ivar heard: the same by the monotonic clock of this life; C{None}: in an earlier life.
    @ivar data: the event's data, packed.
    """

    source: str
    number: int
    part: int
    minion: str
    tag: str
    key: str
    at: float
    data: bytes = field(repr=False)
    heard: float | None = field(default=None, eq=False, repr=False)

    @property
    def id(self) -> Id:
        """What it is known by."""
        return self.source, self.number, self.part

    @property
    def row(self) -> str:
        """What distinguishes the event from all others."""
        return f"{self.source}/{self.number}"

    @property
    def node(self) -> str:
        """The node that took it."""
        return self.source.rpartition("#")[0]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 200 + len(self.tag) + len(self.key) + len(self.data)

    def told(self) -> list[Any]:
        """For another node."""
        return [self.source, self.number, self.part, self.minion, self.tag, self.key, self.data]


@frozen(kw_only=True)
class Owed:
    """
    The rows of one event that waits for its reaction: part to row.

    @ivar is_found: whether it was taken over; a part without a row is another node's, or done.
    @ivar age: seconds since it arrived, if it was taken over.
    """

    parts: Mapping[int, Kept]
    is_found: bool = False
    age: float = 0.0

    def since(self, now: float) -> float:
        """For how many seconds it has been there: this process may have stood still meanwhile."""
        if self.is_found:
            return self.age
        heard = [kept.heard for kept in self.parts.values() if kept.heard is not None]
        return max(0.0, now - min(heard, default=now))


def part_of(entry: Any) -> int:
    """An entry with C{debounce} or C{batch} reacts by itself; all others of an event together."""
    return int(entry.number) if entry.debounce is not None or entry.batch else 0


def occasion_for(
    minion: str, tag: str, data: Mapping[str, Any], part: int
) -> tuple[str, Mapping[str, Any]]:
    """
    By which tag and data an event is claimed: an entry that goes its own way is the same event,
    and another act.
    """
    if not part:
        return tag, data
    if tag in ("minion_start", f"salt/minion/{minion}/start"):
        data = {}
    return f"{tag}/saltwisted/entry/{part}", data


def read_told(rows: Any, node: str, at: float, heard: float) -> list[Kept]:
    """
    What another node has reported, recorded at this time, by both clocks.

    @raises WireError: it is invalid, or not its own.
    """
    if not isinstance(rows, list):
        raise WireError("kept-events")
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 7:
            raise WireError("kept-events")
        source, number, part, minion, tag, key, data = row
        texts = all(isinstance(text, str) for text in (source, minion, tag, key))
        if not texts or type(number) is not int or type(part) is not int or type(data) is not bytes:
            raise WireError("kept-events")
        kept = Kept(
            source=source, number=number, part=part, minion=minion, tag=tag, key=key, at=at,
            data=data, heard=heard,
        )  # fmt: skip
        if kept.node != node:
            raise WireError("kept-events-of-another")
        found.append(kept)
    return found


def read_ids(rows: Any) -> list[Id]:
    """
    Which events a node reports as done.

    @raises WireError: it is invalid.
    """
    if not isinstance(rows, list):
        raise WireError("done-events")
    found = []
    for row in rows:
        if not isinstance(row, list) or [type(each) for each in row] != [str, int, int]:
            raise WireError("done-events")
        found.append((row[0], row[1], row[2]))
    return found


@define
class _Life:
    """
    What is kept of one life of a node.

    @ivar over: since when that life seems to be over; C{None} while it goes on.
    """

    rows: dict[tuple[int, int], Kept] = field(factory=dict)
    taken: set[tuple[int, int]] = field(factory=set)
    over: float | None = None


class Shelf:
    """
    The records of one node; times are seconds of its own monotonic clock.

    @param node: this node's id.
    @param life: the present life of this node.
    @ivar source: both.
    """

    def __init__(
        self, node: str, life: str, most: int = MOST, most_bytes: int = MOST_BYTES
    ) -> None:
        self._node = node
        self.source = f"{node}#{life}"
        self._most, self._most_bytes = most, most_bytes
        self._lives: dict[str, _Life] = {}
        self._linked: dict[str, str] = {node: self.source}
        self._count = self._bytes = self._number = 0
        # Of each minion: how many, and how many bytes
        self._of: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return self._count

    def has_room(self, rows: Sequence[Kept]) -> bool:
        """Whether so many more fit."""
        size = sum(row.size for row in rows)
        return self._count + len(rows) <= self._most and self._bytes + size <= self._most_bytes

    def has_room_of(self, minion: str, rows: Sequence[Kept]) -> bool:
        """
        Whether this minion may have so many more: it leaves as much room as it takes, however much
        that is, so there is some for whoever comes next.
        """
        count, size = self._of.get(minion, (0, 0))
        count += len(rows)
        size += sum(row.size for row in rows)
        others, others_size = self._others(minion)
        return 2 * count <= self._most - others and 2 * size <= self._most_bytes - others_size

    def _others(self, minion: str) -> tuple[int, int]:
        count, size = self._of.get(minion, (0, 0))
        return self._count - count, self._bytes - size

    def _account(self, minion: str, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        before, before_size = self._of.pop(minion, (0, 0))
        if before + count:
            self._of[minion] = before + count, before_size + size

    def next_number(self) -> int:
        """For an event that came to this node."""
        self._number += 1
        return self._number

    def put(self, rows: Iterable[Kept], now: float) -> None:
        """These are being written down."""
        for row in rows:
            life = self._lives.get(row.source)
            if life is None:
                goes_on = self._linked.get(row.node) == row.source
                life = self._lives[row.source] = _Life(over=None if goes_on else now)
            old = life.rows.get((row.number, row.part))
            if old is not None:
                self._account(old.minion, -1, -old.size)
            self._account(row.minion, 1, row.size)
            life.rows[row.number, row.part] = row

    def done(self, ids: Iterable[Id]) -> list[Id]:
        """These are owed no longer; gives back those that were kept."""
        gone = []
        for source, number, part in ids:
            life = self._lives.get(source)
            row = life.rows.pop((number, part), None) if life is not None else None
            if life is None or row is None:
                continue
            life.taken.discard((number, part))
            self._account(row.minion, -1, -row.size)
            gone.append(row.id)
            if not life.rows:
                del self._lives[source]
        return gone

    def owed_here(self) -> list[Any]:
        """
        For a linked node: this life, up to which number it has recorded events, and what it owes.
        """
        life = self._lives.get(self.source)
        rows = [list(at) for at in life.rows] if life is not None else []
        return [self.source.rpartition("#")[2], self._number, rows]

    def struck_out(self, node: str, life: str, upto: int, rows: Any) -> list[Id]:
        """
        What a node no longer owes that is linked again: this node may not have heard of it.

        @param upto: its last number; it owes what came later.
        @param rows: number and part of what it owes.
        """
        source = f"{node}#{life}"
        known = self._lives.get(source)
        if known is None:
            return []
        owed = {tuple(row) for row in rows if isinstance(row, list)}
        gone = [(source, *at) for at in known.rows if at[0] <= upto and at not in owed]
        return self.done(gone)

    def linked(self, node: str, life: str, now: float) -> None:
        """A node is linked, in this life of it: its earlier ones are over."""
        self._linked[node] = f"{node}#{life}"
        self._look(node, now)

    def unlinked(self, node: str, now: float) -> None:
        """A node is no longer linked."""
        self._linked.pop(node, None)
        self._look(node, now)

    def _look(self, node: str, now: float) -> None:
        for source, life in self._lives.items():
            if source.rpartition("#")[0] != node:
                continue
            if self._linked.get(node) == source:
                # Only the link was lost
                life.over = None
            elif life.over is None:
                life.over = now

    def due(self, now: float, place: int) -> list[Kept]:
        """
        What this node takes up now; each row once.

        @param place: how many linked nodes are before this one in the order of their names.
        """
        found: list[Kept] = []
        for source, life in self._lives.items():
            if life.over is None:
                continue
            own = source.rpartition("#")[0] == self._node
            if now < life.over + (0.0 if own else PATIENCE + TURN * place):
                continue
            found += [row for at, row in life.rows.items() if at not in life.taken]
            life.taken.update(life.rows)
        return found
