"""
Real nodes that are killed in chosen steps: what becomes of each kind of step, by each
C{orchestrate_takeover}.

One cluster of three nodes with a minion that is linked to all of them does all cases, one after the
other. C{SALTWISTED_LONG=1} kills a node in each kind of step,
in one that is not published yet, and where nothing is written down.
"""

from __future__ import annotations

import os
import traceback
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.secrecy import STARS
from saltwisted.errors import RemoteError
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMinion, scratch, until, write_config

LONG = os.environ.get("SALTWISTED_LONG") == "1"
SECRET = "canary-9b41"
HOLD = "while [ -d HERE ] && [ ! -e HERE/go ]; do sleep 0.1; done"
TREE = {
    "pillar/top.sls": "base: {a: [word], b: [word], c: [word]}\n",
    "pillar/word.sls": f"word: {SECRET}\n",
    "held.sls": f"""
held:
  salt.function: [{{name: cmd.run, tgt: m1, arg: ['echo held >> HERE/ran; {HOLD}']}}]
last:
  salt.function:
    - {{name: cmd.run}}
    - {{tgt: m1}}
    - {{arg: ['echo last >> HERE/ran']}}
    - {{require: [{{salt: held}}]}}
""",
    "restarts.sls": """
restart:
  salt.function:
    - {name: cmd.run}
    - {tgt: m1}
    - {arg: ['echo restart >> HERE/ran; kill -9 {{ pillar.pid }}']}
last:
  salt.function:
    - {name: cmd.run}
    - {tgt: m1}
    - {arg: ['echo last >> HERE/ran']}
    - {require: [{salt: restart}]}
""",
    "rolling.sls": """
rolling:
  salt.function:
    - {name: cmd.run}
    - {tgt: 'm*'}
    - {batch: 1}
    - {timeout: 90}
    - {arg: ['echo rolling >> HERE/ran']}
""",
    "secret.sls": """
{% set word = pillar['word'] %}
told:
  salt.function:
    - {name: cmd.run}
    - {tgt: m1}
    - {arg: ['echo {{ word }}; echo {{ word }} > HERE/told; HOLD']}
    - {no_log: true}
failed:
  salt.function: [{name: cmd.run, tgt: m1, arg: ['echo {{ word }}; false'], no_log: true}]
applied:
  salt.state: [{tgt: m1, sls: applied, pillar: {given: {{ word }}}, no_log: true}]
plain:
  salt.state: [{tgt: m1, sls: plain, pillar: {given: {{ word }}}, no_log: true}]
ran:
  salt.runner: [{name: test.arg, arg: [{{ word }}], no_log: true}]
here:
  cmd.run: [{name: 'echo {{ word }} > HERE/here', no_log: true}]
""".replace("HOLD", HOLD),
    "applied.sls": """
applied:
  cmd.run: [{name: 'echo {{ pillar.given }} > HERE/applied', no_log: true}]
""",
    "plain.sls": """
plain:
  cmd.run: [{name: 'echo {{ pillar.given }} > HERE/plain', fire_event: true}]
loud:
  cmd.run: [{name: 'echo {{ pillar.given }}'}]
""",
    "kinds.sls": f"""
{{% set kind = pillar['kind'] %}}
step:
{{% if kind == 'function' %}}
  salt.function: [{{name: cmd.run, tgt: m1, arg: ['echo step >> HERE/ran; {HOLD}']}}]
{{% elif kind == 'state' %}}
  salt.state: [{{tgt: m1, sls: holding}}]
{{% elif kind == 'batch' %}}
  salt.function: [{{name: cmd.run, tgt: m1, batch: 1, arg: ['echo step >> HERE/ran; {HOLD}']}}]
{{% elif kind == 'subset' %}}
  salt.function: [{{name: cmd.run, tgt: m1, subset: 1, arg: ['echo step >> HERE/ran; {HOLD}']}}]
{{% elif kind == 'runner' %}}
  salt.runner: [{{name: test.sleep, s_time: 600}}]
{{% elif kind == 'parallel' %}}
  salt.parallel_runners:
    - runners: {{one: [{{name: test.sleep}}, {{kwarg: {{s_time: 600}}}}]}}
{{% elif kind == 'event' %}}
  salt.wait_for_event: [{{name: site/never, id_list: [x], timeout: 600}}]
{{% elif kind == 'nested' %}}
  salt.runner: [{{name: state.orchestrate, mods: held}}]
{{% else %}}
  cmd.run: [{{name: 'echo step >> HERE/ran; {HOLD}'}}]
{{% endif %}}
last:
  salt.function:
    - {{name: cmd.run}}
    - {{tgt: m1}}
    - {{arg: ['echo last >> HERE/ran']}}
    - {{order: last}}
    - {{failhard: true}}
""",
    "holding.sls": f"holding: {{cmd.run: [{{name: 'echo step >> HERE/ran; {HOLD}'}}]}}\n",
}
ON_MINIONS = ("function", "state", "batch", "subset")
OTHERS = ("runner", "parallel", "event", "nested", "master")


