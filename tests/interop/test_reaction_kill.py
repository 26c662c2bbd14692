"""
Reactions while nodes are killed, stopped and cut off: see L{tests.interop.reactions}.

Three nodes and minions that know all three: a stock 3006 and a stock 3008 in hot mode where there
are any, and one of ours. For a minute with stock minions, for ten with C{SALTWISTED_LONG=1}, else
for C{SALTWISTED_STORM} seconds; C{SALTWISTED_SEED} repeats the blows of another run. As root the
nodes are on hosts of their own and their network is cut, too.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from tests.cluster.real import OurNode, let_all_vote
from tests.harness import PEERS, scratch, until, write_config
from tests.interop.network import Hub
from tests.interop.reactions import KINDS, Ear, Judgement, done_at, fired_at, lay_out
from tests.interop.storm import LONG, Storm

SECONDS = float(os.environ.get("SALTWISTED_STORM", "600" if LONG else "60" if PEERS else "25"))
PACE = 0.4
"""Seconds between two events of a minion."""
WINDOW = 10
"""C{publish_window}: longer than a term, and members vote soon after they have joined."""
LOST = re.compile(r"no reaction to event (storm/\S+):")


def receipt(tag: str, number: int, begun: float, result: str = "done") -> dict[str, Any]:
    """One that a judgement is told of."""
    return {
        "event": tag,
        "key": f"event/x/{number}",
        "begun": begun,
        "ended": begun + 1 if result else None,
        "result": result,
    }


class JudgementTests(SynchronousTestCase):
    """The judge is not blind."""

    def judged(
        self, tag: str, times: int, receipts: Sequence[dict[str, Any]], lost: bool = False
    ) -> set[str]:
        """What is wrong with one event that a node has had."""
        judgement = Judgement(
            fired={tag: True},
            done=Counter({tag: times} if times else {}),
            heard={tag},
            lost={tag} if lost else set(),
            receipts=receipts,
        )
        return set(judgement.wrong())

    def test_well(self) -> None:
        """What was done once, or lost with a word, or done again by right, is well."""
        for tag, times, receipts, lost in (
            ("storm/caller-most/m/1", 1, [receipt("storm/caller-most/m/1", 1, 0)], False),
            ("storm/caller-most/m/1", 0, [receipt("storm/caller-most/m/1", 1, 0, "lost")], True),
            ("storm/caller-least/m/1", 2, [receipt("storm/caller-least/m/1", 1, 0)], False),
            ("storm/local/m/1", 0, [receipt("storm/local/m/1", 1, 0, "published 1")], False),
        ):
            self.assertEqual(self.judged(tag, times, receipts, lost), set(), tag)

    def test_twice(self) -> None:
        """Twice is wrong, by one claim or by two, unless a copy came more than a minute late."""
        tag = "storm/caller-most/m/1"
        one = receipt(tag, 1, 0)
        self.assertEqual(self.judged(tag, 2, [one]), {"done twice"})
        self.assertEqual(self.judged(tag, 2, [one, receipt(tag, 2, 5)]), {"done twice"})
        self.assertEqual(self.judged(tag, 2, [one, receipt(tag, 2, 40)]), {"done twice"})
        self.assertEqual(self.judged(tag, 2, [one, receipt(tag, 2, 80)]), set())

    def test_never(self) -> None:
        """What had to be done and was not is wrong, also if it is said."""
        tag = "storm/runner-least/m/1"
        self.assertEqual(self.judged(tag, 0, [], lost=True), {"never done"})
        self.assertEqual(self.judged(tag, 0, []), {"never done", "lost without a word"})

    def test_receipts(self) -> None:
        """What was done has a receipt with an end, and what is said to be done was done."""
        tag = "storm/caller-most/m/1"
        self.assertEqual(self.judged(tag, 1, []), {"receipts"})
        self.assertEqual(self.judged(tag, 1, [receipt(tag, 1, 0, "")]), {"receipts"})
        said = {"receipts", "lost without a word"}
        self.assertEqual(self.judged(tag, 0, [receipt(tag, 1, 0)]), said)


class ReactionKillTests(Storm):
    """Each event comes to all nodes that live, and is reacted to by one."""

    maxDiff = None

    log = Logger()

    def test_kill_stop_and_cut(self) -> None:
        """
        Nothing that may be done once at most is done twice, what has to be done at least once is
        done, each loss is said, and the receipts agree with what was done.
        """
        if os.geteuid() == 0:
            self.hub = Hub(3)
            self.addCleanup(self.hub.remove)
            self.hub.route()
            self.blows = ("kill", "kill", "stop", "stop", "drop", "part")
        self.begin()
        self.ears = [Ear(node.socket_path) for node in self.nodes]
        for ear in self.ears:
            self.addCleanup(ear.over.set)
            ear.start()
        self.fire()

        self.rage(SECONDS, lambda living: None)

        with open(f"{self.place}/stop", "w"):
            pass
        judgement = self.judgement()
        self.log.info("{figures}", figures=judgement.figures())
        told = "\n".join(self.story)
        self.assertEqual(judgement.wrong(), {}, f"{judgement.figures()}\n{told}")
        # Else nothing was tried
        figures = judgement.figures()
        self.assertGreater(figures["done"], figures["fired"] / 2, f"{figures}\n{told}")

    def begin(self, **options: Any) -> None:
        """Nodes that all vote, each with a minion beside it, and minions that know them all."""
        self.place = scratch(self)
        reactor = lay_out(self.place, "ours")
        super().begin(reactor=reactor, publish_window=WINDOW, **options)
        let_all_vote(self.nodes)
        for node in self.nodes:
            write_config(
                os.path.join(node.conf, "minion"),
                {"id": node.name, "root_dir": node.root, "file_client": "local"},
            )
        modules = {"module_dirs": [f"{self.place}/modules"]}
        self.minion("ours", "ours", **modules)
        for version in ("3006", "3008") if PEERS else ():
            self.minion(version, f"stock-{version}", **modules)
        self.accept()

    def fire(self) -> None:
        """Have all minions fire events, until they are told to stop."""
        with self.nodes[0].control() as client:
            for name in self.minions:
                client.call("publish", tgt=name, fun="storm.go", arg=[self.place, KINDS, PACE])
        for name in self.minions:
            path = f"{self.place}/fired-{name}"
            until(f"events of {name}", lambda path=path: os.path.exists(path))

    def judgement(self) -> Judgement:
        """When nothing goes on any more."""
        until("the reactions to end", lambda: all(map(self.is_idle, self.nodes)))
        receipts: list[dict[str, Any]] = []

        def all_ended() -> bool:
            receipts[:] = self.receipts(self.nodes[0])
            return all(row["ended"] for row in receipts)

        try:
            until("what was begun to end", all_ended)
        except AssertionError:
            # What follows says which has not
            self.assertNotEqual(receipts, [])
        found = self.compared(receipts)
        heard = {tag for ear in self.ears for tag in ear.heard}
        lost = {tag for ear in self.ears for tag in ear.lost}
        lost.update(tag for node in self.nodes for tag in LOST.findall(node.text()))
        return Judgement(
            fired=fired_at(self.place, self.minions),
            done=done_at(self.place),
            heard=heard,
            lost=lost,
            receipts=found,
        )

    def compared(self, receipts: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The receipts, if all nodes show the same."""
        for node in self.nodes[1:]:
            self.assertEqual(self.receipts(node), receipts, f"{node.name} shows others")
        return receipts

    def receipts(self, node: OurNode) -> list[dict[str, Any]]:
        """Those of a node."""
        with ControlClient(path=node.socket_path) as client:
            found: list[dict[str, Any]] = client.call("receipts", event="storm/*", limit=10_000)
        return found

    def is_idle(self, node: OurNode) -> bool:
        """Whether its reactor has nothing to do."""
        client = ControlClient(path=node.socket_path, timeout=5.0)
        try:
            said = client.call("automation.status")
        except (TransportClosed, RemoteError, TimeoutError):
            return False
        finally:
            client.close()
        return not said["depth"] and not said["running"]
