"""
Somebody pushes a pillar file that does not render: who is told, and what a minion gets.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.gitrepos import ENVIRON, Repo
from tests.harness import OurMaster, OurMinion, scratch, until, write_config

STATE = """
{{ pillar['out'] }}:
  file.managed: [{contents: "{{ pillar['word'] }}"}]
"""


class BrokenPillarTests(SynchronousTestCase):
    """A master and a minion of ours, with a pillar from git."""

    def setUp(self) -> None:
        """Start them."""
        self.home = scratch(self)
        self.repo = Repo(os.path.join(self.home, "pillar"))
        self.out = os.path.join(self.home, "out")
        self.push("word: one")
        self.master = OurMaster(
            self.home,
            auto_accept=True,
            ext_pillar=[{"git": [f"master {self.repo.url}"]}],
            git_pillar_update_interval=0,
        )
        self.master.env.update(ENVIRON)
        with open(os.path.join(self.master.file_root, "it.sls"), "w") as file:
            file.write(STATE)
        self.addCleanup(self.master.kill)
        self.master.up()
        minion = OurMinion(self.home, self.master)
        self.addCleanup(minion.kill)
        minion.up()
        self.master.ping_until("ours")

    def push(self, text: str) -> None:
        """Another commit."""
        files = {"top.sls": "base: {'*': [it]}\n", "it.sls": f"{text}\nout: {self.out}\n"}
        self.repo.commit({path: text.encode() for path, text in files.items()})

    def fetched(self, text: str) -> None:
        """Another commit, which the master has."""
        self.push(text)
        self.master.run("git_pillar.update")

    def states(self) -> Any:
        """What a state run says: the results, or why there is none."""
        found = self.master.salt("ours", "state.apply", "it")["ours"]
        return [each["result"] for each in found.values()] if isinstance(found, dict) else found

    def written(self) -> str:
        """What the state has written."""
        with open(self.out) as file:
            return file.read().strip()

    def said(self, command: str) -> str:
        """What an operator is told."""
        return self.master.command(command).stdout

    def test_pushed(self) -> None:
        """
        By default the minion runs no states, as in Salt, and C{status} and C{doctor} say why. With
        C{pillar_last_good}, which counts from a reload on, it goes on with its last good pillar,
        and they say so; the next good commit ends it (pains-next 3.5).
        """
        self.assertEqual((self.states(), self.written()), ([True], "one"))
        self.fetched("word: {{ nothing.at.all }}")
        refused = self.states()
        self.assertIn("Rendering SLS 'it' failed", str(refused))
        wrong = "the pillar of ours has errors (git_pillar: Rendering SLS 'it' failed"
        for command in ("status", "doctor"):
            self.assertIn(wrong, self.said(command))
        self.assertIn("pillar of ours: git_pillar: Rendering SLS 'it' failed", self.master.text())

        write_config(os.path.join(self.master.conf, "master.d/p.conf"), {"pillar_last_good": True})
        os.kill(self.master.pid, signal.SIGHUP)
        until("the reload", lambda: "changed: pillar_last_good" in self.master.text())
        self.fetched("word: two")
        self.assertEqual((self.states(), self.written()), ([True], "two"))
        self.assertNotIn("pillar of ours", self.said("status"))
        self.fetched("word: {{ nothing.at.all }}")
        os.unlink(self.out)
        self.assertEqual((self.states(), self.written()), ([True], "two"))
        self.assertIn("its last good pillar is served", self.said("status"))
        shown = self.master.run("pillar.show_pillar", "ours")
        self.assertIn("Rendering SLS 'it' failed", str(shown["_errors"]))
        self.fetched("word: three")
        self.assertEqual((self.states(), self.written()), ([True], "three"))
        self.assertNotIn("pillar of ours", self.said("status"))
