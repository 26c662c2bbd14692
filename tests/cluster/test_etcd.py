"""
Claims by an etcd: a real one, and servers that only seem to be one.
"""

from __future__ import annotations

import json
import os
import signal
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from saltwisted.cluster.claims.claims import ClusterClaims
from saltwisted.cluster.claims.court import Granted, Refused, Wish
from saltwisted.cluster.claims.etcd import EtcdCourt
from saltwisted.domain.claims.etcd import Names, settings_of
from saltwisted.domain.claims.words import Claim, NoMajority, Taken
from saltwisted.transports import etcd as transport
from saltwisted.transports.etcd import Gateway
from saltwisted.transports.etcdtls import tls_policy
from tests.etcd import Etcd, needs_etcd
from tests.harness import SECONDS


async def until(what: str, condition: Callable[[], Any]) -> Any:
    """Wait for something to be seen; the reactor goes on."""
    end = reactor.seconds() + SECONDS  # type: ignore[attr-defined]
    while True:
        value = condition()
        if value:
            return value
        if reactor.seconds() > end:  # type: ignore[attr-defined]
            raise AssertionError(f"waited in vain for {what}")
        await deferLater(reactor, 0.05)  # type: ignore[arg-type]


def waited_for(test: Callable[[Any], Any]) -> Callable[[Any], Deferred[Any]]:
    """A coroutine as a test: the Twisted of Debian 12 waits for a Deferred only."""

    @wraps(test)
    def begun(self: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(test(self))

    return begun


class Node:
    """What one member claims with."""

    def __init__(
        self, test: TestCase, name: str, *urls: str, window: float = 30.0, **options: str
    ) -> None:
        settings = settings_of(list(urls), {"prefix": "test", **options})
        policy = tls_policy(settings, _bytes) if urls[0].startswith("https") else None
        self.gateway = Gateway(reactor, settings, policy)
        self.counters: dict[str, int] = dict.fromkeys(
            ("claims_granted", "claims_taken", "claims_refused", "claims_recovered"), 0
        )
        self.court = EtcdCourt(
            reactor, name, f"life{id(self)}", self.gateway, Names("test"), lambda: 1e9, 86400.0
        )
        self.claims = ClusterClaims(reactor, name, self.court, lambda: 0.5, window, self.counters)
        self.recovered: list[tuple[str, Mapping[str, Any], Claim]] = []
        self.claims.on_recover("run", lambda *found: self.recovered.append(found))
        self.duties: dict[str, Claim] = {}
        self.is_up = False
        test.addCleanup(self.stop)

    async def start(self) -> Node:
        """Claim from now on."""
        self.is_up = True
        await self.court.startService()
        self.claims.startService()
        return self

    def wants(self, name: str) -> None:
        """It would do a duty."""
        self.claims.duty(
            name,
            lambda claim: self.duties.update({name: claim}),
            lambda _: self.duties.pop(name, None) and None,
        )

    def stop(self) -> Any:
        """It stops as it should."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        if self.is_up:
            self.is_up = False
            await self.claims.stopService()
            await self.court.stopService()

    async def die(self) -> None:
        """It does nothing any more, and gives nothing back."""
        self.claims.duties.known.clear()
        await self._stop()


def _bytes(path: str) -> bytes:
    with open(path, "rb") as handle:
        return handle.read()


@needs_etcd
class RealTests(TestCase):
    """Two members, and a real etcd. Needs the reactor: it is spoken to by HTTP."""

    timeout = 240

    async def pair(self, etcd: Etcd) -> tuple[Node, Node]:
        """Nodes a and b."""
        return await Node(self, "a", etcd.url).start(), await Node(self, "b", etcd.url).start()

    @waited_for
    async def test_once(self) -> None:
        """
        One of two gets an act, with its number; the other is told who, and when it is done, how.
        """
        a, b = await self.pair(Etcd(self).start())
        both = [Deferred.fromCoroutine(_wait(n.claims.begin("run/1", {"x": 1}))) for n in (a, b)]
        answers = [answer for _, answer in await DeferredList(both)]

        (claim,) = (each for each in answers if isinstance(each, Claim))
        (taken,) = (each for each in answers if isinstance(each, Taken))
        self.assertEqual(taken.holder, claim.holder)
        winner, loser = (a, b) if claim.holder == "a" else (b, a)
        self.assertTrue(winner.claims.holds(claim))
        await winner.claims.end(claim, "done")
        again = await loser.claims.begin("run/1", {"x": 1})
        self.assertEqual((again.ended, again.result), (True, "done"))
        own = await winner.claims.begin("run/1", {"x": 1})
        self.assertIsInstance(own, Taken)
        later = await loser.claims.begin("run/2", {}, "two", "tag/x")
        self.assertGreater(later.term, claim.term)
        receipts = await a.claims.receipts()
        self.assertEqual([(r.key, r.result) for r in receipts], [("run/1", "done"), ("run/2", "")])
        (one,) = await b.claims.receipts("tag/*")
        self.assertEqual((one.node, one.what), (loser.court.holder[0], "two"))

    @waited_for
    async def test_copies(self) -> None:
        """Copies of an event are claimed once, two events of a node twice, and large plans fit."""
        a, b = await self.pair(Etcd(self).start())
        plan = {"x": "y" * 1_000_000}
        first = await a.claims.begin_event("m", "t", {"d": 1, "_stamp": "1"}, plan)
        copy = await b.claims.begin_event("m", "t", {"d": 1, "_stamp": "2"}, plan)
        second = await a.claims.begin_event("m", "t", {"d": 1, "_stamp": "3"}, {})
        again = await b.claims.begin_event("m", "t", {"d": 1, "_stamp": "4"}, {})

        kinds = [type(each) for each in (first, copy, second, again)]
        self.assertEqual(kinds, [Claim, Taken, Claim, Taken])

    @waited_for
    async def test_takeover(self) -> None:
        """
        A duty is one node's, and the other's when that has died, under a higher number; what it had
        begun is given to the other as well, with its plan.
        """
        a, b = await self.pair(Etcd(self).start())
        a.wants("d")
        await until("a to have it", lambda: a.duties)
        b.wants("d")
        await until("b to see that", lambda: b.claims.holders().get("d"))
        self.assertEqual(b.claims.holders()["d"], ("a", a.duties["d"].term))
        begun = await a.claims.begin("run/1", {"x": 1})
        held = a.duties["d"]
        await a.die()

        await until("b to have both", lambda: b.duties and b.recovered)
        self.assertGreater(b.duties["d"].term, held.term)
        (key, plan, claim), *_ = b.recovered
        self.assertEqual((key, plan), ("run/1", {"x": 1}))
        self.assertGreater(claim.term, begun.term)
        self.assertFalse(claim.is_doubtful)
        # A recover that calls no end has lost it
        await until("the end", lambda: not b.claims.acts.held())

    @waited_for
    async def test_renewed_and_released(self) -> None:
        """A duty is renewed under its number beyond its term, and free at once when released."""
        a, b = await self.pair(Etcd(self).start())
        a.wants("d")
        claim = await until("a to have it", lambda: a.duties.get("d"))
        b.wants("d")
        end = claim.until + 1.0
        await until("its term to have passed", lambda: reactor.seconds() > end)  # type: ignore[attr-defined]

        self.assertEqual((a.duties["d"], b.duties), (claim, {}))
        self.assertTrue(a.claims.holds(claim))
        await a.claims.release("d")
        await until("b to have it", lambda: b.duties)

    @waited_for
    async def test_away_and_back(self) -> None:
        """
        While etcd stands still nothing is granted, what is held is ended before its lease can run
        out, and both is said with the option; when it goes on all is well.
        """
        etcd = Etcd(self).start()
        node = await Node(self, "a", etcd.url, window=1.0).start()
        node.wants("d")
        await until("the duty", lambda: node.duties)
        os.kill(etcd.daemon.pid, signal.SIGSTOP)

        await until("it to be said", node.claims.problem)
        self.assertIn("claims_etcd: http://127.0.0.1:", node.claims.problem())
        self.assertFalse(node.claims.would_claim())
        answer = await node.claims.begin("run/1", {})
        self.assertIsInstance(answer, NoMajority)
        self.assertIn("claims_etcd", answer.why)
        await until("the end of the duty", lambda: not node.duties)

        os.kill(etcd.daemon.pid, signal.SIGCONT)
        await until("all to be well", lambda: not node.claims.problem() and node.duties)
        self.assertIsInstance(await node.claims.begin("run/1", {}), Claim)

    @waited_for
    async def test_lease_revoked(self) -> None:
        """Somebody who revokes the lease takes what hangs on it; that is ended, and begun anew."""
        etcd = Etcd(self).start()
        node = await Node(self, "a", etcd.url).start()
        node.wants("d")
        claim = await until("the duty", lambda: node.duties.get("d"))
        lease = node.court._lease
        assert lease is not None
        await deferToThread(etcd.post, "lease/revoke", ID=lease.id)

        found = await until(
            "the duty again",
            lambda: (now := node.duties.get("d")) and now.term != claim.term and now,
        )
        self.assertGreater(found.term, claim.term)
        self.assertFalse(node.claims.holds(claim))

    @waited_for
    async def test_several_addresses(self) -> None:
        """The first address that answers is used, wherever it stands."""
        etcd = Etcd(self).start()
        node = await Node(self, "a", "http://127.0.0.1:1", etcd.url).start()

        self.assertIsInstance(await node.claims.begin("run/1", {}), Claim)
        self.assertEqual(node.claims.problem(), "")

    @waited_for
    async def test_lost_answer(self) -> None:
        """What was granted without an answer is given back, and can be had by somebody else."""
        a, b = await self.pair(Etcd(self).start())
        # So that its lease lasts
        a.wants("d")
        await until("a to have it", lambda: a.duties)
        real = a.gateway.ask

        async def lost(ask: Any) -> Any:
            answer = await real(ask)
            if ask.path == "kv/txn" and answer.get("succeeded") and not ask.is_urgent:
                raise transport.TransportClosed("lost")
            return answer

        a.gateway.ask = lost  # type: ignore[method-assign]
        refused = await a.court.ask(Wish(key="run/1", plan=b"\x80"))
        self.assertIsInstance(refused, Refused)
        a.gateway.ask = real  # type: ignore[method-assign]
        await until("it to be seen", lambda: a.court._seen.open)
        await until("it to be given back", lambda: not a.court._seen.open)
        granted = await b.court.ask(Wish(key="run/1", plan=b"\x80"))
        assert isinstance(granted, Granted)
        self.assertIsNone(granted.planned)

    @waited_for
    async def test_users(self) -> None:
        """A user's password opens an etcd that has users; a wrong one is said, and not shown."""
        etcd = Etcd(self).start()
        for path, body in (
            ("auth/user/add", {"name": "root", "password": "s3cret"}),
            ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/enable", {}),
        ):
            await deferToThread(etcd.post, path, **body)

        good = await Node(self, "a", etcd.url, user="root", password="s3cret").start()
        self.assertIsInstance(await good.claims.begin("run/1", {}), Claim)
        good.gateway._token = "outdated"
        self.assertIsInstance(await good.claims.begin("run/2", {}), Claim)
        bad = await Node(self, "b", etcd.url, user="root", password="wr0ng").start()
        self.assertIn("claims_etcd: http://", bad.claims.problem())
        self.assertIn("authentication failed", bad.claims.problem())
        self.assertNotIn("wr0ng", bad.claims.problem())
        none = await Node(self, "c", etcd.url).start()
        self.assertIn("claims_etcd: http://", none.claims.problem())


async def _wait(waiting: Any) -> Any:
    return await waiting


class Odd(Resource):
    """A server that answers anything with the same."""

    isLeaf = True

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self._answer = answer

    def render_POST(self, request: Any) -> Any:
        """By the test."""
        return self._answer(request)


class OddTests(TestCase):
    """
    Servers that only seem to be an etcd. Needs the reactor: what is tested is how HTTP fails.
    """

    timeout = 120

    def server(self, answer: Callable[[Any], Any]) -> str:
        """Its address."""
        port = reactor.listenTCP(0, Site(Odd(answer)), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        return f"http://127.0.0.1:{port.getHost().port}"

    async def problem(self, answer: Callable[[Any], Any]) -> str:
        """What a node says of such a server, which gets no claim by it."""
        node = await Node(self, "a", self.server(answer), window=0.1).start()
        refused = await node.claims.begin("run/1", {})
        self.assertIsInstance(refused, NoMajority)
        self.assertIn("claims_etcd: ", refused.why)
        self.assertFalse(node.claims.would_claim())
        problem = node.claims.problem()
        self.assertIn("claims_etcd: ", problem)
        await node.stop()
        return problem

    @waited_for
    async def test_nonsense(self) -> None:
        """No JSON, other JSON, refusals, other servers: each is said, and nothing is granted."""
        header = b'{"header": {"revision": "5", "raft_term": "1"}, '

        def not_found(request: Any) -> bytes:
            request.setResponseCode(404)
            return b"<html>not here</html>"

        def refuse(request: Any) -> bytes:
            request.setResponseCode(403)
            return b'{"error": "permission denied", "code": 7}'

        def broken(request: Any) -> bytes:
            request.setResponseCode(503)
            return b'{"error": {"message": "no leader"}, "code": 14}'

        for answer, words in (
            (lambda _: b"hello", "no JSON but b'hello'"),
            (lambda _: b"", "no JSON"),
            (lambda _: b"[]", "no JSON object"),
            (lambda _: b"[" * 100_000, "no JSON"),
            (lambda _: b"[" + b"{}," * 70_000 + b"1]", "no JSON of at most 70000 parts"),
            (lambda _: b"{}", "makes no sense"),
            (lambda _: header + b'"succeeded": true}', "lease of 0 seconds|another request"),
            (lambda _: header + b'"ID": "5", "TTL": "600", "succeeded": true}', "another request"),
            (
                lambda _: header + b'"responses": [{"response_range": {"kvs": 5}}]}',
                "no sense|lease of 0",
            ),
            (not_found, "is it an etcd"),
            (refuse, "permission denied"),
            (broken, "no leader"),
        ):
            self.assertRegex(await self.problem(answer), words)

    @waited_for
    async def test_values_of_others(self) -> None:
        """Values under our prefix that somebody else has written grant nothing, and are said."""
        row = {"key": b64encode(b"test/term/x").decode(), "value": b64encode(b"hello").decode()}
        rows = {"response_range": {"kvs": [row]}}
        body = {
            "succeeded": True,
            "header": {"revision": "5"},
            "ID": "5",
            "TTL": "6",
            "responses": [rows, rows],
        }
        url = self.server(lambda _: json.dumps(body).encode())
        node = await Node(self, "a", url, window=0.1).start()
        self.assertEqual(node.claims.problem(), "claims_etcd: a value that is not ours")
        self.assertIsInstance(await node.claims.begin("run/1", {}), NoMajority)

    @waited_for
    async def test_slow(self) -> None:
        """A server that never answers is not waited for, and its connections are closed."""
        asked: list[Any] = []

        def never(request: Any) -> int:
            done = request.notifyFinish()
            done.addBoth(lambda _: asked.append("hung up"))
            return NOT_DONE_YET

        self.assertIn("no answer within 1 s", await self.problem(never))
        await until("all to be hung up", lambda: asked)

    @waited_for
    async def test_large(self) -> None:
        """An answer without end is not read to its end."""
        self.patch(transport, "MOST_BYTES", 1 << 20)
        problem = await self.problem(lambda _: b"x" * (2 << 20))
        self.assertIn("more than 1 MiB", problem.replace("0 MiB", "1 MiB"))

    @waited_for
    async def test_away(self) -> None:
        """Where nobody listens that is said as it is."""
        node = await Node(self, "a", "http://127.0.0.1:1", window=0.1).start()
        self.assertIn("claims_etcd: http://127.0.0.1:1: ", node.claims.problem())
        self.assertIn("refused", node.claims.problem())
        self.assertIsInstance(await node.claims.begin("run/1", {}), NoMajority)
