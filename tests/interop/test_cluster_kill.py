"""
The kill test of a cluster: see L{tests.interop.storm}.

For a minute, for five with C{SALTWISTED_LONG=1}, or for C{SALTWISTED_STORM} seconds;
C{SALTWISTED_SEED} repeats the blows of another run. As root the nodes are on hosts of their own
and their network is cut, too.
"""

from __future__ import annotations

import os

from tests.harness import needs_peers
from tests.interop.network import Hub
from tests.interop.storm import SECONDS, Storm

FLEET = int(os.environ.get("SALTWISTED_FLEET", "300"))


@needs_peers
class KillTests(Storm):
    """Three hundred minions of the load generator, a stock 3006, a stock 3008, and ours."""

    def test_kill_stop_and_cut(self) -> None:
        """No return is lost and no job runs twice while nodes are killed, stopped and cut off."""
        if os.geteuid() == 0:
            self.hub = Hub(3)
            self.addCleanup(self.hub.remove)
            self.hub.route()
            self.blows = ("kill", "kill", "stop", "stop", "drop", "part")
        self.begin()
        self.minion("3006", "stock-3006")
        self.minion("3008", "stock-3008")
        self.minion("ours", "ours-failover", master_type="failover")
        self.minion("ours", "ours-all")
        self.fleet(FLEET // 2, master_type="failover")
        self.fleet(FLEET - FLEET // 2)
        self.accept()
        self.judge(SECONDS)
