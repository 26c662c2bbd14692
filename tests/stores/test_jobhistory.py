"""
The history of jobs: from a stock cache directory through a file into our job cache.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred, execute, succeed

from saltwisted.errors import WireError
from saltwisted.roles.history import stock_history, unfinished_file
from saltwisted.stores.jobs.history import FILE, JobHistory, Reader
from saltwisted.stores.jobs.store import JobStore
from saltwisted.tools import jobhistory
from saltwisted.wire.msgpack import pack, pack_bin
from tests.stores.support import FolderTestCase, ThreadReactor

JID = "20260701120000000000"
OTHER = "20260701120001000000"
CALL = "20260701120002000000"
AT = 1_782_900_000.0


class HistoryTests(FolderTestCase):
    """One stock cache and one store."""

    def setUp(self) -> None:
        super().setUp()
        self.reactor = ThreadReactor()
        self.stock = self.path("stock/jobs")
        self.job(JID, {"fun": "test.ping", "arg": [], "tgt": "*", "user": "root"}, ["web1", "web2"])
        self.answer(JID, "web1", {"return": True, "retcode": 0, "success": True})

    def store(self) -> JobStore:
        """Our job cache, closed at the end."""
        store = JobStore(self.reactor, self.path("ours/jobs.sqlite"), lambda: AT + 500, 1e6)
        store.startService()
        self.addCleanup(lambda: self.reactor.result(store.stopService()))
        return store

    def place(self, jid: str) -> Path:
        """Where stock would keep a job, whatever the digits."""
        return Path(self.stock, jid[-2:], jid)

    def put(self, path: Path, value: Any, at: float = AT) -> None:
        """A file as stock writes it: the old dialect."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack(value))
        os.utime(path, (at, at))

    def job(self, jid: str, load: dict[str, Any], minions: list[str]) -> None:
        """A published job."""
        folder = self.place(jid)
        self.put(folder / ".load.p", {"jid": jid, "cmd": "publish", "tgt_type": "glob", **load})
        self.put(folder / ".minions.p", minions)
        (folder / "jid").write_text(jid)
        os.utime(folder / "jid", (AT, AT))

    def answer(self, jid: str, minion: str, value: Any, out: str = "") -> None:
        """A return."""
        self.put(self.place(jid) / minion / "return.p", value, AT + 3)
        if out:
            self.put(self.place(jid) / minion / "out.p", out)

    def write(self, since: float = 0.0) -> jobhistory.Counts:
        """What a takeover does."""
        os.makedirs(self.path("ours"), exist_ok=True)
        with open(self.path(f"ours/{FILE}"), "ab") as stream:
            return jobhistory.write(self.stock, stream, since)

    def bring_in(self, store: JobStore) -> JobHistory:
        """What a master does at its start."""
        history = JobHistory(Now(), store, self.path("ours"), execute)
        history.startService()
        assert history._work is not None
        self.reactor.result(history._work)
        return history

    def test_beside_ours(self) -> None:
        """
        A master that is started on stock's own directories reads the history once, at its first
        start; also when it was stopped meanwhile.
        """
        os.makedirs(self.path("ours"), exist_ok=True)
        cachedir, jobs = os.path.dirname(self.stock), self.path("ours/jobs.sqlite")
        first = stock_history(None, cachedir, jobs)
        self.assertIsNotNone(first)
        with open(unfinished_file(self.path("ours")), "wb"), open(jobs, "wb"):
            pass
        again = stock_history(None, cachedir, jobs)
        self.assertIsNotNone(again)
        os.unlink(unfinished_file(self.path("ours")))
        os.unlink(jobs)
        store = self.store()

        def write_file(path: str) -> Deferred[Any]:
            argv = ["", self.stock, unfinished_file(self.path("ours")), path]
            with patch.object(sys, "argv", argv):
                jobhistory.main()
            return succeed(0)

        history = JobHistory(Now(), store, self.path("ours"), execute, write_file)
        history.startService()
        assert history._work is not None
        self.reactor.result(history._work)

        self.assertEqual((history.jobs, history.returns), (1, 1))
        self.assertEqual(
            [name for name in os.listdir(self.path("ours")) if name.startswith("history")], []
        )
        self.assertIsNone(stock_history(None, cachedir, store.path))
        self.assertIsNone(stock_history(None, self.path("nowhere"), jobs))

    def test_comes_in(self) -> None:
        """A job, whom it expected, what came back and when; the file goes away."""
        counts = self.write()
        store = self.store()

        history = self.bring_in(store)

        self.assertEqual((counts.jobs, counts.returns, counts.broken), (1, 1, 0))
        self.assertEqual((history.jobs, history.returns), (1, 1))
        self.assertFalse(os.path.exists(history.path))
        job = self.reactor.result(store.job(JID))
        self.assertEqual(
            job,
            {
                "jid": JID, "started": AT, "minions": ["web1", "web2"], "tgt": "*",
                "tgt_type": "glob", "fun": "test.ping", "arg": [], "user": "root",
            },
        )  # fmt: skip
        returns = self.reactor.result(store.returns(JID))
        self.assertEqual(
            returns,
            {"web1": {"return": True, "retcode": 0, "success": True, "fun": "test.ping",
                      "fun_args": []}},
        )  # fmt: skip
        (listed,) = self.reactor.result(store.list_jobs(until=AT + 1))
        self.assertEqual(listed["jid"], JID)

    def test_twice(self) -> None:
        """What is there stays: a second takeover, or a start that was broken off."""
        store = self.store()
        self.write()
        self.bring_in(store)
        self.answer(JID, "web2", {"return": "late", "retcode": 0, "success": True})
        self.write()
        self.write()

        history = self.bring_in(store)

        self.assertEqual((history.jobs, history.returns), (0, 1))
        self.assertEqual(set(self.reactor.result(store.returns(JID))), {"web1", "web2"})

    def test_late_return_first(self) -> None:
        """The record that a late return made gives way to the published one."""
        store = self.store()
        late = {"cmd": "_return", "id": "web2", "jid": JID, "fun": "test.ping", "return": True}
        self.reactor.result(store.save_return(late))
        self.write()

        self.bring_in(store)

        self.assertEqual(self.reactor.result(store.job(JID))["tgt"], "*")
        self.assertEqual(set(self.reactor.result(store.returns(JID))), {"web1", "web2"})

    def test_kinds(self) -> None:
        """A call that a minion began, bytes in a return, an outputter, a syndic's list."""
        self.put(
            self.place(CALL) / ".load.p",
            {"jid": CALL, "cmd": "_return", "id": "web1", "fun": "cmd.run", "fun_args": ["id"],
             "return": "root", "tgt": "web1", "tgt_type": "glob"},
        )  # fmt: skip
        self.answer(CALL, "web1", {"return": b"\xff\xfe", "retcode": 3}, out="nested")
        self.put(self.place(CALL) / ".minions.below.p", ["web9"])
        self.write()
        store = self.store()

        self.bring_in(store)

        job = self.reactor.result(store.job(CALL))
        self.assertEqual((job["arg"], job["minions"], "return" in job), (["id"], ["web9"], False))
        (value,) = self.reactor.result(store.returns(CALL)).values()
        self.assertEqual(
            (value["return"], value["out"], value["retcode"]), (b"\xff\xfe", "nested", 3)
        )

    def test_broken(self) -> None:
        """What stock has half written is counted and left out; the rest comes."""
        self.job(OTHER, {"fun": "test.echo", "arg": ["x"], "tgt": "*"}, [])
        (self.place(OTHER) / ".load.p").write_bytes(b"\x85\xa3ji")
        path = self.place(JID) / "web2" / "return.p"
        path.parent.mkdir()
        path.write_bytes(b"")
        self.put(self.place(JID) / ".." / "not a job" / ".load.p", {"jid": "../../x"})

        counts = self.write()

        self.assertEqual((counts.jobs, counts.returns, counts.broken), (1, 1, 2))

    def test_since(self) -> None:
        """The second look of a switch takes what has come meanwhile alone."""
        os.utime(self.place(JID), (AT, AT))
        self.job(OTHER, {"fun": "test.echo", "arg": ["x"], "tgt": "*"}, [])

        counts = self.write(since=AT + 60)

        self.assertEqual(counts.jobs, 1)
        self.assertEqual(jobhistory.count(self.stock), 2)

    def test_no_history(self) -> None:
        """Without a file nothing is done."""
        history = JobHistory(Now(), self.store(), self.path("ours"), execute)
        history.startService()
        self.assertIsNone(history._work)

    def test_foreign_file(self) -> None:
        """A file that is something else, or was cut short, brings in what is whole."""
        self.write()
        path = self.path(f"ours/{FILE}")
        whole = Path(path).read_bytes()
        Path(path).write_bytes(whole[:-3])
        self.assertEqual([row[0] for row in Reader(path).rows()], ["job"])
        for row in (
            {"a": 1}, [], ["job", "../x", 1.0, "f", b"", b""],
            ["return", JID, "../x", 1.0, b""], ["return", JID, "web1", 1, b""],
        ):  # fmt: skip
            data = pack_bin(row)
            Path(path).write_bytes(jobhistory.HEAD.pack(len(data)) + data)
            self.assertRaises(WireError, Reader(path).rows)

    def test_stopped(self) -> None:
        """A stop in the middle leaves the file for the next start."""
        self.write()
        store = self.store()
        waits: list[Deferred[Any]] = []
        run = lambda function, *args: waits.append(Deferred()) or waits[-1]  # noqa: E731
        history = JobHistory(Now(), store, self.path("ours"), run)
        history.startService()

        history.stopService()

        self.assertTrue(os.path.exists(history.path))


class Now:
    """A clock that does not wait."""

    def callLater(self, delay: float, function: Any, *args: Any) -> None:
        """At once."""
        function(*args)
