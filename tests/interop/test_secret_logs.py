"""
T-LOG-1: with real daemons that log all they can, no log has what a marked state or job brings out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.test_nolog import CANARY, LOUD, OUTPUT
from tests.harness import OurMaster, OurMinion, scratch, until

SECRET = ("--metadata", "{no_log: true}")
SENDING = """
fired:
  event.send: [name: site/state, no_log: True, data: {pw: CANARY}]
called:
  module.run: [no_log: True, event.send: [tag: site/module, data: {pw: CANARY}]]
offered:
  module.run: [no_log: True, mine.send: [offered, mine_function: test.echo, text: CANARY]]
"""


class SecretLogTests(SynchronousTestCase):
    """One master and one minion at C{log_level: all}."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.master = OurMaster(
            self.home,
            log_level="all",
            peer={".*": ["test.*"]},
            peer_run={".*": ["test.arg", "event.send"]},
        )
        self.addCleanup(self.master.stop)
        sls = OUTPUT.replace("HOME", self.home)
        marked = sls.replace("MARK", ", no_log: true")
        for path, text in (
            ("plain.sls", sls.replace("MARK", "")),
            ("marked.sls", marked),
            ("sending.sls", SENDING.replace("CANARY", "{{ pillar['pw'] }}")),
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

    def test_T_LOG_1_sent(self) -> None:
        """
        T-LOG-1: nor is it in what they send (pains-next 2.19): events keep their tags and lose
        their texts, the mine stays as it is, what they publish or run is secret as well. No file
        of the master or the minion has it.
        """
        heard: list[dict[str, Any]] = []
        tags = {"site/job", "site/fire", "site/run", "site/state", "site/module"}
        with self.master.events() as events:
            for words in (
                ("event.send", "site/job", f"{{pw: {CANARY}}}", f"more={CANARY}"),
                ("event.fire_master", f"{{pw: {CANARY}}}", "site/fire"),
                ("mine.send", "sent", "mine_function=test.echo", f"text={CANARY}"),
                ("publish.publish", "ours", "test.echo", CANARY),
                ("publish.runner", "test.arg", CANARY),
                ("publish.runner", "event.send", f'["site/run", {{"pw": "{CANARY}"}}]'),
            ):
                self.assertNotIn(CANARY, self.salt(*words, *SECRET))
            self.salt("mine.send", "plain", "mine_function=test.echo", "text=shown")
            pillar = f"pillar={{pw: {CANARY}}}"
            self.assertNotIn(CANARY, self.salt("state.apply", "sending", pillar, *SECRET))
            until(
                "all events",
                lambda: heard.append(next(events)) or {each["tag"] for each in heard} >= tags,
            )

        self.assertEqual([each["tag"] for each in heard if CANARY in repr(each)], [])
        mine = {name: self.salt("mine.get", "*", name) for name in ("sent", "offered", "plain")}
        self.assertIn("shown", mine.pop("plain"))
        self.assertEqual(
            {name: "{}" in found for name, found in mine.items()}, dict.fromkeys(mine, True)
        )
        self.minion.stop()
        self.master.stop()
        files = [path for path in Path(self.home).rglob("*") if path.is_file()]
        self.assertEqual(
            [str(path) for path in files if CANARY.encode() in path.read_bytes()],
            [f"{self.home}/hidden"],
        )
