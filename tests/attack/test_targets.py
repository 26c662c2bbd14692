"""
A minion asks for the mine with a regular expression that takes for ever.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import zmq
from twisted.trial.unittest import SynchronousTestCase

from tests.attack.fleet import WireMinion, put_key
from tests.harness import OurMaster, scratch

VICTIM = "a" * 60 + "-b"
"""An id on which C{(a+)+$} has more ways to fail than there are atoms."""


class ForEver(SynchronousTestCase):
    """Others are served meanwhile."""

    def setUp(self) -> None:
        home = scratch(self)
        self.master = OurMaster(home)
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)
        for name in (VICTIM, "web1", "web2"):
            put_key(self.master.pki, name)
        self.addCleanup(self.master.kill)
        self.master.up()

    def minion(self, name: str) -> WireMinion:
        """One that has signed in."""
        minion = WireMinion(self.context, self.master.ret_port, name)
        minion.sign_in()
        self.addCleanup(minion.asker.close)
        return minion

    def test_regular_expression(self) -> None:
        """It is given up after seconds, and nobody else waits for it."""
        evil, good = self.minion(VICTIM), self.minion("web1")
        evil.ask("_mine", data={"x": 1})
        good.ask("_mine", data={"x": 2})
        answers: list[Any] = []

        def attack() -> None:
            answers.append(
                evil.ask(
                    "_mine_get", 60.0, tgt="(a+)+$", tgt_type="pcre", fun="x", expr_form="pcre"
                )
            )

        attacking = threading.Thread(target=attack)
        attacking.start()
        self.addCleanup(attacking.join, 90)
        waits = []
        while attacking.is_alive():
            asked = time.monotonic()
            found = good.ask("_mine_get", tgt="web*", tgt_type="glob", fun="x")
            waits.append(time.monotonic() - asked)
            self.assertEqual(found, {"web1": 2})
        attacking.join()

        self.assertEqual(answers, [{}])
        self.assertGreater(len(waits), 10)
        client = self.master.control()
        self.addCleanup(client.close)
        # Seconds in the reactor would show here, whatever else the machine does
        self.assertLess(client.call("status")["latency"]["callback_cpu_max_ms"], 1000)
        self.assertIn("takes too long to match", self.log())

    def log(self) -> str:
        """What the master wrote, wherever it writes it."""
        path = os.path.join(self.master.root, "var/log/salt/master")
        text = self.master.text()
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                text += handle.read()
        return text
