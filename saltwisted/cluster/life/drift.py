"""
Compares the options that should be equal: at each new link, every minute (because a reload changes
options), and on request.

A difference is logged once, with the names of the options. It is in C{status} and the metrics as
long as it lasts. Values may contain secrets, so only root can see them (C{members --drift}).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.config.secrets import compared
from saltwisted.domain.replica.settings import differences, shown_of
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "settings"
ASK_TIME = 3.0
LOOK = 60.0
"""Seconds between two comparisons."""


class Drift:
    """
    Compares the members' configurations.

    @ivar told: what has been logged: (node, option).
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        peers: IPeers,
        config: Any,
        others: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """
        @param config: the master's options, as attributes.
        @param others: the ids of the other members.
        """
        self._others = others
        self._node = node
        self._peers = peers
        self._config = config
        self.told: set[tuple[str, str]] = set()
        self._ticker = LoopingCall(self._look)
        self._ticker.clock = clock
        peers.answer(WORD, lambda peer, body: pack_bin(self._own()))
        peers.on_link(self._link)

    def startService(self) -> None:
        """Compare from time to time."""
        let_go(start_on_ticks(self._ticker, LOOK), self.log, "options are no longer compared")

    def stopService(self) -> None:
        """Compare no more."""
        if self._ticker.running:
            self._ticker.stop()

    def _look(self) -> None:
        for link in self._peers.links():
            self._link(link, True)

    def differing(self) -> dict[str, list[str]]:
        """Option to the members that have another value than this node, as last heard."""
        found: dict[str, list[str]] = {}
        members = set(self._others())
        for node, option in sorted(self.told):
            if node in members:
                found.setdefault(option, []).append(node)
        return dict(sorted(found.items()))

    def _own(self) -> dict[str, str]:
        """Asked again each time: a reload changes options."""
        return shown_of(lambda name: option_of(self._config, name), compared)

    def _link(self, link: IPeerLink, up: bool) -> None:
        if up:
            compared = Deferred.fromCoroutine(self._compare(link))
            let_go(compared, self.log, "options were not compared")

    async def _compare(self, link: IPeerLink) -> None:
        texts = await self._ask(link)
        if texts is None:
            return
        rows = differences({self._node: self._own(), link.node: texts})
        new = [r["option"] for r in rows if (link.node, r["option"]) not in self.told]
        self.told = {pair for pair in self.told if pair[0] != link.node}
        self.told |= {(link.node, row["option"]) for row in rows}
        if new:
            self.log.warn(
                "{node} and this node differ in options that should be equal: {options}. {advice}",
                advice=advice.of("drift.look"),
                node=link.node,
                options=", ".join(new),
            )

    async def _ask(self, link: IPeerLink) -> Mapping[str, str] | None:
        try:
            value = unpack_bin(await as_deferred(link.ask(WORD, b"", ASK_TIME)))
        except (SaltwistedError, WireError):
            return None
        if not isinstance(value, dict):
            return None
        return {str(name): str(text) for name, text in value.items()}

    async def rows(self) -> Mapping[str, Any]:
        """C{drift}: where members differ, this node among them; C{unasked}: who did not answer."""
        texts = {self._node: self._own()}
        for link in self._peers.links():
            found = await self._ask(link)
            if found is not None:
                texts[link.node] = dict(found)
        unasked = sorted(node for node in self._others() if node not in texts)
        return {"drift": differences(texts), "unasked": unasked}


def option_of(config: Any, name: str) -> Any:
    """An option's value, even of an option without an attribute; C{None} if nobody has set it."""
    return config.value(name)
