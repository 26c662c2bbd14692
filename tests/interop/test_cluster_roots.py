"""
Roots of a real cluster, as its administrators and minions see them: own minions and stock ones.
"""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode
from tests.harness import OurMinion, StockMinion, needs_peers, reserve_ports, scratch, until

STATE = "a:\n  test.show_notification:\n    - text: {}\n"


class RootsCase(SynchronousTestCase):
    """Nodes with roots of their own."""

    home: str

    def node(self, name: str, number: int, ports: list[int], **roots: Any) -> OurNode:
        """One, not started."""
        for kind in ("salt", "pillar"):
            os.makedirs(f"{self.home}/srv/{name}/{kind}")
        node = OurNode(
            self.home,
            name,
            f"127.0.0.{number}",
            ports,
            file_roots={"base": [f"{self.home}/srv/{name}/salt"]},
            pillar_roots={"base": [f"{self.home}/srv/{name}/pillar"]},
            cluster_roots={"free_mib": 1, **roots},
        )
        self.addCleanup(node.kill)
        return node

    def join(self, first: OurNode, node: OurNode, *rights: str) -> None:
        """Have a node join by a token, and wait until it serves."""
        token = first.token(*rights)
        node.start()
        until(f"{node.name} to answer", node.members)
        node.command("join", token, check=True)
        node.wait_serving()

    def minions(self, node: OurNode) -> list[Any]:
        """Our minion C{own} and a stock 3008 C{stock}, both at this node."""
        made = [
            OurMinion(self.home, node, "own"),
            StockMinion(self.home, "3008", node, minion_id="stock"),
        ]
        for minion in made:
            self.addCleanup(minion.kill)
            minion.start()
        for name in ("own", "stock"):
            pending = os.path.join(node.pki, "minions_pre", name)
            until(f"the key of {name}", lambda pending=pending: os.path.exists(pending))
            node.command("salt-key", "-y", "-a", name, check=True)
            node.ping_until(name)
        return made

    def write(self, node: OurNode, path: str, text: str) -> None:
        """Write into one of its roots: a file that is whole from the first moment on."""
        full, part = f"{self.home}/srv/{node.name}/{path}", f"{self.home}/part"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(part, "w") as file:
            file.write(text)
        os.replace(part, full)

    def read(self, node: OurNode, path: str) -> str | None:
        """What is in one of its roots; C{None} for no such file."""
        try:
            with open(f"{self.home}/srv/{node.name}/{path}") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def roots(self, node: OurNode, *words: str, check: bool = True) -> Any:
        """What C{saltwisted roots} says."""
        done = node.command("roots", *words, "--json", check=check)
        return json.loads(done.stdout) if done.stdout else None

    def comments(self, node: OurNode) -> dict[str, list[str]]:
        """What the states of both minions say."""
        done = node.salt("-t", "60", "*", "state.apply", seconds=180)
        return {
            minion: [state["comment"] for state in states.values()]
            if isinstance(states, dict)
            else states
            for minion, states in done.items()
        }


