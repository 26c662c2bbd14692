"""
Looks for damage and holes in the job cache, and fetches what is missing from the other members.

Knowledge says how far each stream was stored, not that it is still there; and a member from which a
new one took its history may have pruned what another still has. So from time to time, after each
new link, and at once when something is missing, nodes compare what they have: first the sums of
chunks, then the numbers of a chunk that differs (L{saltwisted.stores.jobs.check}). Only what nobody
has pruned counts; a missing row comes back under its own number.

While nothing else is written, rows are read again one after another, and the pages of the file are
checked once an hour. A row that is not what was written is removed, and comes back in the same way;
a damaged file is moved aside, and another one is begun.

Until every other member has been asked, C{trouble} of the store says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.domain.replica.words import Entries, decode, encode
from saltwisted.errors import SaltwistedError, StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.jobs import check as jobcheck
from saltwisted.stores.jobs.store import JobStore
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "jobs.held"
ASK_TIME = 10.0
ROUND = 600.0
"""Seconds between two comparisons with all that are linked."""
AGAIN = 5.0
"""Seconds between two, while something is lacking; and after a new link."""
PAUSE = 0.02
ROWS = 500
"""Rows that are read again at once."""
LOOK = 1.0
"""Seconds between two such looks, C{PASS} between two looks at all of them."""
PASS = 600.0
PAGES = 3600.0
ANSWER_BYTES = 512 * 1024
LACKING = "entries may be missing here and are being brought back from the other members"


class JobCare:
    """
    A part of the service, started after the links.

    @ivar mended: how many entries were fetched again.
    @ivar bad: how many rows were found to be damaged.
    """

    log = Logger()
    round_every, look_every, pass_every = ROUND, LOOK, PASS

    def __init__(
        self,
        clock: Any,
        store: JobStore,
        peers: IPeers,
        others: Callable[[], Sequence[str]],
        caught_up: Callable[[str], bool],
        dice: Random,
    ) -> None:
        """
        @param others: the other members, reached or not.
        @param caught_up: whether all is here that a linked member knows.
        """
        self.mended = self.bad = 0
        self._clock = clock
        self._store = store
        self._peers = peers
        self._others = others
        self._caught_up = caught_up
        self._dice = dice
        self._running = self._busy = self._looking = False
        self._owed: set[str] = set()
        self._losses = 0
        self._dropping: set[int] = set()
        self._fresh: set[str] = set()
        self._timers: dict[str, Any] = {}
        self._at: tuple[str, int] = jobcheck.START
        peers.answer(WORD, self._asked)
        peers.on_link(self._link)
        store.health.on_owed.append(self.lacking)
        store.health.on_anew.append(self.lacking)
        store.health.on_bad.append(self._met_bad)

    # -- life

    def startService(self) -> None:
        """Begin to look."""
        self._running = True
        if self._store.health.owed:
            self.lacking()
        if self._fresh:
            # Links that were there before
            self._later("round", AGAIN, self._begin_round)
        self._later("look", self.pass_every * self._dice.uniform(0.1, 1.0), self._look)
        self._later("pages", PAGES * self._dice.uniform(0.1, 1.0), self._look_at_pages)

    def stopService(self) -> None:
        """No more."""
        self._running = False
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._timers.clear()

    def _later(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Do something then, if it is not to be done sooner."""
        if not self._running:
            return
        timer = self._timers.get(name)
        at = self._clock.seconds() + seconds
        if timer is not None and timer.active():
            if timer.getTime() <= at:
                return
            timer.cancel()
        self._timers[name] = self._clock.callLater(seconds, work)

    def _link(self, link: IPeerLink, up: bool) -> None:
        if up:
            self._fresh.add(link.node)
            self._later("round", AGAIN, self._begin_round)
        else:
            self._fresh.discard(link.node)

    # -- what is lacking

    def lacking(self, delay: float = AGAIN) -> None:
        """Something may be lacking here that others have: all of them are to be asked."""
        self._owed = set(self._others())
        self._losses += 1
        self._tell()
        self._later("round", delay, self._begin_round)

    def _tell(self) -> None:
        self._owed &= set(self._others())
        store = self._store
        store.health.trouble = f"{LACKING}: {', '.join(sorted(self._owed))}" if self._owed else ""
        store.health.owes(bool(self._owed))

    def _begin_round(self) -> None:
        self._later("round", self.round_every * self._dice.uniform(0.75, 1.25), self._begin_round)
        if not self._busy:
            self._busy = True
            let_go(Deferred.fromCoroutine(self._round()), self.log, "job caches were not compared")

    async def _round(self) -> None:
        try:
            linked = {link.node: link for link in self._peers.links()}
            wanted = (self._owed | self._fresh) & linked.keys() or linked.keys()
            for node in sorted(wanted):
                losses = self._losses
                whole = await self._compare(linked[node])
                if not self._running:
                    return
                self._fresh.discard(node)
                # What was lost meanwhile may be of a part that it had been asked for before
                if whole and self._caught_up(node) and losses == self._losses:
                    self._owed.discard(node)
        finally:
            self._busy = False
        self._tell()
        if not self._dropping and not self._owed & {link.node for link in self._peers.links()}:
            # A member may be away for days: the others do not wait for it
            self._store.replica.found()
        if self._owed or self._fresh:
            self._later("round", AGAIN, self._begin_round)

    async def _compare(self, link: IPeerLink) -> bool:
        """Compare all that both know; whether that came to an end."""
        try:
            for stream in sorted(self._store.replica.knowledge()):
                await self._compare_stream(link, stream)
        except (SaltwistedError, WireError) as error:
            self.log.debug("{node}: not compared: {error}", node=link.node, error=error)
            return False
        return True

    async def _compare_stream(self, link: IPeerLink, stream: Stream) -> None:
        store, after = self._store, 0
        while self._running:
            place = store.replica.range_of(stream)
            if place is None or after >= place[1]:
                return
            wanted = min(place[1], after + jobcheck.PAGE)
            answer = await self._ask(link, ["sums", *stream, after, wanted, store.file.pruned])
            upto, since, theirs = answer
            if upto <= after:
                return
            query = partial(jobcheck.sums, base=place[0], after=after, upto=upto, since=since)
            ours = await store.reader.read_anew(query)
            for chunk, count, total in theirs:
                if ours.get(chunk) != (count, total):
                    low = after + chunk * jobcheck.CHUNK
                    high = min(low + jobcheck.CHUNK, upto)
                    await self._mend(link, stream, low, high, since)
            after = upto
            await deferLater(self._clock, PAUSE)

    async def _ask(self, link: IPeerLink, question: list[Any]) -> Any:
        value = await as_deferred(link.ask(WORD, pack_bin(question), ASK_TIME))
        if question[0] == "rows":
            return decode(value)
        upto, since, rows = unpack_bin(value)
        return int(upto), float(since), [(int(a), int(b), int(c)) for a, b, c in rows]

    async def _mend(
        self, link: IPeerLink, stream: Stream, low: int, high: int, since: float
    ) -> None:
        """A chunk differs: take out what is damaged here, and get what is lacking."""
        store = self._store
        place = store.replica.range_of(stream)
        if place is None:
            return
        base = place[0]

        def look(db: sqlite3.Connection) -> tuple[list[int], list[int]]:
            numbers = [n for n, _ in jobcheck.held(db, base, low, high, 0)]
            good = {e.number for e in jobcheck.entries_of(db, stream, base, numbers, 1 << 40)}
            return sorted(good), [base + n for n in numbers if n not in good]

        good, bad = await store.reader.read_anew(look)
        if bad:
            await self._drop(bad)
        held, count = set(good), 0
        while self._running:
            found = await self._ask(link, ["rows", *stream, low, high, since, sorted(held)])
            entries: Sequence[Entry] = found.entries if isinstance(found, Entries) else ()
            fresh = [e for e in entries if e.stream == stream and e.number not in held]
            if not fresh:
                break
            count += sum(await store.replica.mend(fresh))
            held |= {entry.number for entry in fresh}
        if count:
            self.mended += count
            self.log.warn(
                "{count} entries of {node} were missing from the job cache; {peer} has sent them",
                count=count,
                node=stream.node,
                peer=link.node,
            )

    async def _drop(self, bad: Sequence[int]) -> None:
        """Take damaged rows out, and have them asked for."""
        self.bad += len(bad)
        self._dropping.update(bad)
        # Before they are gone: nobody may be told that there was nothing
        self._store.replica.lost(bad)
        self.log.error(
            "{path}: the disk returned wrong data: {rows} not what was written. The other members "
            "are asked for them",
            path=self._store.path,
            rows="1 row is" if len(bad) == 1 else f"{len(bad)} rows are",
        )
        try:
            await self._store.change(partial(jobcheck.drop, numbers=bad))
        finally:
            self._dropping.difference_update(bad)
        self.lacking(PAUSE)

    # -- what others ask

    def _asked(self, node: str, body: bytes) -> Any:
        try:
            what, name, incarnation, *rest = unpack_bin(body)
            stream = Stream(str(name), str(incarnation))
            if what == "sums":
                after, wanted, since = rest
                return self._sums(stream, int(after), int(wanted), float(since))
            if what == "rows":
                low, high, since, held = rest
                return self._rows(stream, int(low), int(high), float(since), set(held))
        except (TypeError, ValueError) as error:
            raise WireError(f"{WORD}: {error}") from None
        raise WireError(f"{WORD}: {what!r:.40}")

    async def _sums(self, stream: Stream, after: int, wanted: int, since: float) -> bytes:
        store = self._store
        base, known = store.replica.range_of(stream) or (0, 0)
        since = max(since, store.file.pruned)
        upto = min(wanted, known, after + jobcheck.PAGE)
        found: Mapping[int, tuple[int, int]] = {}
        if upto > after >= 0:
            query = partial(jobcheck.sums, base=base, after=after, upto=upto, since=since)
            found = await store.reader.read_anew(query)
        rows = [(chunk, count, total) for chunk, (count, total) in sorted(found.items())]
        return pack_bin([upto, since, rows])

    async def _rows(
        self, stream: Stream, low: int, high: int, since: float, held: set[int]
    ) -> bytes:
        store = self._store
        base, _ = store.replica.range_of(stream) or (0, 0)
        high = min(high, low + jobcheck.CHUNK)

        def query(db: sqlite3.Connection) -> list[Entry]:
            lacking = [n for n, _ in jobcheck.held(db, base, low, high, since) if n not in held]
            return jobcheck.entries_of(db, stream, base, lacking, ANSWER_BYTES)

        return encode(Entries(await store.reader.read_anew(query) if high > low >= 0 else ()))

    # -- damage

    def _met_bad(self, numbers: Sequence[int]) -> None:
        """Somebody has read damaged rows, perhaps to send them: they are had back at once."""
        fresh = [number for number in numbers if number not in self._dropping]
        if fresh and self._running:
            work = Deferred.fromCoroutine(self._drop(fresh))
            let_go(work, self.log, "damaged rows were not removed")

    def _look(self) -> None:
        self._later("look", self.look_every, self._look)
        if not self._looking and not self._store.queued:
            self._looking = True
            let_go(Deferred.fromCoroutine(self._look_on()), self.log, "rows were not checked")

    async def _look_on(self) -> None:
        store = self._store
        try:
            found = await store.reader.read_anew(partial(jobcheck.look, at=self._at, rows=ROWS))
            if found.bad:
                await self._drop(found.bad)
        except StoreError as error:
            # The store itself sees to a file that is damaged
            self.log.error("the job cache cannot be searched for damage: {error}", error=error)
            return
        finally:
            self._looking = False
        self._at = found.at or jobcheck.START
        if found.at is None and self._running:
            self._timers.pop("look").cancel()
            self._later("look", self.pass_every, self._look)

    def _look_at_pages(self) -> None:
        self._later("pages", PAGES, self._look_at_pages)
        let_go(Deferred.fromCoroutine(self.look_at_pages()), self.log, "pages were not checked")

    async def look_at_pages(self) -> None:
        """Have SQLite check the file."""
        try:
            wrong = await self._store.reader.read_anew(jobcheck.pages)
        except StoreError as error:
            self.log.error("the job cache cannot be checked: {error}", error=error)
            return
        if wrong:
            await self._store.health.begin_anew(wrong)
