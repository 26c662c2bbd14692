"""
The publish port of a master.
"""

from __future__ import annotations

import socket as sockets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.interfaces import IPublishServer
from saltwisted.transports.zeromq.fairness import (
    FairConnection,
    Keepalive,
    ZeroMQ,
    address_of,
    tcp_address,
)

MAX_SUBSCRIPTION = 4096
_ACCEPTED = int(zmq.EVENT_ACCEPTED)
_GONE = int(zmq.EVENT_DISCONNECTED)


class PubServer:
    """
    The publish port of a master: XPUB, which is PUB that learns who subscribes.

    A subscriber that does not read loses messages above C{hwm}; C{dropped} counts the messages that
    at least one subscriber lost.

    @ivar port: the bound port.
    @ivar topics: how many connections subscribe to each topic. Minions without C{zmq_filtering}
        subscribe to C{b""}; ours also subscribe to their own topic.
    @ivar addresses: how many connections there are from each address.
    """

    log = Logger()

    def __init__(
        self,
        zeromq: ZeroMQ,
        interface: str = "0.0.0.0",  # noqa: S104 - Salt's default
        port: int = 4505,
        backlog: int = 1000,
        keepalive: Keepalive | None = None,
        heartbeat: int = 10_000,
        heartbeat_timeout: int = 30_000,
        hwm: int = 1000,
        filtering: bool = False,
        broadcast: bytes = b"broadcast",
        ipv6: bool = False,
        on_topic: Callable[[bytes, bool, str], None] | None = None,
    ) -> None:
        """
        @param hwm: Salt's C{pub_hwm}, messages per subscriber.
        @param heartbeat: C{zmq_heartbeat_ivl}, milliseconds, 0 for none.
        @param filtering: C{zmq_filtering}: send a topic frame first.
        @param broadcast: the topic of what goes to all, when filtering.
        @param on_topic: called with topic, subscribed or left, and the peer's address.
        """
        self._zeromq = zeromq
        self._interface = interface
        self.port = port
        self._hwm = hwm
        self._filtering = filtering
        self._broadcast = broadcast
        self.on_topic = on_topic
        self._options: dict[int, Any] = {
            zmq.XPUB_VERBOSER: 1,
            zmq.XPUB_NODROP: 1,
            zmq.BACKLOG: backlog,
            zmq.MAXMSGSIZE: MAX_SUBSCRIPTION,
            zmq.IPV6: int(ipv6 or ":" in interface),
            **(keepalive or Keepalive()).options(),
        }
        if heartbeat > 0:
            self._options[zmq.HEARTBEAT_IVL] = heartbeat
            self._options[zmq.HEARTBEAT_TIMEOUT] = heartbeat_timeout
        self._connection: FairConnection | None = None
        self._watcher: FairConnection | None = None
        self._peers: dict[int, str] = {}
        self._retry: IDelayedCall | None = None
        self.topics: Counter[bytes] = Counter()
        self.addresses: Counter[str] = Counter()
        self.published = 0
        self.dropped = 0

    def listen(self) -> None:
        """
        Bind.

        @raises zmq.ZMQError: the port is in use.
        """
        self._retry = None
        connection = FairConnection(
            self._zeromq,
            zmq.XPUB,
            self._received,
            self._options,
            hwm=self._hwm,
            broken=self._rebind,
        )
        self._watcher = connection.watch(self._zeromq, _ACCEPTED | _GONE, self._heard)
        try:
            self.port = connection.bind(tcp_address(self._interface, self.port))
        except zmq.ZMQError:
            connection.shutdown()
            self._forget()
            raise
        self._connection = connection

    def _heard(self, event: int, descriptor: int) -> None:
        """Somebody has come, or gone."""
        address = self._peers.pop(descriptor, "")
        if address:
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]
        if event == _ACCEPTED and (address := _peer_of(descriptor)):
            self._peers[descriptor] = address
            self.addresses[address] += 1

    def _forget(self) -> None:
        """Nobody is connected any more."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.shutdown()
        self._peers.clear()
        self.topics.clear()
        self.addresses.clear()

    def _rebind(self) -> None:
        self._connection = None
        self._forget()
        try:
            self.listen()
        except zmq.ZMQError as error:
            self.log.error("publish port: {error}", error=str(error))
            self._retry = self._zeromq.reactor.callLater(1.0, self._rebind)

    def publish(self, payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """
        Send to all, or when filtering, to the subscribers of these topics.

        @param topics: C{None} for all. Ignored without C{zmq_filtering}.
        """
        if not self._filtering:
            self._publish((payload,))
        elif topics is None:
            self._publish((self._broadcast, payload))
        else:
            for topic in topics:
                self._publish((topic, payload))

    def _publish(self, message: Sequence[bytes]) -> None:
        connection = self._connection
        if connection is None:
            return
        self.published += 1
        if connection.send(message):
            return
        # Some subscriber is full. ZeroMQ refuses the whole message rather than drop it,
        # because we asked so, to be able to count; now let it drop for that one alone.
        self.dropped += 1
        if self._connection is connection:
            connection.set(zmq.XPUB_NODROP, 0)
            connection.send(message)
            connection.set(zmq.XPUB_NODROP, 1)

    def _received(self, message: list[Any]) -> None:
        data = message[0].bytes
        if len(message) != 1 or data[:1] not in (b"\x00", b"\x01"):
            return
        topic, joined = data[1:], data[0] == 1
        if joined:
            self.topics[topic] += 1
        elif self.topics[topic] > 1:
            self.topics[topic] -= 1
        else:
            self.topics.pop(topic, None)
        if self.on_topic is not None:
            self.on_topic(topic, joined, address_of(message[0]) if joined else "")

    def stop(self) -> None:
        """Close the port. Idempotent."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.shutdown()
            self._connection = None
        self._forget()


_PubServer: type[IPublishServer] = PubServer  # mypy compares them


def _peer_of(descriptor: int) -> str:
    """
    Who is at the other end of a connection of ZeroMQ's; C{""} when it has ended meanwhile. An
    IPv4 address that is mapped into IPv6 comes out as IPv4.
    """
    try:
        one = sockets.socket(fileno=descriptor)
    except OSError:
        return ""
    try:
        host = str(one.getpeername()[0])
    except (OSError, IndexError):
        return ""
    finally:
        one.detach()
    return host.removeprefix("::ffff:").partition("%")[0]
