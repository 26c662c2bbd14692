"""
The job cache as a log: what one node has, every node can have, in any order, and prints alike.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

from twisted.logger import globalLogPublisher

from saltwisted.domain.replica import entry as entryform
from saltwisted.domain.replica.entry import Entry, Stream, decode_entries, encode_entries
from saltwisted.errors import DeniedError, StoreError
from saltwisted.stores.jobs import check as jobcheck
from saltwisted.stores.jobs import entries as jobentries
from saltwisted.stores.jobs import longpacking, transaction, writer
from saltwisted.stores.jobs.log import LOST_SECONDS
from saltwisted.stores.jobs.store import JobStore, LogRows
from saltwisted.stores.jobs.table import MIGRATIONS, SPAN
from saltwisted.wire.msgpack import pack_bin
from tests.stores.support import FolderTestCase, ThreadReactor
from tests.stores.test_jobs import JID, NEXT, load

PLENTY = 1 << 20


class LogTestCase(FolderTestCase):
    """Several stores over files of their own."""

    def setUp(self) -> None:
        """One reactor and one clock for all."""
        super().setUp()
        self.reactor = ThreadReactor()
        self.get = self.reactor.result
        self.now = 1_782_907_200.0

    def store(self, node: str, keep: float = 1000.0) -> JobStore:
        """An open store, closed at the end."""
        store = JobStore(
            self.reactor, self.path(node, "jobs.sqlite"), lambda: self.now, keep, node=node
        )
        store.startService()
        self.addCleanup(lambda: self.get(store.stopService()))
        return store

    def ship(self, source: JobStore, target: JobStore, limit: int = PLENTY) -> Sequence[Entry]:
        """Send what the other does not know, as it goes over the wire; what it took."""
        replica = source.replica
        state = dict(replica.floor())
        self.get(target.replica.merge_state([], state))
        entries = self.get(replica.since(target.replica.knowledge(), limit))
        sent = decode_entries(encode_entries(entries))
        self.assertEqual(sent, list(entries))
        return self.get(target.replica.merge(sent, source.file.node))

    def shown(self, store: JobStore) -> Any:
        """All that runners can print."""
        jobs = self.get(store.list_jobs(minions=True))
        return [(job, self.get(store.returns(job["jid"]))) for job in jobs]

    def save(self, store: JobStore, minion: str = "web1", jid: str = JID, **more: Any) -> bool:
        """Store a return."""
        return bool(self.get(store.save_return(load(minion, jid, **more))))

    def publish(self, store: JobStore, jid: str = JID, *minions: str, begun: float = 0) -> None:
        """Store a job; one under a jid that a caller chose, or a part of it, if it has begun."""
        job: dict[str, Any] = {"fun": "test.ping", "arg": [], "tgt": "*", "user": store.file.node}
        if begun:
            job["begun"] = begun
        self.get(store.save_job(jid, job, minions, chosen=bool(begun)))


class JobLogTests(LogTestCase):
    """One store sends, another takes."""

    def test_shipped(self) -> None:
        """A job and its returns are printed alike by the node that gets them."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1", "web2")
        self.save(a, "web1", value={"big": b"\xff"})
        self.now += 1
        self.save(a, "web2", out="nested")

        taken = self.ship(a, b)

        self.assertEqual([entry.number for entry in taken], [1, 2, 3])
        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(self.ship(a, b), [])

    def test_relayed(self) -> None:
        """What came from a first node goes on to a third."""
        a, b, c = self.store("a"), self.store("b"), self.store("c")
        self.publish(a, JID, "web1")
        self.save(a)
        self.ship(a, b)

        self.ship(b, c)

        self.assertEqual(self.shown(c), self.shown(a))
        self.assertFalse(self.save(c))

    def test_in_pieces(self) -> None:
        """However small the pieces, everything arrives, in order and once."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        for number in range(40):
            self.save(a, f"m{number}")
            self.save(a, f"m{number // 2}")

        pieces = 0
        while self.ship(a, b, 300):
            pieces += 1

        self.assertGreater(pieces, 10)
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())

    def test_long(self) -> None:
        """
        Of a return of megabytes nothing is packed, unpacked or copied in the thread of the
        reactor, neither where it arose nor where it comes to; and it is what short ones are.
        """
        here: list[int] = []

        def counted(module: Any, name: str) -> None:
            function = getattr(module, name)

            def count(data: Any) -> Any:
                made = function(data)
                if threading.current_thread() is threading.main_thread():
                    here.append(max(len(each) for each in (data, made) if hasattr(each, "__len__")))
                return made

            self.patch(module, name, count)

        counted(jobentries, "pack_bin")
        for module in (entryform, longpacking):
            counted(module, "unpack_bin")
        a, b = self.store("a"), self.store("b")
        told: list[Entry] = []
        a.replica.told.on_entries(lambda entries, source: told.extend(entries))
        value = {f"k{number}": [number, "x" * 90] for number in range(20_000)}
        self.save(a, value=value)
        self.save(a, "web2", value=True)

        taken = self.get(b.replica.merge(told, "a"))
        views = [entry.views() for entry in taken]

        self.assertLess(max(here), 1000)
        self.assertEqual(taken, self.get(a.replica.since({}, 16 * PLENTY)))
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(self.shown(b)[0][1]["web1"]["return"], value)
        self.assertIs(views[0]["load"].obj, taken[0].body)
        self.assertEqual(views, [entry.fields() for entry in taken])

    def test_long_and_odd(self) -> None:
        """A long return that is none is left out and logged, as a short one is."""
        a = self.store("a")
        stream = Stream("b", "0" * 16)
        loads = (pack_bin([1] * 99_999), b"\xc1" * 99_999, pack_bin([1]), pack_bin({"return": 1}))
        entries = [
            jobentries.return_entry(stream, number, JID, f"web{number}", 1.0, packed)
            for number, packed in enumerate(loads, 1)
        ]
        said: list[str] = []

        def seen(event: Any) -> None:
            said.extend([str(event["number"])] if "cannot be read" in str(event) else [])

        globalLogPublisher.addObserver(seen)
        self.addCleanup(globalLogPublisher.removeObserver, seen)
        self.get(a.replica.merge(entries, "b"))

        self.assertEqual(sorted(said), ["1", "2", "3"])
        self.assertEqual(list(self.get(a.returns(JID))), ["web4"])
        self.assertEqual(a.replica.knowledge()[stream], 4)

    def test_gap(self) -> None:
        """An entry that does not follow is left out, and comes later."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        job, returned = self.get(a.replica.since({}, PLENTY))

        self.assertEqual(self.get(b.replica.merge([returned], "a")), [])
        self.assertEqual(self.shown(b), [])
        self.assertEqual(self.get(b.replica.merge([job, returned, job], "a")), [job, returned])

    def test_before_the_disk(self) -> None:
        """What follows entries that are still being written is taken as well."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        self.save(a, "web2")
        entries = self.get(a.replica.since({}, PLENTY))

        first = b.replica.merge(entries[:1], "a")
        second = b.replica.merge(entries[1:], "a")

        self.assertEqual(len(self.get(first)) + len(self.get(second)), 3)  # type: ignore[arg-type]
        self.assertEqual(self.shown(b), self.shown(a))

    def test_confirmed(self) -> None:
        """Who waits for another node's disk hears of it once."""
        a = self.store("a")
        heard: list[int] = []
        a.replica.told.on_confirmed(heard.append)
        for number in (2, 1, 2, 3):
            a.replica.confirmed(number)

        self.assertEqual(heard, [2, 3])

    def test_one_copy(self) -> None:
        """Which returns lie here alone: our own, until another node has confirmed them."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        self.save(a, "web2")
        self.assertEqual(self.get(a.one_copy(JID)), ["web1", "web2"])
        self.assertEqual(self.get(a.one_copy(NEXT)), [])

        entries = self.ship(a, b)
        a.replica.confirmed(entries[1].number)
        self.save(b, "web3")

        self.assertEqual(self.get(a.one_copy(JID)), ["web2"])
        self.assertEqual(self.get(b.one_copy(JID)), ["web3"])
        a.replica.confirmed(entries[-1].number)
        self.assertEqual(self.get(a.one_copy(JID)), [])

    def test_duplicates_make_no_gap(self) -> None:
        """Repeated returns within a batch and replaced records leave numbers that say nothing."""
        a, b = self.store("a"), self.store("b")
        seen: list[Entry] = []
        a.replica.on_entries(lambda entries, source: seen.extend(entries))
        waiting = [a.save_return(load(minion)) for minion in ("w1", "w1", "w2", "w1", "w3")]
        for part in (["w1"], ["w1", "w2"]):
            waiting.append(a.save_job(NEXT, {"fun": "x", "tgt": part}, part))  # type: ignore[arg-type]
        for each in waiting:
            self.get(each)

        self.ship(a, b)

        self.assertEqual([entry.number for entry in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(
            sorted(entry.kind for entry in seen if entry.kind != "void"),
            ["job", "job", "return", "return", "return"],
        )

    def test_told(self) -> None:
        """Receivers hear of entries that are on disk, and which of them were new here."""
        a, b = self.store("a"), self.store("b")
        heard: list[tuple[str, int]] = []
        new: list[str] = []
        b.replica.on_entries(
            lambda entries, source: heard.extend((source, e.number) for e in entries)
        )
        b.replica.told.on_new(lambda entries: new.extend(e.fields()["id"] for e in entries))
        self.save(b, "web1")
        self.save(a, "web1")
        self.save(a, "web2")

        self.ship(a, b)

        self.assertEqual(heard, [("", 1), ("a", 1), ("a", 2)])
        self.assertEqual(new, ["web2"])

    def test_twice_returned(self) -> None:
        """Of two returns of one minion to one job all nodes keep the earlier."""
        a, b = self.store("a"), self.store("b")
        self.save(b, value="early")
        self.now += 5
        self.save(a, value="late")

        self.ship(a, b)
        self.ship(b, a)

        self.assertEqual(self.get(a.returns(JID))["web1"]["return"], "early")
        self.assertEqual(self.shown(a), self.shown(b))

    def test_restart(self) -> None:
        """A restart goes on with the numbers, also when the newest rows were pruned."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        self.ship(a, b)
        self.now += 5000
        self.get(a.prune())
        self.get(a.prune())
        self.get(a.stopService())
        a = self.store("a")

        self.save(a, "new", NEXT)

        self.assertEqual([entry.number for entry in self.ship(a, b)], [3])
        self.assertIn("new", self.get(b.returns(NEXT)))

    def test_pruned(self) -> None:
        """Who comes after pruning gets what is left, and asks for nothing that is gone."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        self.get(a.prune())
        self.now += 5000
        self.publish(a, NEXT, "web1")
        self.get(a.prune())
        self.get(a.prune())
        self.save(a, "web1", NEXT)

        self.ship(a, b)

        self.assertEqual(list(a.replica.floor().values()), [2])
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())

    def test_pruned_while_entries_come(self) -> None:
        """What is on its way to the disk while the store prunes is not forgotten."""
        a, b = self.store("a"), self.store("b")
        for number in range(4):
            self.save(a, f"web{number}")
        entries = self.get(a.replica.since({}, 1 << 20))

        pruning = b.prune()
        self.reactor.turn()
        # Marked; now it is pruned, and nobody has heard of it yet
        while b.counts.commits < 2:
            time.sleep(0.001)
        first = b.replica.merge(entries[:2], "a")
        self.get(pruning)
        second = b.replica.merge(entries[2:], "a")
        self.get(first)
        self.get(second)

        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())

    def test_mend_of_what_is_not_known(self) -> None:
        """What is not known yet comes in order, and is not brought back before."""
        a, b = self.store("a"), self.store("b")
        for number in range(4):
            self.save(a, f"web{number}")
        entries = self.get(a.replica.since({}, PLENTY))
        self.get(b.replica.merge(entries[:2], "a"))

        self.assertEqual(self.get(b.replica.mend(entries)), [False, False])

        self.assertEqual(len(self.get(b.returned_ids(JID))), 2)
        self.assertEqual(self.get(b.replica.mend(entries[2:])), [])
        self.assertEqual(list(b.replica.knowledge().values()), [2])

    def test_one_of_two_fails(self) -> None:
        """What was on its way when another write failed counts, and what follows it is taken."""
        a, b = self.store("a"), self.store("b")
        for number in range(4):
            self.save(a, f"web{number}")
        entries = self.get(a.replica.since({}, 1 << 20))
        first = b.replica.merge(entries[:2], "a")
        b.replica._unwritten(None)
        self.get(first)

        self.get(b.replica.merge(entries[2:], "a"))

        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())

    def test_copy(self) -> None:
        """A restored copy begins a new incarnation, and loses nothing that nobody else had."""
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1", "web2")
        self.save(a)
        self.ship(a, b)
        self.get(a.stopService())
        path = self.path("a", "jobs.sqlite")
        shutil.copy(path, path + ".copy")
        a = self.store("a")
        self.save(a, "web2")
        self.ship(a, b)
        self.get(a.stopService())
        os.rename(path + ".copy", path)
        old = a.replica.stream

        a = self.store("a")
        self.save(a, "web3")
        self.ship(b, a)
        self.ship(a, b)

        self.assertNotEqual(a.replica.stream, old)
        self.assertEqual(list(self.get(b.returns(JID))), ["web1", "web2", "web3"])
        self.assertEqual(self.shown(a), self.shown(b))

    def test_renew(self) -> None:
        """A new incarnation holds again what no other node had confirmed."""
        a, b = self.store("a"), self.store("b")
        for minion in ("web1", "web2", "web3"):
            self.save(a, minion)
        a.replica.confirmed(1)
        old = a.replica.stream

        self.get(a.replica.renew())

        self.assertNotEqual(a.replica.stream, old)
        self.assertEqual(a.replica.knowledge(), {old: 1, a.replica.stream: 2})
        self.save(a, "web4")
        self.ship(a, b)
        self.assertEqual(len(self.get(b.returns(JID))), 4)
        self.get(a.stopService())
        self.assertEqual(self.store("a").replica.knowledge(), {old: 1, a.replica.stream: 3})

    def test_renewed_twice(self) -> None:
        """
        A number once given stays known, though another node's record of the same return has taken
        its row and a second incarnation is begun: others have the number, and it would never come
        back.
        """
        a, b = self.store("a"), self.store("b")
        self.publish(a, JID, "web1")
        self.save(a)
        self.ship(a, b)
        first = second = a.replica.stream
        # Its disk is set back to a moment before anybody had confirmed this. Of two equal returns
        # the one of the lower stream holds.
        while second <= first:
            self.get(a.replica.renew())
            second = a.replica.stream
        self.assertEqual(a.replica.knowledge(), {second: 2})
        self.ship(a, b)
        self.ship(b, a)

        self.get(LogRows(a, self.reactor).renew(2))

        self.assertEqual(a.replica.knowledge()[second], 2)
        self.get(a.stopService())
        self.assertEqual(self.store("a").replica.knowledge()[second], 2)

    def test_not_all_heard(self) -> None:
        """
        Before all members were heard nothing is numbered as in an earlier life: one of them may
        know other entries by these numbers. Afterwards the old incarnation goes on.
        """
        a, b = self.store("a"), self.store("b")
        self.save(a, "web1")
        self.get(a.stopService())
        with open(self.path("a", "jobs.sqlite"), "rb") as file:
            day = file.read()
        a = self.store("a")
        old = a.replica.stream
        for minion in ("web2", "web3"):
            self.save(a, minion)
        self.ship(a, b)
        self.get(a.stopService())
        with open(self.path("a", "jobs.sqlite"), "r+b") as file:
            file.truncate()
            file.write(day)

        a = self.store("a")
        a.replica.all_told = lambda: False
        self.assertEqual(a.replica.stream, old)
        for minion in ("web4", "web5"):
            self.assertTrue(self.save(a, minion))
        new = a.replica.stream
        self.assertEqual(a.replica.knowledge(), {old: 1, new: 2})
        self.ship(a, b)
        self.ship(b, a)

        self.assertEqual(self.shown(a), self.shown(b))
        self.assertEqual(len(self.get(a.returns(JID))), 5)
        self.get(a.stopService())
        a = self.store("a")
        self.save(a, "web6")
        self.assertEqual(a.replica.knowledge(), {old: 3, new: 3})

    def test_renewed_meanwhile(self) -> None:
        """What other nodes send while a new incarnation begins stays theirs, and hides nothing."""
        a, b = self.store("a"), self.store("b")
        self.save(a, "web1")
        for minion in ("web7", "web8"):
            self.save(b, minion)
        entries = self.get(b.replica.since({}, PLENTY))
        c = self.store("c")
        self.save(c, "web9")
        before = self.get(c.replica.since({}, PLENTY))

        waiting = [
            a.replica.merge(before, "c"),
            a.replica.renew(),
            a.replica.merge(entries, "b"),
        ]
        for each in waiting:
            self.get(each)

        self.assertTrue(self.save(a, "web2"))
        self.assertEqual(
            a.replica.knowledge(),
            {a.replica.stream: 2, b.replica.stream: 2, c.replica.stream: 1},
        )
        known = a.replica.knowledge()
        self.get(a.stopService())
        a = self.store("a")
        self.assertEqual(a.replica.knowledge(), known)
        self.ship(a, b)
        self.assertEqual(self.shown(b), self.shown(a))
        self.assertEqual(len(self.get(b.returns(JID))), 5)

    def test_another_node(self) -> None:
        """A file that comes to another node is continued under that node's own name."""
        a = self.store("a")
        self.save(a)
        self.get(a.stopService())
        os.rename(self.path("a"), self.path("c"))

        c = self.store("c")
        self.save(c, "web2")

        self.assertEqual(c.replica.stream.node, "c")
        entries = self.get(c.replica.since({}, PLENTY))
        self.assertEqual({entry.stream.node for entry in entries}, {"c"})
        self.assertEqual(len(entries), 2)

    def test_master_becomes_node(self) -> None:
        """What a master had before it had peers is part of its stream."""
        lone = self.store("")
        self.publish(lone, JID, "web1")
        self.save(lone)
        self.get(lone.stopService())
        a = JobStore(self.reactor, lone.path, lambda: self.now)
        a.file.node = "a"
        a.startService()
        self.addCleanup(lambda: self.get(a.stopService()))

        self.assertEqual({e.stream.node for e in self.get(a.replica.since({}, PLENTY))}, {"a"})
        self.assertEqual(sum(a.replica.knowledge().values()), 2)

    def test_migration(self) -> None:
        """A job cache of the version before goes on with all it has, and can be shipped."""
        os.makedirs(self.path("a"))
        with sqlite3.connect(self.path("a", "jobs.sqlite")) as db:
            db.executescript(f"{MIGRATIONS[0]} PRAGMA user_version=1;")
            record = b"\x82\xa3fun\xa9test.ping\xa3tgt\xa1*"
            db.execute(
                "INSERT INTO jobs VALUES (?, ?, 'test.ping', ?, ?)",
                (JID, self.now, record, b"\x91\xa4web1"),
            )
            for minion in ("web1", "web2"):
                db.execute(
                    "INSERT INTO returns (jid, id, load) VALUES (?, ?, ?)",
                    (JID, minion, b"\x81\xa6return\xc3"),
                )
        db.close()

        a, b = self.store("a"), self.store("b")
        self.save(a, "web3")
        self.ship(a, b)

        self.assertEqual(list(self.get(a.returns(JID))), ["web1", "web2", "web3"])
        self.assertEqual(self.get(a.job(JID))["minions"], ["web1"])
        self.assertEqual(self.shown(a), self.shown(b))

    def test_nonsense(self) -> None:
        """A body that cannot be read costs that entry alone."""
        a, b = self.store("a"), self.store("b")
        self.save(a)
        self.save(a, "web2")
        first, second = self.get(a.replica.since({}, PLENTY))
        bad = Entry(first.stream, first.number, first.stamp, first.kind, b"\x81\xa3jid\x01")

        self.get(b.replica.merge([bad, second], "a"))

        self.assertEqual(list(self.get(b.returns(JID))), ["web2"])
        self.assertEqual(b.replica.knowledge(), a.replica.knowledge())
        self.assertRaises(StoreError, self.get, a.replica.append("job", {}))


