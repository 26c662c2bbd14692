"""
What callers and minions may name on a whole master: job ids, and targets by others' pillar.
"""

from __future__ import annotations

import ast
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.errors import DeniedError, RemoteError
from saltwisted.master import runners
from saltwisted.transports.ipc import PeerProcess
from saltwisted.wire.msgpack import pack, unpack
from tests.master.rig import Rig, RigMinion
from tests.wire.recorded import key

JID = "20260701120000250000"
BAD = ("../../../etc/cron.d/x", "req", "nocache", f"{JID}/..", f"{JID}\n", "5", 5, [JID])


async def silent(item: Any) -> None:
    """For calls whose items nobody reads."""


class JidTests(SynchronousTestCase):
    """T-PATH-6: where a caller's jid enters."""

    def setUp(self) -> None:
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\n")
        auth = {"file": {"^filename": users, "fred": ["test.*", "@runner"]}}
        self.rig = Rig(self, external_auth=auth, peer_run={"web1": ["salt.execute"]})
        self.web1 = RigMinion(self.rig, "web1").accepted()
        RigMinion(self.rig, "web2", key("minion2")).accepted()
        self.control = self.rig.door()
        with open(f"{self.rig.ctx.config.cachedir}/.root_key", encoding="ascii") as file:
            self.key = file.read()
        self.fred = {"eauth": "file", "username": "fred", "password": "secret"}

    def ask(self, op: str, **args: Any) -> Deferred[Any]:
        """A call on the control socket, by root."""
        call = Deferred.fromCoroutine(self.control.handle(op, args, PeerProcess(0, 0, 1), silent))
        self.rig.clock.pump([0.1] * 5)
        return call

    def clear(self, **load: Any) -> Any:
        """C{publish} on the request port, by root's key unless the load says more."""
        load = {"cmd": "publish", "tgt": "*", "fun": "test.ping", "arg": [], "user": "root", **load}
        frame = pack({"enc": "clear", "load": load, "version": 3})
        (reply,) = self.rig.ask(frame)
        return unpack(reply)

    def user_of_record(self) -> str:
        """Whose job the record is."""
        return str(self.rig.jobs.loads[JID]["user"])

    def test_T_PATH_6_no_jid_at_any_door(self) -> None:
        """T-PATH-6: what is not a jid is refused at every door, and nothing goes out."""
        job = {"tgt": "*", "fun": "test.ping"}
        for bad in BAD:
            for op, args in (
                ("publish", job),
                ("run", job),
                ("runner", {"fun": "test.arg"}),
            ):
                failure = self.failureResultOf(self.ask(op, jid=bad, **args), RemoteError)
                self.assertEqual(failure.value.name, "SaltInvocationError", (op, bad))
            if isinstance(bad, (str, int)):
                answer = self.clear(jid=bad, key=self.key)
                self.assertEqual(answer["error"]["name"], "SaltInvocationError", bad)
            text = f"{str(bad)[:100]!r} is not a job id"
            run = self.rig.ctx.runner(
                "salt.execute", ["*", "test.ping"], {"jid": bad}, local("root")
            )
            self.assertEqual(self.successResultOf(Deferred.fromCoroutine(run))["return"], text)
            given = ["*", "test.ping", [], None, "glob", "", bad]
            self.assertEqual(self.web1.ask("minion_runner", fun="salt.execute", arg=given), text)
            if isinstance(bad, str) and bad not in ("req", "nocache"):
                self.assertEqual(self.web1.ask("_return", jid=bad, **{"return": 1}), "bad load")
        self.assertEqual(self.rig.publications.sent, [])
        kept = {job["fun"] for job in self.rig.jobs.loads.values()}
        self.assertEqual(kept, {"runner.salt.execute"})

    def test_T_PATH_6_anothers_job(self) -> None:
        """T-PATH-6: no door lets a user, a runner or a minion put itself in another's job."""
        self.successResultOf(self.ask("publish", tgt="web1", fun="test.ping", jid=JID))
        sent = len(self.rig.publications.sent)
        job = {"tgt": "*", "fun": "test.ping", "jid": JID}

        for op, args in (
            ("publish", {**job, "kwargs": self.fred}),
            ("run", {**job, "kwargs": self.fred}),
            ("publish", {**job, "fun": "test.echo", "arg": ["x"]}),
            ("runner", {"fun": "test.arg", "jid": JID}),
            ("runner", {"fun": "test.arg", "jid": JID, **self.fred}),
        ):
            failure = self.failureResultOf(self.ask(op, **args), RemoteError)
            self.assertEqual(failure.value.name, "AuthorizationError", op)
        answer = self.clear(jid=JID, kwargs=self.fred)
        self.assertEqual(answer["error"]["name"], "AuthorizationError")
        given = ["*", "test.ping", [], None, "glob", "", JID]
        self.assertIn(
            "is not the job", self.web1.ask("minion_runner", fun="salt.execute", arg=given)
        )

        self.assertEqual(len(self.rig.publications.sent), sent)
        self.assertEqual(self.user_of_record(), "root")
        self.assertEqual(self.rig.jobs.loads[JID]["minions"], ["web1"])
        self.assertEqual(self.rig.ctx.counters["denied:jid"], 7)

    def test_T_PATH_6_after_a_restart(self) -> None:
        """T-PATH-6: a job of the time before the master's start is another's as well."""
        self.rig.jobs.loads[JID] = {"user": "ann", "fun": "test.ping", "arg": [], "jid": JID}
        self.failureResultOf(self.ask("publish", tgt="*", fun="test.ping", jid=JID), RemoteError)
        self.assertEqual(self.user_of_record(), "ann")

    def test_batch(self) -> None:
        """A batch publishes its parts under one jid; the record has the minions of all."""
        for name in ("web1", "web2"):
            self.successResultOf(
                self.ask("publish", tgt=[name], tgt_type="list", fun="test.ping", jid=JID)
            )
        self.assertEqual(self.rig.jobs.loads[JID]["minions"], ["web1", "web2"])
        self.assertEqual(len(self.rig.publications.sent), 2)

    def test_claim_reserves_nothing(self) -> None:
        """A minion that returns to a jid which nobody has published keeps nobody from using it."""
        self.rig.jobs.loads[JID] = {"user": "x", "fun": "y", "jid": JID, "claimed": True}
        self.successResultOf(self.ask("publish", tgt="*", fun="test.ping", jid=JID))
        self.assertEqual(self.user_of_record(), "root")

    def test_runner_jid_once(self) -> None:
        """A runner's jid is used once, also by the same user and when nothing is kept."""
        self.successResultOf(self.ask("runner", fun="test.arg", jid=JID, keep=False))
        self.failureResultOf(self.ask("runner", fun="test.arg", jid=JID, keep=False), RemoteError)

    def test_own_jids_need_no_look(self) -> None:
        """A job without a chosen jid costs no read of the job cache."""
        self.rig.jobs.job = None  # type: ignore[assignment,method-assign]
        self.successResultOf(self.ask("publish", tgt="*", fun="test.ping"))
        self.assertNoResult(self.ask("run", tgt="*", fun="test.ping"))
        self.assertEqual(len(self.rig.publications.sent), 2)


