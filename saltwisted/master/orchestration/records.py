"""
The lines of orchestrations on the disks of several nodes: this is C{IRunRecords}.

A lone master has no peers, and one disk. L{saltwisted.domain.orchestration.copies} decides when a
line counts, and the claims decide who may write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.jid import jid_seconds
from saltwisted.domain.orchestration.copies import (
    NONE,
    Look,
    Rank,
    Record,
    Reply,
    Send,
    Takeover,
    Writer,
    decode_head,
    decode_record,
    decode_reply,
    encode_look,
    encode_question,
    encode_send,
    next_term,
)
from saltwisted.domain.orchestration.seats import seats_line, with_seats
from saltwisted.domain.orchestration.words import pack_line
from saltwisted.errors import (
    DeniedError,
    SaltwistedError,
    StoreError,
    TakenOver,
    WireError,
)
from saltwisted.interfaces import IPeers
from saltwisted.master.orchestration.disk import JIDS, LOOK, OPEN, READ, SEND, IRunStore, RunDisk
from saltwisted.master.orchestration.keepers import Alone, Electors, Keepers, keys_of
from saltwisted.master.orchestration.protocols import IRunRecords, IRunWriter
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.worker.states.pauses import WISHES

WISH = "run-wish"
STOP = "stop"
"""What may be wished of a run beside what may be wished of any run of states."""
AGAIN = 0.25
"""Seconds after which it is tried again, and the claim is looked at."""
LOOK_EVERY = 1.0
"""Seconds after which it is seen whether somebody lacks lines, or the members have changed."""
LOST = "another node has taken this run over"
DOUBTED = "the claim of this run was lost: this node stood still, or is cut off"
CLOSED = "this run has ended, or goes on elsewhere"


@define(eq=False)
class Writing:
    """
    One run for which this node writes the lines: C{IRunWriter}.

    @ivar doubtful: members that are gone may have had lines that no other member has.
    @ivar busy: keys of members that were sent something and have not answered.
    @ivar waiting: callers that wait for the line of a number to count.
    """

    records: RunRecords
    writer: Writer
    holds: Callable[[], bool]
    doubtful: bool = False
    busy: set[str] = field(factory=set)
    waiting: list[tuple[int, Deferred[None]]] = field(factory=list)
    timer: Any = None
    closed: bool = False

    @property
    def lines(self) -> Sequence[bytes]:
        """All."""
        return self.writer.lines

    def add(self, line: Mapping[str, Any]) -> Awaitable[None]:
        """Sent to all at once."""
        if not self.closed:
            self.writer.add(pack_line(line, self.writer.size))
        return self.settled()

    def settled(self) -> Deferred[None]:
        """Fires when all lines that there are count."""
        if self.closed:
            return fail(TakenOver(CLOSED))
        done: Deferred[None] = Deferred()
        self.waiting.append((len(self.writer.lines), done))
        self.look()
        return done

    def close(self) -> None:
        """Send nothing more; callers that wait are told."""
        self.closed = True
        self._stop()
        self.records.ended(self)
        self.fail(TakenOver(CLOSED))

    def look(self) -> None:
        """
        Send members what they lack, inform waiting callers, and adapt the seats to the members.
        """
        if self.closed:
            return
        if self.writer.deposed:
            self.fail(TakenOver(LOST))
        elif self.waiting and not self.holds():
            self.fail(TakenOver(DOUBTED))
        else:
            self._send()
            self._count()
            self._seat()
        if self.waiting and self.timer is None:
            self.timer = self.records.clock.callLater(AGAIN, self._again)
        elif not self.waiting:
            self._stop()

    def _seat(self) -> None:
        """What comes after this line counts by other seats."""
        seats = self.records.keepers.next_seats(self.writer)
        if seats is not None and self.holds() and not self.closed:
            self.writer.add_seats(pack_line(seats_line(seats)), seats)
            self._send()

    def _stop(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _again(self) -> None:
        self.timer = None
        self.look()

    def _send(self) -> None:
        for seat in self.records.keepers.reachable():
            sent = None if seat.key in self.busy else self.writer.to_send(seat.key)
            if sent is not None:
                self.busy.add(seat.key)
                let_go(self._send_to(seat, sent), self.records.log, "lines were not sent")

    async def _send_to(self, seat: Seat, sent: Send) -> None:
        try:
            reply = await self.records.send(seat.node, sent)
        except StoreError as error:
            self.busy.discard(seat.key)
            self.fail(error)
            return
        except SaltwistedError:
            # It is tried again, by the timer at the latest
            self.busy.discard(seat.key)
            return
        self.busy.discard(seat.key)
        for key in keys_of(seat):
            self.writer.said(key, reply)
        self.look()

    def _count(self) -> None:
        counted = self.records.keepers.counted(self.writer)
        ready = [each for each in self.waiting if each[0] <= counted]
        self.waiting = [each for each in self.waiting if each[0] > counted]
        for _, done in ready:
            done.callback(None)

    def fail(self, error: Exception) -> None:
        """Nothing more counts."""
        waiting, self.waiting = self.waiting, []
        for _, done in waiting:
            done.errback(error)


class RunRecords:
    """
    The records of one node. Reactor thread only.

    @ivar keepers: who has the lines.
    @ivar reads: C{IRunRecords.reads}.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        peers: IPeers | None,
        electors: Electors,
        store: IRunStore,
    ) -> None:
        self.clock, self._node = clock, node
        self._peers: IPeers = Alone() if peers is None else peers
        self.keepers = Keepers(node, self._peers, electors)
        self._writing: list[Writing] = []
        self._disk = RunDisk(clock, self._peers, store)
        self.reads = self._disk.reads
        self._peers.on_link(lambda link, up: self._look())
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock

    async def startService(self) -> None:
        """Read the disk."""
        await self._disk.start()
        let_go(self._looking.start(LOOK_EVERY, now=False), self.log, "lines are not sent again")

    async def stopService(self) -> None:
        """Accept nothing any more; waiting callers are told that it does not count."""
        if self._looking.running:
            self._looking.stop()
        for each in list(self._writing):
            each.fail(TakenOver("this node stops"))
            each.close()
        await self._disk.stop()

    def _look(self) -> None:
        for each in list(self._writing):
            each.look()

    def ended(self, writing: Writing) -> None:
        """It is no longer written here."""
        if writing in self._writing:
            self._writing.remove(writing)

    # -- IRunRecords

    def begin(
        self, jid: str, claim: int, line: Mapping[str, Any], holds: Callable[[], bool]
    ) -> Awaitable[IRunWriter]:
        """Nobody can have written it before."""
        return Deferred.fromCoroutine(self._begin(jid, claim, line, holds))

    async def _begin(
        self, jid: str, claim: int, line: Mapping[str, Any], holds: Callable[[], bool]
    ) -> IRunWriter:
        if self._disk.keeper.record(jid).rank[1]:
            raise DeniedError(f"there is an orchestration {jid} already")
        term = next_term(1, claim, self._disk.keeper.record(jid).promised)
        writer = Writer(jid, term, found(self.keepers.members()))
        writer.add_seats(pack_line(with_seats(line, writer.seats)), writer.seats)
        return await self._write(writer, holds)

    async def _write(
        self, writer: Writer, holds: Callable[[], bool], doubtful: bool = False
    ) -> IRunWriter:
        writing = Writing(self, writer, holds, doubtful)
        self._writing.append(writing)
        try:
            await writing.settled()
        except Exception:
            writing.close()
            raise
        return writing

    def take(
        self, jid: str, attempt: int, claim: int, holds: Callable[[], bool], patience: float
    ) -> Awaitable[IRunWriter]:
        """All are asked, again and again, until enough have answered."""
        return Deferred.fromCoroutine(self._take(jid, attempt, claim, holds, patience))

    async def _take(
        self, jid: str, attempt: int, claim: int, holds: Callable[[], bool], patience: float
    ) -> IRunWriter:
        until = self.clock.seconds() + patience
        term = next_term(attempt, claim, self._disk.keeper.record(jid).promised)
        while True:
            answers = Takeover(await self._disk.record(jid))
            mine = answers.best.rank
            asked = [
                (seat, self._look_at(seat.node, Look(jid=jid, term=term, have=mine)))
                for seat in self.keepers.reachable()
            ]
            for seat, waiting in asked:
                reply = await waiting
                if reply is not None:
                    answers.add(keys_of(seat), reply)
            if not holds():
                raise TakenOver(DOUBTED)
            if not answers.best.lines:
                raise TakenOver(f"no reachable node has a record of orchestration {jid}")
            if self.keepers.is_enough(answers):
                break
            if self.clock.seconds() >= until:
                raise TakenOver(self.keepers.why_not(answers))
            await deferLater(self.clock, AGAIN)
            term = next_term(attempt, claim, max(answers.refused, term))
        best = answers.best
        seats, named = self.keepers.seats_of(best)
        writer = Writer(jid, term, seats, list(best.lines), named)
        if not named:
            writer.add_seats(pack_line(seats_line(seats)), seats)
        return await self._write(writer, holds, self.keepers.is_doubtful(best))

    def _look_at(self, node: str, look: Look) -> Deferred[Reply | None]:
        async def asked() -> Reply | None:
            if node == self._node:
                return await self._disk.looked(look)
            try:
                return decode_reply(await self.keepers.ask(node, LOOK, encode_look(look)))
            except SaltwistedError:
                # Nobody may wait for it any more: what fails would be nobody's
                return None

        return Deferred.fromCoroutine(asked())

    async def send(self, node: str, sent: Send) -> Reply:
        """Bring lines to a disk."""
        if node == self._node:
            return await self._disk.took(sent)
        return decode_reply(await self.keepers.ask(node, SEND, encode_send(sent)))

    def read(self, jid: str, enough: Rank = (NONE, 0)) -> Awaitable[Sequence[bytes]]:
        """Of the highest rank."""
        return Deferred.fromCoroutine(self._read(jid, enough))

    async def _read(self, jid: str, enough: Rank) -> Sequence[bytes]:
        await self._disk.ready()
        own = best = await self._disk.record(jid)
        if best.lines and (NONE, 0) < enough <= best.rank:
            return best.lines
        for body in await self.keepers.ask_all(READ, encode_question(jid, own.rank)):
            try:
                value = unpack_bin(body)
                found = own if value is None else decode_record(value)
            except WireError:
                continue
            if found.jid == jid and found.rank > best.rank:
                best = found
        if best.rank > self._disk.keeper.record(jid).rank:
            let_go(self._learn(best), self.log, "lines were not written")
        return best.lines

    async def _learn(self, best: Record) -> None:
        try:
            await self._disk.learn(best)
        except StoreError as error:
            # Whoever asks next is told by the same node
            words = "what others have of orchestration {jid} was not written: {why}"
            self.log.warn(words, jid=best.jid, why=str(error))

    def heads(self) -> Awaitable[Mapping[str, Rank]]:
        """Of all that can be asked."""
        return Deferred.fromCoroutine(self._heads())

    async def _heads(self) -> Mapping[str, Rank]:
        await self._disk.ready()
        found = await self._disk.heads()
        for body in await self.keepers.ask_all(JIDS, b""):
            try:
                for jid, rank in map(decode_head, unpack_bin(body)):
                    found[jid] = max(rank, found.get(jid, rank))
            except (WireError, TypeError):
                continue
        return found

    def unfinished(self) -> Mapping[str, str]:
        """According to this disk."""
        return self._disk.unfinished()

    def all_unfinished(self) -> Awaitable[Mapping[str, str]]:
        """Of all that can be asked."""
        return Deferred.fromCoroutine(self._all_unfinished())

    async def _all_unfinished(self) -> Mapping[str, str]:
        found = dict(self.unfinished())
        for body in await self.keepers.ask_all(OPEN, b""):
            try:
                found = {**{str(jid): str(node) for jid, node in unpack_bin(body)}, **found}
            except (WireError, TypeError, ValueError):
                continue
        return found

    def forget(self, before: float) -> Awaitable[None]:
        """By their jids; a run that is being written stays."""

        async def forgotten() -> None:
            old = []
            async for jid in in_turns(self.clock, self._disk.keeper.jids()):
                if (jid_seconds(jid) or 0.0) < before:
                    old.append(jid)
            busy = {each.writer.jid for each in self._writing}
            old = [jid for jid in old if jid not in busy]
            if old:
                await self._disk.forget(old)

        return Deferred.fromCoroutine(forgotten())

    def wish_at(self, node: str, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """One question."""
        return Deferred.fromCoroutine(self._wish_at(node, jid, wish, user))

    async def _wish_at(self, node: str, jid: str, wish: Mapping[str, Any], user: str) -> None:
        try:
            await self.keepers.ask(node, WISH, pack_bin([jid, dict(wish), user]))
        except SaltwistedError as error:
            what = f"{wish['do']} orchestration {jid}"
            raise DeniedError(f"{node} does not {what}: {error}") from error

    def on_wish(self, receiver: Callable[[str, Mapping[str, Any], str], Awaitable[Any]]) -> None:
        """One receiver."""

        async def asked(node: str, body: bytes) -> bytes:
            try:
                jid, wish, user = unpack_bin(body)
                if not isinstance(jid, str) or wish["do"] not in (STOP, *WISHES):
                    raise WireError(WISH)
            except (LookupError, TypeError, ValueError) as error:
                raise WireError(WISH) from error
            await receiver(jid, wish, f"{user} on {node}")
            return b""

        self._peers.answer(WISH, asked)

    def on_change(self, receiver: Callable[[str], None]) -> None:
        """Includes what other nodes write."""
        self._disk.on_change(receiver)


_Records: type[IRunRecords] = RunRecords  # mypy compares them
