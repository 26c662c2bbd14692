"""
Logins of browsers at an OpenID Connect provider: the way there and the way back.

The result is a session like one of C{/login}, in the same cookie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api.problems import NO_RIGHT, Problem
from saltwisted.domain.codeflow import LASTS, is_own_path
from saltwisted.web.cookies import SESSION, cookie, cookie_of
from saltwisted.web.endpoints import ends
from saltwisted.web.exchange import Answer, Endpoint, Exchange
from saltwisted.web.site import Sessions, api_acl_allows

NAME = "oidc_login"
HOST_NAME = "__Host-oidc_login"
"""Browsers take a cookie of such a name from this very host alone, by TLS."""


class Provider(Protocol):
    """See L{saltwisted.master.provider.Provider}."""

    async def begin(self, path: str, host: str) -> tuple[str, str]:
        """Where a browser goes to log in, and the cookie that it keeps until it is back."""

    async def finish(
        self, query: Mapping[str, str], cookie: str, host: str, source: str
    ) -> tuple[dict[str, Any], str]:
        """A token for the user who has logged in, and the path to go to."""


class BrowserLogin:
    """The two endpoints."""

    def __init__(
        self,
        options: ApiOptions,
        provider: Provider,
        sessions: Sessions,
        now: Callable[[], float],
        secure: bool,
    ) -> None:
        self._options = options
        self._provider = provider
        self._sessions = sessions
        self._now = now
        self._secure = secure
        self._name = HOST_NAME if secure else NAME

    def table(self) -> dict[str, Endpoint]:
        """By the words of the path."""
        if not self._options.enable_sessions:
            return {}
        return {
            "login/oidc": Endpoint(methods={"GET": self.begin}, plain=True, browsers=True),
            "login/oidc/callback": Endpoint(
                methods={"GET": self.callback}, plain=True, browsers=True
            ),
        }

    async def begin(self, exchange: Exchange) -> Answer:
        """C{GET /login/oidc?next=PATH}: to the provider."""
        options = self._options
        path = exchange.query.get("next") or (
            options.app_path if options.app else options.root_prefix
        )
        if not is_own_path(path):
            raise Problem(400, "next is the path of a page on this server, such as /app")
        address, kept = await self._provider.begin(path, exchange.headers.get("host", ""))
        now = self._now()
        exchange.cookies.append(cookie(self._name, kept, now + LASTS, now, self._secure))
        return self._elsewhere(exchange, address)

    async def callback(self, exchange: Exchange) -> Answer:
        """C{GET /login/oidc/callback?code=...&state=...}: back from the provider."""
        kept = cookie_of(exchange.headers.get("cookie", ""), self._name)
        now = self._now()
        # Whatever comes of it, this login is over
        exchange.cookies.append(cookie(self._name, "", 0, now, self._secure))
        exchange.answer_headers["Cache-Control"] = "no-store"
        host = exchange.headers.get("host", "")
        made, path = await self._provider.finish(exchange.query, kept, host, exchange.address)
        word = made["token"]
        if not api_acl_allows(self._options.api_acl, made["name"], exchange.address):
            await self._sessions.delete_token(word)
            raise Problem(401, NO_RIGHT)
        token = await self._sessions.known(word)
        if token is None:
            raise Problem(503, "The login could not be kept", {"Retry-After": "5"})
        exchange.request.known(token.who)
        exchange.cookies.append(
            cookie(SESSION, word, ends(self._options, token), now, self._secure)
        )
        return self._elsewhere(exchange, path)

    def _elsewhere(self, exchange: Exchange, address: str) -> Answer:
        told = exchange.answer_headers
        told["Location"] = address
        told["Cache-Control"] = "no-store"
        told["Referrer-Policy"] = "no-referrer"
        return Answer(content=b"", status=302, content_type="text/plain")
