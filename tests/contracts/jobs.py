"""
What every job store has to do (L{saltwisted.parts.IJobStore}).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from saltwisted.domain.jobids import BEGUN
from saltwisted.errors import DeniedError, StoreError
from saltwisted.parts import IJobStore
from saltwisted.stores.jobs.store import stored_form
from saltwisted.wire.msgpack import pack_bin

START = 1_782_907_200.0
KEEP = 1000.0
JID = "20260701120000000000"
NEXT = "20260701120001000000"
JOB = {"fun": "test.ping", "arg": ["x"], "tgt": "*", "tgt_type": "glob", "user": "root"}


def load(minion: str = "web1", jid: str = JID, value: Any = True, **more: Any) -> dict[str, Any]:
    """A return as it comes from the wire."""
    return {
        "cmd": "_return", "id": minion, "jid": jid, "fun": "test.ping", "fun_args": [],
        "return": value, "retcode": 0, "success": True, "ts": 5, "tok": b"t", "nonce": "n",
        "sig": b"s", **more,
    }  # fmt: skip


def whose(job: Mapping[str, Any]) -> tuple[str, str, bool]:
    """What a list shows of a job here."""
    return job["jid"], job["fun"], bool(job.get("claimed"))


class JobStoreContract:
    """
    The claims. A test case opens the store, again and again over the same place.

    @ivar now: what time it is, which the test changes.
    """

    now = START

    def made(self, keep: float = KEEP) -> IJobStore:
        """A store that was not started, over the place of the one before."""
        raise NotImplementedError

    def get(self, waiting: Any) -> Any:
        """What something fires with."""
        raise NotImplementedError

    def opened(self: Any, keep: float = KEEP) -> IJobStore:
        """A store that was started."""
        store = self.made(keep)
        self.start(store)
        return store  # type: ignore[no-any-return]

    def start(self: Any, store: IJobStore) -> None:
        """Start one; it is stopped at the end."""
        store.startService()
        self.addCleanup(lambda: self.get(store.stopService()))

    def again(self: Any, store: IJobStore) -> IJobStore:
        """The store after a stop and a start."""
        self.get(store.stopService())
        return self.opened()  # type: ignore[no-any-return]

    def both(self: Any, store: IJobStore) -> Iterator[IJobStore]:
        """The store as it is, and then after a restart."""
        yield store
        yield self.again(store)

    def test_as_it_was(self: Any) -> None:
        """A job and its returns are as they were, at once and after a restart."""
        store = self.opened()
        self.get(store.save_job(JID, JOB, ["web1", "web2"]))
        value = {"a": b"\xff", "b": "\u20ac", "c": [1, None, {"d": 1.5}]}
        self.get(store.save_return(load("web2", value=value, out="nested")))
        self.get(store.save_return(load("web1")))

        for one in self.both(store):
            job = self.get(one.job(JID))
            self.assertAlmostEqual(job.pop("started"), START, 3)
            self.assertEqual(job, {**JOB, "jid": JID, "minions": ["web1", "web2"]})
            returns = self.get(one.returns(JID))
            self.assertEqual(list(returns), ["web1", "web2"])
            self.assertEqual(
                returns["web2"],
                {
                    "fun": "test.ping", "fun_args": [], "return": value, "retcode": 0,
                    "success": True, "out": "nested",
                },
            )  # fmt: skip
            self.assertEqual((one.problem, one.queued), ("", 0))

    def test_unknown(self: Any) -> None:
        """A job that is not there is none, and has no returns."""
        store = self.opened()
        self.get(store.save_job(JID, JOB, ["web1"]))

        for jid in (NEXT, "", "x", JID[:-1]):
            self.assertIsNone(self.get(store.job(jid)))
            self.assertEqual(self.get(store.returns(jid)), {})
        self.assertEqual(self.get(store.returns(JID)), {})

    def test_repeated(self: Any) -> None:
        """A repeated return is told from a new one, also after a restart; the first stays."""
        store = self.opened()
        loads = [load("a"), load("a", value=2), load("b"), load("a", NEXT)]
        waiting = [store.save_return(each) for each in loads]

        self.assertEqual([self.get(each) for each in waiting], [True, False, True, True])
        store = self.again(store)
        self.assertEqual(self.get(store.save_return(load("a", value=3))), False)
        self.assertEqual(self.get(store.returns(JID))["a"]["return"], True)

    def test_many(self: Any) -> None:
        """A thousand returns at once are all kept, each is answered for itself."""
        store = self.opened()
        waiting = [store.save_return(load(f"m{n % 990}", value=n)) for n in range(1000)]

        self.assertEqual(sum(self.get(each) for each in waiting), 990)
        returns = self.get(store.returns(JID))
        self.assertEqual([returns[f"m{n}"]["return"] for n in (0, 9, 989)], [0, 9, 989])
        self.assertEqual(len(returns), 990)

    def test_claimed(self: Any) -> None:
        """A return of a job that nobody published here makes a record of what it says."""
        store = self.opened()
        self.get(store.save_return(load(fun_args=["x"], user="fred", metadata={"a": 1})))
        self.get(store.save_return(load("web2", jid=NEXT), requested=True))

        job = self.get(self.again(store).job(JID))
        self.assertEqual(
            {name: job[name] for name in ("fun", "arg", "tgt", "user", "metadata", "minions")},
            {
                "fun": "test.ping", "arg": ["x"], "tgt": "web1", "user": "fred",
                "metadata": {"a": 1}, "minions": ["web1"],
            },
        )  # fmt: skip
        self.assertTrue(job["claimed"])

    def test_published_counts(self: Any) -> None:
        """A publication replaces what a return said of the job, and a return never the reverse."""
        store = self.opened()
        self.get(store.save_return(load("web1")))
        self.get(store.save_job(JID, JOB, ["web1", "web2"]))
        store = self.again(store)
        self.get(store.save_return(load("web2")))

        job = self.get(store.job(JID))
        self.assertEqual((job["tgt"], job["minions"]), ("*", ["web1", "web2"]))
        self.assertFalse(job.get("claimed"))

    def test_chosen(self: Any) -> None:
        """Of two jobs by one jid that callers chose the first holds; the other is refused."""
        store = self.opened()
        self.get(store.save_return(load("web1")))
        self.get(store.save_job(JID, JOB, ["web1"], chosen=True))
        self.now += 5
        later = store.save_job(JID, {**JOB, "fun": "cmd.run"}, ["web2"], chosen=True)

        self.assertRaises(DeniedError, self.get, later)
        for one in self.both(store):
            self.assertEqual(self.get(one.job(JID))["fun"], "test.ping")

    def test_one_job_twice(self: Any) -> None:
        """Of two records of one job by a chosen jid the later one holds: it knows more minions."""
        store = self.opened()
        job = {**JOB, BEGUN: START}
        self.get(store.save_job(JID, job, ["web1"], chosen=True))
        self.now += 5
        self.get(store.save_job(JID, job, ["web1", "web2"], chosen=True))

        for one in self.both(store):
            self.assertEqual(self.get(one.job(JID))["minions"], ["web1", "web2"])

    def test_listed(self: Any) -> None:
        """Jobs are listed newest last, by function, by time, and the newest so many."""
        store = self.opened()
        funs = ["test.ping", "saltutil.find_job", ["test.ping", "cmd.run"], "test.ping"]
        for number, fun in enumerate(funs):
            self.now = START + 10 * number
            self.get(store.save_job(f"2026070112000{number}000000", {"fun": fun}, ["a"]))

        def listed(**criteria: Any) -> str:
            return "".join(job["jid"][13] for job in self.get(store.list_jobs(**criteria)))

        self.assertEqual(listed(), "0123")
        self.assertEqual(listed(limit=2), "23")
        self.assertEqual(listed(limit=0), "")
        self.assertEqual(listed(limit=9), "0123")
        self.assertEqual(listed(fun="test.ping"), "03")
        self.assertEqual(listed(fun="test.ping,cmd.run"), "2")
        self.assertEqual(listed(fun="test"), "")
        self.assertEqual(listed(not_fun="saltutil.find_job", limit=2), "23")
        self.assertEqual(listed(since=START + 15), "23")
        self.assertEqual(listed(until=START + 15), "01")
        self.assertEqual(listed(since=START + 5, until=START + 25, fun="test.ping"), "")
        self.assertEqual(listed(fun=None, since=None, limit=None), "0123")
        self.assertNotIn("minions", self.get(store.list_jobs(limit=1))[0])
        self.assertEqual(self.get(store.list_jobs(limit=1, minions=True))[0]["minions"], ["a"])
        self.assertEqual(listed(below="", limit=3), "123")
        self.assertEqual(listed(below="20260701120002000000", limit=1), "1")
        self.assertEqual(listed(below="2026070112000"), "")
        self.assertRaises(TypeError, store.list_jobs, colour="red")

    def test_shown(self: Any) -> None:
        """What a function makes of each job is listed in its place, of what is recorded now."""
        store = self.opened()

        def shown(**criteria: Any) -> list[Any]:
            return list(self.get(store.list_jobs(shown=whose, **criteria)))

        self.get(store.save_return(load("web1")))
        before = shown()
        self.get(store.save_job(JID, JOB, ["web1", "web2"]))
        self.now += 5
        self.get(store.save_job(NEXT, {**JOB, "fun": "cmd.run"}, ["web1"]))

        self.assertEqual(before, [(JID, "test.ping", True)])
        both = [(JID, "test.ping", False), (NEXT, "cmd.run", False)]
        self.assertEqual([shown(), shown(), shown(below="", limit=9)], [both] * 3)
        self.assertEqual(shown(limit=1), both[1:])
        self.assertEqual(shown(fun="test.ping"), both[:1])
        self.assertEqual(shown(below=NEXT, limit=9), both[:1])
        self.assertEqual(self.get(store.prune(lambda: self.now)), 0)
        self.now += 2 * KEEP
        self.get(store.prune(lambda: self.now))
        self.assertEqual(shown(), [])

    def test_listed_by_jid(self: Any) -> None:
        """Below a jid the order is that of jids, whenever the jobs came: pages never overlap."""
        store = self.opened()
        for came, number in enumerate((1, 2, 0)):
            self.now = START + 10 * came
            self.get(store.save_job(f"2026070112000{number}000000", {"fun": "x"}, []))

        by_time = [job["jid"][13] for job in self.get(store.list_jobs())]
        by_jid = [job["jid"][13] for job in self.get(store.list_jobs(below="", limit=9))]

        self.assertEqual((by_time, by_jid), (["1", "2", "0"], ["0", "1", "2"]))

    def test_pruned(self: Any) -> None:
        """What came too long ago goes, the job with its returns; a late return is new again."""
        store = self.opened()
        self.get(store.save_job(JID, JOB, ["web1", "web2"]))
        self.get(store.save_return(load("web1")))
        self.assertEqual(self.get(store.prune(lambda: self.now)), 0)
        self.now += 2 * KEEP
        self.get(store.save_job(NEXT, JOB, ["web1"]))

        self.assertEqual(self.get(store.prune(lambda: self.now)), 2)
        self.assertIsNone(self.get(store.job(JID)))
        self.assertEqual(self.get(store.returns(JID)), {})
        self.assertIsNotNone(self.get(store.job(NEXT)))
        self.assertEqual(self.get(store.prune(lambda: self.now)), 0)
        self.assertTrue(self.get(store.save_return(load("web1"))))
        self.assertTrue(self.get(store.job(JID))["claimed"])

    def test_not_pruned(self: Any) -> None:
        """Nothing goes while nobody knows what time it is, nor where all is kept for ever."""
        store = self.opened()
        self.get(store.save_return(load("web1")))
        self.get(store.prune(lambda: self.now))
        self.now += 5 * KEEP
        self.assertEqual(self.get(store.prune(lambda: None)), 0)
        self.get(store.stopService())
        store = self.opened(0.0)
        self.assertEqual(self.get(store.prune(lambda: self.now)), 0)
        self.assertIsNotNone(self.get(store.job(JID)))

    def test_brought_in(self: Any) -> None:
        """Records of another master come with their own times; what is here already stays."""
        store = self.opened()
        self.get(store.save_job(JID, JOB, ["web1"]))
        self.get(store.save_return(load("web1")))
        old = {"fun": "cmd.run", "tgt": "old"}
        jobs = [(jid, START - 50, "cmd.run", pack_bin(old), pack_bin(["a"])) for jid in (JID, NEXT)]
        packed = stored_form(load("x", value="old"))
        returns = [(JID, "web1", START - 50, packed), (JID, "web2", START - 50, packed)]

        self.assertEqual(self.get(store.bring_in(jobs, returns)), (1, 1))
        self.assertEqual(self.get(store.bring_in(jobs, returns)), (0, 0))

        store = self.again(store)
        self.assertEqual(self.get(store.job(JID))["tgt"], "*")
        found = self.get(store.job(NEXT))
        self.assertEqual([found[n] for n in ("tgt", "minions")], ["old", ["a"]])
        self.assertEqual(found["started"], START - 50)
        values = {name: each["return"] for name, each in self.get(store.returns(JID)).items()}
        self.assertEqual(values, {"web1": True, "web2": "old"})

    def test_newest(self: Any) -> None:
        """At the start the newest published jid is known, of all or of a slot; later no more."""
        store = self.opened()
        for jid in (JID, NEXT[:18] + "07", "20260701120000500003", "20990701120000000000"):
            self.get(store.save_job(jid, JOB, []))
        self.get(store.save_return(load("web1", "20260701120009000000")))
        self.get(store.stopService())
        store, found = self.made(), []
        store.on_open.append(
            lambda: found.extend(store.newest_jid(slot) for slot in (None, 7, 3, 8))
        )
        self.start(store)

        self.assertEqual(found, [NEXT[:18] + "07", NEXT[:18] + "07", "20260701120000500003", ""])
        self.assertEqual(store.newest_jid(), "")

    def test_refused_alone(self: Any) -> None:
        """A value that cannot be kept is refused, and the others are not harmed."""
        store, endless = self.opened(), list[Any]()
        endless.append(endless)
        values = {"a": 1, "b": endless, "c": 2}
        waiting = [store.save_return(load(m, value=value)) for m, value in values.items()]

        self.assertTrue(self.get(waiting[0]))
        self.assertRaises(StoreError, self.get, waiting[1])
        self.assertTrue(self.get(waiting[2]))
        self.assertEqual(list(self.get(store.returns(JID))), ["a", "c"])

    def test_stopped(self: Any) -> None:
        """What was taken before a stop is kept; what comes after it is refused, not lost."""
        store = self.opened()
        before = store.save_return(load("a"))
        stopping = store.stopService()
        after = store.save_return(load("b"))

        self.assertTrue(self.get(before))
        self.get(stopping)
        self.assertRaises(StoreError, self.get, after)
        self.assertRaises(StoreError, self.get, store.job(JID))
        self.assertEqual(list(self.get(self.opened().returns(JID))), ["a"])
