"""
One ZeroMQ socket in the reactor, read in fair portions.

L{FairConnection} differs from txzmq's connection in what matters under load: it reads at most 64
messages or 2 milliseconds per turn, so that a flood cannot freeze the reactor; it never loses a
wake-up; it sends without the global reactor; and on a socket error it informs its owner instead of
going deaf.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import zmq
from attrs import frozen
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from txzmq import ZmqConnection, ZmqEndpoint, ZmqEndpointType, ZmqFactory
from zmq.backend import Socket as CoreSocket

from saltwisted.transports.reasons import why

MESSAGES_PER_TURN = 64
MOST_PARTS = 8
"""Parts of a message; one of more is read to its end in portions, and dropped."""
SECONDS_PER_TURN = 0.002

# The methods of the C part: the Python wrappers around them cost more than they do.
_recv: Any = CoreSocket.recv
_send: Any = CoreSocket.send
_get: Any = CoreSocket.get

# No name in pyzmq. Without it each peer keeps one receive buffer, instead of one per message
# that is still held: 3 KiB less for a peer, and as fast for the small messages that come here.
_ZERO_COPY_RECV = 10

_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_MONITORED = struct.Struct("=Hi")


@frozen(kw_only=True)
class Keepalive:
    """
    TCP keepalive, in Salt's terms: C{-1} leaves the system's value; seconds and counts.
    """

    enabled: bool = True
    idle: int = 300
    count: int = -1
    interval: int = -1

    def options(self) -> dict[int, int]:
        return {
            zmq.TCP_KEEPALIVE: 1 if self.enabled else 0,
            zmq.TCP_KEEPALIVE_IDLE: self.idle,
            zmq.TCP_KEEPALIVE_CNT: self.count,
            zmq.TCP_KEEPALIVE_INTVL: self.interval,
        }


class ZeroMQ:
    """
    One ZeroMQ context, and all connections made in it.
    """

    def __init__(self, reactor: Any, linger: int = 100) -> None:
        """
        @param linger: milliseconds that unsent messages survive the closing of their socket.
        """
        factory = ZmqFactory()
        factory.reactor = reactor
        factory.lingerPeriod = linger
        factory.context.set(_ZERO_COPY_RECV, 0)
        self.factory = factory
        self.reactor = reactor

    def shutdown(self) -> None:
        """
        Close what is open and end the context. Blocks up to the linger time. Idempotent.
        """
        if self.factory.context is not None:
            self.factory.shutdown()


def address_of(frame: Any) -> str:
    """The TCP address of the peer that sent a frame, or nothing."""
    try:
        value = frame.get("Peer-Address")
    except zmq.ZMQError:
        return ""
    return value if isinstance(value, str) else ""


def tcp_address(host: str, port: int) -> str:
    """ZeroMQ's form of a TCP address; a bare IPv6 address gets its brackets."""
    return (
        f"tcp://[{host}]:{port}"
        if ":" in host and not host.startswith("[")
        else (f"tcp://{host}:{port}")
    )


