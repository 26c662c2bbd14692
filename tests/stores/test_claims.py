"""
Returns that no job expects: kept, told apart, joined when the record comes, bounded per minion.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import capturedLogs

from saltwisted.stores.jobs.store import JobStore
from saltwisted.stores.jobs.table import MIGRATIONS
from tests.stores.support import FolderTestCase, ThreadReactor
from tests.stores.test_jobs import JID, NEXT, load

MOST, MOST_BYTES = 20, 20_000
PLENTY = 10_000_000


def jid_number(number: int) -> str:
    """A jid of its own."""
    return f"2026070113{number:010d}"


class ClaimTests(FolderTestCase):
    """One store, and others that get its rows."""

    def setUp(self) -> None:
        """An open store and its reactor."""
        super().setUp()
        self.reactor = ThreadReactor()
        self.now = 1_782_907_200.0
        self.store = self.fresh("a")

    def fresh(self, name: str) -> JobStore:
        """A store over a node's file, closed at the end."""
        path, now = self.path(name, "jobs.sqlite"), lambda: self.now
        store = JobStore(self.reactor, path, now, 1000.0, (MOST, MOST_BYTES), name)
        store.startService()
        self.addCleanup(lambda: self.reactor.result(store.stopService()))
        return store

    def get(self, d: Deferred[Any]) -> Any:
        """What a Deferred fires with."""
        return self.reactor.result(d)

    def save(self, *loads: dict[str, Any], store: JobStore | None = None) -> list[bool]:
        """Save returns, all at once."""
        to = store or self.store
        return list(self.get(gatherResults([to.save_return(each) for each in loads])))

    def publish(self, jid: str, *minions: str, store: JobStore | None = None) -> None:
        """A published job's record."""
        self.now += 1
        job = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root"}
        self.get((store or self.store).save_job(jid, job, minions))

    def ship(self, source: JobStore, target: JobStore) -> None:
        """Everything that the other lacks."""
        while entries := self.get(source.replica.since(target.replica.knowledge(), PLENTY)):
            self.get(target.replica.merge(entries, source.file.node))

    def kept(self, minion: str, store: JobStore | None = None) -> list[str]:
        """The jids to which a minion's returns are kept."""
        query = "SELECT jid FROM returns WHERE id = ? ORDER BY jid"
        found = (store or self.store).reader.read(
            lambda db: db.execute(query, (minion,)).fetchall()
        )
        return [jid for (jid,) in self.get(found)]

    def account(self, minion: str, store: JobStore | None = None) -> int:
        """How many claims of a minion are counted."""
        query = "SELECT count(*) FROM claims WHERE id = ?"
        found = (store or self.store).reader.read(
            lambda db: db.execute(query, (minion,)).fetchone()
        )
        return int(self.get(found)[0])

    def test_T_RET_1_count(self) -> None:
        """T-RET-1: of returns to jobs that nobody published the newest so many are kept, and
        nothing else of that minion or of others is touched."""
        self.publish(JID, "web1")
        self.save(load("web1", JID), load("db1", NEXT))
        with capturedLogs() as logged:
            for start in range(0, 300, 50):
                self.save(*(load("web1", jid_number(n)) for n in range(start, start + 50)))

        self.assertEqual(self.kept("web1"), [JID, *(jid_number(n) for n in range(280, 300))])
        self.assertEqual(self.kept("db1"), [NEXT])
        jobs = [job["jid"] for job in self.get(self.store.list_jobs())]
        self.assertEqual(len(jobs), MOST + 2)
        self.assertEqual(self.store.file.claims.dropped, 280)
        warned = [event for event in logged if "job_claims_max" in event.get("log_format", "")]
        self.assertEqual({event["minion"] for event in warned}, {"web1"})
        self.assertLessEqual(len(warned), 9)

    def test_T_RET_1_bytes(self) -> None:
        """T-RET-1: bytes are bounded likewise; the newest stays, however large."""
        for n in range(10):
            self.save(load("web1", jid_number(n), value="x" * 6000))
        self.assertEqual(self.kept("web1"), [jid_number(n) for n in (7, 8, 9)])
        self.save(load("web1", jid_number(10), value="x" * 60_000))
        self.assertEqual(self.kept("web1"), [jid_number(10)])

    def test_T_RET_1_not_expected(self) -> None:
        """T-RET-1: returns to others' jobs count, of which one minion could make as many."""
        for n in range(50):
            self.publish(jid_number(n), "db1")
            self.save(load("web1", jid_number(n)), load("db1", jid_number(n)))

        self.assertEqual(self.kept("web1"), [jid_number(n) for n in range(30, 50)])
        self.assertEqual(len(self.kept("db1")), 50)
        self.assertEqual(self.account("db1"), 0)
        self.assertEqual(len(self.get(self.store.list_jobs())), 50)

    def test_joined(self) -> None:
        """What was a claim until its record came is a return like any other, and never goes."""
        for n in range(MOST):
            self.save(load("web1", jid_number(n)))
        for n in range(MOST):
            self.publish(jid_number(n), "web1")
        for n in range(MOST, 3 * MOST):
            self.save(load("web1", jid_number(n)))

        jids = [*range(MOST), *range(2 * MOST, 3 * MOST)]
        self.assertEqual(self.kept("web1"), [jid_number(n) for n in jids])
        self.assertEqual(self.account("web1"), MOST)
        self.assertIsNone(self.get(self.store.job(jid_number(0))).get("claimed"))
        self.assertTrue(self.get(self.store.job(jid_number(2 * MOST)))["claimed"])

    def test_T_RET_1_on_all_nodes(self) -> None:
        """T-RET-1: nodes that get the rows bound them as well, and keep the same."""
        other = self.fresh("b")
        for n in range(0, 100, 10):
            self.save(*(load("web1", jid_number(i)) for i in range(n, n + 5)))
            self.now += 1
            self.save(*(load("web1", jid_number(i)) for i in range(n + 5, n + 10)), store=other)
            self.now += 1
            self.ship(self.store, other)
            self.ship(other, self.store)

        self.assertEqual(self.kept("web1"), [jid_number(n) for n in range(80, 100)])
        self.assertEqual(self.kept("web1", other), self.kept("web1"))
        self.assertEqual(self.account("web1", other), MOST)

    def test_what_went_is_not_lacking(self) -> None:
        """What another node kept longer comes back by no comparison, and is not called lacking."""
        other = self.fresh("b")
        self.save(*(load("web1", jid_number(n)) for n in range(MOST)), store=other)
        old = self.get(other.replica.since({}, PLENTY))
        self.ship(other, self.store)
        self.save(*(load("web1", jid_number(n)) for n in range(MOST, 2 * MOST)))
        kept = self.kept("web1")

        self.assertEqual(set(self.get(self.store.replica.mend(old))), {False})
        self.assertEqual(self.kept("web1"), kept)
        self.get(self.store.change(lambda db: db.execute("DELETE FROM claims").rowcount))
        self.get(self.store.change(lambda db: db.execute("DELETE FROM returns").rowcount))
        self.store.file.claims.forget()
        self.assertEqual(set(self.get(self.store.replica.mend(old))), {True})

    def test_return_before_its_job_on_another_node(self) -> None:
        """A return that another node has before the record is joined when that comes."""
        other = self.fresh("b")
        self.save(load("web1", JID), store=other)
        self.assertTrue(self.get(other.job(JID))["claimed"])
        self.publish(JID, "web1")
        self.ship(self.store, other)
        self.save(*(load("web1", jid_number(n)) for n in range(2 * MOST)), store=other)

        self.assertNotIn("claimed", self.get(other.job(JID)))
        self.assertIn(JID, self.kept("web1", other))
        self.ship(other, self.store)
        self.assertEqual(self.kept("web1"), self.kept("web1", other))

    def test_after_a_restart(self) -> None:
        """The account is on disk, and old claims leave it with their returns."""
        self.save(*(load("web1", jid_number(n)) for n in range(MOST)))
        self.reactor.result(self.store.stopService())
        self.store = self.fresh("a")
        self.save(*(load("web1", jid_number(n)) for n in range(MOST, MOST + 5)))
        self.assertEqual(len(self.kept("web1")), MOST)

        for _ in range(3):
            self.get(self.store.prune())
            self.now += 1000
        self.assertEqual((self.kept("web1"), self.account("web1")), ([], 0))
        self.save(load("web1", jid_number(99)))
        self.assertEqual(self.account("web1"), 1)

    def test_runner(self) -> None:
        """A run on a master has no minions; its return is none of theirs, and no claim."""
        job = {"fun": "runner.x.y", "arg": [], "tgt": "m_master", "tgt_type": "list", "user": "r"}
        for n in range(2 * MOST):
            self.get(self.store.save_job(jid_number(n), job, []))
            self.save({"id": "m_master", "jid": jid_number(n), "return": {}})
        self.assertEqual(len(self.kept("m_master")), 2 * MOST)
        self.assertEqual(self.account("m_master"), 0)

    def test_migration(self) -> None:
        """Claims that an older version kept are counted from the start."""
        os.makedirs(self.path("old"))
        with sqlite3.connect(self.path("old", "jobs.sqlite")) as db:
            db.executescript(f"{MIGRATIONS[0]} {MIGRATIONS[1]} PRAGMA user_version=2;")
            for number, (minions, rank) in enumerate([("web1", 0), ("db1", 1)], 1):
                job = (number, jid_number(number), self.now, "x", rank, b"\x80", b"\x90")
                db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", job)
                row = (jid_number(number), minions, b"\x81\xa6return\xc3", self.now)
                db.execute("INSERT INTO returns (jid, id, load, at) VALUES (?, ?, ?, ?)", row)
        db.close()
        store = self.fresh("old")
        self.assertEqual((self.account("web1", store), self.account("db1", store)), (1, 0))

    def test_odd_words(self) -> None:
        """Whatever a minion says of its job, the record has the forms of a published one."""
        odd = {"fun": 5, "fun_args": 7, "user": ["x"], "metadata": 3}
        self.assertEqual(self.save(load("web1", JID, **odd)), [True])
        self.save(load("web1", NEXT, fun=["a", 5], fun_args={"x": 1}, user=None))

        first, second = self.get(self.store.list_jobs())
        self.assertEqual((first["fun"], first["arg"], first["user"]), ("5", [7], "['x']"))
        self.assertEqual((second["fun"], second["arg"]), (["a", "5"], [{"x": 1}]))
