"""
The master's schedule on a fake clock: what runs, what is kept, what is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.words import Claim, Taken
from saltwisted.domain.operations.table import Caller
from saltwisted.domain.schedule import ScheduleError
from saltwisted.domain.who import local
from saltwisted.errors import RemoteError, StoreError
from saltwisted.master.function_table import FunctionTable
from saltwisted.master.loneclaims import LoneClaims
from saltwisted.master.seams import Seams
from saltwisted.testing.functions import FakeFunctions
from saltwisted.transports import turns
from tests.master.rig import Rig

START = 1_800_000_000


class ScheduleRig(Rig):
    """A master whose schedule knows what an earlier life knew."""

    known: Any = None
    claims: Any = None

    def beside(self, alone: Seams) -> Seams:
        """The same facts as before, if there are any, and other claims."""
        if self.known is not None:
            alone = evolve(alone, schedule=self.known)
        return evolve(alone, claims=self.claims) if self.claims is not None else alone


class ScheduleCase(SynchronousTestCase):
    """A master with a schedule."""

    def start(self, schedule: Mapping[str, Any], known: Any = None, **options: Any) -> Rig:
        """A master that has begun."""
        kind = type("Knowing", (ScheduleRig,), {"known": known})
        rig: Rig = kind(self, schedule=dict(schedule), **options)
        rig.schedule.startService()
        self.addCleanup(self.stop, rig)
        return rig

    def stop(self, rig: Rig) -> None:
        """It leaves nothing behind."""
        self.successResultOf(rig.schedule.stopService())
        self.assertEqual(rig.clock.getDelayedCalls(), [])

    def ask(self, rig: Rig, func: str, **data: Any) -> Any:
        """A request that succeeds."""
        return self.successResultOf(Deferred.fromCoroutine(rig.asks.call(func, "fred", **data)))

    def refused(self, rig: Rig, func: str, **data: Any) -> str:
        """A request that is refused; what is said."""
        call = Deferred.fromCoroutine(rig.asks.call(func, "fred", **data))
        return str(self.failureResultOf(call, ScheduleError).value)

    def ran(self, rig: Rig) -> list[str]:
        """The names of the entries that ran, from their events; forgets them."""
        names = [data["schedule"] for tag, data in rig.events if tag == "__schedule_return"]
        rig.events.clear()
        return names


class RunTests(ScheduleCase):
    """What runs, and how it shows."""

    def test_events(self) -> None:
        """A run has the events of a runner, and stock's event of the schedule at its end."""
        rig = self.start(
            {"j": {"function": "test.arg", "seconds": 5, "args": [1], "kwargs": {"k": "v"}}}
        )

        tags = [tag.rpartition("/")[2] for tag in rig.tags()]
        self.assertEqual(tags, ["new", "ret", "__schedule_return"])
        new, ret, over = (data for _, data in rig.events)
        self.assertEqual(new["fun"], "runner.test.arg")
        self.assertEqual(new["schedule"], "j")
        self.assertEqual(new["jid"], ret["jid"])
        self.assertEqual(ret["return"], {"args": [1], "kwargs": {"k": "v"}})
        del over["pid"], over["_stamp"]
        self.assertEqual(
            over,
            {
                "cmd": "_return",
                "id": "rig_master",
                "fun": "test.arg",
                "fun_args": [1, {"k": "v"}],
                "schedule": "j",
                "jid": "req",
                "return": {"args": [1], "kwargs": {"k": "v"}},
                "retcode": 0,
                "success": True,
            },
        )

    def test_interval(self) -> None:
        """An interval runs at the start, and then at its times."""
        rig = self.start({"j": {"function": "test.arg", "seconds": 10}})
        self.assertEqual(self.ran(rig), ["j"])

        rig.clock.pump([1] * 9)
        self.assertEqual(self.ran(rig), [])
        rig.clock.pump([1] * 21)

        self.assertEqual(self.ran(rig), ["j"] * 3)

    def test_wheel(self) -> None:
        """An entry with C{client: wheel} calls a wheel function."""
        rig = self.start({"j": {"function": "key.list_all", "seconds": 9, "client": "wheel"}})

        self.assertEqual(rig.events[0][1]["fun"], "wheel.key.list_all")
        self.assertIn("minions_pre", rig.events[-1][1]["return"])

    def test_return_job(self) -> None:
        """With C{return_job: false} there is no event of the schedule, and nothing is kept."""
        for value, tags, kept in ((False, 0, 0), ("nocache", 1, 0), (True, 1, 1)):
            rig = self.start({"j": {"function": "test.arg", "seconds": 9, "return_job": value}})
            self.assertEqual(rig.tags().count("__schedule_return"), tags)
            self.assertEqual(len(rig.jobs.loads), kept)

    def test_failure(self) -> None:
        """A run that fails has stock's return code, and the cause."""
        rig = self.start({"j": {"function": "event.send", "seconds": 9, "args": ["tag", 5]}})

        over = rig.events[-1][1]
        self.assertEqual((over["success"], over["retcode"]), (False, 254))
        self.assertIn("TypeError", over["return"])
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_options(self) -> None:
        """What is due while C{enabled} is false, and outside of C{range}, does not run."""
        rig = self.start(
            {
                "off": {"function": "test.arg", "seconds": 1, "enabled": False},
                "dry": {"function": "test.arg", "seconds": 1, "dry_run": True},
                "quiet": {"function": "test.arg", "seconds": 5, "run_on_start": False},
            }
        )
        self.assertEqual(self.ran(rig), [])
        rig.clock.pump([1] * 5)
        self.assertEqual(self.ran(rig), ["quiet"])

    def test_disabled_whole(self) -> None:
        """C{enabled: false} beside the entries is for all of them."""
        rig = self.start({"enabled": False, "j": {"function": "test.arg", "seconds": 1}})
        rig.clock.pump([1] * 5)
        self.assertEqual(self.ran(rig), [])


