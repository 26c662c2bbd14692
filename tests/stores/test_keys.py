"""
Keys in Salt's directories: ours and other tools' changes, and the master's own pair.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Any

from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.stores.keys import LOOKS, KeyStore, master_keys
from tests.stores.support import FolderTestCase

KEY = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
OTHER = KEY.replace(b"AAAA", b"BBBB")


class KeyStoreTests(FolderTestCase):
    """The four directories."""

    def setUp(self) -> None:
        """An open store, and a list of its changes."""
        super().setUp()
        self.store = self.fresh()
        self.changes: list[tuple[str, str, str]] = []
        self.store.on_change(lambda *change: self.changes.append(change))

    def fresh(self, background: Callable[[Callable[[], None]], object] | None = None) -> KeyStore:
        """Another store over the same directory."""
        store = KeyStore(self.path("pki"), background)
        store.open()
        return store

    def outside(self, state: str, minion_id: str, pub: bytes = KEY) -> str:
        """Another tool writes a key."""
        return self.write(f"pki/{state}/{minion_id}", pub)

    def test_states(self) -> None:
        """A key is in one of the three states, and another tool finds it in Salt's directory."""
        self.store.put("pending", "web1", KEY)
        self.assertEqual(self.store.pending("web1"), KEY)
        self.assertIsNone(self.store.accepted("web1"))
        self.assertTrue(os.path.exists(self.path("pki/minions_pre/web1")))

        self.assertTrue(self.store.move("web1", "pending", "accepted"))
        self.assertEqual(self.store.accepted("web1"), KEY)
        self.assertIsNone(self.store.pending("web1"))
        self.assertFalse(os.path.exists(self.path("pki/minions_pre/web1")))
        self.assertFalse(self.store.move("web1", "pending", "accepted"))

        self.assertEqual(self.store.state("web1"), "accepted")
        self.assertEqual(self.store.delete("web1", ["rejected", "accepted"]), ["accepted"])
        self.assertIsNone(self.store.accepted("web1"))
        self.assertEqual(self.store.state("web1"), "")
        self.assertEqual(
            self.changes,
            [
                ("web1", "", "pending"),
                ("web1", "pending", "accepted"),
                ("web1", "accepted", ""),
            ],
        )

    def test_denied_stands_beside(self) -> None:
        """The first denied key is kept, and the accepted one stays."""
        self.store.put("accepted", "web1", KEY)

        self.store.put("denied", "web1", OTHER)
        self.store.put("denied", "web1", KEY)

        self.assertEqual(self.store.denied("web1"), OTHER)
        self.assertEqual(self.store.accepted("web1"), KEY)
        self.assertTrue(self.store.move("web1", "denied", "accepted"))
        self.assertEqual(self.store.accepted("web1"), OTHER)
        self.assertIsNone(self.store.denied("web1"))

    def test_survives(self) -> None:
        """Another store over the same directory finds every key in its state."""
        self.store.put("accepted", "web2", KEY)
        self.store.put("accepted", "web1", OTHER)
        self.store.put("rejected", "bad", KEY)

        again = self.fresh()

        self.assertEqual(list(again.accepted_ids()), ["web1", "web2"])
        self.assertEqual(again.accepted("web1"), OTHER)
        self.assertEqual(
            {state: list(ids) for state, ids in again.list_keys().items()},
            {"accepted": ["web1", "web2"], "pending": [], "rejected": ["bad"], "denied": []},
        )

    def test_removed_outside(self) -> None:
        """A key that somebody else removes is gone at the very next question."""
        self.store.put("accepted", "web1", KEY)
        os.unlink(self.path("pki/minions/web1"))

        self.assertIsNone(self.store.accepted("web1"))
        self.assertEqual(list(self.store.accepted_ids()), [])
        self.assertEqual(self.changes[-1], ("web1", "accepted", ""))

    def test_replaced_outside(self) -> None:
        """A key that somebody replaces is the new one at the next question, and is reported."""
        self.store.put("accepted", "web1", KEY)
        self.outside("minions", "new", OTHER)
        os.rename(self.path("pki/minions/new"), self.path("pki/minions/web1"))

        self.assertEqual(self.store.accepted("web1"), OTHER)
        self.assertEqual(self.changes[-1], ("web1", "accepted", "accepted"))

    def test_added_outside(self) -> None:
        """A key that somebody else adds is served at once, and listed after the next look."""
        self.outside("minions", "web1")

        self.assertEqual(self.store.accepted("web1"), KEY)
        self.outside("minions", "web2")
        self.assertEqual(self.store.rescan(), 1)
        self.assertEqual(list(self.store.accepted_ids()), ["web1", "web2"])
        self.assertEqual(self.changes, [("web1", "", "accepted"), ("web2", "", "accepted")])
        self.assertEqual(self.store.rescan(), 0)

    def test_copied_from_outside(self) -> None:
        """A key that is being copied is reported when it is written; what stays empty, later."""
        path = self.path("pki/minions/web1")
        with open(path, "w"):
            self.assertEqual(self.store.rescan(), 0)
        self.outside("minions", "web1")
        self.assertEqual(self.store.rescan(), 1)
        self.assertEqual(self.changes, [("web1", "", "accepted")])
        self.assertEqual(self.store.accepted("web1"), KEY)

        with open(self.path("pki/minions/web2"), "w"):
            pass
        self.assertEqual(sum(self.store.rescan() for _ in range(2 * LOOKS)), 1)
        self.assertEqual(self.changes[1:], [("web2", "", "accepted")])
        with open(self.path("pki/minions/web3"), "w"):
            self.store.rescan()
        os.remove(self.path("pki/minions/web3"))
        self.assertEqual(sum(self.store.rescan() for _ in range(2 * LOOKS)), 0)

    def test_many_come_in_portions(self) -> None:
        """With a limit, many new keys are taken in by several looks, and no junk hides them."""
        folder = os.path.join(self.store.pki_dir, "minions")
        for number in range(25):
            with open(os.path.join(folder, f"m{number}"), "w") as handle:
                handle.write("key")

        looks = [self.store.rescan(10) for _ in range(4)]

        self.assertEqual(looks, [10, 10, 5, 0])
        self.assertEqual(len(self.store.accepted_ids()), 25)
        for number in range(30):
            os.mkdir(os.path.join(folder, f"no-key{number}"))
        self.outside("minions", "web1")
        self.assertEqual(sum(self.store.rescan(10) for _ in range(30)), 1)

    def test_moved_outside(self) -> None:
        """A key that somebody else accepts is reported by the next look as gone and come."""
        self.store.put("pending", "web1", KEY)
        self.store.rescan()
        del self.changes[:]
        os.rename(self.path("pki/minions_pre/web1"), self.path("pki/minions/web1"))

        self.store.rescan()

        self.assertEqual(sorted(self.changes), [("web1", "", "accepted"), ("web1", "pending", "")])
        self.assertEqual(self.store.accepted("web1"), KEY)

    def test_many(self) -> None:
        """Two thousand keys that appear at once are known after one look, in order."""
        for number in range(2000):
            self.outside("minions", f"m{number:04}")

        self.assertEqual(self.store.rescan(), 2000)
        self.assertEqual(list(self.store.accepted_ids()), [f"m{n:04}" for n in range(2000)])
        self.assertEqual(self.store.accepted("m1999"), KEY)

    def test_T_PATH_1_names(self) -> None:
        """T-PATH-1: a bad id never reaches the disk, and a bad name on it is not a key."""
        self.write("pki/secret", KEY)
        for bad in ("../secret", "..", "", "a/b", "a\0b", ".key_cache", "x" * 300):
            self.assertIsNone(self.store.accepted(bad))
            self.assertRaises(StoreError, self.store.put, "accepted", bad, KEY)
            self.assertRaises(StoreError, self.store.delete, bad, ["accepted"])
        self.outside("minions", ".key_cache")
        self.outside("minions", "web1.")
        self.store.rescan()

        self.assertEqual(list(self.store.accepted_ids()), [])

    def test_links_and_pipes_are_no_keys(self) -> None:
        """A link, a directory or a pipe among the keys is not one, and does not block."""
        self.write("elsewhere", KEY)
        os.symlink(self.path("elsewhere"), self.path("pki/minions/link"))
        os.mkfifo(self.path("pki/minions/pipe"))
        os.mkdir(self.path("pki/minions/dir"))
        self.store.rescan()

        for name in ("link", "pipe", "dir"):
            self.assertIsNone(self.store.accepted(name), name)
        self.assertEqual(list(self.store.accepted_ids()), [])

    def test_empty_file(self) -> None:
        """A name without content (a power failure leaves such) is not a key until written again."""
        self.outside("minions_pre", "web1", b"")

        self.assertIsNone(self.store.pending("web1"))
        self.store.put("pending", "web1", KEY)
        self.assertEqual(self.store.pending("web1"), KEY)

    def test_T_FS_1_modes(self) -> None:
        """T-FS-1: whatever the umask, directories are 0700 and keys 0600."""
        for mask in (0, 0o777):
            self.umask(mask)
            store = KeyStore(self.path(f"pki{mask}"))
            store.open()
            store.put("accepted", "web1", KEY)
        self.umask(0o022)

        modes = self.modes()
        for mask in (0, 0o777):
            self.assertEqual(modes[f"pki{mask}"], 0o700)
            self.assertEqual(modes[f"pki{mask}/minions_denied"], 0o700)
            self.assertEqual(modes[f"pki{mask}/minions/web1"], 0o600)

    def test_killed_write(self) -> None:
        """What a killed write left is not a key, and gone after the next start."""
        self.outside("minions", ".tmp-0123456789abcdef", KEY[:10])

        again = self.fresh()

        self.assertEqual(list(again.accepted_ids()), [])
        self.assertEqual(os.listdir(self.path("pki/minions")), [])

    def test_killed_between_two_states(self) -> None:
        """A kill after the new state was written and before the old one went: the new one holds."""
        for minion_id, order in (
            ("one", ("minions_pre", "minions_rejected")),
            ("two", ("minions_rejected", "minions")),
            ("three", ("minions", "minions_rejected")),
        ):
            for seconds, state in enumerate(order):
                os.utime(self.outside(state, minion_id), (1000 + seconds, 1000 + seconds))
        # A power failure can leave a name without content
        self.outside("minions_pre", "two", b"")

        again = self.fresh()

        self.assertEqual(
            {state: list(ids) for state, ids in again.list_keys().items() if ids},
            {"accepted": ["two"], "rejected": ["one", "three"]},
        )
        self.assertEqual(os.listdir(self.path("pki/minions_pre")), [])

    def test_background(self) -> None:
        """With a thread, a key is served at once, and many writes make one call."""
        waiting: list[Callable[[], None]] = []
        store = self.fresh(waiting.append)

        for number in range(20):
            store.put("pending", f"m{number}", KEY)
        store.delete("m0")
        self.assertEqual(store.pending("m19"), KEY)
        self.assertEqual(len(waiting), 1)
        waiting.pop()()
        store.put("pending", "late", KEY)
        self.assertEqual(len(waiting), 1)

    def test_group(self) -> None:
        """
        What is put together is on disk as one group: all files are begun before the first is
        waited for, each is waited for, and the directory once.
        """
        waiting: list[Callable[[], None]] = []
        store = self.fresh(waiting.append)
        done: list[tuple[str, str]] = []

        def noted(word: str, original: Callable[..., Any]) -> Callable[..., Any]:
            def call(fd: int, *args: Any) -> Any:
                done.append((word, os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
                return original(fd, *args)

            return call

        self.patch(os, "fsync", noted("fsync", os.fsync))
        self.patch(os, "posix_fadvise", noted("begin", os.posix_fadvise))
        with store.together():
            for name in ("one", "two", "three"):
                store.put("accepted", name, KEY)
            self.assertEqual((waiting, done), ([], []))
        (call,) = waiting
        call()

        words = [word for word, _ in done]
        self.assertEqual(words, ["begin"] * 3 + ["fsync"] * 4)
        for part in (done[:3], done[3:6]):
            self.assertEqual({name for _, name in part}, {"one", "two", "three"})
        self.assertEqual(done[6], ("fsync", "minions"))

    def test_group_that_fails(self) -> None:
        """What a group had written before it failed is made durable all the same."""
        waiting: list[Callable[[], None]] = []
        store = self.fresh(waiting.append)

        def fails() -> None:
            with store.together():
                store.put("accepted", "one", KEY)
                raise StoreError("the disk is full", "/")

        self.assertRaises(StoreError, fails)

        self.assertEqual(len(waiting), 1)

    def test_flush_waits_for_the_thread(self) -> None:
        """Who waits until keys are durable waits also for those that a thread is just at."""
        threads: list[Thread] = []
        order: list[str] = []
        taken, returned = Event(), Event()
        original = files.sync_files

        def slow(paths: Iterable[str]) -> None:
            if paths:
                taken.set()
                # Who does not wait comes back in this time
                returned.wait(0.2)
                original(paths)
                order.append("durable")

        def background(call: Callable[[], None]) -> None:
            threads.append(Thread(target=call))
            threads[-1].start()

        self.patch(files, "sync_files", slow)
        store = self.fresh(background)
        store.put("accepted", "one", KEY)
        taken.wait()
        store.flush()
        order.append("flushed")
        returned.set()
        for thread in threads:
            thread.join()

        self.assertEqual(order, ["durable", "flushed"])

    def test_receiver_that_fails(self) -> None:
        """A receiver that fails is logged, and the others still hear."""
        store = self.fresh()
        heard: list[str] = []

        def fail(*change: str) -> None:
            raise ValueError("broken")

        store.on_change(fail)
        store.on_change(lambda minion_id, old, new: heard.append(minion_id))
        store.put("pending", "web1", KEY)

        self.assertEqual(heard, ["web1"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_autosign_stub(self) -> None:
        """A stub is used up once, and one that is too old is removed without effect."""
        now = 1_000_000.0
        for name, age in (("web1", 60), ("old", 121 * 60), ("web2", 60)):
            path = self.write(f"pki/minions_autosign/{name}")
            os.utime(path, (now - age, now - age))

        self.assertTrue(self.store.take_autosign("web1", now))
        self.assertFalse(self.store.take_autosign("web1", now))
        self.assertFalse(self.store.take_autosign("old", now))
        self.assertEqual(os.listdir(self.path("pki/minions_autosign")), ["web2"])
        self.assertTrue(self.store.take_autosign("web2", now + 1e6, 0))


class MasterKeyTests(FolderTestCase):
    """The master's own pair."""

    def make(self, name: str = "master") -> tuple[bytes, bytes]:
        """The pair, made by counting."""
        pair = master_keys(self.path("pki"), self.generate, lambda pem: b"pub of " + pem, name)
        return pair.private, pair.public

    def setUp(self) -> None:
        """Count how many pairs were made."""
        super().setUp()
        self.made = 0

    def generate(self) -> tuple[bytes, bytes]:
        """A pair."""
        self.made += 1
        return b"pem%d" % self.made, b"pub of pem%d" % self.made

    def test_made_once(self) -> None:
        """The pair is made at the first start and kept, readable by nobody else."""
        first = self.make()

        self.assertEqual(self.make(), first)
        self.assertEqual(self.made, 1)
        modes = self.modes()
        self.assertEqual(modes["pki/master.pem"], 0o400)
        self.assertEqual(modes["pki"], 0o700)
        self.assertFalse(modes["pki/master.pub"] & 0o077)

    def test_links_of_3008(self) -> None:
        """Salt 3008 leaves links to files named after the master: they are followed."""
        self.write("pki/host.pem", b"PEM", 0o400)
        self.write("pki/host.pub", b"PUB")
        os.symlink(self.path("pki/host.pem"), self.path("pki/master.pem"))
        os.symlink(self.path("pki/host.pub"), self.path("pki/master.pub"))

        self.assertEqual(self.make(), (b"PEM", b"PUB"))
        self.assertTrue(os.path.islink(self.path("pki/master.pem")))

    def test_dangling_link(self) -> None:
        """A link that leads nowhere is said plainly, and no new key is made over it."""
        os.mkdir(self.path("pki"))
        os.symlink("/elsewhere/host.pem", self.path("pki/master.pem"))

        error = self.assertRaises(StoreError, self.make)

        self.assertIn("/elsewhere/host.pem", str(error))
        self.assertEqual(self.made, 0)

    def test_missing_public_half(self) -> None:
        """A missing public half is made from the private one, as after a kill in between."""
        self.write("pki/master.pem", b"PEM", 0o400)

        self.assertEqual(self.make(), (b"PEM", b"pub of PEM"))
        self.assertEqual(self.made, 0)

    def test_missing_private_half(self) -> None:
        """A public half alone is no reason to make a new identity."""
        self.write("pki/master.pub", b"PUB")

        self.assertRaises(StoreError, self.make)
        self.assertEqual(self.made, 0)

    def test_not_shown(self) -> None:
        """The representation of a pair holds no private key."""
        pair = master_keys(self.path("pki"), self.generate, lambda pem: pem)

        self.assertNotIn("pem1'", repr(pair).replace("pub of pem1", ""))
