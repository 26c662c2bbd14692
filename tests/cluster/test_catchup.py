"""
When a node may serve: a joiner when it holds what a member holds, a member when it has heard.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.catchup import STEP, CatchUp
from tests.cluster.memory import MemoryPeers

WAIT = 10.0


class CatchUpTests(SynchronousTestCase):
    """Node b, which starts, and its members a and c."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.digests = {name: {"key": b"same", "token": b"same"} for name in "abc"}
        self.heard: set[str] = set()
        self.peers = {name: MemoryPeers(name, self.clock) for name in "abc"}
        self.parts = {name: self.part(name) for name in "ac"}

    def part(self, name: str, verified: bool = True, alone: bool = True) -> CatchUp:
        """One node's."""
        self.told = 0

        def tell() -> None:
            self.told += 1

        return CatchUp(
            clock=self.clock,
            peers=self.peers[name],
            others=lambda: [other for other in "abc" if other != name],
            caught_up_with=self.heard.__contains__,
            digests=lambda: self.digests[name],
            verified=verified,
            now_verified=tell,
            wait=WAIT,
            alone=alone,
        )

    def start(self, part: CatchUp) -> Deferred[Any]:
        """Begin."""
        self.addCleanup(part.stopService)
        return Deferred.fromCoroutine(part.startService())

    def pass_time(self, seconds: float) -> None:
        """In small steps."""
        self.clock.pump([STEP] * round(seconds / STEP))

    def test_joiner(self) -> None:
        """
        A joiner serves nothing, however long it takes, before it holds by digest what a member
        holds of everything; then it is told once, and the others are waited for as usual.
        """
        joiner = self.part("b", verified=False)
        done = self.start(joiner)
        self.pass_time(5 * WAIT)
        self.peers["b"].join(self.peers["a"])
        self.heard |= {"a", "c"}
        self.digests["b"] = {"key": b"same", "token": b"other"}
        self.pass_time(5 * WAIT)
        self.assertNoResult(done)
        self.assertFalse(joiner.done)
        self.assertEqual(self.told, 0)

        self.digests["b"] = dict(self.digests["a"])
        self.pass_time(1)

        self.successResultOf(done)
        self.assertTrue(joiner.done)
        self.assertEqual(self.told, 1)
        self.assertEqual(joiner.degraded, [])

    def test_nothing_is_no_equality(self) -> None:
        """Two nodes that hold nothing prove nothing to each other."""
        self.digests = {name: {} for name in "abc"}
        joiner = self.part("b", verified=False)
        done = self.start(joiner)
        self.peers["b"].join(self.peers["a"])
        self.heard |= {"a", "c"}

        self.pass_time(3 * WAIT)

        self.assertNoResult(done)
        joiner.stopService()
        self.pass_time(1)

    def test_degraded(self) -> None:
        """A member serves after some seconds without who does not answer, and names him until he
        is heard."""
        part = self.part("b")
        done = self.start(part)
        self.heard.add("a")
        self.pass_time(WAIT - 1)
        self.assertNoResult(done)

        self.pass_time(2)

        self.successResultOf(done)
        self.assertTrue(part.done)
        self.assertEqual(part.degraded, ["c"])
        self.heard.add("c")
        self.assertEqual(part.degraded, [])

    def test_not_alone(self) -> None:
        """
        With C{serve_alone: false} a member that has heard nobody waits for ever, and says so from
        the moment on at which another would serve alone.
        """
        part = self.part("b", alone=False)
        done = self.start(part)

        with capturedLogs() as logs:
            self.pass_time(WAIT + 1)
            early = [event["log_format"] for event in logs if "log_format" in event]
        self.pass_time(19 * WAIT)

        self.assertEqual([words[:15] for words in early], ["not serving yet"])
        self.assertNoResult(done)
        self.heard.add("c")
        self.pass_time(1)
        self.successResultOf(done)
        self.assertEqual(part.degraded, ["a"])
