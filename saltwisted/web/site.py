"""
From a request to its answer: who may connect, who the user is, what the request contains, who
answers, and in which format.

The order is that of Salt's rest_cherrypy with one exception: whether the client can read the answer
is checked before anything is done. Endpoints are in L{saltwisted.web.endpoints} and its neighbours.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from email.utils import formatdate
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api import accept, bodies
from saltwisted.domain.api.compressing import compressed, is_compressed, takes_gzip
from saltwisted.domain.api.packing import packed
from saltwisted.domain.api.parcels import Unpacking
from saltwisted.domain.api.pieces import NotJson, pieces, room_after
from saltwisted.domain.api.problems import NO_RIGHT, Problem, page, problem_of
from saltwisted.domain.eauth import Token
from saltwisted.domain.operations.table import Admits
from saltwisted.doors import HTTP
from saltwisted.errors import DeniedError, RemoteError, StoreError
from saltwisted.transports.deferreds import let_go
from saltwisted.web.cookies import cookie_of
from saltwisted.web.exchange import STREAMED, Answer, Endpoint, Exchange, Handler, Session
from saltwisted.web.http import SERVER, STRANGER, ApiRequest
from saltwisted.web.sending import CHUNK, Sending, Source, Streaming, Unread
from saltwisted.web.turns import Turns
from saltwisted.wire.msgpack import pack_bin

AT_ONCE = 1000
"""Requests that are being answered."""
OF_ONE = 500
"""Of these from one address."""
MOST_PARTS = 100
"""Slashes in a path: none of ours needs half as many."""
YAML_VALUES = 50
"""Values that are written as YAML at once."""
SHORT = 16_384
"""Bytes of a text that is compressed at once, in up to 0.6 ms."""
HTML = "text/html;charset=utf-8"
CORS_METHODS = ("GET", "POST")
NOT_OURS = (
    "The origin of the page is not one of cors_origin, and not the host that was asked: behind a"
    " proxy that changes Host, name it there"
)


class Sessions(Protocol):
    """Who has logged in; see L{saltwisted.master.logins.Logins}."""

    async def known(self, word: str) -> Token | None:
        """
        What a token stands for, if it is good, also by what other nodes know: its user, with the
        groups of now.
        """

    async def delete_token(self, token: Any) -> bool:
        """End a token."""

    def permissions(self, token: Token) -> Sequence[Any]:
        """What its user may, as C{/login} says it."""

    def rules(self, token: Token) -> Sequence[Any]:
        """What decides about the user's rights."""


class Bearers(Protocol):
    """Checks tokens of other issuers; see L{saltwisted.master.provider.Provider}."""

    async def bearer(self, text: str, source: str) -> str:
        """
        What stands for it, as a token of ours; C{""} where such tokens are not asked for.

        @raises RemoteError: it proves nobody, or nobody has looked at it.
        """


Wrong = Callable[[ApiRequest, int, str, str], None]
"""C{wrong(request, status, message, trace)}: what a request was answered with."""