class RefusedTests(LogTestCase):
    """Some of what is to be written is not."""

    def setUp(self) -> None:
        """Node a has four returns that node b has not."""
        super().setUp()
        self.a, self.b = self.store("a"), self.store("b")
        for number in range(4):
            self.save(self.a, f"web{number}")
        self.entries = self.get(self.a.replica.since({}, PLENTY))

    def held_up(self) -> threading.Event:
        """The writer of b waits; what comes meanwhile is its next batch."""
        gate, begun = threading.Event(), threading.Event()

        def work(db: sqlite3.Connection) -> None:
            begun.set()
            gate.wait(30)

        self.b.change(work).addErrback(lambda _: None)
        begun.wait(30)
        self.addCleanup(gate.set)
        return gate

    def on_disk(self, store: JobStore) -> set[str]:
        """Whose returns somebody else finds in the file."""
        db = sqlite3.connect(store.path)
        found = {name for (name,) in db.execute("SELECT id FROM returns")}
        db.close()
        return found

    def test_of_another_file(self) -> None:
        """
        Entries for a file that was put aside are refused alone: a return in the same transaction
        is stored, and so is all that is acknowledged afterwards.
        """
        gate = self.held_up()
        self.b.health.loaded -= 1
        merging = self.b.replica.merge(self.entries, "a")
        self.b.health.loaded += 1
        beside = self.b.save_return(load("web8"))
        gate.set()

        self.assertRaises(StoreError, self.get, merging)
        self.assertTrue(self.get(beside))
        self.assertTrue(self.save(self.b, "web9"))
        self.assertEqual(self.on_disk(self.b), {"web8", "web9"})
        self.get(self.b.replica.merge(self.entries, "a"))
        self.assertEqual(len(self.on_disk(self.b)), 6)

    def test_nothing_stays_begun(self) -> None:
        """Whatever fails in a transaction: what is acknowledged afterwards is on the disk."""

        def work(db: sqlite3.Connection) -> None:
            raise ValueError("not of the disk")

        self.assertRaises(ValueError, self.get, self.b.change(work))

        self.assertTrue(self.save(self.b, "web9"))
        self.assertEqual(self.on_disk(self.b), {"web9"})

    def test_no_hole(self) -> None:
        """What follows entries that the disk has refused is refused, too: known means there."""
        self.patch(writer, "_BATCH_ROWS", 1)
        real, first = transaction.merge_rows, [True]

        def full_once(*args: Any) -> Any:
            if first.pop() if first else False:
                raise sqlite3.OperationalError("database or disk is full")
            return real(*args)

        self.patch(transaction, "merge_rows", full_once)
        gate = self.held_up()
        replica = self.b.replica
        one, two = replica.merge(self.entries[:2], "a"), replica.merge(self.entries[2:], "a")
        gate.set()

        self.assertRaises(StoreError, self.get, one)
        self.assertRaises(StoreError, self.get, two)
        self.assertEqual(replica.knowledge(), {})
        self.get(replica.merge(self.entries, "a"))
        self.assertEqual(replica.knowledge(), self.a.replica.knowledge())
        self.assertEqual(self.shown(self.b), self.shown(self.a))
        self.flushLoggedErrors()