class KeptTests(ScheduleCase):
    """What outlives the daemon."""

    def again(self, rig: Rig, schedule: Mapping[str, Any], seconds: float) -> Rig:
        """The master is stopped, and started again so many seconds later."""
        self.successResultOf(rig.schedule.stopService())
        kind = type("Knowing", (ScheduleRig,), {"known": rig.ctx.seams.schedule})
        rig.clock.advance(seconds)
        new: Rig = kind(self, schedule=dict(schedule), clock=rig.clock)
        new.schedule.startService()
        self.addCleanup(self.stop, new)
        return new

    def test_interval_goes_on(self) -> None:
        """An interval does not begin again with the master (pains 1.16)."""
        schedule = {"j": {"function": "test.arg", "minutes": 10}}
        rig = self.start(schedule)
        self.ran(rig)

        rig = self.again(rig, schedule, 300)
        self.assertEqual(self.ran(rig), [])
        rig.clock.pump([10] * 29)
        self.assertEqual(self.ran(rig), [])
        rig.clock.pump([10] * 2)

        self.assertEqual(self.ran(rig), ["j"])

    def test_interval_overdue(self) -> None:
        """An interval that came due meanwhile runs once, however often it would have."""
        schedule = {"j": {"function": "test.arg", "minutes": 10, "run_on_start": False}}
        rig = self.start(schedule)
        rig.clock.pump([10] * 61)
        self.assertEqual(self.ran(rig), ["j"])

        rig = self.again(rig, schedule, 7200)

        self.assertEqual(self.ran(rig), ["j"])

    def test_short_interval(self) -> None:
        """
        What runs every few seconds is not noted each time, but before the master stops.
        """
        schedule = {"j": {"function": "test.arg", "seconds": 5}}
        rig = self.start(schedule)
        rig.clock.pump([1] * 6)
        self.assertEqual(self.ran(rig), ["j", "j"])

        rig = self.again(rig, schedule, 1)

        self.assertEqual(self.ran(rig), [])
        rig.clock.pump([1] * 4)
        self.assertEqual(self.ran(rig), ["j"])

    def test_run_on_start(self) -> None:
        """Who asks for a run at the start gets one at each start."""
        schedule = {"j": {"function": "test.arg", "minutes": 10, "run_on_start": True}}
        rig = self.start(schedule)
        self.ran(rig)

        self.assertEqual(self.ran(self.again(rig, schedule, 1)), ["j"])

    def cron(self, away: float, **more: Any) -> list[str]:
        """What runs at once after a daily job's time has passed while the master was away."""
        schedule = {"j": {"function": "test.arg", "cron": "*/30 * * * *", **more}}
        rig = self.start(schedule)
        self.ran(rig)
        rig.clock.pump([10] * 181)
        self.assertEqual(self.ran(rig), ["j"])
        # START is a full half hour: the next one is due in 1790 seconds
        return self.ran(self.again(rig, schedule, away))

    def test_late(self) -> None:
        """A run at a time of day that is as late as C{loop_interval} allows is made."""
        self.assertEqual(START % 1800, 0)
        self.assertEqual(self.cron(1790 + 50), ["j"])

    def test_missed(self) -> None:
        """One that is later was missed, and is not made up for; so it is in stock."""
        self.assertEqual(self.cron(1790 + 70), [])

    def test_run_missed(self) -> None:
        """With C{run_missed} it is made up for, once."""
        self.assertEqual(self.cron(1790 + 7000, run_missed=True), ["j"])

    def test_once_missed(self) -> None:
        """A single date that passed while the master was away runs late if it says so."""
        schedule = {
            "j": {"function": "test.arg", "once": "2027-01-15T10:00:00", "run_missed": True},
            "k": {"function": "test.arg", "once": "2027-01-15T10:00:00"},
        }
        rig = self.start(schedule)

        rig = self.again(rig, schedule, 10 * 86400)
        self.assertEqual(self.ran(rig), ["j"])
        rig = self.again(rig, schedule, 10 * 86400)
        self.assertEqual(self.ran(rig), [])

    def test_changes(self) -> None:
        """What was added, changed and deleted at runtime is so after a restart."""
        schedule = {
            "a": {"function": "test.arg", "minutes": 10},
            "b": {"function": "test.arg", "minutes": 10},
        }
        rig = self.start(schedule)
        self.ask(rig, "add", schedule={"c": {"function": "test.arg", "minutes": 5}})
        self.ask(rig, "modify", name="a", schedule={"function": "test.arg", "minutes": 7})
        self.ask(rig, "delete", name="b")

        found = self.again(rig, schedule, 1).asks.listed()

        self.assertEqual(sorted(found), ["a", "c"])
        self.assertEqual((found["a"]["minutes"], found["c"]["minutes"]), (7, 5))
        self.assertEqual(found["c"]["_changed"]["by"], "fred")

    def test_reset(self) -> None:
        """What was changed of an entry can be forgotten: the configuration holds again."""
        schedule = {"a": {"function": "test.arg", "minutes": 10}}
        rig = self.start(schedule)
        self.ask(rig, "delete", name="a")
        self.assertEqual(rig.asks.listed(), {})

        self.ask(rig, "reset", name="a")

        self.assertEqual(rig.asks.listed()["a"]["minutes"], 10)


