"""
C{schedule.*} with a daemon that answers: what is asked of it, and how that is told.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError
from tests.modules.harness import load


class Scheduler:
    """As much of a scheduler as the module can tell: jobs by name, in two halves."""

    def __init__(self, **jobs: dict[str, Any]) -> None:
        self.own = jobs
        self.pillar: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        self.deaf = False

    def call(self, op: str, /, **data: Any) -> dict[str, Any]:
        assert op == "schedule"
        self.asked.append(data)
        func, name = data["func"], data.get("name")
        if func == "list":
            chosen = {"opts": self.own, "pillar": self.pillar}
            jobs = chosen.get(data["where"], {**self.pillar, **self.own})
            return {"complete": True, "schedule": dict(jobs)}
        if func in ("broken",) or name == "broken":
            raise RemoteError("ScheduleError", "no")
        if not self.deaf:
            if func == "add":
                self.own.update(data["schedule"])
            elif func == "delete":
                self.own.pop(name, None)
            elif func in ("enable_job", "disable_job"):
                self.own[name] = {**self.own[name], "enabled": func == "enable_job"}
            elif func in ("enable", "disable"):
                self.own["enabled"] = func == "enable"  # type: ignore[assignment]
        return {"complete": True, "schedule": {**self.pillar, **self.own}}


class Talking(SynchronousTestCase):
    """One scheduler, one module."""

    def setUp(self) -> None:
        self.scheduler = Scheduler(job={"function": "test.ping", "seconds": 9, "name": "job"})
        folder = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        self.module = load(
            "schedule",
            daemon=self.scheduler,
            opts={"test": False, "conf_file": os.path.join(folder, "minion")},
        )

    def test_add(self) -> None:
        """A new job is given to the daemon whole, and kept unless it is not to be."""
        answer = self.module.add("new", function="test.ping", seconds=5, persist=False)

        self.assertEqual(answer["comment"], "Added job: new to schedule.")
        self.assertEqual(answer["changes"], {"new": "added"})
        self.assertEqual(
            self.scheduler.asked[-1],
            {
                "func": "add",
                "name": "new",
                "schedule": {
                    "new": {
                        "function": "test.ping",
                        "seconds": 5,
                        "maxrunning": 1,
                        "name": "new",
                        "enabled": True,
                        "jid_include": True,
                    }
                },
                "persist": False,
            },
        )

    def test_addTwice(self) -> None:
        """A job that is there already is not added."""
        answer = self.module.add("job", function="test.ping", seconds=5)

        self.assertEqual(answer["comment"], "Job job already exists in schedule.")
        self.assertEqual(answer["result"], False)

    def test_ignored(self) -> None:
        """A daemon that did not do it is told as a failure."""
        self.scheduler.deaf = True

        for answer, comment in (
            (self.module.add("x", function="f"), "Failed to add job x to schedule."),
            (self.module.delete("job"), "Failed to delete job job from schedule."),
            (self.module.disable_job("job"), "Failed to disable job job in schedule."),
            (self.module.disable(), "Failed to disable schedule on minion."),
        ):
            self.assertEqual((answer["comment"], answer["result"]), (comment, False))

    def test_switching(self) -> None:
        """Jobs and the whole schedule are enabled and disabled."""
        for function, args, comment, changes in (
            ("disable_job", ("job",), "Disabled Job job in schedule.", {"job": "disabled"}),
            ("enable_job", ("job",), "Enabled Job job in schedule.", {"job": "enabled"}),
            ("disable", (), "Disabled schedule on minion.", {"schedule": "disabled"}),
            ("enable", (), "Enabled schedule on minion.", {"schedule": "enabled"}),
        ):
            answer = getattr(self.module, function)(*args)
            self.assertEqual(
                answer, {"comment": comment, "changes": changes, "result": True}, function
            )

    def test_run(self) -> None:
        """A job runs now; a disabled one only by force."""
        self.scheduler.own["off"] = {"function": "f", "enabled": False}

        self.assertEqual(self.module.run_job("job")["comment"], "Scheduling Job job on minion.")
        self.assertEqual(self.module.run_job("off")["comment"], "Job off is disabled.")
        self.assertEqual(
            self.module.run_job("off", force=True)["comment"], "Scheduling Job off on minion."
        )

    def test_pillarJobs(self) -> None:
        """A change to a job of the pillar is not kept."""
        self.scheduler.pillar["p"] = {"function": "f"}

        self.module.delete("p")

        self.assertEqual(
            self.scheduler.asked[-1],
            {"func": "delete", "name": "p", "where": "pillar", "persist": False},
        )

    def test_list(self) -> None:
        """The list hides hidden jobs and what the scheduler keeps for itself."""
        self.scheduler.own["__mine_interval"] = {"function": "mine.update"}
        self.scheduler.own["job"]["_next_fire_time"] = 5

        text = self.module.list_()

        self.assertEqual(
            text,
            "schedule:\n  job:\n    enabled: true\n    function: test.ping\n    name: job\n"
            "    saved: false\n    seconds: 9\n",
        )
        self.assertIn("__mine_interval", self.module.list_(show_all=True))

    def test_modify(self) -> None:
        """A change tells the job before and after, and nothing when it is as it should be."""
        self.scheduler.own["job"].update(maxrunning=1, enabled=True, jid_include=True)

        same = self.module.modify("job", seconds=9)
        changed = self.module.modify("job", seconds=10)

        self.assertEqual(same["comment"], "Job job in correct state")
        self.assertEqual(changed["comment"], "Modified job: job in schedule.")
        self.assertEqual(changed["changes"]["job"]["old"]["seconds"], 9)
        self.assertEqual(changed["changes"]["job"]["new"]["seconds"], 10)

    def test_times(self) -> None:
        """One run is skipped or put off."""
        early, late = "2026-01-31T04:05:06", "2026-01-31T05:05:06"

        skipped = self.module.skip_job("job", early)
        postponed = self.module.postpone_job("job", early, late)

        self.assertEqual(skipped["comment"], "Added Skip Job job in schedule.")
        self.assertEqual(postponed["comment"], "Postponed Job job in schedule.")
        self.assertEqual(self.scheduler.asked[-1]["new_time"], late)

    def test_refused(self) -> None:
        """A daemon that refuses is not an exception."""
        self.scheduler.own["broken"] = {"function": "f"}

        self.assertEqual(
            self.module.run_job("broken"),
            {"comment": "Failed to run job broken on minion.", "result": False},
        )

    def test_give(self) -> None:
        """A job is given away by publishing C{schedule.add} with all its fields."""
        published: list[Any] = []

        def publish(*args: Any) -> dict[str, Any]:
            published.append(args)
            return {"web1": {"result": True}}

        self.module.__salt__["publish.publish"] = publish

        answer = self.module.move("job", "web*")

        self.assertEqual(answer["comment"], "Moved Job job from schedule.")
        self.assertEqual(answer["minions"], ["web1"])
        self.assertNotIn("job", self.scheduler.own)
        self.assertEqual(published[0][:2], ("web*", "schedule.add"))
        self.assertEqual(
            sorted(published[0][2]),
            ["enabled=True", "function=test.ping", "name=job", "seconds=9"],
        )
