"""
The peer port: one TCP port for links, bulk connections and joins.

It stays open over all phases of a node (alone, joining, member); its C{gate} decides about each
connection. Until its handshake is complete, a connection costs one entry in a bounded table: TCP
refuses further connections (T-PEER-5).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from saltwisted.domain.replica.joining import Attempts
from saltwisted.doors import PEER_STRANGER
from saltwisted.transports.listening import cannot_listen
from saltwisted.transports.tls import AMP, JOIN, Acceptor, Badge, Doorway, Session, serve

MAX_STRANGERS = PEER_STRANGER.memory_all // PEER_STRANGER.memory
"""Connections that have proved nothing, together and ..."""
MAX_PER_SOURCE = 16
"""... from one address."""
MAX_PER_KEY = 64
"""Connections of the holder of one key; a member has a handful."""
FAILED_PER_SOURCE = 120
"""Connections a minute from one address that come to nothing; a handshake costs a millisecond."""


class Gate(Protocol):
    """Which peers are admitted, and for what."""

    def purposes(self) -> Sequence[bytes]:
        """The ALPN names that are served now."""

    def judge(self, purpose: bytes, key: str) -> bool:
        """Whether the holder of this key may come for this purpose; asked within the handshake."""

    def enter(self, session: Session) -> Any:
        """The protocol for an admitted peer, or C{None}."""


class Closed:
    """The gate of a node that is not ready for anybody."""

    def purposes(self) -> Sequence[bytes]:
        """Nothing."""
        return ()

    def judge(self, purpose: bytes, key: str) -> bool:
        """Nobody."""
        return False

    def enter(self, session: Session) -> Any:
        """Nothing."""
        return None


class PeerPort:
    """
    Listens for peers.

    @ivar gate: decides about each connection; replaced when the node's phase changes.
    @ivar taken_for_member: whether somebody has called here as members of a cluster call one
        another.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        interface: str,
        port: int,
        badge: Badge,
        counters: Counter[str],
    ) -> None:
        self.gate: Gate = Closed()
        self.port = port
        self.taken_for_member = False
        self._reactor = reactor
        self._interface = interface
        self._counters = counters
        self._strangers: Counter[str] = Counter()
        self._doors: set[Doorway] = set()
        self._by_key: Counter[str] = Counter()
        self._listening: Any = None
        self._attempts = Attempts(per_source=FAILED_PER_SOURCE, in_all=sys.maxsize)
        self._acceptor = Acceptor(badge, self._judge, self._purposes)

    def wear(self, badge: Badge) -> None:
        """Show another certificate from now on."""
        self._acceptor.wear(badge)

    def startService(self) -> None:
        """
        Listen.

        @raises PortError: the port is in use.
        @raises ConfigError: there is no such address here, or we may not have the port.
        """
        try:
            self._listening = self._reactor.listenTCP(
                self.port,
                serve(self._acceptor, self._build, self._refuses),
                interface=self._interface,
            )
        except CannotListenError as error:
            raise cannot_listen(
                self._interface,
                self.port,
                error.socketError,
                "cluster_pool_port: cannot listen for peers",
                "is another node running?",
            ) from error
        self.port = self._listening.getHost().port

    def stopService(self) -> Any:
        """Stop listening, and close open connections."""
        self.gate = Closed()
        listening, self._listening = self._listening, None
        for door in list(self._doors):
            if door.transport is not None:
                door.transport.abortConnection()  # type: ignore[attr-defined]
        return listening.stopListening() if listening is not None else None

    def _purposes(self, offered: Sequence[bytes]) -> Sequence[bytes]:
        if AMP in offered:
            self.taken_for_member = True
        return self.gate.purposes()

    def _judge(self, purpose: bytes, key: str) -> bool:
        good = self.gate.judge(purpose, key)
        if not good:
            self._counters["peer_strangers"] += 1
        return good

    def _refuses(self, address: Any) -> bool:
        source = str(getattr(address, "host", ""))
        full = (
            sum(self._strangers.values()) >= MAX_STRANGERS
            or self._strangers[source] >= MAX_PER_SOURCE
            or not self._attempts.allowed(source, self._reactor.seconds())
        )
        if full:
            self._counters["peer_connections_refused"] += 1
        return full

    def _build(self, address: Any) -> Doorway:
        source = str(getattr(address, "host", ""))
        self._strangers[source] += 1
        known = False
        key = ""

        def settled() -> None:
            nonlocal known
            if not known:
                known = True
                self._strangers[source] -= 1
                if self._strangers[source] <= 0:
                    del self._strangers[source]

        def enter(session: Session) -> Any:
            nonlocal key
            if session.purpose != JOIN:
                # Who wants to join has shown a key that anybody can make
                settled()
            if self._by_key[session.key] >= MAX_PER_KEY:
                self._counters["peer_connections_refused"] += 1
                return None
            key = session.key
            self._by_key[key] += 1
            return self.gate.enter(session)

        def gone(door: Doorway) -> None:
            settled()
            if key:
                self._by_key[key] -= 1
                if self._by_key[key] <= 0:
                    del self._by_key[key]
            if door.inner is None:
                self._attempts.failed(source, self._reactor.seconds())
            self._doors.discard(door)

        door = Doorway(self._reactor, enter, gone)
        self._doors.add(door)
        return door
