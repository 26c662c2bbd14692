"""
What a member tells one who would join, and to whom it tells nothing.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.cluster.links import census
from saltwisted.cluster.links.census import CensusTaker
from saltwisted.domain.merge import checked, key_digest
from saltwisted.domain.roots.entry import TreeEntry
from saltwisted.errors import TransportClosed
from saltwisted.stores.keys import KeyStore
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from tests.cluster.rig import Admitter, introduce, joiner, run
from tests.harness import scratch


class Keys:
    """Keys that are what their ids are."""

    def __init__(self, count: int) -> None:
        self.ids = [f"m{number}" for number in range(count)]

    def list_keys(self) -> dict[str, list[str]]:
        """All accepted but one."""
        return {"accepted": self.ids, "pending": ["late"]}

    def key(self, state: str, minion_id: str) -> bytes | None:
        """One has just gone."""
        return None if minion_id == "m1" else minion_id.encode()


class TakerTests(SynchronousTestCase):
    """From keys, generations and options to plain data."""

    def take(self, count: int = 3, keys: Any = None) -> dict[str, Any]:
        """A census with so many keys."""
        rows = [
            (b"top.sls", TreeEntry("f", 0o644, 1, 0, b"d" * 32)),
            (b"sub", TreeEntry("d", 0o755)),
            (b"sub/l\xff", TreeEntry("l", content=b"../top.sls")),
        ]
        generation: Any = SimpleNamespace(walk=lambda: iter(rows))
        clock = Clock()
        keys = keys or Keys(count)
        options = {"peer": {".*": ["test.ping"]}}
        taker = CensusTaker(clock, keys, lambda: {"file/base/0": generation}, options.get)
        d: Deferred[Any] = Deferred.fromCoroutine(taker.take())
        clock.pump([0.0] * (count // census.SLICE + 1))
        return self.successResultOf(d)  # type: ignore[no-any-return]

    def test_take(self) -> None:
        """Digests of keys and files, no directories, options as text; it survives the wire."""
        found = self.take()

        self.assertEqual(set(found["keys"]["accepted"]), {"m0", "m2"})
        self.assertEqual(found["keys"]["pending"], {"late": key_digest(b"late")})
        self.assertEqual(
            found["files"], {"file/base/0": {"top.sls": b"d" * 16, "sub/l\\xff": b"../top.sls"}}
        )
        self.assertEqual(found["options"], {"peer": '{".*": ["test.ping"]}'})
        self.assertFalse(found["cut"])
        self.assertEqual(unpack_bin(pack_bin(checked(found))), found)

    def test_of_a_key_store(self) -> None:
        """Keys in each of Salt's directories are counted, as the store of a node has them."""
        store = KeyStore(scratch(self))
        store.open()
        for state in ("accepted", "pending", "rejected", "denied"):
            store.put(state, f"is-{state}", state.encode())

        found = self.take(keys=store)["keys"]

        self.assertEqual({state: list(names) for state, names in found.items()}, {
            state: [f"is-{state}"] for state in ("accepted", "pending", "rejected", "denied")
        })  # fmt: skip

    def test_bound(self) -> None:
        """There is an end to it, and it says so."""
        self.patch(census, "MOST", 500)

        found = self.take(1000)

        self.assertTrue(found["cut"])
        self.assertEqual(sum(len(keys) for keys in found["keys"].values()), 499)
        self.assertEqual(found["files"], {"file/base/0": {}})


class CompareTests(TestCase):
    """Over real connections."""

    def test_told(self) -> Deferred[Any]:
        """Who could join by the token is told; nobody is admitted by that."""

        async def play() -> None:
            node = Admitter()
            self.addCleanup(node.stop)
            node.start()
            introduce(node)
            value = await joiner(node.token()).ask(node.address, {"do": "compare", "node": "b"})

            self.assertEqual(value["census"]["options"], {"peer": "{}"})
            self.assertEqual([m.node for m in node.membership.live()], ["a"])

        return run(play())

    @staticmethod
    def waiting(node: Admitter) -> Any:
        """A token whose user an operator has to approve of."""
        return node.token(wait=True)

    def test_not_told(self) -> Deferred[Any]:
        """Not before an operator approves, where the token asks for that, nor by a dead one."""

        async def play() -> None:
            node = Admitter()
            self.addCleanup(node.stop)
            node.start()
            introduce(node)
            live, dead = node.token(), node.token()
            waits = self.waiting(node)
            node.append("token", {"op": "revoke", "id": dead.id})
            told = {}
            for name, token in (("waits", waits), ("dead", dead), ("live", live)):
                try:
                    told[name] = await joiner(token).ask(node.address, {"do": "compare"})
                except TransportClosed:
                    told[name] = {"refused": "closed"}

            self.assertIn("operator approves", told["waits"]["refused"])
            self.assertEqual([name for name in told if "census" in told[name]], ["live"])

        return run(play())
