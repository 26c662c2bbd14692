"""
Real nodes: one is killed in a reaction, before the first and after the last thing that it does.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.worker.control import ControlClient
from tests.cluster.dying import DONE, GRANTED
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMinion, scratch, until, write_config

SLS = """
job:
  local.cmd.run:
    - tgt: ours
    - args:
        cmd: echo job {{ tag }} >> MARKS
run-ONCE:
  runner.salt.execute:
    - args:
        tgt: ours
        fun: cmd.run
        arg: ["echo runner-ONCE {{ tag }} >> MARKS"]
call-ONCE:
  caller.cmd.run:
    - args:
        cmd: echo caller-ONCE {{ tag }} >> MARKS
turn-ONCE:
  wheel.key.list_all: []
"""
"""One for each choice; the job is in the first alone."""


class Dying(TestCase):
    """Nodes, each with a minion beside it, and a minion of ours that knows them all."""

    timeout = 900

    def begin(self, names: str, **options: Any) -> None:
        """Reactions of each type, of both choices; the nodes may claim."""
        self.place = scratch(self)
        self.marks = f"{self.place}/marks"
        entries: list[Any] = []
        for once in ("at_most", "at_least"):
            path = f"{self.place}/{once}.sls"
            text = SLS.replace("ONCE", once).replace("MARKS", self.marks)
            if once == "at_least":
                text = text[text.index("run-") :]
            with open(path, "w") as stream:
                stream.write(text)
            entries.append({"dying/*": {"sls": path, "once": once}})
        self.made = nodes(self, names, reactor=entries, publish_window=15, **options)
        for node in self.made:
            command = node.argv.index("-c")
            node.argv[command : command + 2] = ["-m", "tests.cluster.dying"]
            node.env["DYING"] = self.place
            write_config(
                os.path.join(node.conf, "minion"),
                {"id": node.name, "root_dir": node.root, "file_client": "local"},
            )
        join_all(self.made)
        if "claims" in options:
            for node in self.made:
                until(f"{node.name} to claim", lambda node=node: node.run("reactor.is_leader"))
        else:
            let_all_vote(self.made)
        self.minion = OurMinion(self.place, self.made[0])
        write_config(
            os.path.join(self.minion.conf, "minion.d", "many.conf"),
            {"master": [node.address for node in self.made]},
        )
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.made[0].accept("ours")
        for node in self.made:
            node.ping_until("ours")

    def die(self, moment: str, tag: str) -> tuple[Counter[str], list[Any]]:
        """
        Whoever reacts to this event dies at this moment; what was done, and what the others said of
        it, when that has an end. Then he is back.
        """
        guard = f"{self.place}/{moment}"
        with open(guard, "w"):
            pass
        lost: list[Any] = []
        client = ControlClient(path=self.made[0].socket_path)
        client.call("fire_event", tag=tag, data={})
        client.close()
        until("a node to take it", lambda: not os.path.exists(guard))
        dead = self.made[0]
        until("its death", lambda: not dead.running)
        dead.kill()
        living = self.made[1:]
        until("the end", lambda: self.ended(living[0], tag))

        for node in living:
            lost += [
                line for line in node.text().splitlines() if f"no reaction to event {tag}:" in line
            ]
        with open(self.marks) as stream:
            done = Counter(line.split()[0] for line in stream if line.split()[1] == tag)
        return done, lost

    def ended(self, node: OurNode, tag: str) -> bool:
        """Whether all that was claimed for an event has an end."""
        rows = self.receipts(node, tag)
        return bool(rows) and all(row["ended"] for row in rows)

    def receipts(self, node: OurNode, tag: str) -> list[dict[str, Any]]:
        """What a node shows of an event."""
        shown = node.command("receipts", "--event", tag, "--json", check=True).stdout
        rows: list[dict[str, Any]] = json.loads(shown)
        return rows

    def die_twice(self) -> None:
        """One node is killed before the first, is started again, and killed after the last."""
        done, lost = self.die(GRANTED, "dying/first")

        self.assertEqual(done, {"job": 1, "runner-at_least": 1, "caller-at_least": 1})
        self.assertNotEqual(lost, [])
        self.assertEqual(self.words("dying/first"), {"lost": 3, "done": 3, "published": 1})

        self.made[0].up()
        done, lost = self.die(DONE, "dying/second")

        expected = {"job": 1, "runner-at_most": 1, "caller-at_most": 1}
        self.assertEqual(done, {**expected, "runner-at_least": 2, "caller-at_least": 2})
        self.assertNotEqual(lost, [])
        self.assertEqual(self.words("dying/second"), {"lost": 3, "done": 3, "published": 1})

    def words(self, tag: str) -> Counter[str]:
        """What the receipt says of each step, by its first word."""
        rows = self.receipts(self.made[1], tag)
        self.assertEqual(len({row["key"] for row in rows}), 1, rows)
        (result,) = {row["result"] for row in rows}
        return Counter(each.split()[0] for each in result.split("; "))


class DyingTests(Dying):
    """Three nodes that vote."""

    def test_dies_in_it(self) -> None:
        """
        Killed before the first: the job is published by another node under its jid, what may be
        repeated is done, the rest is said as lost. Killed after the last: the minion runs the job
        no second time, what may be repeated is done again, the rest was done and is said as lost.
        """
        self.begin("a b c")
        self.die_twice()
