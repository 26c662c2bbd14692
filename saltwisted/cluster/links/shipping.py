"""
Ships one log between this node and its peers: links and timers for the machine that decides.

The machine is L{saltwisted.domain.replica.ship}. It is the same for the fact log and the job log;
this module does not know what the entries mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.links.confirming import Confirming
from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.replica.effects import (
    Differs,
    Doubted,
    Effect,
    Forget,
    Merge,
    MergeFacts,
    MergeState,
    Read,
    Renew,
    Send,
    SendState,
    TooFarBehind,
    TooManyStreams,
)
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.ship import (
    Shipper,
)
from saltwisted.domain.replica.words import StatePart, encode, state_parts
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import ILog, IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go

QUEUED_BYTES = 1024 * 1024
"""A whole state waits while so much of it waits in the link."""
_PAUSE = 0.02
PART_BYTES = 32 * 1024
"""What is packed of a whole state between two turns of the reactor: about 2 ms."""


class Shipping:
    """
    Drives the machine of one log. A part of a service: started after the log, stopped before it.

    @ivar machine: what is known of each peer; for queries.
    @ivar on_refused: called with C{(peer, by_peer)}: somebody was away for too long.
    @ivar on_differs: called with C{(peer, kind)}: equal knowledge, different contents.
    @ivar on_news: called after every event with no argument: knowledge of peers may have changed.
    """

    log = Logger()

    def __init__(
        self,
        node: str,
        replica: ILog,
        peers: IPeers,
        clock: Any,
        dice: Random | None = None,
        on_refused: Callable[[str, bool], None] = lambda peer, by_peer: None,
    ) -> None:
        """
        @param clock: the reactor.
        """
        self.machine = Shipper(node, replica, dice or Random())  # noqa: S311 - spreads load
        self.on_refused = on_refused
        self.on_differs: Callable[[str, str], None] = lambda peer, kind: None
        self.on_news: Callable[[], None] = lambda: None
        self._log = replica
        self._peers = peers
        self._clock = clock
        self._word = f"{replica.name}.ship"
        self._links: dict[str, IPeerLink] = {}
        self._timer: IDelayedCall | None = None
        self._due = float("inf")
        self._running = False
        self._confirming = Confirming(clock, self.machine.peers)
        peers.answer(self._word, self._message)
        peers.on_link(self._link)
        replica.on_entries(self._stored)

    # -- life

    def startService(self) -> None:
        """Begin with the links that are up."""
        self._running = True
        self.machine.reset()
        for link in self._peers.links():
            self._link(link, True)

    def stopService(self) -> None:
        """Send nothing any more."""
        self._running = False
        self._links.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._confirming.end()

    def begun_anew(self) -> None:
        """The log was damaged, and another one was begun: get back what others have."""
        if self._running:
            self._do(self.machine.begun_anew(self._clock.seconds()))

    # -- events

    def _link(self, link: IPeerLink, up: bool) -> None:
        if not self._running:
            return
        now = self._clock.seconds()
        if up:
            self._links[link.node] = link
            self._do(self.machine.connected(link.node, now))
        elif self._links.get(link.node) is link:
            del self._links[link.node]
            self._do(self.machine.disconnected(link.node, now))

    def _message(self, node: str, body: bytes) -> None:
        link = self._links.get(node)
        if not self._running or link is None:
            return
        try:
            effects = self.machine.received(node, body, self._clock.seconds())
        except WireError as error:
            self.log.error(
                "{node} sent something that is not a message: {reason}",
                node=node,
                reason=error.reason,
            )
            link.close(f"not a message of {self._word}")
            return
        self._do(effects)

    def _stored(self, entries: Sequence[Entry], source: str) -> None:
        if self._running:
            self._do(self.machine.stored(entries, source, self._clock.seconds()))

    def _tick(self) -> None:
        self._timer = None
        self._do(self.machine.tick(self._clock.seconds()))

    # -- effects

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._effects[type(effect)](self, effect)
        if not self._running:
            return
        self._plan()
        self._log.confirmed(self.machine.peers.confirmed())
        self._confirming.look(self._links)
        self.on_news()

    def _plan(self) -> None:
        due = self.machine.due()
        if self._timer is not None and self._timer.active():
            if self._due <= due:
                return
            self._timer.cancel()
        self._timer = None
        if due != float("inf"):
            self._due = due
            self._timer = self._clock.callLater(max(0.0, due - self._clock.seconds()), self._tick)

    def _send(self, effect: Send) -> None:
        link = self._links.get(effect.peer)
        if link is not None:
            link.tell(self._word, effect.message, effect.tail)

    def _read(self, effect: Read) -> None:
        async def read() -> None:
            entries: Sequence[Entry] = ()
            try:
                entries = await self._log.since(effect.after, effect.limit)
            except SaltwistedError as error:
                self.log.error("entries cannot be read: {error}", error=error)
            finally:
                # Whatever has failed: the machine waits for an answer
                if self._running:
                    self._do(self.machine.read(effect.peer, entries, self._clock.seconds()))

        self._go(read())

    def _merge(self, effect: Merge) -> None:
        async def merge() -> None:
            try:
                await self._log.merge(effect.entries, effect.peer)
            except SaltwistedError as error:
                self.log.error("entries of {peer}: {error}", peer=effect.peer, error=error)
            finally:
                ends = {entry.stream: entry.number for entry in effect.entries}
                if self._running and not covers(self._log.knowledge(), ends):
                    self._do(self.machine.unstored(self._clock.seconds()))

        self._go(merge())

    def _send_state(self, effect: SendState) -> None:
        link = self._links.get(effect.peer)
        if link is not None:
            self._go(self._send_parts(link))

    async def _send_parts(self, link: IPeerLink) -> None:
        """Pack and send a little at a time, as fast as the link takes it."""
        await self._may_go_on(link)
        knowledge, facts = self._log.state()
        waiting: StatePart | None = None
        parts = iter(state_parts(facts, PART_BYTES))
        for index in count():
            # The folds are ahead of the disk for a moment after each own entry: nobody may
            # hear of one that a crash could still undo
            await self._may_go_on(link)
            part = next(parts, None)
            if self._links.get(link.node) is not link:
                return
            if waiting is not None:
                last = knowledge if part is None else None
                link.tell(self._word, encode(StatePart(waiting.index, waiting.facts, last)))
            if part is None:
                return
            waiting = StatePart(index, part)
            await deferLater(self._clock, 0)

    async def _may_go_on(self, link: IPeerLink) -> None:
        """Wait until all own entries are on disk, and the link takes more."""
        replica = self._log
        while self._links.get(link.node) is link and (
            link.queued > QUEUED_BYTES or replica.knowledge().get(replica.stream, 0) < replica.last
        ):
            await deferLater(self._clock, _PAUSE)

    def _merge_state(self, effect: MergeState) -> None:
        async def merge() -> None:
            try:
                await self._log.merge_state(effect.facts, effect.knowledge)
            except SaltwistedError as error:
                self.log.error("the state of {peer}: {error}", peer=effect.peer, error=error)
                return
            if self._running and effect.knowledge is not None:
                self._do(self.machine.state_stored(effect.peer, self._clock.seconds()))

        self._go(merge())

    def _merge_facts(self, effect: MergeFacts) -> None:
        self._go(self._log.merge_facts(effect.facts))

    def _renew(self, effect: Renew) -> None:
        async def renew() -> None:
            renewed = False
            try:
                await self._log.renew()
                renewed = True
            except SaltwistedError as error:
                self.log.error(
                    "{log}: {peer} knows more of this node than the node itself, and no new "
                    "incarnation could be started: {error}. This node tries again",
                    log=self._log.name,
                    peer=effect.peer,
                    error=error,
                )
            finally:
                if self._running:
                    now = self._clock.seconds()
                    machine = self.machine
                    self._do(
                        machine.renewed(now) if renewed else machine.unrenewed(effect.peer, now)
                    )

        self._go(renew())

    def _forget(self, effect: Forget) -> None:
        self._log.forget(effect.ignored)

    def _refused(self, effect: TooFarBehind) -> None:
        self.on_refused(effect.peer, effect.by_peer)

    def _doubted(self, effect: Doubted) -> None:
        self.log.error(
            "{log}: {peer} keeps claiming that it knows more of this node than the node itself. "
            "This node ignores the claim until it restarts. {advice}",
            log=self._log.name,
            peer=effect.peer,
            advice=advice.of("cluster.malicious"),
        )

    def _too_many_streams(self, effect: TooManyStreams) -> None:
        self.log.error(
            "{log}: {peer} names thousands of incarnations of nodes of which nobody has heard: "
            "nothing is exchanged with it until it links again. {advice}",
            log=self._log.name,
            peer=effect.peer,
            advice=advice.of("cluster.malicious"),
        )

    def _differs(self, effect: Differs) -> None:
        self.log.error(
            "{log}: {peer} knows the same entries but has different {kind}: a disk or a program "
            "is faulty. The nodes merge the differences",
            log=self._log.name,
            peer=effect.peer,
            kind=effect.kind,
        )
        self.on_differs(effect.peer, effect.kind)

    def _go(self, work: Any) -> None:
        let_go(as_deferred(work), self.log, "shipping failed")

    _effects: dict[type, Callable[[Any, Any], None]] = {
        Send: _send,
        Read: _read,
        Merge: _merge,
        SendState: _send_state,
        MergeState: _merge_state,
        MergeFacts: _merge_facts,
        Renew: _renew,
        Forget: _forget,
        TooFarBehind: _refused,
        Differs: _differs,
        Doubted: _doubted,
        TooManyStreams: _too_many_streams,
    }

    # -- waiting

    def settled(self, entry: Entry, seconds: float) -> Deferred[Sequence[str]]:
        """
        Wait until every linked peer has an entry on disk, for at most so long.

        @return: fires with the nodes, linked when this was called, that have not confirmed it.
        """
        return self._confirming.wait(entry.stream, entry.number, self._links, seconds)
