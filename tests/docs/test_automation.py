"""
The page on automation: what it shows of the reactor and of the schedule is as these read it, and
its commands do what it says, as they stand there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain import masterschedule
from saltwisted.domain.reactions.entries import OPTIONS, parse
from saltwisted.domain.reactions.looking import look
from saltwisted.domain.yamltext import load_yaml
from saltwisted.worker.automation.work import Rendering
from tests.harness import OurMaster, scratch, until

UNSAID = {"jid_include", "returner", "return_config", "return_kwargs"}
"""What an entry may have, since a minion's may, and what means nothing on a master."""
SLS = "say:\n  runner.test.arg:\n    - args:\n      - id: {{ data['id'] }}\n"
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "automation.md"


class AutomationPageTests(SynchronousTestCase):
    """C{docs/automation.md}."""

    def setUp(self) -> None:
        """The part on the reactor, and its blocks of YAML."""
        text = PAGE.read_text()
        self.part = text[text.index("## The reactor") : text.index("## The schedule")]
        self.blocks = re.findall(r"```yaml\n(.*?)```", self.part, re.S)

    def test_entries(self) -> None:
        """The entries it shows are entries."""
        entries, problems = parse(load_yaml(self.blocks[0])["reactor"])

        self.assertEqual(problems, [])
        self.assertEqual(len(entries), 2)
        assert entries[1].throttle is not None
        self.assertEqual((entries[1].throttle.by, entries[1].batch), (("id",), 20))

    def test_options(self) -> None:
        """The table has the options that there are."""
        table = self.part[self.part.index("### Options of an entry") :]
        rows = re.findall(r"^\| `(\w+)` \|", table[: table.index("### Before")], re.M)

        self.assertEqual(sorted(rows), sorted(OPTIONS))

    def test_schedule_options(self) -> None:
        """The table of the schedule's entries has the options that there are."""
        text = PAGE.read_text()
        begin = text.index("### Options of a schedule entry")
        table = text[begin : text.index("### Events of the schedule")]
        names = {
            name
            for row in re.findall(r"^\| (`.*?) \|", table, re.M)
            for name in re.findall(r"`(\w+)", row)
        }
        # Said in the lines of others
        also = set(re.findall(r"`(\w+)`", table))

        self.assertEqual(names - masterschedule.OPTIONS, set())
        self.assertEqual(masterschedule.OPTIONS - also - UNSAID, set())

    def test_sls(self) -> None:
        """The SLS it shows is sound, and its two calls come in the order that it says."""
        path = Path(self.mktemp())
        path.write_text(self.blocks[1])

        (answer,) = Rendering(MasterConfig(id="x").as_opts()).react(
            [
                {
                    "tag": "backup/wanted",
                    "data": {"id": "web1", "data": {"disk": 95}},
                    "sls": [[str(path.absolute()), "base"]],
                }
            ]
        )

        self.assertEqual([one for one in look("x", self.blocks[1]) if "problem" in one], [])
        self.assertEqual(answer["problems"], [])
        self.assertEqual([chunk["fun"] for chunk in answer["chunks"]], ["cmd.run", "event.send"])