class Site:
    """
    All endpoints of the API.

    @ivar endpoints: by the first word of the path; C{""} is the root.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        options: ApiOptions,
        sessions: Sessions,
        counters: Counter[str],
        endpoints: Mapping[str, Endpoint],
        now: Callable[[], float],
        in_worker: Callable[[Any], Awaitable[Any]],
        turns: Turns,
        page_of: Handler | None = None,
        bearers: Bearers | None = None,
        wrong: Wrong | None = None,
    ) -> None:
        """
        @param in_worker: has a process do what L{saltwisted.worker.process.webwork} does.
        @param page_of: what a browser gets that asks for a page, if there is an app.
        @param wrong: told of each error of ours.
        """
        self._reactor = reactor
        self._options = options
        self._sessions = sessions
        self._counters = counters
        self.endpoints: Mapping[str, Endpoint] = {}
        self._words = 0
        self.offer(endpoints)
        self._page_of = page_of
        self._bearers = bearers
        self._wrong = wrong
        self._now = now
        self._in_worker = in_worker
        self._turns = turns
        self._unread = Unread(reactor)
        self._running: Counter[str] = Counter()
        self._answering: set[Deferred[None]] = set()
        self._stopping = False
        self._prefix = [part for part in options.root_prefix.split("/") if part]

    def offer(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Add these endpoints; existing names keep theirs."""
        self.endpoints = {**endpoints, **self.endpoints}
        self._words = max(name.count("/") + 1 for name in self.endpoints)

    # -- requests

    def take(self, request: ApiRequest) -> None:
        """Answer a request."""
        working = Deferred.fromCoroutine(self._answer(request))
        self._answering.add(working)
        gone = request.notifyFinish()
        gone.addErrback(lambda failure: working.cancel())  # type: ignore[unused-awaitable]
        working.addBoth(self._done, working)  # type: ignore[unused-awaitable]
        let_go(working, self.log, "a request could not be answered")

    def _done(self, result: Any, working: Deferred[None]) -> Any:
        self._answering.discard(working)
        return result

    def stop(self) -> None:
        """Answer no more requests: waiting clients are told to try again."""
        self._stopping = True
        for working in list(self._answering):
            working.cancel()
        self._turns.stop()

    async def _answer(self, request: ApiRequest) -> None:
        exchange = self._exchange(request)
        address = exchange.address
        total = self._running.total()
        if total >= AT_ONCE or self._running[address] >= OF_ONE:
            self._counters["api:too-many-requests"] += 1
            problem = Problem(503, "There are too many requests", {"Retry-After": "1"})
            self._tell(request, exchange, problem)
            return
        self._running[address] += 1
        try:
            await self._try(request, exchange)
        finally:
            self._running[address] -= 1
            if not self._running[address]:
                del self._running[address]

    async def _try(self, request: ApiRequest, exchange: Exchange) -> None:
        try:
            answer, form = await self._judge(exchange)
            if answer is STREAMED:
                return
            if answer.source is not None:
                self._stream(request, exchange, answer, answer.source)
                return
            if answer.content is not None:
                content, content_type = [answer.content], answer.content_type
            else:
                content, content_type = await self._shown(answer.value, form), form
            if answer.error and self._wrong is not None:
                self._wrong(request, answer.status, answer.error, "")
            self._send(request, exchange, answer.status, content_type, content)
        except CancelledError:
            if not self._stopping:
                # The client is gone
                raise
            problem = Problem(503, "The master stops", {"Retry-After": "5"})
            self._tell(request, exchange, problem)
        except (Problem, RemoteError, DeniedError, StoreError) as error:
            self._tell(request, exchange, problem_of(error))
        except Exception:
            self._counters["api:failed"] += 1
            self.log.failure("{path} could not be answered", path=exchange.path[:200])
            self._unexpected(request, exchange, traceback.format_exc())

    def _unexpected(self, request: ApiRequest, exchange: Exchange, trace: str) -> None:
        """Something of ours is broken: nobody is told what, unless C{debug} says so."""
        said = "An unexpected error occurred"
        if self._wrong is not None:
            self._wrong(request, 500, said, trace)
        told = {"status": 500, "return": trace if self._options.debug else said}
        content = [piece.encode() for piece in pieces(told)]
        self._send(request, exchange, 500, accept.JSON, content)

    @property
    def answering(self) -> int:
        """Requests that are being answered."""
        return self._running.total()

    # -- what is asked

    def _exchange(self, request: ApiRequest) -> Exchange:
        headers = {
            name.decode("latin-1").lower(): values[0].decode("utf-8", "replace")
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        method = request.method.decode("latin-1")
        return Exchange(
            method="GET" if method == "HEAD" else method,
            path=request.path.decode("latin-1"),
            parts=(),
            query={},
            headers=headers,
            address=str(getattr(request.client, "host", "")),
            options=self._options,
            request=request,
            understand=lambda content: self._understand(headers.get("content-type"), content),
        )

    async def _judge(self, exchange: Exchange) -> tuple[Answer, str]:
        """
        The answer, and the form that it is wanted in.

        @raises Problem: what is said instead.
        """
        foreign = self._cross_origin(exchange)
        changes = exchange.method == "POST"
        allowed = self._options.authorized_ips
        if allowed and exchange.address not in allowed:
            self._counters["api:bad-ip"] += 1
            raise Problem(403, "Bad IP")
        if exchange.method == "OPTIONS":
            return self._options_of(exchange), ""
        endpoint = self._find(exchange)
        exchange.answer_headers["Allow"] = allowed_of(endpoint)
        if not endpoint.browsers and self._wants_page(exchange) and self._page_of is not None:
            return await self._page_of(exchange), ""
        handler = endpoint.methods.get(exchange.method)
        exchange.session = await self._session(exchange)
        if exchange.session is not None:
            exchange.answer_headers["Cache-Control"] = "private"
        elif endpoint.guarded or exchange.method in endpoint.guarded_methods:
            raise Problem(401, NO_RIGHT)
        if handler is None:
            raise Problem(405, "Specified method is invalid for this resource")
        by_cookie = exchange.session is not None and exchange.session.by_cookie
        by_header = exchange.session is not None and not by_cookie
        if foreign and (by_cookie or (changes and not by_header)):
            # A page of somebody else's in the browser of a user who has logged in, or who would be
            # logged in as somebody else. No such page can send our headers
            self._counters["api:bad-origin"] += 1
            raise Problem(403, NOT_OURS)
        form = "" if endpoint.plain else accept.best(exchange.headers.get("accept"))
        self._query(exchange, endpoint)
        if endpoint.reads and exchange.method == "POST":
            exchange.body = await self._read(exchange)
        return await handler(exchange), form

    def _options_of(self, exchange: Exchange) -> Answer:
        """What may be asked of a path; without a session, as browsers ask it."""
        # Of a path where nothing is stock says no more
        with suppress(Problem):
            exchange.answer_headers["Allow"] = allowed_of(self._find(exchange))
        return Answer(content=b"")

    def _cross_origin(self, exchange: Exchange) -> bool:
        """
        Say who may use answers elsewhere.

        @return: whether the request comes from a page of somebody whom nobody has named.
        """
        origin = exchange.headers.get("origin")
        told = exchange.answer_headers
        # A browser says that itself, by TLS: also behind a proxy that changes Host
        is_own = exchange.headers.get("sec-fetch-site") == "same-origin"
        if origin is not None and not is_own and not self._known_origin(origin, exchange):
            return True
        if origin is None and self._comes_from_elsewhere(exchange):
            return True
        told["Access-Control-Allow-Origin"] = origin or "*"
        told["Access-Control-Expose-Headers"] = "GET, POST"
        told["Access-Control-Allow-Credentials"] = "true"
        if origin is not None:
            told["Vary"] = "Origin"
        wanted = exchange.headers.get("access-control-request-method")
        if exchange.method == "OPTIONS" and wanted in CORS_METHODS:
            told["Access-Control-Allow-Methods"] = ", ".join(CORS_METHODS)
            told["Access-Control-Allow-Headers"] = "Content-Type, X-Auth-Token, X-Requested-With"
            told["Access-Control-Max-Age"] = "1400"
        return False

    def _comes_from_elsewhere(self, exchange: Exchange) -> bool:
        """
        Whether a request without C{Origin} is a form of a foreign page all the same. Programs send
        none of these headers; a browser that leaves out one of them sends another.
        """
        if exchange.method != "POST":
            return False
        site = exchange.headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none") and not self._known_origin("", exchange)
        page = exchange.headers.get("referer")
        return page is not None and not self._known_origin(origin_of(page), exchange)

    def _known_origin(self, origin: str, exchange: Exchange) -> bool:
        named = self._options.cors_origin
        named = [named] if isinstance(named, str) else named
        if "*" in named or (origin and origin in named):
            return True
        try:
            netloc = urlsplit(origin).netloc
        except ValueError:
            return False
        return bool(netloc) and netloc == exchange.headers.get("host")

    def _find(self, exchange: Exchange) -> Endpoint:
        """
        Whose path it is.

        @raises Problem: C{404}, nobody's.
        """
        parts = []
        shown = f"The path {exchange.path[:200]!r} was not found."
        if exchange.path.count("/") > MOST_PARTS:
            raise Problem(404, shown)
        for part in exchange.path.split("/"):
            if part:
                try:
                    parts.append(unquote_to_bytes(part.encode("latin-1")).decode("utf-8"))
                except UnicodeDecodeError:
                    raise Problem(404, "The path is not UTF-8") from None
        if any(part in (".", "..") or "/" in part or "\0" in part for part in parts):
            raise Problem(404, shown)
        if parts[: len(self._prefix)] != self._prefix:
            raise Problem(404, shown)
        parts = parts[len(self._prefix) :]
        endpoint = None
        # A name may have several words, as webhook_url may
        for length in range(min(len(parts), self._words), -1, -1):
            endpoint = self.endpoints.get("/".join(parts[:length]))
            if endpoint is not None and (length or not parts):
                exchange.parts = parts[length:]
                break
            endpoint = None
        if endpoint is None or len(exchange.parts) > endpoint.depth:
            raise Problem(404, shown)
        return endpoint

    def _wants_page(self, exchange: Exchange) -> bool:
        """Whether a browser comes here to look, where there is an app to show."""
        options = self._options
        if self._page_of is None:
            return False
        path = exchange.path
        if path.startswith((options.app_path, options.static_path)):
            return False
        return accept.prefers_html(exchange.headers.get("accept"))

    async def _session(self, exchange: Exchange) -> Session | None:
        """
        Who it is, by C{X-Auth-Token}, by a provider's token, or else by the cookie.

        @raises RemoteError: the provider's token is not good.
        """
        word, by_cookie = exchange.headers.get("x-auth-token", ""), False
        kind, _, text = exchange.headers.get("authorization", "").partition(" ")
        bearer = not word and kind.lower() == "bearer" and self._bearers is not None
        if bearer and self._bearers is not None:
            told = exchange.answer_headers
            told["WWW-Authenticate"] = 'Bearer error="invalid_token"'
            word = await self._bearers.bearer(text.strip(), exchange.address)
            del told["WWW-Authenticate"]
        if not word:
            bearer = False
            word, by_cookie = cookie_of(exchange.headers.get("cookie", "")), True
        if not word or len(word) > 512:
            return None
        token = await self._sessions.known(word)
        minutes = self._options.session_timeout
        if (
            token is None
            or (minutes and self._now() >= token.start + minutes * 60)
            or not api_acl_allows(self._options.api_acl, token.name, exchange.address)
        ):
            self._counters["api:bad-token"] += 1
            return None
        exchange.request.known(token.who)
        return Session(word=word, token=token, by_cookie=by_cookie, by_bearer=bearer)

    def _query(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """
        What is behind the question mark.

        @raises Problem: C{400}, it cannot be read; C{404}, nothing here is asked for by such a
            name. To answer without it would be an answer to another question.
        """
        try:
            text = exchange.request.query.decode("latin-1")
            exchange.query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))
        except ValueError:
            raise Problem(400, "The query has too many fields") from None
        if endpoint.fields is None or exchange.method != "GET":
            return
        unknown = sorted({*exchange.query} - {*endpoint.fields})
        if unknown:
            known = ", ".join(sorted(endpoint.fields)) or "none"
            raise Problem(404, f"There is no field {unknown[0][:100]!r} here; there are: {known}")

    async def _read(self, exchange: Exchange) -> bodies.Body:
        request = exchange.request
        content = request.content.read()
        if exchange.session is None and len(content) > HTTP.request:
            raise Problem(413, STRANGER)
        try:
            return await exchange.understand(content)
        finally:
            request.drop_body()

    async def may_send_more(self, request: ApiRequest) -> bool:
        """
        Whether somebody whose head is here may send a body that is larger than a stranger's: he is
        a user, or it is a hook whose sender is known by what he sends.
        """
        exchange = self._exchange(request)
        allowed = self._options.authorized_ips
        try:
            endpoint = self._find(exchange)
            if allowed and exchange.address not in allowed:
                return False
            return endpoint.hooks or await self._session(exchange) is not None
        except (Problem, RemoteError, DeniedError, StoreError):
            return False

    async def _understand(self, kind: str | None, content: bytes) -> bodies.Body:
        """
        A body, read where it keeps nobody waiting.

        @raises Problem: it is not what it says.
        """
        if not bodies.is_long(kind, content):
            return bodies.read(kind, content)
        done = await self._in_worker({"read": content, "type": kind})
        if "problem" in done:
            raise Problem(*done["problem"])
        unpacking = Unpacking()
        await self._turns.all(unpacking.steps(done["parcels"]))
        return bodies.Body(unpacking.value, done["raw"])

    async def _yaml(self, value: Any) -> bytes:
        if room_after(value, YAML_VALUES) >= 0:
            return bodies.yaml_text(value)
        content = b"".join(await self._turns.all(packed(value, pack_bin)))
        return bytes((await self._in_worker({"write": content}))["text"])

    # -- what is answered

    async def _shown(self, value: Any, form: str) -> list[bytes]:
        """A value in a form; a large one is made bit by bit."""
        if form == accept.YAML:
            return [await self._yaml(value)]
        try:
            if form == accept.MSGPACK:
                return await self._turns.all(packed(value))
            made = (piece.encode("utf-8", "replace") for piece in pieces(value))
            return await self._turns.all(made)
        except (NotJson, TypeError):
            raise Problem(500, "Could not serialize the return data from Salt.") from None

    def _tell(self, request: ApiRequest, exchange: Exchange, problem: Problem) -> None:
        exchange.answer_headers.update(problem.headers)
        if problem.status >= 500 and self._wrong is not None:
            self._wrong(request, problem.status, problem.message, "")
        trace = "".join(traceback.format_exception(problem)) if self._options.debug else ""
        content = [page(problem.status, problem.message, trace)]
        self._send(request, exchange, problem.status, HTML, content)

    def _send(
        self,
        request: ApiRequest,
        exchange: Exchange,
        status: int,
        content_type: str,
        content: Collection[bytes],
    ) -> None:
        request.setResponseCode(status)
        told = self._usual(exchange, content_type)
        if is_compressed(content_type):
            content = self._smaller(exchange, told, content)
        size = sum(map(len, content))
        self._heads(request, exchange, told)
        request.setHeader(b"Content-Length", str(size).encode())
        if size <= CHUNK or request.method == b"HEAD":
            request.write(b"".join(content))
            request.finish()
            return
        Sending(self._reactor, request, content, self._unread).start()

    def _stream(
        self, request: ApiRequest, exchange: Exchange, answer: Answer, source: Source
    ) -> None:
        """Send what is not in memory."""
        request.setResponseCode(answer.status)
        self._heads(request, exchange, self._usual(exchange, answer.content_type))
        if source.size is not None:
            request.setHeader(b"Content-Length", str(source.size).encode())
        if request.method == b"HEAD":
            source.close()
            request.finish()
            return
        Streaming(self._reactor, request, source).start()

    def _usual(self, exchange: Exchange, content_type: str) -> dict[str, str]:
        """The headers of an answer of this type."""
        told = {
            "Server": SERVER.decode(),
            "Date": formatdate(self._now(), usegmt=True),
            "X-Content-Type-Options": "nosniff",
        }
        if content_type:
            told["Content-Type"] = content_type
        told.update(exchange.answer_headers)
        if is_compressed(content_type):
            told["Vary"] = ", ".join(filter(None, (told.get("Vary"), "Accept-Encoding")))
        return told

    @staticmethod
    def _heads(request: ApiRequest, exchange: Exchange, told: Mapping[str, str]) -> None:
        for name, text in told.items():
            request.setHeader(name.encode("latin-1"), clean(text))
        for cookie in exchange.cookies:
            request.responseHeaders.addRawHeader(b"Set-Cookie", clean(cookie))

    @staticmethod
    def _smaller(
        exchange: Exchange, told: dict[str, str], content: Collection[bytes]
    ) -> Collection[bytes]:
        """A short text, compressed if the client asks for it; a long one is elsewhere or not."""
        text = b"".join(content) if sum(map(len, content)) <= SHORT else b""
        asked = exchange.headers.get("accept-encoding")
        if not text or "Content-Encoding" in told or not takes_gzip(asked):
            return content
        told["Content-Encoding"] = "gzip"
        return [compressed(text)]


