from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.replicate import KeyReplica
from saltwisted.domain.replica.book import Book
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KIND, KeySet
from saltwisted.errors import StoreError
from saltwisted.stores.keys import KeyStore

ONE, TWO = b"key one\n", b"key two\n"


class Node:
    """The keys of one node, on a real disk, with a log in memory that others can read."""

    def __init__(
        self, test: SynchronousTestCase, name: str, pki_dir: str, joined: Sequence[Entry] = ()
    ) -> None:
        self.test = test
        self.name = name
        self.pki_dir = pki_dir
        self.marker = pki_dir + ".marker"
        self.clock = Clock()
        self.keyset = KeySet()
        self.book = Book(name, name.encode().hex().rjust(16, "0"), Folds([self.keyset]))
        self.entries: list[Entry] = []
        self.alarms: list[str] = []
        self.before_start: Callable[[], None] | None = None
        if joined:
            new = self.book.take(joined)
            self.book.merged(new, self.clock.seconds())
            self.entries.extend(new)
        self.begin()

    def begin(self) -> None:
        """A new life with the same log."""
        self.keys = KeyStore(self.pki_dir)
        self.keys.open()
        self.replica = KeyReplica(
            clock=self.clock,
            node=self.name,
            cluster="c1",
            marker=self.marker,
            keys=self.keys,
            keyset=self.keyset,
            append=self.append,
            listen=self.book.folds.listen,
            alarm=lambda tag, data: self.alarms.append(tag),
            confirmed=self.confirmed,
            problem=lambda: self.problem,
        )
        self.stalled: list[Deferred[None]] | None = None
        self.problem = ""
        self.refuses = False
        if self.before_start is not None:
            self.before_start()
        self.done = self.replica.startService()
        for _ in range(200):
            self.clock.advance(0)
        self.test.successResultOf(self.done)

    async def append(self, kind: str, body: Mapping[str, Any]) -> Entry:
        if self.refuses:
            raise StoreError("the disk is too slow: too many writes are waiting")
        entry = self.book.append(kind, body, self.clock.seconds())
        if self.stalled is not None:
            write: Deferred[None] = Deferred()
            self.stalled.append(write)
            await write
        self.entries.append(entry)
        self.book.written([entry])
        return entry

    def append_now(self, body: Mapping[str, Any]) -> None:
        """Add an entry with exactly this body."""
        self.test.successResultOf(Deferred.fromCoroutine(self.append(KIND, body)))

    async def confirmed(self) -> Sequence[str]:
        return ["far"]

    def meet(self, *others: Node) -> None:
        """Everybody gets what the others have."""
        for node in (self, *others):
            for other in (self, *others):
                new = node.book.take(other.entries)
                node.book.merged(new, node.clock.seconds())
                node.entries.extend(new)
        for node in (self, *others):
            node.turn()

    def turn(self, seconds: float = 0.0) -> None:
        """Let it write, and look at its directories."""
        for _ in range(50):
            self.clock.advance(0)
        self.keys.rescan()
        self.clock.advance(seconds)
        for _ in range(50):
            self.clock.advance(0)

    def path(self, folder: str, minion_id: str = "") -> str:
        return os.path.join(self.pki_dir, folder, *([minion_id] if minion_id else []))

    def shown(self) -> dict[str, list[str]]:
        """The directories as they are, without those that are empty."""
        found = {}
        for folder in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
            names = sorted(os.listdir(self.path(folder)))
            if names:
                found[folder] = names
        return found

    def read(self, folder: str, minion_id: str) -> bytes:
        with open(self.path(folder, minion_id), "rb") as file:
            return file.read()