class AskTests(ScheduleCase):
    """What people ask."""

    def test_pause(self) -> None:
        """A paused entry waits, and what came due meanwhile runs once when it goes on."""
        rig = self.start({"j": {"function": "test.arg", "seconds": 10}})
        self.ran(rig)
        self.ask(rig, "pause", name="j")
        rig.clock.pump([1] * 60)
        self.assertEqual(self.ran(rig), [])
        self.assertEqual(rig.asks.listed()["j"]["_paused"]["by"], "fred")

        self.ask(rig, "resume", name="j")

        self.assertEqual(self.ran(rig), ["j"])

    def test_pause_all(self) -> None:
        """The whole schedule is paused, and the status says by whom."""
        rig = self.start({"j": {"function": "test.arg", "seconds": 10}})
        self.ran(rig)

        self.ask(rig, "pause")
        rig.clock.pump([1] * 60)

        self.assertEqual(self.ran(rig), [])
        self.assertEqual(rig.asks.status()["paused"]["by"], "fred")

    def test_run_now(self) -> None:
        """A job is run at once, beside its times."""
        rig = self.start({"j": {"function": "test.arg", "cron": "0 0 1 1 *"}})

        done = self.ask(rig, "run_job", name="j")

        self.assertEqual(done["started"], True)
        self.assertIn(f"salt/run/{done['jid']}/ret", rig.tags())

    def test_disable(self) -> None:
        """A disabled job does not run, and is enabled again."""
        rig = self.start({"j": {"function": "test.arg", "seconds": 10}})
        self.ran(rig)
        self.ask(rig, "disable_job", name="j")
        rig.clock.pump([1] * 30)
        self.assertEqual(self.ran(rig), [])

        self.ask(rig, "enable_job", name="j")
        rig.clock.pump([1] * 11)

        self.assertEqual(self.ran(rig), ["j"])

    def test_refused(self) -> None:
        """What makes no sense is refused with option and entry, and nothing changes."""
        rig = self.start({"j": {"function": "test.arg", "seconds": 10}})
        cases = [
            ("add", {"schedule": {"k": {"function": "no.such", "seconds": 1}}}, "function", "k"),
            ("add", {"schedule": {"k": {"function": "test.arg", "seconds": "x"}}}, "seconds", "k"),
            ("add", {"schedule": {"k": {"function": "test.arg"}}}, "no time", "k"),
            ("modify", {"name": "j", "schedule": {"fun": "test.arg", "cron": "x"}}, "cron", "j"),
            ("modify", {"name": "nobody", "schedule": {}}, "does not exist", "nobody"),
            ("delete", {"name": "nobody"}, "does not exist", "nobody"),
            ("run_job", {"name": "nobody"}, "does not exist", "nobody"),
            ("pause", {"name": "nobody"}, "does not exist", "nobody"),
            ("destroy", {}, "unavailable", "destroy"),
        ]
        before = rig.asks.listed()
        for func, data, option, name in cases:
            said = self.refused(rig, func, **data)
            self.assertIn(option, said)
            self.assertIn(name, said)

        self.assertEqual(rig.asks.listed(), before)

    def test_asked_at_the_start(self) -> None:
        """Who asks while the entries are still being read is answered when they have been."""
        entries = {name: {"function": "test.arg", "minutes": 5} for name in "abc"}
        rig = ScheduleRig(self, schedule=entries)
        self.patch(turns, "PORTION", -1.0)
        rig.schedule.startService()
        self.addCleanup(self.stop, rig)

        listing = Deferred.fromCoroutine(rig.asks.call("list", "fred"))
        self.assertNoResult(listing)
        rig.clock.pump([0] * 50)

        self.assertEqual(sorted(self.successResultOf(listing)["schedule"]), ["a", "b", "c"])

    def test_runner(self) -> None:
        """Runners do the same, in stock's words."""
        rig = self.start({})

        def run(fun: str, *args: Any, **kwargs: Any) -> Any:
            call = rig.ctx.runner(f"schedule.{fun}", list(args), kwargs, local("root"))
            return self.successResultOf(Deferred.fromCoroutine(call))["return"]

        added = run("add", "j", function="test.arg", seconds=10, job_args=[1])
        self.assertEqual(added["comment"], "Added job: j to schedule.")
        self.assertEqual(self.ran(rig), ["j"])
        self.assertIn("already exists", run("add", "j", function="test.arg", seconds=1)["comment"])
        self.assertIs(run("modify", "j", seconds=20)["result"], True)
        self.assertEqual(run("list")["j"]["seconds"], 20)
        self.assertEqual(run("list")["j"]["args"], [1])
        self.assertIs(run("run_job", "j")["result"], True)
        self.assertIs(run("disable")["result"], True)
        self.assertIs(run("is_enabled"), False)
        self.assertIs(run("delete", "j")["result"], True)
        self.assertIn("does not exist", run("delete", "j"))


