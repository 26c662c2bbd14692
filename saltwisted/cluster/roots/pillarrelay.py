"""
Pillars on a node without pillars: its minions get them through a member that has them.

The membership says which members have pillars. The answer is sealed for the minion's key, and
passes through here unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.domain.replica.membership import PILLAR, Membership
from saltwisted.errors import SaltwistedError, TransportClosed
from saltwisted.interfaces import IPeers

WORD = "pillar"
ANSWER_TIME = 60.0
"""Seconds that a member has for one pillar, before another one is asked."""


class Trees(Protocol):
    """
    The trees from which pillars are compiled on this node; see
    L{saltwisted.cluster.roots.pillarviews}.
    """

    def generation(self) -> int:
        """Changes when it is replaced as a whole."""

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """The directories that replace the configured ones."""


class PillarRelay:
    """
    Who compiles the pillars of this node's minions (C{IPillarHolders}).

    @ivar elsewhere: whether this node has no pillars.
    """

    def __init__(
        self,
        peers: IPeers,
        membership: Membership,
        holds: bool,
        ready: Callable[[], bool],
        trees: Trees,
        answer: Callable[[bytes], Awaitable[bytes]],
        counters: Counter[str],
    ) -> None:
        """
        @param holds: whether this node has pillars.
        @param ready: whether it has the whole of them.
        @param answer: the private reply of this node's master to another one's question.
        """
        self.elsewhere = not holds
        self._peers = peers
        self._membership = membership
        self._ready = ready
        self._trees = trees
        self._answer = answer
        self._counters = counters
        peers.answer(WORD, self._asked)

    def generation(self) -> int:
        """Changes when what pillars are compiled from is replaced as a whole."""
        return self._trees.generation()

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """The directories that replace the configured ones."""
        return self._trees.roots(configured)

    async def ask(self, question: bytes) -> bytes:
        """
        The sealed answer of the first member that has one.

        @raises TransportClosed: there is none; the text says who was asked, and the answers.
        """
        problems = []
        for link in self._peers.links():
            if not self._membership.may(link.node, PILLAR):
                continue
            try:
                sealed: bytes = await link.ask(WORD, question, ANSWER_TIME)
            except SaltwistedError as error:
                problems.append(f"{link.node}: {error}")
                continue
            self._counters["pillar:elsewhere"] += 1
            return sealed
        why = "; ".join(problems) or "no member with pillars can be reached"
        raise TransportClosed(f"this node has no pillars: {why}")

    async def _asked(self, node: str, body: bytes) -> bytes:
        if self.elsewhere:
            raise PeerRefused("this node has no pillars either")
        if not self._ready():
            raise PeerRefused("this node does not have all pillars yet")
        return await self._answer(body)
