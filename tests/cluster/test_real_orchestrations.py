"""
Real processes: an orchestration goes on after its node was killed in the middle of a step.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError
from tests.bench.machine import children
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMaster, scratch, until

SLS = """
first:
  cmd.run:
    - name: echo first >> LOG
middle:
  salt.wait_for_event:
    - name: site/go
    - id_list: [all]
    - timeout: 600
    RETRY
    - require: [{cmd: first}]
last:
  cmd.run:
    - name: echo last >> LOG
    - require: [{salt: middle}]
"""


class Orchestrated(TestCase):
    """A run that is killed in a step which does not end."""

    timeout = 900

    def setUp(self) -> None:
        """Where steps leave a trace."""
        self.folder = scratch(self)
        self.log = os.path.join(self.folder, "log")

    def sls(self, retry: bool = False) -> dict[str, list[str]]:
        """File roots with the orchestration."""
        path = os.path.join(self.folder, "deploy.sls")
        text = SLS.replace("LOG", self.log)
        with open(path, "w") as stream:
            stream.write(text.replace("RETRY", "- retry_on_takeover: true" if retry else ""))
        return {"base": [self.folder]}

    def states(self, node: OurMaster, jid: str) -> tuple[str, list[str]]:
        """Of a run and its steps, as a node says."""
        shown = node.orchestration(jid)
        return shown["state"], [step["state"] for step in shown["steps"]]

    def begin(self, node: OurMaster) -> str:
        """Begin it by the command, and wait for the step in the middle; the jid."""
        words = ["salt-run", "-c", node.conf, "state.orch", "deploy"]
        self.command = subprocess.Popen(
            [sys.executable, "-m", "saltwisted.cli.main", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=node.env,
        )
        self.addCleanup(self.command.wait)
        self.addCleanup(self.command.kill)

        def jids() -> list[str]:
            listed = node.ask("orch.list")
            return [run["jid"] for run in listed if run["state"] == "running"]

        until("the run", jids)
        (jid,) = jids()
        until("the middle", lambda: self.states(node, jid) == ("running", MIDDLE))
        return jid

    def wish(self, node: OurMaster, fun: str, *arg: Any) -> None:
        """Call a function by which a run halts, goes on or ends; it has to go well."""
        answer = node.ask("runner", fun=fun, arg=list(arg), kwarg={})
        self.assertTrue(answer["success"], answer)

    def traces(self) -> list[str]:
        """What steps have left."""
        with open(self.log) as stream:
            return stream.read().split()

    def gone(self, jid: str) -> None:
        """The command that waited on the dead node ends badly, and names the run."""
        _, said = self.command.communicate(timeout=60)
        self.assertNotEqual(self.command.returncode, 0)
        self.assertIn(jid, said)


class LoneTests(Orchestrated):
    """A master alone, which is started again."""

    def test_killed(self) -> None:
        """
        The run is interrupted in the step of which nobody knows what it did; an operator has it go
        on behind that, and what was done is not done again.
        """
        master = OurMaster(scratch(self), file_roots=self.sls())
        self.addCleanup(master.kill)
        jid = self.begin(master.up())
        master.kill()
        self.gone(jid)

        master.up()
        interrupted = ("interrupted", ["done", "interrupted", "waiting"])
        until("the interruption", lambda: self.states(master, jid) == interrupted)
        self.assertRaises(RemoteError, master.ask, "orch.resume", jid=jid, step="first")
        self.assertRaises(RemoteError, master.ask, "orch.stop", jid=jid)
        master.ask("orch.resume", jid=jid, step="last")

        done = ("done", ["done", "skipped", "done"])
        until("the end", lambda: self.states(master, jid) == done)
        self.assertEqual(self.traces(), ["first", "last"])

    def test_no_process_stays(self) -> None:
        """A killed master leaves nobody behind, not even who is busy with what does not end."""
        with open(os.path.join(self.folder, "endless.sls"), "w") as stream:
            stream.write("{% do salt['test.sleep'](900) %}\n")
        roots = {"base": [self.folder]}
        master = OurMaster(scratch(self), file_roots=roots, pillar_roots=roots)
        self.addCleanup(master.kill)
        master.up()
        master.command("salt-run", "--async", "state.orch", "endless", check=True)

        def names() -> dict[int, str]:
            found = {}
            for pid in children(master.pid)[1:]:
                with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as stream:
                    found[pid] = stream.read().strip()
            return found

        until("the run's process", lambda: "salt-orch" in names().values())
        processes = [os.pidfd_open(pid) for pid in names()]
        for process in processes:
            self.addCleanup(os.close, process)
        self.assertGreaterEqual(len(processes), 2)

        os.kill(master.pid, signal.SIGKILL)

        for process in processes:
            ended, _, _ = select.select([process], [], [], 60)
            self.assertTrue(ended, "a process of the master goes on")


class ClusterTests(Orchestrated):
    """Three nodes, the first of which orchestrates."""

    def test_killed(self) -> None:
        """
        Another node goes on with a step that may be done again. What was wished of the run at any
        node (C{state.soft_kill}) holds there, and any node can stop one.
        """
        made: list[OurNode] = nodes(self, "a b c", file_roots=self.sls(retry=True))
        join_all(made)
        let_all_vote(made)
        a, b, c = made
        jid = self.begin(a)
        self.assertEqual(b.ask("orch.show", jid=jid)["node"], "a")
        self.wish(b, "state.pause", jid, "middle", 5)
        self.wish(c, "state.soft_kill", jid, "last")
        wishes = {"middle": {"duration": 5}, "last": {"kill": True}}
        self.assertEqual(b.ask("orch.show", jid=jid)["wishes"], wishes)
        self.wish(a, "state.rm_pause", jid, "middle")
        self.assertRaises(AssertionError, self.wish, c, "state.pause", "20260101000000000000")
        a.kill()
        self.gone(jid)

        def node() -> str:
            return str(b.orchestration(jid)["node"])

        def middle() -> str:
            steps = b.orchestration(jid)["steps"]
            return str(steps[1]["node"]) if steps else ""

        until("another node", lambda: node() in ("b", "c"))
        taken, other = (b, c) if node() == "b" else (c, b)
        try:
            until("the middle again", lambda: middle() in ("b", "c"), 30)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{taken.tail()}") from None

        ended = ("failed", ["done", "done", "waiting"])

        def went_on() -> bool:
            self.wish(taken, "event.send", "site/go", {"id": "all"})
            return self.states(other, jid) == ended

        until("the early end", went_on, 30)
        self.assertIn("soft_kill", other.ask("orch.show", jid=jid)["why"])
        self.assertEqual(self.traces(), ["first"])

        second = self.begin(taken)
        other.ask("orch.stop", jid=second)
        stopped = ("stopped", ["done", "interrupted", "waiting"])
        for each in (b, c):
            self.assertEqual(self.states(each, second), stopped)
        self.assertEqual(self.traces(), ["first", "first"])
        # Who comes back does not go on with any of them either
        a.up()
        until("the first to know", lambda: self.states(a, second) == stopped)
        self.assertEqual(self.states(a, jid), ended)


MIDDLE = ["done", "running", "waiting"]
