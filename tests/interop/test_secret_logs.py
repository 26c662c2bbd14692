"""
T-LOG-1: with real daemons that log all they can, no log has what a marked state or job brings out.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.test_nolog import CANARY, LOUD, OUTPUT
from tests.harness import OurMaster, OurMinion, scratch

SECRET = ("--metadata", "{no_log: true}")


class SecretLogTests(SynchronousTestCase):
    """One master and one minion at C{log_level: all}."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.master = OurMaster(self.home, log_level="all")
        self.addCleanup(self.master.stop)
        sls = OUTPUT.replace("HOME", self.home)
        marked = sls.replace("MARK", ", no_log: true")
        for path, text in (
            ("plain.sls", sls.replace("MARK", "")),
            ("marked.sls", marked),
            ("_states/loud.py", LOUD),
        ):
            path = os.path.join(self.master.file_root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(f"{self.home}/hidden", "w", encoding="utf-8") as file:
            file.write(f"{CANARY}\n")
        self.master.up()
        self.minion = OurMinion(self.home, self.master, log_level="all", state_max_parallel=1)
        self.minion.up()
        self.addCleanup(self.minion.stop)
        self.master.accept(self.minion.id)
        self.master.ping_until(self.minion.id)
        self.salt("saltutil.sync_states")

    def salt(self, *words: str) -> Any:
        """What the minion answers to a command."""
        done = self.master.command("salt", "--out=json", "--static", self.minion.id, *words)
        self.assertTrue(done.stdout.startswith("{"), done.stderr + done.stdout)
        return done.stdout

    def test_T_LOG_1_logs(self) -> None:
        """
        States that fail and succeed, in the job's process and in their own, and jobs, with secrets
        as arguments and as output; there is the word in its place, and without the mark the secret.
        """
        self.assertNotIn(CANARY, self.salt("state.apply", "marked"))
        cat = f"cat {self.home}/hidden"
        for words in (
            ("cmd.run", f"{cat}; false"),
            ("cmd.run", cat),
            ("cmd.run_all", f"echo {CANARY}; exit 3"),
            ("test.echo", CANARY),
            ("test.echo", CANARY, f"{CANARY}=1"),
            ("state.apply", "plain"),
            ("state.single", "cmd.run", f"name={cat}; false"),
            ("test.nosuch", CANARY),
            ("loud.nosuch",),
        ):
            self.assertNotIn(CANARY, self.salt(*words, *SECRET))
        self.minion.wait_for_line("what is logged of it is not shown", times=20)

        for daemon in (self.minion, self.master):
            lines = [line for line in daemon.text().splitlines() if CANARY in line]
            self.assertEqual(lines, [], daemon.name)
        for state in ("shown", "well", "beside", "beside2", "unlike", "checked", "loud", "late"):
            self.assertIn(f"(the state {state} is secret", self.minion.text())
        self.assertRegex(self.minion.text(), r"\(the job \d+ is secret")
        self.salt("state.apply", "plain")
        self.minion.wait_for_line(f"stdout: {CANARY}", times=3)
