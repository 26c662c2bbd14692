"""
The fact log on disk: entries, snapshots, floors and the incarnation, in one SQLite file.

One thread writes; entries that arrive while it commits go into its next transaction (WAL,
C{synchronous=FULL}). If the disk refuses entries, they are kept and written again, because numbers
must not have gaps. L{saltwisted.domain.replica.book} makes the decisions; this module is its disk.

If the file is not the original one (a copy, a restored backup), or is damaged or missing, the log
begins a new incarnation. Other damage shows when peers know more of this node than it does itself
(L{ReplicaLog.renew}). Entries that are appended before all peers have said what they know also get
a new incarnation: otherwise a peer that answers later could know other entries by the same numbers,
and nobody would ever notice.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from saltwisted.domain.causality.knowledge import beyond, joined
from saltwisted.domain.replica.book import Book
from saltwisted.domain.replica.entry import Entry, Stream, new_incarnation
from saltwisted.domain.replica.fold import Fact, Folds
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import StoreError
from saltwisted.interfaces import Entropy, ILog
from saltwisted.stores import files
from saltwisted.stores.database import connect, damage, is_corrupt, put_aside
from saltwisted.stores.facts import table
from saltwisted.stores.stall import Stall, apart
from saltwisted.stores.telling import Telling
from saltwisted.turns import turns_of

_QUEUE_BYTES = 64 * 1024 * 1024
_BATCH_BYTES = 8 * 1024 * 1024
_RETRY_SECONDS = 1.0
_SLICE = 50
"""Facts that are packed between two turns of the reactor."""

AT_ONCE = 256
"""Entries of others that are folded at once, in some 2 ms."""

COMPACT_ENTRIES = 20_000
"""When so many entries are kept one by one, those that are not needed become a snapshot."""

KEPT_ENTRIES = 5_000
"""So many of the newest of each stream stay, for peers that were away for a while."""

CHECK_ROWS = 300
"""Rows that are read again at once."""

MARKS_LIFE = 30
"""Days (of running) that a deletion counts against acts that have not seen it."""

MARKS_MARGIN = 3
"""Days more that it is kept."""

Receiver = Callable[[Sequence[Entry], str], None]


@define(eq=False)
class _Write:
    """One thing to write, in order; C{work} runs in the writer's thread, in a transaction."""

    work: Callable[[sqlite3.Connection, table.Streams], None]
    done: Deferred[None] = field(factory=Deferred)
    size: int = 0


