"""
etcd 3 through its HTTP gateway: JSON in both directions, at one of several addresses, within a time
limit.

L{saltwisted.domain.claims.etcd} has the requests and the meaning of answers. If an address does not
answer, or sends an invalid answer, the next one is tried. So a request may be executed twice; all
requests of this module tolerate that.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from saltwisted.domain.claims.etcd import OPTION, Ask, Settings, decode_token, login
from saltwisted.doors import ETCD
from saltwisted.errors import RemoteError, RequestTimeout, TransportClosed, WireError
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.etcdtls import TlsPolicy, plain_reason
from saltwisted.wire.text import HALVES, json_has_halves

TRY_TIME = 1.0
"""Seconds that one address may take."""
WHOLE_TIME = 2.5
"""Seconds after which no further one is tried."""
MOST_BYTES = ETCD.request
"""Of an answer."""
MOST_PARTS = 70_000
"""
Of an answer: what begins or separates values. One held key has seven. JSON is read by one call,
during which the reactor stands; so many take some ten milliseconds.
"""
CONNECTIONS = 16
"""Questions that are on their way at the same time; more of them wait."""
UNAUTHENTICATED = 16
"""gRPC's number for it."""
ONLY_WITH_LEADER = {"Grpc-Metadata-Hasleader": ["true"]}
"""
A member of etcd that knows no leader says so at once. Without this it keeps the question for seven
seconds, while another member could answer it.
"""
NO_LEADER = "etcd has no majority of its members, or they choose a leader just now"


@implementer(IBodyProducer)
class _Sent:
    """A question, which is sent in one piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: Any) -> Deferred[None]:
        """All of it."""
        consumer.write(self._data)
        return succeed(None)

    def stopProducing(self) -> None:
        """It is sent."""

    pauseProducing = resumeProducing = stopProducing


class _Body(Protocol):
    """Collects an answer up to a limit."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done, self._parts, self._size = done, [], 0  # type: ignore[var-annotated]
        self._over = False

    def dataReceived(self, data: bytes) -> None:
        """Count them."""
        self._size += len(data)
        if self._size > MOST_BYTES:
            self._finish(WireError(f"an answer of more than {MOST_BYTES >> 20} MiB"))
            self.give_up()
        else:
            self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """All is here, or not."""
        whole = reason.check(ResponseDone) is not None
        self._finish(None if whole else TransportClosed("it hung up within an answer"))

    def give_up(self) -> None:
        """Read no more of it."""
        transport: Any = self.transport
        for name in ("abortConnection", "loseConnection"):
            stop = getattr(transport, name, None)
            if stop is not None:
                stop()
                return

    def _finish(self, error: Exception | None) -> None:
        if not self._over:
            self._over = True
            if error is None:
                self._done.callback(b"".join(self._parts))
            else:
                self._done.errback(error)


