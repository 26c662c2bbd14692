"""
What a link needs from outside, as interfaces, and their usual implementations.

L{Outside} is given to every L{saltwisted.minion.connection.MasterLink}; a test puts a fake
L{Dialer} and a clock there. L{ZeroMQDialer}, L{saltwisted.minion.tcp.TcpDialer} and L{resolver} are
the real ones.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IReactorTime

from saltwisted.config.options import MinionConfig
from saltwisted.domain.replica.tokens import Token
from saltwisted.interfaces import Entropy
from saltwisted.minion.channel import Identity, Requests, Run
from saltwisted.minion.directory import Ask, KnownMasters, Service
from saltwisted.transports.zeromq.dealer import DealerClient
from saltwisted.transports.zeromq.fairness import Keepalive, ZeroMQ
from saltwisted.transports.zeromq.subscriber import SubClient
from saltwisted.wire.rsa import PublicKey

HEARTBEAT, HEARTBEAT_TIMEOUT = 2000, 3000
"""
Milliseconds between two ZMTP pings on a subscription, and until an answer must be there.
ZeroMQ's own threads send and answer them, in stock masters as in ours, whatever Python does
meanwhile: a master that is stopped or cut off is found within their sum, at the price of
microseconds.
"""


class Subscription(Protocol):
    """An open subscription."""

    def close(self) -> None:
        """Disconnect. Idempotent."""


class Dialer(Protocol):
    """How to reach a master; one per transport."""

    def requests(self, address: str, port: int, sockets: int = 8, host: str = "") -> Requests:
        """
        A request channel to an IP address.

        @param host: the name that has this address, for certificates.
        """

    def subscribe(
        self,
        address: str,
        port: int,
        identity: str,
        topics: Sequence[bytes],
        received: Callable[[Any, bytes | None], None],
        lost: Callable[[], None],
        host: str = "",
        hello: Callable[[], bytes | None] = lambda: None,
    ) -> Subscription:
        """
        A subscription; it reconnects by itself until closed.

        @param lost: called when a connection of it ended: a reason to look after the master.
        @param host: as in L{requests}.
        @param hello: the packed message in which the minion says who it is, where the transport
            has one; asked at every connection.
        """


class MasterKeys(Protocol):
    """The remembered key of the master: L{saltwisted.stores.minion.MasterKeyFile}."""

    path: str

    def known(self) -> PublicKey | None:
        """The key, if one is remembered; L{StoreError} if it cannot be used."""

    def remember(self, key: PublicKey) -> None:
        """Keep this one. May block: called by L{Outside.run}."""


class JoinToken(Protocol):
    """A join token that was given to this minion: L{saltwisted.stores.minion.TokenFile}."""

    def held(self) -> Token | None:
        """The token, or C{None}."""

    def done(self) -> None:
        """It has served."""


Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""From a host name to its IP addresses, best first; fails when there are none."""


async def no_services(name: str) -> Sequence[Service]:
    """Nobody can be asked for SRV records."""
    raise OSError(f"{name}: no name servers")


@frozen(kw_only=True)
class Outside:
    """
    The outside world, as far as links use it.

    @ivar now: seconds since 1970.
    @ivar dice: for jitter.
    @ivar run: C{run(function, *args)} in a thread.
    @ivar keys: the key file; all masters of a minion share one, as in Salt.
    @ivar keys_of: the key file of the master of this name, if masters have keys of their own that
        one signing key vouches for.
    @ivar services: looks up SRV records.
    @ivar kept: stores the masters that a cluster has named; C{None}: they are not used.
    @ivar join: the join token, if an operator gave one.
    @ivar sign_key: the key in C{<master_sign_key_name>.pub}, if there is one.
    """

    reactor: IReactorTime
    dialer: Dialer
    resolve: Resolver
    run: Run
    keys: MasterKeys
    identity: Identity
    entropy: Entropy
    now: Callable[[], float] = time.time
    dice: random.Random = field(factory=random.SystemRandom)
    services: Ask = no_services
    kept: KnownMasters | None = None
    sign_key: PublicKey | None = None
    keys_of: Callable[[str], MasterKeys] | None = None
    join: JoinToken | None = None


def resolver(run: Run, ipv6: bool) -> Resolver:
    """
    Names to addresses by the system's own resolver, in a thread.

    @param ipv6: the option: whether IPv6 addresses come first, else last.
    """

    def look_up(host: str) -> list[str]:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        return sorted(addresses, key=lambda address: (":" in address) != ipv6)

    async def resolve(host: str) -> Sequence[str]:
        if isIPAddress(host) or isIPv6Address(host):
            return [host]
        found: list[str] = await run(look_up, host)
        return found

    return resolve


class ZeroMQDialer:
    """
    Reach a master by ZeroMQ.
    """

    def __init__(self, zeromq: ZeroMQ, config: MinionConfig, dice: random.Random) -> None:
        self._zeromq = zeromq
        self._config = config
        self._dice = dice
        self._keepalive = Keepalive(
            enabled=bool(config.tcp_keepalive),
            idle=int(config.tcp_keepalive_idle),
            count=int(config.tcp_keepalive_cnt),
            interval=int(config.tcp_keepalive_intvl),
        )

    def _source(self, port: int) -> str:
        address = self._config.source_address
        return f"{address}:{port}" if address else ""

    def requests(self, address: str, port: int, sockets: int = 8, host: str = "") -> Requests:
        """A pool of DEALER sockets."""
        return DealerClient(
            self._zeromq,
            endpoint(address, port),
            sockets=sockets,
            keepalive=self._keepalive,
            # A master that was restarted must be heard within Rules.suspect_timeout
            reconnect_max=500 if sockets == 1 else 5000,
            source=self._source(0),
        )

    def subscribe(
        self,
        address: str,
        port: int,
        identity: str,
        topics: Sequence[bytes],
        received: Callable[[Any, bytes | None], None],
        lost: Callable[[], None],
        host: str = "",
        hello: Callable[[], bytes | None] = lambda: None,
    ) -> Subscription:
        """A SUB socket, with Salt's C{recon_*} options."""
        config = self._config
        first, most = int(config.recon_default), int(config.recon_max)
        if config.recon_randomize:
            first = self._dice.randint(first, first + most)
        client = SubClient(
            self._zeromq,
            endpoint(address, port),
            received,
            identity=identity.encode(),
            topics=topics,
            keepalive=self._keepalive,
            reconnect=first,
            reconnect_max=most,
            source=self._source(config.source_publish_port),
            lost=lost,
            heartbeat=HEARTBEAT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
        )
        client.open()
        return client


def endpoint(address: str, port: int) -> str:
    """C{tcp://...}, with brackets where IPv6 needs them."""
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"
