"""
The TCP connections of a bound socket, and what each has sent that no message has brought yet.

libzmq keeps what belongs to a message until the last part of it is whole, says nothing of it, and
has no limit but that of a single part: neither for how many begin a message, nor for the number
of its parts. But its connections are descriptors of this process. The kernel counts the bytes that
each has received; a message tells by which descriptor it came. The difference is what libzmq keeps.

An C{epoll} object of our own, in which these descriptors are too, tells which of them received
anything since the last look. So a look costs as much as there is traffic, however many are
connected, and no look is needed while nobody sends.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import zmq
from twisted.internet.interfaces import IDelayedCall, IReadDescriptor
from zope.interface import implementer

from saltwisted.transports.unfinished import Room, Unfinished, half_of_descriptors

LOOKS = 0.2
"""Seconds between two looks while there is little that is unfinished."""
LOOKS_CLOSELY = 0.05
"""Seconds between two looks while there is much."""
MUCH = 1024 * 1024
"""Bytes by all together from which on a look is close."""
AT_ONCE = 256
"""Connections that are looked at in one turn."""
ROUND = 64
"""Connections, whether they move or not, that are looked at from time to time in one turn."""
ROUNDS = 5.0
"""Seconds between two such turns."""
UNREADING = 60.0
"""Seconds within which a peer must acknowledge some of what was sent to it."""

LITTLE = 1024
"""Bytes that are no beginning of a message, but a handshake and the like: with a new message they
are forgotten."""
SIGNS = 2.0
"""Bytes a second that each peer sends as signs of life."""
SIGNS_OF_STRANGERS = 16 * 1024
"""Bytes of signs of life, after which a peer of no known address is no longer believed."""
PART = 64
"""Bytes that libzmq keeps for a part, in which there may be nothing: two bytes on the wire."""
SHORTEST = 2
WEIGHED = 64 * 1024
"""Bytes received since this process was weighed last, from which on it is weighed again."""
ACCEPTED = int(zmq.EVENT_ACCEPTED)

# What comes wakes us. ZeroMQ's thread may have read it before we ask; what is then still true of
# the connection is that it can be written to: so it is told nevertheless.
_MOVES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
_SOURCE = int(zmq.SRCFD)
_INFO_SIZE = 148
_COUNTERS = struct.Struct("=QQ")  # bytes acknowledged, bytes received
_COUNTERS_AT = 120
_NUMBER = struct.Struct("=I")
_UNSENT_AT = 144
_UNACKNOWLEDGED_AT = 24
_PAGE = os.sysconf("SC_PAGESIZE")


def source_of(frame: Any) -> int:
    """The descriptor by which a frame came, or -1. Of a message, its last frame knows it."""
    try:
        return int(frame.get(_SOURCE))
    except zmq.ZMQError:
        return -1


def wire_size(size: int) -> int:
    """The bytes on the wire of a part of so many."""
    return size + (2 if size < 256 else 9)


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", "rb") as handle:
        return int(handle.read().split()[1]) * _PAGE


class Peer(Unfinished):
    """
    One connection.

    @ivar topics: for who counts what it subscribes to.
    """

    __slots__ = (
        "_peers", "acknowledged", "address", "base", "brought", "descriptor", "extra", "family",
        "forgiven", "gained", "moved", "received", "seen", "topics",
    )  # fmt: skip

    def __init__(
        self, peers: Peers, descriptor: int, family: int, address: tuple[Any, ...], now: float
    ) -> None:
        super().__init__(_host(address), now)
        self._peers = peers
        self.descriptor = descriptor
        self.family = family
        self.address = address
        self.base = self.brought = self.received = self.gained = self.extra = 0
        self.forgiven = self.topics = self.acknowledged = 0
        self.seen = self.moved = now

    def end(self, why: str) -> None:
        self._peers.hang_up(self, why)


@implementer(IReadDescriptor)
class Peers:
    """
    The connections of one bound socket. Reactor thread only.

    @ivar ended: connections that were hung up on, by reason.
    """

    def __init__(
        self,
        reactor: Any,
        room: Room,
        most: int,
        ended: Counter[str],
        is_paused: Callable[[], bool] = lambda: False,
        memory: Callable[[], int] = resident,
        connections: int = 0,
    ) -> None:
        """
        @param most: bytes that a message of one peer may have.
        @param ended: where to count who is hung up on.
        @param is_paused: whether messages are left unread in the socket.
        @param memory: bytes of this process.
        @param connections: how many there may be; 0: half of the descriptors of this process.
        """
        self._reactor = reactor
        self._room = room
        self._most = most
        self.ended = ended
        self._is_paused = is_paused
        self._memory = memory
        self._connections = connections or half_of_descriptors()
        self._epoll: Any = None
        self._peers: dict[int, Peer] = {}
        self._silent: dict[Peer, None] = {}
        self._round: deque[Peer] = deque()
        self._growing: list[Peer] = []
        self._resident = 0
        self._reads = False
        self._look_at: IDelayedCall | None = None
        self._round_at: IDelayedCall | None = None
        self._port = 0

    # -- what the socket tells

    def begin(self, port: int) -> None:
        """Connections to this port are looked at from now on."""
        self._port = port
        self._epoll = select.epoll()
        self._resident = self._memory()
        self._listen()
        self._round_at = self._reactor.callLater(ROUNDS, self._go_round)

    def accepted(self, descriptor: int) -> Peer | None:
        """
        Somebody has come.

        @return: who; C{None} if it has gone already.
        """
        old = self._peers.get(descriptor)
        if old is not None:
            self._leave(old)
        one = _borrow(descriptor)
        if one is None or self._epoll is None:
            return None
        try:
            if one.getsockname()[1] != self._port:
                return None
            peer = Peer(self, descriptor, one.family, one.getpeername(), self._reactor.seconds())
            self._epoll.register(descriptor, _MOVES)
        except (OSError, IndexError):
            return None
        finally:
            one.detach()
        self._peers[descriptor] = peer
        self._silent[peer] = None
        self._round.append(peer)
        # What came before it was registered is told by no event
        self._examine(peer)
        if len(self._peers) > self._connections:
            next(iter(self._silent), peer).end("too many connections")
        return peer

    def brought(self, descriptor: int, size: int) -> Peer | None:
        """A message of so many bytes on the wire has come by this connection."""
        peer = self._peers.get(descriptor)
        if peer is not None:
            if not peer.brought:
                self._silent.pop(peer, None)
            peer.brought += size
            if peer.size:
                # What was counted has become whole. Nothing else may tell: all of it has come
                self._examine(peer)
        return peer

    def hang_up(self, peer: Peer, why: str) -> None:
        """End a connection, if it is still the same: its descriptor may be another's by now."""
        if self._peers.get(peer.descriptor) is not peer:
            return
        self._leave(peer)
        try:
            held = socket.socket(peer.family, socket.SOCK_STREAM, 0, os.dup(peer.descriptor))
        except OSError:
            return
        with held:
            if not self._is_it(held, peer):
                return
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
        self.ended[why] += 1

    def _is_it(self, one: socket.socket, peer: Peer) -> bool:
        try:
            is_ours: bool = one.getsockname()[1] == self._port
            return is_ours and one.getpeername() == peer.address
        except (OSError, IndexError):
            return False

    def _leave(self, peer: Peer) -> None:
        """It has ended, or will."""
        self._room.set(peer, 0)
        if self._peers.get(peer.descriptor) is peer:
            del self._peers[peer.descriptor]
        self._silent.pop(peer, None)
        peer.gained = 0

    def stop(self) -> None:
        """Look no more. Idempotent."""
        if self._reads:
            self._reads = False
            self._reactor.removeReader(self)
        for call in (self._look_at, self._round_at):
            if call is not None:
                call.cancel()
        self._look_at = self._round_at = None
        for peer in list(self._peers.values()):
            self._leave(peer)
        self._round.clear()
        self._growing.clear()
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None

    # -- looking

    def fileno(self) -> int:
        """Readable when some connection has received something."""
        return -1 if self._epoll is None else int(self._epoll.fileno())

    def logPrefix(self) -> str:
        """For the reactor."""
        return "peers"

    def connectionLost(self, reason: Any) -> None:
        """Only L{stop} closes it."""

    def _listen(self) -> None:
        self._reads = True
        self._reactor.addReader(self)

    def doRead(self) -> None:
        """Somebody has sent something."""
        if self._reads:
            self._reads = False
            self._reactor.removeReader(self)
            self._look()

    def _look(self) -> None:
        self._look_at = None
        moved = self._epoll.poll(0, AT_ONCE)
        for descriptor, _ in moved:
            peer = self._peers.get(descriptor)
            if peer is not None:
                self._examine(peer)
        if self._is_paused():
            # Nobody's message is fetched, however whole it is
            self._room.excuse()
        self._weigh()
        self._tidy()
        if len(moved) == AT_ONCE:
            self._look_at = self._reactor.callLater(0, self._look)
        elif self._room.size >= MUCH:
            self._look_at = self._reactor.callLater(LOOKS_CLOSELY, self._look)
        elif moved:
            self._look_at = self._reactor.callLater(LOOKS, self._look)
        else:
            self._listen()

    def _tidy(self) -> None:
        """Those with a large message that have gone, or do not go on."""
        for large in self._room.large:
            # Of its end we hear nothing
            if isinstance(large, Peer) and not self._is_there(large):
                self._leave(large)
        self._room.end_slow()

    def _is_there(self, peer: Peer) -> bool:
        one = _borrow(peer.descriptor, peer.family)
        if one is None:
            return False
        try:
            return self._is_it(one, peer)
        finally:
            one.detach()

    def _info(self, peer: Peer) -> bytes:
        """What the kernel knows of a connection; nothing if there is none."""
        one = _borrow(peer.descriptor, peer.family)
        if one is None:
            return b""
        try:
            info: bytes = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
        except OSError:
            return b""
        finally:
            one.detach()
        return info if len(info) == _INFO_SIZE else b""

    def _examine(self, peer: Peer) -> None:
        """How much has it sent that no message has brought?"""
        info = self._info(peer)
        if not info:
            self._leave(peer)
            return
        received = int(_COUNTERS.unpack_from(info, _COUNTERS_AT)[1])
        gained, peer.received = received - peer.received, received
        now = self._reactor.seconds()
        if peer.brought:
            peer.base += peer.brought
            peer.brought = peer.forgiven = 0
            if received - peer.base <= LITTLE:
                peer.base = received
                peer.extra = peer.gained = 0
        else:
            self._forgive(peer, int((now - peer.seen) * SIGNS))
        peer.seen = now
        unread = received - peer.base
        if unread > self._most and not self._is_paused():
            peer.end("too large")
            return
        if unread > LITTLE and gained > 0:
            if not peer.gained:
                self._growing.append(peer)
            peer.gained += gained
        self._room.set(peer, unread + peer.extra)

    def _forgive(self, peer: Peer, signs: int) -> None:
        """So much may have been signs of life. Strangers do not live on them for ever."""
        signs = min(signs, peer.received - peer.base)
        if peer.forgiven + signs > SIGNS_OF_STRANGERS and not self._room.knows(peer.host):
            return
        peer.forgiven += signs
        peer.base += signs

    def _weigh(self) -> None:
        """
        How much memory does it take? An empty part is two bytes, and libzmq keeps 64 for it.

        How long the parts are nobody can see. But by what this process has grown meanwhile, and
        not by what they sent, is theirs too, as far as that is possible. It may also have grown
        by something else, such as a large return that is being unpacked: a minion that is known
        does not pay for that.
        """
        growing = self._growing
        gained = sum(peer.gained for peer in growing)
        if gained < WEIGHED:
            return
        self._growing = []
        now = self._memory()
        more = min(now - self._resident - gained, gained * (PART // SHORTEST - 1))
        self._resident = now
        for peer in growing:
            if peer.gained and more > 0 and not self._room.knows(peer.host):
                peer.extra += more * peer.gained // gained
                peer.gained = 0
                self._room.set(peer, peer.received - peer.base + peer.extra)
            peer.gained = 0

    def _go_round(self) -> None:
        """Some of all, whether they move or not: are they still there, and do they read?"""
        self._round_at = self._reactor.callLater(ROUNDS, self._go_round)
        if self._room.size < MUCH:
            # What this process grows by between attacks is nobody's
            self._resident = self._memory()
        if self._is_paused():
            self._room.excuse()
        self._tidy()
        now = self._reactor.seconds()
        count = max(ROUND, int(len(self._round) * ROUNDS / UNREADING) + 1)
        for _ in range(min(count, len(self._round))):
            peer = self._round.popleft()
            if self._peers.get(peer.descriptor) is not peer:
                continue
            if not self._is_there(peer):
                self._leave(peer)
                continue
            self._round.append(peer)
            self._examine(peer)
            if self._reads_nothing(peer, now):
                peer.end("it does not read")

    def _reads_nothing(self, peer: Peer, now: float) -> bool:
        """Whether something has waited for it too long, and it acknowledged none of it."""
        info = self._info(peer)
        if not info:
            return False
        acknowledged = int(_COUNTERS.unpack_from(info, _COUNTERS_AT)[0])
        waits = any(_NUMBER.unpack_from(info, at)[0] for at in (_UNACKNOWLEDGED_AT, _UNSENT_AT))
        if acknowledged != peer.acknowledged or not waits:
            peer.acknowledged, peer.moved = acknowledged, now
        return now - peer.moved >= UNREADING


def _borrow(descriptor: int, family: int = -1) -> socket.socket | None:
    """A descriptor of libzmq's as a socket, to be detached; C{None}: it has been closed."""
    try:
        return socket.socket(family, socket.SOCK_STREAM if family >= 0 else -1, -1, descriptor)
    except OSError:
        return None


def _host(address: tuple[Any, ...]) -> str:
    """The address alone; IPv4 that is mapped into IPv6 comes out as IPv4."""
    return str(address[0]).removeprefix("::ffff:").partition("%")[0]
