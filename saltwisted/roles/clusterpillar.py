"""
Pillars on a node without them: its minions get theirs by way of a member that has them.

Who has them is in the membership. What comes back is sealed for the minion's key, and passes
through here unread. Introduces the master to the links; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.domain.replica.membership import PILLAR, Membership
from saltwisted.errors import SaltwistedError, TransportClosed
from saltwisted.interfaces import IPeers
from saltwisted.master.context import Context
from saltwisted.master.handlers import pillar

WORD = "pillar"
ANSWER_TIME = 60.0
"""Seconds that a member has for one pillar, before another one is asked."""


class PillarRelay:
    """
    @param holds: whether this node has pillars.
    @param ready: whether it has the whole of them.
    """

    def __init__(
        self,
        ctx: Context,
        peers: IPeers,
        membership: Membership,
        holds: bool,
        ready: Callable[[], bool],
    ) -> None:
        self._ctx = ctx
        self._peers = peers
        self._membership = membership
        self._holds = holds
        self._ready = ready
        peers.answer(WORD, self._asked)
        if not holds:
            ctx.pillar_elsewhere = self.ask

    async def ask(self, who: str, cmd: Any, nonce: str, enc_algo: str, sig_algo: str) -> bytes:
        """
        The sealed answer of the first member that has one.

        @raises TransportClosed: there is none; it says whom it asked, and what they said.
        """
        body = pillar.question(who, cmd, nonce, enc_algo, sig_algo)
        problems = []
        for link in self._peers.links():
            if not self._membership.may(link.node, PILLAR):
                continue
            try:
                sealed: bytes = await link.ask(WORD, body, ANSWER_TIME)
            except SaltwistedError as error:
                problems.append(f"{link.node}: {error}")
                continue
            self._ctx.counters["pillar:elsewhere"] += 1
            return sealed
        why = "; ".join(problems) or "no member that has pillars is reached"
        raise TransportClosed(f"this node has no pillars: {why}")

    async def _asked(self, node: str, body: bytes) -> bytes:
        if not self._holds:
            raise PeerRefused("there are no pillars here, either")
        if not self._ready():
            raise PeerRefused("not all pillars are here yet")
        return await pillar.answer(self._ctx, body)