class ReplicaLog:
    """
    The fact log. Reactor thread only; Deferreds fire there, a few per turn.

    @ivar folds: the results of the entries; kinds are added before the start.
    @ivar renewals: why each new incarnation was begun, newest last.
    @ivar all_told: whether, since the start, all other members have said what they know, and all of
        it has arrived here.
    """

    log = Logger()
    name = "facts"

    def __init__(
        self,
        reactor: Any,
        path: str,
        node: str,
        folds: Folds,
        entropy: Entropy = os.urandom,
        now: Callable[[], float] = time.time,
        all_told: Callable[[], bool] = lambda: True,
    ) -> None:
        self.path = path
        self.folds = folds
        self.stall = Stall()
        self._refusal = ""
        self._mending = ""
        self._opened = 0
        self._epoch = 0
        self._anew: _Write | None = None
        self.renewals: list[str] = []
        self.all_told = all_told
        self._reactor = reactor
        self._node = node
        self._entropy = entropy
        self._now = now
        self._book = Book(node, new_incarnation(entropy), folds)
        self._receivers: list[Receiver] = []
        self._condition = threading.Condition()
        self._queue: deque[_Write] = deque()
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._db: sqlite3.Connection | None = None
        self._streams: table.Streams | None = None
        self._telling = Telling(turns_of(reactor).later)
        self._readers = ThreadPool(0, 1, "replica-read")
        self._kept = 0
        self._compacting = False
        self._once_more = False
        self._marks: list[tuple[int, dict[Stream, int]]] = []
        # Whether no other node can have an entry by the number that is appended next
        self._unused = False

    # -- life

    def startService(self) -> None:
        """
        Open or create the file, fold its contents, and start the threads. Blocks for a moment.

        @raises StoreError: the disk refuses, or a newer saltwisted wrote the file.
        """
        if self._thread is not None:
            return
        files.make_dir(os.path.dirname(self.path))
        try:
            self._open()
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise StoreError(str(error), self.path) from error
            self._move_aside(str(error))
            try:
                self._open()
            except sqlite3.Error as again:
                raise StoreError(str(again), self.path) from again
        self._stopping = False
        self._readers.start()
        self._thread = threading.Thread(target=self._write_loop, name="replica", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        db = table.open_tables(self.path)
        try:
            self._load(db)
        except BaseException:
            db.close()
            raise
        self._db = db

    def _load(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise damage("quick_check failed")
        meta = table.read_meta(db)
        inode = self._opened = self._inode()
        reason = ""
        if not meta.incarnation:
            reason = "the log is new"
        elif meta.node != self._node:
            reason = f"the log belonged to the node {meta.node}"
        elif meta.inode != inode:
            reason = "the log is a copy or was restored"
        incarnation, proven = meta.incarnation, meta.proven
        if reason:
            incarnation, proven = new_incarnation(self._entropy), 0
            self.renewals.append(reason)
        self._unused = bool(reason)
        # Before anything is numbered under it
        table.write_meta(db, node=self._node, incarnation=incarnation, inode=inode, proven=proven)
        self._book = book = Book(self._node, incarnation, self.folds)
        rows = table.read_streams(db)
        self.folds.expire({stream: gone for stream, (_, _, gone) in rows.items() if gone}, {})
        book.load(
            {stream: known for stream, (known, _, _) in rows.items()},
            {stream: floor for stream, (_, floor, _) in rows.items() if floor},
            {stream: gone for stream, (_, _, gone) in rows.items() if gone},
            table.read_facts(db),
            table.read_entries(db),
            self._now(),
        )
        book.proven = min(proven, book.last)
        self._streams = table.Streams(db)
        self._kept = db.execute("SELECT count(*) FROM entries").fetchone()[0]
        self._marks = _read_marks(db)

    def _inode(self) -> int:
        return os.stat(self.path).st_ino

    def _move_aside(self, reason: str) -> None:
        self._put_aside(reason)
        self.renewals.append(f"the log was damaged ({reason})")

    def _put_aside(self, reason: str) -> None:
        aside = put_aside(self.path, self._now(), self._entropy)
        self.log.critical(
            "{path} is damaged ({reason}): it was moved to {aside}, and a new log was started",
            path=self.path,
            reason=reason,
            aside=aside,
        )

    def stopService(self) -> Deferred[None]:
        """Commit what is queued, then close; fires when the threads have ended."""
        thread, self._thread = self._thread, None
        if thread is None:
            return succeed(None)
        done: Deferred[None] = Deferred()

        def ended() -> None:
            self._telling.drain()
            done.callback(None)

        def close() -> None:
            self._readers.stop()
            with self._condition:
                self._stopping = True
                self._condition.notify()
            thread.join()
            self._reactor.callFromThread(ended)

        threading.Thread(target=close, name="replica-stop", daemon=True).start()
        return done

    @property
    def problem(self) -> str:
        """Why the disk does not accept entries of this node, or C{""}; for the status."""
        return self._mending or self._refusal or self.stall.problem

    # -- ILog, in memory

    @property
    def stream(self) -> Stream:
        """What this node appends to now."""
        return self._book.stream

    @property
    def last(self) -> int:
        """The number of the newest own entry, on disk or not."""
        return self._book.last

    def latest(self) -> float:
        """
        The time, or the latest that members have shown within ten minutes of it: by it tokens end
        everywhere, although clocks differ.
        """
        return self._book.clock.seconds(self._now())

    def knowledge(self) -> Knowledge:
        """How far each stream is on disk."""
        return self._book.knowledge()

    def floor(self) -> Knowledge:
        """How far entries are not kept one by one."""
        return self._book.floor()

    def forgotten(self) -> Knowledge:
        """How far tombstones may be gone."""
        return self._book.forgotten()

    def aged(self) -> Knowledge:
        """What was known here at the last but one daily mark; in the first two days everything."""
        return self._marks[-2][1] if len(self._marks) > 1 else self._book.knowledge()

    def digests(self) -> Mapping[str, bytes]:
        """The digest of each kind; none while the folds are ahead of the knowledge."""
        return self._book.digests()

    def buckets(self, kind: str) -> bytes:
        """The digests of the parts of one kind."""
        return self._book.buckets(kind)

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Fact]:
        """The facts of some parts of one kind."""
        return self._book.dump_buckets(kind, buckets)

    def state(self) -> tuple[Knowledge, Iterator[tuple[str, Fact]]]:
        """The whole state; the iterator may be consumed in pieces."""
        return self._book.knowledge(), self.folds.dump()

    def on_entries(self, receiver: Receiver) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; own have source C{""}."""
        self._receivers.append(receiver)

    # -- writing

    def append(self, kind: str, body: Mapping[str, Any]) -> Deferred[Entry]:
        """
        Add an entry; it is in the folds when this returns. Fires when it is on disk. Who stops
        waiting takes nothing back: it is written all the same.

        @raises StoreError: at once, when the disk is too slow: too many writes are waiting.
        """
        if self._thread is None:
            raise StoreError("the log is closed", self.path)
        if self._queued_bytes > _QUEUE_BYTES:
            raise StoreError("the disk is too slow: too many writes are waiting", self.path)
        if not self._unused:
            self._use()
        if self.folds.fold(kind).foreseen(body, self._book.stream) > self._book.last:
            self._leave()
        entry = self._book.append(kind, body, self._now())
        return apart(self._write_own([entry]).addCallback(lambda _: entry))

    def _use(self) -> None:
        """Go on with the numbers of an earlier life, if it is sure that no other node has more."""
        self._unused = True
        if self.all_told():
            return
        incarnation = new_incarnation(self._entropy)
        self._book.begin(incarnation)
        self._write_incarnation(incarnation)
        self.renewals.append(
            "not all members had answered before this process added its first entry"
        )

    def _leave(self) -> None:
        """
        Go on under an incarnation that nobody can have foreseen: somebody claims to have seen
        entries that are not there yet, and they would count for nothing.
        """
        incarnation = new_incarnation(self._entropy)
        self._book.leave(incarnation)
        self._write_incarnation(incarnation)
        self.renewals.append("a member claims to have seen what this node had not written")
        self.log.error(
            "a member claims to have seen what this node had not written yet: it is malicious, or "
            "its program is faulty. This node goes on under a new incarnation, {incarnation}",
            incarnation=incarnation,
        )

    def _write_incarnation(self, incarnation: str) -> None:
        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            table.write_meta(db, incarnation=incarnation, proven=0)

        # What comes next waits for the same disk, and says if that refuses
        self._enqueue(_Write(work)).addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def _write_own(self, entries: Sequence[Entry]) -> Deferred[None]:
        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            table.add_entries(db, streams, entries)

        def written(_: None) -> None:
            # After a renewal, what was on its way under the old incarnation comes again
            stream = entries[0].stream
            if stream == self._book.stream or self._book.has_left(stream):
                self._book.written(entries)
                self._tell(entries, "")

        size = sum(entry.size for entry in entries)
        return self._enqueue(_Write(work, size=size)).addCallback(written)

    def merge(self, entries: Sequence[Entry], source: str) -> Deferred[Sequence[Entry]]:
        """
        Take entries of other nodes; fires with the new ones when they are on disk.

        They are written together, and folded some at a time: one message brings up to thousands.
        """
        if self._thread is None:
            return fail(StoreError("the log is closed", self.path))
        new = self._book.take(entries)
        last: Deferred[Any] = succeed(None)
        for at in range(0, len(new), AT_ONCE):
            some = new[at : at + AT_ONCE]

            def work(db: Any, streams: table.Streams, some: Sequence[Entry] = some) -> None:
                table.add_entries(db, streams, some)

            def written(_: None, some: Sequence[Entry] = some) -> None:
                self._book.merged(some, self._now())
                self._tell(some, source)

            write = _Write(work, size=sum(entry.size for entry in some))
            last = self._enqueue(write).addCallback(written)
        return apart(last.addCallback(lambda _: new))

    def merge_state(
        self, facts: Sequence[tuple[str, Fact]], knowledge: Knowledge | None
    ) -> Deferred[None]:
        """Take a part of another node's state; fires when it is on disk and in the folds."""

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            table.add_facts(db, streams, facts)
            if knowledge is not None:
                streams.set("known", knowledge)
                streams.set("floor", higher)

        def written(_: None) -> None:
            self._book.merged_facts(facts, knowledge, self._now())

        higher = beyond(knowledge or {}, self._book.knowledge())
        size = sum(64 + len(fact.body) * 64 for _, fact in facts)
        return apart(self._enqueue(_Write(work, size=size)).addCallback(written))

    def merge_facts(self, facts: Sequence[tuple[str, Fact]]) -> Deferred[None]:
        """Take facts that differ, of a peer which knows the same."""

        def written(_: None) -> None:
            self._book.differing(facts, self._now())

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            table.add_facts(db, streams, facts)

        return apart(self._enqueue(_Write(work, size=64 * len(facts))).addCallback(written))

    def confirmed(self, number: int) -> None:
        """Another node has the present stream up to here on its disk."""
        if self._thread is not None and self._book.confirmed(number):
            proven = self._book.proven

            def work(db: sqlite3.Connection, streams: table.Streams) -> None:
                table.write_meta(db, proven=proven)

            # It rides with the next transaction: nothing is lost if it is late
            late = self._enqueue(_Write(work), wake=False)
            late.addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def renew(self) -> Deferred[None]:
        """Begin a new incarnation; own entries that nobody has confirmed are added again."""
        incarnation = new_incarnation(self._entropy)
        self._unused = True
        lost: list[Entry] = []
        old, kept = self._book.renew(incarnation)

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            lost[:] = table.read_entries(db, old, kept)
            db.executemany(
                "DELETE FROM entries WHERE stream = ? AND number > ?", [(streams.of(old), kept)]
            )
            streams.set("known", {old: kept}, lower=True)
            streams.lower("folded", old, kept)
            table.write_meta(db, incarnation=incarnation, proven=0)

        self.renewals.append("another member knows more of this node than the node itself")
        self.log.error(
            "the log of this node was set back: other members know more of it. It continues under "
            "a new incarnation, {incarnation}",
            incarnation=incarnation,
        )

        def again(_: None) -> Any:
            now = self._now()
            entries = [self._book.append(e.kind, e.fields(), now, e.stamp) for e in lost]
            return self._write_own(entries) if entries else None

        return apart(self._enqueue(_Write(work)).addCallback(again))

    def _enqueue(self, write: _Write, wake: bool = True) -> Deferred[None]:
        with self._condition:
            if self._thread is None:
                return fail(StoreError("the log is closed", self.path))
            self._queue.append(write)
            self._queued_bytes += write.size
            if wake:
                self._condition.notify()
        return write.done

    def _tell(self, entries: Sequence[Entry], source: str) -> None:
        self._kept += len(entries)
        for receiver in self._receivers:
            receiver(entries, source)

    # -- the writer's thread

    def _write_loop(self) -> None:
        assert self._db is not None and self._streams is not None
        while True:
            self._swap()
            with self._condition:
                while not self._queue and not self._stopping and not self._mending:
                    self._condition.wait()
                if self._mending and not self._stopping:
                    continue
                if not self._queue:
                    break
                batch, size = [], 0
                while self._queue and size < _BATCH_BYTES:
                    batch.append(self._queue.popleft())
                    size += batch[-1].size
                self._queued_bytes -= size
            self.stall.begins()
            if not self._commit(batch):
                break
            self.stall.ends()
            self._reactor.callFromThread(self._deliver, batch)
        if self._db is not None:
            self._db.close()

    def _commit(self, batch: list[_Write]) -> bool:
        """Write a batch, for as long as it takes; false if the service ends first."""
        db, streams = self._db, self._streams
        assert db is not None and streams is not None
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                for write in batch:
                    write.work(db, streams)
                db.execute("COMMIT")
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                with suppress(sqlite3.Error):
                    streams.forget()
                if is_corrupt(error):
                    self._reactor.callFromThread(self.met_damage, str(error))
                    with self._condition:
                        self._condition.wait_for(
                            lambda: self._stopping or self._mending, _RETRY_SECONDS
                        )
                    self._swap()
                    if self._stopping or self._db is None or self._streams is None:
                        return False
                    db, streams = self._db, self._streams
                    continue
                known, self._refusal = self._refusal, str(error)
                if not known:
                    self.log.critical(
                        "{path}: {error}; changes wait until the disk takes them",
                        path=self.path,
                        error=error,
                    )
                with self._condition:
                    if self._stopping or self._condition.wait_for(
                        lambda: self._stopping, _RETRY_SECONDS
                    ):
                        return False
                continue
            if self._refusal:
                self._refusal = ""
                self.log.info("{path}: the disk takes writes again", path=self.path)
            return True

    def _swap(self) -> None:
        """
        While the damaged log is rewritten, wait for what is to be in it, and begin with that.

        Nothing is committed meanwhile: it would be in the old file alone.
        """
        with self._condition:
            if not self._mending or self._stopping:
                return
            self._reactor.callFromThread(self._gather)
            self._condition.wait_for(lambda: self._stopping or self._anew is not None)
            anew, self._anew = self._anew, None
        if anew is None:
            return
        while not self._stopping:
            try:
                if self._db is not None:
                    self._db.close()
                    self._db = None
                    self._put_aside(self._mending)
                db = table.open_tables(self.path)
                streams = table.Streams(db)
                db.execute("BEGIN IMMEDIATE")
                anew.work(db, streams)
                db.execute("COMMIT")
            except (sqlite3.Error, StoreError) as error:
                self._refusal = str(error)
                with self._condition:
                    self._condition.wait_for(lambda: self._stopping, _RETRY_SECONDS)
                continue
            self._db, self._streams, self._opened = db, streams, self._inode()
            self._epoch += 1
            self._mending = self._refusal = ""
            self._reactor.callFromThread(self._deliver, [anew])
            return

    def _deliver(self, batch: list[_Write]) -> None:
        self._telling.add((write.done, None) for write in batch)
        self._telling.go()

    # -- reading

    def since(self, after: Knowledge, limit: int) -> Deferred[Sequence[Entry]]:
        """Entries beyond C{after}, in order in each stream, of about C{limit} bytes together."""
        if self._thread is None:
            return fail(StoreError("the log is closed", self.path))
        upto = self._book.knowledge()

        def query() -> Sequence[Entry]:
            try:
                db = connect(self.path, "ro")
                try:
                    return table.read_since(db, after, upto, limit)
                finally:
                    db.close()
            except sqlite3.Error as error:
                self._reader_met(error)
                raise StoreError(str(error), self.path) from error

        d: Deferred[Sequence[Entry]] = deferToThreadPool(self._reactor, self._readers, query)
        return d

    # -- damage

    def _reader_met(self, error: sqlite3.Error) -> None:
        if is_corrupt(error):
            self._reactor.callFromThread(self.met_damage, str(error))

    def met_damage(self, reason: str) -> None:
        """
        The file was damaged while this node runs: it is rewritten from memory.

        Nothing is lost, and the incarnation stays. Only the single entries are gone, so members
        that lack some of them ask for the whole state.
        """
        with self._condition:
            if self._thread is None or self._mending:
                return
            self._mending = f"the log was damaged ({reason}) and is being rewritten"
            self._condition.notify()

    def _gather(self) -> None:
        """The writer waits: when all have been told, what it has committed is in memory."""

        def gather(_: None) -> None:
            if self._thread is not None:
                anew = Deferred.fromCoroutine(self._write_anew())
                anew.addErrback(failed)  # type: ignore[unused-awaitable]

        def failed(failure: Failure) -> None:
            self.log.failure("the log was not rewritten", failure=failure)

        told: Deferred[None] = Deferred()
        self._telling.add([(told, None)])
        told.addCallback(gather)  # type: ignore[unused-awaitable]
        self._telling.go()

    async def _write_anew(self) -> None:
        book = self._book
        knowledge, forgotten = book.knowledge(), dict(book.forgotten())
        node, incarnation, proven = self._node, book.stream.incarnation, book.proven
        marks = list(self._marks)
        facts: list[tuple[str, Fact]] = []
        for number, fact in enumerate(self.folds.snapshot()):
            facts.append(fact)
            if number % _SLICE == _SLICE - 1:
                await deferLater(self._reactor, 0)
        floor = joined(knowledge, book.floor())

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            table.write_meta(
                db, node=node, incarnation=incarnation, inode=self._inode(), proven=proven
            )
            table.add_facts(db, streams, facts)
            for column in ("known", "folded"):
                streams.set(column, knowledge)
            streams.set("floor", floor)
            streams.set("forgotten", forgotten)
            db.executemany(
                "INSERT INTO marks VALUES (?, ?, ?)",
                [(day, streams.of(s), n) for day, mark in marks for s, n in mark.items()],
            )

        anew = _Write(work)
        with self._condition:
            self._anew = anew
            self._condition.notify()
        await anew.done
        book.raise_floor(floor)
        self._kept = 0

    async def check(self, pause: float = 0.1) -> None:
        """
        Read the whole file again, a little at a time, and check that it contains what was written.

        @raises StoreError: it cannot be read; damage is already repaired.
        """
        at = await self._check(0)
        while at and self._thread is not None:
            await deferLater(self._reactor, pause)
            at = await self._check(at)
        if self._thread is not None:
            await self._check(-1)

    def _check(self, at: int) -> Deferred[int]:
        if self._thread is None:
            return fail(StoreError("the log is closed", self.path))

        def query() -> int:
            try:
                if os.stat(self.path).st_ino != self._opened:
                    raise damage("it is not the file that was opened")
                db = connect(self.path, "ro")
                try:
                    if at >= 0:
                        return table.check_some(db, at, CHECK_ROWS)
                    table.check_pages(db)
                    return 0
                finally:
                    db.close()
            except OSError as error:
                self._reader_met(damage(str(error)))
                raise StoreError(str(error), self.path) from error
            except sqlite3.Error as error:
                self._reader_met(error)
                raise StoreError(str(error), self.path) from error

        d: Deferred[int] = deferToThreadPool(self._reactor, self._readers, query)
        return d

    # -- snapshots

    @property
    def wants_compaction(self) -> bool:
        """Whether so many entries are kept that a snapshot is due."""
        return self._kept > COMPACT_ENTRIES and not self._compacting

    async def compact(self, keep: int = KEPT_ENTRIES) -> int:
        """
        Write all folds as facts, and drop all entries except the newest C{keep}.

        The entries in the facts are not folded again when the log is opened: an old act must not
        meet facts that were forgotten since. So these facts also tell the disk what is forgotten.

        @return: how many entries are kept now.
        """
        if self._compacting:
            self._once_more = True
            return self._kept
        self._compacting = True
        try:
            epoch = self._epoch
            before = await self._top_fact()
            knowledge, forgotten = self._book.knowledge(), dict(self._book.forgotten())
            facts: list[tuple[str, Fact]] = []
            for number, fact in enumerate(self.folds.snapshot()):
                facts.append(fact)
                if number % _SLICE == _SLICE - 1:
                    await deferLater(self._reactor, 0)
            # Deletions that some ignore are given to nobody one by one
            floor = joined({s: n - keep for s, n in knowledge.items() if n > keep}, forgotten)
            count = [0]

            def work(db: sqlite3.Connection, streams: table.Streams) -> None:
                if epoch != self._epoch:
                    # All of it was rewritten meanwhile, and later than these were gathered
                    count[0] = self._kept
                    return
                # What came in while these were gathered stays beside them
                db.execute("DELETE FROM facts WHERE number <= ?", (before,))
                table.add_facts(db, streams, facts)
                table.drop_entries(db, streams, floor)
                streams.set("floor", floor)
                streams.set("folded", knowledge)
                streams.set("forgotten", forgotten)
                count[0] = db.execute("SELECT count(*) FROM entries").fetchone()[0]

            await self._enqueue(_Write(work))
            self._book.raise_floor(floor)
            self._kept = count[0]
        finally:
            self._compacting = False
        if self._once_more:
            self._once_more = False
            return await self.compact(keep)
        return self._kept

    async def _top_fact(self) -> int:
        found = [0]

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            found[0] = db.execute("SELECT coalesce(max(number), 0) FROM facts").fetchone()[0]

        await self._enqueue(_Write(work))
        return found[0]

    # -- forgetting

    def forget(self, ignored: Knowledge) -> None:
        """Another member may have forgotten tombstones up to here."""
        if self._thread is not None:
            late = self._forget(ignored, {})
            late.addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def _forget(self, ignored: Knowledge, dropped: Knowledge) -> Deferred[int]:
        self._book.raise_forgotten(ignored)
        self.folds.expire(ignored, dropped)
        return Deferred.fromCoroutine(self.compact())

    def mark(self, life: int = MARKS_LIFE, margin: int = MARKS_MARGIN) -> Deferred[None]:
        """
        Remember what is known today, and forget old deletions; called once a day.

        Time is counted by these calls, and not by the clock, which may jump by a year.

        @param life: days after which a deletion is ignored; a member that has not heard of it by
            then has to join as a new node.
        @param margin: additional days until it is dropped.
        """
        known = dict(self._book.knowledge())
        number = self._marks[-1][0] + 1 if self._marks else 1
        ignored = [mark for at, mark in self._marks if at <= number - life]
        dropped = [mark for at, mark in self._marks if at <= number - life - margin]
        self._marks = [*self._marks[max(0, len(dropped) - 1) :], (number, known)]
        oldest = self._marks[0][0]

        def work(db: sqlite3.Connection, streams: table.Streams) -> None:
            db.execute("DELETE FROM marks WHERE day < ?", (oldest,))
            db.executemany(
                "INSERT INTO marks VALUES (?, ?, ?)",
                [(number, streams.of(stream), n) for stream, n in known.items()],
            )

        written = self._enqueue(_Write(work))
        if not ignored:
            return written
        forgotten = self._forget(ignored[-1], dropped[-1] if dropped else {})
        return written.addCallback(lambda _: forgotten).addCallback(lambda _: None)


_ReplicaLog: type[ILog] = ReplicaLog  # mypy compares them


def _read_marks(db: sqlite3.Connection) -> list[tuple[int, dict[Stream, int]]]:
    marks: dict[int, dict[Stream, int]] = {}
    rows = db.execute(
        "SELECT day, node, incarnation, marks.known FROM marks "
        "JOIN streams ON streams.id = marks.stream ORDER BY day"
    )
    for day, node, incarnation, number in rows:
        marks.setdefault(day, {})[Stream(node, incarnation)] = number
    return list(marks.items())
