"""
What is found of a reactor and a schedule without a master: all that a master complains of.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.master.automation.foreseen import of_reactor, of_schedule
from tests.master.reacting import Reacting
from tests.master.test_schedule import ScheduleCase

NOW = datetime(2026, 1, 1)  # noqa: DTZ001 - schedules are in local time


class ScheduleTests(ScheduleCase):
    """Entries of a schedule."""

    def test_errors(self) -> None:
        """For each kind of wrong entry the same words as a master has; of good ones nothing."""
        schedule: dict[str, Any] = {
            "good": {"function": "test.arg", "seconds": 5, "args": [1]},
            "wheel": {"function": "key.list_all", "client": "wheel", "minutes": 5},
            "text": "test.arg",
            "notime": {"function": "test.arg"},
            "unknown": {"function": "no.such", "seconds": 1},
            "many": {"function": "test.ping", "seconds": 1, "args": [1, 2]},
            "seconds": {"function": "test.arg", "seconds": "soon"},
            "cron": {"function": "test.arg", "cron": "61 * * * *"},
            "when": {"function": "test.arg", "when": "teatime"},
            "client": {"function": "test.arg", "seconds": 1, "client": "ssh"},
            "tgt": {"function": "test.ping", "seconds": 1, "client": "local"},
        }
        rig = self.start(schedule)
        found = dict(of_schedule(MasterConfig(schedule=schedule), NOW))

        self.assertEqual(found, rig.schedule.book.errors)
        self.assertEqual(set(schedule) - set(found), {"good", "wheel"})

    def test_remarks(self) -> None:
        """An option that no entry has is told with the entry, which runs all the same."""
        schedule = {"j": {"function": "test.arg", "seconds": 5, "secnds": 6, "returner": "x"}}

        found = list(of_schedule(MasterConfig(schedule=schedule), NOW))

        self.assertEqual([name for name, _ in found], ["j", "j"])
        self.assertIn("did you mean seconds?", found[0][1])

    def test_site(self) -> None:
        """A function whose module is a file of the site's is no mistake, and none is executed."""
        folder = self.mktemp()
        os.makedirs(folder)
        with open(f"{folder}/late.py", "w", encoding="utf-8") as file:
            file.write("raise SystemExit(1)\n")
        schedule = {"j": {"function": "late.comer", "seconds": 60}}

        for folders, count in (([folder], 0), ([], 1)):
            config = MasterConfig(schedule=schedule, runner_dirs=folders)
            self.assertEqual(len(list(of_schedule(config, NOW))), count)


class ReactorTests(SynchronousTestCase):
    """Entries of a reactor, and their SLS files."""

    def test_problems(self) -> None:
        """The same words as a master's status has, each with the tag of its entry."""
        entries = [
            {"good": "@good.sls"},
            {"bad/call": "@a.sls"},
            {"bad/yaml": "@b.sls"},
            {"sample": {"sls": "@c.sls", "sample": {"data": {"fun": "nothing"}}}},
            {"missing": "@nosuch.sls"},
            {"two": "@a.sls", "tags": "@a.sls"},
            "text",
            {"option": {"sls": "@good.sls", "nosuch": 1}},
        ]
        files = {
            "good": "k:\n  runner.test.arg: []\n",
            "a": "k:\n  runner.test.nothing: []\n  local.test.ping:\n    - tgt: x\n    - arg: x\n",
            "b": "k: [\n",
            "c": "k:\n  runner.test.{{ data['fun'] }}: []\n",
        }
        made = Reacting(self, entries, {f"{name}.sls": text for name, text in files.items()})
        config = MasterConfig(reactor=made.placed(entries))

        found = [(tag, text) for _, tag, text in of_reactor(config)]

        said = made.reactor.status()["problems"]
        self.assertEqual(
            sorted(text.removesuffix("; it is left out") for _, text in found), sorted(said)
        )
        self.assertEqual(
            {tag for tag, _ in found}, {"", "bad/call", "bad/yaml", "sample", "missing"}
        )
