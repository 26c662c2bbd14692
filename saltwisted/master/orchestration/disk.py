"""
What this disk has of orchestrations, and what other nodes ask about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from saltwisted.domain.orchestration.copies import (
    Keeper,
    Look,
    Put,
    Rank,
    Record,
    Reply,
    Send,
    decode_look,
    decode_question,
    decode_send,
    encode_record,
    encode_reply,
)
from saltwisted.domain.orchestration.words import ENDED, Reads, Standing, standing_of
from saltwisted.errors import StoreError
from saltwisted.interfaces import IPeers
from saltwisted.stores.jobs.longpacking import pack_in_turns
from saltwisted.transports.turns import in_turns
from saltwisted.wire.msgpack import pack_bin

LOOK, SEND, READ, JIDS, OPEN = "run-look", "run-lines", "run-read", "run-jids", "run-open"


class IRunStore(Protocol):
    """One disk: L{saltwisted.stores.runs.RunStore}."""

    def load(self) -> Deferred[list[Record]]:
        """Open it, and read all, but for the lines of runs that have ended."""

    def lines(self, jid: str) -> Deferred[Sequence[bytes]]:
        """Those of one run, as far as they were written."""

    def write(self, puts: Collection[Put], forget: Collection[str] = ()) -> Deferred[None]:
        """Fires when all of it is on disk."""

    def close(self) -> Deferred[None]:
        """When all is written."""


class RunDisk:
    """
    The disk of one node. Reactor thread only.

    The lines of current runs are in memory. Of an ended run, only the number of its lines is in
    memory, once the last of them is on disk.
    """

    def __init__(self, clock: Any, peers: IPeers, store: IRunStore) -> None:
        self._clock, self._store = clock, store
        self._keeper: Keeper | None = None
        self._unwritten: set[str] = set()
        self._writing: Counter[str] = Counter()
        self._open: dict[str, str] = {}
        self._reads: dict[str, Reads] = {}
        self._receivers: list[Callable[[str], None]] = []
        self._loaded: list[Deferred[None]] = []
        peers.answer(LOOK, self._asked_to_look)
        peers.answer(SEND, self._was_sent)
        peers.answer(READ, self._asked_to_read)
        peers.answer(JIDS, self._asked_for_jids)
        peers.answer(OPEN, self._asked_for_open)

    async def start(self) -> None:
        """Read the disk."""
        keeper = Keeper()
        async for record in in_turns(self._clock, await self._store.load()):
            if record.lines:
                self._holds(record.jid, standing_of(record.lines))
            keeper.whole(record)
        self._keeper = keeper
        loaded, self._loaded = self._loaded, []
        async for each in in_turns(self._clock, loaded):
            each.callback(None)

    async def stop(self) -> None:
        """Accept nothing any more."""
        self._keeper = None
        await self._store.close()

    @property
    def keeper(self) -> Keeper:
        """
        @raises StoreError: it was not read yet, or is closed.
        """
        if self._keeper is None:
            raise StoreError("what is written down of orchestrations is not open")
        return self._keeper

    async def heads(self) -> dict[str, Rank]:
        """The runs that have lines, and which."""
        found = {}
        async for jid in in_turns(self._clock, self.keeper.jids()):
            rank = self.keeper.record(jid).rank
            if rank[1]:
                found[jid] = rank
        return found

    def unfinished(self) -> Mapping[str, str]:
        """According to this disk. Called at each line of any run."""
        return self._open

    def reads(self) -> dict[str, Mapping[str, str]]:
        """Generation to trees of the runs that have not ended, by what this disk has."""
        return dict(reads for reads in self._reads.values() if reads[0])

    def _holds(self, jid: str, standing: Standing) -> None:
        node, reads = standing
        if node is None:
            self._open.pop(jid, None)
            self._reads.pop(jid, None)
        else:
            self._open[jid], self._reads[jid] = node, reads

    async def forget(self, jids: Sequence[str]) -> None:
        """Nothing is kept of these."""
        self.keeper.forget(jids)
        for jid in jids:
            self._holds(jid, ENDED)
        await self._store.write((), jids)

    async def record(self, jid: str) -> Record:
        """
        What is known of a run, with its lines.

        @raises StoreError: they cannot be read.
        """
        while True:
            record = self.keeper.record(jid)
            if not record.unread:
                return record
            lines = await self._store.lines(jid)
            if self.keeper.record(jid) is record:
                return record.whole(lines)

    async def _in_memory(self, jid: str) -> None:
        """Something is asked of the keeper, in this turn."""
        if self.keeper.record(jid).unread:
            self.keeper.whole(await self.record(jid))

    def _shed(self, jid: str) -> None:
        if self._keeper is None or jid in self._open or jid in self._unwritten:
            return
        if not self._writing[jid]:
            self._keeper.shed(jid)

    async def learn(self, record: Record) -> None:
        """Another disk has more of a run."""
        puts = self.keeper.learn(record)
        if puts:
            self._holds(record.jid, standing_of(record.lines))
        await self.keep(record.jid, puts)

    def on_change(self, receiver: Callable[[str], None]) -> None:
        """Includes what other nodes write."""
        self._receivers.append(receiver)

    async def looked(self, look: Look) -> Reply:
        """Somebody would take over."""
        await self._in_memory(look.jid)
        reply, puts = self.keeper.look(look)
        await self.keep(look.jid, puts)
        return reply

    async def took(self, sent: Send) -> Reply:
        """A writer sends lines."""
        await self._in_memory(sent.jid)
        count = len(self.keeper.record(sent.jid).lines)
        reply, puts = self.keeper.take(sent)
        for put in puts:
            # Of a long run that goes on only what is new is read
            if put.at and put.at == count and sent.jid in self._open:
                known = self._open[sent.jid], self._reads[sent.jid]
                self._holds(sent.jid, standing_of(put.lines, known))
            else:
                self._holds(sent.jid, standing_of(self.keeper.record(sent.jid).lines))
        await self.keep(sent.jid, puts)
        if puts:
            for receiver in self._receivers:
                receiver(sent.jid)
        return reply

    async def keep(self, jid: str, puts: Sequence[Put]) -> None:
        """
        Returns when everything known of a run is on disk: lines that arrived twice may still be on
        their way there.
        """
        if jid in self._unwritten:
            record = self.keeper.record(jid)
            puts = [
                Put(
                    jid=jid,
                    promised=record.promised,
                    term=record.term,
                    at=0,
                    lines=record.lines,
                )
            ]
        self._unwritten.discard(jid)
        self._writing[jid] += 1
        try:
            await self._store.write(puts)
        except StoreError:
            # Whatever comes next of it is written with all that comes before
            self._unwritten.add(jid)
            raise
        finally:
            self._writing -= Counter((jid,))
            self._shed(jid)

    async def ready(self) -> None:
        """Returns when it was read."""
        if self._keeper is None:
            loaded: Deferred[None] = Deferred()
            self._loaded.append(loaded)
            await loaded

    async def _asked_to_look(self, node: str, body: bytes) -> bytes:
        look = decode_look(body)
        await self.ready()
        return encode_reply(await self.looked(look))

    async def _was_sent(self, node: str, body: bytes) -> bytes:
        sent = decode_send(body)
        await self.ready()
        return encode_reply(await self.took(sent))

    async def _asked_to_read(self, node: str, body: bytes) -> bytes:
        jid, have = decode_question(body)
        await self.ready()
        if self.keeper.record(jid).rank <= have:
            return pack_bin(None)
        return pack_bin(encode_record(await self.record(jid)))

    async def _asked_for_jids(self, node: str, body: bytes) -> bytes:
        await self.ready()
        heads = await self.heads()
        rows = [[jid, *term, count] for jid, (term, count) in heads.items()]
        return b"".join(await pack_in_turns(self._clock, rows))

    async def _asked_for_open(self, node: str, body: bytes) -> bytes:
        await self.ready()
        return pack_bin([list(item) for item in self.unfinished().items()])
