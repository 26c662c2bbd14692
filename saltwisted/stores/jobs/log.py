"""
The job cache as a replicated log: its rows are its entries.

Each job record and each return has a place in the stream of the node where it was created, and is
sent on unchanged (L{saltwisted.stores.jobs.entries}). L{saltwisted.stores.jobs.merging} decides
which of two rows is kept.

L{JobLog} is what the cluster sees (C{ILog}); L{saltwisted.stores.jobs.store} writes and reads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.domain.jid import is_jid
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.errors import WireError
from saltwisted.interfaces import ILog
from saltwisted.stores.jobs.announcements import Announcements, Receiver
from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.entries import EMPTY, JOB, RETURN, VOID, Since, read_since
from saltwisted.stores.jobs.factless import FactlessLog
from saltwisted.stores.jobs.longpacking import is_return
from saltwisted.stores.jobs.merging import Merge
from saltwisted.stores.jobs.streams import JobStreams
from saltwisted.stores.jobs.table import PUBLISHED, SPAN
from saltwisted.wire.longpack import LARGE

LOST_SECONDS = 60.0
"""How long others wait for what was damaged here, while it is being had back."""

T = TypeVar("T")


class JobRows(Protocol):
    """
    What the log needs from the store whose rows it represents:
    L{saltwisted.stores.jobs.store.JobStore}.
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
        """Begin a new incarnation of the own stream, which repeats everything beyond a number."""

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


