"""
The job cache as a replicated log: its rows are its entries.

A job's record and a return each have a place in the stream of the node where they arose, and
are sent on as they are (L{saltwisted.stores.jobs.entries}). Which of two rows is kept is decided in
L{saltwisted.stores.jobs.merging}.

L{JobLog} is what the cluster sees (C{ILog}); L{saltwisted.stores.jobs.store} writes and reads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from saltwisted.domain.jid import is_jid
from saltwisted.domain.replica.entry import Entry, Stream, fields_of
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import ILog
from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.entries import EMPTY, JOB, RETURN, VOID, Since, read_since
from saltwisted.stores.jobs.merging import Merge
from saltwisted.stores.jobs.table import PUBLISHED, SPAN
from saltwisted.wire.msgpack import unpack_bin

LOST_SECONDS = 60.0
"""How long others wait for what was damaged here, while it is being had back."""

Receiver = Callable[[Sequence[Entry], str], None]
T = TypeVar("T")


class JobRows(Protocol):
    """
    What the log asks of the store whose rows it is: L{saltwisted.stores.jobs.store.JobStore}.
    """

    @property
    def loaded(self) -> int:
        """The file that the log knows of."""

    def read(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file something, in a thread."""

    def met_bad(self, numbers: Sequence[int]) -> None:
        """Rows are not what was written, and were left out."""

    def write_merge(self, merge: Merge, size: int) -> Deferred[Sequence[Entry]]:
        """Write what other nodes sent; fires with its entries when it is on disk."""

    def renew(self, kept: int) -> Deferred[None]:
        """Begin a new incarnation of the own stream; what is beyond a number is in it again."""

    def lacks(self) -> None:
        """What came from one member may be less than another has."""

    def is_published(self, jid: str) -> bool:
        """Whether there is a published record of this job, as far as is remembered."""

    def published(self, jid: str) -> None:
        """A published record of this job is about to be written."""

    def clock(self) -> float:
        """The reactor's time."""

    def later(self, delay: float, function: Callable[[], None]) -> Any:
        """Call something a moment later."""


