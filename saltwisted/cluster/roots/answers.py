"""
A share's answers to a peer: the changes that the peer lacks, one of them in full, or everything
that is here. None of this changes anything here.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.link import RootLink
from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import Knowledge
from saltwisted.domain.roots.frames import BATCH, STATE
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.transports.deferreds import let_go

REPLY_BYTES = 8 * 1024 * 1024
"""Bytes of changes in one answer; the peer asks again when it has them."""


class RootAnswers:
    """Reactor thread only."""

    log = Logger()

    def __init__(self, core: ShareCore) -> None:
        self._core = core

    def pull(self, link: RootLink, body: bytes) -> None:
        """
        A peer has said what it knows, and wants the rest.

        @raises Forbidden: that is not valid knowledge.
        """
        theirs = codec.unpack_knowledge(codec.unpack(body, codec.FEW_CONTAINERS))
        link.peer.knowledge[self._core.name] = theirs
        self._run(link, self._missing(link, theirs))

    def plain(self, link: RootLink, body: bytes) -> None:
        """
        A peer cannot follow the moves of a batch: send it with all its paths.

        @raises Forbidden: it names no batch.
        """
        value = codec.unpack(body, 1)
        if not isinstance(value, list) or len(value) != 3:
            raise Forbidden("plain")
        replica = codec.unpack_replica(value[0], value[1])
        plain = self._core.db.batches.body(replica, codec.unpack_counter(value[2]))
        if plain is not None:
            link.tell(BATCH, self._core.name, codec.pack([plain, []]))

    def repair(self, link: RootLink) -> None:
        """A peer's tree is another one than ours though it knows the same: send it all."""
        self._run(link, self._send_state(link))

    def _run(self, link: RootLink, answer: Any) -> None:
        d = Deferred.fromCoroutine(answer)
        let_go(d, self.log, "roots: answering {node} failed", node=link.node)

    async def _missing(self, link: RootLink, theirs: Knowledge) -> None:
        core, store = self._core, self._core.db
        if covers(theirs, store.knowledge):
            return
        missing = store.batches.missing_for(theirs)
        if missing is None:
            await self._send_state(link)
            return
        sent = 0
        for replica, lo in missing:
            body = await core.pool(store.batches.body, replica, lo)
            if body is None or link.closed:
                return
            link.tell(BATCH, core.name, codec.pack([body, []]))
            sent += len(body)
            if sent > REPLY_BYTES:
                return

    async def _send_state(self, link: RootLink) -> None:
        body = await self._core.locked(self._state)
        link.tell(STATE, self._core.name, body)

    async def _state(self) -> bytes:
        return await self._core.pool(self._core.db.state)  # type: ignore[no-any-return]
