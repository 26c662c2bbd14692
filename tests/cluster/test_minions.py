from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.minions import MinionData
from saltwisted.cluster.life.drift import Drift
from saltwisted.config.options import MasterConfig
from saltwisted.domain.replica.book import Book
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.minions import Minions
from saltwisted.stores.cache import MinionCache
from tests.cluster.memory import MemoryPeers


class Node:
    """A cache and its fold, with a log in memory."""

    def __init__(self, name: str, path: str) -> None:
        self.clock = Clock()
        self.cache = MinionCache(path)
        self.cache.startService()
        self.minions = Minions()
        self.book = Book(name, name.encode().hex().rjust(16, "0"), Folds([self.minions]))
        self.entries: list[Entry] = []
        self.data = MinionData(self.clock, self.cache, self.minions, self.append)

    def start(self) -> Node:
        self.data.startService()
        self.clock.pump([0] * 20)
        return self

    async def append(self, kind: str, body: Mapping[str, Any]) -> Entry:
        entry = self.book.append(kind, body, 1000.0)
        self.entries.append(entry)
        self.book.written([entry])
        return entry

    def meet(self, other: Node) -> None:
        for node, peer in ((self, other), (other, self)):
            new = node.book.take(peer.entries)
            node.book.merged(new, 1000.0)
            node.entries.extend(new)


class MinionDataTests(SynchronousTestCase):
    def pair(self) -> tuple[Node, Node]:
        return Node("a", self.mktemp()).start(), Node("b", self.mktemp()).start()

    def test_on_all_nodes(self) -> None:
        """Grains that came to one node are in the cache of the other, and the newest hold."""
        a, b = self.pair()
        a.cache.put("grains", "m1", {"os": "Debian"})
        a.meet(b)
        self.assertEqual(b.cache.get("grains", "m1"), {"os": "Debian"})

        b.cache.put("grains", "m1", {"os": "Ubuntu"})
        a.meet(b)

        self.assertEqual(a.cache.get("grains", "m1"), {"os": "Ubuntu"})
        self.assertEqual(a.minions.digest(), b.minions.digest())

    def test_equal_is_no_news(self) -> None:
        """What a minion says again is not sent again, by whichever node it comes."""
        a, b = self.pair()
        for node in (a, b, a):
            node.cache.put("grains", "m1", {"os": "Debian"})
            a.meet(b)

        self.assertEqual(len(a.entries), 1)

    def test_deleted(self) -> None:
        """What is deleted on one node is gone on the other, and does not come back."""
        a, b = self.pair()
        a.cache.put("mine", "m1", {"x": 1})
        a.meet(b)
        b.cache.delete("mine", "m1")
        a.meet(b)

        self.assertIsNone(a.cache.get("mine", "m1"))
        self.assertEqual(a.cache.ids("mine"), ())

    def test_taken_over(self) -> None:
        """What lay in the cache of an existing master comes to all nodes."""
        path = self.mktemp()
        old = MinionCache(path)
        old.startService()
        old.put("pillar", "m1", {"password": "x"})
        old.stopService()
        a, b = Node("a", path).start(), Node("b", self.mktemp()).start()

        a.meet(b)

        self.assertEqual(b.cache.get("pillar", "m1"), {"password": "x"})

    def test_cache_lost(self) -> None:
        """A node that lost its cache says so by its digest, and takes the values again."""
        a, b = self.pair()
        a.cache.put("grains", "m1", {"os": "Debian"})
        a.meet(b)
        for minion_id in a.cache.ids("grains"):
            a.cache.adopt("grains", minion_id, None)
        a.data.stopService()
        a.start()
        self.assertNotEqual(a.minions.digest(), b.minions.digest())

        for fact in b.minions.dump():
            a.minions.apply(*fact)

        self.assertEqual(a.cache.get("grains", "m1"), {"os": "Debian"})
        self.assertEqual(a.minions.digest(), b.minions.digest())


class DriftTests(SynchronousTestCase):
    def test_differs(self) -> None:
        """Options that differ are shown with each node's value, and named in the log once."""
        clock = Clock()
        peers = [MemoryPeers(name, clock) for name in "ab"]
        configs = [
            MasterConfig(
                external_auth={"pam": {name: [".*"]}},
                peer={},
                interface=name,
                file_roots={"base": [f"/srv/{name}"]},
                pillar_roots={"base": ["/srv/pillar", "/more"][: 1 + (name == "b")]},
            )
            for name in "ab"
        ]
        others = [("b", "c"), ("a", "c")]
        drifts = [
            Drift(clock, p.node, p, c, lambda names=names: names)
            for p, c, names in zip(peers, configs, others, strict=True)
        ]
        peers[0].join(peers[1])
        clock.pump([0.1] * 20)
        rows: Deferred[Any] = Deferred.fromCoroutine(drifts[0].rows())
        clock.pump([0.1] * 20)

        found = self.successResultOf(rows)
        row, roots = found["drift"]

        self.assertEqual(found["unasked"], ["c"])
        # Where roots lie is each node's own matter; how many there are is not
        self.assertEqual(roots["option"], "pillar_roots")
        self.assertEqual(roots["values"]["b"], '{"base": ["/srv/pillar", "/more"]}')
        self.assertEqual(row["option"], "external_auth")
        self.assertEqual(
            row["values"], {"a": '{"pam": {"a": [".*"]}}', "b": '{"pam": {"b": [".*"]}}'}
        )
        self.assertEqual(drifts[0].told, {("b", "external_auth"), ("b", "pillar_roots")})
        self.assertEqual(drifts[1].told, {("a", "external_auth"), ("a", "pillar_roots")})
        wanted = {"external_auth": ["b"], "pillar_roots": ["b"]}
        self.assertEqual(drifts[0].differing(), wanted)

    def test_differs_no_longer(self) -> None:
        """A difference that a reload makes or mends is known within a minute, also elsewhere."""
        clock = Clock()
        peers = [MemoryPeers(name, clock) for name in "ab"]
        configs = [MasterConfig(external_auth={"pam": {"fred": [".*"]}}) for _ in "ab"]
        drifts = [
            Drift(clock, p.node, p, c, lambda p=p: "b" if p.node == "a" else "a")
            for p, c in zip(peers, configs, strict=True)
        ]
        peers[0].join(peers[1])
        clock.pump([0.1] * 20)
        for drift in drifts:
            drift.startService()
            self.addCleanup(drift.stopService)
        self.assertEqual([drift.differing() for drift in drifts], [{}, {}])

        configs[1].adopt(MasterConfig(), ["external_auth"])
        clock.pump([1.0] * 62)
        found = [drift.differing() for drift in drifts]
        self.assertEqual(found, [{"external_auth": ["b"]}, {"external_auth": ["a"]}])

        configs[0].adopt(MasterConfig(), ["external_auth"])
        clock.pump([1.0] * 62)
        self.assertEqual([drift.differing() for drift in drifts], [{}, {}])
