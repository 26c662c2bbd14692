"""
Members ring one another's ports: what C{saltwisted doctor} asks for.
"""

from __future__ import annotations

import json
import unittest
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.ring import Ring
from saltwisted.wire.msgpack import pack_bin
from saltwisted.worker.control import ControlClient
from tests.cluster.memory import MemoryPeers
from tests.cluster.real import cluster
from tests.harness import until


class Addresses:
    """A membership that knows where nodes are."""

    def __init__(self, **hosts: str) -> None:
        self.hosts = hosts

    def named(self, node: str) -> list[Any]:
        """As the real one."""
        return [self] if self.add(node) else []

    def add(self, node: str) -> bool:
        """Remember who was asked for."""
        self.addresses = [f"{host}:4520" for host in self.hosts.get(node, "").split()]
        return bool(self.addresses)


class RingTests(SynchronousTestCase):
    """Two nodes, linked; which connections come about is given."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.dialled: list[tuple[str, str, int]] = []
        self.closed: set[tuple[str, int]] = set()
        self.peers = [MemoryPeers(name, self.clock) for name in "ab"]
        known = Addresses(a="10.0.0.1", b="10.0.0.2 192.0.2.7")
        self.rings = [
            Ring(p.node, p, known, [4505, 4506], self.dials(p.node))  # type: ignore[arg-type]
            for p in self.peers
        ]
        self.peers[0].join(self.peers[1])

    def dials(self, node: str) -> Any:
        """Connections of one node."""

        def reaches(host: str, port: int) -> Deferred[bool]:
            self.dialled.append((node, host, port))
            return succeed((host, port) not in self.closed)

        return reaches

    def rows(self) -> Any:
        """What a is told."""
        d: Deferred[Any] = Deferred.fromCoroutine(self.rings[0].rows())
        self.clock.pump([0.1] * 20)
        return self.successResultOf(d)

    def test_both_ways(self) -> None:
        """Ours from there, theirs from here; one of several addresses is enough."""
        self.closed = {("10.0.0.2", 4505), ("10.0.0.1", 4506)}

        rows = self.rows()

        self.assertEqual(rows["unknown"], {})
        self.assertEqual(
            rows["reached"],
            {
                "b to 10.0.0.1:4505": True,
                "b to 10.0.0.1 port 4506": False,
                "a to 192.0.2.7:4505 (b)": True,
                "a to 10.0.0.2:4506 (b)": True,
            },
        )

    def test_only_the_asker(self) -> None:
        """Dialled are the asker's own addresses, whatever is asked, and few ports (T-PEER-5)."""
        body = pack_bin([0, 70000, *range(1, 100)])

        d = Deferred.fromCoroutine(self.peers[0].hear("b", "ring", body))

        self.successResultOf(d)
        self.assertEqual({host for _, host, _ in self.dialled}, {"10.0.0.2", "192.0.2.7"})
        self.assertEqual(sorted({port for _, _, port in self.dialled}), list(range(1, 9)))

    def test_nonsense(self) -> None:
        """A word that is none is refused, and an answer that is none is said."""
        for body in (pack_bin({"a": 1}), pack_bin(["x"]), pack_bin([True]), b"\xc1"):
            self.failureResultOf(Deferred.fromCoroutine(self.peers[0].hear("b", "ring", body)))
        self.peers[1]._answers["ring"] = lambda node, body: pack_bin([1])

        rows = self.rows()

        self.assertEqual((rows["reached"], list(rows["unknown"])), ({}, ["b"]))


class DoctorTests(unittest.TestCase):
    """Two real nodes."""

    def test_doctor(self) -> None:
        """All ports are rung from both sides, and none is amiss."""
        a, _ = cluster(self, "a b")

        def rung() -> bool:
            """A node opens its ports to minions when it has what it needs to serve them."""
            with ControlClient(path=a.socket_path, timeout=30) as client:
                reached = client.call("members_ring")["reached"]
            return len(reached) == 6 and all(reached.values())

        until("all ports to be open", rung)
        done = a.command("doctor", "--json")

        self.assertEqual(json.loads(done.stdout)["unknown"], {}, done.stdout)
        self.assertNotIn("port.", done.stdout)