class DamagedRowTests(LogTestCase):
    """Bits of single rows have flipped."""

    def setUp(self) -> None:
        """Node a has four returns and a published job."""
        super().setUp()
        self.a, self.b = self.store("a"), self.store("b")
        for number in range(4):
            self.save(self.a, f"web{number}")
        self.publish(self.a, NEXT, "web1")

    def harm(self, statement: str) -> None:
        """Write into the file."""
        db = sqlite3.connect(self.a.path)
        db.execute(statement)
        db.commit()
        db.close()

    def test_is_not_sent(self) -> None:
        """A damaged row is given to nobody, and nobody is told that there was nothing."""
        harmed = (
            "UPDATE returns SET load = X'81A1' WHERE id = 'web2'",
            "UPDATE returns SET id = CAST(X'FF6562' AS TEXT) WHERE number % 256 = 3",
            "UPDATE returns SET at = CAST(X'FF' AS TEXT) WHERE number % 256 = 3",
        )
        for statement in harmed:
            bad: list[int] = []
            self.a.health.on_bad = [bad.extend]
            self.harm(statement)

            sent = self.get(self.a.replica.since({}, PLENTY))

            self.assertEqual([entry.number for entry in sent], [1, 2], statement)
            self.assertEqual([number % SPAN for number in bad], [3])

    def test_job_is_not_sent(self) -> None:
        """Nor is a damaged record of a job."""
        self.harm("UPDATE jobs SET fun = CAST(X'FF' AS TEXT) WHERE number > 0")

        self.assertEqual(len(self.get(self.a.replica.since({}, PLENTY))), 4)

    def test_lost_for_a_while(self) -> None:
        """
        A row that was taken out is no void as long as it may come back; then it is one, or sent
        as it was.
        """
        replica = self.a.replica
        whole = self.get(replica.since({}, PLENTY))
        number = replica.streams.own * SPAN + 2
        replica.lost([number])
        self.get(self.a.change(lambda db: jobcheck.drop(db, [number])))
        self.assertEqual(len(self.get(replica.since({}, PLENTY))), 1)

        replica.found()
        kinds = [entry.kind for entry in self.get(replica.since({}, PLENTY))]
        self.assertEqual(kinds, ["return", "void", "return", "return", "job"])

        replica.lost([number])
        self.get(replica.mend([whole[1]]))
        self.assertEqual(self.get(replica.since({}, PLENTY)), whole)

    def test_lost_for_good(self) -> None:
        """Nobody waits for ever for what was damaged."""
        replica = self.a.replica
        number = replica.streams.own * SPAN + 2
        self.get(self.a.change(lambda db: jobcheck.drop(db, [number])))
        replica.lost([number])
        self.patch(LogRows, "clock", lambda rows: LOST_SECONDS + 1.0)

        self.assertEqual(len(self.get(replica.since({}, PLENTY))), 5)

    def test_record_holds_against_nobody(self) -> None:
        """The record of another node replaces a damaged one, and is not refused because of it."""
        self.ship(self.a, self.b)
        self.now += 1
        self.get(self.b.save_job(NEXT, {"fun": "x", "tgt": "*"}, ["web1", "web2"]))
        self.harm("UPDATE jobs SET load = X'81A1' WHERE number > 0")

        self.ship(self.b, self.a)

        self.assertEqual(self.get(self.a.job(NEXT))["fun"], "x")


