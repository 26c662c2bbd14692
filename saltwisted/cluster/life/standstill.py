"""
After a pause or a cut, a node serves nobody by outdated knowledge.

A pause is a standstill of the reactor of over five seconds, by a clock that goes on while the
machine is suspended (C{CLOCK_BOOTTIME}): SIGSTOP and SIGCONT, a closed laptop, a virtual machine
that was paused. The first request after it, which may have waited in a socket for long, closes the
gate before it is examined. The gate opens when every member that was linked has said what it knows
and all of that is here, or when the member is found to be gone; at the latest after C{catchup_wait}
seconds. Requests wait meanwhile: stock minions ask one thing at a time, and one unanswered request
blocks the others.

A link that comes up closes the gate in the same way for the member at its other end, until that
member has been heard or its link is gone again. So keys that were revoked there while the two could
not meet are refused from the first request on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.replica.knowledge import decode_knowledge, encode_knowledge
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "facts.known"
PAUSE_SECONDS = 5.0
TICK_SECONDS = 1
MOST_WAITING = 10_000
STEP = 0.05
Reply = Callable[[bytes], None]


def boottime() -> float:
    """Seconds since the machine was started, those in which it was suspended too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Standstill:
    """
    A part of the service, started before the node catches up.

    @ivar closed: whether requests wait.
    @ivar count: how many pauses there were.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        peers: IPeers,
        knowledge: Callable[[], Mapping[Any, int]],
        in_force: Callable[[], bool],
        handle: Callable[[bytes | memoryview, str, Reply], None],
        wait: float,
        boot: Callable[[], float] = boottime,
    ) -> None:
        """
        @param knowledge: what is on disk here.
        @param in_force: whether all of that is in the key directories.
        @param handle: answers a request.
        @param wait: C{catchup_wait}.
        """
        self._clock = clock
        self._peers = peers
        self._knowledge = knowledge
        self._in_force = in_force
        self._handle = handle
        self._wait = wait
        self._boot = boot
        self._seen = 0.0
        self._running = False
        self._end = 0.0
        self._goals: dict[str, Mapping[Any, int]] = {}
        self._asked: dict[str, IPeerLink] = {}
        self._late: set[str] = set()
        self._returned: set[str] = set()
        self._waiting: list[tuple[bytes | memoryview, str, Reply]] = []
        self._beat = LoopingCall(self._look)
        self._beat.clock = clock
        self.closed = False
        self.count = 0
        peers.answer(WORD, lambda node, body: pack_bin(encode_knowledge(knowledge())))
        peers.on_link(self._link)

    def startService(self) -> None:
        """Look at the clock from now on."""
        self._running = True
        self._seen = self._boot()
        let_go(
            start_on_ticks(self._beat, TICK_SECONDS),
            self.log,
            "pauses are no longer noticed",
        )

    def stopService(self) -> None:
        """End all waiting."""
        self._running = False
        if self._beat.running:
            self._beat.stop()
        self._waiting.clear()

    def keeps(self, frame: bytes | memoryview, peer: str, reply: Reply) -> bool:
        """Whether a request has to wait; it is answered later then."""
        self._look()
        if not self.closed:
            return False
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((frame, peer, reply))
        return True

    def look(self) -> bool:
        """Whether it is too early for answers that depend on what others have revoked."""
        self._look()
        return self.closed

    def _look(self) -> None:
        now = self._boot()
        pause, self._seen = now - self._seen, now
        if pause > PAUSE_SECONDS and self._running:
            self.count += 1
            self.log.warn(
                "this process stood still for {pause:.0f} s: requests wait until it has caught "
                "up with the other members",
                pause=pause,
            )
            # What was heard before it does not count
            self._goals, self._asked = {}, {}
            self._close({link.node for link in self._peers.links()})

    def _link(self, link: IPeerLink, up: bool) -> None:
        if up and self._running:
            if link.node not in self._late:
                self._returned.add(link.node)
            self._close({link.node})
        elif link.node in self._returned:
            # It was heard of for a moment only; it is as far away as before
            self._returned.discard(link.node)
            self._late.discard(link.node)

    def _close(self, nodes: set[str]) -> None:
        """Serve nobody until these are heard."""
        if not nodes:
            return
        self._end = self._clock.seconds() + self._wait
        self._late |= nodes
        if not self.closed:
            self.closed = True
            caught_up = Deferred.fromCoroutine(self._catch_up())
            let_go(caught_up, self.log, "the gate was opened by an error")

    async def _catch_up(self) -> None:
        late = self._late
        try:
            while self._running:
                self._look()
                if self._clock.seconds() >= self._end:
                    break
                for link in self._peers.links():
                    # A new link to a member is asked again
                    if link.node in late and self._asked.get(link.node) is not link:
                        self._asked[link.node] = link
                        self._goals.pop(link.node, None)
                        let_go(self._ask(link, self._goals), self.log, "a member was not asked")
                knowledge = self._knowledge()
                done = {node for node, goal in self._goals.items() if covers(knowledge, goal)}
                late -= done
                self._returned -= done
                if not late and self._in_force():
                    break
                await deferLater(self._clock, STEP)
            if late and self._running:
                self.log.warn(
                    "degraded: {late} did not answer within {seconds:.0f} s. Keys that were "
                    "revoked only there are still accepted until a link returns.",
                    late=", ".join(sorted(late)),
                    seconds=self._wait,
                )
        finally:
            late.clear()
            self._returned.clear()
            self._goals, self._asked = {}, {}
            self._open()

    async def _ask(self, link: IPeerLink, goals: dict[str, Mapping[Any, int]]) -> None:
        """What a member knows, into C{goals}; a later pause looks into another dictionary."""
        try:
            answer = await as_deferred(link.ask(WORD, b"", self._wait))
            goals[link.node] = decode_knowledge(unpack_bin(answer))
        except (SaltwistedError, WireError):
            # Its link ends, or it is late: the loop above sees both
            return

    def _open(self) -> None:
        self.closed = False
        waiting, self._waiting = self._waiting, []
        if self._running:
            self._answer(waiting)

    def _answer(self, waiting: list[tuple[bytes | memoryview, str, Reply]]) -> None:
        """Those that waited, a few per turn of the reactor."""
        for frame, peer, reply in waiting[:16]:
            self._handle(frame, peer, reply)
        if waiting[16:] and self._running:
            self._clock.callLater(0, self._answer, waiting[16:])
