"""
Roots of a real cluster when something is missing: a line, room on a disk, a member for long, and
whoever may write. As root alone: network namespaces, and a small disk that is full.
"""

from __future__ import annotations

import os
import subprocess
import unittest
from typing import Any

from tests.cluster.real import OurNode, join_all
from tests.harness import (
    reserve_ports,
    scratch,
    until,
    write_config,
)
from tests.interop.network import Hub, needs_namespaces
from tests.interop.test_cluster_roots import RootsCase


@needs_namespaces
class LineTests(RootsCase):
    """Three hosts."""

    def test_relay(self) -> None:
        """What is edited on one node comes to another that it cannot reach, by way of a third."""
        self.home = scratch(self)
        hub = Hub(3)
        self.addCleanup(hub.remove)
        hub.route()
        ports = reserve_ports(3)
        made = [self.node(name, number + 1, ports) for number, name in enumerate("abc")]
        for node, host in zip(made, hub.hosts, strict=True):
            self.settle_at(node, host)
        join_all(made)
        for node in made:
            node.wait_serving()
        one, two, _ = made
        hub.hosts[0].cut(hub.hosts[1])
        for node, other in ((one, "b"), (two, "a")):
            until("the end of the link", lambda n=node, o=other: n.states().get(o) == "down")

        self.write(one, "salt/from-a", "a\n")
        self.write(two, "salt/from-b", "b\n")

        until("it is relayed", lambda: self.read(two, "salt/from-a") == "a\n")
        until("the other way", lambda: self.read(one, "salt/from-b") == "b\n")
        self.assertEqual(one.states()["b"], "down")
        peers = self.roots(one, "status")["peers"]
        self.assertEqual([peers[name]["connected"] for name in "bc"], [False, True])
        result = self.roots(one, "sync", "--wait", "--timeout", "1", check=False)
        self.assertEqual([result["peers"][name]["ok"] for name in "bc"], [False, True])
        hub.heal()
        until("the link", lambda: one.states().get("b") == "serving")
        self.assertTrue(self.roots(one, "sync", "--wait")["done"])

    def settle_at(self, node: OurNode, host: Any) -> None:
        """Have a node run on a host."""
        node.address = host.address
        node.options["interface"] = host.address
        write_config(os.path.join(node.conf, "master"), node.options)
        node.argv = host.inside(node.argv)


def needs_root(test: type) -> type:
    """Skip a test class where nobody may mount; as root it must work."""
    if os.geteuid() == 0:
        return test
    return unittest.skip("mounting needs root")(test)


@needs_root
class RoomTests(RootsCase):
    """A disk of a few mebibytes."""

    def mount(self, node: OurNode, size: int) -> str:
        """Put its stores on a disk of its own."""
        folder = f"{node.root}/var/cache/salt/master/saltwisted/roots"
        os.makedirs(folder, exist_ok=True)
        self.change(folder, f"size={size}m")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    def change(self, folder: str, how: str, *more: str) -> None:
        """Mount, or mount again."""
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join([how, *more]), "tmpfs", folder], check=True
        )

    def error(self, node: OurNode) -> str:
        """What C{roots status} says of its files."""
        return str(self.roots(node, "status")["shares"]["file/base/0"]["error"])

    def test_no_room(self) -> None:
        """
        What does not fit is named and not begun; a disk that is full refuses a change as a whole;
        both come by themselves when there is room again.
        """
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("one", 1, ports), self.node("two", 2, ports)
        folder = self.mount(two, 48)
        one.up()
        self.write(one, "salt/first", "1\n")
        self.join(one, two)
        until("the first", lambda: self.read(two, "salt/first"))
        before = self.roots(two, "status")["generation"]

        content = os.urandom(60_000_000)
        with open(f"{self.home}/srv/one/.large", "wb") as file:
            file.write(content)
        os.rename(f"{self.home}/srv/one/.large", f"{self.home}/srv/one/salt/large")
        one.command("roots", "sync", check=True)
        until("it is named", lambda: "no room" in self.error(two))
        status = two.command("roots", "status").stdout
        self.assertIn("no room", status)
        self.assertEqual(self.roots(two, "status")["generation"], before)
        self.assertEqual(sorted(self.tree(two)), ["first"])
        self.change(folder, "remount", "size=256m")
        until("the large one", lambda: "large" in self.tree(two))
        until("it is whole", lambda: self.same(one, two))

        filler = f"{folder}/filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 65536)
            except OSError:
                # The disk is full
                pass
        before = self.roots(one, "status")["generation"]
        self.write(two, "salt/refused", os.urandom(300_000).hex())
        until("the refusal is named", lambda: self.error(two))
        waits = self.roots(two, "sync", "--wait", "--timeout", "1", check=False)
        self.assertFalse(waits["done"])
        self.assertEqual(self.roots(one, "status")["generation"], before)
        self.assertIsNone(self.read(one, "salt/refused"))
        os.unlink(filler)
        until("it goes on", lambda: self.read(one, "salt/refused"))
        self.assertTrue(self.same(one, two))
        until("no error is left", lambda: not self.error(two))

    def tree(self, node: OurNode) -> list[str]:
        """Names in its root, but for what is ours."""
        return [n for n in os.listdir(f"{self.home}/srv/{node.name}/salt") if n[0] != "."]

    def same(self, one: OurNode, two: OurNode) -> bool:
        """Whether rsync finds no difference."""
        roots = [f"{self.home}/srv/{node.name}/salt/" for node in (one, two)]
        done = subprocess.run(
            ["rsync", "-anciO", "--delete", *roots], capture_output=True, text=True, check=True
        )
        return done.stdout == ""