class BadTests(ScheduleCase):
    """A schedule that means nothing."""

    def test_broken_is_disabled(self) -> None:
        """An entry that means nothing can be disabled and deleted all the same."""
        rig = self.start({"j": {"function": "no.such", "seconds": 60}})
        self.ask(rig, "disable_job", name="j")
        self.assertIs(rig.asks.listed()["j"]["enabled"], False)
        self.ask(rig, "delete", name="j")
        self.assertEqual(rig.asks.listed(), {})

    def test_function_comes_later(self) -> None:
        """An entry whose runner is not there yet runs when it is."""
        rig = self.start({"j": {"function": "late.comer", "seconds": 60}})
        self.assertIn("no runner function", rig.asks.status()["entries"]["j"]["error"])

        late = FunctionTable({"late": FakeFunctions({"comer": "here"})})
        self.patch(rig.ctx.calls, "runners", late)
        rig.clock.advance(30)

        self.assertEqual(self.ran(rig), ["j"])
        self.assertNotIn("error", rig.asks.status()["entries"]["j"])

    def test_function_of_the_site(self) -> None:
        """
        A runner of the site's that nobody has called yet is looked for before an entry is wrong:
        no line says that there is none, and it runs. One that is put there later runs as well,
        and the log says that the mistake is gone.
        """

        class Site(dict[str, Any]):
            """A place that learns what there is when it is asked to."""

            has: Mapping[str, Any] = {}

            async def learn(self) -> None:
                """Look."""
                self.update(self.has)

        site = Site()
        site.has = {"site": FakeFunctions({"pinged": "here"})}
        rig = ScheduleRig(
            self,
            schedule={
                "j": {"function": "site.pinged", "seconds": 60},
                "k": {"function": "more.late", "seconds": 60},
            },
        )
        said: list[str] = []
        self.patch(rig.schedule.book, "say", lambda level, text: said.append(text))
        self.patch(rig.ctx.calls, "runners", FunctionTable(site))
        rig.schedule.startService()
        self.addCleanup(self.stop, rig)

        self.assertEqual(self.ran(rig), ["j"])
        wrong = "function: there is no runner function more.late. Ignoring job k."
        self.assertEqual(said, [wrong])
        site.has = {**site.has, "more": FakeFunctions({"late": "here"})}
        rig.clock.advance(30)
        self.assertEqual(said, [wrong, f"no longer: {wrong}"])
        self.assertIn("k", self.ran(rig))

    def test_others_go_on(self) -> None:
        """Each wrong entry says which option is wrong, and the good one runs."""
        wrong: dict[str, tuple[Any, str]] = {
            "text": ("test.arg", "dict value"),
            "nothing": ({}, "names no function"),
            "number": ({"function": 5, "seconds": 1}, "names no function"),
            "notime": ({"function": "test.arg"}, "no time"),
            "unknown": ({"function": "no.such", "seconds": 1}, "function"),
            "many": ({"function": "test.ping", "seconds": 1, "args": [1, 2]}, "function"),
            "seconds": ({"function": "test.arg", "seconds": "soon"}, "seconds"),
            "nan": ({"function": "test.arg", "seconds": float("nan")}, "seconds"),
            "inf": ({"function": "test.arg", "hours": float("inf")}, "hours"),
            "huge": ({"function": "test.arg", "days": 10**12}, "days"),
            "negative": ({"function": "test.arg", "minutes": -1}, "minutes"),
            "two": ({"function": "test.arg", "cron": "* * * * *", "when": "5pm"}, "together"),
            "both": ({"function": "test.arg", "cron": "* * * * *", "seconds": 1}, "seconds"),
            "cron": ({"function": "test.arg", "cron": "61 * * * *"}, "cron"),
            "never": ({"function": "test.arg", "cron": "0 0 31 2 *"}, "cron"),
            "when": ({"function": "test.arg", "when": "teatime"}, "when"),
            "once": ({"function": "test.arg", "once": "tomorrow"}, "once"),
            "delay": ({"function": "test.arg", "seconds": 1, "splay": {"start": 5}}, "splay"),
            "range": ({"function": "test.arg", "seconds": 1, "range": "8-10"}, "range"),
            "turned": (
                {
                    "function": "test.arg",
                    "seconds": 1,
                    "range": {"start": "8pm", "end": "8am"},
                },
                "range",
            ),
            "args": ({"function": "test.arg", "seconds": 1, "args": "abc"}, "args"),
            "kwargs": ({"function": "test.arg", "seconds": 1, "kwargs": [1]}, "kwargs"),
            "max": ({"function": "test.arg", "seconds": 1, "maxrunning": "x"}, "maxrunning"),
            "client": ({"function": "test.arg", "seconds": 1, "client": "ssh"}, "client"),
            "tgt": ({"function": "test.ping", "seconds": 1, "client": "local"}, "tgt"),
            "runnertgt": ({"function": "test.arg", "seconds": 1, "tgt": "*"}, "tgt"),
            "flag": ({"function": "test.arg", "seconds": 1, "enabled": []}, "enabled"),
            "until": ({"function": "test.arg", "seconds": 1, "until": "x"}, "until"),
            "skip": ({"function": "test.arg", "seconds": 1, "skip_explicit": [5]}, "skip_explicit"),
        }
        schedule = {name: data for name, (data, _) in wrong.items()}
        rig = self.start({**schedule, "good": {"function": "test.arg", "seconds": 1}})

        found = rig.asks.status()["entries"]
        for name, (_, option) in wrong.items():
            if name == "text":
                continue
            self.assertIn(option, found[name].get("error", ""), name)
            self.assertIn(name, found[name]["error"])
        self.assertEqual(self.ran(rig), ["good"])
        self.assertEqual(rig.asks.listed()["text"], "test.arg")


