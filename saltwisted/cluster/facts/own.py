"""
What this node adds to the fact log, and which members have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted.cluster.links.shipping import Shipping
from saltwisted.errors import StoreError
from saltwisted.interfaces import ILog, IPeers

SETTLE_TIME = 2.0
"""Seconds that a change waits for the members that are reachable to confirm it."""


class OwnFacts:
    """
    Everything that this node adds to the log goes through here.

    @param others: the other members, linked or not.
    @param closed: why nothing more is appended, once the others have been told that this node
        leaves; or C{""}.
    """

    def __init__(
        self,
        log: ILog,
        shipping: Shipping,
        peers: IPeers,
        others: Callable[[], Sequence[str]],
        closed: Callable[[], str],
    ) -> None:
        self._log = log
        self._shipping = shipping
        self._peers = peers
        self._others = others
        self._closed = closed
        self._last: Any = None

    async def append(self, kind: str, body: Mapping[str, Any]) -> Any:
        """
        Add a fact, and remember the last for L{settled}.

        @raises StoreError: the disk refuses, or this node has told the others that it leaves.
        """
        closed = self._closed()
        if closed:
            raise StoreError(closed)
        self._last = await self._log.append(kind, body)
        return self._last

    async def settled(self) -> Sequence[str]:
        """
        The members that have not confirmed, after some seconds, what this node added last.

        Only for callers whose own entries are on this node's disk: before that, it would be an
        older entry.
        """
        linked = {link.node for link in self._peers.links()}
        late = set(self._others()) - linked
        if self._last is not None:
            late |= set(await self._shipping.settled(self._last, SETTLE_TIME))
        return sorted(late)
