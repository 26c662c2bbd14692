"""
Real nodes answer alike: what runs, who is there, what happens, what is known of minions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, needs_peers, scratch, until, write_config


@needs_peers
class AlikeTests(SynchronousTestCase):
    """Two nodes, a minion of ours at a, a stock one at b, and one that is accepted and dead."""

    def test_alike(self) -> None:
        """Each of the runners that people ask says the same on both, and so do events."""
        nodes = a, b = cluster(self, "a b", auto_accept=True, timeout=3, gather_job_timeout=2)
        home = scratch(self)
        minions: list[Any] = [OurMinion(home, a, "m-a"), StockMinion(home, "3008", b, "m-b")]
        dead = OurMinion(home, a, "m-dead")
        for minion in (*minions, dead):
            self.addCleanup(minion.kill)
            minion.up()
        ids = ["m-a", "m-b"]
        everybody = [*ids, "m-dead"]
        for node in nodes:
            until("all answers", lambda n=node: sorted(self.ping(n)) == everybody)
        dead.kill()

        self.alike(nodes, "manage.status", want={"up": ids, "down": ["m-dead"]})
        self.alike(nodes, "manage.down", want=["m-dead"])
        self.alike(nodes, "manage.present")
        done = a.command("salt", "--async", "*", "test.sleep", "60", check=True)
        (jid,) = [word for word in done.stdout.split() if word.isdigit() and len(word) == 20]

        def running() -> bool:
            found = [node.run("jobs.active").get(jid, {}).get("Running", []) for node in nodes]
            return [sorted(name for row in rows for name in row) for rows in found] == [ids, ids]

        until("it to run, for both", running)
        b.command("salt", "*", "test.echo", "x")
        (jid,) = a.run("jobs.list_jobs", "search_function=test.echo")
        self.alike(nodes, "jobs.lookup_jid", jid, want=dict.fromkeys(ids, "x"))
        self.alike(nodes, "jobs.list_job", jid)
        for node in nodes:
            missing = node.run("jobs.lookup_jid", jid, "missing=True")
            self.assertIn("m-dead", missing, missing)
        self.alike(nodes, "cache.grains", "tgt=m-*")
        self.alike(nodes, "cache.pillar", "tgt=m-*")
        self.events(b, a)
        self.drift(a, b)

    def ping(self, node: OurNode) -> Any:
        """Who answers."""
        done = node.command("salt", "-t", "3", "*", "test.ping", "--out", "json", "--static")
        try:
            return [name for name, value in json.loads(done.stdout).items() if value is True]
        except ValueError:
            return []

    def alike(self, nodes: list[OurNode], *words: str, want: Any = None) -> None:
        """The same at all."""
        found: list[Any] = []

        def same() -> bool:
            with ThreadPoolExecutor() as both:
                found[:] = both.map(lambda node: node.run(*words), nodes)
            return bool(found[0] == found[1])

        until(f"{words} to be alike", same)
        if want is not None:
            self.assertEqual(found[0], want, words)

    def events(self, here: OurNode, there: OurNode) -> None:
        """What happens at one node is told at the other."""
        watching = subprocess.Popen(
            [
                *(sys.executable, "-m", "saltwisted.cli.main", "salt-run", "-c", here.conf),
                *("state.event", "salt/job/*/ret/m-a", "count=1"),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=here.env,
        )
        self.addCleanup(watching.kill)

        def told() -> bool:
            there.salt("m-a", "test.ping")
            return watching.poll() is not None

        until("the event", told)
        assert watching.stdout is not None
        self.assertIn("test.ping", watching.stdout.read())
        watching.stdout.close()

    def drift(self, a: OurNode, b: OurNode) -> None:
        """An option that ought to be equal and is not, is shown by either, and said once."""
        self.assertNotIn("nodegroups", a.command("members", "--drift").stdout)
        write_config(f"{b.conf}/master.d/more.conf", {"nodegroups": {"web": "web*"}})
        b.kill()
        b.up()

        for node in (a, b):
            until(
                f"the drift at {node.name}",
                lambda n=node: "nodegroups" in n.command("members", "--drift").stdout,
            )
        until("the log's word", lambda: "nodegroups" in a.text())
        self.assertEqual(a.text().count("nodegroups"), 1)


@needs_peers
class MembersTests(SynchronousTestCase):
    """What C{saltwisted members} says of a cluster of two."""

    def test_counted_once(self) -> None:
        """A stock minion that is connected to both nodes is one minion, whoever is asked."""
        nodes = a, b = cluster(self, "a b", auto_accept=True)
        minion = StockMinion(scratch(self), "3008", a, "m1")
        write_config(f"{minion.conf}/minion.d/x.conf", {"master": [a.address, b.address]})
        self.addCleanup(minion.kill)
        minion.up()
        for node in nodes:
            node.ping_until("m1")

        for node in nodes:
            self.assertEqual(sum(row["minions"] for row in node.members()), 1, node.members())

    def test_drift(self) -> None:
        """Options that differ are the exit code; a member that is not asked is named."""
        a, b = cluster(self, "a b")
        done = a.command("members", "--drift")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("are equal on all members", done.stdout)
        path = f"{b.root}/srv/more"
        write_config(f"{b.conf}/master.d/x.conf", {"pillar_roots": {"base": [b.pillar_root, path]}})
        b.kill()
        done = a.command("members", "--drift")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("because no answer came: b.", done.stderr)
        b.up()
        until("the link", lambda: a.states() == {"a": "serving", "b": "serving"})

        done = a.command("members", "--drift")

        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn(path, done.stdout)
