"""
Reach masters by C{transport: tcp}, with or without TLS.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS

from saltwisted.config.options import MinionConfig
from saltwisted.minion.channel import Requests
from saltwisted.minion.outside import Subscription
from saltwisted.transports.ssl_options import ClientContexts
from saltwisted.transports.tcp.client import Connect, TcpRequests
from saltwisted.transports.tcp.framed import Stream
from saltwisted.transports.tcp.subscriber import TcpSubscriber

CONNECT_TIME = 10
"""Seconds for a connection to come about."""


def check_tls(config: MinionConfig) -> None:
    """
    @raises ConfigError: C{ssl} does not work.
    """
    if config.transport == "tcp" and isinstance(config.ssl, dict):
        ClientContexts(config.ssl)


class TcpDialer:
    """
    The dialer of C{transport: tcp}.

    @param reactor: connects, and keeps the time.
    @raises ConfigError: C{ssl} does not work.
    """

    def __init__(self, reactor: Any, config: MinionConfig, dice: random.Random) -> None:
        self._reactor = reactor
        self._config = config
        self._dice = dice
        self._tls = ClientContexts(config.ssl) if isinstance(config.ssl, dict) else None
        self._stream = Stream(
            enabled=bool(config.tcp_keepalive),
            idle=int(config.tcp_keepalive_idle),
            count=int(config.tcp_keepalive_cnt),
            interval=int(config.tcp_keepalive_intvl),
        )

    def _to(self, address: str, port: int, host: str, source_port: int) -> Connect:
        kind = TCP6ClientEndpoint if ":" in address else TCP4ClientEndpoint
        source = self._config.source_address
        endpoint: Any = kind(
            self._reactor,
            address,
            port,
            timeout=CONNECT_TIME,
            bindAddress=(source, source_port) if source else None,
        )
        if self._tls is not None:
            endpoint = wrapClientTLS(self._tls.to(host, address), endpoint)
        connect: Connect = endpoint.connect
        return connect

    def requests(self, address: str, port: int, sockets: int = 8, host: str = "") -> Requests:
        """One connection, for any number of requests."""
        return TcpRequests(self._reactor, self._to(address, port, host, 0), self._stream)

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
        """One connection, which is made again when it ends."""
        client = TcpSubscriber(
            self._reactor,
            self._to(address, port, host, int(self._config.source_publish_port or 0)),
            received,
            hello,
            lost,
            self._stream,
            float(self._config.tcp_reconnect_backoff),
            self._dice,
        )
        client.open()
        return client
