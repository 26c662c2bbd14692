"""
Leaving: nothing that arose on a node is left behind when somebody could take it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.drain import GRACE, LOOK, QUIET, STEP, drained, returned
from saltwisted.errors import StoreError


class DrainTests(SynchronousTestCase):
    """Numbers of entries, and a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.stored, self.confirmed, self.linked = 5, 3, True
        self.owed: dict[str, set[str]] = {}
        self.says: dict[str, set[str]] = {}
        self.asked: list[list[str]] = []

    def begin(self) -> Deferred[int]:
        """Leave."""
        return Deferred.fromCoroutine(
            drained(
                self.clock,
                lambda: self.stored,
                lambda: self.confirmed,
                lambda: self.linked,
                10.0,
            )
        )

    def pass_time(self, seconds: float) -> None:
        """In small steps."""
        self.clock.pump([STEP] * round(seconds / STEP))

    def test_waits(self) -> None:
        """Until another node has all, also what came in meanwhile."""
        done = self.begin()
        self.pass_time(1)
        self.assertNoResult(done)
        self.stored, self.confirmed = 6, 5
        self.pass_time(1)
        self.assertNoResult(done)
        self.confirmed = 6
        self.pass_time(STEP)
        self.assertEqual(self.successResultOf(done), 0)

    def test_under_way(self) -> None:
        """A return that is being written may still come, although all is confirmed."""
        self.confirmed = 5
        done = self.begin()
        self.pass_time(QUIET - 2 * STEP)
        self.assertNoResult(done)
        self.pass_time(3 * STEP)
        self.assertEqual(self.successResultOf(done), 0)

    def test_nobody_takes_it(self) -> None:
        """Without links at once, with deaf ones after some seconds: how much was not taken."""
        self.linked = False
        self.assertEqual(self.successResultOf(self.begin()), 2)
        self.linked = True
        done = self.begin()
        self.pass_time(9.8)
        self.assertNoResult(done)
        self.pass_time(0.3)
        self.assertEqual(self.successResultOf(done), 2)

    def leave(self) -> Deferred[list[str]]:
        """Wait for the minions that owe something, for ten seconds."""

        async def running(
            minions: Collection[str], answered: Callable[[str, Collection[str]], None]
        ) -> None:
            self.asked.append(list(minions))
            for minion_id, jids in self.says.items():
                answered(minion_id, jids)
            await Deferred()

        return Deferred.fromCoroutine(
            returned(self.clock, lambda: succeed(dict(self.owed)), 10.0, running)
        )

    def test_returns(self) -> None:
        """Minions that run a job have some time to bring what came of it; who has not is named."""
        self.owed = {"b": {"1"}, "a": {"1"}}
        self.says = {"a": {"1"}, "b": {"1", "2"}}
        done = self.leave()
        self.clock.pump([LOOK] * 4)
        self.assertNoResult(done)
        self.owed.clear()
        self.clock.pump([LOOK])
        self.assertEqual(self.successResultOf(done), [])

        self.owed = {"b": {"1"}, "a": {"1"}, "silent": {"1"}}
        done = self.leave()
        self.clock.pump([LOOK] * 19)
        self.assertNoResult(done)
        self.clock.pump([LOOK] * 2)
        self.assertEqual(self.successResultOf(done), ["a", "b", "silent"])
        self.assertEqual(self.asked, [["a", "b"], ["a", "b", "silent"]])

    def test_nobody_runs_it(self) -> None:
        """
        A job that its minion does not run was lost: nobody waits for it, beyond the moment in
        which a return may be on its way. What the minion runs beside it is waited for.
        """
        self.owed = {"a": {"1", "2"}, "b": {"1"}}
        self.says = {"a": {"2"}, "b": set()}
        done = self.leave()
        self.clock.pump([LOOK] * int(GRACE / LOOK - 1))
        self.owed = {"a": {"1"}, "b": {"1"}}
        self.assertNoResult(done)
        self.clock.pump([LOOK])
        self.assertEqual(self.successResultOf(done), [])

        self.owed = {"a": {"1", "2"}}
        done = self.leave()
        self.clock.pump([LOOK] * 19)
        self.assertNoResult(done)
        self.clock.pump([LOOK])
        self.assertEqual(self.successResultOf(done), ["a"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nobody_owes(self) -> None:
        """Where all have returned nobody is asked."""
        self.assertEqual(self.successResultOf(self.leave()), [])
        self.assertEqual(self.asked, [])

    def test_cannot_be_asked(self) -> None:
        """A question that cannot be put is an answer of nobody."""
        self.owed = {"a": {"1"}}

        async def refused(*args: Any) -> None:
            raise StoreError("the disk is full", "/")

        done = Deferred.fromCoroutine(
            returned(self.clock, lambda: succeed(self.owed), 10.0, refused)
        )
        self.clock.pump([LOOK] * 19)
        self.assertNoResult(done)
        self.clock.pump([LOOK])
        self.assertEqual(self.successResultOf(done), ["a"])
