"""
Orchestrations with a step that restarts stock minions.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, StockMinion, needs_peers, scratch

RESTARTS = 50 if os.environ.get("SALTWISTED_LONG") == "1" else 2
VERSIONS = ("3006", "3008")
SLS = """
restart: {salt.function: [{name: test.ping}, {tgt: {{ pillar['who'] }}}]}
back:
  salt.wait_for_event:
    - {name: 'salt/minion/*/start'}
    - {id_list: [{{ pillar['who'] }}]}
    - {timeout: 180}
    - {require: [{salt: restart}]}
after:
  salt.function:
    - {name: test.ping}
    - {tgt: {{ pillar['who'] }}}
    - {require: [{salt: back}]}
"""


@needs_peers
class RestartTests(SynchronousTestCase):
    """A master of ours, and stock minions that are restarted while a run goes on."""

    timeout = 3600

    def test_restarted(self) -> None:
        """
        A minion is restarted by a step, and its first event awaited by the next: the one after that
        reaches it, again and again. 50 times with C{--long}.
        """
        home = scratch(self)
        master = OurMaster(home, auto_accept=True, timeout=20)
        self.addCleanup(master.kill)
        with open(os.path.join(master.file_root, "restart.sls"), "w") as stream:
            stream.write(SLS)
        master.up()
        minions = [StockMinion(home, version, master) for version in VERSIONS]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
        for minion in minions:
            master.ping_until(minion.id)

        for turn in range(RESTARTS):
            minion = minions[turn % len(minions)]
            with master.events("saltwisted/orchestrate/") as events:
                who = f"pillar={{who: {minion.id}}}"
                words = ("--async", "state.orchestrate", "restart", who)
                master.command("salt-run", *words, check=True)
                told: list[tuple[str, object]] = []
                while not told or told[-1][0] != "end":
                    event = next(events)
                    told.append((event["tag"].rpartition("/")[2], event["data"].get("result")))
                    if len(told) == 2:
                        minion.kill()
                        minion.up()
            self.assertEqual(
                told,
                [*([("step", None), ("result", True)] * 3), ("end", None)],
                (turn, minion.id, master.tail()),
            )
