"""
The reactor on a master: from an event to jobs, runners and wheel functions, and what is said of
those that are not.
"""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.words import NoMajority, Taken
from saltwisted.domain.who import local
from saltwisted.master.automation.looking import LOOK_AGAIN
from saltwisted.master.automation.operations import AutomationOperations
from saltwisted.master.automation.pause import Pause
from saltwisted.transports.deferreds import let_go
from tests.master.reacting import Reacting
from tests.master.rig import RigMinion

LOCAL = """
ping:
  local.test.arg:
    - tgt: {{ data['id'] }}
    - args:
      - i: {{ data['i'] }}
"""
RUNNER = """
say:
  runner.test.arg:
    - args:
      - i: {{ data['i'] }}
"""


FLEET = 2000
"""Minions that start at once; as many events may wait."""


class ReactorTests(SynchronousTestCase):
    """One master, alone."""

    def reacting(self, reactor: Any, **sls: str) -> Reacting:
        """A master that reacts; SLS by name without suffix."""
        options = sls.pop("options", {})
        files = {f"{name}.sls": text for name, text in sls.items()}
        return Reacting(self, reactor, files, **options)  # type: ignore[arg-type]

    def with_minion(self, *args: Any, **kwargs: Any) -> Reacting:
        """The same, with an accepted minion C{m1}."""
        made = self.reacting(*args, **kwargs)
        RigMinion(made.rig, "m1").accepted()
        made.rig.events.clear()
        return made

    # -- jobs ----------------------------------------------------------------------------------

    def test_event_to_job(self) -> None:
        """An event that an entry matches has the job published that its SLS asks for."""
        made = self.with_minion([{"my/*": ["@local.sls"]}], local=LOCAL)

        made.fire("my/tag", {"id": "m1", "i": 7})

        (job,) = made.rig.published_jobs()
        self.assertEqual(job["fun"], "test.arg")
        self.assertEqual(job["tgt"], "m1")
        self.assertEqual(job["arg"], [{"__kwarg__": True, "i": 7}])
        self.assertEqual(job["user"], made.rig.config.user)

    def test_event_of_minion(self) -> None:
        """An event that a minion sends is reacted to as any other."""
        made = self.with_minion([{"my/tag": "@local.sls"}], local=LOCAL)
        minion = RigMinion(made.rig, "m2").accepted()

        minion.ask("_minion_event", tag="my/tag", data={"i": 1}, i=3)
        made.turn()

        (job,) = made.rig.published_jobs()
        self.assertEqual((job["tgt"], job["arg"]), ("m2", [{"__kwarg__": True, "i": 3}]))

    def test_no_match(self) -> None:
        """An event that no entry matches asks nobody for anything."""
        made = self.reacting([{"my/*": "@local.sls"}], local=LOCAL)
        made.workers.calls.clear()

        made.fire("your/tag", {"id": "m1", "i": 7})

        self.assertEqual(made.workers.calls, [])

    def test_nobody_matches(self) -> None:
        """A job for a target that nobody is in is said as failed, with SLS, event and cause."""
        made = self.reacting([{"my/*": "@local.sls"}], local=LOCAL)

        made.fire("my/tag", {"id": "m9", "i": 7})

        (said,) = made.said("failed")
        self.assertEqual(said["sls"], made.path("local.sls"))
        self.assertEqual(said["tag"], "my/tag")
        self.assertIn("m9", said["error"])

    def test_ret_and_tgt_type(self) -> None:
        """C{ret}, C{tgt_type}, C{arg} and C{kwarg} go into the publication."""
        made = self.with_minion(
            [{"t": "@a.sls"}],
            a="x:\n  cmd.test.arg:\n    - tgt: [m1]\n    - tgt_type: list\n    - ret: slack\n"
            "    - arg: [1, two]\n    - kwarg: {a: b}\n",
        )

        made.fire("t")

        (job,) = made.rig.published_jobs()
        self.assertEqual((job["tgt"], job["tgt_type"], job["ret"]), (["m1"], "list", "slack"))
        self.assertEqual(job["arg"], [1, "two", {"__kwarg__": True, "a": "b"}])

    # -- runners and wheel ---------------------------------------------------------------------

    def test_runner(self) -> None:
        """A runner runs as C{Reactor}, with its events, as in stock."""
        made = self.reacting([{"t": "@runner.sls"}], runner=RUNNER)

        made.fire("t", {"i": 5})

        (ret,) = made.runs("runner.test.arg")
        self.assertEqual(ret["user"], "Reactor")
        self.assertEqual(ret["return"], {"args": [], "kwargs": {"i": 5}})

    def test_wheel(self) -> None:
        """A wheel function too, its arguments by their own names."""
        made = self.reacting(
            [{"t": "@a.sls"}], a="k:\n  wheel.key.list:\n    - match: {{ data['what'] }}\n"
        )

        made.fire("t", {"what": "accepted"})

        (ret,) = made.runs("wheel.key.list")
        self.assertEqual(ret["return"], {"minions": []})

    def test_fails(self) -> None:
        """A runner that fails is said, with what it said itself."""
        made = self.reacting([{"t": "@a.sls"}], a="k:\n  runner.test.arg_missing: []\n")

        made.fire("t")

        (said,) = made.said("failed")
        self.assertEqual(said["reaction"], "k")
        self.assertEqual(said["fun"], "runner.test.arg_missing")
        self.assertIn("not available", said["error"])

    def test_order(self) -> None:
        """C{order} and C{require} decide which call begins first."""
        made = self.with_minion(
            [{"t": "@a.sls"}],
            a="".join(
                f"{name}:\n  local.test.{fun}:\n    - tgt: m1\n{more}"
                for name, fun, more in (
                    ("a", "third", "    - require:\n      - local: b\n"),
                    ("b", "second", "    - order: 2\n"),
                    ("c", "first", "    - order: 1\n"),
                )
            ),
        )

        made.fire("t")

        self.assertEqual(
            [job["fun"] for job in made.rig.published_jobs()],
            ["test.first", "test.second", "test.third"],
        )

    def test_caller_without_minion(self) -> None:
        """A C{caller} on a master that has no minion beside it says so."""
        made = self.reacting([{"t": "@a.sls"}], a="k:\n  caller.test.ping: []\n")

        made.fire("t")

        (said,) = made.said("failed")
        self.assertIn("there is no minion beside this master", said["error"])

    def test_caller(self) -> None:
        """With a minion beside it a C{caller} calls its function there."""
        made = self.reacting(
            [{"t": "@a.sls"}],
            a="k:\n  caller.file.touch:\n    - args:\n      - {{ data['path'] }}\n"
            "l:\n  caller.file.touch:\n    - args:\n        name: {{ data['path'] }}2\n",
        )
        home = made.rig.home
        with open(os.path.join(home, "minion"), "w") as stream:
            stream.write(f"id: beside\nroot_dir: {home}\n")
        made.workers.opts["config_dir"] = home

        made.fire("t", {"path": f"{home}/touched"})

        self.assertEqual(made.said("failed"), [])
        for end in ("", "2"):
            self.assertTrue(os.path.exists(f"{home}/touched{end}"))

    def test_storm(self) -> None:
        """
        A thousand minions start within ten seconds, each twice: with C{throttle} by id and
        C{batch} every one is reacted to once, and never more than twenty at a time.
        """
        made = self.with_minion(
            [{"t": {"sls": "@local.sls", "throttle": {"seconds": 60, "by": "id"}, "batch": 20}}],
            local=LOCAL.replace("data['id'] }}", "'m1' }}", 1),
        )

        most, answered = 0, 0
        for number in range(2000):
            made.rig.bus.fire("t", {"id": f"m{number % 1000}", "i": number})
            if number % 200 == 199:
                made.turn(1)
        while answered < len(made.rig.published_jobs()):
            jobs = made.rig.published_jobs()
            most = max(most, len(jobs) - answered)
            for job in jobs[answered:]:
                made.rig.bus.fire(f"salt/job/{job['jid']}/ret/m1", {"id": "m1"})
            answered = len(jobs)
            made.turn()

        self.assertEqual(most, 20)
        jobs = made.rig.published_jobs()
        self.assertEqual(sorted(job["arg"][0]["i"] for job in jobs), list(range(1000)))
        self.assertEqual(made.reactor.status()["figures"]["throttled"], 1000)

    def test_all_start_at_once(self) -> None:
        """
        A fleet starts in one moment, as minions of 3008.5 do after a cut: each start is reacted to
        once, and so is what another minion brings when there is no room left. Only the minion that
        brings more than the others loses something, and that is said.
        """
        made = self.reacting(
            [{"salt/minion/*/start": "@a.sls"}, {"site/alarm": "@a.sls"}],
            a=RUNNER,
            options={"reactor_worker_hwm": FLEET},
        )
        bus = made.rig.bus
        for number in range(5):
            bus.fire("site/alarm", {"id": "busy", "i": f"busy-{number}"}, sender="busy")
        for number in range(FLEET - 2):
            name = f"m{number}"
            bus.fire(f"salt/minion/{name}/start", {"id": name, "i": number}, sender=name)
        bus.fire("site/alarm", {"id": "other", "i": "other"}, sender="other")
        self.assertLessEqual(made.reactor.status()["depth"], FLEET)
        made.turn()
        made.turn(1)

        done = [run["fun_args"][0]["i"] for run in made.runs()]
        others = [each for each in done if isinstance(each, str)]
        self.assertEqual(others, ["busy-0", "other"])
        self.assertEqual(sorted(set(done) - set(others)), list(range(FLEET - 2)))
        self.assertEqual(len(done), FLEET)
        self.assertEqual([said["tag"] for said in made.said("lost")], ["site/alarm"] * 4)
        self.assertEqual(made.reactor.status()["figures"]["lost:hwm"], 4)

    def test_beacon_loop(self) -> None:
        """
        A beacon that sees what the reaction's own job has changed fires again and again, and says
        nothing of that job: with C{throttle} the loop has one turn in its time, for each minion,
        and other events are reacted to meanwhile (pains 1.20).
        """
        beacon = "salt/beacon/m1/inotify//etc/motd"
        made = self.with_minion(
            [
                {"salt/beacon/*": {"sls": "@local.sls", "throttle": {"seconds": 60, "by": "id"}}},
                {"t": "@other.sls"},
            ],
            local=LOCAL,
            other=RUNNER,
        )

        def changes(tag: str, data: Any) -> None:
            if tag.endswith("/new"):
                for _ in range(3):
                    made.rig.bus.fire(beacon, {"id": "m1", "i": 1, "change": "IN_MODIFY"})

        made.rig.bus.subscribe("salt/job/", changes)
        made.fire(beacon, {"id": "m1", "i": 0, "change": "IN_MODIFY"}, sender="m1")
        for _ in range(30):
            made.turn(1)
        made.fire("t", {"i": 7})

        self.assertEqual(len(made.rig.published_jobs()), 1)
        self.assertEqual(made.reactor.status()["figures"]["throttled"], 3)
        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [7])
        made.turn(60)
        made.fire(beacon, {"id": "m1", "i": 2, "change": "IN_MODIFY"}, sender="m1")
        self.assertEqual(len(made.rig.published_jobs()), 2)

    def test_places(self) -> None:
        """C{reactor_worker_threads} runners run at a time; the others wait and then run."""
        made = self.reacting(
            [{"t": "@a.sls"}],
            a="k:\n  runner.test.sleep:\n    - s_time: 10\n",
            options={"reactor_worker_threads": 2},
        )

        for _ in range(5):
            made.fire("t")
        self.assertEqual(len(made.rig.ctx.calls.active), 2)
        self.assertEqual(made.reactor.status()["depth"], 3)
        for _ in range(3):
            made.turn(10)

        self.assertEqual(len(made.runs("runner.test.sleep")), 5)
        self.assertEqual(made.reactor.status()["depth"], 0)

    def test_many_wait_for_places(self) -> None:
        """Thousands that waited, and end at once when they begin, do so without recursion."""
        made = self.reacting(
            [{"slow": "@slow.sls"}, {"t": "@a.sls"}],
            slow="k:\n  runner.test.sleep:\n    - s_time: 10\n",
            a=RUNNER,
            options={"reactor_worker_threads": 1},
        )
        made.fire("slow")

        for number in range(2000):
            made.rig.bus.fire("t", {"i": number})
        for _ in range(10):
            made.turn()
        self.assertEqual(made.runs("runner.test.arg"), [])
        made.turn(10)

        self.assertEqual(len(made.runs("runner.test.arg")), 2000)

    # -- rendering -----------------------------------------------------------------------------

    def test_data_is_data(self) -> None:
        """What an event says is never rendered, however much it looks like a template."""
        made = self.reacting(
            [{"t": "@a.sls"}],
            a="k:\n  runner.test.arg:\n    - args:\n        x: {{ data['x'] | yaml_dquote }}\n",
        )

        made.fire("t", {"x": "{{ 7 * 7 }}{% raw %}"})

        (ret,) = made.runs()
        self.assertEqual(ret["return"]["kwargs"], {"x": "{{ 7 * 7 }}{% raw %}"})

    def test_T_EVT_2_sender(self) -> None:
        """
        T-EVT-2: C{sender} is whose key sent an event, whatever the event says of itself; no minion
        may fire the reactor's own events, which name a place in a chain.
        """
        made = self.reacting(
            [{"my/tag": "@a.sls"}],
            a="k:\n  runner.test.arg:\n    - args:\n        by: {{ sender }}\n"
            "        said: {{ data['id'] }}\n",
        )
        minion = RigMinion(made.rig, "m2").accepted()

        minion.ask("_minion_event", events=[{"tag": "my/tag", "data": {"id": "victim"}}])
        minion.ask(
            "_minion_event",
            events=[{"tag": "saltwisted/reaction/failed", "data": {"generation": -100}}],
        )
        made.turn()

        (ret,) = made.runs()
        self.assertEqual(ret["return"]["kwargs"], {"by": "m2", "said": "victim"})
        self.assertEqual(made.said("failed"), [])

    def test_tag_is_there(self) -> None:
        """A template sees the tag, also one with line ends in it, and a wild card matches it."""
        made = self.reacting(
            [{"a/*": "@a.sls"}],
            a="k:\n  runner.test.arg:\n    - args:\n        x: {{ tag | yaml_dquote }}\n",
        )

        made.fire("a/b\nc")

        (ret,) = made.runs()
        self.assertEqual(ret["return"]["kwargs"], {"x": "a/b\nc"})

    def test_salt_address(self) -> None:
        """C{salt://} names a file of the file server, in the entry's environment."""
        made = self.reacting([{"t": "salt://reactor/a.sls"}])
        os.makedirs(os.path.join(made.rig.root, "reactor"))
        with open(os.path.join(made.rig.root, "reactor", "a.sls"), "w") as stream:
            stream.write(RUNNER)

        made.fire("t", {"i": 1})

        self.assertEqual(len(made.runs()), 1)

    def test_glob(self) -> None:
        """A path with wild cards is all files that fit, and each of them reacts."""
        made = self.reacting([{"t": "@*.sls"}], a=RUNNER, b=RUNNER.replace("say", "also"))

        made.fire("t", {"i": 1})

        self.assertEqual(len(made.runs()), 2)

    def test_edit_counts(self) -> None:
        """An SLS that was edited counts for the next event."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)
        made.fire("t", {"i": 1})

        made.write("a.sls", RUNNER.replace("data['i']", "data['i'] + 1000"))
        made.fire("t", {"i": 1})

        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [1, 1001])

    def test_broken_harms_no_other(self) -> None:
        """One SLS that does not render leaves the others of the same event alone."""
        made = self.reacting(
            [{"t": ["@broken.sls", "@list.sls", "@a.sls"]}],
            broken="{% if %}",
            list="- a\n- b\n",
            a=RUNNER,
        )

        made.fire("t", {"i": 1})

        self.assertEqual(len(made.runs()), 1)
        self.assertEqual(
            [os.path.basename(said["sls"]) for said in made.said("failed")],
            ["broken.sls", "list.sls"],
        )

    def test_missing(self) -> None:
        """An SLS that is not there is said for each event, in stock's words."""
        made = self.reacting([{"t": "/nowhere/a.sls"}])

        made.fire("t")

        (said,) = made.said("failed")
        self.assertEqual(said["error"], "File missing or not found.")

    def test_deadly_event(self) -> None:
        """An event that no worker survives is said; those rendered beside it are reacted to."""
        made = self.reacting([{"t/*": "@a.sls"}], a=RUNNER)
        made.workers.deadly = "t/3"

        for number in range(6):
            made.rig.bus.fire(f"t/{number}", {"i": number})
        made.turn()

        self.assertEqual(
            sorted(ret["return"]["kwargs"]["i"] for ret in made.runs()), [0, 1, 2, 4, 5]
        )
        (said,) = made.said("failed")
        self.assertEqual((said["tag"], said["error"]), ("t/3", "the worker was ended by SIGKILL"))

    def test_several_in_one_call(self) -> None:
        """Events that come together are rendered together, and begin in their order."""
        made = self.with_minion([{"t": "@local.sls"}], local=LOCAL)
        made.workers.calls.clear()

        for number in range(20):
            made.rig.bus.fire("t", {"id": "m1", "i": number})
        made.turn()

        self.assertEqual(len(made.workers.calls), 1)
        jobs = made.rig.published_jobs()
        self.assertEqual([job["arg"][0]["i"] for job in jobs], list(range(20)))

    # -- bounds --------------------------------------------------------------------------------

    def test_below_hwm_all_run(self) -> None:
        """Every event below C{reactor_worker_hwm} is reacted to."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER, options={"reactor_worker_hwm": 300})

        for number in range(300):
            made.rig.bus.fire("t", {"i": number})
        for _ in range(30):
            made.turn()

        self.assertEqual(len(made.runs()), 300)
        self.assertEqual(made.said("lost"), [])

    def test_above_hwm(self) -> None:
        """What comes beyond is counted, logged with its tag, and an event tells of it."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER, options={"reactor_worker_hwm": 10})

        for number in range(15):
            made.rig.bus.fire("t", {"i": number})
        made.turn()
        made.turn(1)

        self.assertEqual(len(made.runs()), 10)
        self.assertEqual([said["tag"] for said in made.said("lost")], ["t"] * 5)
        self.assertEqual(made.reactor.status()["figures"]["lost:hwm"], 5)

    def test_large_event(self) -> None:
        """An event of ten megabytes is not reacted to, and that is said."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)

        made.fire("t", {"i": 1, "much": "x" * 10 * 1024 * 1024})

        (said,) = made.said("lost")
        self.assertIn("max_event_size", said["error"])
        self.assertEqual(made.runs(), [])

    def test_old_event(self) -> None:
        """An event that waited for longer than C{publish_window} is lost, and that is said."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)
        made.workers.holding = True
        made.fire("t", {"i": 1})

        made.turn(31)
        made.workers.release()
        made.turn()

        (said,) = made.said("lost")
        self.assertIn("publish_window", said["error"])
        self.assertEqual(made.runs(), [])

    # -- chains --------------------------------------------------------------------------------

    def test_chain(self) -> None:
        """An event that a reaction has caused may be reacted to, and has the same trace."""
        made = self.reacting(
            [{"first": "@a.sls"}, {"salt/run/*/ret": "@b.sls"}],
            a="k:\n  runner.test.arg: []\n",
            b="{% if data['fun'] == 'runner.test.arg' %}\nl:\n  wheel.key.list_all: []\n"
            "{% endif %}\n",
        )

        made.fire("first")

        self.assertEqual(len(made.runs("wheel.key.list_all")), 1)
        runs = made.said("run")
        self.assertEqual([run["generation"] for run in runs], [1, 2])
        self.assertEqual(len({run["trace"] for run in runs}), 1)

    def test_no_chain(self) -> None:
        """What comes after a reaction, and is not caused by it, begins a chain of its own."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)

        for number in range(3):
            made.fire("t", {"i": number})

        runs = made.said("run")
        self.assertEqual([run["generation"] for run in runs], [1, 1, 1])
        self.assertEqual(len({run["trace"] for run in runs}), 3)

    def test_circle_ends(self) -> None:
        """What causes itself ends after C{reactor_chain_limit} generations, and that is said."""
        made = self.reacting(
            [{"salt/run/*/ret": "@a.sls"}, {"begin": "@a.sls"}],
            a="k:\n  runner.test.arg: []\n",
            options={"reactor_chain_limit": 3},
        )

        made.fire("begin")
        for _ in range(10):
            made.turn()

        self.assertEqual(len(made.runs()), 4)
        (said,) = made.said("lost")
        self.assertIn("reactor_chain_limit is 3", said["error"])

    def test_circle_of_jobs_ends(self) -> None:
        """A circle by way of a minion's returns ends too."""
        made = self.with_minion(
            [{"begin": "@a.sls"}, {"salt/job/*/ret/m1": "@a.sls"}],
            a="k:\n  local.test.ping:\n    - tgt: m1\n",
            options={"reactor_chain_limit": 2},
        )

        made.fire("begin")
        for _ in range(6):
            jid = made.rig.published_jobs()[-1]["jid"]
            made.fire(f"salt/job/{jid}/ret/m1", {"id": "m1", "jid": jid, "return": True})

        self.assertEqual(len(made.rig.published_jobs()), 3)

    def test_circle_of_waiting_runners_ends(self) -> None:
        """
        A circle of runners that wait for minions ends: such a runner says its last word while the
        return that it waited for is being given out.
        """
        made = self.with_minion(
            [{"salt/run/*/ret": "@a.sls"}, {"begin": "@a.sls"}],
            a="k:\n  runner.salt.execute:\n    - args: {tgt: m1, fun: test.ping}\n",
            options={"reactor_chain_limit": 2},
        )

        made.fire("begin")
        for turn in range(8):
            jobs = made.rig.published_jobs()
            if len(jobs) <= turn:
                break
            jid = jobs[turn]["jid"]
            load = {"id": "m1", "jid": jid, "return": True, "success": True, "retcode": 0}
            made.fire(f"salt/job/{jid}/ret/m1", load)

        self.assertEqual(len(made.runs("runner.salt.execute")), 3)
        self.assertEqual([said["tag"][:9] for said in made.said("lost")], ["salt/run/"])

    def test_circle_of_failures_ends(self) -> None:
        """A reaction to failures that fails itself does not go on for ever."""
        made = self.reacting(
            [{"saltwisted/reaction/failed": "@a.sls"}, {"begin": "@a.sls"}],
            a="- none\n",
        )

        made.fire("begin")
        for _ in range(20):
            made.turn()

        self.assertEqual(len(made.said("failed")), 9)

    # -- pacing --------------------------------------------------------------------------------

    def test_throttle(self) -> None:
        """C{throttle} by id: the first of each minion counts, again after the time."""
        made = self.reacting(
            [{"t": {"sls": "@a.sls", "throttle": {"seconds": 60, "by": "id"}}}], a=RUNNER
        )

        for name in ("m1", "m2", "m1", "m1"):
            made.fire("t", {"id": name, "i": 0})
        made.turn(60)
        made.fire("t", {"id": "m1", "i": 1})

        self.assertEqual(len(made.runs()), 3)
        self.assertEqual(made.reactor.status()["figures"]["throttled"], 2)

    def test_debounce(self) -> None:
        """C{debounce}: one reaction, to the last event, when it has been quiet."""
        made = self.reacting([{"t": {"sls": "@a.sls", "debounce": 5}}], a=RUNNER)

        for number in range(4):
            made.fire("t", {"i": number})
            made.turn(4)
        self.assertEqual(made.runs(), [])
        made.turn(1)

        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [3])

    def test_batch(self) -> None:
        """C{batch}: so many reactions are unfinished at a time, and every event has its turn."""
        made = self.with_minion([{"t": {"sls": "@local.sls", "batch": 2}}], local=LOCAL)

        for number in range(5):
            made.fire("t", {"id": "m1", "i": number})
        first = len(made.rig.published_jobs())
        for _ in range(5):
            for job in made.rig.published_jobs():
                made.fire(f"salt/job/{job['jid']}/ret/m1", {"id": "m1", "jid": job["jid"]})

        self.assertEqual(first, 2)
        self.assertEqual([job["arg"][0]["i"] for job in made.rig.published_jobs()], [0, 1, 2, 3, 4])
        self.assertEqual(made.reactor.status()["depth"], 0)

    # -- claims --------------------------------------------------------------------------------

    def test_taken(self) -> None:
        """What another node has claimed is not done here."""
        made = self.with_minion([{"t": "@local.sls"}], local=LOCAL)
        claims = made.rig.ctx.seams.claims
        self.patch(
            type(claims),
            "begin_event",
            lambda *args: _fired(Taken(key="k", holder="other")),
        )
        made.fire("t", {"id": "m1", "i": 1}, sender="m1")

        self.assertEqual(made.rig.published_jobs(), [])
        self.assertEqual(made.reactor.status()["figures"]["taken"], 1)

    def test_no_majority(self) -> None:
        """Where no majority can be asked nothing is done, and that is said with the reason."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)
        made.rig.ctx.seams.claims.set_leader(False)

        made.fire("t", {"i": 1})

        (said,) = made.said("lost")
        self.assertIn("reactor.set_leader", said["error"])
        self.assertIsInstance(NoMajority(key="", why=""), NoMajority)
        self.assertEqual(made.runs(), [])

    def test_other_nodes_events(self) -> None:
        """An event that arose at another node is that node's matter."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)

        made.fire("t", {"i": 1}, origin="other")

        self.assertEqual(made.runs(), [])

    def test_recover_local(self) -> None:
        """A job that a dead node had claimed is published under the same jid within the window."""
        made = self.with_minion([{"t": "@local.sls"}], local=LOCAL)
        plan = self._plan_of(made, {"id": "m1", "i": 1})
        (job,) = made.rig.published_jobs()

        self._recover(made, plan)

        self.assertEqual([each["jid"] for each in made.rig.published_jobs()], [job["jid"]] * 2)

    def test_recover_late(self) -> None:
        """Later it is said as lost: minions may have forgotten the jid."""
        made = self.with_minion([{"t": "@local.sls"}], local=LOCAL)
        plan = self._plan_of(made, {"id": "m1", "i": 1})

        made.turn(31)
        self._recover(made, plan)

        self.assertEqual(len(made.rig.published_jobs()), 1)
        self.assertEqual(len(made.said("lost")), 1)

    def test_recover_runner(self) -> None:
        """A runner runs again if its entry says C{at_least}, and is said as lost if not."""
        for once, times in (("at_most", 1), ("at_least", 2)):
            made = self.reacting([{"t": {"sls": "@a.sls", "once": once}}], a=RUNNER)
            plan = self._plan_of(made, {"i": 1})

            self._recover(made, plan)

            self.assertEqual(len(made.runs()), times, once)
            self.assertEqual(len(made.said("lost")), 2 - times, once)

    def _plan_of(self, made: Reacting, data: dict[str, Any]) -> Any:
        """The plan that is claimed for an event."""
        claims = made.rig.ctx.seams.claims
        plans: list[Any] = []
        begin = type(claims).begin

        def noted(self: Any, key: str, plan: Any, *more: Any) -> Any:
            plans.append(plan)
            return begin(self, key, plan, *more)

        self.patch(type(claims), "begin", noted)
        made.fire("t", data)
        json.dumps(plans[0])
        return plans[0]

    def _recover(self, made: Reacting, plan: Any) -> None:
        claim = self.successResultOf(made.rig.ctx.seams.claims.begin("reaction/again", plan))
        self.successResultOf(
            Deferred.fromCoroutine(made.reactor._recover("reaction/again", plan, claim))
        )
        made.turn()

    # -- the file of entries -------------------------------------------------------------------

    def test_map_in_file(self) -> None:
        """C{reactor} may be the path of a file; an event after an edit is judged by the new one."""
        made = self.reacting([], a=RUNNER, b=RUNNER)
        made.write("map", f"- t: {made.path('a.sls')}\n")
        made.rig.ctx.reactions.configure(made.path("map"))

        made.fire("t", {"i": 1})
        made.fire("u", {"i": 2})
        made.write("map", f"- u: {made.path('a.sls')}\n# another size\n")
        made.fire("u", {"i": 3})
        made.fire("t", {"i": 4})

        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [1, 3])

    def test_broken_map(self) -> None:
        """A file of entries that is broken is said, and the entries before stay."""
        made = self.reacting([], a=RUNNER)
        made.write("map", f"- t: {made.path('a.sls')}\n")
        made.rig.ctx.reactions.configure(made.path("map"))
        made.fire("t", {"i": 1})

        made.write("map", "- [unfinished\n")
        made.fire("t", {"i": 2})

        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [1, 2])

    # -- looking, trying, pausing --------------------------------------------------------------

    def test_looked_at(self) -> None:
        """What is wrong with an SLS is found when the configuration is loaded, with its line."""
        made = self.reacting(
            [{"t": "@a.sls"}],
            a="k:\n  runner.test.nothing: []\n  local.test.ping:\n    - tgt: '*'\n    - arg: x\n",
        )

        problems = "\n".join(made.reactor.status()["problems"])

        self.assertIn("line 2: 'test.nothing' is not available", problems)
        self.assertIn("line 5: arg must be a list", problems)

    def test_looked_at_again(self) -> None:
        """
        A file that was missing, and comes, is no mistake any more, without an event and without a
        reload; what is wrong is logged once, and nobody looks again when all is well.
        """
        made = self.reacting([{"t": "@late.sls"}])
        (problem,) = made.reactor.status()["problems"]
        self.assertIn("File missing or not found.", problem)
        made.rig.clock.advance(LOOK_AGAIN)
        self.assertEqual(made.reactor.status()["problems"], [problem])
        looks = [call for call in made.workers.calls if call["do"] == "look"]
        self.assertEqual(len(looks), 2)

        made.write("late.sls", "k:\n  local.test.ping:\n    - tgt: '*'\n")
        made.rig.clock.advance(LOOK_AGAIN)

        self.assertEqual(made.reactor.status()["problems"], [])
        made.rig.clock.advance(10 * LOOK_AGAIN)
        looks = [call for call in made.workers.calls if call["do"] == "look"]
        self.assertEqual(len(looks), 3)

    def test_looked_at_meanwhile(self) -> None:
        """Who wants a look while one is under way gets another one afterwards, and only one."""
        made = self.reacting([{"t": "@late.sls"}])
        made.workers.holding = True
        for _ in range(3):
            let_go(made.reactor.looking.look(), made.reactor.log, "x")
        self.assertEqual(len(made.workers.held), 1)

        made.workers.release()
        made.rig.clock.advance(0)

        self.assertEqual(len(made.workers.held), 1)

    def test_sample(self) -> None:
        """An entry with a sample is tried with it."""
        made = self.reacting(
            [{"t": {"sls": "@a.sls", "sample": {"data": {"fun": "nothing"}}}}],
            a="k:\n  runner.test.{{ data['fun'] }}: []\n",
        )

        (problem,) = made.reactor.status()["problems"]

        self.assertIn("'test.nothing' is not available", problem)

    def test_trial(self) -> None:
        """C{reactor.test} shows what would run, and runs nothing."""
        made = self.with_minion([{"t/*": ["@local.sls", "@b.sls"]}], local=LOCAL, b="x: y\n")

        found = self.successResultOf(
            Deferred.fromCoroutine(made.reactor.looking.trial("t/1", {"id": "m1", "i": 4}))
        )

        self.assertEqual(made.rig.published_jobs(), [])
        (reaction,) = found["reactions"]
        self.assertEqual(reaction["load"]["arg"], [{"__kwarg__": True, "i": 4}])
        self.assertEqual([each["sls"] for each in found["problems"]], [made.path("b.sls")])
        self.assertEqual(found["entries"][0]["tag"], "t/*")

    def test_pause(self) -> None:
        """While automation is paused nothing is reacted to; a start does not forget it."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)

        self.assertTrue(self.successResultOf(Deferred.fromCoroutine(made.pause.set("root"))))
        self.assertFalse(self.successResultOf(Deferred.fromCoroutine(made.pause.set("me"))))
        made.fire("t", {"i": 1})
        shown = Pause(made.rig.ctx.seams.schedule, made.rig.clock.seconds).shown()
        self.assertTrue(self.successResultOf(Deferred.fromCoroutine(made.pause.clear("root"))))
        made.fire("t", {"i": 2})

        assert shown is not None
        self.assertEqual(shown["by"], "root")
        self.assertEqual([ret["return"]["kwargs"]["i"] for ret in made.runs()], [2])
        self.assertEqual(made.reactor.status()["figures"]["paused"], 1)

    def test_rows(self) -> None:
        """Only the master's own user may try and pause."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)

        rows = AutomationOperations(made.reactor, made.pause).operations()

        self.assertEqual({row.right.words for row in rows}, {"root and the daemon's own user"})

    # -- the runners ---------------------------------------------------------------------------

    def test_runners(self) -> None:
        """C{reactor.list}, C{add} and C{delete}, in stock's words and shapes."""
        made = self.reacting([{"t": "@a.sls"}], a=RUNNER)
        entry = {"t": made.path("a.sls")}

        self.assertEqual(self._call_runner(made, "list"), [entry])
        self.assertEqual(
            self._call_runner(made, "add", "u", reactors=made.path("a.sls")),
            {"status": True, "comment": "Reactor added."},
        )
        self.assertEqual(
            self._call_runner(made, "add", "u", reactors="/x.sls"),
            {"status": False, "comment": "Reactor already exists."},
        )
        self.assertEqual(self._call_runner(made, "list"), [entry, {"u": [made.path("a.sls")]}])
        made.fire("u", {"i": 1})
        self.assertEqual(len(made.runs("runner.test.arg")), 1)
        self.assertEqual(
            self._call_runner(made, "delete", "u"), {"status": True, "comment": "Reactor deleted."}
        )
        self.assertEqual(
            self._call_runner(made, "delete", "u"),
            {"status": False, "comment": "Reactor does not exists."},
        )
        self.assertEqual(self._call_runner(made, "list"), [entry])

    def test_runner_without_reactor(self) -> None:
        """Where there is no reactor, that is what is said."""
        made = self.reacting([])

        self.assertEqual(self._call_runner(made, "list"), "Reactor system is not running.")

    def _call_runner(self, made: Reacting, fun: str, *arg: Any, **kwarg: Any) -> Any:
        ctx = made.rig.ctx
        call = ctx.runner(f"reactor.{fun}", list(arg), kwarg, local("root"))
        return self.successResultOf(Deferred.fromCoroutine(call))["return"]


def _fired(value: Any) -> Any:
    d: Deferred[Any] = Deferred()
    d.callback(value)
    return d
