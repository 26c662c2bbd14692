"""
The process of an orchestration: what it tells of its steps, and how it goes on with a run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.highstate.words import tag_of
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.orchestration.acts import Acts, Publishing
from saltwisted.worker.orchestration.work import digest, surroundings, value
from tests.harness import scratch

JID = "20260101000000000000"
SLS = """
one:
  cmd.run: [{name: 'echo one >> MARKS'}]
two:
  cmd.run: [{name: 'echo two >> MARKS; exit {{ pillar.get("code", 0) }}'}, {require: [{cmd: one}]}]
three:
  cmd.run: [{name: 'echo three >> MARKS'}, {require: [{cmd: two}]}]
four:
  test.succeed_without_changes: [{retry: {attempts: 2, interval: 0, until: false}}]
"""


class FakeMaster(ControlClient):
    """Keeps what it is told; has results of steps that have ended before."""

    def __init__(self) -> None:
        super().__init__(path="/nowhere")
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.results: dict[int, Any] = {}

    def call(self, op: str, /, **args: Any) -> Any:
        """Note it, and answer."""
        self.told.append((op, args))
        if op != "step_begin":
            return None
        return {"jid": f"{JID[:-2]}{len(self.told):02}", "result": self.results.get(args["number"])}


class WorkTests(SynchronousTestCase):
    """Runs of states of the master itself, without any other process."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.marks = os.path.join(self.home, "marks")
        root = os.path.join(self.home, "salt")
        for name, text in {"it.sls": SLS, "bad.sls": "it: [}\n"}.items():
            os.makedirs(root, exist_ok=True)
            with open(os.path.join(root, name), "w") as handle:
                handle.write(text.replace("MARKS", self.marks))
        config = MasterConfig(
            id="the_master",
            root_dir=self.home,
            cachedir=os.path.join(self.home, "cache"),
            file_roots={"base": [root]},
            pillar_roots={"base": []},
            extension_modules=os.path.join(self.home, "extmods"),
        )
        self.opts = {**config.as_opts(), "state_events": False}
        self.master = FakeMaster()

    def run_it(self, do: str = "sls", *arg: Any, **more: Any) -> Any:
        """One run."""
        kwarg = {"saltenv": "base", "__pub_jid": JID, **more.pop("kwarg", {})}
        payload = {"do": do, "arg": arg or ("it",), "kwarg": kwarg, "jid": JID, "user": "root"}
        payload.update(path="/nowhere", **more)
        acts = Acts("/nowhere", JID)
        return value(surroundings({"opts": self.opts}, payload, self.master, acts), payload)

    def marked(self) -> list[str]:
        """What the calls have written."""
        if not os.path.exists(self.marks):
            return []
        with open(self.marks) as handle:
            return handle.read().split()

    def steps(self, op: str) -> list[int]:
        """The numbers of what was told so."""
        return [args["number"] for name, args in self.master.told if name == op]

    def begun(self) -> Mapping[str, Any]:
        """What was told when the run was compiled."""
        (found,) = [args for name, args in self.master.told if name == "run_begin"]
        return found

    def test_steps(self) -> None:
        """The calls are told in their order before the first; each, also again, before it acts."""
        answer = self.run_it()

        self.assertEqual([one["result"] for one in answer.values()], [True] * 4)
        self.assertEqual(self.master.told[0][0], "run_begin")
        ids = [chunk["__id__"] for chunk in self.begun()["chunks"]]
        self.assertEqual(ids, ["one", "two", "three", "four"])
        # The last is tried twice: each time with a jid of its own
        self.assertEqual(self.steps("step_begin"), [0, 1, 2, 3, 3])
        self.assertEqual(self.steps("step_end"), [0, 1, 2, 3])

    def test_T_LOG_1_secret_run(self) -> None:
        """
        T-LOG-1: all steps of a run that a secret step began are secret: what its master is told of
        them, and what they come to, has stars.
        """
        answer = self.run_it(secret=True)

        self.assertEqual([one["result"] for one in answer.values()], [True] * 4)
        self.assertEqual(self.marked(), ["one", "two", "three"])
        self.assertEqual([chunk["no_log"] for chunk in self.begun()["chunks"]], [True] * 4)
        ends = [args["result"] for op, args in self.master.told if op == "step_end"]
        self.assertNotIn("echo", repr([ends, answer]))

    def test_not_run(self) -> None:
        """Steps that are not run since others failed have an end, and no beginning."""
        answer = self.run_it(kwarg={"pillar": {"code": 3}})

        self.assertEqual([one["result"] for one in answer.values()], [True, False, False, True])
        self.assertEqual(self.steps("step_begin"), [0, 1, 3, 3])
        self.assertEqual(self.steps("step_end"), [0, 1, 2, 3])
        self.assertEqual(self.marked(), ["one", "two"])

    def test_known_result(self) -> None:
        """A step that has its result already does not act again."""
        known = {"result": True, "changes": {}, "comment": "before", "name": "x"}
        self.master.results[1] = known

        answer = self.run_it()

        self.assertEqual(self.marked(), ["one", "three"])
        self.assertEqual(list(answer.values())[1]["comment"], "before")

    def test_resumed(self) -> None:
        """A run goes on with its compiled calls: nothing is rendered or done a second time."""
        first = self.run_it(kwarg={"pillar": {"code": 3}})
        chunks = self.begun()["chunks"]
        done = {
            str(number): first[tag_of(chunk)]
            for number, chunk in enumerate(chunks)
            if chunk["__id__"] in ("one", "four")
        }
        # Of what listens to others there may be a result, too
        done[str(len(chunks))] = {"result": True, "changes": {}}
        os.unlink(self.marks)
        os.unlink(os.path.join(self.home, "salt", "it.sls"))
        for chunk in chunks:
            chunk["name"] = chunk["name"].replace("exit 3", "exit 0")
        self.master.told.clear()

        answer = self.run_it("resume", chunks=chunks, done=done)

        self.assertEqual(self.marked(), ["two", "three"])
        self.assertEqual(
            {one["__id__"] for one in answer.values()}, {"one", "two", "three", "four"}
        )
        self.assertEqual([one["result"] for one in answer.values()], [True] * 4)
        self.assertEqual(self.steps("step_begin"), [1, 2])
        numbers = [one["__run_num__"] for one in answer.values()]
        self.assertEqual(len(set(numbers)), 4, numbers)

    def test_resumed_failure(self) -> None:
        """What requires a step that failed before is not run by a run that goes on."""
        first = self.run_it(kwarg={"pillar": {"code": 3}})
        chunks = self.begun()["chunks"]
        done = {str(n): first[tag_of(chunk)] for n, chunk in enumerate(chunks[:2])}
        os.unlink(self.marks)

        answer = self.run_it("resume", chunks=chunks, done=done)

        self.assertEqual(self.marked(), [])
        results = {one["__id__"]: one["result"] for one in answer.values()}
        self.assertEqual(results, {"one": True, "two": False, "three": False, "four": True})

    def test_not_compiled(self) -> None:
        """What cannot be compiled has no steps, and says why."""
        (text,) = self.run_it("sls", "bad")

        self.assertIn("Rendering SLS", text)
        self.assertEqual(self.master.told, [])

    def test_high(self) -> None:
        """High data may be written as an SLS is, and nothing of it is passed over."""
        answer = self.run_it("high", {"it": {"test.nop": []}, "that": "test.nop"})

        self.assertEqual([one["result"] for one in answer.values()], [True, True])
        (text,) = self.run_it("high", {"it": 5})
        self.assertIn("ID it in template", text)

    def test_pillar(self) -> None:
        """A pillar that is no map is refused."""
        self.assertRaises(SaltInvocationError, self.run_it, kwarg={"pillar": [1]})

    def test_digest(self) -> None:
        """Pillars with the same content in another order have the same digest, others do not."""
        one = digest({"a": {"x": 1, "y": [1, {"b": 2}]}, "c": None})

        self.assertEqual(one, digest({"c": None, "a": {"y": [1, {"b": 2}], "x": 1}}))
        self.assertNotEqual(one, digest({"c": None, "a": {"y": [1, {"b": 3}], "x": 1}}))

    def test_prepared(self) -> None:
        """What each run needs is in memory before it is forked, but for what one alone needs."""
        program = """
import sys
from tests.worker import test_orchestration as these
from saltwisted.worker.orchestration import work
from saltwisted.worker.process import modulefiles

test = these.WorkTests("test_steps")
test.setUp()
work.prepare()
modules, codes = set(sys.modules), set(modulefiles._codes)
found = test.run_it("single", "salt.function", "test.ping", kwarg={"test": True, "tgt": "x"})
assert [one["result"] for one in found.values()] == [None], found
new = {name for name in set(sys.modules) - modules if not name.startswith("saltwisted.loaded")}
print(*sorted(new), *sorted(set(modulefiles._codes) - codes), sep="\\n")
test.doCleanups()
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )

        self.assertEqual((done.returncode, done.stdout.split()), (0, []), done.stderr)

    def test_take(self) -> None:
        """A step publishes its first job under the jid that it was given, and no other."""
        acts = Acts("/nowhere", JID)
        first = Publishing("20260101000000000001", 3)

        acts.publish_as(first)

        self.assertEqual([acts.take(), acts.take()], [first, Publishing()])
