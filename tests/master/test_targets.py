"""
Finding whom a target means, in turns of the reactor and in worker processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import Judging
from saltwisted.domain.targeting.selection import Universe
from saltwisted.errors import RemoteError
from saltwisted.master.targets import Targets
from saltwisted.transports import turns
from saltwisted.worker.process.targetwork import serve


class Here:
    """Workers that are none: calls run at once, or fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.payloads: list[Any] = []

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Call the entry."""
        self.payloads.append(payload)
        return fail(self.error) if self.error else succeed(serve(payload, None, {}))


GRAINS = {
    "a1": {"os": "aaa", "secret": 1},
    "a2": {"os": "aab", "secret": 2},
    "b1": {"other": 1},
}


def universe() -> Universe:
    """Three minions."""
    return Universe(
        accepted=list(GRAINS),
        fetch=lambda bank, name: GRAINS[name],
        cached=lambda bank: list(GRAINS),
    )


class TargetsTests(SynchronousTestCase):
    """Targets."""

    def setUp(self) -> None:
        # However slow the machine is just now: nobody turns these clocks
        self.patch(turns, "PORTION", 3600.0)

    def find(self, workers: Here | None, *args: Any, **kwargs: Any) -> Sequence[str]:
        """Whom a target means."""
        looked = Targets(Clock(), universe, workers).find(*args, **kwargs)
        found: Sequence[str] = self.successResultOf(Deferred.fromCoroutine(looked)).minions
        return found

    def test_risky_in_a_worker(self) -> None:
        """A risky expression is tried in a worker, which gets only the data that it asks for."""
        workers = Here()

        self.assertEqual(self.find(workers, "os:(a+)+$", "grain_pcre"), ["a1"])
        self.assertEqual(self.find(workers, "E@(a|bb|b)*1 or b2", "compound"), ["a1", "b1"])
        self.assertEqual(
            [payload["data"] for payload in workers.payloads],
            [[{"os": "aaa"}, {"os": "aab"}, {}], []],
        )

    def test_given_up(self) -> None:
        """A worker that takes too long means nobody."""
        workers = Here(RemoteError("Timeout", "5 s"))

        self.assertEqual(self.find(workers, "(a+)+$", "pcre"), [])
        self.assertEqual(self.find(None, "(a+)+$", "pcre"), [])

    def test_cheap_ones_stay(self) -> None:
        """Everything else needs no worker."""
        workers = Here()

        self.assertEqual(self.find(workers, "a.*", "pcre"), ["a1", "a2"])
        self.assertEqual(self.find(workers, "os:aa?", "grain"), ["a1", "a2"])
        self.assertEqual(self.find(workers, "*", "glob", only="a2"), ["a2"])
        self.assertEqual(workers.payloads, [])

    def test_turns(self) -> None:
        """A long search gives the reactor back in between, and still finds all."""
        self.patch(turns, "PORTION", 0.0)
        clock = Clock()
        later_calls: list[float] = []
        later = clock.callLater

        def call_later(delay: float, function: Any, *args: Any) -> Any:
            later_calls.append(delay)
            return later(delay, function, *args)

        self.patch(clock, "callLater", call_later)
        ids = [f"m{number}" for number in range(1000)]
        many = Universe(accepted=ids, fetch=lambda bank, name: {"n": name}, cached=lambda bank: ids)
        found = Deferred.fromCoroutine(Targets(clock, lambda: many, None).find("n:m*", "grain"))

        self.assertNoResult(found)
        clock.advance(0)
        self.assertEqual(self.successResultOf(found).minions, ids)
        self.assertGreater(len(later_calls), 10)

    def judge(self, judging: Judging[bool], clock: Clock | None = None) -> Deferred[bool]:
        """Have a decision made."""
        return Deferred.fromCoroutine(Targets(clock or Clock(), universe, None).judged(judging))

    def test_judged(self) -> None:
        """A decision that asks about targets gets its answers, each looked up once."""
        looked: list[Any] = []

        def deciding() -> Judging[bool]:
            ids = yield "a*", "glob", ":"
            again = yield "a*", "glob", ":"
            names = yield ["b1"], "list", ":"
            looked.append((ids.minions, again is ids, names.minions))
            return True

        self.assertIs(self.successResultOf(self.judge(deciding())), True)
        self.assertEqual(looked, [(["a1", "a2"], True, ["b1"])])

    def test_judged_in_turns(self) -> None:
        """A long decision gives the reactor back in between."""
        self.patch(turns, "PORTION", -1.0)
        clock = Clock()
        paused: list[bool] = []

        def deciding() -> Judging[bool]:
            for _ in range(5):
                yield None
                paused.append(not clock.getDelayedCalls())
            return False

        judged = self.judge(deciding(), clock)

        self.assertNoResult(judged)
        self.assertEqual(paused, [])
        clock.advance(0)
        self.assertIs(self.successResultOf(judged), False)
        self.assertEqual(paused, [True] * 5)
