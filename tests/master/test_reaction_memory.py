"""
What reactions leave behind in a master: nothing, once what is remembered for a while is full.

With C{SALTWISTED_LONG=1} a real master reacts a hundred thousand times, and its memory is measured.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.domain import secrecy
from saltwisted.domain.reactions import chains
from saltwisted.master import loneclaims
from tests.harness import OurMaster, scratch, until
from tests.master.reacting import Reacting
from tests.master.rig import RigMinion

LONG = os.environ.get("SALTWISTED_LONG") == "1"
SLS = {
    "wheel": "r:\n  wheel.key.list_all: []\n",
    "runner": "r:\n  runner.test.arg:\n    - args:\n      - i: {{ data['i'] }}\n",
    "local": "r:\n  local.test.arg:\n    - tgt: m1\n    - args:\n      - i: {{ data['i'] }}\n",
}
FULL = 50
"""What is remembered at most here, of each kind: so that it is full soon."""
MEBIBYTE = 1024 * 1024


def objects() -> Counter[str]:
    """What there is, by kind."""
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())


def pieces() -> int:
    """How many pieces of memory Python has given out, for texts and numbers too."""
    gc.collect()
    return sys.getallocatedblocks()


class KeptTests(SynchronousTestCase):
    """A master without sockets, which remembers little."""

    def setUp(self) -> None:
        """What is remembered for a while is full soon."""
        self.patch(loneclaims, "MAX_RECEIPTS", FULL)
        self.patch(loneclaims, "MOST_REMEMBERED", FULL)
        self.patch(secrecy, "MOST_KNOWN", FULL)
        self.patch(chains.Chains.__init__, "__defaults__", (FULL,))

    def test_nothing_is_kept(self) -> None:
        """After some hundred reactions of a type, hundreds more leave no object (pains 1.4)."""
        for kind, sls in SLS.items():
            made = Reacting(self, [{"t": "@s.sls"}], {"s.sls": sls})
            RigMinion(made.rig, "m1").accepted()
            self.react(made, 2 * FULL)
            before, _ = objects(), pieces()
            # What is made once, of the looking too, is there by now
            self.react(made, 4 * FULL)
            given = pieces()

            self.react(made, 4 * FULL)

            more, left = pieces() - given, objects() - before
            self.assertEqual(made.reactor.status()["figures"], {"reacted": 10 * FULL}, kind)
            self.assertLess(sum(left.values()), 4 * FULL, (kind, left.most_common(5)))
            self.assertLess(more, 4 * FULL, (kind, left.most_common(5)))

    def react(self, made: Reacting, times: int) -> None:
        """So many events, each reacted to; what the rig writes down for tests is forgotten."""
        rig = made.rig
        for number in range(times):
            rig.bus.fire("t", {"i": number, "id": "m1"}, sender="m1")
            if not number % 20:
                made.turn(1.0)
        made.turn()
        made.turn(60.0)
        for each in (rig.events, rig.publications.sent, rig.jobs.loads, rig.jobs.kept):
            each.clear()
        rig.jobs._came.clear()
        made.workers.calls.clear()


class GrowthTests(SynchronousTestCase):
    """A real master."""

    def test_growth(self) -> None:
        """After the first ten thousand reactions a hundred thousand more take 5 MiB (pains 1.4)."""
        if not LONG:
            raise SkipTest("SALTWISTED_LONG is not set: 110 000 reactions")
        home = scratch(self)
        path = os.path.join(home, "s.sls")
        with open(path, "w") as handle:
            handle.write(SLS["wheel"])
        master = OurMaster(home, reactor=[{"t": [path]}], log_level="warning")
        self.addCleanup(master.kill)
        master.up()
        client = master.control()
        self.addCleanup(client.close)

        def done() -> int:
            return int(client.call("status")["reactor"]["figures"].get("reacted", 0))

        def fire(upto: int) -> int:
            for number in range(done(), upto):
                client.call("runner", fun="event.send", arg=["t", {"i": number}], keep=False)
            until("all reactions", lambda: done() == upto)
            return resident(master.pid)

        first = fire(10_000)
        last = fire(110_000)

        self.assertLess(last - first, 5 * MEBIBYTE, f"{first} {last}")


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    with open(f"/proc/{pid}/statm") as handle:
        return int(handle.read().split()[1]) * os.sysconf("SC_PAGESIZE")