def api_acl_allows(acl: Mapping[str, Any], username: Any, address: str) -> bool:
    """Whether C{api_acl} lets a user connect from an address; without the option everybody may."""
    if not acl:
        return True
    users = acl.get("users")
    if not isinstance(users, Mapping):
        return False
    places = users.get(username) if isinstance(username, str) else None
    if places is None:
        places = users.get("*")
    if isinstance(places, str):
        places = [places]
    return isinstance(places, (list, tuple)) and (address in places or "*" in places)


def admitting(acl: Mapping[str, Any], address: str) -> Admits:
    """Whom C{api_acl} lets connect from an address, by the name that is proven."""
    return lambda name: api_acl_allows(acl, name, address)


def admits_somebody(acl: Mapping[str, Any], address: str) -> bool:
    """
    Whether C{api_acl} lets anybody connect from an address: from elsewhere no login is looked at,
    so that nobody guesses passwords from there.
    """
    users = acl.get("users") if acl else None
    names = users if isinstance(users, Mapping) else ()
    return not acl or any(api_acl_allows(acl, name, address) for name in names)


def allowed_of(endpoint: Endpoint) -> str:
    """The methods that there are, as C{Allow} says it."""
    return ", ".join(sorted({*endpoint.methods, *({"HEAD"} if "GET" in endpoint.methods else ())}))


def origin_of(page: str) -> str:
    """The origin of a page, as browsers write it; C{""} for what is no address of one."""
    try:
        found = urlsplit(page)
    except ValueError:
        return ""
    return f"{found.scheme}://{found.netloc}" if found.scheme and found.netloc else ""


def clean(text: str) -> bytes:
    """A header's value: nothing in it begins another header."""
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ").encode("utf-8", "replace")