class PillarTargetTests(SynchronousTestCase):
    """T-PIL-3: no target that a minion names tells it other minions' pillar."""

    GUESSES = (
        ("secret:a*", "pillar"),
        ("secret:a.*", "pillar_pcre"),
        ("I@secret:a*", "compound"),
        ("J@secret:a.*", "compound"),
        ("not J@secret:a", "compound"),
        ("not I@secret:a*", "compound"),
        ("not J@secret:a.*", "compound"),
        ("web1 or I@secret:a*", "compound"),
        ("web* and not ( I@secret:[ab]* or db* )", "compound"),
        ("I;@secret;a?c", "compound"),
        ("guess", "nodegroup"),
        ("not N@guess", "compound"),
        ("N@nested", "compound"),
    )

    def setUp(self) -> None:
        self.rig = Rig(
            self,
            peer={"web1": ["test.*"]},
            peer_run={"web1": [".*"]},
            nodegroups={"guess": "I@secret:a*", "nested": "not N@guess", "exact": "I@secret:abc"},
        )
        self.web1 = RigMinion(self.rig, "web1").accepted()
        self.db1 = RigMinion(self.rig, "db1", key("minion2")).accepted()
        cache = self.rig.ctx.cache
        for minion in ("web1", "db1"):
            cache.put("grains", minion, {"id": minion})
            cache.put("mine", minion, {"x": minion})

    def answers(self, secret: str, tgt: Any, kind: str) -> list[Any]:
        """What web1 gets to see of a target by each way, when this is db1's secret."""
        self.rig.ctx.cache.put("pillar", "db1", {"secret": secret})
        self.rig.ctx.cache.put("pillar", "web1", {"secret": "z"})
        before = len(self.rig.publications.sent)
        seen = [self.web1.ask("_mine_get", tgt=tgt, tgt_type=kind, fun="x")]
        pub = {"fun": "test.ping", "arg": [], "tgt": tgt, "tgt_type": kind}
        seen.append(self.web1.ask("minion_pub", **pub).get("minions"))
        seen.append(self.web1.ask("minion_publish", **pub))
        for fun, arg in (
            ("mine.get", [tgt, "x", kind]),
            ("cache.grains", [tgt, kind]),
            ("cache.mine", [tgt, kind]),
            ("salt.execute", [tgt, "test.ping", [], 1, kind]),
            ("manage.up", [tgt, kind, 1, 1]),
            ("manage.down", [False, tgt, kind, 1, 1]),
        ):
            seen.append(self.web1.ask("minion_runner", fun=fun, arg=arg))
        self.rig.clock.pump([1] * 40)
        for job in self.rig.published_jobs()[before:]:
            # What minions judge by themselves is as good as an answer
            self.assertEqual(job["tgt_type"], "list", tgt)
            seen.append((job["fun"], job["tgt"]))
        return [value if not isinstance(value, str) else "refused" for value in seen]

    def test_T_PIL_3_no_guess_is_answered(self) -> None:
        """T-PIL-3: a right and a wrong guess look the same, by every way and in every form."""
        for tgt, kind in self.GUESSES:
            right, wrong = (self.answers(secret, tgt, kind) for secret in ("abc", "xyz"))
            self.assertEqual(right, wrong, (tgt, kind))
        self.assertEqual(self.rig.published_jobs(), [])

    def test_T_PIL_3_nothing_excluded_runs(self) -> None:
        """T-PIL-3: read exactly, a negated wildcard means all; such a job is refused."""
        self.answers("abc", "not I@secret:a*", "compound")
        self.assertEqual(self.rig.published_jobs(), [])
        self.assertEqual(self.rig.ctx.counters["denied:pillar-guess"], 5)

    def test_exact_values(self) -> None:
        """Whole values are matched, and the job names the minions that they mean."""
        for tgt, kind in (
            ("secret:abc", "pillar"),
            ("I@secret:abc", "compound"),
            ("exact", "nodegroup"),
            ("db* and N@exact", "compound"),
        ):
            self.rig.ctx.cache.put("pillar", "db1", {"secret": "abc"})
            mine = self.web1.ask("_mine_get", tgt=tgt, tgt_type=kind, fun="x")
            self.assertEqual(mine, {"db1": "db1"}, tgt)
            self.web1.ask("minion_pub", fun="test.ping", arg=[], tgt=tgt, tgt_type=kind)
            job = self.rig.published_jobs()[-1]
            self.assertEqual((job["tgt"], job["tgt_type"]), (["db1"], "list"))
        self.web1.ask("minion_pub", fun="test.ping", arg=[], tgt="db* or web*", tgt_type="compound")
        self.assertEqual(self.rig.published_jobs()[-1]["tgt"], "db* or web*")

    def test_operators_use_wildcards(self) -> None:
        """The operator's own targets have wildcards as ever."""
        self.rig.ctx.cache.put("pillar", "db1", {"secret": "abc"})
        for fun, arg in (("mine.get", ["secret:a*", "x", "pillar"]),):
            call = self.rig.ctx.runner(fun, arg, {}, local("root"))
            found = self.successResultOf(Deferred.fromCoroutine(call))
            self.assertEqual(found["return"], {"db1": "db1"})
        load = {"tgt": "not I@secret:a*", "tgt_type": "compound", "fun": "test.ping"}
        self.successResultOf(
            Deferred.fromCoroutine(self.rig.ctx.dispatcher.publish(load, local("root")))
        )
        self.assertEqual(self.rig.published_jobs()[-1]["tgt"], "not I@secret:a*")

    def test_publish_refuses(self) -> None:
        """The dispatcher itself refuses, whoever forgets to."""
        load = {"tgt": "I@secret:a*", "tgt_type": "compound", "fun": "test.ping"}
        call = self.rig.ctx.dispatcher.publish(load, local("web1"), exact=True)
        self.failureResultOf(Deferred.fromCoroutine(call), DeniedError)

    def test_odd_types(self) -> None:
        """A target type that is not text means nobody, or is named, and costs no traceback."""
        for kind in (["pillar"], {"x": 1}, 5):
            answer = self.web1.ask("minion_runner", fun="cache.grains", arg=["*b1", kind])
            self.assertEqual(answer, {}, kind)
            answer = self.web1.ask("minion_runner", fun="mine.get", arg=["*", "x", kind])
            self.assertIn("There is no kind of target", answer)

    def test_T_PIL_3_runners_ask_by_their_run(self) -> None:
        """T-PIL-3: no runner looks targets up or publishes past L{Run}, which knows who called."""
        folder = os.path.dirname(str(runners.__file__))
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".py"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and node.attr in ("find", "run", "publish"):
                    text = ast.unparse(node)
                    self.assertNotIn("ctx.find", text, name)
                    self.assertNotIn("dispatcher", text, name)