@needs_peers
class RightsTests(RootsCase):
    """Who has pillars, and who may write, is said once for all nodes."""

    def test_node_without_pillar(self) -> None:
        """Minions of a node without pillars get theirs through it; nothing of them is on it."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("alpha", 1, ports), self.node("beta", 2, ports)
        one.up()
        self.write(one, "pillar/top.sls", "base:\n  '*': [data]\n")
        self.write(one, "pillar/data.sls", "colour: vermilion\n")
        self.write(one, "salt/top.sls", "base:\n  '*': [s]\n")
        self.write(one, "salt/s.sls", STATE.format("{{ pillar.get('colour') }}"))
        one.command("roots", "sync", check=True)
        # A pillar of its own is not what the cluster's minions get
        self.write(two, "pillar/top.sls", "base:\n  '*': [data]\n")
        self.write(two, "pillar/data.sls", "colour: wrong\n")
        self.join(one, two, "--rights", "read")

        for node in (one, two):
            rights = {row["node"]: row["rights"] for row in node.members()}
            self.assertEqual(rights["beta"], ["read"])
            self.assertEqual(rights["alpha"], ["read", "write", "pillar"])
        self.assertIn("pillar/base/0", self.roots(two, "status")["left_out"])
        self.minions(two)
        until("the states", lambda: self.read(two, "salt/s.sls"))
        both = {"own": ["vermilion"], "stock": ["vermilion"]}
        self.assertEqual(self.comments(two), both)
        self.assertEqual(self.comments(one), both)
        self.assertEqual(self._files_with(two, b"vermilion"), [])
        refused = two.command("salt-run", "pillar.show_pillar", "own")
        self.assertIn("has no pillars", refused.stdout + refused.stderr)

        # What it writes stays there
        self.write(two, "salt/s.sls", "mine: alone\n")
        until("it is undone", lambda: self.read(two, "salt/s.sls") == self.read(one, "salt/s.sls"))
        (lost,) = self.roots(two, "conflicts")
        self.assertEqual((lost["path"], lost["master"]), ("s.sls", "beta"))
        done = two.command("roots", "rollback", "0")
        self.assertIn("403", done.stdout + done.stderr)

        # Nobody who has pillars can be reached: as when a pillar cannot be made
        one.freeze()
        self.addCleanup(one.thaw)
        until(
            "the end of the link",
            lambda: {row["state"] for row in two.members() if row["node"] == "alpha"} == {"down"},
        )
        answers = self.comments(two)
        for minion in both:
            self.assertIn("no pillars", str(answers[minion]))
        one.thaw()
        until(
            "the link", lambda: {row["state"] for row in two.members()} == {"serving"}, seconds=120
        )

        # It gets the rights: the pillars come, and what it writes counts
        one.command("members", "rights", "beta", "all", check=True)
        until(
            "the pillar",
            lambda: self.read(two, "pillar/data.sls") == "colour: vermilion\n",
            seconds=120,
        )
        until("it serves", two.serving)
        self.write(two, "salt/new.sls", "x: y\n")
        until("its file", lambda: self.read(one, "salt/new.sls"))
        one.command("members", "rights", "beta", "read,write", check=True)
        until("no pillar is kept", lambda: not self._pillar_stores(two), seconds=120)
        until("it serves again", two.serving)
        two.ping_until("own")
        two.ping_until("stock")
        self.assertEqual(self.comments(two), both)

    def _pillar_stores(self, node: OurNode) -> list[str]:
        return [
            os.path.join(folder, name)
            for folder, names, _ in os.walk(node.root)
            for name in names
            if name.startswith("pillar-base")
        ]

    def _files_with(self, node: OurNode, word: bytes) -> list[str]:
        """Files that a node keeps, in which a word is: as it is, or packed."""
        found = []
        for folder, _, names in os.walk(node.root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        # What minions return is on all nodes, whatever it is
                        if word in file.read() and not name.startswith(("jobs.", "beta.log")):
                            found.append(path)
        return found


@needs_peers
class MixedTests(RootsCase):
    """Nodes that are not in step."""

    def test_mixed(self) -> None:
        """A job whose minion gets other files than the job was given says so, on all nodes."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("alpha", 1, ports), self.node("beta", 2, ports, quota_mib=1)
        one.up()
        self.write(one, "salt/top.sls", "base:\n  '*': [s]\n")
        self.write(one, "salt/s.sls", STATE.format("old"))
        self.join(one, two)
        one.command("roots", "sync", "--wait", check=True)
        self.minions(two)
        self.assertEqual(self.comments(one), {"own": ["old"], "stock": ["old"]})
        before = self.roots(two, "status")["generation"]
        # More than beta has room for comes in one change with the new state
        self.write(one, "salt/large", os.urandom(3_000_000).hex())
        self.write(one, "salt/s.sls", STATE.format("new"))
        one.command("roots", "sync", check=True)
        after = self.roots(one, "status")["generation"]
        until("it is held", lambda: "quota" in str(self.roots(two, "status")["shares"]))
        self.assertEqual(self.roots(two, "status")["generation"], before)
        done = self.comments(one)
        self.assertEqual(done, {"own": ["old"], "stock": ["old"]})
        jobs = one.run("jobs.list_jobs", "search_function=state.apply")
        newest = max(jobs)
        for node in (one, two):
            shown = node.run("jobs.list_job", newest)
            self.assertEqual(shown["Generation"], after)
            self.assertEqual(shown["Mixed"], {"own": [before], "stock": [before]})
            looked = node.command("salt-run", "jobs.lookup_jid", newest)
            self.assertIn(after, looked.stdout + looked.stderr)
            self.assertIn("own also got " + before, looked.stdout + looked.stderr)
        older = one.run("jobs.list_job", min(jobs))
        self.assertNotIn("Mixed", older)
        self.assertEqual(older["Generation"], before)