class KeyReplicaTests(SynchronousTestCase):
    def node(self, name: str) -> Node:
        return Node(self, name, self.mktemp())

    def pair(self) -> tuple[Node, Node]:
        return self.node("a"), self.node("b")

    def accepted(self, count: int) -> tuple[Node, Node]:
        """Two nodes with some accepted minions."""
        a, b = self.pair()
        for number in range(count):
            a.keys.put("accepted", f"m{number}", ONE)
        a.meet(b)
        return a, b

    def test_decided_while_it_catches_up(self) -> None:
        """What is decided on a node that is still taking in holds, as if it were decided then."""
        a, b = self.accepted(2)
        for node in (a, b):
            node.keys.put("pending", "new", ONE)
        a.meet(b)
        b.replica.stopService()
        asked: list[Deferred[Any]] = []

        def operate() -> None:
            b.keys.move("new", "pending", "accepted")
            b.keys.move("m0", "accepted", "rejected")
            b.keys.delete("m1")
            asked.append(Deferred.fromCoroutine(b.replica.settled()))

        b.before_start = operate
        b.begin()
        self.assertEqual(self.successResultOf(asked[0]), ["far"])
        a.meet(b)

        for node in (a, b):
            self.assertEqual(node.shown(), {"minions": ["new"], "minions_rejected": ["m0"]})

    def test_decided_and_not_caught_up(self) -> None:
        """Nobody is told that it is done while the node does not know what the others know."""
        a = self.node("a")
        a.replica.stopService()
        a.replica._running = False
        a.keys.put("accepted", "m1", ONE)

        asked = Deferred.fromCoroutine(a.replica.settled())
        a.clock.pump([0.5] * 20)

        self.assertIn("unknown", str(self.failureResultOf(asked, StoreError).value))

    def test_accepted_before_the_join(self) -> None:
        """A joiner's acceptance of a key that only waits in the cluster is carried over."""
        a = self.node("a")
        for name in ("waits", "refused", "deleted"):
            a.keys.put("pending", name, ONE)
        a.keys.move("refused", "pending", "rejected")
        a.keys.delete("deleted")
        a.turn()
        path = self.mktemp()
        keys = KeyStore(path)
        keys.open()
        for name in ("waits", "refused", "deleted", "own"):
            keys.put("accepted", name, ONE)
        b = Node(self, "b", path, a.entries)
        a.meet(b)

        for node in (a, b):
            self.assertEqual(
                node.shown(), {"minions": ["own", "waits"], "minions_rejected": ["refused"]}
            )

    def test_accept_and_delete(self) -> None:
        """What an operator does on one node is in the directories of the other."""
        a, b = self.pair()
        a.keys.put("pending", "m1", ONE)
        a.meet(b)
        self.assertEqual(b.shown(), {"minions_pre": ["m1"]})

        b.keys.move("m1", "pending", "accepted")
        a.meet(b)
        self.assertEqual((a.shown(), b.shown()), ({"minions": ["m1"]}, {"minions": ["m1"]}))
        self.assertEqual(a.read("minions", "m1"), ONE)

        a.keys.delete("m1")
        a.meet(b)
        self.assertEqual((a.shown(), b.shown()), ({}, {}))
        self.assertEqual(b.keys.accepted("m1"), None)

    def test_revocation_outranks(self) -> None:
        """Deleted here and accepted there without knowing of it: it is not accepted."""
        a, b = self.pair()
        a.keys.put("pending", "m1", ONE)
        a.meet(b)
        a.keys.delete("m1")
        b.keys.move("m1", "pending", "accepted")

        a.meet(b)

        self.assertEqual((a.shown(), b.shown()), ({}, {}))

    def test_pending_again(self) -> None:
        """After a deletion the same key is pending again when it signs in, and can be accepted."""
        a, b = self.accepted(1)
        b.keys.delete("m0")
        a.meet(b)
        a.keys.put("pending", "m0", ONE)
        a.meet(b)
        self.assertEqual(b.shown(), {"minions_pre": ["m0"]})

        b.keys.move("m0", "pending", "accepted")
        a.meet(b)

        self.assertEqual(a.shown(), {"minions": ["m0"]})

    def test_two_keys(self) -> None:
        """Two keys accepted for one id: the earlier holds, the later is denied, on both nodes."""
        a, b = self.pair()
        a.clock.advance(10)
        b.clock.advance(20)
        b.keys.put("accepted", "m1", TWO)
        a.keys.put("accepted", "m1", ONE)

        a.meet(b)

        for node in (a, b):
            self.assertEqual(node.shown(), {"minions": ["m1"], "minions_denied": ["m1"]})
            self.assertEqual(node.read("minions", "m1"), ONE)
            self.assertEqual(node.read("minions_denied", "m1"), TWO)
        b.keys.move("m1", "denied", "accepted")
        a.meet(b)
        for node in (a, b):
            self.assertEqual(node.shown(), {"minions": ["m1"]})
            self.assertEqual(node.read("minions", "m1"), TWO)

    def test_holder_deleted(self) -> None:
        """When the key that holds is deleted, the other one does not move up by itself."""
        a, b = self.pair()
        a.keys.put("accepted", "m1", ONE)
        b.clock.advance(1)
        b.keys.put("accepted", "m1", TWO)
        a.meet(b)

        a.keys.delete("m1", ["accepted"])
        a.meet(b)

        for node in (a, b):
            self.assertEqual(node.shown(), {"minions_denied": ["m1"]})

    def test_rejected(self) -> None:
        """A rejection is on all nodes."""
        a, b = self.accepted(1)
        b.keys.move("m0", "accepted", "rejected")
        a.meet(b)

        self.assertEqual(a.shown(), {"minions_rejected": ["m0"]})

    def test_one_file_removed_by_hand(self) -> None:
        """A key file that somebody removes is a deletion on all nodes, two seconds later."""
        a, b = self.accepted(3)
        os.unlink(a.path("minions", "m1"))
        a.turn()
        a.meet(b)
        self.assertEqual(b.shown(), {"minions": ["m0", "m1", "m2"]})

        a.turn(2.5)
        a.meet(b)

        self.assertEqual(b.shown(), {"minions": ["m0", "m2"]})
        self.assertEqual(a.alarms, [])

    def test_replaced_by_hand(self) -> None:
        """A file that is taken away and put back at once is no change."""
        a, b = self.accepted(2)
        os.rename(a.path("minions", "m1"), a.path("aside"))
        a.turn(1.0)
        os.rename(a.path("aside"), a.path("minions", "m1"))
        a.turn(3.0)
        a.meet(b)

        self.assertEqual(b.shown(), {"minions": ["m0", "m1"]})

    def test_moved_by_hand(self) -> None:
        """A file that somebody moves from pending to accepted is an acceptance everywhere."""
        a, b = self.pair()
        a.keys.put("pending", "m1", ONE)
        a.meet(b)
        os.rename(b.path("minions_pre", "m1"), b.path("minions", "m1"))
        b.turn()
        a.meet(b)

        self.assertEqual((a.shown(), b.shown()), ({"minions": ["m1"]}, {"minions": ["m1"]}))

    def test_rm_rf(self) -> None:
        """C{rm -rf} of a key directory revokes nobody: it is restored, with an alarm."""
        a, b = self.accepted(30)
        shutil.rmtree(a.path("minions"))
        a.turn()
        a.turn(2.5)
        a.meet(b)

        everybody = sorted(f"m{number}" for number in range(30))
        self.assertEqual(a.shown(), {"minions": everybody})
        self.assertEqual(b.shown(), {"minions": everybody})
        self.assertEqual(a.alarms, ["saltwisted/alarm/keys-vanished"])

    def test_slowly_removed(self) -> None:
        """Files that vanish in two goes within a moment are judged together."""
        a, b = self.accepted(30)
        for number in range(30):
            os.unlink(a.path("minions", f"m{number}"))
            if number == 8:
                a.turn(1.5)
        a.turn(1.0)
        a.turn(2.5)
        a.meet(b)

        self.assertEqual(len(a.shown()["minions"]), 30)
        self.assertEqual(len(b.shown()["minions"]), 30)

    def test_unmounted_while_down(self) -> None:
        """Directories that are empty at the start are filled from the log."""
        a, b = self.accepted(30)
        a.replica.stopService()
        shutil.rmtree(a.pki_dir)

        a.begin()
        a.meet(b)

        self.assertEqual(len(a.shown()["minions"]), 30)
        self.assertEqual(len(b.shown()["minions"]), 30)
        self.assertEqual(a.alarms, ["saltwisted/alarm/keys-vanished"])

    def test_restored_backup(self) -> None:
        """A backup of the directories brings back nobody who was deleted since."""
        a, b = self.accepted(3)
        shutil.copytree(a.pki_dir, a.pki_dir + ".backup")
        a.keys.delete("m1")
        a.meet(b)
        a.replica.stopService()
        shutil.rmtree(a.pki_dir)
        os.rename(a.pki_dir + ".backup", a.pki_dir)

        a.begin()
        a.meet(b)

        self.assertEqual(a.shown(), {"minions": ["m0", "m2"]})
        self.assertEqual(b.shown(), {"minions": ["m0", "m2"]})

    def test_taken_over(self) -> None:
        """The keys of an existing master are taken over as they are, once."""
        pki_dir = self.mktemp()
        keys = KeyStore(pki_dir)
        keys.open()
        keys.put("accepted", "m1", ONE)
        keys.put("rejected", "m2", ONE)
        keys.put("pending", "m3", TWO)
        keys.put("denied", "m1", TWO)

        a = Node(self, "a", pki_dir)
        b = self.node("b")
        a.meet(b)

        self.assertEqual(a.shown(), b.shown())
        self.assertEqual(
            b.shown(),
            {
                "minions": ["m1"],
                "minions_pre": ["m3"],
                "minions_rejected": ["m2"],
                "minions_denied": ["m1"],
            },
        )
        with open(a.marker) as file:
            self.assertEqual(file.read(), "c1")

    def test_unknown_later(self) -> None:
        """An accepted key of which the log knows nothing is pending after a later start."""
        a, _ = self.accepted(1)
        a.replica.stopService()
        with open(a.path("minions", "old"), "wb") as file:
            file.write(ONE)

        a.begin()

        self.assertEqual(a.shown(), {"minions": ["m0"], "minions_pre": ["old"]})

    def test_change_not_written_yet(self) -> None:
        """A deletion that came in and is not written yet is not taken back by another change."""
        a, b = self.accepted(1)
        b.keys.delete("m0")
        a.book.merged(a.book.take(b.entries), 0.0)
        self.assertEqual(a.shown(), {"minions": ["m0"]})

        a.keys.put("denied", "m0", TWO)
        a.turn()
        a.entries.extend(b.entries[1:])
        a.meet(b)

        self.assertNotIn("minions", a.shown())
        self.assertNotIn("minions", b.shown())

    def test_T_REPLAY_3_old_accept_after_delete(self) -> None:
        """
        An old acceptance that is sent again after a deletion loses: as the same entry, and as a
        new one of a node that does not know of the deletion.
        """
        a, b = self.pair()
        a.keys.put("pending", "m1", ONE)
        a.meet(b)
        c = self.node("c")
        a.meet(b, c)
        a.keys.move("m1", "pending", "accepted")
        accepted = a.entries[-1]
        a.meet(b)
        b.keys.delete("m1")
        a.meet(b)
        self.assertEqual(a.shown(), {})

        self.assertEqual(list(b.book.take([accepted])), [], "known by its number")
        c.append_now(accepted.fields())
        c.keys.move("m1", "pending", "accepted")
        a.meet(b, c)

        self.assertEqual([node.shown() for node in (a, b, c)], [{}, {}, {}])

    def test_settled(self) -> None:
        """Who waits for a change hears which members have not confirmed it."""
        a, _ = self.accepted(1)
        a.keys.delete("m0")
        waiting: Deferred[Any] = Deferred.fromCoroutine(a.replica.settled())

        self.assertEqual(self.successResultOf(waiting), ["far"])

    def test_stalled_disk(self) -> None:
        """
        While the disk does not take an act, who waits for it is told that it is not known; when the
        disk takes it at last, the act is in the log: to stop waiting takes nothing back.
        """
        a, b = self.accepted(1)
        a.stalled = []
        a.keys.delete("m0")
        waiting: Deferred[Any] = Deferred.fromCoroutine(a.replica.settled())
        a.clock.pump([0.5] * 9)
        self.assertNoResult(waiting)

        a.clock.pump([0.5] * 3)

        self.assertIn("unknown: ", str(self.failureResultOf(waiting, StoreError).value))
        for write in a.stalled:
            write.callback(None)
        a.stalled = None
        a.meet(b)
        self.assertEqual((a.shown(), b.shown()), ({}, {}))
        again: Deferred[Any] = Deferred.fromCoroutine(a.replica.settled())
        self.assertEqual(self.successResultOf(again), ["far"])

    def test_not_started(self) -> None:
        """
        A node that takes in what it missed refuses to change keys: it said done for what the log
        undid a moment later, and so it did while it stopped.
        """
        a = self.node("a")
        a.keys.put("pending", "web", ONE)
        a.replica.stopService()

        with self.assertRaises(StoreError) as caught, a.replica.together():
            a.keys.move("web", "pending", "accepted")

        self.assertIn("not done: this node no longer serves its cluster", str(caught.exception))
        self.assertEqual(a.shown(), {"minions_pre": ["web"]})
        a.begin()
        with a.replica.together():
            a.keys.move("web", "pending", "accepted")
        a.turn()
        self.assertEqual(a.shown(), {"minions": ["web"]})

    def test_disk_known_to_be_stalled(self) -> None:
        """Nothing is begun while it is known that the disk takes no writes."""
        a, _ = self.accepted(1)
        a.problem = "database or disk is full"

        with self.assertRaises(StoreError) as caught, a.replica.together():
            a.keys.delete("m0")

        self.assertIn("not done: database or disk is full", str(caught.exception))
        self.assertEqual(a.shown(), {"minions": ["m0"]})

    def test_refused_is_taken_back(self) -> None:
        """An act that the log does not take is told as such, and the key files say what it says."""
        a, _ = self.accepted(1)
        a.refuses = True
        a.keys.delete("m0")
        waiting: Deferred[Any] = Deferred.fromCoroutine(a.replica.settled())

        error = self.failureResultOf(waiting, StoreError).value
        self.assertEqual(
            str(error), "not written: the disk is too slow: too many writes are waiting; taken back"
        )
        a.turn()
        self.assertEqual(a.shown(), {"minions": ["m0"]})
        a.refuses = False
        a.keys.delete("m0")
        a.turn()
        self.assertEqual(a.shown(), {})

    def test_in_one(self) -> None:
        """
        Keys that come in one breath are one entry, and need no look at the disk; a full disk keeps
        nobody out who asks for nothing new.
        """
        a, _ = self.pair()
        before = len(a.entries)
        looked: list[str] = []
        look = a.keys.key
        self.patch(a.keys, "key", lambda state, name: looked.append(name) or look(state, name))

        with a.replica.in_one():
            for number in range(8):
                a.keys.put("accepted", f"web{number}", ONE)
        a.problem = "the disk is full"
        with a.replica.in_one():
            pass

        self.assertEqual(len(a.entries), before + 1)
        self.assertEqual(looked, [])
        for number in range(8):
            self.assertEqual(a.keyset.view(f"web{number}").holder.state, "accepted")
            self.assertEqual(a.keys.accepted(f"web{number}"), ONE)

    def test_together(self) -> None:
        """What is done to many keys at once is one entry, and the same on the other node."""
        a, b = self.pair()
        names = [f"m{number}" for number in range(5)]
        for name in names:
            a.keys.put("pending", name, ONE)
        a.meet(b)
        entries = len(b.entries)
        with b.replica.together():
            for name in names:
                b.keys.move(name, "pending", "accepted")
            self.assertEqual(len(b.entries), entries)
        self.assertEqual(len(b.entries), entries + 1)
        a.meet(b)
        self.assertEqual(a.shown(), {"minions": names})

        with a.replica.together():
            for name in names:
                a.keys.delete(name)
        a.meet(b)

        self.assertEqual((a.shown(), b.shown()), ({}, {}))
        self.assertEqual(len(b.entries), entries + 2)
        # An acceptance of before, sent again, loses against each part of it
        again = next(e for e in b.entries if e.fields().get("act") == "many")
        b.append_now(again.fields())
        a.meet(b)
        self.assertEqual((a.shown(), b.shown()), ({}, {}))

    def test_own_act_is_on_disk(self) -> None:
        """
        What an act of here says is in the directories already: they are not compared again. Where
        the log decides otherwise, or another tool has taken the file meanwhile, they are.
        """
        a, b = self.pair()
        a.keys.put("pending", "m0", ONE)
        self.assertEqual(a.replica.waiting, set())

        # The other key of the id was accepted earlier: the log shows this one as denied
        b.clock.advance(10)
        a.keys.put("accepted", "two", ONE)
        b.keys.put("accepted", "two", TWO)
        a.meet(b)
        self.assertEqual(a.shown(), b.shown())
        self.assertEqual(b.read("minions", "two"), ONE)
        self.assertEqual(b.read("minions_denied", "two"), TWO)
        with b.replica.together():
            b.keys.put("accepted", "three", ONE)
            os.unlink(b.path("minions", "three"))
            b.keys.rescan()
        self.assertEqual(b.replica.waiting, {"three"})
        b.turn(30)
        self.assertEqual(b.read("minions", "three"), ONE)

    def test_together_with_others(self) -> None:
        """One key is not a list; a key that comes back in the same moment; two operators."""
        a, b = self.accepted(3)
        entries = len(a.entries)
        with a.replica.together():
            a.keys.delete("m0")
        self.assertEqual(a.entries[-1].fields()["act"], "delete")
        with a.replica.together():
            a.keys.delete("m1")
            a.keys.put("pending", "m1", ONE)
            with a.replica.together():
                a.keys.delete("m2")
            self.successResultOf(Deferred.fromCoroutine(a.replica.settled()))
            self.assertEqual(len(a.entries), entries + 3)
        a.meet(b)

        self.assertEqual((a.shown(), b.shown()), ({"minions_pre": ["m1"]},) * 2)

    def test_nonsense_together(self) -> None:
        """Acts that are none, nested ones, or two on one key change nothing."""
        a, _ = self.accepted(2)
        good = a.keyset.act("delete", "m0", ONE)
        for acts in (
            7,
            [good, 7],
            [good, good],
            [good, {**good, "act": "many", "acts": []}],
            [good, {**good, "act": "state", "id": "m1"}],
            [good, {"act": "delete"}],
        ):
            a.append_now({"act": "many", "acts": acts})
        a.turn()

        self.assertEqual(a.book.folds.refused, {KIND: 6})
        self.assertEqual(a.shown(), {"minions": ["m0", "m1"]})

    def test_log_is_the_kind(self) -> None:
        """All of this is of one kind of entry."""
        a, _ = self.accepted(2)

        self.assertEqual({entry.kind for entry in a.entries}, {KIND})
