"""
C{salt.state}, C{salt.function}, C{salt.runner} ...: states that ask a master of ours to act.

They are applied by a minion on the master's machine; two minions are commanded.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, needs_peers, scratch, until

TREE = {
    "inner.sls": "changed: {test.succeed_with_changes: []}\n",
    "bad.sls": "wrong: {test.fail_without_changes: []}\n",
    "act.sls": """
all:
  salt.state: [{tgt: two}, {sls: inner}, {timeout: 60}]
failing:
  salt.state: [{tgt: 'L@two,three'}, {tgt_type: compound}, {sls: bad}, {timeout: 60}]
nobody:
  salt.state: [{tgt: none-such}, {sls: inner}, {timeout: 5}]
ping:
  salt.function: [{name: test.ping}, {tgt: '*'}]
argument:
  salt.function: [{name: test.arg}, {tgt: two}, {arg: [a]}, {kwarg: {b: 1}}]
batch:
  salt.function: [{name: test.ping}, {tgt: '*'}, {batch: 1}]
subset:
  salt.function: [{name: test.ping}, {tgt: '*'}, {subset: 1}]
broken:
  salt.function: [{name: no.such_function}, {tgt: two}]
runner:
  salt.runner: [{name: manage.up}]
runners:
  salt.parallel_runners:
    - runners:
        up: [{name: manage.up}]
        down: [{name: manage.down}]
wheel:
  salt.wheel: [{name: key.list_all}]
""",
}


@needs_peers
class SaltStateTests(SynchronousTestCase):
    """A master, and two minions of which one shares its configuration directory."""

    timeout = 240

    def setUp(self) -> None:
        home = scratch(self)
        self.master = OurMaster(home)
        self.addCleanup(self.master.kill)
        for name, text in TREE.items():
            with open(os.path.join(self.master.file_root, name), "w") as handle:
                handle.write(text)
        self.master.up()
        minions = [OurMinion(home, self.master, minion_id=name) for name in ("one", "two")]
        for minion in minions:
            self.addCleanup(minion.kill)
            shutil.copy(os.path.join(self.master.conf, "master"), minion.conf)
            minion.up()
            self.master.accept(minion.id)
        until(
            "both minions",
            lambda: self.master.salt("*", "test.ping", "--timeout=5") == {"one": True, "two": True},
        )

    def test_act(self) -> None:
        """States, functions, runners and wheel functions run, and their answers are told."""
        answer = self.master.salt("one", "state.apply", "act", "--timeout=120", seconds=200)

        self.assertIsInstance(answer["one"], dict, answer)
        found: dict[str, Any] = {ret["__id__"]: ret for ret in answer["one"].values()}
        results = {key: ret["result"] for key, ret in found.items()}
        self.assertEqual(
            {key for key, result in results.items() if not result},
            {"failing", "nobody", "broken"},
            {key: ret["comment"] for key, ret in found.items()},
        )
        self.assertEqual(list(found["all"]["changes"]["ret"]), ["two"])
        self.assertEqual(found["all"]["comment"], "States ran successfully. Updating two.")
        said, where = found["failing"]["comment"].splitlines()
        self.assertEqual(said, "Run failed on minions: two")
        self.assertIn(", retcode 2, first failed state wrong (test.fail_without_changes)", where)
        self.assertEqual(found["nobody"]["comment"], "No minions returned")
        for key, count in (("ping", 2), ("batch", 2), ("subset", 1)):
            self.assertEqual(list(found[key]["changes"]["ret"].values()), [True] * count, key)
        got = found["argument"]["changes"]["ret"]["two"]
        self.assertEqual((got["args"], got["kwargs"]["b"]), (["a"], 1))
        self.assertEqual(sorted(found["runner"]["changes"]["return"]), ["one", "two"])
        self.assertEqual(found["runners"]["changes"]["ret"], {"up": ["one", "two"], "down": []})
        self.assertEqual(sorted(found["wheel"]["changes"]["return"]["minions"]), ["one", "two"])
