"""
Which minions are connected, as well as a master can know.

A minion is present if it made an authenticated request within the last C{loop_interval}, or if
there is a connection to the publish port from an address that is known to be that minion's. Stock
Salt looks for the second in the kernel's table of connections, which takes milliseconds to read
even if it is short; here the port reports who is connected. Our own minions announce themselves by
subscribing to a topic of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from saltwisted.domain.presence import Whereabouts, known_addresses, present_ids
from saltwisted.interfaces import IWhereabouts
from saltwisted.master.sessions import Sessions
from saltwisted.parts import IMinionCache


class Presence:
    """Answers who is connected, from sessions, cached grains and connections."""

    def __init__(
        self,
        sessions: Sessions,
        cache: IMinionCache,
        connected: Callable[[], Collection[str]],
        now: Callable[[], float],
        whereabouts: IWhereabouts,
        recent: float = 60.0,
        subscribed: Callable[[str], bool] = lambda minion_id: False,
        earlier: Callable[[], Mapping[str, Whereabouts]] = dict,
    ) -> None:
        """
        @param earlier: what was known of each minion before the start.
        @param connected: addresses with a connection to the publish port.
        @param whereabouts: which minions are at other nodes.
        @param subscribed: whether a minion of ours subscribes to its own topic at this moment.
        @param recent: seconds for which one authenticated request counts as presence.
        """
        self._sessions = sessions
        self._cache = cache
        self._connected = connected
        self._now = now
        self._recent = recent
        self._subscribed = subscribed
        self._whereabouts = whereabouts
        self._earlier = earlier

    async def refresh(self) -> None:
        """Awaited before an answer that shall be of this moment."""
        await self._whereabouts.refresh()

    def elsewhere(self) -> Mapping[str, str]:
        """Minions at other nodes, with the node."""
        return self._whereabouts.elsewhere()

    def present(self, ids: Iterable[str]) -> set[str]:
        """Those of C{ids} that are here now, or at another node of the cluster."""
        elsewhere = self.elsewhere()
        if not elsewhere:
            return self.here(ids)
        rest = []
        found = set()
        for minion_id in ids:
            if minion_id in elsewhere:
                found.add(minion_id)
            else:
                rest.append(minion_id)
        return found | self.here(rest)

    def perhaps(self, ids: Sequence[str]) -> Sequence[str]:
        """
        Those of C{ids} that are worth a look: while nobody is connected, those that have made
        a request.

        A master with ten thousand keys and no minion does not look for each of them.
        """
        if self._connected():
            return ids
        live = self._sessions.live()
        return [minion_id for minion_id in ids if minion_id in live] if live else ()

    def before(self) -> list[str]:
        """The minions that were present before the start, as far as that is known."""
        return [minion_id for minion_id, each in self._earlier().items() if each.present]

    def address(self, minion_id: str) -> str:
        """From where a minion made its last request, in this life of the master or before."""
        live = self._sessions.live()
        here = live[minion_id].address if minion_id in live else ""
        if here:
            return here
        earlier = self._earlier().get(minion_id)
        return earlier.address if earlier is not None else ""

    def listening(self, ids: Iterable[str]) -> set[str]:
        """Those of C{ids} that subscribe to their own topic now: ours do, stock ones seldom."""
        return set(filter(self._subscribed, ids))

    def here(self, ids: Iterable[str]) -> set[str]:
        """Those of C{ids} that are at this node now."""
        live = self._sessions.live()
        now = self._now()
        addresses, horizon = self._connected(), now - self._recent
        return present_ids(
            ids,
            recently=lambda m: (m in live and live[m].seen >= horizon) or self._subscribed(m),
            addresses_of=lambda m: known_addresses(
                self.address(m), self._cache.get("grains", m) or {}
            ),
            connected=addresses,
        )
