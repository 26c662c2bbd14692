"""
Salt's options for several masters, a table: stock minions and ours under three masters of ours.

Each row is a minion that must answer, and answer another master after one was killed. Short,
each row has one stock version and ours; with C{SALTWISTED_LONG=1} all versions.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMinion, StockMinion, needs_peers, scratch, until, write_config
from tests.interop.masters import HOSTS, Masters, answers

LONG = os.environ.get("SALTWISTED_LONG") == "1"
PATIENCE = 300 if LONG else 90
VERSIONS = ("3006", "3007", "3008")
ALIVE = {"master_type": "failover", "master_alive_interval": 5, "retry_dns": 0}

TABLE: dict[str, dict[str, Any]] = {
    "shuffle": {**ALIVE, "master_shuffle": True},
    "random": {**ALIVE, "random_master": True, "master_tries": -1},
    "home": {**ALIVE, "master_failback": True, "master_failback_interval": 5},
    "patient": {
        "master_tries": -1,
        "auth_tries": 20,
        "auth_timeout": 3,
        "retry_dns": 1,
        "random_reauth_delay": 1,
        "ping_interval": 1,
    },
    "keepalive": {"tcp_keepalive_idle": 5, "tcp_keepalive_cnt": 2, "tcp_keepalive_intvl": 2},
    "func": {**ALIVE, "master": "who.leads", "master_type": "func"},
    "distributed": {"master_type": "distributed"},
}
SHORT = {
    "shuffle": "3006",
    "random": "3008",
    "home": "3008",
    "patient": "3008",
    "keepalive": "3006",
    "func": "3007",
}
"""The stock version of a row when time is short; C{distributed} raises in all of them."""
STUCK = {"shuffle-3007"}
"""
Not asked: 3007 with a plain list, and sometimes with a shuffled one, waits for a dead master with
every return that it owes that one, or sets itself up again for the one that it has just left; it
may then be silent for minutes.
"""


@needs_peers
class TableTests(SynchronousTestCase):
    """All rows at once."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.masters = Masters(self.home, gather_job_timeout=1).up()
        self.addCleanup(self.masters.kill)
        self.minions: dict[str, Any] = {}

    def start(self, kind: str, name: str, options: dict[str, Any]) -> None:
        """One minion of a row."""
        master = self.masters[0]
        minion: Any = (
            OurMinion(self.home, master, name)
            if kind == "ours"
            else StockMinion(self.home, kind, master, name)
        )
        settings = {"master": list(HOSTS), **options}
        if settings["master"] == "who.leads":
            folder = os.path.join(minion.root, "var/cache/salt/minion/extmods/modules")
            os.makedirs(folder, mode=0o700)
            with open(os.path.join(folder, "who.py"), "w") as handle:
                handle.write(f"def leads():\n    return {list(HOSTS)!r}\n")
        write_config(os.path.join(minion.conf, "minion.d", "row.conf"), settings)
        self.addCleanup(minion.kill)
        self.minions[name] = minion.up()

    def answer(self, masters: list[Any], seconds: float) -> None:
        """Each minion answers one of these masters at least."""
        silent = set(self.minions)

        def all_did() -> bool:
            for name in sorted(silent):
                if any(answers(master, name, wait=1) for master in masters):
                    silent.discard(name)
            return not silent

        try:
            until("all rows to answer", all_did, seconds, every=0.5)
        except AssertionError as error:
            logs = "\n".join(f"-- {n}\n{self.minions[n].tail(12)}" for n in sorted(silent))
            raise AssertionError(f"{error}: not {sorted(silent)}\n{logs}") from None

    def test_options(self) -> None:
        """Every row answers, and answers again when one master has been killed, and the next."""
        for row, options in TABLE.items():
            stock = VERSIONS if LONG else (SHORT.get(row, ""),)
            for kind in ("ours", *(stock if row in SHORT else ())):
                if f"{row}-{kind}" not in STUCK:
                    self.start(kind, f"{row}-{kind}", options)
        alone = OurMinion(self.home, self.masters[0], "alone")
        write_config(os.path.join(alone.conf, "minion.d", "row.conf"), {"master_type": "disable"})
        self.addCleanup(alone.kill)
        alone.up()
        one, two, three = self.masters.all

        self.answer([one, two, three], 120)
        one.kill()
        self.answer([two, three], PATIENCE)
        one.up()
        two.kill()
        self.answer([one, three], PATIENCE)

        for minion in self.minions.values():
            self.assertTrue(minion.running, minion.tail())
        self.assertTrue(alone.running, alone.tail())
        self.assertNotIn("alone", os.listdir(os.path.join(self.masters.pki, "minions")))
