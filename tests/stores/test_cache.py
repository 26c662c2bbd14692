"""
What is written behind: minion data and session keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from saltwisted.errors import StoreError
from saltwisted.stores.cache import MinionCache
from saltwisted.stores.secrets import SecretFile
from saltwisted.stores.sessions import SessionStore
from saltwisted.stores.writebehind import WriteBehind
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import unpack_bin
from tests.stores.support import FolderTestCase


class BehindTests(FolderTestCase):
    """WriteBehind."""

    def test_coalesces(self) -> None:
        """Many values for one path while the thread is busy make one write, of the newest."""
        waiting: list[Callable[[], None]] = []
        behind = WriteBehind(waiting.append)

        for number in range(10):
            behind.put(self.path("a"), b"%d" % number)
        self.assertEqual(behind.pending(self.path("a")), b"9")
        self.assertEqual(len(waiting), 1)
        waiting.pop()()

        with open(self.path("a"), "rb") as file:
            self.assertEqual(file.read(), b"9")
        self.assertIsNone(behind.pending(self.path("a")))

    def test_deleted_before_written(self) -> None:
        """What is deleted while it waits is never written."""
        waiting: list[Callable[[], None]] = []
        behind = WriteBehind(waiting.append)
        behind.put(self.path("a"), b"x")

        self.assertTrue(behind.delete(self.path("a")))
        waiting.pop()()

        self.assertEqual(os.listdir(self.folder), [])
        self.assertFalse(behind.delete(self.path("a")))

    def test_makes_directories(self) -> None:
        """A missing directory is made, 0700, whatever the umask."""
        self.umask(0)
        WriteBehind(None).put(self.path("new/sub/a"), b"x")

        self.assertEqual(self.modes(), {"new": 0o700, "new/sub": 0o700, "new/sub/a": 0o600})

    def test_refused_write(self) -> None:
        """A write that the disk refuses is counted and survived; later ones work again."""
        behind = WriteBehind(None)
        self.write("file")
        behind.put(self.path("file/below"), b"x")
        behind.put(self.path("b"), b"x")

        self.assertEqual(behind.failed, 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b", "file"])

    def test_refused_write_is_tried_again(self) -> None:
        """What the disk refused is told, can still be read, and is written once there is room."""
        behind = WriteBehind(None)
        self.write("full")
        path = self.path("full/a")
        behind.put(path, b"old")
        behind.put(path, b"new")
        behind.put(self.path("b"), b"x")
        self.assertEqual(behind.pending(path), b"new")
        self.assertIn("full", behind.problem)
        behind.retry()
        self.assertIn("full", behind.problem)

        os.unlink(self.path("full"))
        behind.retry()

        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"new")
        self.assertEqual((behind.problem, behind.pending(path)), ("", None))

    def test_refused_write_is_forgotten(self) -> None:
        """A refused value that is deleted or replaced does not come back."""
        behind = WriteBehind(None)
        self.write("full")
        behind.put(self.path("full/a"), b"x")
        behind.put(self.path("full/b"), b"x")
        os.unlink(self.path("full"))
        os.mkdir(self.path("full"))
        self.assertTrue(behind.delete(self.path("full/a")))
        behind.put(self.path("full/b"), b"newer")
        behind.retry()

        self.assertEqual(os.listdir(self.path("full")), ["b"])
        with open(self.path("full/b"), "rb") as file:
            self.assertEqual(file.read(), b"newer")


class MinionCacheTests(FolderTestCase):
    """Grains, pillar and mine."""

    def fresh(self, **bounds: Any) -> MinionCache:
        """A cache over the directory."""
        cache = MinionCache(self.folder, **bounds)
        cache.startService()
        return cache

    def test_round_trip(self) -> None:
        """A value is there at once, and after a restart; bytes and text are told apart."""
        value = {"os": "Debian", "ip": ["10.0.0.1"], "raw": b"\xff", "n": {"a": 1}}
        cache = self.fresh()
        cache.put("grains", "web1", value)

        self.assertEqual(cache.get("grains", "web1"), value)
        self.assertEqual(self.fresh().get("grains", "web1"), value)
        self.assertIsNone(cache.get("pillar", "web1"))
        self.assertIsNone(cache.get("grains", "web2"))

    def test_layout(self) -> None:
        """The files are those of Salt 3008: C{<bank>/<id>.p}, msgpack; 0600 in 0700 directories."""
        self.umask(0)
        self.fresh().put("mine", "web1", {"a": "b"})

        with open(self.path("mine/web1.p"), "rb") as file:
            self.assertEqual(unpack_bin(file.read()), {"a": "b"})
        self.assertEqual(self.modes()["mine/web1.p"], 0o600)
        self.assertEqual(self.modes()["mine"], 0o700)

    def test_ids_and_deletion(self) -> None:
        """Ids are listed in order, and what is deleted is gone from the disk too."""
        cache = self.fresh()
        for minion in ("b", "a", "c"):
            cache.put("grains", minion, {"x": minion})
        cache.delete("grains", "b")
        cache.delete("grains", "never")
        cache.put("mine", "a", {})

        self.assertEqual(list(cache.ids("grains")), ["a", "c"])
        self.assertEqual(sorted(os.listdir(self.path("grains"))), ["a.p", "c.p"])
        cache.forget("a")
        self.assertEqual(list(self.fresh().ids("grains")), ["c"])
        self.assertEqual(list(self.fresh().ids("mine")), [])

    def test_parts(self) -> None:
        """One key of all values is remembered until the value changes, within bounds."""
        cache = self.fresh()
        cache.put("grains", "m1", {"os": "Debian", "n": 1, 5: "five"})  # type: ignore[dict-item]
        cache.put("grains", "m2", {"n": 2})
        self.assertEqual(cache.part("grains", "m1", ("os",)), {"os": "Debian"})
        self.assertEqual(cache.part("grains", "m1", ("5", 5)), {5: "five"})
        self.assertEqual(cache.part("grains", "m2", ("os",)), {})
        self.assertIsNone(cache.part("grains", "m3", ("os",)))
        self.assertIs(cache.part("grains", "m1", ("os",)), cache.part("grains", "m1", ("os",)))

        cache.put("grains", "m1", {"os": "BSD"})
        cache.put("grains", "m3", {"os": "Plan 9"})
        cache.delete("grains", "m2")

        self.assertEqual(cache.part("grains", "m1", ("os",)), {"os": "BSD"})
        self.assertEqual(cache.part("grains", "m3", ("os",)), {"os": "Plan 9"})
        self.assertIsNone(cache.part("grains", "m2", ("os",)))
        cache.put("pillar", "m1", {"long": "x" * 10_000})
        for number in range(100):
            cache.part("pillar", "m1", (number, "long"))
        self.assertLessEqual(len(cache._columns), 4)
        self.assertFalse(any(cache._columns[place] for place in cache._columns))

    def test_bounded(self) -> None:
        """Beyond the bounds values come from the disk, and are still right."""
        cache = self.fresh(objects=2000, packed=3000)
        for number in range(20):
            cache.put("grains", f"m{number}", {"data": str(number) * 500})

        for number in range(20):
            found = cache.get("grains", f"m{number}")
            assert found is not None
            self.assertEqual(found["data"], str(number) * 500)
        self.assertLess(cache._packed_bytes, 5000)
        self.assertLess(cache._object_bytes, 4000)

    def test_warmed(self) -> None:
        """After the start the grains become objects a few at a time, and that ends by itself."""
        for number in range(50):
            self.fresh().put("grains", f"m{number}", {"os": "Debian"})
        clock = Clock()
        cache = MinionCache(self.folder, clock=clock)
        cache.startService()
        self.assertEqual(len(cache._objects), 20)
        clock.pump([0.02] * 10)

        self.assertEqual(len(cache._objects), 50)
        self.assertEqual(clock.getDelayedCalls(), [])
        stopped = MinionCache(self.folder, clock=clock)
        stopped.startService()
        stopped.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_text_is_shared(self) -> None:
        """Equal texts of two minions are one object, keys and values."""
        cache = self.fresh()
        for minion in ("a", "b"):
            cache.put("grains", minion, {"os_family": ["Debian GNU/Linux"], "id": minion})

        first, second = cache.get("grains", "a"), cache.get("grains", "b")
        assert first is not None
        assert second is not None
        self.assertIs(first["os_family"][0], second["os_family"][0])
        self.assertIsNot(first["os_family"], second["os_family"])

    def test_unchanged_costs_nothing(self) -> None:
        """An equal value is not written again."""
        calls: list[Callable[[], None]] = []
        cache = MinionCache(self.folder, calls.append)
        cache.startService()
        cache.put("grains", "web1", {"a": 1})
        calls.pop()()
        cache.put("grains", "web1", {"a": 1})
        self.assertEqual(calls, [])
        self.assertEqual(cache.get("grains", "web1"), {"a": 1})
        cache.put("grains", "web1", {"a": 1})

        self.assertEqual(calls, [])
        cache.put("grains", "web1", {"a": 2})
        self.assertEqual(len(calls), 1)

    def test_waiting_value_is_read(self) -> None:
        """A value that is not on the disk yet is found even when memory had to give it up."""
        cache = MinionCache(self.folder, lambda call: None, objects=1, packed=1)
        cache.startService()
        cache.put("grains", "a", {"x": 1})
        cache.put("grains", "b", {"x": 2})

        self.assertEqual(cache.get("grains", "a"), {"x": 1})
        cache.stopService()
        self.assertEqual(self.fresh().get("grains", "b"), {"x": 2})

    def test_broken_file(self) -> None:
        """A file that is not a msgpack map is forgotten, not an error."""
        for content in (b"", b"\xc1", b"\x93\x01\x02\x03"):
            self.write("grains/web1.p", content)
            cache = self.fresh()
            self.assertIsNone(cache.get("grains", "web1"))
            self.assertEqual(list(cache.ids("grains")), [])

    def test_T_PATH_1_ids(self) -> None:
        """T-PATH-1: no bad id becomes a path."""
        cache = self.fresh()
        self.write("secret.p", b"\x81\xa1a\x01")

        self.assertRaises(StoreError, cache.put, "grains", "../secret", {})
        self.assertIsNone(cache.get("grains", "../secret"))
        cache.delete("grains", "../secret")
        self.assertTrue(os.path.exists(self.path("secret.p")))


class SessionTests(FolderTestCase):
    """Session keys."""

    def setUp(self) -> None:
        """A clock that the test moves, and dice that count."""
        super().setUp()
        self.now = os.stat(self.folder).st_mtime
        self.number = 0
        self.accepted: float | None = 0.0
        self.number_of_key: Any = 1

    def entropy(self, count: int) -> bytes:
        """Never the same twice."""
        self.number += 1
        return self.number.to_bytes(count, "big")

    def secret_file(self) -> SecretFile:
        """The secret of this master, as a new process finds it."""
        return SecretFile(self.path("secret"), self.entropy, lambda: self.now, 500.0)

    def fresh(self) -> SessionStore:
        """A store over the directory, as a new process has it."""
        store = SessionStore(
            self.folder,
            self.secret_file(),
            lambda: self.now,
            1000.0,
            lambda minion_id: self.number_of_key,
            lambda minion_id: self.accepted,
        )
        store.startService()
        return store

    def left(self, minion: str = "web1") -> SessionKey:
        """What a stock master left for a minion."""
        key = SessionKey.generate(os.urandom)
        self.write(f"sessions/{minion}", key.text, 0o600)
        return key

    def valid(self, store: SessionStore, minion: str = "web1", pub: bytes = b"pub") -> list[Any]:
        """The keys that a minion may use."""
        return [lent.key for lent in store.valid(minion, pub)]

    def test_kept(self) -> None:
        """The key is the same at the next sign-in and after a restart, and no file is written."""
        store = self.fresh()
        key = store.for_sign_in("web1", b"pub").key

        self.assertEqual(store.for_sign_in("web1", b"pub\n").key, key)
        self.assertEqual(self.valid(self.fresh()), [key])
        self.assertEqual(os.listdir(self.path("sessions")), [])

    def test_T_FS_1_modes(self) -> None:
        """T-FS-1: the secret is readable by its owner alone."""
        self.umask(0)
        self.fresh().for_sign_in("web1", b"pub")

        self.assertEqual(self.modes(), {"sessions": 0o700, "secret": 0o600, "secret.lock": 0o600})

    def test_everything_counts(self) -> None:
        """Another minion, key, acceptance or secret gives another session key."""
        store = self.fresh()
        keys = [store.for_sign_in("web1", b"pub").key]
        keys.append(store.for_sign_in("web2", b"pub").key)
        keys.append(store.for_sign_in("web1", b"other").key)
        self.number_of_key += 1
        keys.append(store.for_sign_in("web1", b"pub").key)
        os.unlink(self.path("secret"))
        keys.append(self.fresh().for_sign_in("web1", b"pub").key)

        self.assertEqual(len({key.text for key in keys}), 5)

    def test_age(self) -> None:
        """A key is used for at most C{publish_session}; the version before counts until then."""
        store = self.fresh()
        key = store.for_sign_in("web1", b"pub").key
        self.now += 600
        after = store.for_sign_in("web1", b"pub").key
        self.assertNotEqual(after, key)
        self.assertEqual(self.valid(store), [after, key])
        self.now += 299
        self.assertEqual(self.valid(store), [after, key])
        self.now += 102

        self.assertEqual(self.valid(store), [after])

    def test_ends_are_spread(self) -> None:
        """Keys that were made together do not all end together."""
        store = self.fresh()
        keys = {f"m{number}": store.for_sign_in(f"m{number}", b"pub").key for number in range(50)}
        self.now += 950

        left = sum(key in self.valid(store, minion) for minion, key in keys.items())
        self.assertTrue(5 < left < 45, left)

    def test_shared_secret(self) -> None:
        """Masters that share the file hand out the same keys, also after one made a new version."""
        one, two = self.fresh(), self.fresh()
        self.assertEqual(one.for_sign_in("web1", b"pub").key, two.for_sign_in("web1", b"pub").key)
        self.now += 700
        key = one.for_sign_in("web1", b"pub").key
        self.now += 2

        self.assertEqual(two.for_sign_in("web1", b"pub").key, key)

    def test_broken_secret(self) -> None:
        """A secret that cannot be read or written means signing in again, no more."""
        for content in (b"", b"short", b"\x91\x93\x01\xc4\x01a\x01"):
            self.write("secret", content)
            self.assertEqual(len(self.valid(self.fresh())), 1)
        os.mkdir(self.path("blocked"))
        secrets = SecretFile(self.path("blocked"), self.entropy, lambda: self.now)

        self.assertEqual(secrets(), secrets())

    def test_left_by_stock(self) -> None:
        """A key that a stock master handed out counts until it is too old."""
        key = self.left()
        store = self.fresh()
        self.assertIn(key, self.valid(store))
        self.assertNotIn(key, self.valid(store, "web2"))
        self.now = os.stat(self.path("sessions/web1")).st_mtime + 1001

        self.assertNotIn(key, self.valid(store))

    def test_left_until_sign_in(self) -> None:
        """A sign-in with us ends what a stock master handed out, and removes its file."""
        key = self.left()
        store = self.fresh()
        store.for_sign_in("web1", b"pub")

        self.assertNotIn(key, self.valid(store))
        self.assertFalse(os.path.exists(self.path("sessions/web1")))

    def test_T_KEY_1_forgotten(self) -> None:
        """T-KEY-1: a forgotten key is gone from memory and disk."""
        key = self.left()
        store = self.fresh()
        store.forget("web1")

        self.assertNotIn(key, self.valid(store))
        self.assertNotIn(key, self.valid(self.fresh()))

    def test_T_KEY_1_not_accepted(self) -> None:
        """T-KEY-1: without an accepted key there is no session, whatever the secret says."""
        store = self.fresh()
        self.number_of_key = None

        self.assertEqual(self.valid(store), [])
        self.assertRaises(StoreError, store.for_sign_in, "web1", b"pub")

    def test_T_KEY_1_older_than_the_key(self) -> None:
        """T-KEY-1: a session from before the minion's key was accepted is not its own."""
        key = self.left()
        born = os.stat(self.path("sessions/web1")).st_mtime

        self.accepted = born + 1
        self.assertNotIn(key, self.valid(self.fresh()))
        self.accepted = None
        self.assertNotIn(key, self.valid(self.fresh()))
        self.accepted = born - 1
        self.assertIn(key, self.valid(self.fresh()))

    def test_broken_file(self) -> None:
        """A file that is not a key is ignored."""
        for content in (b"", b"short", b"\xff" * 76):
            self.write("sessions/web1", content)
            self.assertEqual(len(self.valid(self.fresh())), 1)

    def test_T_PATH_1_ids(self) -> None:
        """T-PATH-1: no bad id becomes a path."""
        store = self.fresh()

        self.assertRaises(StoreError, store.for_sign_in, "../x", b"pub")
        store.forget("../x")
