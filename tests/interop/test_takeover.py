"""
Stopping a stock salt-master and starting ours on its configuration, keys and ports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import Daemon, StockMaster, StockMinion, needs_peers, scratch, twistd, until


@needs_peers
class TakeoverTests(SynchronousTestCase):
    """The first thing that anyone will try."""

    def test_same_minions_answer(self) -> None:
        """Minions of a stock master answer ours, untouched, and the stock one when it is back."""
        for version in ("3006", "3008"):
            home = scratch(self)
            stock = StockMaster(home, version)
            self.addCleanup(stock.kill)
            stock.up()
            minions = [StockMinion(home, peer, stock) for peer in ("3006", "3008")]
            for minion in minions:
                self.addCleanup(minion.kill)
                minion.up()
                stock.accept(minion.id)
            expected = {minion.id: True for minion in minions}
            until("stock's answers", lambda s=stock, e=expected: self.pinged(s) == e)
            pids = [minion.pid for minion in minions]
            stock.kill(15)
            ours = Daemon(
                "ours",
                [
                    *twistd(), "--nodaemon", "--pidfile=", "saltwisted", "--role", "master",
                    "--config", stock.conf,
                ],
                stock.root,
            )  # fmt: skip
            self.addCleanup(ours.kill)
            ours.start()
            ours.wait_for_line("serving on ports")

            until("our answers", lambda s=stock, e=expected: self.ours(s) == e)

            self.assertEqual([minion.pid for minion in minions if minion.running], pids)
            ours.kill(15)
            stock.up()
            until("stock's answers again", lambda s=stock, e=expected: self.pinged(s) == e)
            for minion in minions:
                minion.kill()
            stock.kill()

    def pinged(self, stock: StockMaster) -> Any:
        """Who answers the stock command."""
        done = stock.command("salt", "-t", "5", "*", "test.ping", "--out", "json", "--static")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def ours(self, stock: StockMaster) -> Any:
        """Who answers our command on the stock master's configuration."""
        done = subprocess.run(
            [
                sys.executable, "-m", "saltwisted.cli.main", "salt", "-c", stock.conf, "-t", "5",
                "*", "test.ping", "--out", "json", "--static",
            ],
            capture_output=True, text=True, timeout=60, check=False, cwd=stock.root,
        )  # fmt: skip
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None
