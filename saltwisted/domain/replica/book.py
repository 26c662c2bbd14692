"""
One node's side of a replicated log, in memory: numbers, knowledge, folds and the clock.

The owner of the disk (C{stores/facts/log.py}, or a simulated disk) writes what L{Book} hands out,
and tells it when that is done. Own entries are in the folds at once, so that the next one can take
them into account, but are known (and sent to others) only when they are on disk. Entries of others
are on disk before they are in the folds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from saltwisted.domain.causality.clock import HybridClock, latest_stamp
from saltwisted.domain.causality.knowledge import joined
from saltwisted.domain.replica.entry import Entry, Stream, pack_fields
from saltwisted.domain.replica.fold import Fact, Folds
from saltwisted.domain.replica.knowledge import Knowledge, advance


class Book:
    """
    The head of a log.

    @ivar stream: what this node appends to now.
    @ivar last: the number of the newest own entry, on disk or not.
    @ivar proven: how far some other node has the present stream on disk.
    @ivar partial: whether a whole state is being received: folds are ahead of the knowledge.
    """

    def __init__(self, node: str, incarnation: str, folds: Folds) -> None:
        self.node = node
        self.folds = folds
        self.stream = Stream(node, incarnation)
        self.last = 0
        self.proven = 0
        self.partial = False
        self.clock = HybridClock()
        self._known: dict[Stream, int] = {}
        self._floor: dict[Stream, int] = {}
        self._forgotten: dict[Stream, int] = {}
        self._taken: dict[Stream, int] = {}
        self._left: dict[Stream, int] = {}

    def load(
        self,
        known: Knowledge,
        floor: Knowledge,
        forgotten: Knowledge,
        facts: Iterable[tuple[str, Fact]],
        entries: Iterable[Entry],
        now: float,
    ) -> None:
        """
        Begin with what is on disk.

        @param entries: all above the floor, in any order.
        """
        self._known = {stream: number for stream, number in known.items() if number > 0}
        self._floor = dict(floor)
        self._forgotten = dict(forgotten)
        self._taken = dict(self._known)
        self.last = self._known.get(self.stream, 0)

        def noted() -> Iterator[Entry]:
            for entry in entries:
                self.clock.observe(entry.stamp, now)
                yield entry

        self.differing(facts, now)
        self.folds.apply(self._sane(noted(), now))

    # -- what arises here

    def append(self, kind: str, body: Mapping[str, Any], now: float, stamp: int = 0) -> Entry:
        """
        The next own entry: in the folds now, to be written by the caller.

        @param stamp: of an entry that is added again after L{renew}; 0 for a new one.
        @raises TypeError: the body is not plain data.
        """
        packed = pack_fields(body)
        if not stamp:
            # Whoever has seen an act may replace it, whatever clock has stamped that
            stamp = max(self.clock.tick(now), self.folds.fold(kind).newest(body) + 1)
        entry = Entry(self.stream, self.last + 1, stamp, kind, packed)
        self.last = entry.number
        self.folds.apply([entry])
        return entry

    def written(self, entries: Iterable[Entry]) -> None:
        """Own entries are on disk, in their order."""
        taken = advance(self._known, entries)
        advance(self._taken, taken)

    # -- what comes from others

    def take(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Which of these are new and follow without a gap: they are to be written now."""
        return advance(self._taken, entries)

    def merged(self, entries: Sequence[Entry], now: float) -> None:
        """Others' entries are on disk."""
        advance(self._known, entries)
        for entry in entries:
            self.clock.observe(entry.stamp, now)
        self.folds.apply(self._sane(entries, now))

    def merged_facts(
        self, facts: Sequence[tuple[str, Fact]], knowledge: Knowledge | None, now: float
    ) -> None:
        """
        A part of another node's state is on disk; the last part has the knowledge that it gives.
        """
        self.partial = knowledge is None
        for _, fact in facts:
            self.clock.observe(fact.stamp, now)
        self.differing(facts, now)
        if knowledge is not None:
            self.learn(knowledge)

    def differing(self, facts: Iterable[tuple[str, Fact]], now: float) -> None:
        """Facts are on disk, of this node's past or of a peer that knows the same."""
        latest = latest_stamp(now)
        self.folds.apply_facts(row for row in facts if row[1].stamp <= latest)

    def _sane(self, entries: Iterable[Entry], now: float) -> Iterable[Entry]:
        """Those that an act of this node could still replace."""
        latest = latest_stamp(now)
        return (entry for entry in entries if entry.stamp <= latest)

    def learn(self, knowledge: Knowledge) -> None:
        """
        All of this is in the folds, although its entries were never here.

        The floor rises with it: entries that are not here one by one cannot be passed on one by
        one.
        """
        for stream, number in knowledge.items():
            if number > self._known.get(stream, 0):
                self._known[stream] = number
                self._floor[stream] = max(number, self._floor.get(stream, 0))
        self._taken = joined(self._taken, self._known)

    # -- incarnations and floors

    def begin(self, incarnation: str) -> None:
        """Append under a new incarnation from now on; nothing has been appended in this life."""
        self.stream = Stream(self.node, incarnation)
        self.last = 0
        self.proven = 0

    def leave(self, incarnation: str) -> None:
        """Append under a new incarnation from now on; what was appended stands."""
        self._left[self.stream] = self.last
        self.begin(incarnation)

    def has_left(self, stream: Stream) -> bool:
        """Whether a stream of this life was left as it was."""
        return stream in self._left

    def renew(self, incarnation: str) -> tuple[Stream, int]:
        """
        Append under a new incarnation from now on.

        @return: the old stream, and the number up to which it stands: the caller adds what
            is beyond that again, and takes it off the old stream.
        """
        old, kept = self.stream, min(self.proven, self._known.get(self.stream, 0))
        kept = max(kept, self._floor.get(old, 0))
        self.stream = Stream(self.node, incarnation)
        self.last = 0
        self.proven = 0
        if kept:
            self._known[old] = kept
        else:
            self._known.pop(old, None)
        self._taken = dict(self._known)
        return old, kept

    def confirmed(self, number: int) -> bool:
        """Another node has the present stream up to here; true if that is news."""
        if number <= self.proven:
            return False
        self.proven = min(number, self.last)
        return True

    def raise_floor(self, floor: Knowledge) -> None:
        """Entries up to here are no longer kept one by one."""
        self._floor = joined(self._floor, floor)

    def raise_forgotten(self, knowledge: Knowledge) -> None:
        """Tombstones up to here may be gone."""
        self._forgotten = joined(self._forgotten, knowledge)

    # -- reading

    def knowledge(self) -> Knowledge:
        """How far each stream is on disk; a snapshot."""
        return dict(self._known)

    def floor(self) -> Knowledge:
        """How far entries are not kept one by one."""
        return self._floor

    def forgotten(self) -> Knowledge:
        """How far tombstones may be gone."""
        return self._forgotten

    def aged(self) -> Knowledge:
        """What may be ignored because another member says so: whoever keeps days says less."""
        return self._known

    @property
    def settled(self) -> bool:
        """Whether folds and knowledge say the same."""
        return (
            not self.partial
            and self._known.get(self.stream, 0) == self.last
            and all(self._known.get(stream, 0) >= last for stream, last in self._left.items())
        )

    def digests(self) -> Mapping[str, bytes]:
        """The digest of each kind, where folds and knowledge fit together."""
        return self.folds.digests() if self.settled else {}

    def buckets(self, kind: str) -> bytes:
        """The digests of the parts of a kind."""
        return self.folds.fold(kind).buckets()

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Fact]:
        """The facts of some parts of a kind."""
        return [Fact(*fact) for fact in self.folds.fold(kind).dump_buckets(buckets)]