class JobLog(FactlessLog):
    """
    The log that the cluster ships; see C{ILog}. Reactor thread only.

    @ivar streams: which streams there are, and how far each is known.
    @ivar told: informs others about entries.
    @ivar all_told: whether, since the start, all other members have said what they know.
    """

    log = Logger()
    name = "jobs"

    def __init__(
        self, store: JobRows, collecting: float = 0.0, all_told: Callable[[], bool] = lambda: True
    ) -> None:
        self._store = store
        self._renewals = 0
        self._held: list[Deferred[None]] = []
        self._lost: dict[int, float] = {}
        self.streams = JobStreams()
        self.told = Announcements(store, self.streams, collecting)
        self.all_told = all_told

    # -- from the store

    def load(self, book: Book) -> None:
        """The store has opened its file; collected entries are in it."""
        self.told.forget()
        self._lost = {}
        self.streams.load(book)

    def merged(self, merge: Merge, changed: Sequence[bool]) -> None:
        """Entries of others are on disk."""
        merge.changed = changed
        for place in merge.unread:
            _unread(merge.entries[place], "job entry")
        self.streams.merged(merge.known)
        if merge.entries and not merge.quiet:
            self.told.merged(merge, changed)

    # -- ILog

    def knowledge(self) -> Mapping[Stream, int]:
        """How far each stream is on disk."""
        return self.streams.knowledge()

    def floor(self) -> Mapping[Stream, int]:
        """How far everything was pruned."""
        return self.streams.floor()

    def since(self, after: Mapping[Stream, int], limit: int) -> Deferred[Sequence[Entry]]:
        """Entries beyond C{after}, of about C{limit} bytes."""
        wanted = [
            (self.streams.index[stream], stream, after.get(stream, 0), known)
            for stream, known in sorted(self.streams.known.items())
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
        Damaged rows were removed. For a while, nobody is told that there was nothing, because they
        may come back.

        @param numbers: as rows have them.
        """
        until = self._store.clock() + LOST_SECONDS
        self._lost.update(dict.fromkeys(numbers, until))

    def found(self) -> None:
        """All reachable members have been asked: rows that have not come back by now are lost."""
        self._lost.clear()

    def merge(self, entries: Sequence[Entry], source: str) -> Deferred[Sequence[Entry]]:
        """Take entries of other nodes; fires when they are on disk."""
        if self._renewals:
            return self._hold().addCallback(lambda _: self.merge(entries, source))
        merge = Merge(self._store.loaded, source=source)
        taken: list[Entry] = []
        size = 0
        for entry in entries:
            # What is being written counts: the next entries may come before it is on disk
            if entry.number != self.streams.taken.get(entry.stream, 0) + 1:
                continue
            self.streams.taken[entry.stream] = entry.number
            taken.append(entry)
            size += entry.size
            merge.rows.append(self._row(entry, merge))
            idx = self.streams.index[entry.stream]
            merge.after.setdefault(idx, entry.number - 1)
            merge.known[idx] = entry.number
        merge.entries = taken
        if not taken:
            return succeed([])
        return self._store.write_merge(merge, size).addErrback(self._unwritten)

    def _unwritten(self, failure: Any) -> Any:
        self.streams.refused()
        return failure

    def _row(self, entry: Entry, merge: Merge) -> tuple[Any, ...]:
        idx = self.streams.index_of(entry.stream)
        if not any(row[0] == idx for row in merge.streams):
            merge.streams.append((idx, *entry.stream))
        number = idx * SPAN + entry.number
        if entry.kind not in (JOB, RETURN):
            return ()
        try:
            body = entry.views()
            jid, at, load = str(body["jid"]), float(body["at"]), body["load"]
            if not is_jid(jid) or not isinstance(load, bytes | memoryview):
                raise WireError("job entry")
            # A long return is looked at in the writer's thread
            if (entry.kind == JOB or len(load) <= LARGE) and not is_return(load):
                raise WireError("job entry")
            if entry.kind == JOB:
                fun, minions = str(body["fun"]), bytes(body["minions"])
                self._store.published(jid)
                return (JOB, number, jid, at, fun, PUBLISHED, bytes(load), minions)
            minion_id = str(body["id"])
        except (WireError, KeyError, TypeError, ValueError) as error:
            _unread(entry, str(error))
            return ()
        return (RETURN, number, jid, minion_id, at, load, self._store.is_published(jid))

    def on_entries(self, receiver: Receiver) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; own have source C{""}."""
        self.told.on_entries(receiver)

    def state(self) -> tuple[Mapping[Stream, int], Iterator[tuple[str, Any]]]:
        """The pruned ranges; there are no facts, and the rest is sent as entries."""
        return self.floor(), iter(())

    def merge_state(
        self, facts: Sequence[tuple[str, Any]], knowledge: Mapping[Stream, int] | None
    ) -> Deferred[None]:
        """Another node has pruned up to here: nobody can get that any more."""
        if self._renewals:
            return self._hold().addCallback(lambda _: self.merge_state(facts, knowledge))
        merge = Merge(self._store.loaded)
        for stream, number in (knowledge or {}).items():
            if number > self.streams.known.get(stream, 0):
                self._row(Entry(stream, number, 0, VOID, EMPTY), merge)
                merge.known[self.streams.index[stream]] = number
                self.streams.taken[stream] = max(number, self.streams.taken.get(stream, 0))
        if not merge.known:
            return succeed(None)
        # It may have pruned what another member still has
        self._store.lacks()
        write = self._store.write_merge(merge, 0)
        return write.addErrback(self._unwritten).addCallback(lambda _: None)

    def mend(self, entries: Sequence[Entry]) -> Deferred[Sequence[bool]]:
        """
        Insert entries that are known here but missing; fires with whether each was inserted.

        Entries beyond what is known are not inserted: they arrive in order.
        """
        if self._renewals:
            return self._hold().addCallback(lambda _: self.mend(entries))
        merge = Merge(self._store.loaded, quiet=True)
        for entry in entries:
            if entry.number <= self.streams.known.get(entry.stream, 0):
                merge.entries = [*merge.entries, entry]
                merge.rows.append(self._row(entry, merge))
        if not merge.rows:
            return succeed([])
        size = sum(entry.size for entry in merge.entries)
        write = self._store.write_merge(merge, size)
        return write.addCallback(lambda _: self._mended(merge))

    def _mended(self, merge: Merge) -> Sequence[bool]:
        for entry in merge.entries:
            self._lost.pop(self.streams.index[entry.stream] * SPAN + entry.number, None)
        return merge.changed

    def range_of(self, stream: Stream) -> tuple[int, int] | None:
        """Where the rows of a stream begin, and how far it is known; C{None}: not at all."""
        return self.streams.range_of(stream)

    def renew(self) -> Deferred[None]:
        """Begin a new incarnation; what nobody had confirmed is in it again."""
        return self._renew(self.streams.confirmed)

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
        return self.streams.last

    @property
    def stream(self) -> Stream:
        """Our own stream."""
        return self.streams.stream

    def confirmed(self, number: int) -> None:
        """Another node has our stream up to here."""
        if number > self.streams.confirmed:
            self.streams.confirmed = number
            self.told.confirmed(number)


def _unread(entry: Entry, error: str) -> None:
    JobLog.log.error(
        "entry {number} of {stream} cannot be read: {error}",
        number=entry.number,
        stream=entry.stream,
        error=error,
    )


_JobLog: type[ILog] = JobLog  # mypy compares them