class WaysTests(SynchronousTestCase):
    """Three nodes and a minion."""

    timeout = 3600

    def setUp(self) -> None:
        """They serve, and all vote."""
        self.options: dict[str, Any] = {}
        self.home = scratch(self)
        self.place = os.path.join(self.home, "place")
        for name, text in TREE.items():
            path = os.path.join(self.home, name if "/" in name else f"roots/{name}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as stream:
                stream.write(text.replace("HERE", self.place))
        os.makedirs(self.place)
        roots = os.path.join(self.home, "roots")
        self.made: list[OurNode] = nodes(
            self,
            "a b c",
            file_roots={"base": [roots]},
            pillar_roots={"base": [os.path.join(self.home, "pillar")]},
            auto_accept=True,
        )
        join_all(self.made)
        let_all_vote(self.made)
        hot = [node.address for node in self.made]
        self.minion = OurMinion(self.home, self.made[0], "m1")
        write_config(os.path.join(self.minion.conf, "minion.d", "many.conf"), {"master": hot})
        self.addCleanup(self.minion.kill)
        self.minion.up()

    def test_cases(self) -> None:
        """Each C{case_} holds in the same cluster; those of C{each_} with C{--long}."""
        failed = []
        kinds = ("case_", "each_") if LONG else ("case_",)
        for name in [name for name in dir(self) if name.startswith(kinds)]:
            try:
                self.ready()
                getattr(self, name)()
            except Exception:
                failed.append(f"{name}:\n{traceback.format_exc()}")
        if failed:
            self.fail("\n".join([*failed, *(node.tail() for node in self.made)]))

    def ready(self, **options: Any) -> None:
        """All nodes serve, with these options, and the minion hears them; no trace is left."""
        self.minion.thaw()
        for node in self.made:
            if node.running and self.options != options:
                node.stop()
            write_config(os.path.join(node.conf, "master.d", "case.conf"), options)
            if not node.running:
                node.up()
        self.options = options
        for node in self.made:
            until(f"the minion at {node.name}", lambda node=node: node.hears("m1"))
        for name in os.listdir(self.place):
            os.unlink(os.path.join(self.place, name))

    def shown(self, jid: str) -> dict[str, Any]:
        """What the last node knows of a run."""
        return self.made[-1].orchestration(jid)

    def states(self, jid: str) -> list[str]:
        """Of its steps."""
        return [step["state"] for step in self.shown(jid)["steps"]]

    def traces(self) -> list[str]:
        """What steps have left."""
        path = os.path.join(self.place, "ran")
        if not os.path.exists(path):
            return []
        with open(path) as stream:
            return stream.read().split()

    def go(self) -> None:
        """Steps that are held end."""
        with open(os.path.join(self.place, "go"), "w"):
            pass

    def ended(self, jid: str) -> dict[str, Any]:
        """A run when it is over, as the last node knows it."""
        until(f"the end of {jid}", lambda: self.shown(jid)["state"] not in ("", "running"), 120)
        return self.shown(jid)

    def case_interrupt(self) -> None:
        """
        C{orchestrate_takeover: interrupt}: a run of a dead node is interrupted where it was, by a
        node that lives; an operator has it go on from there.
        """
        self.ready(orchestrate_takeover="interrupt")
        jid = self.made[0].orchestrate("held")
        until("the step", lambda: self.traces() == ["held"])
        self.made[0].kill()
        run = self.ended(jid)
        self.assertEqual(
            (run["state"], self.states(jid)), ("interrupted", ["interrupted", "waiting"])
        )
        self.assertEqual(run["why"], "a died, and orchestrate_takeover is interrupt")
        self.go()
        self.made[1].ask("orch.resume", jid=jid, step="last")
        self.assertEqual(self.ended(jid)["state"], "done")
        self.assertEqual(self.traces(), ["held", "last"])

    def each_off(self) -> None:
        """
        C{orchestrate_takeover: off}: nothing is written down, a run ends with its node, and nobody
        goes on with it, not even that node when it is back.
        """
        self.ready(orchestrate_takeover="off")
        jid = self.made[0].orchestrate("held")
        until("the step", lambda: self.traces() == ["held"])
        for node in self.made:
            self.assertRaises(RemoteError, node.ask, "orch.show", jid=jid)
        self.made[0].kill()
        self.go()
        self.made[0].up()
        # What runs are known is what another one could go on with
        for node in self.made:
            self.assertNotIn(jid, [run["jid"] for run in node.ask("orch.list")])
        second = self.made[0].orchestrate("held")
        until("the second run", lambda: self.traces()[1:] == ["held", "last"])
        self.assertRaises(RemoteError, self.made[0].ask, "orch.show", jid=second)

    def case_restarts_its_master(self) -> None:
        """A step that kills the very node that runs it is done once, and the next one follows."""
        node = self.made[0]
        jid = node.orchestrate("restarts", pid=node.pid)

        run = self.ended(jid)

        self.assertFalse(node.running)
        self.assertEqual((run["state"], self.states(jid)), ("done", ["done", "done"]), run)
        self.assertIn(run["node"], ("b", "c"))
        self.assertEqual(self.traces(), ["restart", "last"])

    def each_not_published(self) -> None:
        """
        A step whose job is not out yet when its node dies, since the minion did not say that it is
        there, is published by another node under the jid that was written down.
        """
        self.minion.freeze()
        jid = self.made[0].orchestrate("rolling")
        until("the step", lambda: self.states(jid) == ["running"])
        (step,) = self.shown(jid)["steps"]
        self.assertNotIn("part", step)
        self.made[0].kill()
        until("another node", lambda: self.shown(jid)["node"] in ("b", "c"))
        job = self.made[1].ask("runner", fun="jobs.lookup_jid", arg=[step["jid"]], kwarg={})
        self.assertEqual((job["return"], self.traces()), ({}, []))
        self.minion.thaw()

        run = self.ended(jid)

        self.assertEqual((run["state"], self.traces()), ("done", ["rolling"]), run)
        self.assertEqual(run["steps"][0]["jid"], step["jid"])
        self.assertIn(run["steps"][0]["result"]["__jid__"], step["jid"])

    def case_secret(self) -> None:
        """
        T-LOG-1: what a step with C{no_log} is given, and what comes of it, is on no disk of any
        node or minion, in no event, and in nothing that is shown, though its node dies and another
        one goes on with it: it has what it needs to do so.
        """
        node, other = self.made[0], self.made[1]
        with other.events() as events:
            jid = node.orchestrate("secret")
            until("the step", lambda: os.path.exists(os.path.join(self.place, "told")))
            self.secretless(jid)
            node.kill()
            until("another node", lambda: self.shown(jid)["node"] in ("b", "c"))
            self.go()
            run = self.ended(jid)
            jobs = [step["jid"] for step in run["steps"][:4]]
            applied = run["steps"][3]["jid"]
            awaited = {f"salt/run/{jid}/ret", *(f"salt/job/{job}/new" for job in jobs)}
            awaited.add(f"salt/state_result/{applied}/m1/{STARS}")
            seen = []
            while awaited:
                seen.append(next(events))
                awaited.discard(seen[-1]["tag"])

        self.assertEqual(self.states(jid), ["done", "failed", *["done"] * 4], run)
        for name in ("told", "applied", "plain", "here"):
            with open(os.path.join(self.place, name)) as stream:
                self.assertEqual(stream.read().strip(), SECRET, name)
        self.assertNotIn(SECRET, repr(seen))
        self.secretless(jid)
        (answer,) = run["steps"][0]["result"]["changes"]["ret"].values()
        self.assertEqual(answer, STARS)
        node.up()
        self.secretless(jid)

    def secretless(self, jid: str) -> None:
        """Nobody has it now."""
        for node in self.made:
            if not node.running:
                continue
            said = [node.orchestration(jid), node.ask("orch.list")]
            steps = node.orchestration(jid)["steps"]
            for job in [jid, *(step["jid"] for step in steps if step["jid"])]:
                for fun in ("jobs.lookup_jid", "jobs.list_job", "jobs.print_job"):
                    said.append(node.ask("runner", fun=fun, arg=[job], kwarg={}))
            said.append(node.ask("runner", fun="jobs.active", arg=[], kwarg={}))
            self.assertNotIn(SECRET, repr(said))
        homes = [*(node.root for node in self.made), self.minion.root]
        # The pillar's own files are its nodes' to keep
        self.assertEqual(
            [
                path
                for home in homes
                for path in found_in(home)
                if "/roots/pillar-base-" not in path
            ],
            [],
        )

    def each_kind(self) -> None:
        """
        A node killed in each kind of step: a job on minions is attached to, everything else is
        interrupted, and nothing is done twice.
        """
        for kind in (*ON_MINIONS, *OTHERS):
            self.ready()
            jid = self.made[0].orchestrate("kinds", kind=kind)
            until(f"the step ({kind})", lambda jid=jid: self.states(jid)[:1] == ["running"])
            if kind in ON_MINIONS or kind == "master":
                until(f"its trace ({kind})", lambda: self.traces() == ["step"])
            self.made[0].kill()
            if kind in ON_MINIONS:
                until("the takeover", lambda jid=jid: self.shown(jid)["node"] in ("b", "c"))
                self.go()
            run = self.ended(jid)
            if kind in ON_MINIONS:
                self.assertEqual(
                    (run["state"], self.traces()), ("done", ["step", "last"]), (kind, run)
                )
            else:
                self.assertEqual(
                    (run["state"], self.states(jid)),
                    ("interrupted", ["interrupted", "waiting"]),
                    kind,
                )
                self.assertNotIn("last", self.traces(), kind)
            self.go()


def found_in(home: str) -> list[str]:
    """The files below a directory that have the secret."""
    found = []
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or os.path.islink(path):
                continue
            try:
                with open(path, "rb") as stream:
                    if SECRET.encode() in stream.read():
                        found.append(path)
            except OSError:
                continue
    return found
