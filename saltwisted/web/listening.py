"""
C{/events}, C{/hook} and C{/stats}: events out, events in, and figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from email.utils import formatdate
from typing import Any

from twisted.logger import Logger

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api.problems import NO_RIGHT, Problem
from saltwisted.domain.api.signatures import GIT, GITLAB, Rule, rules_for
from saltwisted.domain.api.watching import Eyes, sight_of
from saltwisted.domain.eauth import Token
from saltwisted.domain.firing import may_fire
from saltwisted.domain.who import HOOK, Who
from saltwisted.errors import TargetError
from saltwisted.transports.bus import ASKED, EventBus
from saltwisted.web.chunks import DOOR
from saltwisted.web.events import SLICE, Hub, Listener, Outlet
from saltwisted.web.exchange import STREAMED, Answer, Endpoint, Exchange, Session
from saltwisted.web.http import SERVER
from saltwisted.web.site import Sessions, api_acl_allows, clean

NO_QUERY = (
    "The /events endpoint takes no query parameters; in particular, tokens must not be passed via "
    "the query string -- they end up in access logs and the Referer header. Use the 'X-Auth-Token' "
    "header (for non-browser clients) or the session cookie set by /login (for browser EventSource "
    "clients) instead."
)
STREAM = "text/event-stream;charset=utf-8"
TAG = "salt/netapi/hook"
LONGEST_TAG = 1024
DEPTH = 30
"""Words of a hook's path."""
SECRET = frozenset(("x-auth-token", "cookie", "authorization", "proxy-authorization", GITLAB))
"""Headers that prove who sends a hook: nobody who sees its event is to get them."""
Resolve = Callable[[str], Awaitable[Collection[str]]]
"""The minions that a compound target means."""


class Listening:
    """The endpoints, for one master."""

    log = Logger()

    def __init__(
        self,
        options: ApiOptions,
        signatures: Sequence[Rule],
        sessions: Sessions,
        hub: Hub,
        bus: EventBus,
        resolve: Resolve,
        now: Callable[[], float],
        counters: Counter[str],
        traffic: Callable[[], Mapping[str, Any]],
        pushed: Callable[[Any], None],
    ) -> None:
        """
        @param pushed: is told what a git server says of a push.
        @param traffic: how much was asked and answered.
        """
        self._options = options
        self._signatures = signatures
        self._sessions = sessions
        self._hub = hub
        self._bus = bus
        self._resolve = resolve
        self._now = now
        self._counters = counters
        self._traffic = traffic
        self._pushed = pushed

    def table(self) -> dict[str, Endpoint]:
        """By the beginning of the path."""
        options = self._options
        hook = "/".join(part for part in str(options.webhook_url).split("/") if part) or "hook"
        return {
            "events": Endpoint(methods={"GET": self.events}, reads=False, plain=True),
            "stats": Endpoint(
                methods={"GET": self.stats},
                guarded=not options.stats_disable_auth,
                reads=False,
                fields=(),
            ),
            hook: Endpoint(
                methods={"POST": self.hook},
                depth=DEPTH,
                reads=False,
                hooks=bool(self._signatures) or options.webhook_disable_auth,
            ),
        }

    # -- events out

    async def events(self, exchange: Exchange) -> Answer:
        """C{GET /events}: Server-Sent Events, until the client or the session goes."""
        if exchange.request.query:
            raise Problem(400, NO_QUERY)
        session = exchange.session
        if session is None:
            raise Problem(401, NO_RIGHT)
        if exchange.request.method == b"HEAD":
            return Answer(content=b"", content_type=STREAM)
        look = self.looking(session, exchange.address)
        eyes = await look()
        if eyes is None:
            raise Problem(401, NO_RIGHT)
        EventStream(exchange.request, self._hub, eyes, look).begin(
            {
                "Server": SERVER.decode(),
                "Date": formatdate(self._now(), usegmt=True),
                "X-Content-Type-Options": "nosniff",
                **exchange.answer_headers,
                "Content-Type": STREAM,
                "Cache-Control": "no-cache",
                "Connection": "keep-alive",
                # nginx would keep events back until it has some thousand bytes
                "X-Accel-Buffering": "no",
            }
        )
        return STREAMED

    def looking(self, session: Session, address: str) -> Callable[[], Awaitable[Eyes | None]]:
        """What the user of a session may see, whenever it is asked; C{None} when it has ended."""

        async def look() -> Eyes | None:
            token = await self._sessions.known(session.word)
            options = self._options
            minutes = options.session_timeout
            if (
                token is None
                or (minutes and self._now() >= token.start + minutes * 60)
                or not api_acl_allows(options.api_acl, token.name, address)
            ):
                return None
            sight = sight_of(self._sessions.rules(token), bool(options.events_for_all))
            minions: set[str] = set()
            for target in sight.targets:
                try:
                    minions.update(await self._resolve(target))
                except TargetError as error:
                    self.log.warn(
                        "external_auth: '@events' of {user} for {target}: {error}",
                        user=str(token.who),
                        target=target,
                        error=error,
                    )
            return Eyes(token.who, sight.everything, frozenset(minions))

        return look

    # -- events in

    async def hook(self, exchange: Exchange) -> Answer:
        """C{POST /hook/...}: an event with the body of the request."""
        options = self._options
        path = "/".join(exchange.parts)
        tag = f"{TAG}/{path}" if path else TAG
        if len(tag) > LONGEST_TAG or not tag.isprintable():
            raise Problem(400, "The path of a hook is of printable characters, and not longer")
        content = exchange.request.content.read()
        wanted = rules_for(self._signatures, path)
        if wanted:
            # All are looked at, and before the body is read: nobody learns which one was wrong
            good = [each.verify(exchange.headers, content) for each in wanted]
            if not all(good):
                self._counters["api:bad-signature"] += 1
                self.log.warn(
                    "refused a hook for {path} from {address}: its signature is missing or wrong",
                    path=path[:200],
                    address=exchange.address,
                )
                raise Problem(401, "The signature is missing or wrong")
        elif exchange.session is None and not options.webhook_disable_auth:
            raise Problem(401, NO_RIGHT)
        elif exchange.session is not None:
            self._may_fire(exchange.session.token, tag, exchange.address)
        body = await exchange.understand(content)
        exchange.request.drop_body()
        headers = {
            name.title(): text for name, text in exchange.headers.items() if name not in SECRET
        }
        headers["Remote-Addr"] = exchange.address
        who = Who("a signature" if wanted else "somebody", HOOK)
        if exchange.session is not None:
            who = exchange.session.token.who
        # Of this request alone: each is worked on in a context of its own
        ASKED.set((who, f"{DOOR}, {exchange.address}"))
        if wanted or exchange.session is not None:
            self.log.info(
                "{who} does fire {tag} (by the HTTP API, {address})",
                who=str(who)[:200],
                tag=tag,
                address=exchange.address,
                foreign=True,
                always=True,
            )
        self._bus.fire(tag, {"body": body.raw, "post": body.value or {}, "headers": headers})
        self._counters["api:hooks"] += 1
        if path == GIT and wanted:
            self._pushed(body.value)
        return Answer(value={"success": True})

    def _may_fire(self, token: Token, tag: str, address: str) -> None:
        """@raises Problem: C{401}, a rule C{'@event'} of this user means other tags."""
        if not may_fire(self._sessions.rules(token), tag):
            self._counters["denied:event"] += 1
            self.log.warn(
                "{who} may not fire {tag} (by the HTTP API, {address})",
                who=str(token.who)[:200],
                tag=tag[:400],
                address=address,
                foreign=True,
            )
            raise Problem(401, NO_RIGHT)

    # -- figures

    async def stats(self, exchange: Exchange) -> Answer:
        """C{GET /stats}: empty unless C{collect_stats} is set, as in Salt."""
        if not self._options.collect_stats:
            return Answer(value={})
        counted = {
            name.removeprefix("api:"): count
            for name, count in sorted(self._counters.items())
            if name.startswith("api:")
        }
        return Answer(
            value={
                "CherryPy Applications": dict(self._traffic()),
                "saltwisted HTTPServer": {"Listeners": len(self._hub), **counted},
            }
        )


