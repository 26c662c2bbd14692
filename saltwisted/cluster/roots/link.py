"""
One stream of roots with one peer: its messages in both directions, and what the peer says about
itself.

Control messages are sent at once. What the peer has requested is sent only while the transport
takes more (L{saltwisted.cluster.roots.sending}), so that an edit never waits behind a large file.
L{saltwisted.cluster.roots.fetching} has the requests of this node. A peer that breaks the rules is
told why, and the stream is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.cluster.roots.fetching import ObjectFetcher
from saltwisted.cluster.roots.intake import Intake
from saltwisted.cluster.roots.parcels import RAW
from saltwisted.cluster.roots.sending import ObjectSender, unpack_wanted
from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.entry import Knowledge, ReplicaId
from saltwisted.domain.roots.frames import (
    ACK,
    DATA,
    ERR,
    HELLO,
    OFFER,
    PING,
    PLAIN,
    PULL,
    WANT,
)
from saltwisted.domain.roots.greeting import PeerState
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.transports.bulk import widen

PING_EVERY = 30.0
LINGER = 2.0
"""Seconds that a peer has to take the goodbye of a stream which this side closes."""
TURN = 0.003
"""Seconds for which messages are taken before the reactor has its turn."""


@implementer(IPushProducer)
class RootLink(Protocol):
    """
    The protocol of one stream.

    @param owner: the service: C{hello() -> value}, C{link_up(link)}, C{link_down(link)},
        C{received(link, kind, share, body)} and C{store(share)}; C{pool(function, *args)}.
    @ivar peer: what the peer has said about itself.
    @ivar objects: fetches what this node lacks.
    """

    log = Logger()
    transport: Any

    def __init__(self, owner: Any, node: str, dialled: bool, clock: Any) -> None:
        self.node = node
        self.dialled = dialled
        self.peer = PeerState()
        self.bytes_in = self.bytes_out = 0
        self.error = ""
        self.closed = False
        self._owner = owner
        self._clock = clock
        self._frames = frames.Frames()
        self._sender = ObjectSender(owner, self)
        self._intake = Intake(self)
        self.objects = ObjectFetcher(self, owner.pool, self._intake)
        self._heard_at = 0.0
        self._turn: Any = None
        self._ping: Any = None

    # -- the connection

    def connectionMade(self) -> None:
        """Introduce ourselves."""
        transport = self.transport
        with suppress(AttributeError):
            transport.setTcpNoDelay(True)
        widen(transport)
        transport.registerProducer(self, True)
        self._heard_at = self._clock.seconds()
        self.send(HELLO, frames.NO_SHARE, codec.pack(self._owner.hello(self.node)))
        self._ping = self._clock.callLater(PING_EVERY, self._pinging)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """What was asked for will not come."""
        self.closed = True
        self._stop_pinging()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.objects.lost()
        self._sender.drop()
        self._owner.link_down(self)

    def pauseProducing(self) -> None:
        """The peer does not keep up: large things wait."""
        self._sender.pause()

    def resumeProducing(self) -> None:
        """Go on."""
        self._sender.resume()

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._sender.pause()

    def close(self, reason: str, path: bytes = b"") -> None:
        """Tell the peer why, and close."""
        if self.closed:
            return
        self.error = reason
        self.log.warn("roots: {node}: {reason}", node=self.node, reason=reason[:200])
        self.send(ERR, frames.NO_SHARE, codec.pack([reason[:500], path[:500]]))
        transport = self.transport
        transport.unregisterProducer()
        # Who reads nothing does not hear the peer's goodbye, and the connection would stay for ever
        transport.resumeProducing()
        transport.loseConnection()
        self.closed = True
        # A peer that stands still takes nothing: the stream would be half open until it goes on
        # or TCP gives up, and nobody would dial another one
        self._stop_pinging()
        self._ping = self._clock.callLater(LINGER, transport.abortConnection)

    def _stop_pinging(self) -> None:
        if self._ping is not None and self._ping.active():
            self._ping.cancel()

    def broke(self, error: Forbidden) -> None:
        """The peer broke the rules: note it, and close."""
        self._owner.flagged(self, error)
        self.close(error.reason, error.path)

    def refuse(self, reason: str) -> None:
        """Tell the peer that something was not accepted; the stream stays open."""
        self.send(ERR, frames.NO_SHARE, codec.pack([reason[:500], b""]))

    def dataReceived(self, data: bytes) -> None:
        """Take messages; the first that is against the rules is the last."""
        if self.closed:
            return
        self.bytes_in += len(data)
        self._heard_at = self._clock.seconds()
        self._frames.add(data)
        if self._turn is None:
            self._take_messages()

    def _take_messages(self) -> None:
        """Some milliseconds' worth of what has come: one piece can hold a thousand messages."""
        behind, self._turn = self._turn is not None, None
        end = self._clock.seconds() + TURN
        try:
            for kind, share, pieces in self._frames.in_pieces():
                if not self._is_open():
                    return
                self._message(kind, share, pieces)
                if self._clock.seconds() > end and self._is_open():
                    self._turn = self._clock.callLater(0, self._take_messages)
                    break
        except Forbidden as error:
            self.broke(error)
        if behind is (self._turn is None):
            self._read_or_not()

    def _read_or_not(self) -> None:
        """Read on, unless too much of what has come is not taken or not written yet."""
        if self.closed:
            return
        if self._turn is not None or self._intake.is_full:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def room_changed(self) -> None:
        """Too much received data waits to be stored, or no longer."""
        self._read_or_not()
        if not self._intake.is_full:
            self.objects.ask_more()

    def _is_open(self) -> bool:
        return not self.closed

    def _message(self, kind: int, number: int, pieces: frames.Pieces) -> None:
        peer = self.peer
        if kind == DATA and pieces[0][:1] == RAW and peer.greeted and number < len(peer.shares):
            share = peer.shares[number]
            if self._owner.serves(self, share):
                self.objects.slice(share, pieces)
            return
        body = b"".join(pieces)
        if kind == HELLO:
            peer.introduced(codec.unpack(body, codec.FEW_CONTAINERS))
            self._owner.link_up(self)
            return
        if kind == ERR:
            value = codec.unpack(body, codec.FEW_CONTAINERS)
            reason = str(value[0])[:200] if isinstance(value, list) and value else "?"
            self.error = f"refused by the peer: {reason}"
            self.log.warn("roots: {node} refuses: {reason}", node=self.node, reason=reason)
            return
        if not peer.greeted:
            raise Forbidden("no-hello")
        if kind == PING:
            for share in peer.said_again(codec.unpack(body, codec.FEW_CONTAINERS)):
                self._owner.peer_knows(self, share)
            return
        share = peer.share(number)
        if not self._owner.serves(self, share):
            return
        if kind == WANT:
            self._sender.asked(share, unpack_wanted(body))
        elif kind == DATA:
            self.objects.data(share, body)
        else:
            self._owner.received(self, kind, share, body)

    def _pinging(self) -> None:
        self._ping = self._clock.callLater(PING_EVERY, self._pinging)
        if self._clock.seconds() - self._heard_at > 4 * PING_EVERY:
            self.close("silent")
            return
        self.send(PING, frames.NO_SHARE, codec.pack(self._owner.hello(self.node)))

    # -- out

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a message at once."""
        if self.closed:
            return
        for frame in frames.pack_frames(kind, number, body):
            self.bytes_out += len(frame)
            self.transport.write(frame)

    def send_whole(self, head: bytes, body: bytes) -> None:
        """Send a frame that is made already, without copying its body."""
        if not self.closed:
            self.bytes_out += len(head) + len(body)
            self.transport.writeSequence((head, body))

    def tell(self, kind: int, share: str, body: bytes) -> None:
        """Send a message about a share, if the peer has it."""
        number = self._owner.number(share)
        if share in self.peer.knowledge and number is not None:
            self.send(kind, number, body)

    def acknowledge(self, share: str, knowledge: Knowledge, digest: bytes) -> None:
        """What we know now."""
        self.tell(ACK, share, codec.pack([codec.pack_knowledge(knowledge), digest]))

    def pull(self, share: str, knowledge: Knowledge) -> None:
        """Ask for what we do not know."""
        self.tell(PULL, share, codec.pack(codec.pack_knowledge(knowledge)))

    def offer(self, share: str, contents: Sequence[tuple[bytes, int]]) -> None:
        """Say which contents will be in a batch that is not made yet: digest and size."""
        self.tell(OFFER, share, codec.pack(contents))

    def ask_plain(self, share: str, replica: ReplicaId, lo: int) -> None:
        """Ask for a batch without folded moves."""
        self.tell(PLAIN, share, codec.pack([replica.master, replica.incarnation, lo]))
