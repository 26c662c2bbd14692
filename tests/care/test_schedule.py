"""
The master's schedule on real daemons: what runs, over restarts and kills, and the commands.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, scratch, until


class ScheduleTests(SynchronousTestCase):
    """One master."""

    def master(self, schedule: dict[str, Any]) -> OurMaster:
        """A master that serves."""
        master = OurMaster(scratch(self), schedule=schedule)
        self.addCleanup(master.kill)
        return master.up()

    def runs(self, master: OurMaster, function: str) -> list[str]:
        """The jids of the runs of a runner, as the job cache has them."""
        client = master.control()
        try:
            found = client.call("runner", fun="jobs.list_jobs", keep=False)["return"]
        finally:
            client.close()
        return sorted(jid for jid, job in found.items() if job["Function"] == f"runner.{function}")

    def schedule(self, master: OurMaster, *words: str) -> str:
        """The output of C{saltwisted schedule}, which succeeds."""
        done = master.command("schedule", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_restarts(self) -> None:
        """
        A runner every second runs on after a stop and after kill -9; one that ran and is due
        in ten minutes runs once in all three lives.
        """
        master = self.master(
            {
                "often": {"function": "test.arg", "seconds": 1},
                "seldom": {"function": "manage.present", "minutes": 10},
            }
        )
        for end in (signal.SIGTERM, signal.SIGKILL):
            had = self.runs(master, "test.arg")
            until("more runs", lambda had=had: len(self.runs(master, "test.arg")) > len(had) + 1)
            had = self.runs(master, "test.arg")
            master.kill(end)
            master.up()
            self.assertEqual(self.runs(master, "test.arg")[: len(had)], had)

        last = self.runs(master, "test.arg")[-1]
        until("a run after both", lambda: self.runs(master, "test.arg")[-1] > last)
        self.assertEqual(len(self.runs(master, "manage.present")), 1)

    def test_minions(self) -> None:
        """
        C{client: local} runs on minions: over when all have answered, and a failure when one that
        is meant has not.
        """
        home = scratch(self)
        entry = {"function": "test.echo", "client": "local", "tgt": "*", "args": [7]}
        master = OurMaster(
            home, timeout=1, gather_job_timeout=1, schedule={"j": {**entry, "cron": "0 0 1 1 *"}}
        )
        self.addCleanup(master.kill)
        master.up()
        minion = OurMinion(home, master).up()
        self.addCleanup(minion.kill)
        master.accept(minion.id)
        master.ping_until(minion.id)

        def over() -> dict[str, Any]:
            """What the event at the end of a run says."""
            with master.events("__schedule_return") as events:
                self.schedule(master, "run", "j")
                return dict(next(events)["data"])

        said = over()
        self.assertEqual(said["return"], {minion.id: 7})
        self.assertEqual((said["success"], said["retcode"], said["fun"]), (True, 0, "test.echo"))
        minion.kill()
        said = over()
        self.assertEqual((said["success"], said["return"]), (False, {}))
        self.assertEqual(said["missing"], [minion.id])

    def test_commands(self) -> None:
        """Jobs are listed, added, run, paused, changed and deleted, over kill -9 too."""
        master = self.master({"a": {"function": "test.arg", "cron": "0 0 1 1 *"}})

        self.schedule(master, "add", "b", "function=test.arg", "args=[7]", "cron=0 0 1 1 *")
        master.kill()
        master.up()
        listed = json.loads(self.schedule(master, "list", "--json"))
        self.assertEqual(listed["b"]["args"], [7])
        self.assertEqual(listed["b"]["_changed"]["by"], "root")
        self.assertIn(" runs as ", self.schedule(master, "run", "b"))
        until("its result", lambda: "done" in self.schedule(master))
        self.schedule(master, "pause", "b")
        self.assertIn("paused by root", self.schedule(master))
        self.schedule(master, "resume", "b")
        self.schedule(master, "modify", "a", "minutes=5", "cron=None", "run_on_start=False")
        self.assertEqual(json.loads(self.schedule(master, "--json"))["a"]["minutes"], 5)
        self.schedule(master, "reset", "a")
        self.assertNotIn("minutes", json.loads(self.schedule(master, "--json"))["a"])
        self.schedule(master, "delete", "b")
        self.assertNotIn("b", json.loads(self.schedule(master, "--json")))

    def test_refused(self) -> None:
        """What means nothing is refused in one line, and with a status of its own."""
        master = self.master({"a": {"function": "test.arg", "cron": "0 0 1 1 *"}})
        for words, said in (
            (("add", "a", "function=test.arg", "seconds=1"), "already exists"),
            (("add", "b", "function=test.arg", "seconds=soon"), "seconds: 'soon'"),
            (("add", "b", "function=no.such", "seconds=1"), "function: there is no"),
            (("modify", "b", "seconds=1"), "does not exist"),
            (("delete", "b"), "does not exist"),
            (("run", "b"), "does not exist"),
            (("run",), "NAME"),
            (("frobnicate",), "list | add"),
        ):
            done = master.command("schedule", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stderr, words)
            self.assertNotIn("Traceback", done.stderr)

    def test_status(self) -> None:
        """The status says what comes next, which entry is wrong, and which run failed."""
        master = self.master(
            {
                "good": {"function": "test.arg", "cron": "0 0 1 1 *"},
                "fails": {"function": "event.send", "args": ["tag", 5], "minutes": 5},
                "wrong": {"function": "test.arg", "seconds": "soon"},
            }
        )
        until(
            "the failure",
            lambda: "failed" in master.command("status", "--role", "master").stdout,
        )

        done = master.command("status", "--role", "master")

        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("schedule: seconds: 'soon' is not a whole number", done.stdout)
        self.assertIn("3 jobs, the next is fails at ", done.stdout)
        self.assertIn("the last run of fails failed", done.stdout)
        self.assertNotIn("not part of saltwisted", master.text())

    def test_reload(self) -> None:
        """A schedule that was changed in the file holds after a reload, without a restart."""
        master = self.master({})
        os.makedirs(f"{master.conf}/master.d")
        with open(f"{master.conf}/master.d/s.conf", "w", encoding="utf-8") as handle:
            handle.write("schedule:\n  j:\n    function: test.arg\n    seconds: 1\n")

        master.process.send_signal(signal.SIGHUP)

        until("a run", lambda: self.runs(master, "test.arg"))