class Gateway:
    """One etcd, at one of its addresses. Reactor thread only."""

    log = Logger()

    def __init__(self, reactor: Any, settings: Settings, policy: TlsPolicy | None) -> None:
        """
        @param policy: for https; C{None} where there is none.
        """
        self._reactor, self._settings, self._policy = reactor, settings, policy
        self._pool = HTTPConnectionPool(reactor, persistent=True)
        self._pool.maxPersistentPerHost = CONNECTIONS
        self._agent = (
            Agent(reactor, connectTimeout=TRY_TIME, pool=self._pool)
            if policy is None
            else Agent(reactor, policy, connectTimeout=TRY_TIME, pool=self._pool)
        )
        self._best = 0
        self._met: set[int] = set()
        self._away: set[int] = set()
        self._token = ""
        self._free = CONNECTIONS
        self._queue: list[Deferred[None]] = []
        self._under_way: set[Deferred[Any]] = set()
        self._stopped = False

    async def stop(self) -> None:
        """Send no more requests, and close open connections."""
        self._stopped = True
        for waiting in (*self._queue, *self._under_way):
            waiting.cancel()
        await self._pool.closeCachedConnections()
        # Those that were given up are closed in the next turn
        await deferLater(self._reactor, 0)

    async def ask(self, ask: Ask) -> Any:
        """
        What is answered.

        @raises TransportClosed: by nobody; or C{RequestTimeout}.
        @raises RemoteError: it is refused.
        @raises WireError: the answer is nonsense.
        """
        if ask.is_urgent:
            return await self._ask(ask)
        await self._turn()
        try:
            return await self._ask(ask)
        finally:
            if self._queue:
                self._queue.pop(0).callback(None)
            else:
                self._free += 1

    def _turn(self) -> Deferred[None]:
        """Fires when one more may be asked."""
        if self._free:
            self._free -= 1
            return succeed(None)
        turn: Deferred[None] = Deferred(self._queue.remove)
        self._queue.append(turn)

        def late(failure: Failure) -> None:
            failure.trap(TimeoutError, CancelledError)
            raise RequestTimeout(f"too many requests wait for an answer of {OPTION}")

        return turn.addTimeout(WHOLE_TIME, self._reactor).addErrback(late)

    async def _ask(self, ask: Ask) -> Any:
        count, first = len(self._settings.endpoints), self._best
        end = self._reactor.seconds() + WHOLE_TIME
        failed: dict[int, Exception] = {}
        kind: type[Exception] = TransportClosed
        # A connection that was kept may have been closed at the other end: one more
        for attempt in range(count + 1):
            at = (first + attempt) % count
            left = end - self._reactor.seconds()
            if self._stopped or (attempt and left <= 0):
                break
            try:
                answer = await self._limited(at, ask, min(TRY_TIME, left))
            except RemoteError:
                self._answers(at)
                raise
            except (TransportClosed, WireError) as error:
                failed[at], kind = error, type(error)
                self._fails(at, error)
                continue
            self._answers(at)
            return answer
        if not failed:
            raise TransportClosed("this node stops")
        said = (f"{self._settings.endpoints[at]}: {failed[at]}" for at in sorted(failed))
        raise kind(f"{OPTION}: {'; '.join(said)}")

    def _answers(self, at: int) -> None:
        self._best = at
        self._met.add(at)
        if at in self._away:
            self._away.discard(at)
            self.log.info("{url} of etcd answers again", url=self._settings.endpoints[at])

    def _fails(self, at: int, error: Exception) -> None:
        """The next question begins elsewhere: silent addresses do not keep each from the rest."""
        count = len(self._settings.endpoints)
        if self._best == at:
            self._best = (at + 1) % count
        if at not in self._away and count > 1 and not self._stopped:
            self._away.add(at)
            url = self._settings.endpoints[at]
            self.log.warn(
                "{option}: {url}: {why}; trying the next address",
                option=OPTION,
                url=url,
                why=str(error),
            )

    def _limited(self, at: int, ask: Ask, seconds: float) -> Deferred[Any]:
        d = as_deferred(self._authorised(at, ask)).addTimeout(seconds, self._reactor)
        self._under_way.add(d)

        def over(result: Any) -> Any:
            self._under_way.discard(d)
            return result

        def failed(failure: Failure) -> Any:
            if failure.check(TransportClosed, WireError, RemoteError):
                return failure
            reason = _reason(failure)
            if reason.check(TimeoutError, CancelledError):
                raise RequestTimeout(f"no answer within {TRY_TIME:.0f} s")
            is_met, policy = at in self._met, self._policy
            url = self._settings.endpoints[at]
            if policy is None or not url.startswith("https:"):
                raise TransportClosed(plain_reason(reason, is_met))
            raise TransportClosed(policy.reason(url, reason, is_met))

        return d.addBoth(over).addErrback(failed)

    async def _authorised(self, at: int, ask: Ask) -> Any:
        if not self._settings.user:
            return await self._post(at, ask)
        if not self._token:
            await self._login(at)
        try:
            return await self._post(at, ask)
        except RemoteError as error:
            if error.details != UNAUTHENTICATED:
                raise
        # Tokens do not last
        await self._login(at)
        return await self._post(at, ask)

    async def _login(self, at: int) -> None:
        self._token = ""
        self._token = decode_token(await self._post(at, login(self._settings)))

    async def _post(self, at: int, ask: Ask) -> Any:
        headers = Headers({"Content-Type": ["application/json"], **ONLY_WITH_LEADER})
        if self._token:
            headers.addRawHeader("Authorization", self._token)
        response = await self._agent.request(
            b"POST",
            f"{self._settings.endpoints[at]}/v3/{ask.path}".encode("ascii"),
            headers,
            _Sent(json.dumps(ask.body).encode()),
        )
        done: Deferred[bytes] = Deferred(lambda _: body.give_up())
        body = _Body(done)
        response.deliverBody(body)
        data = await done
        answer = parsed(data, response.code)
        if response.code != 200 or "error" in answer:
            raise self._refused(at, response.code, answer)
        return answer

    def _refused(self, at: int, code: int, answer: dict[str, Any]) -> Exception:
        error = answer.get("error")
        inner = error if isinstance(error, dict) else answer
        number = inner.get("code", inner.get("grpc_code", 0))
        words = str(inner.get("message") or error or f"HTTP {code}")[:200]
        if code >= 500 or number in (4, 14):
            # It has no leader, or stops: another address may be better
            return TransportClosed(f"{words}: {NO_LEADER}" if "no leader" in words else words)
        if "auth store is old" in words or "invalid auth token" in words:
            number = UNAUTHENTICATED
        where = f"{OPTION}: {self._settings.endpoints[at]}: {words}"
        return RemoteError("etcd", where, number)


def _reason(failure: Failure) -> Failure:
    """Why a connection came to nothing, without Twisted's failures around it."""
    while reasons := getattr(failure.value, "reasons", None):
        failure = reasons[0]
    return failure


def parsed(data: bytes, code: int = 200) -> dict[str, Any]:
    """
    The JSON object of an answer, judged by its size before it is read.

    @param code: the status of HTTP.
    @raises WireError: it is none.
    """
    if code == 404 and not data.startswith(b"{"):
        raise WireError("it knows no /v3/: is it an etcd, of 3.4 or newer?")
    if sum(map(data.count, (b",", b"{", b"["))) > MOST_PARTS:
        raise WireError(f"no JSON of at most {MOST_PARTS} parts")
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise WireError(f"no JSON but {data[:60]!r} (HTTP {code})") from None
    if not isinstance(answer, dict):
        raise WireError(f"no JSON object but {data[:60]!r}")
    if json_has_halves(data, answer):
        raise WireError(HALVES)
    return answer
