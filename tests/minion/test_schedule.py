"""
The scheduler as a service: what it starts, and what may be asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import schedulebook
from saltwisted.domain.schedule import ScheduleError
from saltwisted.minion.schedule import ScheduledJob, Scheduler
from saltwisted.transports import turns
from tests.master.test_automation_turns import Counting, one_turn


class SchedulerCase(SynchronousTestCase):
    """A scheduler on a clock, with its surroundings written down."""

    def setUp(self) -> None:
        """Nothing is running yet."""
        self.clock = Clock()
        self.clock.advance(1_773_230_400)  # a full minute
        self.jobs: list[ScheduledJob] = []
        self.saved: list[Mapping[str, Any]] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.busy: dict[str, int] = {}
        # However slow the machine is just now: nobody turns the clock for a loop that takes a pause
        self.patch(turns, "PORTION", 3600.0)

    def start(self, schedule: Mapping[str, Any], **settings: Any) -> Scheduler:
        """A running scheduler."""
        scheduler = Scheduler(
            self.clock,
            self.clock.seconds,
            settings.pop("run_job", self.jobs.append),
            lambda: f"jid{len(self.jobs)}",
            lambda first, last: first,
            schedule,
            running=lambda name: self.busy.get(name, 0),
            save=self.saved.append,
            fire_event=lambda tag, data: self.events.append((tag, data)),
            **settings,
        )
        scheduler.startService()
        self.addCleanup(self.finish, scheduler)
        return scheduler

    def finish(self, scheduler: Scheduler) -> None:
        """A stopped scheduler leaves no timer behind."""
        scheduler.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def started(self) -> list[str]:
        """The functions that were started so far; forgets them."""
        names = [job.publication["fun"] for job in self.jobs]
        self.jobs.clear()
        return names


class TurnTests(SchedulerCase):
    """Thousands of entries; a turn of the reactor is as short as it may be, and ends after one."""

    def setUp(self) -> None:
        """Short turns."""
        super().setUp()
        self.patch(turns, "PORTION", -1.0)

    def finish(self, scheduler: Scheduler) -> None:
        """It leaves nothing behind, wherever it is."""
        scheduler.stopService()
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reads_in_turns(self) -> None:
        """No turn of the reactor reads more entries, or begins more jobs, than one portion."""
        parse = Counting(schedulebook.parse_entry)
        self.patch(schedulebook, "parse_entry", parse)

        self.start({f"j{n}": {"function": "test.ping", "minutes": 5} for n in range(30)})
        read, begun = [parse.taken()], [len(self.started())]
        for _ in range(80):
            one_turn(self.clock)
            read.append(parse.taken())
            begun.append(len(self.started()))

        self.assertEqual((sum(read), max(read)), (30, 1))
        self.assertEqual((sum(begun), max(begun)), (30, 1))

    def test_change_while_reading(self) -> None:
        """What is changed while a schedule is read holds, and so do new facts."""
        scheduler = self.start({f"j{n}": {"function": "f.f", "minutes": 5} for n in range(20)})
        for _ in range(5):
            one_turn(self.clock)

        scheduler.call("delete", name="j3")
        one_turn(self.clock)
        scheduler.set_facts({"schedule": {"p": {"function": "p.p", "minutes": 5}}}, {})
        for _ in range(120):
            one_turn(self.clock)

        listed = scheduler.listed()
        self.assertEqual(set(listed), {f"j{n}" for n in range(20)} - {"j3"} | {"p"})
        self.assertEqual(sorted(self.started()), ["f.f"] * 19 + ["p.p"])

    def test_stopped_while_reading(self) -> None:
        """A minion that is stopped while it reads begins nothing afterwards."""
        scheduler = self.start({f"j{n}": {"function": "f.f", "minutes": 5} for n in range(20)})
        for _ in range(5):
            one_turn(self.clock)

        scheduler.stopService()
        for _ in range(60):
            one_turn(self.clock)

        self.assertEqual(self.started(), [])


class RunningTests(SchedulerCase):
    """What is started, and when."""

    def test_interval(self) -> None:
        """A job comes at start and at every interval, with no drift and no polling between."""
        self.start({"j": {"function": "test.ping", "minutes": 5}})
        self.assertEqual(self.started(), ["test.ping"])

        self.clock.pump([1.0] * 299)
        self.assertEqual(self.started(), [])
        self.clock.pump([1.0] * 301)

        self.assertEqual(self.started(), ["test.ping", "test.ping"])
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)

    def test_publication(self) -> None:
        """A job looks as if a master had published it, and says where its return goes."""
        self.start(
            {
                "j": {
                    "function": "cmd.run",
                    "seconds": 10,
                    "args": ["true"],
                    "kwargs": {"cwd": "/"},
                    "metadata": {"a": 1},
                    "returner": "redis",
                    "return_config": "alt",
                    "jid_include": False,
                }
            },
            returner=["redis", "smtp"],
            offset="+0100",
        )

        job = self.jobs[0]
        load = dict(job.publication)
        self.assertEqual(load.pop("metadata")["_TOS"], "+0100")
        self.assertEqual(
            load,
            {
                "fun": "cmd.run",
                "arg": ["true", {"__kwarg__": True, "cwd": "/"}],
                "jid": "jid0",
                "ret": "redis,smtp",
                "schedule": "j",
                "ret_config": "alt",
            },
        )
        self.assertFalse(job.listed)
        self.assertEqual(job.return_jid, "jid0")

    def test_return_jid(self) -> None:
        """Without returners the master makes the jid, stores nothing, or gets nothing."""
        for setting, expected in ((True, "req"), ("nocache", "nocache"), (False, "")):
            self.jobs.clear()
            scheduler = self.start({"j": {"fun": "f.f", "seconds": 9, "return_job": setting}})
            scheduler.stopService()
            self.assertEqual(self.jobs[0].return_jid, expected)

    def test_maxrunning(self) -> None:
        """While a job runs, its next turn is skipped and the reason is shown."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 10}})
        self.busy["j"] = 1
        self.started()

        self.clock.advance(10)

        self.assertEqual(self.started(), [])
        self.assertEqual(scheduler.listed()["j"]["_skip_reason"], "maxrunning")

    def test_job_that_fails_to_start(self) -> None:
        """An error in starting a job is logged, and the other jobs go on."""

        def refuse(job: ScheduledJob) -> None:
            self.jobs.append(job)
            if job.publication["fun"] == "bad.bad":
                raise RuntimeError("no")

        self.start(
            {
                "a": {"function": "bad.bad", "seconds": 10},
                "b": {"function": "good.good", "seconds": 10},
            },
            run_job=refuse,
        )
        self.clock.advance(10)

        self.assertEqual(self.started(), ["bad.bad", "good.good"] * 2)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    def test_broken_entry(self) -> None:
        """A broken entry is shown with its error and harms no other."""
        scheduler = self.start(
            {"odd": {"function": "f.f", "cron": "never"}, "j": {"function": "f.f", "seconds": 5}}
        )

        self.assertEqual(self.started(), ["f.f"])
        self.assertIn("five fields", scheduler.listed()["odd"]["_error"])

    def test_clock_set_back(self) -> None:
        """A look at the clock is never more than half a minute away."""
        self.start({"j": {"function": "f.f", "cron": "0 0 1 1 *"}})

        self.assertLessEqual(self.clock.getDelayedCalls()[0].getTime() - self.clock.seconds(), 30)

    def test_stopped(self) -> None:
        """A stopped scheduler starts nothing, and may be stopped twice."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 5}})
        self.started()

        scheduler.stopService()
        scheduler.stopService()
        self.clock.advance(60)

        self.assertEqual(self.started(), [])


class PillarTests(SchedulerCase):
    """Jobs that come with the pillar."""

    def test_pillar_jobs(self) -> None:
        """A new pillar brings, changes and removes jobs; unchanged ones keep their time."""
        scheduler = self.start({})
        keep = {"function": "keep.keep", "seconds": 100}
        scheduler.set_facts({"schedule": {"keep": keep, "old": {"fun": "o.o", "seconds": 9}}}, {})
        self.assertEqual(self.started(), ["keep.keep", "o.o"])

        self.clock.advance(50)
        self.started()
        scheduler.set_facts({"schedule": {"keep": keep, "new": {"fun": "n.n", "seconds": 9}}}, {})

        self.assertEqual(self.started(), ["n.n"])
        self.clock.advance(50)
        self.assertIn("keep.keep", self.started())
        self.assertNotIn("old", scheduler.listed())

    def test_configuration_wins(self) -> None:
        """A job of the same name in the configuration hides the pillar's."""
        scheduler = self.start({"j": {"function": "mine.mine", "seconds": 9}})
        scheduler.set_facts({"schedule": {"j": {"function": "p.p", "seconds": 9}}}, {})

        self.assertEqual(scheduler.listed()["j"]["function"], "mine.mine")
        self.assertEqual(scheduler.listed("pillar")["j"]["function"], "p.p")

    def test_named_times(self) -> None:
        """Names of times come from grains and pillar; the pillar wins."""
        scheduler = self.start({"j": {"function": "f.f", "when": ["tea", "lunch"]}})
        self.assertIn("_error", scheduler.listed()["j"])

        scheduler.set_facts({"whens": {"tea": "17:00"}}, {"whens": {"tea": "1:00", "lunch": "9am"}})

        self.assertNotIn("_error", scheduler.listed()["j"])

    def test_nonsense(self) -> None:
        """A pillar whose schedule is not a mapping changes nothing but the log."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 9}})
        scheduler.set_facts({"schedule": ["x"], "whens": 3}, {})

        self.assertEqual(list(scheduler.listed()), ["j"])

    def test_pillar_job_is_fixed(self) -> None:
        """A job of the pillar cannot be changed, deleted or disabled."""
        scheduler = self.start({})
        scheduler.set_facts({"schedule": {"p": {"function": "p.p", "seconds": 9}}}, {})

        scheduler.call("delete", name="p")
        scheduler.call("disable_job", name="p")
        scheduler.call("add", schedule={"p": {"function": "x.x", "seconds": 1}})
        scheduler.call("modify", name="p", schedule={"function": "x.x", "seconds": 1})
        scheduler.call("skip_job", name="p", time="2026-01-01T00:00:00")

        self.assertEqual(scheduler.listed()["p"]["function"], "p.p")
        self.assertNotIn("skip_explicit", scheduler.listed()["p"])


class CallTests(SchedulerCase):
    """What modules and the control socket may ask."""

    def test_add_delete(self) -> None:
        """An added job runs at once, is saved when asked, and announced; deleting undoes it."""
        scheduler = self.start({})

        answer = scheduler.call(
            "add", schedule={"j": {"function": "f.f", "seconds": 9, "_x": 1}}, persist=True
        )

        self.assertEqual(self.started(), ["f.f"])
        self.assertTrue(answer["complete"])
        self.assertEqual(answer["schedule"]["j"]["_seconds"], 9)
        self.assertEqual(self.saved, [{"j": {"enabled": True, "function": "f.f", "seconds": 9}}])
        self.assertEqual(self.events[0][0], "/salt/minion/minion_schedule_add_complete")
        self.assertEqual(scheduler.call("delete", name="j")["schedule"], {})
        self.assertEqual(len(self.saved), 1)
        self.clock.advance(60)
        self.assertEqual(self.started(), [])

    def test_add_refused(self) -> None:
        """More than one job, or something else than a job, is refused."""
        scheduler = self.start({})

        for wrong in ({}, {"a": {}, "b": {}}, ["a"], {"a": "b"}, None):
            self.assertRaises(ScheduleError, scheduler.call, "add", schedule=wrong)
        self.assertRaises(ScheduleError, scheduler.call, "explode")
        self.assertRaises(ScheduleError, scheduler.call, "delete")

    def test_modify(self) -> None:
        """A modified job starts again."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 100}})
        self.started()

        scheduler.call("modify", name="j", schedule={"function": "g.g", "seconds": 10})

        self.assertEqual(self.started(), ["g.g"])
        self.clock.advance(10)
        self.assertEqual(self.started(), ["g.g"])

    def test_disable_enable(self) -> None:
        """A job, or everything, is switched off and on again without losing its time."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 10}})
        self.started()

        scheduler.call("disable_job", name="j")
        self.clock.pump([5.0] * 3)
        self.assertEqual(self.started(), [])
        scheduler.call("enable_job", name="j")
        self.clock.advance(5)
        self.assertEqual(self.started(), ["f.f"])

        scheduler.call("disable")
        self.assertFalse(scheduler.call("is_enabled")["enabled"])
        self.clock.pump([5.0] * 4)
        self.assertEqual(self.started(), [])
        scheduler.call("enable")
        self.clock.advance(10)
        self.assertEqual(self.started(), ["f.f"])

    def test_run_job(self) -> None:
        """A job runs now when asked, unless it runs already or does not exist."""
        scheduler = self.start({"j": {"function": "f.f", "cron": "0 0 1 1 *"}})

        self.assertTrue(scheduler.call("run_job", name="j")["started"])
        self.busy["j"] = 1
        self.assertFalse(scheduler.call("run_job", name="j")["started"])

        self.assertEqual(self.started(), ["f.f"])
        self.assertRaises(ScheduleError, scheduler.call, "run_job", name="k")

    def test_postpone_and_skip(self) -> None:
        """A run moves to another time, and another is left out."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 3600, "run_on_start": False}})
        first = scheduler.call("show_next_fire_time", name="j")["next_fire_time"]
        later = f"{first[:-1]}9"
        scheduler.call("postpone_job", name="j", time=first, new_time=later)

        self.clock.pump([1.0] * 3605)
        self.assertEqual(self.started(), [])
        self.clock.pump([1.0] * 5)
        self.assertEqual(self.started(), ["f.f"])
        self.assertRaises(ScheduleError, scheduler.call, "skip_job", name="j", time="soon")

    def test_reload(self) -> None:
        """Reloading takes over what a file holds, over what is there."""
        scheduler = self.start({"a": {"function": "a.a", "seconds": 9}})
        self.started()

        scheduler.call("reload", schedule={"schedule": {"b": {"function": "b.b", "seconds": 9}}})

        self.assertEqual(sorted(self.started()), ["a.a", "b.b"])
        self.assertRaises(ScheduleError, scheduler.call, "reload", schedule=[1])

    def test_purge_keeps_hidden(self) -> None:
        """Purging removes jobs but not those that the minion itself put there."""
        scheduler = self.start(
            {"a": {"function": "a.a", "seconds": 9}, "__m": {"function": "m.m", "seconds": 9}}
        )

        self.assertEqual(list(scheduler.call("purge")["schedule"]), ["__m"])

    def test_save_and_status(self) -> None:
        """Saving writes without hidden keys; a job's status has them."""
        scheduler = self.start({"j": {"function": "f.f", "seconds": 9}, "splay": 0})

        scheduler.call("save")

        self.assertEqual(self.saved[0], {"j": {"function": "f.f", "seconds": 9}, "splay": 0})
        self.assertIn("_last_run", scheduler.call("job_status", name="j")["data"])
        self.assertEqual(scheduler.call("job_status", name="k")["data"], {})
