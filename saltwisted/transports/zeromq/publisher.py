"""
The publish port of a master.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.doors import PUBLICATIONS_ZMQ as DOOR
from saltwisted.interfaces import IPublishServer
from saltwisted.transports.unfinished import Known, Room, nobody
from saltwisted.transports.zeromq.fairness import (
    FairConnection,
    Keepalive,
    ZeroMQ,
    address_of,
    tcp_address,
)
from saltwisted.transports.zeromq.peers import ACCEPTED, Peers, source_of, wire_size

MAX_SUBSCRIPTION = DOOR.request
UNFINISHED = DOOR.memory
"""Bytes that one subscriber may send without a whole message."""
TOPICS = DOOR.memory // 4
"""Bytes of the topics of one subscriber. libzmq and we keep some fifty for each of them."""
PER_TOPIC = 32
_SUBSCRIBE = 10
"""Bytes of the name of ZMTP's command."""
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
    @ivar ended: connections that were hung up on, by reason.
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
        known: Known = nobody,
    ) -> None:
        """
        @param hwm: Salt's C{pub_hwm}, messages per subscriber.
        @param heartbeat: C{zmq_heartbeat_ivl}, milliseconds, 0 for none.
        @param filtering: C{zmq_filtering}: send a topic frame first.
        @param broadcast: the topic of what goes to all, when filtering.
        @param on_topic: called with topic, subscribed or left, and the peer's address.
        @param known: the addresses from which minions have spoken.
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
        self._room = Room(zeromq.reactor, DOOR.memory_all // 2, DOOR.memory_all, known)
        self._peers: Peers | None = None
        self._hosts: dict[int, str] = {}
        self._retry: IDelayedCall | None = None
        self.topics: Counter[bytes] = Counter()
        self.addresses: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
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
            overlong=self._overlong,
        )
        self._watcher = connection.watch(self._zeromq, ACCEPTED | _GONE, self._heard)
        try:
            self.port = connection.bind(tcp_address(self._interface, self.port))
        except zmq.ZMQError:
            connection.shutdown()
            self._forget()
            raise
        self._connection = connection
        self._peers = Peers(self._zeromq.reactor, self._room, UNFINISHED, self.ended)
        self._peers.begin(self.port)

    def _heard(self, event: int, descriptor: int) -> None:
        """Somebody has come, or gone."""
        address = self._hosts.pop(descriptor, "")
        if address:
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]
        if event != ACCEPTED or self._peers is None:
            return
        peer = self._peers.accepted(descriptor)
        if peer is not None:
            self._hosts[descriptor] = peer.host
            self.addresses[peer.host] += 1

    def _overlong(self, frame: Any) -> None:
        self._end(frame, "too many parts")

    def _end(self, frame: Any, why: str) -> None:
        """This is no subscriber of Salt's."""
        peer = self._peers.brought(source_of(frame), 0) if self._peers is not None else None
        if peer is not None:
            peer.end(why)

    def _forget(self) -> None:
        """Nobody is connected any more."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.shutdown()
        peers, self._peers = self._peers, None
        if peers is not None:
            peers.stop()
        self._hosts.clear()
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
            self._end(message[-1], "no subscription")
            return
        topic, joined = data[1:], data[0] == 1
        if joined and not self._has_room(message[0], topic):
            # It is hung up on, and its leaving of all its topics follows
            self._end(message[0], "too many topics")
        if joined:
            self.topics[topic] += 1
        elif self.topics[topic] > 1:
            self.topics[topic] -= 1
        else:
            self.topics.pop(topic, None)
        if self.on_topic is not None:
            self.on_topic(topic, joined, address_of(message[0]) if joined else "")

    def _has_room(self, frame: Any, topic: bytes) -> bool:
        """Whether a subscriber may have one more topic."""
        if self._peers is None:
            return True
        peer = self._peers.brought(source_of(frame), wire_size(_SUBSCRIBE + len(topic)))
        if peer is None:
            return True
        peer.topics += len(topic) + PER_TOPIC
        return peer.topics <= TOPICS

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