class AccountTests(SynchronousTestCase):
    """Local accounts whose names look like root by sudo."""

    def test_T_ACL_sudo_accounts(self) -> None:
        """An account called sudo_ann is neither an owner nor ann, at both doors."""
        options = {"publisher_acl": {"sudo_ann": ["test.ping"], "ann": [".*"]}}
        for sudo_acl in (False, True):
            rig = Rig(self, **options, sudo_acl=sudo_acl)
            RigMinion(rig, "web1").accepted()
            users = rig.ctx.users
            users._keys["sudo_ann"] = "k" * 64
            self.assertEqual(users.user_of("k" * 64, ""), ("sudo_ann", False))

            for fun, good in (("test.ping", True), ("cmd.run", False)):
                load = {"cmd": "publish", "tgt": "*", "fun": fun, "arg": [], "user": "sudo_root"}
                frame = pack({"enc": "clear", "load": {**load, "key": "k" * 64}, "version": 3})
                (reply,) = rig.ask(frame)
                self.assertEqual("load" in unpack(reply), good, fun)
            for cmd in ("runner", "wheel"):
                load = {"cmd": cmd, "fun": "test.arg", "user": "sudo_root", "key": "k" * 64}
                (reply,) = rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
                self.assertEqual(unpack(reply)["error"]["name"], "UserAuthenticationError")
            self.assertEqual([job["fun"] for job in rig.published_jobs()], ["test.ping"])