SHIFTED = """
import time

_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 10**9
"""


@needs_peers
class TroubleTests(RootsCase):
    """Clocks and lines that are not as they should be."""

    def test_clock(self) -> None:
        """A node whose clock is off keeps its changes back, and says so; it takes others'."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        made = [
            self.node(name, number + 1, ports) for number, name in enumerate(["one", "two", "off"])
        ]
        one, two, off = made
        os.makedirs(f"{self.home}/clock")
        with open(f"{self.home}/clock/sitecustomize.py", "w") as file:
            file.write(SHIFTED.format(seconds=900))
        off.env["PYTHONPATH"] = f"{self.home}/clock:{off.env.get('PYTHONPATH', '')}"
        one.up()
        for node in (two, off):
            self.join(one, node)
        until(
            "it knows",
            lambda: "over ten minutes" in self.roots(off, "status", check=False)["clock"],
        )
        self.write(off, "salt/late", "from a future\n")
        self.write(one, "salt/now", "from here\n")
        until("what others write", lambda: self.read(off, "salt/now"))
        waits = self.roots(off, "sync", "--wait", "--timeout", "1", check=False)
        self.assertFalse(waits["done"])
        self.assertIsNone(self.read(one, "salt/late"))
        self.assertEqual(self.roots(one, "status")["clock"], "")
        shown = off.command("roots", "status")
        self.assertIn("over ten minutes off", shown.stdout)
        # Its clock is set right
        off.stop()
        del off.env["PYTHONPATH"]
        off.start()
        off.wait_serving()
        until("what it kept back", lambda: self.read(two, "salt/late"))

    def test_line_breaks_in_a_large_file(self) -> None:
        """A small edit overtakes a large file; after a break the rest of that comes, not all."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("one", 1, ports), self.node("two", 2, ports)
        one.up()
        self.join(one, two)
        size = 500_000_000 if os.environ.get("SALTWISTED_LONG") == "1" else 150_000_000
        block = os.urandom(1_000_000)
        with open(f"{self.home}/srv/one/salt/large", "wb") as file:
            for number in range(size // len(block)):
                file.write(number.to_bytes(8, "big") + block[8:])
        parts = f"{two.root}/var/cache/salt/master/saltwisted/roots/file-base-0/part"

        def arrived() -> int:
            return sum(entry.stat().st_size for entry in os.scandir(parts))

        until("a part of it", lambda: os.path.isdir(parts) and arrived() > 5_000_000, every=0.005)
        self.write(one, "salt/small", "x\n")
        until("the small one", lambda: self.read(two, "salt/small"), every=0.005)
        overtaken = arrived()
        two.kill()
        self.assertLess(overtaken, size)
        self.assertFalse(os.path.exists(f"{self.home}/srv/two/salt/large"))
        left = arrived()
        self.assertGreater(left, 5_000_000)
        two.start()
        two.wait_serving()
        path = f"{self.home}/srv/two/salt/large"
        until("all of it", lambda: os.path.exists(path) and os.path.getsize(path) == size)
        (peer,) = self.roots(two, "status")["peers"].values()
        self.assertLess(peer["bytes_in"], size - left + 10_000_000)
        with open(path, "rb") as file:
            for number in range(size // len(block)):
                self.assertEqual(file.read(8), number.to_bytes(8, "big"))
                file.seek(len(block) - 8, 1)