class FullDisk:
    """Facts that a disk refuses, or not."""

    alone = True

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.full = False

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """All of it."""
        return self.kept

    def put(self, key: str, body: Mapping[str, Any] | None) -> Any:
        """Unless it is full."""
        if self.full:
            return fail(StoreError("no space left", "disk"))
        if body is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = body
        return succeed(None)

    def settled(self) -> Any:
        """There is nobody."""
        return succeed(())

    def listen(self, receiver: Any) -> None:
        """There is nobody."""


class DiskTests(ScheduleCase):
    """A disk that refuses."""

    def test_full(self) -> None:
        """
        A run that cannot be noted is not begun, a change is refused, and both is said; when
        there is room again all goes on.
        """
        facts = FullDisk()
        rig = self.start({"j": {"function": "test.arg", "minutes": 5}}, known=facts)
        self.assertEqual(self.ran(rig), ["j"])
        facts.full = True
        rig.clock.pump([30] * 11)
        self.assertEqual(self.ran(rig), [])
        call = Deferred.fromCoroutine(rig.asks.call("delete", "fred", name="j"))
        self.assertIn("no space", str(self.failureResultOf(call, StoreError).value))
        self.assertIn("j", rig.asks.listed())

        facts.full = False
        rig.clock.pump([30] * 11)

        self.assertEqual(self.ran(rig), ["j"])


