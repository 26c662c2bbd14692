"""The two ports of a master, by each transport."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import CannotListenError
from zmq import ZMQError

from saltwisted.config.options import CommonOptions, MasterConfig
from saltwisted.errors import ConfigError
from saltwisted.master.announced import Announced
from saltwisted.master.context import Context
from saltwisted.master.requests import Requests
from saltwisted.transports.listening import cannot_listen, no_address
from saltwisted.transports.ssl_options import ServerTLS
from saltwisted.transports.tcp.framed import Stream
from saltwisted.transports.tcp.publisher import TcpPublishServer
from saltwisted.transports.tcp.server import TcpRequestServer
from saltwisted.transports.unfinished import Known
from saltwisted.transports.zeromq.fairness import Keepalive, ZeroMQ
from saltwisted.transports.zeromq.publisher import PubServer
from saltwisted.transports.zeromq.router import RouterServer
from saltwisted.wire.publication import BROADCAST

TRANSPORTS = ("zeromq", "zmq", "tcp")


def check_transport(config: CommonOptions) -> None:
    """
    @raises ConfigError: a transport that there is not.
    """
    if config.transport not in TRANSPORTS:
        raise ConfigError(f"transport: {config.transport!r}: use zeromq or tcp")


def check_interface(config: MasterConfig) -> None:
    """
    @raises ConfigError: nobody can listen on C{interface} here.
    """
    why = no_address(str(config.interface), devices=config.transport != "tcp")
    if why:
        raise ConfigError(f"interface: {why}")


def check_tls(config: MasterConfig) -> None:
    """
    @raises ConfigError: C{ssl} does not work.
    """
    if config.transport == "tcp" and isinstance(config.ssl, dict):
        ServerTLS(config.ssl)


def stream_of(config: CommonOptions) -> Stream:
    """Salt's C{tcp_keepalive} options."""
    return Stream(
        enabled=bool(config.tcp_keepalive),
        idle=int(config.tcp_keepalive_idle),
        count=int(config.tcp_keepalive_cnt),
        interval=int(config.tcp_keepalive_intvl),
    )


def known_to(ctx: Context) -> Known:
    """The addresses from which minions have made requests that were in order."""
    sessions = ctx.sessions

    def known() -> frozenset[str]:
        return frozenset(
            one.address.removeprefix("::ffff:") for one in sessions.live().values() if one.address
        )

    return known


class Ports:
    """
    The two ports that minions know: requests and publications.

    @ivar open: whether minions are answered on both.
    """

    requests: Any
    publications: Any

    def __init__(self, interface: str, handler: Requests) -> None:
        self.open = False
        self._interface = interface
        self._handler = handler

    def startService(self) -> None:
        """
        Bind both.

        @raises PortError: naming the port that is taken.
        @raises ConfigError: there is no such address here, or we may not have the port.
        """
        for server, start in (
            (self.publications, self.publications.listen),
            (self.requests, lambda: self.requests.listen(self._handler.handle)),
        ):
            try:
                start()
            except (CannotListenError, ZMQError) as error:
                cause = error if isinstance(error, ZMQError) else error.socketError
                raise cannot_listen(
                    self._interface,
                    server.port,
                    cause,
                    "cannot listen",
                    "is another master running?",
                ) from error
        self.open = True

    def stopService(self) -> None:
        """Stop answering, and close."""
        self.open = False
        self._handler.close()
        self.requests.stop()
        self.publications.stop()


class TcpPorts(Ports):
    """The ports of C{transport: tcp}."""

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        requests: Requests,
        announced: Announced,
        known: Known,
    ) -> None:
        """
        @raises ConfigError: C{ssl} does not work.
        """
        super().__init__(config.interface, requests)
        interface = "::" if config.ipv6 and config.interface == "0.0.0.0" else config.interface  # noqa: S104
        tls = ServerTLS(config.ssl) if isinstance(config.ssl, dict) else None
        self.requests = TcpRequestServer(
            reactor,
            interface,
            int(config.ret_port),
            backlog=int(config.zmq_backlog),
            tls=tls,
            known=known,
        )
        self.publications = TcpPublishServer(
            reactor,
            interface,
            int(config.publish_port),
            backlog=int(config.zmq_backlog),
            stream=stream_of(config),
            tls=tls,
            hwm=int(config.pub_hwm),
            broadcast=BROADCAST,
            who=announced.who,
        )


class ZeroMqPorts(Ports):
    """The ports of C{transport: zeromq}."""

    def __init__(
        self, reactor: Any, config: MasterConfig, requests: Requests, known: Known
    ) -> None:
        super().__init__(config.interface, requests)
        self._zeromq = ZeroMQ(reactor)
        keepalive = Keepalive(
            enabled=bool(config.tcp_keepalive),
            idle=int(config.tcp_keepalive_idle),
            count=int(config.tcp_keepalive_cnt),
            interval=int(config.tcp_keepalive_intvl),
        )
        self.requests = RouterServer(
            self._zeromq,
            config.interface,
            int(config.ret_port),
            backlog=int(config.zmq_backlog),
            heartbeat=int(config.extra.get("zmq_heartbeat_ivl", 30_000)),
            heartbeat_timeout=int(config.extra.get("zmq_heartbeat_timeout", 60_000)),
            ipv6=bool(config.ipv6),
            known=known,
        )
        self.publications = PubServer(
            self._zeromq,
            config.interface,
            int(config.publish_port),
            backlog=int(config.zmq_backlog),
            keepalive=keepalive,
            hwm=int(config.pub_hwm),
            heartbeat=int(config.extra.get("zmq_heartbeat_ivl", 10_000)),
            heartbeat_timeout=int(config.extra.get("zmq_heartbeat_timeout", 30_000)),
            filtering=bool(config.zmq_filtering),
            ipv6=bool(config.ipv6),
            known=known,
        )

    def stopService(self) -> None:
        """Close the sockets completely."""
        super().stopService()
        self._zeromq.shutdown()


def ports_of(
    reactor: Any, config: MasterConfig, requests: Requests, ctx: Context
) -> TcpPorts | ZeroMqPorts:
    """
    The ports of the transport that is configured.

    @raises ConfigError: there is none of that name.
    """
    check_transport(config)
    if config.transport != "tcp":
        return ZeroMqPorts(reactor, config, requests, known_to(ctx))
    announced = Announced(ctx.sessions, ctx.publisher.readable)
    return TcpPorts(reactor, config, requests, announced, known_to(ctx))
