"""
TLS for strangers: handshakes share the turns of the reactor, and what comes before their end is
little.

A handshake is about a millisecond of the reactor's thread. When a thousand clients come back at
once, each gets its own in turn, and whoever else knocks waits for one portion of them only.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from saltwisted.transports.accepting import Few
from saltwisted.turns import Turns, Waiting

LONGEST = 32_768
"""Bytes of a handshake: a client that has no certificate needs some two thousand."""

WAITING = 64
"""Handshakes that wait for their turns while more connections are accepted."""
_Base: Any = TLSMemoryBIOFactory.protocol


class InTurns(_Base):
    """One connection. Its data waits for a turn until the handshake has ended."""

    factory: Any
    _waits: Waiting | None = None
    _came = 0

    def dataReceived(self, data: bytes) -> None:
        """Bytes of TLS."""
        if self.wrappedProtocol.shaken:
            super().dataReceived(data)
            return
        self._early.append(data)
        self._came += len(data)
        if self._came > LONGEST and self._waits is None:
            self.abortConnection()
        elif self._waits is None:
            self._waits = self.factory.wait(self._turn)

    def makeConnection(self, transport: Any) -> None:
        """A client has connected."""
        self._early: list[bytes] = []
        super().makeConnection(transport)

    def _turn(self) -> None:
        self._waits = None
        self.factory.waits_less()
        early, self._early = b"".join(self._early), []
        super().dataReceived(early)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
            self.factory.waits_less()
        super().connectionLost(reason)


class Handshakes(TLSMemoryBIOFactory):
    """TLS around connections that say when they are C{shaken}."""

    protocol = InTurns
    noisy = False

    def __init__(self, certificate: Any, wrapped: Any, turns: Turns, few: Few) -> None:
        """
        @param few: accepts nobody while many handshakes wait for their turns.
        """
        super().__init__(certificate, False, wrapped)
        self._turns = turns
        self._few = few
        self._waiting = 0

    def wait(self, call: Any) -> Waiting:
        """A handshake goes on in a later turn."""
        self._waiting += 1
        if self._waiting >= WAITING:
            self._few.hold(True)
        return self._turns.later(call)

    def waits_less(self) -> None:
        """One of them has had its turn."""
        self._waiting -= 1
        if self._waiting < WAITING // 2:
            self._few.hold(False)
