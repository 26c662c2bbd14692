"""
The API as a part of a master: listens, and closes its connections at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from saltwisted.config.api import ApiOptions
from saltwisted.transports.listening import cannot_listen
from saltwisted.turns import turns_of
from saltwisted.web.certificate import Certificate
from saltwisted.web.exchange import Endpoint
from saltwisted.web.handshakes import Handshakes
from saltwisted.web.http import ApiFactory, ApiRequest
from saltwisted.web.site import Site


class Api:
    """
    One listening port.

    @ivar factory: its connections.
    @ivar beside: what runs while it listens.
    @ivar site: who answers.
    """

    name = "HTTP API"
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        options: ApiOptions,
        site: Site,
        counters: Counter[str],
        certificate: Certificate | None = None,
        beside: Sequence[Any] = (),
        written: Callable[[ApiRequest], None] = lambda request: None,
        engine: Callable[[str], None] = lambda text: None,
    ) -> None:
        """
        @param certificate: what is shown in TLS; without it there is none.
        @param written: told of each request that has its answer.
        @param engine: told that it listens, and that it does not any more.
        """
        self._reactor = reactor
        self._options = options
        self.site = site
        self._certificate = certificate
        self._listening: Any = None
        self._engine = engine
        self.beside = beside
        self.factory = ApiFactory(
            reactor,
            site.take,
            lambda: int(options.max_request_body_size),
            counters,
            written,
            site.may_send_more,
        )

    def offer(self, table: Callable[[bool], Mapping[str, Endpoint]]) -> None:
        """
        Add endpoints.

        @param table: creates them; gets whether figures are for everybody.
        """
        self.site.offer(table(bool(self._options.stats_disable_auth)))

    @property
    def port(self) -> int:
        """Where it listens; 0 while it does not."""
        return self._listening.getHost().port if self._listening is not None else 0

    def startService(self) -> None:
        """
        Listen.

        @raises PortError: the named port is in use.
        @raises ConfigError: its certificate cannot be read.
        """
        options = self._options
        factory: Any = self.factory
        if self._certificate is not None:
            self._certificate.startService()
            turns, few = turns_of(self._reactor), self.factory.few
            factory = Handshakes(self._certificate, factory, turns, few)
        try:
            self._listening = self.factory.few.watch(
                self._reactor.listenTCP(options.port, factory, backlog=512, interface=options.host)
            )
        except CannotListenError as error:
            raise cannot_listen(
                options.host, options.port, error.socketError, f"{options.block}: cannot listen", ""
            ) from error
        for each in self.beside:
            each.startService()
        scheme = "http" if self._certificate is None else "https"
        self.log.info(
            "the HTTP API is at {scheme}://{host}:{port}/",
            scheme=scheme,
            host=options.host,
            port=self.port,
            always=True,
        )
        self._engine(f"Serving on {scheme}://{options.host}:{self.port}")

    def status(self) -> dict[str, Any]:
        """Where it is, and what vouches for it; for C{status} of the daemon."""
        found: dict[str, Any] = {"port": self.port, "tls": self._certificate is not None}
        if self._certificate is not None:
            found["certificate"] = self._certificate.status()
        return found

    def stopService(self) -> Deferred[None]:
        """Answer no more requests; listeners are told that the stream ends."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        listening, self._listening = self._listening, None
        self.factory.few.forget()
        if self._certificate is not None:
            self._certificate.stopService()
        closed = maybeDeferred(listening.stopListening) if listening is not None else None
        if listening is not None:
            self._engine("Bus STOPPED")
            for each in self.beside:
                each.stopService()
        self.site.stop()
        if closed is not None:
            await closed
        await self.factory.hang_up()
