"""
Real nodes: the schedule of a cluster.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, cluster, do_all_vote
from tests.harness import until


class ScheduleTests(TestCase):
    """Three nodes with the same configuration."""

    timeout = 600

    def listed(self, node: OurNode) -> dict[str, Any]:
        """The schedule as a node shows it; empty while it does not answer."""
        client = node.control()
        try:
            found: dict[str, Any] = client.call("schedule")["schedule"]
        except (RemoteError, TransportClosed):
            return {}
        finally:
            client.close()
        return found

    def do(self, node: OurNode, *words: str) -> str:
        """The output of C{saltwisted schedule}, which succeeds."""
        done = node.command("schedule", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_changes(self) -> None:
        """What is changed on one node holds on the others when the command returns; for ever."""
        a, b, c = cluster(
            self, "a b c", schedule={"own": {"function": "test.arg", "cron": "0 0 1 1 *"}}
        )

        self.do(a, "add", "j", "function=test.arg", "args=[7]", "cron=0 0 1 1 *")
        self.assertEqual(self.listed(b)["j"]["args"], [7])
        self.do(b, "modify", "own", "args=[8]")
        self.assertEqual(self.listed(c)["own"]["args"], [8])
        self.do(c, "pause", "j")
        self.assertEqual(self.listed(a)["j"]["_paused"]["by"], "root")
        self.check_runners(a, b, c)

        a.kill()
        self.do(c, "delete", "own")
        self.assertNotIn("own", json.loads(self.do(b, "--json")))
        a.up()
        until("the deletion to be known", lambda: set(self.listed(a)) == {"j"})
        self.assertEqual(self.listed(a)["j"]["_paused"]["by"], "root")

    def check_runners(self, a: OurNode, b: OurNode, c: OurNode) -> None:
        """By C{salt-run}, too: list, add, disable, run now and delete, on any node (pains 1.17)."""
        b.run("schedule.add", "k", "function=test.arg", "cron=0 0 1 1 *", "job_args=[9]")
        self.assertEqual(c.run("schedule.list")["k"]["args"], [9])
        c.run("schedule.disable_job", "k")
        self.assertFalse(a.run("schedule.list")["k"]["enabled"])
        self.do(a, "enable", "k")
        self.assertTrue(self.listed(b)["k"]["enabled"])
        b.run("schedule.run_job", "k")
        until("its run on that node", lambda: [n for _, n in self.runs(b, "test.arg")] == ["b"])
        self.do(c, "run", "k")
        both = {"b", "c"}
        until("its run there", lambda: both == {name for _, name in self.runs(a, "test.arg")})
        a.run("schedule.delete", "k")
        self.assertNotIn("k", self.listed(b))

    def runs(self, node: OurNode, function: str) -> list[tuple[str, str]]:
        """Jid and node of the runs of a runner, as a node's job cache has them."""
        client = node.control()
        try:
            found = client.call("runner", fun="jobs.list_jobs", keep=False)["return"]
        except (RemoteError, TransportClosed):
            return []
        finally:
            client.close()
        jobs = {jid: job for jid, job in found.items() if job["Function"] == f"runner.{function}"}
        return sorted((jid, self.name_of(job["Target"])) for jid, job in jobs.items())

    def name_of(self, target: Any) -> str:
        """The node that a run was on."""
        return str(target[0] if isinstance(target, list) else target)

    def test_once(self) -> None:
        """
        An entry runs on one node; when that is killed, on another one, and on no two at a time.
        With C{once: false} it runs on each.
        """
        nodes = cluster(
            self,
            "a b c",
            publish_window=1,
            schedule={
                "often": {"function": "test.arg", "seconds": 1},
                "seldom": {"function": "jobs.active", "minutes": 20},
                "each": {"function": "manage.present", "seconds": 2, "once": False},
            },
        )
        by_name = {node.name: node for node in nodes}
        until("three votes", lambda: do_all_vote(nodes))
        # Before it joins, a node is a cluster of its own, and runs what it has by itself
        since = max((jid for jid, _ in self.runs(nodes[0], "test.arg")), default="")
        until("a run", lambda: self.runs(nodes[0], "test.arg"))
        until(
            "runs on all nodes of what is for each",
            lambda: {name for _, name in self.runs(nodes[0], "manage.present")} == set(by_name),
        )
        until("some runs", lambda: self.changed(self.runs(nodes[0], "test.arg")) > 3)
        last, holder = self.runs(nodes[0], "test.arg")[-1]

        by_name[holder].kill()
        other = next(node for node in nodes if node.name != holder)
        until(
            "runs on another node",
            lambda: self.runs(other, "test.arg")[-1:][0][1] != holder,
        )
        until("more of them", lambda: self.changed(self.runs(other, "test.arg")) >= 3)

        runs = [run for run in self.runs(other, "test.arg") if run[0] > since]
        for (jid, one), (_, two), (later, three) in zip(runs, runs[1:], runs[2:], strict=False):
            if one == three != two:
                # A duty that comes back has been away for longer than that
                self.assertGreater(int(later[:14]) - int(jid[:14]), 1, runs)
        seldom = self.runs(other, "jobs.active")
        self.assertNotEqual(seldom, [])
        self.assertEqual([run for run in seldom if run[0] > last], [], "it is not due again")

    def changed(self, runs: list[tuple[str, str]]) -> int:
        """How many of the last runs were on the node that ran last."""
        names = [name for _, name in runs]
        return next((n for n, name in enumerate(reversed(names)) if name != names[-1]), len(names))