class RightsTests(ScheduleCase):
    """Who may."""

    def test_T_ACL_1_schedule(self) -> None:
        """T-ACL-1: whoever is not the owner neither lists nor changes the schedule."""
        rig = self.start({"j": {"function": "test.arg", "args": ["secret"], "minutes": 5}})
        for caller in (Caller(name="fred"), Caller(), Caller(name="root", proof={"token": "x"})):
            for func in ("list", "add", "run_job", "pause"):
                args = {"func": func, "name": "j"}
                asked = Deferred.fromCoroutine(
                    rig.table().call("schedule", args, caller, lambda item: None)
                )
                error = self.failureResultOf(asked, RemoteError).value
                self.assertEqual(error.name, "AuthorizationError")
        self.assertEqual(rig.asks.status()["paused"], {})

    def test_hostile(self) -> None:
        """Names and entries beyond all measure are refused, and those that were harm nobody."""
        rig = self.start({})
        entry = {"function": "test.arg", "cron": "0 0 1 1 *"}
        for name, data in (
            ("x" * 1000, entry),
            ("a\nb", entry),
            ("big", {**entry, "args": ["y" * 100_000]}),
        ):
            self.refused(rig, "add", schedule={name: data})
        self.assertEqual(rig.asks.listed(), {})


class Facts:
    """
    What one node knows; L{ship} has others know it too.

    @ivar others: those that stand beside it.
    """

    alone = False

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.others: list[Facts] = []
        self.receivers: list[Any] = []

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """All of it."""
        return self.kept

    def put(self, key: str, body: Mapping[str, Any] | None) -> Any:
        """Known here, and not yet elsewhere."""
        if body is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = body
        return succeed(None)

    def settled(self) -> Any:
        """Everybody is told."""
        self.ship()
        return succeed(())

    def listen(self, receiver: Any) -> None:
        """Told by L{ship}."""
        self.receivers.append(receiver)

    def ship(self) -> None:
        """The others know what is known here."""
        for other in self.others:
            changed = [key for key in {*self.kept, *other.kept} if key not in other.kept
                       or other.kept[key] != self.kept.get(key)]  # fmt: skip
            other.kept = dict(self.kept)
            for receiver in other.receivers:
                receiver(changed)


