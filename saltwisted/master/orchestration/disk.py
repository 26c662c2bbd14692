"""
What this disk has of orchestrations, and what other nodes ask of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from twisted.internet.defer import Deferred

from saltwisted.domain.orchestration.copies import (
    Keeper,
    Look,
    Put,
    Record,
    Reply,
    Send,
    Term,
    decode_look,
    decode_send,
    encode_record,
    encode_reply,
)
from saltwisted.domain.orchestration.words import holder_of
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.wire.msgpack import pack_bin, unpack_bin

LOOK, SEND, READ, JIDS, OPEN = "run-look", "run-lines", "run-read", "run-jids", "run-open"


class IRunStore(Protocol):
    """One disk: L{saltwisted.stores.runs.RunStore}."""

    def load(self) -> Deferred[list[Record]]:
        """Open it, and read all."""

    def write(self, puts: Collection[Put], forget: Collection[str] = ()) -> Deferred[None]:
        """Fires when all of it is on disk."""

    def close(self) -> Deferred[None]:
        """When all is written."""


class RunDisk:
    """
    That of one node. Reactor thread only.
    """

    def __init__(self, peers: IPeers, store: IRunStore) -> None:
        self._store = store
        self._keeper: Keeper | None = None
        self._unwritten: set[str] = set()
        self._ended: dict[str, tuple[Term, int]] = {}
        self._receivers: list[Callable[[str], None]] = []
        self._loaded: list[Deferred[None]] = []
        peers.answer(LOOK, self._asked_to_look)
        peers.answer(SEND, self._was_sent)
        peers.answer(READ, self._asked_to_read)
        peers.answer(JIDS, self._asked_for_jids)
        peers.answer(OPEN, self._asked_for_open)

    async def start(self) -> None:
        """Read what is on it."""
        self._keeper = Keeper(await self._store.load())
        loaded, self._loaded = self._loaded, []
        for each in loaded:
            each.callback(None)

    async def stop(self) -> None:
        """Take nothing any more."""
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

    def own(self) -> Sequence[str]:
        """Those that have lines."""
        keeper = self.keeper
        return [jid for jid in keeper.jids() if keeper.record(jid).lines]

    def unfinished(self) -> Mapping[str, str]:
        """By what this disk has."""
        found: dict[str, str] = {}
        for jid in self.own():
            record = self.keeper.record(jid)
            if self._ended.get(jid) == record.rank:
                continue
            node = holder_of(record.lines)
            if node is None:
                self._ended[jid] = record.rank
            else:
                found[jid] = node
        return found

    async def forget(self, jids: Sequence[str]) -> None:
        """Nothing is kept of these."""
        self.keeper.forget(jids)
        for jid in jids:
            self._ended.pop(jid, None)
        await self._store.write((), jids)

    def on_change(self, receiver: Callable[[str], None]) -> None:
        """Also what others write."""
        self._receivers.append(receiver)

    async def looked(self, look: Look) -> Reply:
        """Somebody would take over."""
        reply, puts = self.keeper.look(look)
        await self.keep(look.jid, puts)
        return reply

    async def took(self, sent: Send) -> Reply:
        """A writer sends lines."""
        reply, puts = self.keeper.take(sent)
        await self.keep(sent.jid, puts)
        if puts:
            for receiver in self._receivers:
                receiver(sent.jid)
        return reply

    async def keep(self, jid: str, puts: Sequence[Put]) -> None:
        """
        Returns when all that is known of a run is on disk: what came twice may still be on its way
        there.
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
        try:
            await self._store.write(puts)
        except StoreError:
            # Whatever comes next of it is written with all that comes before
            self._unwritten.add(jid)
            raise

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
        jid = unpack_bin(body)
        if not isinstance(jid, str):
            raise WireError("orchestration-jid")
        await self.ready()
        return pack_bin(encode_record(self.keeper.record(jid)))

    async def _asked_for_jids(self, node: str, body: bytes) -> bytes:
        await self.ready()
        return pack_bin(list(self.own()))

    async def _asked_for_open(self, node: str, body: bytes) -> bytes:
        await self.ready()
        return pack_bin([list(item) for item in self.unfinished().items()])
