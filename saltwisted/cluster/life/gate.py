"""
The gate of a member's peer port: who may connect, and for what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.amp import COMMAND, Box
from twisted.python.failure import Failure

from saltwisted.cluster.life.join import Admission
from saltwisted.cluster.links.commands import Tell
from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.membership import Membership
from saltwisted.transports.tls import AMP, BULK, JOIN, Session

FAREWELL = "farewell"
LINGER = 2.0
"""Seconds that a removed node has to take it."""
ASK_AGAIN = 600.0
"""Seconds in which a node that was admitted may fetch its answer again, if it never got it."""


class Farewell(Protocol):
    """
    Tells a removed node that it is removed, and reads nothing from it.

    The node was away when it was removed, and would otherwise serve its minions for ever.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._timer: Any = None

    def connectionMade(self) -> None:
        """Say it, and hang up."""
        transport: Any = self.transport
        box = {b"word": FAREWELL.encode(), b"body": b"", b"bulk": b"0"}
        transport.write(Box({COMMAND: Tell.commandName, **box}).serialize())
        transport.loseConnection()
        # One that does not answer TLS's goodbye would keep the connection
        self._timer = self._clock.callLater(LINGER, transport.abortConnection)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()


@frozen(kw_only=True)
class MemberGate:
    """
    Decides who may connect to the peer port of a member: members for links; joining nodes while
    there is a token or secret to join by; and removed nodes, to be told so.

    @ivar key: this node's key id.
    """

    key: str
    membership: Membership
    peers: Peers
    admission: Admission
    now: Callable[[], float]

    def purposes(self) -> Sequence[bytes]:
        """Joins only while there is something to join by."""
        if self.admission.open() or self._is_awaited():
            return (AMP, BULK, JOIN)
        return (AMP, BULK)

    def _is_awaited(self) -> bool:
        """Whether somebody was admitted, and may have to ask again before it can link."""
        linked = {link.session.key for link in self.peers.links()}
        newest = (self.now() - ASK_AGAIN) * 1000
        return any(
            member.key != self.key
            and member.key not in linked
            and member.added is not None
            and (member.wait or member.added[0] >> 16 > newest)
            for member in self.membership.live()
        )

    def judge(self, purpose: bytes, key: str) -> bool:
        """Members for links; anybody for the one record of a join."""
        known = self.membership.find(key)
        if purpose == AMP and known is not None and known.removed is not None:
            return True  # to be told so, and nothing else: see enter
        if purpose == JOIN:
            return self.admission.open() or (known is not None and known.removed is None)
        return self.peers.judge(purpose, key)

    def enter(self, session: Session) -> Any:
        """The protocol for an admitted peer."""
        if session.purpose == JOIN:
            return self.admission.reader(session)
        if not self.peers.judge(session.purpose, session.key):
            return Farewell(self.admission.clock)
        return self.peers.enter(session)
