"""
Claims by an etcd of several members, some of which are killed, and by addresses that fall silent.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs
from twisted.trial.unittest import TestCase
from twisted.web.server import NOT_DONE_YET, Site

from saltwisted.cluster.claims.court import Refused, Wish
from saltwisted.domain.claims.etcd import Ask, settings_of
from saltwisted.domain.claims.words import Claim
from saltwisted.errors import TransportClosed
from saltwisted.transports import etcd as transport
from saltwisted.transports.etcd import Gateway
from tests.cluster.test_etcd import Node, Odd, until, waited_for
from tests.etcd import Etcd, etcd_of_three, needs_etcd

NAMES = ("d0", "d1", "d2", "d3")
QUICK = ("--heartbeat-interval", "50", "--election-timeout", "500")
"""A leader is chosen within a second or two, on a busy machine too."""


class Duties:
    """What two nodes hold, and whether ever both held the same."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = nodes
        self.held: dict[str, Claim] = {}
        self.twice: list[str] = []
        self.begun = 0

    def want(self) -> Duties:
        """Each node would do each of them."""
        for node in self.nodes:
            for name in NAMES:
                self._want(node, name)
        return self

    def _want(self, node: Node, name: str) -> None:
        def begin(claim: Claim) -> None:
            if name in self.held:
                self.twice.append(name)
            self.held[name] = claim
            self.begun += 1

        def end(why: str) -> None:
            self.held.pop(name, None)

        node.claims.duty(name, begin, end)

    @property
    def all_held(self) -> bool:
        """Whether somebody does each."""
        return len(self.held) == len(NAMES)

    async def last(self) -> None:
        """Wait until what is held now could not be held any more, had it not been renewed."""
        end = max(claim.until for claim in self.held.values())
        await until("the terms to pass", lambda: reactor.seconds() > end)  # type: ignore[attr-defined]


class Acts:
    """Two nodes that claim the same acts, one after the other."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes, self.done, self.wrong, self.on = nodes, 0, [], True  # type: ignore[var-annotated]

    def stop(self) -> None:
        """Claim no more of them."""
        self.on = False

    async def go_on(self) -> None:
        """Until it is told to stop."""
        while self.on:
            key = f"run/{self.done}"
            asked = [Deferred.fromCoroutine(_begun(node, key)) for node in self.nodes]
            answers = [answer for _, answer in await DeferredList(asked)]
            claims = [
                (node, each)
                for node, each in zip(self.nodes, answers, strict=True)
                if isinstance(each, Claim)
            ]
            if len(claims) != 1:
                self.wrong.append(answers)
            for node, claim in claims:
                await node.claims.end(claim, "done")
            self.done += 1


async def _begun(node: Node, key: str) -> Any:
    return await node.claims.begin(key, {})


def leader_of(members: list[Etcd]) -> Etcd:
    """Which of them leads. Blocks."""
    for each in members:
        status = each.post("maintenance/status")
        if status["leader"] == status["header"]["member_id"]:
            return each
    raise AssertionError("nobody leads")


@needs_etcd
class MembersTests(TestCase):
    """Two nodes, and an etcd of three. Needs the reactor: it is spoken to by HTTP."""

    timeout = 240

    @waited_for
    async def test_killed(self) -> None:
        """
        Whoever of three is killed, the leader or another, no duty changes hands and no act is given
        twice. When two are dead nobody does anything, and says why; when one is back all goes on
        under higher terms. At no time do two hold the same.
        """
        etcds = etcd_of_three(self, *QUICK)
        urls = [each.url for each in etcds]
        a, b = await Node(self, "a", *urls).start(), await Node(self, "b", *urls[::-1]).start()
        duties, acts = Duties(a, b).want(), Acts(a, b)
        self.addCleanup(acts.stop)
        running = Deferred.fromCoroutine(acts.go_on())
        await until("all to be held", lambda: duties.all_held)
        terms = dict(duties.held)

        leader = await deferToThread(leader_of, etcds)
        leader.daemon.kill()
        done = acts.done
        await duties.last()
        await until("acts to be done", lambda: acts.done > done + 1)
        self.assertEqual(duties.held, terms)
        await deferToThread(leader.start)
        follower = next(e for e in etcds if e is not leader)
        if await deferToThread(leader_of, etcds) is follower:
            follower = next(e for e in etcds if e not in (leader, follower))
        follower.daemon.kill()
        done = acts.done
        await duties.last()
        await until("acts to be done", lambda: acts.done > done + 1)
        self.assertEqual(duties.held, terms)
        acts.stop()
        await running
        self.assertEqual((acts.wrong, duties.twice), ([], []))

        leader.daemon.kill()
        await until("all to be ended", lambda: not duties.held)
        for node in (a, b):
            await until("it to be said", lambda node=node: "no majority" in node.claims.problem())
            self.assertFalse(node.claims.would_claim())
            refused = await node.court.ask(Wish(key="run/x", plan=b"\x80"))
            assert isinstance(refused, Refused)
            self.assertIn("claims_etcd: http://127.0.0.1:", refused.why)
        self.assertEqual(duties.begun, len(NAMES))
        await deferToThread(leader.start)
        await until("all to be held again", lambda: duties.all_held)
        for name, claim in duties.held.items():
            self.assertGreater(claim.term, terms[name].term)
        self.assertEqual(duties.twice, [])


class SilentTests(TestCase):
    """Servers that do not answer. Needs the reactor: what is tested is how HTTP fails."""

    timeout = 120

    def server(self, answer: Any) -> str:
        """Its address."""
        port = reactor.listenTCP(0, Site(Odd(answer)), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        return f"http://127.0.0.1:{port.getHost().port}"

    @waited_for
    async def test_next(self) -> None:
        """
        Addresses that never answer do not keep questions from one that does, however many they are:
        the next question begins where the last one came to. Each is said once, in the log.
        """
        self.patch(transport, "TRY_TIME", 0.2)
        self.patch(transport, "WHOLE_TIME", 0.3)
        silent = [self.server(lambda _: NOT_DONE_YET) for _ in range(4)]
        good = self.server(lambda _: b'{"is": "good"}')
        gateway = Gateway(reactor, settings_of([*silent, good], {"prefix": "p"}), None)
        self.addCleanup(lambda: Deferred.fromCoroutine(gateway.stop()))
        answers: list[Any] = []
        with capturedLogs() as events:
            for _ in range(5):
                try:
                    answers.append(await gateway.ask(Ask("x", {})))
                except TransportClosed as error:
                    answers.append(str(error))
        self.assertEqual(answers[-1], {"is": "good"}, answers)
        self.assertIn(f"claims_etcd: {silent[0]}: no answer", answers[0])
        self.assertIn(f"; {silent[1]}: no answer", answers[0])
        said = [event["url"] for event in events if "next address" in event["log_format"]]
        self.assertEqual(said, silent)