class CommandsTests(SynchronousTestCase):
    """A master that is configured as the page has it, but for its paths."""

    def setUp(self) -> None:
        """Start it, with the SLS that are beside its entries."""
        self.text = PAGE.read_text()
        home = scratch(self)
        folder = os.path.join(home, "reactor")
        os.mkdir(folder)
        blocks = re.findall(r"```yaml\n(.*?)```", self.text, re.S)
        options: dict[str, Any] = {}
        for block in blocks:
            value = load_yaml(block) if block.startswith(("reactor:", "schedule:")) else {}
            if "ROOT" not in block:
                options.update(value)
        self.entries = json.loads(json.dumps(options).replace("/srv/reactor", folder))
        self.master = OurMaster(home, auto_accept=True, **self.entries)
        for name in ("start.sls", "backup.sls", "site.sls"):
            with open(os.path.join(folder, name), "w") as handle:
                handle.write(
                    "say:\n  runner.test.arg:\n    - args:\n      - id: {{ data['id'] }}\n"
                )
        states = os.path.join(self.master.file_root, "reactor")
        os.mkdir(states)
        with open(os.path.join(states, "inventory.sls"), "w") as handle:
            handle.write("log:\n  wheel.key.list_all: []\n")
        self.folder = folder
        self.addCleanup(self.master.kill)
        self.master.up()

    def lines(self, after: str) -> list[str]:
        """The commands of the first block behind a heading."""
        part = self.text[self.text.index(after) :]
        found = re.search(r"```sh\n(.*?)```", part, re.S)
        assert found is not None
        return [line for line in found[1].splitlines() if line]

    def do(self, line: str) -> str:
        """Run a line of the page; it succeeds."""
        words = shlex.split(line.replace("/srv/reactor", self.folder), comments=True)
        if words[0] == "saltwisted":
            words.pop(0)
        done = self.master.command(*words)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def runs(self, function: str) -> list[dict[str, Any]]:
        """The runs of a function that the job cache has."""
        jobs: dict[str, dict[str, Any]] = self.master.run("jobs.list_jobs")
        return [job for job in jobs.values() if job["Function"] == function]

    def test_reactor(self) -> None:
        """What would run, the figures, the pause, and entries that come and go."""
        said = {line.split("#")[0].strip(): self.do(line) for line in self.lines("### Before an")}

        shown = said['saltwisted reactor test backup/wanted --data \'{"id": "web1"}\'']
        self.assertIn("runner.test.arg", shown)
        self.assertIn("web1", shown)
        self.assertEqual(self.runs("runner.test.arg"), [])
        self.assertIn("2 entries, 0 waiting", said["saltwisted automation status"])
        for line, output in said.items():
            self.assertNotIn("rror", output, line)
        self.assertEqual(len(self.master.run("reactor.list")), 2)
        self.assertIsNone(json.loads(self.do("saltwisted automation status --json"))["paused"])

        self.master.run("event.send", "backup/wanted", '{"id": "web1"}')
        until("the reaction", lambda: self.runs("runner.test.arg"))

    def test_schedule(self) -> None:
        """A job is added, changed, run, paused, resumed, disabled, deleted and set back."""
        _, *lines = self.lines("### While it runs")
        add, modify, run, pause, resume, disable, delete, reset = lines
        before = json.loads(self.do("saltwisted schedule --json"))
        self.assertEqual(set(before), set(self.entries["schedule"]))

        self.do(add)
        self.do(modify)
        shown = json.loads(self.do("saltwisted schedule --json"))["nightly"]
        self.assertEqual((shown["function"], shown["cron"]), ("jobs.list_jobs", "0 4 * * *"))
        self.do(run)
        until("the run", lambda: self.runs("runner.jobs.list_jobs"))
        self.do(pause)
        self.assertTrue(json.loads(self.do("saltwisted automation status --json")) is not None)
        self.do(resume)
        self.do(disable)
        self.assertFalse(json.loads(self.do("saltwisted schedule --json"))["nightly"]["enabled"])
        self.do(delete)
        self.assertEqual(set(json.loads(self.do("saltwisted schedule --json"))), set(before))
        self.do("saltwisted schedule modify keys hours=2")
        self.do(reset.replace("nightly", "keys"))
        self.assertEqual(json.loads(self.do("saltwisted schedule --json"))["keys"]["hours"], 1)

        # The runners of the same names
        self.master.run("schedule.add", "other", "function=test.arg", "cron=0 0 1 1 *")
        self.master.run("schedule.disable_job", "other")
        listed = self.master.run("schedule.list", "show_all=True", "return_yaml=False")
        self.assertFalse(listed["other"]["enabled"])
        self.assertNotIn("other", self.master.run("schedule.list", "show_disabled=False"))
        self.master.run("schedule.enable_job", "other")
        self.master.run("schedule.run_job", "other")
        until("the run", lambda: self.runs("runner.test.arg"))
        self.master.run("schedule.delete", "other")
        self.assertNotIn("other", json.loads(self.do("saltwisted schedule --json")))

    def test_once(self) -> None:
        """Receipts, and whether this node would claim."""
        self.master.run("event.send", "backup/wanted", '{"id": "web1"}')
        until("the receipt", lambda: "backup/wanted" in self.do("saltwisted receipts"))
        for line in self.lines("## Once"):
            if "members" not in line:
                self.do(line)

        self.assertFalse(self.master.run("reactor.is_leader"))
        found = json.loads(self.do("saltwisted receipts --event 'backup/*' --json"))
        self.assertEqual([each["event"] for each in found], ["backup/wanted"])
