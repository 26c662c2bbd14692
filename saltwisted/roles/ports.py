"""
The two ports of a master by C{transport: tcp}. Those of ZeroMQ are in
L{saltwisted.roles.master}.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.error import CannotListenError

from saltwisted.config.options import CommonOptions, MasterConfig
from saltwisted.errors import ConfigError, PortError
from saltwisted.master.announced import Announced
from saltwisted.master.requests import Requests
from saltwisted.transports.ssl_options import ServerTLS
from saltwisted.transports.tcp.framed import Stream
from saltwisted.transports.tcp.publisher import TcpPublishServer
from saltwisted.transports.tcp.server import TcpRequestServer
from saltwisted.wire.publication import BROADCAST

TRANSPORTS = ("zeromq", "zmq", "tcp")


def check_transport(config: CommonOptions) -> None:
    """
    @raises ConfigError: a transport that there is not.
    """
    if config.transport not in TRANSPORTS:
        raise ConfigError(f"transport: {config.transport!r}: use zeromq or tcp")


def stream_of(config: CommonOptions) -> Stream:
    """Salt's C{tcp_keepalive} options."""
    return Stream(
        enabled=bool(config.tcp_keepalive),
        idle=int(config.tcp_keepalive_idle),
        count=int(config.tcp_keepalive_cnt),
        interval=int(config.tcp_keepalive_intvl),
    )


class TcpPorts:
    """
    The two ports that minions know: requests and publications.

    @ivar open: whether minions are answered on both.
    """

    def __init__(
        self, reactor: Any, config: MasterConfig, requests: Requests, announced: Announced
    ) -> None:
        """
        @raises ConfigError: C{ssl} does not work.
        """
        self.open = False
        self._requests = requests
        self._interface = config.interface
        interface = "::" if config.ipv6 and config.interface == "0.0.0.0" else config.interface  # noqa: S104
        tls = ServerTLS(config.ssl) if isinstance(config.ssl, dict) else None
        self.requests = TcpRequestServer(
            reactor,
            interface,
            int(config.ret_port),
            backlog=int(config.zmq_backlog),
            tls=tls,
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

    def startService(self) -> None:
        """
        Bind both.

        @raises PortError: naming the port that is taken.
        """
        for server, start in (
            (self.publications, self.publications.listen),
            (self.requests, lambda: self.requests.listen(self._requests.handle)),
        ):
            try:
                start()
            except CannotListenError as error:
                raise PortError(
                    f"cannot listen on {self._interface}:{server.port}: {error.socketError}; "
                    "is another master running?"
                ) from error
        self.open = True

    def stopService(self) -> None:
        """Answer nobody any more, and close."""
        self.open = False
        self._requests.close()
        self.requests.stop()
        self.publications.stop()