def sse(tag: str, document: bytes) -> bytes:
    """An event in the format of C{/events}."""
    # The tag is what somebody has called it: it must not end the line
    return b"tag: %b\ndata: %b\n\n" % (clean(tag), document)


class EventStream:
    """One client of C{/events}."""

    framing = staticmethod(sse)

    def __init__(
        self,
        request: Any,
        hub: Hub,
        eyes: Eyes,
        look: Callable[[], Awaitable[Eyes | None]],
    ) -> None:
        self._request = request
        self._hub = hub
        self._listener = Listener(eyes, self, look)
        self._outlet = Outlet(request.write, lambda: hub.slow(self._listener))
        self._ended = False

    def begin(self, headers: Mapping[str, str]) -> None:
        """
        Tell events from now on.

        @raises Problem: too many do.
        """
        request = self._request
        self._hub.add(self._listener)
        request.notifyFinish().addBoth(self._gone)
        request.setResponseCode(200)
        for name, text in headers.items():
            request.setHeader(name.encode("latin-1"), clean(text))
        request.channel.keep_little(SLICE)
        request.registerProducer(self._outlet, True)
        self._outlet.give(b"retry: 400\n")

    @property
    def unread(self) -> int:
        """Bytes that wait for the client."""
        return self._outlet.unread

    def give(self, framed: bytes) -> None:
        """An event."""
        self._outlet.give(framed)

    def end(self, stopping: bool = False) -> None:
        """Nothing more comes."""
        if not self._ended:
            self._ended = True
            self._outlet.stopProducing()
            self._request.unregisterProducer()
            self._request.finish()

    def cut(self) -> None:
        """The client does not read: its waiting events are discarded."""
        if not self._ended:
            self._ended = True
            self._outlet.stopProducing()
            self._request.transport.abortConnection()

    def _gone(self, result: Any) -> None:
        self._ended = True
        self._outlet.stopProducing()
        self._hub.remove(self._listener)
