"""
Waiting for a job: when minions are asked again, and when waiting ends.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jobs import (
    Done,
    PublishFindJob,
    RunningJob,
    Yield,
    is_idle,
    remembered,
)

OK: dict[str, Any] = {"return": True, "retcode": 0}
RUNS: dict[str, Any] = {"return": {"jid": "1", "pid": 5}, "retcode": 0}
IDLE: dict[str, Any] = {"return": {}, "retcode": 0}


def job(*ids: str, timeout: float = 5.0, gather: float = 10.0) -> RunningJob:
    """A job that was published at 0."""
    machine = RunningJob("1", set(ids), timeout, gather)
    assert machine.begin(0.0) == []
    return machine


class RunningJobTests(SynchronousTestCase):
    """Stock's client, event by event."""

    def test_everybody_returns(self) -> None:
        """Returns are handed on as they come, and the last one ends the job."""
        machine = job("a", "b")

        self.assertEqual(machine.got("a", OK), [Yield("a", OK)])
        self.assertEqual(machine.got("b", OK), [Yield("b", OK), Done(())])
        self.assertIsNone(machine.next_tick())

    def test_nobody_expected(self) -> None:
        """A job that expects nobody is done at once."""
        self.assertEqual(RunningJob("1", set(), 5, 10).begin(0.0), [Done(())])

    def test_repeated_and_broken_returns(self) -> None:
        """A second return of one minion, or one without a value, changes nothing."""
        machine = job("a", "b")
        machine.got("a", OK)

        self.assertEqual(machine.got("a", OK), [])
        self.assertEqual(machine.got("b", {"retcode": 1}), [])
        self.assertFalse(machine.done)

    def test_unexpected_minion(self) -> None:
        """A return of somebody who was not expected is shown, and does not end the waiting."""
        machine = job("a")

        self.assertEqual(machine.got("x", OK), [Yield("x", OK)])
        self.assertFalse(machine.done)

    def test_grace(self) -> None:
        """
        Who does not run it any more is asked again and again while his return may be on its way to
        a master that is away, and given up after that.
        """
        for returns_at in (40.0, 1e9):
            machine = RunningJob("1", {"a"}, 5.0, 10.0, grace=75.0)
            machine.begin(0.0)
            asked, now, effects = 0, 0.0, []
            while not machine.done:
                due = machine.next_tick()
                assert due is not None and due > now
                now = due
                effects = machine.got("a", OK) if now >= returns_at else machine.tick(now)
                if effects == [PublishFindJob(("a",))]:
                    asked += 1
                    machine.asked(now)
                    machine.answered("a", IDLE, now + 1.0)
            if returns_at == 40.0:
                self.assertEqual(effects, [Yield("a", OK), Done(())])
            else:
                self.assertEqual((effects, asked), ([Done(("a",))], 5))
                self.assertTrue(75.0 <= now <= 90.0, now)

    def test_grace_begins_again(self) -> None:
        """Who still ran it when he was asked has as long from then on: he returns later."""
        machine = RunningJob("1", {"a"}, 5.0, 10.0, grace=75.0)
        machine.begin(0.0)
        machine.tick(500.0)
        machine.asked(500.0)
        machine.answered("a", RUNS, 501.0)

        self.assertEqual(machine.tick(511.0), [PublishFindJob(("a",))])
        machine.asked(511.0)
        machine.answered("a", IDLE, 512.0)
        self.assertEqual(machine.tick(521.0), [])
        self.assertFalse(machine.done)
        now = 521.0
        while not machine.done:
            now = machine.next_tick() or 0.0
            machine.tick(now)
        self.assertTrue(576.0 <= now <= 591.0, now)

    def test_idle(self) -> None:
        """Only an empty map says that a minion does not run a job; a failure says nothing."""
        for data in (IDLE, {"return": {"return": {}}}):
            self.assertTrue(is_idle(data), data)
        for data in (RUNS, {"return": {}, "retcode": 1}, {"return": "no such function"}, {}):
            self.assertFalse(is_idle(data), data)

    def test_remembered(self) -> None:
        """What a minion has kept is its return, if it is of that job, and no more."""
        kept = {"jid": "1", "fun": "test.ping", "return": False, "retcode": 3, "tok": "x"}
        self.assertEqual(
            remembered("1", "a", {"return": {**kept, "id": "b"}, "retcode": 0}),
            {
                "cmd": "_return",
                "id": "a",
                "jid": "1",
                "fun": "test.ping",
                "return": False,
                "retcode": 3,
            },
        )
        for told in ("Local jobs cache directory not found", None, {}, {**kept, "jid": "2"}):
            self.assertIsNone(remembered("1", "a", {"return": told, "retcode": 0}))
        self.assertIsNone(remembered("1", "a", {"return": kept, "retcode": 1}))

    def test_dead_minion(self) -> None:
        """Who is silent is asked after the timeout, and given up after C{gather_job_timeout}."""
        machine = job("a", "b")
        machine.got("a", OK)

        self.assertEqual(machine.next_tick(), 5.0)
        self.assertEqual(machine.tick(4.9), [])
        self.assertEqual(machine.tick(5.0), [PublishFindJob(("b",))])
        machine.asked(5.1)
        self.assertEqual(machine.next_tick(), 15.1)
        self.assertEqual(machine.tick(15.0), [])
        self.assertEqual(machine.tick(15.1), [Done(("b",))])

    def test_long_job(self) -> None:
        """As long as somebody runs the job, those who are missing are asked again and again."""
        machine = job("a", "b")
        machine.tick(5.0)
        machine.asked(5.0)
        self.assertEqual(machine.answered("a", RUNS, 6.0), [])

        self.assertEqual(machine.tick(15.0), [PublishFindJob(("a", "b"))])
        machine.asked(15.0)
        machine.answered("a", IDLE, 16.0)
        machine.answered("b", {"return": {"return": {}}}, 16.0)
        machine.answered("b", {"return": "a traceback"}, 16.0)
        self.assertEqual(machine.tick(25.0), [Done(("a", "b"))])

    def test_late_return(self) -> None:
        """A return that comes while its minion is asked still counts."""
        machine = job("a")
        machine.tick(5.0)
        machine.asked(5.0)

        self.assertEqual(machine.got("a", OK), [Yield("a", OK), Done(())])
        self.assertEqual(machine.tick(99.0), [])

    def test_runs_until_its_own_timeout(self) -> None:
        """A minion that said it runs the job gets its own timeout from then on."""
        machine = job("a", timeout=60.0, gather=10.0)
        machine.tick(60.0)
        machine.asked(60.0)
        machine.answered("a", RUNS, 65.0)
        machine.tick(70.0)
        machine.asked(70.0)

        self.assertEqual(machine.tick(80.0), [])
        self.assertEqual(machine.next_tick(), 125.0)
        self.assertEqual(machine.tick(125.0), [Done(("a",))])

    def test_found_elsewhere(self) -> None:
        """Somebody unexpected who runs the job is waited for as well."""
        machine = job("a")
        machine.tick(5.0)
        machine.answered("x", RUNS, 6.0)

        self.assertEqual(machine.got("a", OK), [Yield("a", OK)])
        self.assertEqual(machine.got("x", OK), [Yield("x", OK), Done(())])

    def test_cannot_tell(self) -> None:
        """A minion whose C{find_job} fails is not waited for, as in stock."""
        machine = job("a", "b")
        machine.got("a", OK)
        machine.tick(5.0)

        self.assertEqual(machine.answered("b", {"retcode": 1, "return": "no"}, 6.0), [Done(())])

    def test_only_accepted_are_asked(self) -> None:
        """Ids without an accepted key are not asked; with none left the wait goes on unasked."""
        machine = RunningJob("1", {"a", "ghost"}, 5.0, 10.0, accepted=frozenset(("a",)))
        machine.begin(0.0)

        self.assertEqual(machine.tick(5.0), [PublishFindJob(("a",))])
        machine.got("a", OK)
        self.assertEqual(machine.tick(15.0), [Done(("ghost",))])

    def test_cancel(self) -> None:
        """Cancelling says who is missing, once."""
        machine = job("a", "b")
        machine.got("b", OK)

        self.assertEqual(machine.cancel(), [Done(("a",))])
        self.assertEqual(machine.cancel(), [])
        self.assertEqual(machine.got("a", OK), [])

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["got", "runs", "idle", "fails", "tick"]),
                st.sampled_from(["a", "b", "c", "x"]),
                st.floats(0, 8),
            ),
            max_size=60,
        )
    )
    def test_always_ends_once(self, events: list[tuple[str, str, float]]) -> None:
        """
        Whatever comes in whatever order: one end, each return once, and nobody both
        returned and missing.
        """
        machine = RunningJob("1", {"a", "b", "c"}, 5.0, 10.0)
        effects = machine.begin(0.0)
        now = 0.0
        for kind, minion, wait in events:
            now += wait
            if kind == "got":
                effects += machine.got(minion, OK)
            elif kind == "tick":
                effects += machine.tick(now)
            else:
                data = {"runs": RUNS, "idle": IDLE, "fails": {"retcode": 2}}[kind]
                effects += machine.answered(minion, data, now)
        for _ in range(20):
            due = machine.next_tick()
            if due is None:
                break
            now = max(now, due)
            effects += machine.tick(now)

        ends = [effect for effect in effects if isinstance(effect, Done)]
        returned = [effect.minion_id for effect in effects if isinstance(effect, Yield)]
        self.assertEqual(len(ends), 1)
        self.assertEqual(len(returned), len(set(returned)))
        self.assertFalse(set(ends[0].missing) & set(returned))