class ConvergenceTests(LogTestCase):
    """Any order."""

    def test_T_PATH_6_one_jid_two_jobs(self) -> None:
        """T-PATH-6: of two jobs under one jid that which began first holds, on all nodes."""
        a, b, c = (self.store(name) for name in "abc")
        self.publish(a, JID, "web1", begun=self.now)
        self.now += 1
        self.publish(b, JID, "db1", begun=self.now)
        self.now += 1
        self.publish(a, JID, "web1", "web2", begun=self.now - 2)
        for source, target in ((b, c), (a, c), (a, b), (b, a)):
            self.ship(source, target)

        for store in (a, b, c):
            job = self.get(store.job(JID))
            self.assertEqual((job["user"], job["minions"]), ("a", ["web1", "web2"]))
        self.assertRaises(DeniedError, self.publish, c, JID, "db2", begun=self.now)
        self.assertEqual(self.get(c.job(JID))["minions"], ["web1", "web2"])

    def test_all_orders(self) -> None:
        """Whatever three nodes store, and however it is shipped, they end up printing the same."""
        for seed in range(12):
            dice = random.Random(seed)
            stores = [self.store(f"{seed}-{node}") for node in "abc"]
            for _ in range(60):
                store = dice.choice(stores)
                jid = dice.choice([JID, NEXT, "20260701120002000000"])
                self.now += dice.choice([0, 0, 1])
                act = dice.random()
                if act < 0.1:
                    begun = self.now - dice.choice([0, 0, 1, 2])
                    with contextlib.suppress(DeniedError):
                        self.publish(store, jid, dice.choice("xyz"), begun=begun)
                elif act < 0.6:
                    self.save(store, f"m{dice.randrange(6)}", jid, value=dice.random())
                elif act < 0.63:
                    self.get(store.replica.renew())
                else:
                    self.ship(store, dice.choice(stores), dice.choice([100, 1000, PLENTY]))
            for _ in range(2):
                for source in stores:
                    for target in stores:
                        while source is not target and self.ship(source, target):
                            pass

            first = self.shown(stores[0])
            for other in stores[1:]:
                self.assertEqual(self.shown(other), first, f"seed {seed}")
            for store in stores:
                self.get(store.stopService())
