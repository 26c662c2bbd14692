"""
Who said that there was such a job: what C{jobs.*} shows of returns that nobody asked for.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jid import jid_at
from saltwisted.domain.who import local
from tests.cluster.memory import Node, Nodes
from tests.cluster.test_forward import Sent
from tests.master.rig import RigMinion


class ShownTests(SynchronousTestCase):
    """Two nodes; minion m is on a, n on b."""

    def setUp(self) -> None:
        self.nodes = Nodes(self, "ab")
        self.a, self.b = (self.nodes.one[name] for name in "ab")
        self.m = self.nodes.accept("m", "a")
        self.n = self.nodes.accept("n", "b")
        for minion in (self.m, self.n):
            minion.ask("_file_envs")
        self.nodes.turn(6)

    def answer(self, minion: RigMinion, node: Node, jid: str, **load: Any) -> None:
        """A minion returns, and is acknowledged."""
        fields = {"cmd": "_return", "jid": jid, "fun": "test.ping", "return": True, **load}
        replies = node.ask(minion.frame(fields))
        self.nodes.until(lambda: replies, "the acknowledgement")

    def run_at(self, node: Node, fun: str, *arg: Any, **kwarg: Any) -> Any:
        """The value of a runner."""
        call = node.ctx.runner(fun, list(arg), kwarg, local("root"), keep=False)
        return self.nodes.get(Deferred.fromCoroutine(call))["return"]

    def test_T_RET_1_not_for_it(self) -> None:
        """T-RET-1: a return of a minion that a job was not for is kept, and said to be its word."""
        jid = self.nodes.publish("a", tgt="m")["jid"]
        self.answer(self.m, self.a, jid)
        self.answer(self.n, self.b, jid, **{"return": "forged"})
        self.nodes.settle()

        for node in (self.a, self.b):
            shown = self.run_at(node, "jobs.list_job", jid)
            self.assertEqual((shown["Minions"], shown["ClaimedBy"]), (["m"], ["n"]))
            self.assertEqual(sorted(shown["Result"]), ["m", "n"])
            self.assertEqual(self.run_at(node, "jobs.print_job", jid)[jid]["ClaimedBy"], ["n"])
            self.assertNotIn("ClaimedBy", self.run_at(node, "jobs.list_jobs")[jid])
            told = len(node.events)
            self.run_at(node, "jobs.lookup_jid", jid)
            claims = [data for tag, data in node.events[told:] if tag.endswith("/claims")]
            self.assertEqual([data["minions"] for data in claims], [["n"]])

    def test_T_RET_1_nobodys_job(self) -> None:
        """T-RET-1: a job that only a minion tells of is shown as that, whoever it says it was."""
        jid = jid_at(self.nodes.clock.seconds())
        self.answer(self.m, self.a, jid, fun="cmd.run", fun_args=["id"], user="root")
        self.nodes.settle()

        for node in (self.a, self.b):
            shown = self.run_at(node, "jobs.list_jobs")[jid]
            self.assertEqual((shown["Function"], shown["ClaimedBy"]), ("cmd.run", ["m"]))
            self.assertEqual(self.run_at(node, "jobs.list_job", jid)["ClaimedBy"], ["m"])
        last = self.run_at(self.a, "jobs.list_jobs_filter", 1)
        self.assertEqual(last[0]["ClaimedBy"], ["m"])

    def test_ordinary_jobs_say_nothing(self) -> None:
        """A job and its returns are shown as in Salt, with nothing beside."""
        jid = self.nodes.publish("a")["jid"]
        Sent(self.n, self.b, jid)
        self.nodes.settle()
        self.nodes.until(lambda: self.run_at(self.a, "jobs.list_job", jid)["Result"], "the return")

        for node in (self.a, self.b):
            self.assertNotIn("ClaimedBy", self.run_at(node, "jobs.list_job", jid))
            self.assertNotIn("ClaimedBy", self.run_at(node, "jobs.list_jobs")[jid])
            told = [tag for tag, _ in node.events if tag.endswith("/claims")]
            self.assertEqual(told, [])

    def test_T_RET_1_of_the_future(self) -> None:
        """T-RET-1: a return by a jid of the future, or of no time at all, hides no other job."""
        self.answer(self.n, self.b, "20991231235959000000")
        self.answer(self.n, self.b, "99999999999999999999")
        self.nodes.settle()
        self.nodes.turn(5)
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()

        self.assertEqual(list(self.run_at(self.a, "jobs.last_run")), [jid])
        jobs = self.run_at(self.a, "jobs.list_jobs")
        self.assertEqual(list(jobs)[-1], jid)
        self.assertEqual(len(jobs), 3)
        moment = jid_at(self.nodes.clock.seconds() - 3)
        since = self.run_at(self.a, "jobs.list_jobs", start_time=moment)
        self.assertEqual(list(since), [jid])

    def test_odd_words(self) -> None:
        """What one minion says of its jobs breaks no list of jobs for the others."""
        jid = jid_at(self.nodes.clock.seconds())
        self.answer(self.m, self.a, jid, fun=5, fun_args=5, user={}, metadata=[1])
        self.answer(self.m, self.a, "99999999999999999999", fun={"a": 1}, fun_args="x")
        self.nodes.settle()

        for node in (self.a, self.b):
            shown = self.run_at(
                node, "jobs.list_jobs", search_function="5", start_time="2026-01-01"
            )
            self.assertEqual(shown[jid]["Arguments"], [5])

    def test_odd_running_jobs(self) -> None:
        """What one minion says that it runs breaks no list of running jobs for the others."""
        call = Deferred.fromCoroutine(self.a.ctx.runner("jobs.active", [], {}, local("root")))
        asked = self.nodes.until(
            lambda: [j for j in self.a.published_jobs() if j["fun"] == "saltutil.running"],
            "the question",
        )[0]["jid"]
        good = {
            "jid": "20260701120000000000",
            "fun": "test.sleep",
            "arg": [1],
            "tgt": "*",
            "pid": 7,
        }
        odd = [5, {}, {"jid": "../x"}, {"jid": "20260701120000000001", "arg": 5, "claimed": True}]
        self.answer(self.m, self.a, asked, **{"return": [*odd, good]})
        self.answer(self.n, self.b, asked, **{"return": "nonsense"})

        shown = self.nodes.get(call)["return"]
        self.assertEqual(shown[good["jid"]]["Running"], [{"m": 7}])
        self.assertEqual(sorted(shown), ["20260701120000000000", "20260701120000000001"])
        self.assertNotIn("ClaimedBy", shown["20260701120000000001"])
