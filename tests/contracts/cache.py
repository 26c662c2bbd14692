"""
What every minion cache has to do (L{saltwisted.parts.IMinionCache}).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from saltwisted.errors import StoreError
from saltwisted.parts import IMinionCache
from saltwisted.wire.msgpack import pack_bin, unpack_bin

BANKS = ("grains", "pillar", "mine")
VALUE = {"os": "Debian", "ip": ["10.0.0.1"], "raw": b"\xff", "n": {"a": 1}, 5: "five"}


class MinionCacheContract:
    """The claims. A test case opens the cache, again and again over the same place."""

    def opened(self) -> IMinionCache:
        """A started cache, with what the one before had when it stopped."""
        raise NotImplementedError

    def again(self: Any, cache: IMinionCache) -> IMinionCache:
        """The cache after a stop and a start."""
        cache.stopService()
        return self.opened()  # type: ignore[no-any-return]

    def both(self: Any, cache: IMinionCache) -> Iterator[IMinionCache]:
        """The cache as it is, and then after a restart."""
        yield cache
        yield self.again(cache)

    def test_round_trip(self: Any) -> None:
        """A value is there at once and after a restart; bytes, text and numbers are told apart."""
        cache = self.opened()
        for bank in BANKS:
            cache.put(bank, "web1", {**VALUE, "bank": bank})
        for one in self.both(cache):
            for bank in BANKS:
                self.assertEqual(one.get(bank, "web1"), {**VALUE, "bank": bank})
                self.assertEqual(unpack_bin(one.packed(bank, "web1")), {**VALUE, "bank": bank})
                self.assertTrue(one.has(bank, "web1"))
                self.assertEqual(one.problem, "")

    def test_nothing(self: Any) -> None:
        """Of a minion that is not known there is nothing, in any bank; to forget it is no error."""
        cache = self.opened()
        cache.put("grains", "web1", VALUE)
        for bank, minion in (("pillar", "web1"), ("grains", "web2"), ("mine", "web")):
            cache.delete(bank, minion)
            cache.adopt(bank, minion, None)
            self.assertIsNone(cache.get(bank, minion))
            self.assertIsNone(cache.packed(bank, minion))
            self.assertIsNone(cache.part(bank, minion, ("os",)))
            self.assertFalse(cache.has(bank, minion))
        self.assertEqual(list(cache.ids("grains")), ["web1"])
        self.assertEqual(list(cache.ids("mine")), [])

    def test_replaced(self: Any) -> None:
        """The last value counts, as a whole; also one that is empty, and after a restart."""
        cache = self.opened()
        for value in ({"a": 1, "b": 2}, {"b": 3}, {}):
            cache.put("mine", "web1", value)
            self.assertEqual(cache.get("mine", "web1"), value)
            cache = self.again(cache)
            self.assertEqual(cache.get("mine", "web1"), value)
            self.assertTrue(cache.has("mine", "web1"))

    def test_part(self: Any) -> None:
        """Some keys of a value, by their own kind, as the value is now."""
        cache = self.opened()
        asked = ("grains", "web1", ("os", "no", "5", 5))
        cache.put("grains", "web1", VALUE)
        self.assertEqual(cache.part(*asked), {"os": "Debian", 5: "five"})
        cache.put("grains", "web1", {"os": "BSD"})
        self.assertEqual(cache.part(*asked), {"os": "BSD"})
        cache.adopt("grains", "web1", pack_bin({"no": 1}))
        self.assertEqual(cache.part(*asked), {"no": 1})
        cache.delete("grains", "web1")
        self.assertIsNone(cache.part(*asked))

    def test_ids(self: Any) -> None:
        """Ids are sorted, bank by bank, at once and after a restart."""
        cache = self.opened()
        for minion in ("web2", "a.example.com", "web10", "B", "web1"):
            cache.put("grains", minion, {"id": minion})
        cache.put("pillar", "other", {})
        cache.delete("grains", "web10")
        for one in self.both(cache):
            self.assertEqual(list(one.ids("grains")), ["B", "a.example.com", "web1", "web2"])
            self.assertEqual(list(one.ids("pillar")), ["other"])

    def test_deleted(self: Any) -> None:
        """What is forgotten does not come back, even if nothing was written any more (T-KEY-1)."""
        cache = self.opened()
        for minion in ("web1", "web2"):
            cache.put("pillar", minion, VALUE)
        cache.delete("pillar", "web1")
        self.assertIsNone(cache.get("pillar", "web1"))

        crashed = self.opened()
        self.assertEqual(list(crashed.ids("pillar")), ["web2"])
        self.assertIsNone(crashed.get("pillar", "web1"))

    def test_told(self: Any) -> None:
        """Changes are told once, with what was packed; what changes nothing is not told."""
        cache = self.opened()
        told: list[Any] = []
        cache.on_change(lambda *change: told.append(change))
        cache.on_change(lambda *change: told.append(change))

        cache.put("grains", "web1", {"a": 1})
        cache.put("grains", "web1", {"a": 1})
        self.assertEqual(told, [("grains", "web1", pack_bin({"a": 1}))] * 2)
        cache.put("grains", "web1", {"a": 2})
        cache.delete("grains", "web1")
        cache.delete("grains", "web1")
        self.assertEqual([data for _, _, data in told[2::2]], [pack_bin({"a": 2}), None])

    def test_equal_after_restart(self: Any) -> None:
        """A value that was read since the start is known to be equal: it is no news."""
        cache = self.opened()
        cache.put("grains", "web1", VALUE)
        cache = self.again(cache)
        told: list[Any] = []
        cache.on_change(lambda *change: told.append(change))

        self.assertEqual(cache.get("grains", "web1"), VALUE)
        cache.put("grains", "web1", VALUE)

        self.assertEqual(told, [])

    def test_adopted(self: Any) -> None:
        """What comes from another node is there at once and after a restart, and is told nobody."""
        cache = self.opened()
        told: list[Any] = []
        cache.on_change(lambda *change: told.append(change))
        cache.put("mine", "web1", {"a": 1})
        cache.put("mine", "web2", {"a": 1})
        del told[:]

        cache.adopt("mine", "web1", pack_bin(VALUE))
        cache.adopt("mine", "web2", None)

        self.assertEqual(told, [])
        for one in self.both(cache):
            self.assertEqual(one.packed("mine", "web1"), pack_bin(VALUE))
            self.assertEqual(one.get("mine", "web1"), VALUE)
            self.assertIsNone(one.get("mine", "web2"))

    def test_unreadable(self: Any) -> None:
        """What is no value is forgotten when it is asked for, and is no error."""
        cache = self.opened()
        for data in (b"", b"\xc1", b"\x93\x01\x02", pack_bin([1]), pack_bin("text")):
            cache.adopt("grains", "web1", data)
            self.assertIsNone(cache.get("grains", "web1"), data)
            self.assertFalse(cache.has("grains", "web1"), data)
            self.assertIsNone(cache.part("grains", "web1", ("a",)), data)
        cache.put("grains", "web1", VALUE)
        self.assertEqual(cache.get("grains", "web1"), VALUE)

    def test_T_PATH_1(self: Any) -> None:
        """T-PATH-1: what is no minion id is refused, and leaves nothing."""
        cache = self.opened()
        for minion in ("../web1", "a/b", "", ".", "..", "a\0b", "a\n"):
            with self.assertRaises(StoreError, msg=repr(minion)):
                cache.put("grains", minion, {})
            self.assertIsNone(cache.get("grains", minion))
        self.assertEqual(list(self.again(cache).ids("grains")), [])

    def test_many(self: Any) -> None:
        """More and larger values than anybody keeps in memory are all right."""
        cache = self.opened()
        for number in range(300):
            cache.put("grains", f"m{number}", {"n": number, "text": "x" * 1000})
        cache = self.again(cache)
        self.assertEqual(len(cache.ids("grains")), 300)
        for number in (0, 150, 299):
            self.assertEqual(cache.get("grains", f"m{number}")["n"], number)

    def test_retried(self: Any) -> None:
        """To try again where nothing was refused changes nothing."""
        cache = self.opened()
        cache.put("grains", "web1", VALUE)
        cache.retry()
        self.assertEqual(cache.get("grains", "web1"), VALUE)
