"""
Whether this node's disk was set back: a peer knows more of the node's own stream than the node
itself.
"""

from __future__ import annotations

from collections import Counter

from saltwisted.domain.replica.effects import Doubted, Effect, LogView, Renew
from saltwisted.domain.replica.progress import PeerProgress

MOST_RENEWALS = 16
"""How often in this life one peer is believed that our log was set back."""

AGAIN_SECONDS = 5.0
"""When something is tried again that this node's own disk has refused."""

_NEVER = float("inf")


class SetBack:
    """
    Only one new incarnation is begun at a time.

    @ivar again_at: when it is tried again, after the disk has refused.
    """

    def __init__(self, log: LogView) -> None:
        self.again_at = _NEVER
        self._log = log
        self._renewing = False
        self._believed: Counter[str] = Counter()

    def check(self, peer: PeerProgress) -> list[Effect]:
        """Whether the peer knows more of our own stream than we do."""
        stream, last = self._log.stream, self._log.last
        if self._renewing or self.again_at < _NEVER or peer.known.get(stream, 0) <= last:
            return []
        # A disk is set back once in a while. A peer that says so again and again is malicious:
        # each time all nodes know one more stream, for good.
        self._believed[peer.node] += 1
        if self._believed[peer.node] > MOST_RENEWALS:
            first = self._believed[peer.node] == MOST_RENEWALS + 1
            return [Doubted(peer.node)] if first else []
        self._renewing = True
        return [Renew(peer.node, stream, peer.known[stream])]

    def renewed(self) -> None:
        """A new incarnation has begun."""
        self._renewing = False
        self.again_at = _NEVER

    def failed(self, peer: str, now: float) -> None:
        """None could be begun, because of a peer."""
        self._renewing = False
        self.again_at = now + AGAIN_SECONDS
        # That was this node's own fault
        self._believed[peer] -= 1

    def is_due(self, now: float) -> bool:
        """Whether it is to be tried again now; asked once."""
        if now < self.again_at:
            return False
        self.again_at = _NEVER
        return True
