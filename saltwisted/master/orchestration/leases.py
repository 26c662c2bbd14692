"""
Who continues the orchestrations of which node: one duty for each node (C{orch/NODE}).

A node holds its own duty as long as it serves, and its orchestrations run under it. When it has
died, one of the nodes that know a run of it gets its duty, takes over its runs, and gives the duty
back. So there are as many duties as nodes, however many runs there are, and a new run waits for
nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.domain.claims.words import Claim
from saltwisted.transports.deferreds import let_go, wait_for

KIND = "orch/"


class Leases:
    """
    The duties of one node. Reactor thread only.

    @param left: continues what a node has left, under a claim; returns when it has it.
    @param ended: called when nothing may be done under this node's own duty any more; ends all of
        it.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        claims: IClaims,
        left: Callable[[str, Callable[[], bool]], Awaitable[None]],
        ended: Callable[[str], None],
    ) -> None:
        self._clock, self._node, self._claims = clock, node, claims
        self._left, self._ended = left, ended
        self._own: Claim | None = None
        self._wanted: set[str] = set()
        self._waiting: list[Deferred[None]] = []

    @property
    def name(self) -> str:
        """Of the own one."""
        return f"{KIND}{self._node}"

    def start(self) -> None:
        """Want the own one."""
        self._claims.duty(self.name, self._begin_own, self._end_own)

    async def stop(self) -> None:
        """Give all back, so that others need not wait for the end of a term."""
        for name in (*sorted(self._wanted), self._node):
            await self._claims.release(f"{KIND}{name}")
        self._wanted.clear()

    def holds(self) -> bool:
        """Whether something may be done under the own one, in this turn."""
        return self._own is not None and self._claims.holds(self._own)

    @property
    def term(self) -> int:
        """The number of the own one."""
        return 0 if self._own is None else self._own.term

    def held(self, seconds: float) -> Deferred[None]:
        """Fires when this node's own duty is held; gives up after a while."""
        if self.holds():
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting.addTimeout(seconds, self._clock)

    def want(self, nodes: Collection[str]) -> None:
        """These have left something, or are at it."""
        wanted = set(nodes) - {self._node}
        if not self.holds():
            wanted = set()
        for node in sorted(wanted - self._wanted):
            self._wanted.add(node)
            self._want(node)
        for node in sorted(self._wanted - wanted):
            self._wanted.discard(node)
            released = wait_for(self._claims.release(f"{KIND}{node}"))
            let_go(released, self.log, "the orchestrations of {node} are not given back", node=node)

    # -- duties

    def _begin_own(self, claim: Claim) -> None:
        self._own = claim
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)
        # What an earlier life has left, or this one when it had lost its duty
        self._go_on(self._node, lambda: self._claims.holds(claim))

    def _go_on(self, node: str, holds: Callable[[], bool]) -> None:
        left = wait_for(self._left(node, holds))
        let_go(left, self.log, "what {node} has left is not gone on with", node=node)

    def _end_own(self, why: str) -> None:
        self._own = None
        self._ended(why)
        self.want(())

    def _want(self, node: str) -> None:
        def begin(claim: Claim) -> None:
            self._go_on(node, lambda: self.holds() and self._claims.holds(claim))

        # Nothing goes on under it: what is taken over goes on under the own one
        self._claims.duty(f"{KIND}{node}", begin, lambda why: None)