class FairConnection(ZmqConnection):
    """
    One socket, read in fair portions.

    @ivar received: called with the list of frames of each message; if it raises, only this message
        is lost, and the error is logged.
    @ivar overlong: called with one part of each message that has more than L{MOST_PARTS}.
    @ivar broken: called once, after this connection has closed itself, if the socket failed for a
        reason that does not go away by waiting.
    """

    log = Logger()

    socketType: int = zmq.PAIR
    identity: bytes | None
    read_scheduled: IDelayedCall | None

    # Values while the base class's constructor runs.
    received: Callable[[list[Any]], None] | None = None
    broken: Callable[[], None] | None = None
    overlong: Callable[[Any], None] | None = None
    paused = True
    skips = False
    turns_cut = 0
    refused = 0

    def __init__(
        self,
        zeromq: ZeroMQ,
        kind: int,
        received: Callable[[list[Any]], None],
        options: Mapping[int, Any],
        identity: bytes | None = None,
        hwm: int = 1000,
        broken: Callable[[], None] | None = None,
        overlong: Callable[[Any], None] | None = None,
    ) -> None:
        """
        @param kind: C{zmq.ROUTER} and the like.
        @param options: socket options, set before anything is bound or connected.
        @param hwm: messages per peer, both ways.
        """
        self.socketType = kind
        self.highWaterMark = hwm
        super().__init__(zeromq.factory, None, identity)
        for option, value in options.items():
            self.socket.set(option, value)
        self.received = received
        self.broken = broken
        self.overlong = overlong
        self.paused = False

    # -- endpoints

    def bind(self, address: str) -> int:
        """
        Bind, and return the TCP port.

        @raises zmq.ZMQError: the address is in use, or not local.
        """
        self.addEndpoints([ZmqEndpoint(ZmqEndpointType.bind, address)])
        self._wake()
        last = self.socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        return int(last.rpartition(":")[2])

    def connect(self, address: str) -> None:
        """Connect, whenever the other side is there."""
        self.addEndpoints([ZmqEndpoint(ZmqEndpointType.connect, address)])
        self._wake()

    def watch(
        self, zeromq: ZeroMQ, events: int, heard: Callable[[int, int], None]
    ) -> FairConnection:
        """
        Hear of the TCP connections of this socket.

        @param events: C{zmq.EVENT_...}, or-ed.
        @param heard: called with the event and its value, for most a descriptor of ZeroMQ's.
        @return: the watching connection; close it after this one.
        """
        address = f"inproc://watch-{id(self):x}-{self.fd}"
        self.socket.monitor(address, events)

        def received(message: list[Any]) -> None:
            event, value = _MONITORED.unpack_from(message[0].bytes)
            heard(event, value)

        # No high-water mark: ZeroMQ's thread would stand still at it
        watcher = FairConnection(zeromq, zmq.PAIR, received, {int(zmq.LINGER): 0}, hwm=0)
        watcher.connect(address)
        self._wake()
        return watcher

    def set(self, option: int, value: Any) -> None:
        """Set a socket option, without losing a wake-up by it."""
        self.socket.set(option, value)
        self._wake()

    # -- reading

    def _wake(self) -> None:
        """Read soon: the code that touched the socket may have swallowed its signal."""
        if self.read_scheduled is None and self.factory is not None:
            self.read_scheduled = self.factory.reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self.read_scheduled = None
        self.doRead()

    def pause(self) -> None:
        """Stop reading; ZeroMQ then queues up to the high-water mark, and TCP does the rest."""
        self.paused = True

    def resume(self) -> None:
        """Read again."""
        if self.paused:
            self.paused = False
            self._wake()

    def doRead(self) -> None:
        """
        Read one portion.
        """
        scheduled = self.read_scheduled
        if scheduled is not None:
            self.read_scheduled = None
            if scheduled.active():
                scheduled.cancel()
        received = self.received
        if received is None:
            return
        until = monotonic() + SECONDS_PER_TURN
        for _ in range(MESSAGES_PER_TURN):
            socket = self.socket
            if socket is None or self.paused:
                return
            try:
                if self.skips:
                    self._skip(socket)
                    if monotonic() > until:
                        break
                    continue
                frame = _recv(socket, _NOBLOCK, False, False)
                message = [frame]
                while frame.more and len(message) <= MOST_PARTS:
                    frame = _recv(socket, _NOBLOCK, False, False)
                    message.append(frame)
                if frame.more:
                    self.skips = True
            except zmq.Again:
                # The socket has looked at all its signals to say so; the next one will wake us.
                return
            except zmq.ZMQError as error:
                if error.errno == errno.EINTR:
                    continue
                self._fail(error)
                return
            try:
                if not self.skips:
                    received(message)
                elif self.overlong is not None:
                    self.overlong(frame)
            except Exception:
                self.log.failure("a message was lost in its handler")
            if monotonic() > until:
                break
        self.turns_cut += 1
        self._wake()

    def _skip(self, socket: Any) -> None:
        """Some more parts of a message that nobody wants."""
        for _ in range(MESSAGES_PER_TURN):
            if not _recv(socket, _NOBLOCK, False, False).more:
                self.skips = False
                return

    def _fail(self, error: zmq.ZMQError) -> None:
        self.log.error("socket failed: {error}", error=str(error))
        broken = self.broken
        self.shutdown()
        if broken is not None:
            broken()

    def messageReceived(self, message: list[Any]) -> None:
        """
        Not used: L{doRead} hands frames to C{received}.
        """
        raise NotImplementedError

    def connectionLost(self, reason: Any) -> None:
        """The descriptor went away under us."""
        if self.factory is not None:
            self.log.error("socket lost: {reason}", reason=why(reason))
            broken = self.broken
            self.shutdown()
            if broken is not None:
                broken()

    # -- writing

    def send(self, message: Sequence[bytes]) -> bool:
        """
        Send the parts of one message, now or never.

        @return: false when a high-water mark was reached (counted in C{refused}) or the
            connection is closed.
        """
        socket = self.socket
        if socket is None:
            return False
        try:
            for part in message[:-1]:
                _send(socket, part, _MORE)
            _send(socket, message[-1], _NOBLOCK)
        except zmq.Again:
            self.refused += 1
            self._wake()
            return False
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                self.refused += 1
                self._wake()
                return False
            self._fail(error)
            return False
        # Sending swallows signals of arrived messages; asking for the events afterwards is
        # exact, and cheaper than a turn of the reactor for every message sent.
        if self.read_scheduled is None and _get(socket, _EVENTS) & _POLLIN:
            self._wake()
        return True

    def shutdown(self) -> None:
        """
        Close the socket. Idempotent.
        """
        if self.factory is None:
            return
        scheduled = self.read_scheduled
        self.read_scheduled = None
        if scheduled is not None and scheduled.active():
            scheduled.cancel()
        self.received = None
        super().shutdown()
