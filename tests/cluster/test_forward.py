"""
Jobs and returns between nodes: every minion gets them, once, in time; no return is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jid import jid_at
from saltwisted.domain.targeting.selection import Selection
from saltwisted.domain.who import Who, local
from saltwisted.errors import RemoteError
from saltwisted.stores.jobs import longpacking
from saltwisted.wire.crypticle import open_sealed
from saltwisted.wire.msgpack import pack_bin, unpack_raw
from tests.cluster.memory import Node, Nodes
from tests.master.rig import RigMinion


class Sent:
    """A return on its way: the frame's answers so far."""

    def __init__(self, minion: RigMinion, node: Node, jid: str, value: Any = True) -> None:
        self.minion = minion
        self.nonce = minion.nonce()
        load = {
            "cmd": "_return",
            "jid": jid,
            "fun": "test.ping",
            "fun_args": [],
            "return": value,
            "retcode": 0,
            "success": True,
        }
        self.replies = node.ask(minion.frame(load, nonce=self.nonce))

    @property
    def acknowledged(self) -> bool:
        """Whether the node has said that it keeps it."""
        if not self.replies:
            return False
        assert self.minion.session is not None
        return open_sealed(self.minion.session, unpack_raw(self.replies[0]), self.nonce) is None


class ForwardTests(SynchronousTestCase):
    """Three nodes; minion m is on a, n on b."""

    def setUp(self) -> None:
        self.nodes = Nodes(self, "abc")
        self.a, self.b, self.c = (self.nodes.one[name] for name in "abc")
        self.m = self.nodes.accept("m", "a")
        self.n = self.nodes.accept("n", "b")
        for minion in (self.m, self.n):
            minion.ask("_file_envs")
        self.nodes.turn(6)

    def answer(self, minion: RigMinion, node: Node, jid: str, **more: Any) -> Sent:
        """A minion returns, and is acknowledged."""
        sent = Sent(minion, node, jid, **more)
        self.nodes.until(lambda: sent.acknowledged, "the acknowledgement")
        return sent

    def fired(self, node: Node, end: str) -> list[dict[str, Any]]:
        """Events of a node by the end of their tag."""
        return [data for tag, data in node.events if tag.endswith(end)]

    def test_own_business(self) -> None:
        """A run is watched from any node: its steps are told on all; presence is on each alone."""
        for tag in ("saltwisted/orchestrate/20261123100000000000/step", "salt/presence/present"):
            self.a.bus.fire(tag, {"step": 1})
        self.nodes.turn(3)

        for node in (self.b, self.c):
            self.assertEqual([one["step"] for one in self.fired(node, "/step")], [1])
            self.assertEqual([one for one in self.fired(node, "/present") if "step" in one], [])

    def test_published_everywhere(self) -> None:
        """A job given to any node is published by all, once each, with the same jid."""
        published = self.nodes.publish("a", arg=["x"])
        self.nodes.settle()

        self.assertEqual(sorted(published["minions"]), ["m", "n"])
        for node in (self.a, self.b, self.c):
            (job,) = node.published_jobs()
            self.assertEqual((job["jid"], job["arg"]), (published["jid"], ["x"]))
            self.assertNotIn("kwargs", job)

    def test_T_WHO_1_everywhere(self) -> None:
        """
        T-WHO-1: all nodes know by which backend the user of a job was proven, in its event and in
        its record, and judge parts by that; no node gives it to minions.
        """
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()
        for node in (self.a, self.b, self.c):
            (event,) = self.fired(node, f"{jid}/new")
            record = self.nodes.get(node.ctx.jobs.job(jid))
            for facts in (event, record):
                self.assertEqual((facts["user"], facts["eauth"]), ("root", "local"))
            self.assertNotIn("eauth", node.published_jobs()[0])

        jid = jid_at(self.nodes.clock.seconds())
        theirs = {
            "tgt": "*",
            "fun": "test.ping",
            "arg": [],
            "jid": jid,
            **Who("ann", "pam").facts(),
        }
        link = self.a.peers.links()[0]
        other = self.nodes.one[link.node]
        for change in ({}, {"eauth": "ldap"}, {"eauth": ""}):
            link.tell("job", pack_bin([{**theirs, **change}, ["m", "n"]]))
            self.nodes.turn(1)
        self.assertEqual([job["user"] for job in other.published_jobs()], ["root", "ann"])
        self.assertNotIn("eauth", other.published_jobs()[1])
        self.assertEqual(other.ctx.counters["refused:jid-of-another-job"], 2)

    def test_T_PATH_6_one_jid_two_jobs(self) -> None:
        """T-PATH-6: no node publishes a job by the jid of another, or by what is not a jid."""
        jid = jid_at(self.nodes.clock.seconds())
        first = {"tgt": "*", "fun": "test.ping", "arg": [], "jid": jid, "user": "ann"}
        link = self.a.peers.links()[0]
        other = self.nodes.one[link.node]
        link.tell("job", pack_bin([first, ["m", "n"]]))
        self.nodes.turn(1)
        for change in ({"user": "bob"}, {"fun": "cmd.run"}, {"jid": "../x"}, {"jid": 5}):
            link.tell("job", pack_bin([{**first, **change}, ["m", "n", "o"]]))
        self.nodes.turn(1)

        self.assertEqual([job["user"] for job in other.published_jobs()], ["ann"])
        self.assertEqual(other.ctx.counters["refused:jid-of-another-job"], 2)
        self.assertEqual(other.ctx.counters["refused:job"], 2)
        link.tell("job", pack_bin([first, ["m", "n", "o"]]))
        self.nodes.turn(1)
        self.assertEqual(other.ctx.counters["refused:jid-of-another-job"], 2)

    def test_late_parts(self) -> None:
        """
        A part of a batch reaches minions at other nodes, however long ago its first part went out;
        and nobody who had an earlier part gets anything again.
        """
        jid = jid_at(self.nodes.clock.seconds())
        for names in (["m"], ["n"]):
            self.nodes.publish("a", tgt=names, tgt_type="list", jid=jid)
            self.nodes.settle()
            self.nodes.turn(100.0)
            self.nodes.settle()

        for node in (self.a, self.b, self.c):
            sent = [(job["jid"], job["tgt"]) for job in node.published_jobs()]
            self.assertEqual(sent, [(jid, ["m"]), (jid, ["n"])])
            self.assertNotIn("given", node.published_jobs()[1])

    def test_late_row(self) -> None:
        """
        Where only the row of a later part comes, it is published to the minions of that part alone,
        if it is still time.
        """
        jid = jid_at(self.nodes.clock.seconds())
        self.nodes.publish("a", tgt=["n"], tgt_type="list", jid=jid)
        self.nodes.settle()
        self.nodes.turn(100.0)
        o = self.nodes.accept("o", "b")
        for minion in (self.n, o):
            minion.ask("_file_envs")
        self.nodes.turn(6)
        self.b.peers.cut("a")
        self.b.peers.cut("c")
        self.nodes.publish("a", tgt=["o"], tgt_type="list", jid=jid)
        self.nodes.turn(10)
        self.b.peers.join(self.c.peers)
        self.nodes.turn(3)
        self.nodes.settle()

        self.assertEqual([job["tgt"] for job in self.b.published_jobs()], [["n"], ["o"]])
        self.assertFalse(any("eauth" in job for job in self.b.published_jobs()))

    def test_T_ACL_4_other_nodes_publish_the_judged_list(self) -> None:
        """
        T-ACL-4: a job that was judged by a list of minions names them on each node, whether it
        came as a message or as a row.
        """
        for cut in (False, True):
            if cut:
                self.b.peers.cut("a")
                self.b.peers.cut("c")
            load = {"tgt": "*", "fun": "test.ping", "arg": []}
            judged = Selection(minions=["n"])
            work = self.a.ctx.dispatcher.publish(load, local("fred"), judged=judged)
            jid = self.nodes.get(Deferred.fromCoroutine(work))["jid"]
            if cut:
                self.nodes.turn(3)
                self.b.peers.join(self.c.peers)
                self.nodes.turn(3)
            self.nodes.settle()

            for node in (self.a, self.b, self.c):
                sent = [job for job in node.published_jobs() if job["jid"] == jid]
                self.assertEqual(
                    {(tuple(job["tgt"]), job["tgt_type"]) for job in sent}, {(("n",), "list")}
                )

    def test_under_way(self) -> None:
        """Any node knows of some minions which have not returned to a job."""
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()
        self.answer(self.m, self.a, jid)
        self.nodes.settle()

        for node in (self.a, self.b, self.c):
            looked = Deferred.fromCoroutine(node.forward.under_way({"m", "n", "other"}))
            self.nodes.until(lambda done=looked: done.called, "the answer")
            self.assertEqual(self.successResultOf(looked), {"n": {jid}})

    def test_asked_while_it_leaves(self) -> None:
        """A node that takes no more jobs still asks what minions run; nonsense says nothing."""
        said: list[tuple[str, set[str]]] = []
        dispatcher = self.a.ctx.dispatcher
        dispatcher.close("it leaves")
        load = {"tgt": "*", "fun": "test.ping", "arg": []}
        refused = Deferred.fromCoroutine(dispatcher.publish(load, local("root")))
        self.failureResultOf(refused, RemoteError)

        asked = Deferred.fromCoroutine(
            dispatcher.ask_running({"n", "m"}, lambda *each: said.append((each[0], set(each[1]))))
        )
        self.nodes.until(self.a.published_jobs, "the question")
        (job,) = self.a.published_jobs()
        self.assertEqual((job["fun"], job["tgt"]), ("saltutil.running", ["m", "n"]))
        running = [{"jid": "20260101000000000001", "fun": "cmd.run"}, "nonsense"]
        self.answer(self.m, self.a, job["jid"], value=running)
        self.answer(self.n, self.b, job["jid"], value="is not available")
        self.nodes.get(asked)

        self.assertEqual(said, [("m", {"20260101000000000001"})])

    def test_returns_everywhere(self) -> None:
        """Returns that came to any node are told and printed alike by all."""
        jid = self.nodes.publish("a")["jid"]
        self.answer(self.m, self.a, jid)
        self.answer(self.n, self.b, jid, value={"x": 1})
        self.nodes.settle()

        shown = []
        for node in (self.a, self.b, self.c):
            self.nodes.until(
                lambda node=node: len(self.fired(node, f"salt/job/{jid}/ret/n")) == 1, "the event"
            )
            (event,) = self.fired(node, f"salt/job/{jid}/ret/n")
            self.assertEqual((event["id"], event["return"]), ("n", {"x": 1}))
            runner = node.ctx.runner("jobs.print_job", [jid], {}, local("root"))
            shown.append(self.nodes.get(Deferred.fromCoroutine(runner))["return"])
            self.assertEqual(len(self.fired(node, f"{jid}/new")), 1)
        self.assertEqual(sorted(shown[0][jid]["Result"]), ["m", "n"])
        self.assertEqual(shown[1:], shown[:2])

    def test_large_returns_elsewhere(self) -> None:
        """
        A large return of another node is unpacked and freed in a thread, and announced in its
        turn among the large ones; small ones need not wait for it.
        """
        calls: list[tuple[str, Callable[[], None]]] = []

        def in_thread(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
            done: Deferred[Any] = Deferred()
            result = function(*args)
            calls.append((function.__name__, lambda: done.callback(result)))
            return done

        self.a.forward._announcing._in_thread = in_thread
        jids = [self.nodes.publish("a")["jid"] for _ in range(3)]
        value = {f"k{n}": [n, "x" * 20] for n in range(20_000)}
        for jid, each in zip(jids, (value, [value], True), strict=True):
            self.answer(self.n, self.b, jid, value=each)
        self.nodes.settle()
        self.nodes.until(lambda: self.fired(self.a, f"{jids[2]}/ret/n"), "the small one")

        self.assertEqual([name for name, _ in calls], ["unpacked"])
        self.assertEqual(self.fired(self.a, f"{jids[0]}/ret/n"), [])
        calls.pop()[1]()
        (first,) = self.fired(self.a, f"{jids[0]}/ret/n")
        self.nodes.turn(0.1)
        self.assertEqual([name for name, _ in calls], ["unpacked", "free"])
        self.assertEqual(self.fired(self.a, f"{jids[1]}/ret/n"), [])
        calls[0][1]()
        (second,) = self.fired(self.a, f"{jids[1]}/ret/n")

        self.assertEqual((first["return"], second["return"]), (value, [value]))
        self.assertEqual((first["id"], first["jid"]), ("n", jids[0]))

    def test_large_return_that_fails(self) -> None:
        """If one cannot be announced, those behind it are all the same: none waits for another."""
        calls: list[Deferred[Any]] = []

        def in_thread(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
            calls.append(Deferred())
            calls[-1].addCallback(lambda _: function(*args))
            return calls[-1]

        self.a.forward._announcing._in_thread = in_thread
        jids = [self.nodes.publish("a")["jid"] for _ in range(2)]
        for jid in jids:
            self.answer(self.n, self.b, jid, value=["x" * 300_000])
        self.nodes.settle()
        self.assertEqual(len(calls), 1)
        calls[0].errback(MemoryError("the first"))
        self.nodes.until(lambda: len(calls) == 2, "the second")
        calls[1].callback(None)

        self.assertEqual(self.fired(self.a, f"{jids[0]}/ret/n"), [])
        (second,) = self.fired(self.a, f"{jids[1]}/ret/n")
        self.assertEqual(len(second["return"][0]), 300_000)
        self.assertEqual(len(self.flushLoggedErrors(MemoryError)), 1)

    def test_large_events(self) -> None:
        """
        A large event goes to the other nodes by itself, packed in turns and unpacked in a thread;
        small ones do not wait for it, and one that cannot be packed is counted.
        """
        self.patch(longpacking, "PORTION", 0.0)
        calls: list[tuple[str, Deferred[Any]]] = []

        def in_thread(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
            calls.append((function.__name__, Deferred()))
            return calls[-1][1].addCallback(lambda _: function(*args))

        for node in (self.a, self.b):
            node.relay._in_thread = in_thread
        value = {f"k{n}": [n, "x" * 20] for n in range(20_000)}
        self.b.bus.fire("salt/job/1/ret/n", {"jid": "nocache", "return": value})
        self.b.bus.fire("custom/small", {"n": 1})
        self.b.bus.fire("custom/odd", {"n": [*range(20_000), object()]})
        self.nodes.until(lambda: self.fired(self.a, "custom/small"), "the small one")
        self.nodes.until(lambda: calls, "the pieces")
        self.assertEqual(self.fired(self.a, "/ret/n"), [])
        self.assertEqual(calls[0][0], "join")
        calls[0][1].callback(None)
        self.nodes.until(lambda: len(calls) > 1, "the message")
        self.assertEqual((calls[1][0], self.fired(self.a, "/ret/n")), ("unpacked", []))
        calls[1][1].callback(None)
        self.nodes.until(lambda: len(calls) > 2, "the end")

        (told,) = self.fired(self.a, "/ret/n")
        self.assertEqual(told["return"], value)
        self.assertIn("free", [name for name, _ in calls])
        self.assertEqual(self.b.counters["events:unpackable"], 1)

    def test_T_TEXT_1_batch(self) -> None:
        """
        T-TEXT-1: of events that are sent together, one with half a character arrives with a
        backslash, one that cannot be packed is counted, and all others arrive as they are.
        """
        for number in range(3):
            self.b.bus.fire(f"custom/{number}", {"n": number})
        self.b.bus.fire("custom/half", {"a\ud800": "\udcff"})
        self.b.bus.fire("custom/odd", {"n": object()})
        self.b.bus.fire("custom/last", {})
        self.nodes.turn(3)

        for tag in ("custom/0", "custom/1", "custom/2", "custom/last"):
            self.assertEqual(len(self.fired(self.a, tag)), 1, tag)
        (half,) = self.fired(self.a, "custom/half")
        self.assertEqual(half["a\\ud800"], "\\udcff")
        self.assertEqual(self.fired(self.a, "custom/odd"), [])
        self.assertEqual(self.b.counters["events:unpackable"], 1)

    def test_T_TEXT_1_taken(self) -> None:
        """T-TEXT-1: of events that another node sends together, one that is none harms no other."""
        good = [[1, "custom/good", {"a": 1}, ""], [2, "custom/more", {}, ""]]
        for bad in (7, [], [3, "custom/bad", 7, ""], ["x", "custom/bad", {}, ""]):
            self.a.relay._came("b", pack_bin(["b", f"life {bad!r}", [good[0], bad, good[1]], []]))
        self.assertEqual(len(self.fired(self.a, "custom/good")), 4)
        self.assertEqual(len(self.fired(self.a, "custom/more")), 4)
        self.assertEqual(self.fired(self.a, "custom/bad"), [])
        self.assertEqual(self.a.counters["refused:events"], 4)

    def test_waiting_elsewhere(self) -> None:
        """Who waits at a sees what came to b, and ends when all have answered."""
        items: list[dict[str, Any]] = []

        async def wait() -> None:
            load = {"tgt": "*", "fun": "test.ping", "arg": []}
            async for item in self.a.ctx.dispatcher.run(load, local("root")):
                items.append(item)

        done = Deferred.fromCoroutine(wait())
        self.nodes.until(lambda: items, "the publication")
        jid = items[0]["jid"]
        self.answer(self.m, self.a, jid)
        self.answer(self.n, self.b, jid)
        self.nodes.get(done)

        self.assertEqual([item["kind"] for item in items], ["published", "return", "return"])

    def test_moved_minion(self) -> None:
        """A minion that signed in at one node is served by another at once."""
        jid = self.nodes.publish("a")["jid"]

        self.answer(self.m, self.c, jid)
        self.nodes.settle()

        self.assertEqual(list(self.nodes.get(self.b.jobs.returns(jid))), ["m"])

    def test_two_copies(self) -> None:
        """A return is acknowledged when another node has it on disk, and outlives its node."""
        jid = self.nodes.publish("a")["jid"]
        self.answer(self.n, self.b, jid)
        self.assertEqual(self.b.ctx.counters["returns:copies-2"], 1)

        self.b.stop()

        def kept() -> bool:
            return any("n" in self.nodes.get(node.jobs.returns(jid)) for node in (self.a, self.c))

        self.assertTrue(kept())
        self.nodes.turn(8)
        self.nodes.settle()
        self.assertEqual(list(self.nodes.get(self.a.jobs.returns(jid))), ["n"])
        self.assertEqual(list(self.nodes.get(self.c.jobs.returns(jid))), ["n"])

    def test_one_copy(self) -> None:
        """When no other disk confirms it, a return is acknowledged after a second."""
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()
        for node in (self.a, self.c):
            link = self.b.peers.link(node.name)
            assert link is not None
            link.held = []

        sent = Sent(self.n, self.b, jid)
        self.nodes.until(lambda: self.fired(self.b, f"{jid}/ret/n"), "the event")
        self.nodes.turn(0.9)
        self.assertFalse(sent.acknowledged)
        self.nodes.turn(0.2)

        self.assertTrue(sent.acknowledged)
        self.assertEqual(self.b.ctx.counters["returns:copies-1"], 1)

    def test_alone(self) -> None:
        """A node without links acknowledges at once, and gives what it has when it has some."""
        for name in "ac":
            self.b.peers.cut(name)
        jid = self.nodes.publish("b")["jid"]
        self.answer(self.n, self.b, jid)
        self.assertEqual(self.a.published_jobs(), [])

        self.nodes.turn(31)
        self.b.peers.join(self.a.peers)
        self.b.peers.join(self.c.peers)
        self.nodes.turn(5)
        self.nodes.settle()

        self.assertEqual(list(self.nodes.get(self.c.jobs.returns(jid))), ["n"])
        # The window is over: nobody runs it now
        self.assertEqual(self.a.published_jobs() + self.c.published_jobs(), [])

    def test_late_link(self) -> None:
        """A node that is linked within the window publishes what it missed, once."""
        self.b.peers.cut("a")
        self.b.peers.cut("c")
        self.nodes.publish("a")
        self.nodes.turn(10)
        self.assertEqual(self.b.published_jobs(), [])

        self.b.peers.join(self.c.peers)
        self.nodes.turn(3)
        self.nodes.settle()

        self.assertEqual(len(self.b.published_jobs()), 1)

    def test_there_and_back(self) -> None:
        """A minion that had a job elsewhere meanwhile is not one that was here all the time."""
        self.b.peers.cut("a")
        self.b.peers.cut("c")
        RigMinion(self.a, "n").sign_in()
        self.nodes.publish("a")
        self.nodes.turn(3)
        RigMinion(self.b, "n").sign_in()
        self.nodes.turn(7)

        self.b.peers.join(self.c.peers)
        self.b.peers.join(self.a.peers)
        self.nodes.turn(6)
        self.nodes.settle()

        self.assertEqual(self.b.published_jobs(), [])

    def test_published_beyond_a_cut(self) -> None:
        """A minion of a node that died, which only others were linked to, may have had the job."""
        self.nodes.turn(20)
        self.n.ask("_file_envs")
        self.a.peers.cut("b")
        self.nodes.publish("a")
        self.nodes.turn(3)
        self.nodes.until(self.b.published_jobs, "the publication", 0.05)
        self.nodes.settle()
        self.c.peers.cut("b")
        RigMinion(self.a, "n").sign_in()
        self.nodes.turn(6)
        self.nodes.settle()

        self.assertEqual(len(self.a.published_jobs()), 1)

    def test_stopped_node(self) -> None:
        """What lay in the socket of a node that was stopped for a minute is not run by it."""
        links = [self.a.peers.link("b"), self.c.peers.link("b")]
        for link in links:
            assert link is not None
            link.held = []
        self.nodes.publish("a")
        self.nodes.turn(60)
        for link in links:
            assert link is not None
            held, link.held = link.held or [], None
            for arrive in held:
                arrive()
        self.nodes.turn(1)
        self.nodes.settle()

        self.assertEqual(self.b.published_jobs(), [])
        self.assertEqual(len(self.c.published_jobs()), 1)

    def test_relayed(self) -> None:
        """Two nodes that cannot meet get each other's events, jobs and returns by a third."""
        self.a.peers.cut("b")
        jid = self.nodes.publish("a")["jid"]
        self.a.ctx.bus.fire("custom/tag", {"x": 1})
        self.nodes.turn(3)
        (job,) = self.nodes.until(self.b.published_jobs, "the publication", 0.05)
        self.answer(self.n, self.b, jid)
        self.nodes.turn(3)
        self.nodes.settle()

        self.assertEqual((job["jid"], job["tgt"]), (jid, ["n"]))
        self.assertEqual(len(self.b.published_jobs()), 1)
        self.assertEqual(len(self.fired(self.a, f"{jid}/ret/n")), 1)
        self.assertEqual(len(self.fired(self.b, "custom/tag")), 1)
        self.assertEqual(len(self.fired(self.c, "custom/tag")), 1)

    def test_sender(self) -> None:
        """Every node knows which minion has fired an event, also who heard of it from a third."""
        heard: dict[str, list[tuple[str, str]]] = {}
        for name in "abc":
            own = heard[name] = []
            self.nodes.one[name].ctx.bus.subscribe_events(
                "custom/", lambda event, own=own: own.append((event.tag, event.sender))
            )
        self.a.peers.cut("b")
        self.m.ask("_minion_event", tag="custom/tag", data={"x": 1}, id="m")
        self.a.ctx.bus.fire("custom/own", {})
        self.nodes.turn(3)
        for name, events in heard.items():
            self.assertEqual(events, [("custom/tag", "m"), ("custom/own", "")], name)

    def test_not_reached(self) -> None:
        """After the window who was on no node is told from who did not answer."""
        self.nodes.accept("away", "c")
        self.nodes.turn(70)
        self.m.ask("_file_envs")
        self.nodes.turn(6)
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()
        self.nodes.turn(31)

        runner = self.a.ctx.runner("jobs.lookup_jid", [jid], {"missing": True}, local("root"))
        shown = self.nodes.get(Deferred.fromCoroutine(runner))["return"]
        self.assertEqual(shown["away"], "Minion was not reached")
        self.assertEqual(shown["m"], "Minion did not return")

    def test_repeated_request(self) -> None:
        """A C{salt-call} whose answer was lost is recognised on another node."""
        first = Sent(self.m, self.a, "req")
        self.nodes.until(lambda: first.acknowledged, "the acknowledgement")
        self.nodes.settle()

        second = Sent(self.m, self.b, "req")
        self.nodes.until(lambda: second.acknowledged, "the acknowledgement")
        self.nodes.settle()

        self.assertEqual(len(self.nodes.get(self.c.jobs.list_jobs())), 1)
        self.assertEqual(self.b.ctx.counters["returns:repeated-elsewhere"], 1)

    def test_presence(self) -> None:
        """Each node says the same of who is present."""
        self.m.rig.ask(self.m.frame({"cmd": "_file_envs"}))
        self.b.ask(self.n.frame({"cmd": "_file_envs"}))

        for node in (self.a, self.b, self.c):
            runner = node.ctx.runner("manage.present", [], {}, local("root"))
            found = self.nodes.get(Deferred.fromCoroutine(runner))
            self.assertEqual(found["return"], ["m", "n"], node.name)

    def test_minion_that_comes(self) -> None:
        """A minion that was nowhere when the job was given gets it when it comes."""
        self.nodes.accept("late", "c")
        self.nodes.turn(120)
        jid = self.nodes.publish("a")["jid"]
        self.nodes.settle()
        before = len(self.c.published_jobs())
        late = RigMinion(self.c, "late")

        late.sign_in()
        late.ask("_file_envs")
        self.nodes.turn(6)

        jobs = self.c.published_jobs()[before:]
        self.assertEqual(
            [(j["jid"], j["tgt"], j["tgt_type"]) for j in jobs], [(jid, ["late"], "list")]
        )
        self.nodes.turn(6)
        self.assertEqual(len(self.c.published_jobs()), before + 1)