class Claims(LoneClaims):
    """Several nodes share them: a key is given once, the duty is held by whom the test says."""

    given: dict[str, str]

    def duty(self, name: str, begin: Any, end: Any) -> None:
        """Wanted, and not held yet."""
        self._wanted[name] = (begin, end)

    def hold(self) -> None:
        """Now this node has it."""
        self._take("schedule")

    def lose(self) -> None:
        """It has it no more."""
        self._end_duty("schedule", self._wanted["schedule"], "another node has it")

    def begin(self, key: str, plan: Mapping[str, Any], what: str = "", event: str = "") -> Any:
        """Once for all nodes."""
        if key in self.given:
            return succeed(Taken(key=key, holder=self.given[key]))
        self.given[key] = self._node
        return super().begin(key, plan, what, event)


class TogetherTests(ScheduleCase):
    """Two masters that know of each other."""

    def two(self, schedule: Mapping[str, Any]) -> tuple[Rig, Rig]:
        """Both have begun; the first has the duty."""
        facts = [Facts(), Facts()]
        facts[0].others, facts[1].others = [facts[1]], [facts[0]]
        clock, given = Clock(), {}
        clock.advance(START + 10)
        rigs = []
        for number, known in enumerate(facts):
            claims = Claims(f"n{number}", clock.seconds, clock.seconds)
            claims.given = given
            kind = type("Node", (ScheduleRig,), {"known": known, "claims": claims})
            rig: Rig = kind(self, schedule=dict(schedule), clock=clock, id=f"n{number}")
            rig.schedule.startService()
            rigs.append(rig)
        rigs[0].ctx.seams.claims.hold()
        self.addCleanup(lambda: self.assertEqual(clock.getDelayedCalls(), []))
        for rig in rigs:
            self.addCleanup(rig.schedule.stopService)
        return rigs[0], rigs[1]

    def die(self, rig: Rig) -> None:
        """It is gone without a word: nothing that it knows and has not told comes out."""
        rig.ctx.seams.schedule.others = []
        self.successResultOf(rig.schedule.stopService())

    def test_one_runs(self) -> None:
        """Who has the duty runs; the other runs nothing, and shows the same."""
        a, b = self.two({"j": {"function": "test.arg", "minutes": 10}})
        a.ctx.seams.schedule.ship()

        self.assertEqual((self.ran(a), self.ran(b)), (["j"], []))
        a.clock.pump([10] * 61)
        a.ctx.seams.schedule.ship()

        self.assertEqual((self.ran(a), self.ran(b)), (["j"], []))
        self.assertEqual(b.asks.listed()["j"]["_ran"]["node"], "n0")
        self.assertEqual(
            b.asks.listed()["j"]["_next_fire_time"], a.asks.listed()["j"]["_next_fire_time"]
        )

    def test_each(self) -> None:
        """With C{once: false} each node runs for itself, with or without the duty."""
        a, b = self.two({"j": {"function": "test.arg", "seconds": 10, "once": False}})
        self.assertEqual((self.ran(a), self.ran(b)), (["j"], ["j"]))

        a.clock.pump([1] * 11)

        self.assertEqual((self.ran(a), self.ran(b)), (["j"], ["j"]))

    def test_takeover_interval(self) -> None:
        """The next node goes on with the interval; nothing is begun anew (pains 1.16)."""
        a, b = self.two({"j": {"function": "test.arg", "minutes": 10}})
        a.ctx.seams.schedule.ship()
        a.clock.pump([10] * 30)
        self.die(a)

        b.ctx.seams.claims.hold()
        self.assertEqual(self.ran(b), [])
        b.clock.pump([10] * 29)
        self.assertEqual(self.ran(b), [])
        b.clock.pump([10] * 2)

        self.assertEqual(self.ran(b), ["j"])

    def test_takeover_not_twice(self) -> None:
        """A run of which the next node has not heard is not repeated: its time is claimed."""
        a, b = self.two(
            {
                "cron": {"function": "test.arg", "cron": "*/30 * * * *"},
                "long": {"function": "test.arg", "minutes": 30},
            }
        )
        a.ctx.seams.schedule.ship()
        self.assertEqual(self.ran(a), ["long"])
        a.clock.pump([10] * 181)
        self.assertEqual(sorted(self.ran(a)), ["cron", "long"])
        self.die(a)

        b.ctx.seams.claims.hold()
        b.clock.pump([1] * 30)

        self.assertEqual(self.ran(b), [])

    def test_takeover_in_time(self) -> None:
        """What came due between two holders is run by the second."""
        a, b = self.two({"j": {"function": "test.arg", "cron": "*/30 * * * *"}})
        a.clock.pump([10] * 178)
        self.die(a)
        b.clock.pump([1] * 20)
        self.assertEqual(self.ran(b), [])

        b.ctx.seams.claims.hold()

        self.assertEqual(self.ran(b), ["j"])

    def test_duty_lost(self) -> None:
        """A run ends with the duty, before another node may begin it."""
        a, _ = self.two({"j": {"function": "salt.execute", "cron": "0 0 1 1 *", "args": ["*"],
                               "kwargs": {"fun": "test.ping"}}})  # fmt: skip
        waiting: Deferred[Any] = Deferred()
        ended: list[str] = []

        async def long() -> Any:
            try:
                return await waiting
            finally:
                ended.append("yes")

        self.patch(a.ctx.calls, "_run", lambda *args: long())
        self.assertTrue(self.ask(a, "run_job", name="j")["started"])

        a.ctx.seams.claims.lose()

        self.assertEqual(ended, ["yes"])
        self.assertEqual(a.asks.status()["running"], 0)

    def test_change_elsewhere(self) -> None:
        """What is added, paused and deleted on one node is so on the one that runs."""
        a, b = self.two({})
        self.ask(b, "add", schedule={"j": {"function": "test.arg", "seconds": 10}})
        self.assertEqual((self.ran(a), self.ran(b)), (["j"], []))
        a.clock.pump([1] * 11)
        self.assertEqual(self.ran(a), ["j"])

        self.ask(b, "pause", name="j")
        a.clock.pump([1] * 30)
        self.assertEqual(self.ran(a), [])
        self.ask(b, "resume", name="j")
        self.assertEqual(self.ran(a), ["j"])

        self.ask(b, "delete", name="j")
        a.clock.pump([1] * 30)
        self.assertEqual((self.ran(a), self.ran(b)), ([], []))

    def test_lost_run(self) -> None:
        """A run whose node died is said as lost, by an event, and not begun again."""
        _, b = self.two({})
        call = b.schedule._recover(
            "schedule/j/5", {"name": "j"}, Claim(key="x", term=2, holder="n1")
        )
        self.successResultOf(Deferred.fromCoroutine(call))

        self.assertEqual(b.events[-1][0], "saltwisted/schedule/lost")
        self.assertEqual(b.events[-1][1]["schedule"], "j")
