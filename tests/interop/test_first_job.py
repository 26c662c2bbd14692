"""The first job after a start of our master, or after an acceptance, with minions of stock Salt."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, StockMinion, needs_peers, scratch


@needs_peers
class FirstJobTests(SynchronousTestCase):
    """A stock minion of each of two series, whose sockets connect again after seconds."""

    def setUp(self) -> None:
        """Neither is accepted yet."""
        self.home = scratch(self)
        self.master = OurMaster(self.home)
        self.addCleanup(self.master.kill)
        self.master.up()
        slow = {"recon_default": 3000, "recon_max": 4000, "acceptance_wait_time": 3}
        self.minions = [
            StockMinion(self.home, version, self.master, **slow) for version in ("3006", "3008")
        ]
        for minion in self.minions:
            self.addCleanup(minion.kill)
            minion.up()

    def test_first_jobs(self) -> None:
        """
        At once after the acceptance, a state run reaches each of them, and so does one at once
        after a restart of the master; each runs once.
        """
        for minion in self.minions:
            self.master.accept(minion.id)
        self.run_everywhere("accepted")

        self.master.stop()
        self.master.up()
        self.run_everywhere("started")

        self.assertEqual(
            sorted(self.master.run("manage.alived")), sorted(each.id for each in self.minions)
        )

    def run_everywhere(self, word: str) -> None:
        """A state run on both; each writes a line."""
        path = os.path.join(self.home, word)
        done = self.master.salt("*", "state.single", "cmd.run", f"echo {word} >> {path}")

        self.assertEqual(sorted(done), sorted(minion.id for minion in self.minions))
        for found in done.values():
            self.assertEqual([each["result"] for each in found.values()], [True])
        with open(path) as handle:
            self.assertEqual(handle.read(), f"{word}\n" * len(self.minions))


class OurFirstJobTests(SynchronousTestCase):
    """A minion of ours."""

    def test_accepted(self) -> None:
        """A minion that waits to be accepted runs the job that follows its acceptance at once."""
        home = scratch(self)
        master = OurMaster(home)
        self.addCleanup(master.kill)
        master.up()
        minion = OurMinion(home, master, acceptance_wait_time=10)
        self.addCleanup(minion.kill)
        minion.up()
        master.accept(minion.id)

        self.assertEqual(master.salt(minion.id, "test.ping"), {minion.id: True})