class JobLog:
    """
    The log that the cluster ships; see C{ILog}. Reactor thread only.

    @ivar names: the streams by index; replaced, never changed, since the writer reads it.
    @ivar collecting: seconds for which own entries are collected under load, so that the price of a
        message to each node is shared; the first after a pause goes at once.
    @ivar all_told: whether all other members have said in this life what they know.
    """

    log = Logger()
    name = "jobs"

    def __init__(
        self, store: JobRows, collecting: float = 0.0, all_told: Callable[[], bool] = lambda: True
    ) -> None:
        self._store = store
        self._receivers: list[Receiver] = []
        self._new: list[Callable[[Sequence[Entry]], None]] = []
        self._index: dict[Stream, int] = {}
        self._known: dict[Stream, int] = {}
        self._taken: dict[Stream, int] = {}
        self._floors: dict[Stream, int] = {}
        self._confirmations: list[Callable[[int], None]] = []
        self.names: Mapping[int, Stream] = {}
        self._stored: list[Receiver] = []
        self._gathered: list[Entry] = []
        self._gathered_at = -1e9
        self._gathering: Any = None
        self.collecting = collecting
        self.all_told = all_told
        self._renewals = 0
        self._held: list[Deferred[None]] = []
        self._lost: dict[int, float] = {}
        self.own = 0
        self.stream = Stream("", "")
        self.confirmed_number = 0

    def load(self, book: Book) -> None:
        """The store has opened its file; what was collected is in it."""
        self._gathered = []
        self._lost = {}
        self.own = book.own
        self.stream = book.streams[book.own][0]
        self._index = {stream: idx for idx, (stream, _, _) in book.streams.items()}
        self.names = {idx: stream for stream, idx in self._index.items()}
        self._known = {stream: known for stream, known, _ in book.streams.values()}
        self._taken = dict(self._known)
        self._floors = {stream: floor for stream, _, floor in book.streams.values()}
        self.confirmed_number = book.confirmed

    def pruned(self, book: Book) -> None:
        """
        The store has pruned: floors have risen, and nothing else. What is known or on its way to
        the disk is not taken from the file: entries come in while it is pruned.
        """
        for stream, _, floor in book.streams.values():
            if stream in self._floors or floor:
                self._floors[stream] = max(floor, self._floors.get(stream, 0))

    # -- ILog

    def knowledge(self) -> Mapping[Stream, int]:
        """How far each stream is on disk."""
        return {stream: number for stream, number in self._known.items() if number}

    def floor(self) -> Mapping[Stream, int]:
        """How far everything was pruned."""
        return {stream: number for stream, number in self._floors.items() if number}

    def forgotten(self) -> Mapping[Stream, int]:
        """There are no tombstones."""
        return {}

    def forget(self, ignored: Mapping[Stream, int]) -> None:
        """There are no tombstones."""

    def since(self, after: Mapping[Stream, int], limit: int) -> Deferred[Sequence[Entry]]:
        """Entries beyond C{after}, of about C{limit} bytes."""
        wanted = [
            (self._index[stream], stream, after.get(stream, 0), known)
            for stream, known in sorted(self._known.items())
            if known > after.get(stream, 0)
        ]
        if not wanted:
            return succeed([])
        now = self._store.clock()
        self._lost = {number: until for number, until in self._lost.items() if until > now}
        lost = frozenset(self._lost)

        def read(since: Since) -> Sequence[Entry]:
            if since.bad:
                self._store.met_bad(since.bad)
            return since.entries

        return self._store.read(lambda db: read_since(db, wanted, limit, lost)).addCallback(read)

    def lost(self, numbers: Collection[int]) -> None:
        """
        Rows are taken out, since they are damaged: for a while nobody is told that there was
        nothing, as they may come back.

        @param numbers: as rows have them.
        """
        until = self._store.clock() + LOST_SECONDS
        self._lost.update(dict.fromkeys(numbers, until))

    def found(self) -> None:
        """All who can be asked were: what has not come back by now is lost."""
        self._lost.clear()

    def append(self, kind: str, body: Mapping[str, Any]) -> Deferred[Entry]:
        """Refused: jobs and returns are added by the store's own methods."""
        return fail(StoreError(f"{kind}: the job cache stores only jobs and returns"))

    def merge(self, entries: Sequence[Entry], source: str) -> Deferred[Sequence[Entry]]:
        """Take entries of other nodes; fires when they are on disk."""
        if self._renewals:
            return self._hold().addCallback(lambda _: self.merge(entries, source))
        merge = Merge(self._store.loaded, source=source)
        taken: list[Entry] = []
        size = 0
        for entry in entries:
            # What is being written counts: the next entries may come before it is on disk
            if entry.number != self._taken.get(entry.stream, 0) + 1:
                continue
            self._taken[entry.stream] = entry.number
            taken.append(entry)
            size += entry.size
            merge.rows.append(self._row(entry, merge))
            idx = self._index[entry.stream]
            merge.after.setdefault(idx, entry.number - 1)
            merge.known[idx] = entry.number
        merge.entries = taken
        if not taken:
            return succeed([])
        return self._store.write_merge(merge, size).addErrback(self._unwritten)

    def _unwritten(self, failure: Any) -> Any:
        self._taken = dict(self._known)
        return failure

    def _row(self, entry: Entry, merge: Merge) -> tuple[Any, ...]:
        idx = self._index.get(entry.stream)
        if idx is None:
            idx = self._index[entry.stream] = max(self._index.values()) + 1
            self._known[entry.stream] = 0
            self.names = {**self.names, idx: entry.stream}
        if not any(row[0] == idx for row in merge.streams):
            merge.streams.append((idx, *entry.stream))
        number = idx * SPAN + entry.number
        if entry.kind not in (JOB, RETURN):
            return ()
        try:
            body = fields_of(entry.body)
            jid, at, load = str(body["jid"]), float(body["at"]), bytes(body["load"])
            if not is_jid(jid) or not isinstance(unpack_bin(load), dict):
                raise WireError("job entry")
            if entry.kind == JOB:
                fun, minions = str(body["fun"]), bytes(body["minions"])
                self._store.published(jid)
                return (JOB, number, jid, at, fun, PUBLISHED, load, minions)
            minion_id = str(body["id"])
        except (WireError, KeyError, TypeError, ValueError) as error:
            self.log.error(
                "entry {number} of {stream} cannot be read: {error}",
                number=entry.number,
                stream=entry.stream,
                error=str(error),
            )
            return ()
        return (RETURN, number, jid, minion_id, at, load, self._store.is_published(jid))

    def on_entries(self, receiver: Receiver) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; own have source C{""}."""
        self._receivers.append(receiver)

    def on_new(self, receiver: Callable[[Sequence[Entry]], None]) -> None:
        """Call C{receiver(entries)} with entries of other nodes that this node did not have."""
        self._new.append(receiver)

    def state(self) -> tuple[Mapping[Stream, int], Iterator[tuple[str, Any]]]:
        """What was pruned is known, and there are no facts: the rest is sent as entries."""
        return self.floor(), iter(())

    def merge_state(
        self, facts: Sequence[tuple[str, Any]], knowledge: Mapping[Stream, int] | None
    ) -> Deferred[None]:
        """Another node has pruned so far: nobody can get that any more."""
        if self._renewals:
            return self._hold().addCallback(lambda _: self.merge_state(facts, knowledge))
        merge = Merge(self._store.loaded)
        for stream, number in (knowledge or {}).items():
            if number > self._known.get(stream, 0):
                self._row(Entry(stream, number, 0, VOID, EMPTY), merge)
                merge.known[self._index[stream]] = number
                self._taken[stream] = max(number, self._taken.get(stream, 0))
        if not merge.known:
            return succeed(None)
        # It may have pruned what another member still has
        self._store.lacks()
        write = self._store.write_merge(merge, 0)
        return write.addErrback(self._unwritten).addCallback(lambda _: None)

    def mend(self, entries: Sequence[Entry]) -> Deferred[Sequence[bool]]:
        """
        Put in what is known here and lacking; fires with whether each was.

        Not beyond what is known: that comes in order.
        """
        if self._renewals:
            return self._hold().addCallback(lambda _: self.mend(entries))
        merge = Merge(self._store.loaded, quiet=True)
        for entry in entries:
            if entry.number <= self._known.get(entry.stream, 0):
                merge.entries = [*merge.entries, entry]
                merge.rows.append(self._row(entry, merge))
        if not merge.rows:
            return succeed([])
        size = sum(entry.size for entry in merge.entries)
        write = self._store.write_merge(merge, size)
        return write.addCallback(lambda _: self._mended(merge))

    def _mended(self, merge: Merge) -> Sequence[bool]:
        for entry in merge.entries:
            self._lost.pop(self._index[entry.stream] * SPAN + entry.number, None)
        return merge.changed

    def range_of(self, stream: Stream) -> tuple[int, int] | None:
        """Where the rows of a stream begin, and how far it is known; C{None}: not at all."""
        idx, known = self._index.get(stream), self._known.get(stream, 0)
        return None if idx is None or not known else (idx * SPAN, known)

    def digests(self) -> Mapping[str, bytes]:
        """None: equal knowledge is all there is to compare."""
        return {}

    def buckets(self, kind: str) -> bytes:
        """None."""
        return b""

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Any]:
        """None."""
        return ()

    def merge_facts(self, facts: Sequence[tuple[str, Any]]) -> Deferred[None]:
        """There are none."""
        return succeed(None)

    def renew(self) -> Deferred[None]:
        """Begin a new incarnation; what nobody had confirmed is in it again."""
        return self._renew(self.confirmed_number)

    def go_on(self) -> Deferred[None]:
        """
        Before the first number of this life: go on with the stream of an earlier one, or with a
        new one if a member may know more of that.
        """
        return succeed(None) if self.all_told() else self._renew(self.last)

    def _renew(self, kept: int) -> Deferred[None]:
        self._renewals += 1
        return self._store.renew(kept).addBoth(self._renewed)

    def _hold(self) -> Deferred[None]:
        """Streams are given indices here and by a renewal in the file: not both at a time."""
        self._held.append(Deferred())
        return self._held[-1]

    def _renewed(self, result: Any) -> Any:
        self._renewals -= 1
        if not self._renewals:
            held, self._held = self._held, []
            for each in held:
                each.callback(None)
        return result

    @property
    def last(self) -> int:
        """The number of our newest entry on disk; nobody hears of one before."""
        return self._known.get(self.stream, 0)

    def confirmed(self, number: int) -> None:
        """Another node has our stream up to here."""
        if number > self.confirmed_number:
            self.confirmed_number = number
            for receiver in self._confirmations:
                self._call(receiver, number)

    def on_confirmed(self, receiver: Callable[[int], None]) -> None:
        """Call C{receiver(number)} when another node has more of our stream on its disk."""
        self._confirmations.append(receiver)

    # -- from the store

    @property
    def watched(self) -> bool:
        """Whether anybody wants to know of entries."""
        return bool(self._receivers or self._stored)

    def appended(self, entries: Sequence[Entry]) -> None:
        """Own entries are on disk: those who ship them hear of it at once, or a moment later."""
        for receiver in self._stored:
            self._call(receiver, entries, "")
        self._gathered += entries
        now = self._store.clock()
        if self._gathering is None and now - self._gathered_at >= self.collecting:
            self._announce()
        elif self._gathering is None:
            self._gathering = self._store.later(self.collecting, self._announce)

    def _announce(self) -> None:
        self._gathering = None
        entries, self._gathered = self._gathered, []
        if entries and entries[-1].stream == self.stream:
            self._gathered_at = self._store.clock()
            # Only now it is known to others: else they would be read from the disk for them
            self._known[self.stream] = self._taken[self.stream] = entries[-1].number
            for receiver in self._receivers:
                self._call(receiver, entries, "")

    def stop(self) -> None:
        """The store closes: what was collected is on disk, and sent after the next start."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._gathered = []

    def on_stored(self, receiver: Receiver) -> None:
        """As L{on_entries}, for own entries alone, and never later than their Deferreds fire."""
        self._stored.append(receiver)

    def advance(self, number: int) -> None:
        """Our own stream is on disk so far, and nobody wants to know of it."""
        self._known[self.stream] = self._taken[self.stream] = number

    @property
    def stored_number(self) -> int:
        """The number of our newest entry on disk, announced or not."""
        if self._gathered and self._gathered[-1].stream == self.stream:
            return self._gathered[-1].number
        return self.last

    def merged(self, merge: Merge, changed: Sequence[bool]) -> None:
        """Entries of others are on disk."""
        merge.changed = changed
        for idx, number in merge.known.items():
            stream = self.names[idx]
            self._known[stream] = max(self._known.get(stream, 0), number)
            # Another one may have failed meanwhile, and begun again below
            self._taken[stream] = max(self._taken.get(stream, 0), number)
        if not merge.entries or merge.quiet:
            return
        new = [entry for entry, fresh in zip(merge.entries, changed, strict=True) if fresh]
        if new:
            for tell in self._new:
                self._call(tell, new)
        for receiver in self._receivers:
            self._call(receiver, merge.entries, merge.source)

    def _call(self, receiver: Callable[..., None], *args: Any) -> None:
        try:
            receiver(*args)
        except Exception:
            self.log.failure("a receiver of job entries failed")


_JobLog: type[ILog] = JobLog  # mypy compares them
