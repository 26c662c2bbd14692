"""
C{/ws}: events over a web socket, as in rest_cherrypy.

The request is checked here. The protocol itself is in L{saltwisted.web.talking}, whose library is
loaded when the first client connects.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from saltwisted.domain.api.problems import NO_RIGHT, Problem
from saltwisted.domain.api.watching import Eyes
from saltwisted.web.events import Hub
from saltwisted.web.exchange import STREAMED, Answer, Endpoint, Exchange, Session
from saltwisted.web.site import Sessions

FORMATTED = "format_events"
VERSION = "13"
MISSING = (
    "/ws needs the package autobahn: install python3-autobahn (or 'pip install saltwisted[api]')"
)
NO_QUERY = (
    f"The /ws endpoint takes no query parameter but {FORMATTED}; a token is given by the "
    "'X-Auth-Token' header, by the session cookie set by /login, or as /ws/TOKEN"
)
Look = Callable[[], Awaitable[Eyes | None]]


class Begin(Protocol):
    """How a conversation begins: L{saltwisted.web.talking.begin}."""

    def __call__(
        self,
        reactor: Any,
        request: Any,
        hub: Hub,
        eyes: Eyes,
        look: Look,
        key: str,
        formatted: bool,
        counters: Counter[str],
    ) -> None: ...


class Sockets:
    """The endpoint, for one master."""

    def __init__(
        self,
        reactor: Any,
        sessions: Sessions,
        hub: Hub,
        looking: Callable[[Session, str], Look],
        load: Callable[[], Awaitable[Begin]] | None,
        counters: Counter[str],
    ) -> None:
        """
        @param looking: what a session may see, asked again and again.
        @param load: loads what speaks the protocol; C{None} where its library is missing.
        """
        self._reactor = reactor
        self._sessions = sessions
        self._hub = hub
        self._looking = looking
        self._load = load
        self._counters = counters

    def table(self) -> dict[str, Endpoint]:
        """By the beginning of the path."""
        return {"ws": Endpoint(methods={"GET": self.talk}, depth=1, reads=False, plain=True)}

    async def talk(self, exchange: Exchange) -> Answer:
        """C{GET /ws}, C{GET /ws/TOKEN}."""
        if set(exchange.query) - {FORMATTED}:
            raise Problem(400, NO_QUERY)
        session = await self._session(exchange)
        look = self._looking(session, exchange.address)
        eyes = await look()
        if eyes is None:
            raise Problem(401, NO_RIGHT)
        key = key_of(exchange)
        if self._load is None:
            raise Problem(501, MISSING)
        begin = await self._load()
        begin(
            self._reactor,
            exchange.request,
            self._hub,
            eyes,
            look,
            key,
            FORMATTED in exchange.query,
            self._counters,
        )
        return STREAMED

    async def _session(self, exchange: Exchange) -> Session:
        """
        Who it is; browsers can give a web socket no header.

        @raises Problem: C{401}.
        """
        if not exchange.parts:
            if exchange.session is None:
                raise Problem(401, NO_RIGHT)
            return exchange.session
        (word,) = exchange.parts
        token = await self._sessions.known(word) if len(word) <= 512 else None
        if token is None:
            self._counters["api:bad-token"] += 1
            raise Problem(401, NO_RIGHT)
        exchange.request.known(token.who)
        return Session(word=word, token=token)


def key_of(exchange: Exchange) -> str:
    """
    The key of a request for a web socket.

    @raises Problem: C{400}, it is none, or of another version.
    """
    headers = exchange.headers
    upgrade, connection = (
        {word.strip().lower() for word in headers.get(name, "").split(",")}
        for name in ("upgrade", "connection")
    )
    if exchange.request.method != b"GET" or exchange.request.clientproto != b"HTTP/1.1":
        raise Problem(400, "A web socket begins with GET of HTTP/1.1")
    if "websocket" not in upgrade or "upgrade" not in connection:
        raise Problem(400, "This is for web sockets: 'Upgrade: websocket' is missing")
    if headers.get("sec-websocket-version", "").strip() != VERSION:
        told = {"Sec-WebSocket-Version": VERSION}
        raise Problem(400, f"Only web sockets of version {VERSION} are supported", told)
    key = headers.get("sec-websocket-key", "").strip()
    try:
        good = len(b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        good = False
    if not good:
        raise Problem(400, "Sec-WebSocket-Key is missing or wrong")
    return key
