"""
The record: every action has a line with the name of whoever does it, and where from.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.control import RECORDED, ClusterControl
from saltwisted.domain.operations.table import Caller, in_words
from saltwisted.domain.who import local
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.ipc import PeerProcess
from saltwisted.wire.msgpack import pack, pack_bin, unpack, unpack_bin
from tests.master.reacting import Reacting
from tests.master.rig import Rig, RigMinion

READS = {"match", "events", "status", "auth.test", "returns"}
BY_ITSELF = {"mk_token"}
"""Who asks is known only when it is done; the login writes it down."""


class RecordTests(SynchronousTestCase):
    """One master, with a user of C{file}, and what is logged at every level."""

    def setUp(self) -> None:
        self.users = self.mktemp()
        with open(self.users, "w", encoding="utf-8") as file:
            file.write("fred:s3cret\n")
        rules = {"^filename": self.users, "fred": ["test.*", "@runner", "@wheel"]}
        self.rig = Rig(self, external_auth={"file": rules})
        RigMinion(self.rig, "web1").accepted()
        self.fred = {"eauth": "file", "username": "fred", "password": "s3cret"}
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self._listen)
        self.addCleanup(globalLogPublisher.removeObserver, self._listen)

    def _listen(self, event: LogEvent) -> None:
        if event.get("always"):
            self.lines.append(formatEvent(event))

    def clear(self, cmd: str, **load: Any) -> Any:
        """One request on the request port, from 10.0.0.9."""
        frame = pack({"enc": "clear", "load": {"cmd": cmd, **load}, "version": 3})
        (reply,) = self.rig.ask(frame, "10.0.0.9")
        return unpack(reply)

    def on_record(self, *lines: str) -> None:
        """These lines were written since the last look, and no secret in any."""
        self.assertEqual(self.lines, list(lines))
        self.assertNotIn("s3cret", repr(lines))
        self.lines.clear()

    def test_T_LOG_3_request_port(self) -> None:
        """T-LOG-3: who came by the network is named as the user that he has proven to be."""
        job = {"fun": "test.echo", "tgt": "web*", "arg": ["x"], "user": "root"}
        way = "(by the request port, from 10.0.0.9)"
        self.clear("publish", **job, kwargs=self.fred)
        self.on_record(f"fred (file) does publish fun='test.echo' tgt='web*' {way}")
        made = self.clear("mk_token", **self.fred)
        self.on_record("fred made a token by file (from 10.0.0.9)")
        self.clear("publish", **job, kwargs={"token": made["token"]})
        self.on_record(f"fred (file) does publish fun='test.echo' tgt='web*' {way}")
        self.clear("wheel", fun="key.list_all", **self.fred)
        self.on_record(f"fred (file) does wheel fun='key.list_all' {way}")
        self.clear("runner", fun="test.arg", arg=["secret"], **self.fred)
        self.on_record(f"fred (file) does runner fun='test.arg' {way}")

    def test_T_LOG_3_operations(self) -> None:
        """T-LOG-3: so is whoever comes by another door; an account is one with its number."""
        door = self.rig.door()
        peer = PeerProcess(12345, 12345, 1)
        kwargs = {**self.fred, "x": 1}

        def ask(op: str, who: PeerProcess = peer, **args: Any) -> None:
            d = Deferred.fromCoroutine(door.handle(op, args, who, lambda item: None))
            d.addErrback(lambda failure: None)

        ask("publish", tgt="web1", fun="test.ping", kwargs=kwargs)
        ask("wheel", fun="key.list_all", **self.fred)
        ask("fire_event", PeerProcess(0, 0, 1), tag="a/b", data={"password": "s3cret"})
        ask("status", PeerProcess(0, 0, 1))
        lines = list(self.lines)
        self.assertEqual(
            [line.partition(" (by ")[0] for line in lines],
            [
                "fred (file) does publish fun='test.ping' tgt='web1'",
                "fred (file) does wheel fun='key.list_all'",
                "root does fire_event tag='a/b'",
            ],
        )
        self.assertIn("uid 12345", lines[0])
        self.assertIn("uid 0", lines[2])
        self.assertNotIn("s3cret", repr(lines))

    def test_T_LOG_3_other_doors(self) -> None:
        """T-LOG-3: a door that knows only an address says that, and its own name."""
        caller = Caller(source="10.1.2.3", door="the API", proof=self.fred)
        args = {"fun": "test.ping", "tgt": "*", "kwargs": {}}
        Deferred.fromCoroutine(self.rig.table().call("publish", args, caller, print)).addErrback(
            lambda failure: None
        )

        self.on_record("fred (file) does publish fun='test.ping' tgt='*' (by the API, 10.1.2.3)")

    def test_T_LOG_3_jobs(self) -> None:
        """
        T-LOG-3: the record of a job or a run names who asked, by which way and from where, and the
        node that was asked (pains-next 2.12), whichever the way; what nobody has asked for names
        nobody.
        """
        run = self.rig.ctx.runner
        found: list[Any] = []
        caller = Caller(source="10.1.2.3", door="the HTTP API", proof=self.fred)

        def through_the_api(op: str, **args: Any) -> None:
            asked = Deferred.fromCoroutine(self.rig.table().call(op, args, caller, print))
            asked.addErrback(lambda failure: None)

        job = {"fun": "test.ping", "tgt": "*", "arg": []}
        self.clear("publish", **job, user="root", kwargs=self.fred)
        self.clear("runner", fun="test.arg", arg=[], kwarg={}, **self.fred)
        through_the_api("publish", **job, kwargs={})
        through_the_api("runner", fun="test.arg", arg=[], kwarg={})
        Deferred.fromCoroutine(self.rig.ctx.dispatcher.publish(job, local("fred")))
        self.rig.clock.advance(1)
        for jid in self.rig.jobs.loads:
            shown = Deferred.fromCoroutine(
                run("jobs.list_job", [jid], {}, local("root"), keep=False)
            )
            told = self.successResultOf(shown)["return"]
            found.append((told["User"], told.get("Asked"), told.get("Node")))

        port, api = "the request port, from 10.0.0.9", "the HTTP API, 10.1.2.3"
        node = self.rig.ctx.node
        self.assertEqual(
            found,
            [("fred", port, node)] * 2 + [("fred", api, node)] * 2 + [("fred", None, None)],
        )

    def test_T_LOG_3_reactions(self) -> None:
        """
        T-LOG-3: what is done in reaction to an event names who has fired that, by which way and
        from where: its receipt, the record of its job, and what reacts to what it does; nobody is
        named for what a minion or the master has fired.
        """
        made = Reacting(
            self,
            [{"my/a": "@both.sls"}, {"my/b": "@job.sls"}],
            {
                "job.sls": "j:\n  local.test.ping:\n    - tgt: web1\n",
                "both.sls": "j:\n  local.test.ping:\n    - tgt: web1\n"
                "r:\n  runner.event.send:\n    - args:\n      - tag: my/b\n",
            },
            external_auth={"file": {"^filename": self.users, "fred": ["@runner"]}},
        )
        minion = RigMinion(made.rig, "web1").accepted()
        caller = Caller(source="10.1.2.3", door="the HTTP API", proof=self.fred)
        args = {"fun": "event.send", "arg": ["my/a"], "kwarg": {}}

        asked = Deferred.fromCoroutine(made.rig.table().call("runner", args, caller, print))
        made.turn()
        self.assertTrue(self.successResultOf(asked)["success"])
        made.fire("my/b")
        minion.ask("_minion_event", tag="my/b", data={})
        made.turn()

        fred = "fred (file) (the HTTP API, 10.1.2.3)"
        again = f"Reactor (a reaction to my/a by {fred})"
        receipts = self.successResultOf(as_deferred(made.rig.ctx.seams.claims.receipts("my/*")))
        self.assertEqual(
            [receipt.what for receipt in receipts],
            [
                f"local.test.ping, runner.event.send, for {fred}",
                f"local.test.ping, for {again}",
                "local.test.ping",
                "local.test.ping",
            ],
        )
        asked_for = [job.get("asked", {}).get("by", "") for job in made.rig.jobs.loads.values()]
        self.assertEqual(
            {by for by in asked_for if by.startswith("a reaction")},
            {f"a reaction to my/a by {fred}", f"a reaction to my/b by {again}"},
        )
        self.assertEqual(asked_for.count(""), 2)

    def test_T_LOG_3_taken_over(self) -> None:
        """
        T-LOG-3: a reaction that another node finishes, since the one that claimed it has died,
        names in its job and its run who has fired the event, as the first one would have.
        """
        rules = {"^filename": self.users, "fred": ["@runner"]}
        sls = {
            "job.sls": "j:\n  local.test.ping:\n    - tgt: web1\n"
            "r:\n  runner.test.arg:\n    - args:\n      - x\n"
        }
        first, second = (
            Reacting(
                self,
                [{"my/a": {"sls": "@job.sls", "once": "at_least"}}],
                sls,
                external_auth={"file": rules},
            )
            for _ in range(2)
        )
        for made in (first, second):
            RigMinion(made.rig, "web1").accepted()
        plans: list[Any] = []
        claims = first.rig.ctx.seams.claims
        begin = type(claims).begin

        def noted(self: Any, key: str, plan: Any, *more: Any) -> Any:
            plans.append(pack_bin(plan))
            return begin(self, key, plan, *more)

        self.patch(type(claims), "begin", noted)
        caller = Caller(source="10.1.2.3", door="the HTTP API", proof=self.fred)
        args = {"fun": "event.send", "arg": ["my/a"], "kwarg": {}}
        asked = Deferred.fromCoroutine(first.rig.table().call("runner", args, caller, print))
        first.turn()
        self.assertTrue(self.successResultOf(asked)["success"])

        plan = unpack_bin(plans[0])
        claim = self.successResultOf(second.rig.ctx.seams.claims.begin("reaction/x", plan))
        recovering = second.reactor._recover("reaction/x", plan, claim)
        self.successResultOf(Deferred.fromCoroutine(recovering))
        second.turn()

        by = "a reaction to my/a by fred (file) (the HTTP API, 10.1.2.3)"
        for made in (first, second):
            named = {
                load["fun"]: load.get("asked", {}).get("by")
                for load in made.rig.jobs.loads.values()
                if load["fun"] in ("test.ping", "runner.test.arg")
            }
            self.assertEqual(named, {"test.ping": by, "runner.test.arg": by})

    def test_T_LOG_2_one_line(self) -> None:
        """T-LOG-2: what somebody names is told as one line, of a length that has an end."""
        (row,) = (row for row in self.rig.table() if row.name == "publish")
        told = in_words(
            row, {"tgt": "*\nroot does nothing", "fun": ["x" * 500] * 500, "arg": ["y"]}
        )

        self.assertNotIn("\n", told)
        self.assertLess(len(told), 600)
        self.assertNotIn("y", told)

    def test_refused(self) -> None:
        """What is refused is not done, and not on record as done."""
        bad = {**self.fred, "password": "wrong"}
        job = {"fun": "test.echo", "tgt": "*", "arg": [], "user": "root"}
        frame = pack({"enc": "clear", "load": {"cmd": "publish", **job, "kwargs": bad},
                      "version": 3})  # fmt: skip
        self.rig.ask(frame, "10.0.0.9")
        self.rig.clock.advance(20)
        self.clear("publish", **{**job, "fun": "cmd.run"}, kwargs=self.fred)
        self.on_record()

    def test_every_row(self) -> None:
        """Each operation of a master is on record, or only tells something."""
        rows = {row.name: row.record for row in self.rig.table()}
        self.assertEqual(
            {name for name, record in rows.items() if record is None}, READS | BY_ITSELF
        )
        cluster = {row.name: row for row in ClusterControl(None).operations()}  # type: ignore[arg-type]
        self.assertEqual(
            cluster.keys() - RECORDED.keys(),
            {"members", "token_list", "identity_prepare", "identity_installed", "identity_forget"},
        )
        self.assertEqual(RECORDED.keys() - cluster.keys(), set())
        for name, told in RECORDED.items():
            self.assertEqual(set(told) - {each.name for each in cluster[name].takes}, set(), name)