class MemberTests(RootsCase):
    """Members that are away, or are the last of their kind."""

    def test_away_for_long(self) -> None:
        """A node that missed many generations, and a removed file, is like the others again."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("one", 1, ports), self.node("two", 2, ports)
        one.up()
        for name in ("gone", "kept"):
            self.write(one, f"salt/{name}", name)
        self.join(one, two)
        until("both", lambda: self.read(two, "salt/kept") and self.read(two, "salt/gone"))
        two.stop()
        os.unlink(f"{self.home}/srv/one/salt/gone")
        for number in range(150):
            self.write(one, "salt/kept", f"generation {number}\n")
            self.write(one, f"salt/d/{number % 40}", f"{number}\n")
            one.command("roots", "sync", check=True) if number % 10 == 9 else None
        # Edited there while it was away
        self.write(two, "salt/own", "of two\n")

        two.up()

        until("its edit", lambda: self.read(one, "salt/own"))
        self.assertTrue(self.roots(two, "sync", "--wait")["done"])
        self.assertEqual(self.read(two, "salt/kept"), "generation 149\n")
        for node in (one, two):
            self.assertIsNone(self.read(node, "salt/gone"))
            self.assertEqual(self.read(node, "salt/own"), "of two\n")
        self.assertEqual(
            self.roots(one, "status")["generation"], self.roots(two, "status")["generation"]
        )
        self.assertEqual(self.roots(two, "conflicts"), [])

    def test_last_writer_goes(self) -> None:
        """The last that may write leaves: what is there is served, and a right is all it takes."""
        self.home = scratch(self)
        ports = reserve_ports(3)
        one, two = self.node("one", 1, ports), self.node("two", 2, ports)
        one.up()
        self.write(one, "salt/f", "f\n")
        self.join(one, two, "--rights", "read")
        until("it", lambda: self.read(two, "salt/f"))

        one.command("leave", check=True)

        until("the end of its streams", lambda: not self.roots(two, "status")["peers"])
        self.write(two, "salt/g", "g\n")
        until("it is undone", lambda: self.read(two, "salt/g") is None)
        self.assertEqual(self.read(two, "salt/f"), "f\n")
        self.assertTrue(two.serving())
        # Somebody has to say who writes from now on
        two.command("members", "rights", "two", "all", check=True)
        until("the rights", lambda: "write" in str(self.roots(two, "status", check=False)))
        two.wait_serving()
        self.write(two, "salt/h", "h\n")
        until("it counts", lambda: "added" in str(self.roots(two, "diff", check=False)))
        self.assertEqual(self.read(two, "salt/h"), "h\n")
        self.assertIsNone(self.read(one, "salt/h"))
