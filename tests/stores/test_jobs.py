"""
The job cache: what is acknowledged is on disk, whatever happens.
"""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import current_thread
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger, formatEvent

from saltwisted.domain.api.pieces import TEXT
from saltwisted.errors import StoreError
from saltwisted.stores.jobs import check as jobcheck
from saltwisted.stores.jobs import listing, longpacking
from saltwisted.stores.jobs.store import JobStore
from saltwisted.stores.jobs.table import MIGRATIONS
from saltwisted.stores.jobs.writes import ReturnWrite
from tests.stores.support import FolderTestCase, ThreadReactor

JID = "20260701120000000000"
NEXT = "20260701120001000000"


def load(minion: str = "web1", jid: str = JID, value: Any = True, **more: Any) -> dict[str, Any]:
    """A return as it comes from the wire."""
    return {
        "cmd": "_return",
        "id": minion,
        "jid": jid,
        "fun": "test.ping",
        "fun_args": [],
        "return": value,
        "retcode": 0,
        "success": True,
        "ts": 5,
        **more,
    }


class JobStoreTests(FolderTestCase):
    """One database file, threads included."""

    def setUp(self) -> None:
        """An open store and its reactor."""
        super().setUp()
        self.reactor = ThreadReactor()
        self.now = 1_782_907_200.0
        self.store = self.fresh()

    def fresh(self, keep: float = 1000.0) -> JobStore:
        """A store over the file, closed at the end."""
        store = JobStore(self.reactor, self.path("jobs/jobs.sqlite"), lambda: self.now, keep)
        store.startService()
        self.addCleanup(lambda: self.reactor.result(store.stopService()))
        return store

    def restart(self) -> None:
        """Close and open."""
        self.reactor.result(self.store.stopService())
        self.store = self.fresh()

    def get(self, d: Deferred[Any]) -> Any:
        """What a Deferred fires with."""
        return self.reactor.result(d)

    def save(self, *loads: dict[str, Any]) -> list[bool]:
        """Save returns, all at once."""
        return list(self.get(gatherResults([self.store.save_return(each) for each in loads])))

    def test_job_and_returns(self) -> None:
        """A job and its returns are as they were, also after a restart."""
        job = {"fun": "test.ping", "arg": ["x"], "tgt": "*", "tgt_type": "glob", "user": "root"}
        self.get(self.store.save_job(JID, job, ["web1", "web2"]))
        self.save(load("web1"), load("web2", value={"a": b"\xff", "b": "\u20ac"}, out="nested"))
        self.restart()

        found = self.get(self.store.job(JID))
        self.assertEqual(
            found, {**job, "jid": JID, "minions": ["web1", "web2"], "started": self.now}
        )
        returns = self.get(self.store.returns(JID))
        self.assertEqual(
            returns["web2"],
            {
                "fun": "test.ping",
                "fun_args": [],
                "return": {"a": b"\xff", "b": "\u20ac"},
                "retcode": 0,
                "success": True,
                "out": "nested",
            },
        )
        self.assertEqual(list(returns), ["web1", "web2"])
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["web1", "web2"])

    def test_unfinished(self) -> None:
        """
        Of jobs that read files the minions that have not returned are told, with what these read;
        not of others, of jobs that are too old, and of what only a return says.
        """
        reads = {"generation": "g", "trees": {"gitfs": "00"}}
        for number, (fun, more) in enumerate(
            [
                ("state.apply", reads),
                (["test.ping", "state.sls"], reads),
                ("test.ping", reads),
                ("state.apply", {}),
                ("state.apply", reads),
            ]
        ):
            job = {"fun": fun, "arg": [], **more}
            self.get(self.store.save_job(f"{JID[:-1]}{number}", job, ["web1", "web2"]))
        self.save(load("web1", jid=f"{JID[:-1]}0"), load("web1", jid=f"{JID[:-1]}4"))
        self.save(load("web2", jid=f"{JID[:-1]}4"), load("web2", jid=f"{JID[:-1]}9"))
        self.restart()

        found = self.get(self.store.unfinished(self.now))
        self.assertEqual(
            sorted(found),
            [(f"{JID[:-1]}0", reads, ["web2"]), (f"{JID[:-1]}1", reads, ["web1", "web2"])],
        )
        self.assertEqual(self.get(self.store.unfinished(self.now + 1.0)), [])

    def test_long_return(self) -> None:
        """A long return is packed in many turns, and kept as a short one is, told apart from it."""
        self.patch(longpacking, "PORTION", 0.0)
        turns: list[object] = []
        later = self.reactor.callLater

        def counted(delay: float, function: Callable[..., Any], *args: Any) -> None:
            turns.append(function)
            later(delay, function, *args)

        self.patch(self.reactor, "callLater", counted)
        value = {f"file-{number}": [number, None, b"\xff", "x"] for number in range(20_000)}
        short, long = load("web1"), load("web2", value=value)
        self.assertEqual(self.save(short), [True])
        before = len(turns)
        self.assertEqual(self.save(long, {**long}), [True, False])
        self.assertGreater(len(turns) - before, 200)

        self.restart()
        self.assertEqual(self.get(self.store.returns(JID))["web2"]["return"], value)
        with self.assertRaises(StoreError):
            self.get(self.store.save_return(load("web3", value=[*range(9000), object()])))

    def test_long_text(self) -> None:
        """A text of megabytes is packed in many turns, too, and joined by the writer's thread."""
        self.patch(longpacking, "PORTION", 0.0)
        threads: list[str] = []
        join = ReturnWrite.join

        def joined(write: ReturnWrite) -> None:
            if write.pieces:
                threads.append(current_thread().name)
                self.assertLessEqual(max(map(len, write.pieces)), 4 * TEXT)
            join(write)

        self.patch(ReturnWrite, "join", joined)
        text = "a line of the log: \u00e9\n" * 100_000

        self.assertEqual(self.save(load("web1", value=text)), [True])
        self.restart()

        self.assertEqual(threads, ["jobs-write"])
        self.assertEqual(self.get(self.store.returns(JID))["web1"]["return"], text)
        self.assertEqual(self.save(load("web3", value="\ud800" * 2_000_000)), [True])
        kept = self.get(self.store.returns(JID))["web3"]["return"]
        self.assertTrue(kept == "\\ud800" * 2_000_000)
        with self.assertRaises(StoreError):
            self.get(self.store.save_return(load("web4", value=["x" * 2_000_000, object()])))

    def test_unknown(self) -> None:
        """A job that is not there is C{None} and has no returns."""
        self.assertIsNone(self.get(self.store.job(JID)))
        self.assertEqual(self.get(self.store.returns(JID)), {})

    def test_duplicates(self) -> None:
        """A repeated return is told from a new one, in one transaction or later, and not kept."""
        self.assertEqual(
            self.save(load("a"), load("a", value=2), load("b"), load("a", NEXT)),
            [True, False, True, True],
        )
        self.assertEqual(self.save(load("c"), load("a", value=3)), [True, False])
        self.restart()

        self.assertEqual(self.save(load("a", value=4)), [False])
        self.assertEqual(self.get(self.store.returns(JID))["a"]["return"], True)
        self.assertEqual(self.get(self.store.totals()), {"jobs": 2, "returns": 4})

    def test_many_at_once(self) -> None:
        """Three thousand returns are all stored, in few transactions, each answered for itself."""
        loads = [load(f"m{number}") for number in range(3000)]
        loads += [load("m7"), load("m8")]

        answers = self.save(*loads)

        self.assertEqual(answers, [True] * 3000 + [False] * 2)
        self.assertEqual(len(self.get(self.store.returned_ids(JID))), 3000)
        self.assertLess(self.store.counts.commits, 100)
        self.assertEqual(self.store.counts.returns, 3000)
        self.assertEqual(self.store.counts.duplicates, 2)

    def test_return_without_job(self) -> None:
        """A return of a job that was not published here is listed with what it says of its job."""
        self.save(load("web1", fun_args=["x"], user="fred", metadata={"a": 1}))

        job = self.get(self.store.job(JID))
        self.assertEqual(job["fun"], "test.ping")
        self.assertEqual(job["arg"], ["x"])
        self.assertEqual(job["tgt"], "web1")
        self.assertEqual(job["user"], "fred")
        self.assertEqual(job["metadata"], {"a": 1})
        self.assertEqual(job["minions"], ["web1"])

    def test_job_after_its_return(self) -> None:
        """The record of a publication replaces what a return said of the job, never the reverse."""
        self.save(load("web1"))
        self.get(self.store.save_job(JID, {"fun": "test.ping", "tgt": "*"}, ["web1", "web2"]))
        self.restart()
        self.save(load("web2"))

        self.assertEqual(self.get(self.store.job(JID))["tgt"], "*")

    def test_list(self) -> None:
        """Jobs are listed newest last, by function, by time, and the newest so many."""
        for number, fun in enumerate(["test.ping", "saltutil.find_job", "cmd.run", "test.ping"]):
            self.now += 10
            jid = f"2026070112000{number}000000"
            self.get(self.store.save_job(jid, {"fun": fun}, ["a"]))

        def listed(**criteria: Any) -> list[str]:
            return [job["jid"][13] for job in self.get(self.store.list_jobs(**criteria))]

        self.assertEqual(listed(), ["0", "1", "2", "3"])
        self.assertEqual(listed(limit=2), ["2", "3"])
        self.assertEqual(listed(fun="test.ping"), ["0", "3"])
        self.assertEqual(listed(not_fun="saltutil.find_job", limit=3), ["0", "2", "3"])
        self.assertEqual(listed(since=self.now - 10), ["2", "3"])
        self.assertEqual(listed(until=self.now - 20), ["0", "1"])
        (job,) = self.get(self.store.list_jobs(limit=1, minions=True))
        self.assertEqual(job["minions"], ["a"])
        self.assertRaises(TypeError, self.store.list_jobs, colour="red")

    def test_made_once(self) -> None:
        """
        What a function makes of a record is made once, until there is another record of that job;
        of the oldest jobs, and of large records, it is made each time.
        """
        made: list[str] = []

        def shown(job: Mapping[str, Any]) -> tuple[str, Any]:
            made.append(job["jid"][13])
            return job["jid"], job["arg"]

        def listed(**criteria: Any) -> tuple[list[Any], str]:
            made.clear()
            found = [arg for _, arg in self.get(self.store.list_jobs(shown=shown, **criteria))]
            return found, "".join(sorted(made))

        self.patch(listing, "KEPT", 3)
        for number in range(4):
            self.now += 10
            arg = ["x" * 3000] if number == 2 else [number]
            jid = f"2026070112000{number}000000"
            self.get(self.store.save_job(jid, {"fun": "test.arg", "arg": arg}, ["a"]))
        every = [[0], [1], ["x" * 3000], [3]]

        self.assertEqual(listed(), (every, "0123"))
        self.assertEqual(listed(), (every, "02"))
        self.assertEqual(listed(limit=1), (every[3:], ""))
        self.assertEqual(listed(below="20260701120002000000", limit=1), (every[1:2], ""))
        self.get(self.store.save_job("20260701120003000000", {"fun": "x", "arg": ["new"]}, ["b"]))
        every[3] = ["new"]
        self.assertEqual(listed(), (every, "023"))
        self.assertEqual(listed(), (every, "02"))
        self.assertEqual(len(self.store.listings[shown]), 3)
        with sqlite3.connect(self.store.path) as db:
            db.execute("UPDATE jobs SET load = ? WHERE jid LIKE '%3000000'", (b"\x80",))
            db.execute("UPDATE jobs SET crc = crc + 1 WHERE jid LIKE '%1000000'")
        db.close()
        # Known by its check sum: what is damaged since is not read again, the rest is left out
        self.assertEqual(listed(), ([[0], ["x" * 3000], ["new"]], "02"))
        self.assertEqual(self.get(self.store.list_jobs())[-1]["jid"][13], "2")

    def test_newest_jid(self) -> None:
        """At the start the newest jid of a published job is known, of one node or of all."""
        for jid in (JID, NEXT[:18] + "07", "20260701120000500003"):
            self.get(self.store.save_job(jid, {"fun": "test.ping"}, []))
        self.save(load("web1", "20260701120009000000"))
        self.get(self.store.save_job("20990701120000000000", {"fun": "test.ping"}, []))
        self.reactor.result(self.store.stopService())
        store = JobStore(self.reactor, self.store.path, lambda: self.now)
        found: list[str] = []
        store.on_open.append(
            lambda: found.extend(store.newest_jid(slot) for slot in (None, 7, 3, 8))
        )

        store.startService()

        self.assertEqual(found, [NEXT[:18] + "07", NEXT[:18] + "07", "20260701120000500003", ""])
        self.get(store.stopService())

    def test_several_functions(self) -> None:
        """A job of several functions is stored and listed like others."""
        self.get(self.store.save_job(JID, {"fun": ["test.ping", "cmd.run"]}, []))

        (job,) = self.get(self.store.list_jobs(fun="test.ping,cmd.run"))
        self.assertEqual(job["fun"], ["test.ping", "cmd.run"])

    def test_prune(self) -> None:
        """Old jobs go with their returns, younger ones stay; a late return makes a record again."""
        self.save(*(load(f"m{number}") for number in range(1500)))
        self.get(self.store.prune())
        self.now += 2000
        self.save(load("web1", NEXT))

        self.assertEqual(self.get(self.store.prune()), 1501)
        self.assertEqual(self.get(self.store.totals()), {"jobs": 1, "returns": 1})
        self.assertEqual(self.save(load("late")), [True])
        self.assertEqual(self.get(self.store.job(JID))["minions"], ["late"])
        self.assertEqual(self.save(load("late"), load("later")), [False, True])

    def test_prune_by_arrival(self) -> None:
        """What came a moment ago is not old, whatever the clock said then of who gave it."""
        self.get(self.store.prune())
        true, self.now = self.now, self.now - 86400
        self.save(load("web1"))
        self.now = true

        self.assertEqual(self.get(self.store.prune()), 0)
        self.now += 999
        self.assertEqual(self.get(self.store.prune()), 0)
        self.now += 2000
        self.assertEqual(self.get(self.store.prune()), 2)

    def test_nobody_knows_the_time(self) -> None:
        """While nobody knows what time it is, nothing is pruned."""
        self.save(load("web1"))
        self.get(self.store.prune())
        self.now += 5000

        self.assertEqual(self.get(self.store.prune(lambda: None)), 0)
        self.assertEqual(self.get(self.store.prune(lambda: self.now)), 2)

    def test_damage_met_by_a_reader(self) -> None:
        """A file that is damaged under a running store is put aside when a reader meets it."""
        self.save(*(load(f"m{number}") for number in range(500)))
        told: list[str] = []
        self.store.health.on_anew.append(lambda: told.append("anew"))
        self.get(self.store.change(lambda db: db.execute("SELECT 1").fetchone()))
        checkpoint = sqlite3.connect(self.store.path)
        checkpoint.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        checkpoint.close()
        with open(self.store.path, "r+b") as file:
            for page in range(2, os.path.getsize(self.store.path) // 4096):
                file.seek(page * 4096)
                file.write(b"\xff" * 64)

        def read(db: sqlite3.Connection) -> Any:
            return db.execute("SELECT sum(length(load)) FROM returns").fetchone()

        self.assertRaises(StoreError, self.get, self.store.reader.read_anew(read))

        self.assertEqual(self.save(load("web1")), [True])
        self.assertEqual((told, self.store.health.owed), (["anew"], True))
        self.assertEqual(self.get(self.store.totals())["returns"], 1)
        self.flushLoggedErrors()

    def test_flipped_bits(self) -> None:
        """A row that holds something else than was written is found, and can be taken out."""
        self.save(load("web1"), load("web2"))
        other = sqlite3.connect(self.store.path)
        other.execute("UPDATE returns SET load = X'81A1' WHERE id = 'web2'")
        other.commit()
        other.close()

        found = self.get(
            self.store.reader.read_anew(partial(jobcheck.look, at=jobcheck.START, rows=9))
        )
        self.get(self.store.change(partial(jobcheck.drop, numbers=found.bad)))

        self.assertEqual(list(self.get(self.store.returns(JID))), ["web1"])
        self.assertEqual(found.at, ("jobs", jobcheck.START[1]))
        jobs = self.get(self.store.reader.read_anew(partial(jobcheck.look, at=found.at, rows=9)))
        self.assertEqual((jobs.at, list(jobs.bad)), (None, []))

    def test_damaged_rows_are_left_out(self) -> None:
        """
        One row with flipped bits keeps nobody from reading the others, and is said; a minion can
        return to a job whose record is damaged.
        """
        for jid in (JID, NEXT):
            self.get(self.store.save_job(jid, {"fun": "test.ping", "tgt": "*"}, ["web1", "web2"]))
            self.now += 1
        self.save(load("web1"), load("web2"), load("web3"), load("web1", NEXT))
        said: list[list[int]] = []
        self.store.health.on_bad.append(lambda numbers: said.append(list(numbers)))
        other = sqlite3.connect(self.store.path)
        other.execute("UPDATE returns SET load = X'81A1' WHERE id = 'web2'")
        other.execute("UPDATE returns SET id = CAST(X'FF' AS TEXT) WHERE id = 'web3'")
        other.execute("UPDATE returns SET load = X'C0' WHERE jid = ?", (NEXT,))
        other.execute(
            "UPDATE jobs SET fun = CAST(X'FF' AS TEXT), load = X'C1' WHERE jid = ?", (JID,)
        )
        other.commit()
        other.close()

        self.assertEqual(list(self.get(self.store.returns(JID))), ["web1"])
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["web1", "web2"])
        self.assertEqual(self.get(self.store.one_copy(JID)), ["web1", "web2"])
        self.assertIsNone(self.get(self.store.job(JID)))
        self.assertEqual([job["jid"] for job in self.get(self.store.list_jobs())], [NEXT])
        self.assertEqual([len(numbers) for numbers in said], [2, 1, 1])
        self.store.file.claims.forget()
        self.assertEqual(self.save(load("web9")), [True])

    def test_owed_after_a_restart(self) -> None:
        """That others may have more than this file is not forgotten with the process."""
        self.store.health.owes()
        self.restart()
        self.assertTrue(self.store.health.owed)
        self.store.health.owes(False)
        self.restart()
        self.assertFalse(self.store.health.owed)

    def test_damaged_text_at_the_start(self) -> None:
        """A jid that is not text any more keeps no master from its start, and no job from going."""
        for jid in (JID, NEXT):
            self.get(self.store.save_job(jid, {"fun": "test.ping", "tgt": "*"}, ["web1"]))
        self.get(self.store.prune())
        self.get(self.store.stopService())
        db = sqlite3.connect(self.store.path)
        harm = "UPDATE jobs SET jid = CAST(substr(jid, 1, 19) || X'FF' AS TEXT) WHERE jid = ?"
        db.execute(harm, (NEXT,))
        db.commit()
        db.close()
        newest: list[str] = []
        store = JobStore(self.reactor, self.path("jobs/jobs.sqlite"), lambda: self.now, 1000.0)
        store.on_open.append(lambda: newest.append(store.newest_jid()))
        store.startService()
        self.addCleanup(lambda: self.reactor.result(store.stopService()))

        self.assertEqual((newest, store.counts.moved_aside), ([JID], 0))
        self.now += 5000
        self.get(store.prune())
        self.assertEqual(self.get(store.totals())["jobs"], 0)

    def test_damaged_rows_of_a_master_alone(self) -> None:
        """Who has no other member to ask says so once, and leaves the row where it is."""
        self.save(load("web1"), load("web2"))
        other = sqlite3.connect(self.store.path)
        other.execute("UPDATE returns SET load = X'81A1' WHERE id = 'web2'")
        other.commit()
        other.close()
        said: list[str] = []
        self.patch(
            self.store.health, "log", Logger(observer=lambda event: said.append(formatEvent(event)))
        )

        for _ in range(3):
            self.assertEqual(list(self.get(self.store.returns(JID))), ["web1"])

        self.assertEqual(
            [text.partition(": ")[2].partition(",")[0] for text in said],
            ["the disk returned wrong data: 1 row cannot be shown"],
        )
        self.assertEqual(self.get(self.store.totals())["returns"], 2)

    def test_keep_for_ever(self) -> None:
        """C{keep_jobs_seconds: 0} keeps everything."""
        self.store.keep_seconds = 0
        self.save(load())
        self.now += 1e9

        self.assertEqual(self.get(self.store.prune()), 0)
        self.assertEqual(self.get(self.store.totals())["returns"], 1)

    def test_T_FS_1_modes(self) -> None:
        """T-FS-1: the database and its log are readable by nobody else, whatever the umask."""
        self.umask(0)
        store = JobStore(self.reactor, self.path("other/jobs.sqlite"))
        store.startService()
        self.get(store.save_return(load()))
        modes = self.modes()
        self.reactor.result(store.stopService())

        self.assertEqual(modes["other"], 0o700)
        self.assertIn("other/jobs.sqlite-wal", modes)
        for name, mode in modes.items():
            self.assertFalse(mode & 0o077, name)

    def test_full_disk(self) -> None:
        """While the disk is full returns are refused; then they are stored again by itself."""
        self.save(load("before"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, hard))

        big = self.store.save_return(load("big", value="x" * (24 << 20)))
        self.assertRaises(StoreError, self.get, big)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        self.assertEqual(self.save(load("big"), load("after")), [True, True])
        self.restart()
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["after", "before", "big"])
        self.assertEqual(self.store.counts.moved_aside, 0)

    def test_no_database(self) -> None:
        """A file that is not a database is moved aside, loudly, and a new one begun."""
        self.reactor.result(self.store.stopService())
        Path(self.store.path).write_bytes(b"this is not a database, " * 1000)

        self.store = self.fresh()

        self.assertEqual(self.save(load()), [True])
        self.assertEqual(self.store.counts.moved_aside, 1)
        aside = [name for name in os.listdir(self.path("jobs")) if "corrupt" in name]
        self.assertEqual(len(aside), 1)
        self.assertIn(b"this is not", Path(self.path("jobs", aside[0])).read_bytes())

    def test_damaged_database(self) -> None:
        """Damage inside the file costs the old jobs, never the store: the next return is kept."""
        self.save(*(load(f"m{number}", value="x" * 200) for number in range(500)))
        self.reactor.result(self.store.stopService())
        with open(self.store.path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (os.path.getsize(self.store.path) - 4096))

        self.store = self.fresh()

        self.assertEqual(self.save(load("new")), [True])
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["new"])
        self.assertEqual(self.store.counts.moved_aside, 1)

    def test_damage_while_running(self) -> None:
        """Damage that shows up later moves the file aside; what was being written is kept."""
        self.save(load("old"))
        with sqlite3.connect(self.store.path) as db:
            db.execute("PRAGMA writable_schema=ON")
            db.execute("UPDATE sqlite_master SET sql='CREATE TABLE returns (' WHERE name='returns'")
            db.execute("PRAGMA schema_version=1000")
        db.close()

        self.assertEqual(self.save(load("new"), load("new")), [True, False])
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["new"])
        self.assertEqual(self.get(self.store.job(JID))["tgt"], "new")
        self.assertEqual(self.store.counts.moved_aside, 1)

    def test_newer_schema(self) -> None:
        """A file of a newer version is refused and left alone."""
        self.reactor.result(self.store.stopService())
        with sqlite3.connect(self.store.path) as db:
            db.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
        db.close()

        store = JobStore(self.reactor, self.store.path)

        self.assertIn("newer", str(self.assertRaises(StoreError, store.startService)))
        self.assertEqual(os.listdir(self.path("jobs")), ["jobs.sqlite"])

    def test_closed(self) -> None:
        """A closed store refuses, and closing it again is harmless."""
        waiting = self.store.save_return(load())
        closing = self.store.stopService()
        refused = self.store.save_return(load("late"))

        self.assertTrue(self.get(waiting))
        self.get(closing)
        self.assertRaises(StoreError, self.get, refused)
        self.assertRaises(StoreError, self.get, self.store.job(JID))
        self.get(self.store.stopService())
        self.assertEqual(os.listdir(self.path("jobs")), ["jobs.sqlite"])

    def test_unpackable(self) -> None:
        """A value that cannot be stored is refused alone."""
        endless: list[Any] = []
        endless.append(endless)

        self.assertRaises(StoreError, self.get, self.store.save_return(load(value=endless)))
        self.assertEqual(self.save(load()), [True])

    def test_cancelled_waiter(self) -> None:
        """Who stops waiting does not stop the write, nor the others."""
        first, second = self.store.save_return(load("a")), self.store.save_return(load("b"))
        first.addErrback(lambda failure: None)
        first.cancel()

        self.assertTrue(self.get(second))
        self.assertEqual(self.get(self.store.returned_ids(JID)), ["a", "b"])


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from saltwisted.stores.jobs.store import JobStore
from tests.stores.support import ThreadReactor
from tests.stores.test_jobs import load
from twisted.internet.defer import gatherResults
reactor = ThreadReactor()
store = JobStore(reactor, sys.argv[1])
store.startService()
number = 0
while True:
    ids = ["%s-%d" % (sys.argv[3], number + n) for n in range(37)]
    number += 37
    reactor.result(gatherResults([store.save_return(load(i)) for i in ids]))
    sys.stdout.write("".join(i + "\\n" for i in ids))
    sys.stdout.flush()
"""


class KillTests(FolderTestCase):
    """kill -9."""

    def test_acknowledged_returns_survive(self) -> None:
        """Whatever moment a writer is killed at, every return that it acknowledged is there."""
        root = str(Path(__file__).parent.parent.parent)
        path = self.path("jobs.sqlite")
        acknowledged: list[str] = []
        for round_number in range(3):
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, path, root, str(round_number)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert writer.stdout is not None
            for _ in range(37 * (3 + round_number) + 5):
                acknowledged.append(writer.stdout.readline().strip())
            writer.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
            writer.wait()
            writer.stdout.close()

        reactor = ThreadReactor()
        store = JobStore(reactor, path)
        store.startService()
        kept = reactor.result(store.returned_ids(JID))
        reactor.result(store.stopService())

        self.assertGreater(len(acknowledged), 300)
        self.assertEqual(set(acknowledged) - set(kept), set())
        self.assertEqual(store.counts.moved_aside, 0)
