"""
Orchestrations in the master: what their processes may ask, and what becomes of them.
"""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import MagicMock

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.orchestration.sealing import Seals
from saltwisted.domain.orchestration.words import read_run
from saltwisted.domain.who import local
from saltwisted.errors import RemoteError, TakenOver
from saltwisted.master.control import without_steps
from saltwisted.master.orchestration import running
from saltwisted.master.orchestration.kept import KeptOrchestrations
from saltwisted.master.orchestration.operations import OrchestrationOperations
from saltwisted.master.seams import LoneOrchestrations, Seams
from saltwisted.wire.msgpack import pack_bin
from saltwisted.worker.states import pauses
from tests.master.rig import FakeChild, Rig, RigMinion
from tests.wire.recorded import key

FINE = {"state_|-it_|-it_|-nop": {"result": True, "changes": {}, "__id__": "it"}}
BAD = {"state_|-it_|-it_|-nop": {"result": False, "changes": {}, "__id__": "it"}}


class Kept(LoneOrchestrations):
    """What was written down of runs; C{results} are those of steps that have ended before."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[int, Any] = {}
        self.refuses = ""

    def _note(self, *call: Any) -> Deferred[Any]:
        self.calls.append(call)
        if self.refuses == call[0]:
            raise RemoteError("ClusterError", "another node goes on with it")
        return succeed(None)

    def run_begin(self, jid: str, run: Any) -> Deferred[None]:
        """Note it."""
        return self._note("run_begin", jid, run)

    def step_begin(self, jid: str, number: int, low: Any, proposed: str) -> Deferred[Any]:
        """Note it."""
        known = self.results.get(number)
        answer = {"jid": proposed, "result": known}
        return self._note("step_begin", jid, number).addCallback(lambda _: answer)

    def step_end(self, jid: str, number: int, result: Any) -> Deferred[None]:
        """Note it."""
        return self._note("step_end", jid, number, result)

    def run_end(self, jid: str, outcome: Any) -> Deferred[None]:
        """Note it."""
        return self._note("run_end", jid, outcome)


class OrchRig(Rig):
    """A master that keeps what it writes down of orchestrations."""

    def beside(self, alone: Seams) -> Seams:
        """With a file of steps that a test can read."""
        from attrs import evolve

        self.kept = Kept()
        return evolve(alone, orchestrations=self.kept)


class OrchestrationTests(SynchronousTestCase):
    """Runs with processes that do what the test says."""

    def setUp(self) -> None:
        self.rig = OrchRig(self)
        self.told: list[Any] = []

    def begin(self, fun: str = "state.orchestrate", *arg: Any, **how: Any) -> Deferred[Any]:
        """Call a runner as root."""

        async def stream(item: Any) -> None:
            self.told.append(item)

        kwarg = how.pop("kwarg", {})
        call = self.rig.ctx.runner(
            fun, list(arg or ("deploy",)), kwarg, local("root"), stream, **how
        )
        return Deferred.fromCoroutine(call)

    @property
    def child(self) -> FakeChild:
        """The process that was begun last."""
        return self.rig.children.all[-1]

    def finish(self, value: Any) -> None:
        """The process answers, and ends."""
        self.successResultOf(self.child.ask("answer", value=value))
        self.child.end()

    def test_answer(self) -> None:
        """A run's answer has the results under the master's id, an outputter and a return code."""
        d = self.begin(kwarg={"pillar": {"a": 1}, "test": True})

        self.assertNoResult(d)
        self.assertEqual(self.child.payload["kwarg"]["pillar"], {"a": 1})
        self.assertEqual(self.child.payload["arg"], ["deploy"])
        self.finish(FINE)

        answer = self.successResultOf(d)
        expected = {"data": {"rig_master": FINE}, "outputter": "highstate", "retcode": 0}
        self.assertEqual(answer["return"], expected)
        self.assertEqual((answer["success"], answer["retcode"]), (True, 0))
        self.assertIn(f"salt/run/{answer['jid']}/ret", self.rig.tags())

    def test_failures(self) -> None:
        """A failed state, errors of the compiler, a process that dies: none ends with 0."""
        for ends in (
            lambda: self.finish(BAD),
            lambda: self.finish(["Rendering SLS failed"]),
            lambda: self.finish({}),
            lambda: self.child.end("was ended by SIGSEGV"),
            lambda: self.child.ask("answer", error="it does not take that") and self.child.end(),
        ):
            d = self.begin()
            ends()
            answer = self.successResultOf(d)
            self.assertEqual((answer["success"], answer["retcode"]), (False, 1), answer)

        self.assertIn("it does not take that", answer["return"])
        self.assertEqual(self.rig.orchestrating.active, {})

    def test_failures_of_single(self) -> None:
        """No failure ends with 0: not of one state, of high data, of what cannot be shown."""
        for fun, arg, value in (
            ("state.orchestrate_single", ("salt.function", "test.false"), BAD),
            ("state.orchestrate_high", ({"it": {"salt.function": []}},), BAD),
            ("state.orch_show_sls", ("nowhere",), ["no such SLS"]),
        ):
            d = self.begin(fun, *arg)
            self.finish(value)
            self.assertEqual(self.successResultOf(d)["retcode"], 1, fun)

    def test_pillar(self) -> None:
        """A pillar that is no map is refused before anything is begun."""
        answer = self.successResultOf(self.begin(kwarg={"pillar": [1]}))

        self.assertEqual(answer["return"], "Pillar data must be formatted as a dictionary")
        self.assertEqual(answer["retcode"], 1)
        self.assertEqual(self.rig.children.all, [])

    def test_steps(self) -> None:
        """What is written down: the compiled calls with who began them, each step, the end."""
        d = self.begin(kwarg={"pillar": {"a": 1}})
        jid = self.child.payload["jid"]
        low = {"state": "salt", "fun": "function", "name": "test.ping"}

        self.successResultOf(self.child.ask("run_begin", chunks=[low], pillar="digest"))
        granted = self.successResultOf(self.child.ask("step_begin", number=0, low=low))
        self.successResultOf(self.child.ask("step_end", number=0, result={"result": True}))
        self.finish(FINE)

        self.successResultOf(d)
        begun, step, ended, over = self.rig.kept.calls
        self.assertEqual(begun[:2], ("run_begin", jid))
        self.assertEqual((begun[2]["chunks"], begun[2]["user"]), ([low], "root"))
        self.assertEqual(begun[2]["pillar"], "digest")
        self.assertEqual(begun[2]["fun"], "state.orchestrate")
        self.assertEqual(step, ("step_begin", jid, 0))
        self.assertEqual(len(granted["jid"]), 20)
        self.assertEqual(ended, ("step_end", jid, 0, {"result": True}))
        self.assertEqual(over, ("run_end", jid, {"success": True}))

    def test_refused_step(self) -> None:
        """A step that cannot be written down ends the run at once: nothing further is done."""
        d = self.begin()
        self.successResultOf(self.child.ask("run_begin", chunks=[], pillar=""))
        self.rig.kept.refuses = "step_begin"

        self.failureResultOf(self.child.ask("step_begin", number=0, low={}), RemoteError)

        answer = self.successResultOf(d)
        self.assertEqual(answer["return"], "another node goes on with it")
        self.assertEqual(answer["retcode"], 1)
        self.assertEqual(self.rig.kept.calls[-1][2]["why"], "another node goes on with it")

    def test_resumed(self) -> None:
        """
        A run goes on under its own jid with its compiled calls and the results that it has, and
        with the rights that it had (T-PIL-3: a minion's targets stay exact).
        """
        d = self.begin(kwarg={"pillar": {"a": 1}}, exact=True)
        first = self.child
        self.successResultOf(first.ask("run_begin", chunks=[{"state": "salt"}], pillar=""))
        first.end("was ended by SIGKILL")
        self.successResultOf(d)
        _, jid, run = self.rig.kept.calls[0]

        done, wishes = {"0": {"result": True}}, {"two": {"kill": True}}
        d = Deferred.fromCoroutine(self.rig.orchestrating.resume(jid, run, done, wishes))

        self.assertEqual(pauses.read(self.rig.ctx.config.cachedir, jid)[0], wishes)

        self.assertTrue(self.rig.orchestrating.active[jid].run.exact)
        self.assertEqual(self.child.payload["do"], "resume")
        self.assertEqual(self.child.payload["jid"], jid)
        self.assertEqual(self.child.payload["chunks"], [{"state": "salt"}])
        self.assertEqual(self.child.payload["done"], {"0": {"result": True}})
        self.assertEqual(self.child.payload["kwarg"]["pillar"], {"a": 1})
        self.finish(FINE)
        answer = self.successResultOf(d)
        self.assertEqual((answer["jid"], answer["retcode"]), (jid, 0))
        self.assertEqual(answer["return"]["data"], {"rig_master": FINE})

    def test_T_PIL_3_resumed_with_rules(self) -> None:
        """
        T-PIL-3: what a login itself says is judged by its rules also after a takeover, in the steps
        of the run and in the runners that they call; what an SLS says never is.
        """
        rules = ["@runner", {"web1": ["test.*"]}]
        for fun, arg, expected in (
            ("state.orchestrate_single", ("salt.runner", "test.arg"), rules),
            ("state.orchestrate", ("deploy",), None),
        ):
            self.rig.kept.calls.clear()
            d = self.begin(fun, *arg, rules=rules)
            self.successResultOf(self.child.ask("run_begin", chunks=[{"state": "x"}], pillar=""))
            self.child.end("was ended by SIGKILL")
            self.successResultOf(d)
            _, jid, run = self.rig.kept.calls[0]

            d = Deferred.fromCoroutine(self.rig.orchestrating.resume(jid, run, {}, {}))

            self.assertEqual(self.rig.orchestrating.active[jid].run.rules, expected)
            asked = self.ask(
                "runner",
                orchestration=jid,
                fun="cache.grains",
                kwarg={"tgt": "secret:a*", "tgt_type": "pillar"},
            )
            self.successResultOf(asked)
            ends = [d for _, d in self.rig.events if d.get("fun") == "runner.cache.grains"]
            self.assertEqual(ends[-1]["success"], expected is None, fun)
            self.finish(FINE)
            self.successResultOf(d)

    def test_minion_comes_after_the_takeover(self) -> None:
        """
        A minion that finds this master only after a run has gone on here gets the job of the next
        step, and is waited for meanwhile. Later on, who is silent is given up as ever.
        """
        minion = RigMinion(self.rig, "web1").accepted()
        d = self.begin()
        self.successResultOf(self.child.ask("run_begin", chunks=[{"state": "salt"}], pillar=""))
        self.child.end("was ended by SIGKILL")
        self.successResultOf(d)
        _, jid, run = self.rig.kept.calls[0]
        d = Deferred.fromCoroutine(self.rig.orchestrating.resume(jid, run, {}, {}))
        self.rig.ctx.sessions.forget("web1")
        job = {"tgt": "web1", "fun": "test.ping", "jid": "20260101000000000007"}
        asked = self.ask("run", orchestration=jid, **job)
        self.rig.clock.pump([1.0] * 10)

        self.rig.subscribed.add("web1")
        self.rig.connected.add("192.0.2.1")
        self.rig.clock.pump([1.0] * 30)
        self.assertNoResult(asked)

        out = [one["tgt"] for one in self.rig.published_jobs() if one["jid"] == job["jid"]]
        self.assertEqual(out, ["web1", ["web1"]])
        minion.ask("_return", jid=job["jid"], fun="test.ping", retcode=0, **{"return": True})
        kinds = [item["kind"] for item in self.successResultOf(asked)]
        self.assertEqual(kinds, ["published", "return"])
        self.rig.clock.pump([1.0] * 30)
        late = self.ask("run", orchestration=jid, **{**job, "jid": "20260101000000000008"})
        self.rig.clock.pump([1.0] * 25)
        self.assertEqual([item["kind"] for item in self.successResultOf(late)][-1], "missing")
        self.finish(FINE)
        self.successResultOf(d)

    def test_cancelled(self) -> None:
        """Who does not wait any more ends the run."""
        d = self.begin()

        d.cancel()

        self.failureResultOf(d)
        self.assertTrue(self.child.exited.called)
        self.assertEqual(self.rig.orchestrating.active, {})

    def test_gone_before_it_has_a_process(self) -> None:
        """
        Who goes away, or stops the run, while he is told its jid leaves nothing behind: no process
        begins, and the place of the run is free.
        """
        for way in ("goes", "stops"):
            stands: Deferred[None] = Deferred()

            async def stream(item: Any, stands: Deferred[None] = stands) -> None:
                await stands

            call = self.rig.ctx.runner("state.orchestrate", ["deploy"], {}, local("root"), stream)
            d = Deferred.fromCoroutine(call)
            (jid,) = self.rig.orchestrating.active
            if way == "goes":
                d.cancel()
                self.failureResultOf(d)
            else:
                self.assertTrue(self.rig.orchestrating.stop(jid, "carol stopped it"))
                stands.callback(None)
                self.assertEqual(self.successResultOf(d)["return"], "carol stopped it")

            self.assertEqual(self.rig.orchestrating.active, {})
            self.assertEqual(self.rig.children.all, [])

    def test_stopped_master(self) -> None:
        """A master that is stopped ends its runs, which say so."""
        d = self.begin()

        self.rig.orchestrating.stopService()

        answer = self.successResultOf(d)
        self.assertEqual((answer["return"], answer["retcode"]), ("this master is being stopped", 1))

    def test_left(self) -> None:
        """A run of a master that is stopped has no end: another one may go on with it."""
        d = self.begin()
        self.successResultOf(self.child.ask("run_begin", chunks=[], pillar=""))

        self.rig.orchestrating.stopService()

        self.successResultOf(d)
        self.assertEqual([call[0] for call in self.rig.kept.calls], ["run_begin"])

    def test_jid_is_told(self) -> None:
        """Whoever waits is told the jid before the run begins."""
        d = self.begin()

        self.assertEqual(self.told, [{"orchestration": self.child.payload["jid"]}])
        self.finish(FINE)
        self.successResultOf(d)

    def test_room(self) -> None:
        """So many runs at once and no more: the next one begins when one has ended."""
        self.patch(running, "AT_ONCE", 2)
        rig = self.rig = OrchRig(self)
        for _ in range(3):
            self.begin()

        self.assertEqual(len(rig.children.all), 2)
        rig.children.all[0].end()
        self.assertEqual(len(rig.children.all), 3)

    def ask(self, op: str, **args: Any) -> Deferred[Any]:
        """Ask by the control socket, as the processes do: as the master's own user."""
        from saltwisted.domain.operations.table import Caller

        table = self.rig.table()
        table.add(OrchestrationOperations(self.rig.orchestrating).operations())
        items: list[Any] = []
        caller = Caller(name="salt", owner=True, source="uid 0", door="the control socket")

        async def call() -> Any:
            await table.call(f"orchestration.{op}", args, caller, collect)
            return items

        async def collect(item: Any) -> None:
            items.append(item)

        return Deferred.fromCoroutine(call())

    def test_in_whose_name(self) -> None:
        """Jobs of a run have the name of who began it, and the jid that the step was given."""
        minion = RigMinion(self.rig, "web1")
        minion.accepted()
        call = self.rig.ctx.runner("state.orch", ["deploy"], {}, local("carol"))
        d = Deferred.fromCoroutine(call)
        jid = self.child.payload["jid"]
        granted = self.successResultOf(self.child.ask("step_begin", number=0, low={}))

        waiting = self.ask(
            "run", orchestration=jid, tgt="web1", fun="test.ping", jid=granted["jid"]
        )

        job = self.rig.published_jobs()[-1]
        self.assertEqual((job["user"], job["jid"]), ("carol", granted["jid"]))
        self.assertNoResult(waiting)
        waiting.addErrback(lambda failure: None)
        waiting.cancel()
        self.finish(FINE)
        self.successResultOf(d)

    def test_attached(self) -> None:
        """
        A job that has been published before under the jid of a step is not published again: what
        was returned counts, what is still to come is waited for.
        """
        minions = {name: RigMinion(self.rig, name).accepted() for name in ("web1", "web2")}
        d = self.begin()
        jid = self.child.payload["jid"]
        low = {"tgt": "web*", "fun": "test.ping", "jid": "20260101000000000007"}
        first = self.ask("run", orchestration=jid, **low)
        count = len(self.rig.published_jobs())
        told = {"jid": low["jid"], "fun": "test.ping", "return": True, "retcode": 0}
        minions["web1"].ask("_return", **told)
        first.addErrback(lambda failure: None)
        first.cancel()

        second = self.ask("run", orchestration=jid, **low)

        self.assertEqual(len(self.rig.published_jobs()), count)
        self.assertNoResult(second)
        minions["web2"].ask("_return", **told)
        items = self.successResultOf(second)
        self.assertEqual(items[0]["minions"], ["web1", "web2"])
        self.assertEqual([item["id"] for item in items[1:]], ["web1", "web2"])
        self.assertEqual([item["data"]["return"] for item in items[1:]], [True, True])
        self.finish(FINE)
        self.successResultOf(d)

    def unheard(self, **low: Any) -> tuple[Deferred[Any], Deferred[Any]]:
        """
        A run with a step whose job was published before, for a minion that says nothing any more:
        the run, and the question of its step.
        """
        RigMinion(self.rig, "web1").accepted()
        run = self.begin()
        child, job = self.child, {"tgt": "web1", "fun": "test.ping"}
        jid = child.payload["jid"]
        self.successResultOf(child.ask("run_begin", chunks=[low], pillar="p"))
        granted = self.successResultOf(child.ask("step_begin", number=0, low=low))
        first = self.ask("run", orchestration=jid, jid=granted["jid"], **job)
        first.addErrback(lambda failure: None)
        first.cancel()
        asked = self.ask("run", orchestration=jid, jid=granted["jid"], **job)
        self.rig.clock.pump([1.0] * 120)
        return run, asked

    def test_T_LOG_1_secret_job(self) -> None:
        """
        T-LOG-1: of the job of a step with C{no_log}, minions get all that it needs; the record, the
        events and what is kept of returns have stars, whether or not another part follows.
        """
        canary = "canary-3d"
        minion = RigMinion(self.rig, "web1").accepted()
        d = self.begin()
        jid = self.child.payload["jid"]
        job = {"tgt": "web1", "fun": "cmd.run", "arg": [canary], "jid": "20260101000000000007"}
        asked = self.ask("run", orchestration=jid, no_log=True, **job)
        out = self.rig.published_jobs()[-1]
        self.assertEqual((out["arg"], out["metadata"]), ([canary], {"no_log": True}))
        minion.ask(
            "_return",
            jid=job["jid"],
            fun="cmd.run",
            fun_args=[canary],
            retcode=0,
            metadata=out["metadata"],
            **{"return": f"said {canary}"},
        )
        (told,) = (item for item in self.successResultOf(asked) if item["kind"] == "return")
        self.assertEqual(told["data"]["return"], "**********")
        # Who goes on with it brings it as it is
        self.successResultOf(self.ask("run", orchestration=jid, no_log=True, **job))

        record = self.successResultOf(self.rig.ctx.jobs.job(job["jid"]))
        returns = self.successResultOf(self.rig.ctx.jobs.returns(job["jid"]))
        self.assertEqual((record["arg"], list(returns)), (["**********"], ["web1"]))
        for found in (record, returns, self.rig.events):
            self.assertNotIn(canary, repr(found))
        self.finish(FINE)
        self.successResultOf(d)

    def test_T_LOG_1_secret_runner(self) -> None:
        """T-LOG-1: so it is with runners and functions of the wheel, and with events they send."""
        canary = "canary-3e"
        d = self.begin()
        jid = self.child.payload["jid"]
        for op, fun in (("runner", "test.arg"), ("wheel", "no.such")):
            self.successResultOf(
                self.ask(op, orchestration=jid, no_log=True, fun=fun, arg=[canary], kwarg={})
            )
        sent = {
            "fun": "event.send",
            "arg": ["site/own", {"pw": canary, "n": 7, "no": 0}],
            "kwarg": {},
        }
        self.successResultOf(self.ask("runner", orchestration=jid, no_log=True, **sent))
        (told,) = (data for tag, data in self.rig.events if tag == "site/own")
        self.assertEqual((told["pw"], told["n"], told["no"]), ("**********", "**********", 0))
        self.assertNotIn(canary, repr(self.rig.events))
        self.successResultOf(
            self.ask("runner", orchestration=jid, fun="test.arg", arg=["seen"], kwarg={})
        )
        self.assertIn("seen", repr(self.rig.events))
        self.finish(FINE)
        self.successResultOf(d)

    def test_T_LOG_1_run_of_a_secret_step(self) -> None:
        """
        T-LOG-1: a run that a secret step begins is secret as a whole: its record, its jobs, its
        runners, and what it does when another node goes on with it.
        """
        canary = "canary-5d"
        RigMinion(self.rig, "web1").accepted()
        d = self.begin()
        outer, jid = self.child, self.child.payload["jid"]
        asked = self.ask(
            "runner",
            orchestration=jid,
            no_log=True,
            fun="state.orch",
            arg=["inner"],
            kwarg={"pillar": {"pw": canary}},
        )
        inner, child = self.child.payload["jid"], self.child
        self.assertTrue(child.payload["secret"])
        self.assertFalse(outer.payload["secret"])
        self.successResultOf(child.ask("run_begin", chunks=[], pillar=""))
        job = {"tgt": "web1", "fun": "test.arg", "arg": [canary], "jid": "20260101000000000009"}
        running = self.ask("run", orchestration=inner, **job)
        self.successResultOf(self.ask("runner", orchestration=inner, fun="test.arg", arg=[canary]))
        self.successResultOf(self.ask("wheel", orchestration=inner, fun="no.such", arg=[canary]))

        (published,) = self.rig.published_jobs()
        self.assertEqual(published["metadata"], {"no_log": True})
        self.assertNotIn(canary, repr(self.rig.events))
        (run,) = (call[2] for call in self.rig.kept.calls if call[0] == "run_begin")
        self.assertTrue(run["secret"])
        child.end("was ended by SIGKILL")
        outer.end("was ended by SIGKILL")
        running.cancel()
        self.failureResultOf(running, CancelledError)
        self.successResultOf(asked)
        self.successResultOf(d)
        d = Deferred.fromCoroutine(self.rig.orchestrating.resume(inner, run, {}, {}))
        self.assertTrue(self.child.payload["secret"])
        self.finish(FINE)
        self.successResultOf(d)
        self.assertNotIn(canary, repr(self.rig.events))

    def test_T_LOG_1_record_of_a_secret_run(self) -> None:
        """T-LOG-1: the options of a secret run are sealed in its record, and opened to go on."""
        lines: list[Any] = []
        seals = Seals(lambda: key("master"), os.urandom)

        class Records:
            """Takes the first line."""

            async def begin(self, jid: str, term: int, line: Any, holds: Any) -> Any:
                lines.append(pack_bin(line))
                return MagicMock(lines=lines)

        kept = KeptOrchestrations(
            self.rig.clock,
            "a",
            MagicMock(),
            Records(),  # type: ignore[arg-type]
            lambda: 1.0,
            MagicMock(),
            lambda: "on",
            lambda: 30.0,
            seals=seals,
        )
        kept._successor.may_begin = lambda jid: succeed(None)  # type: ignore[method-assign]
        options = {"arg": ["x"], "kwarg": {"pillar": {"pw": "canary"}, "__pub_jid": "7"}}
        run = {"chunks": [{"no_log": True, "name": "canary"}], "options": options, "secret": True}
        self.successResultOf(Deferred.fromCoroutine(kept.run_begin("1", run)))

        self.assertNotIn("canary", repr(lines))
        found = read_run("1", lines)
        self.assertEqual(found.name, "7")
        going = MagicMock()
        kept.serve(going)
        _ = kept._resume(found, {})
        about = going.resume.call_args[0][1]
        self.assertEqual({name: about["options"][name] for name in options}, options)
        self.assertEqual(about["chunks"], run["chunks"])

    def test_unheard(self) -> None:
        """
        Nothing is heard of a minion that had the job of a step when its node died: the run is
        ended, and says which minion and which job. Nobody calls that a failure of the step.
        """
        run, asked = self.unheard(fun="function", state="salt")

        self.failureResultOf(asked, TakenOver)
        # What its process makes of that, until it is dead, does not count
        self.failureResultOf(self.child.ask("step_end", number=0, result={"result": False}))
        (jid,) = {each["jid"] for each in self.rig.published_jobs() if each["fun"] == "test.ping"}
        self.assertTrue(self.child.exited.called)
        answer = self.successResultOf(run)
        self.assertEqual(answer["success"], False)
        name, _, outcome = self.rig.kept.calls[-1]
        self.assertEqual(name, "run_end")
        why = f"it is not known what became of job {jid} (web1: does not answer)"
        self.assertEqual(outcome, {"success": False, "why": why})

    def test_unheard_and_no_matter(self) -> None:
        """A step that expects nobody ends as it would have."""
        run, asked = self.unheard(fun="function", state="salt", expect_minions=False)

        self.assertEqual([each["kind"] for each in self.successResultOf(asked)][-1], "missing")
        self.finish(FINE)
        self.successResultOf(run)

    def test_unheard_and_told_again(self) -> None:
        """A step that may be done twice is done again by those of which nothing is heard."""
        run, asked = self.unheard(fun="function", state="salt", retry_on_takeover=True)

        jobs = [each for each in self.rig.published_jobs() if each["fun"] == "test.ping"]
        self.assertEqual(len(jobs), 2)
        self.assertNotEqual(jobs[0]["jid"], jobs[1]["jid"])
        self.assertEqual(jobs[1]["tgt"], ["web1"])
        kinds = [each["kind"] for each in self.successResultOf(asked)]
        self.assertEqual(kinds.count("published"), 2)
        self.finish(FINE)
        self.successResultOf(run)

    def test_attached_part(self) -> None:
        """Of a batch, only those get the job of a step that have not got it before."""
        minions = {name: RigMinion(self.rig, name).accepted() for name in ("web1", "web2")}
        d = self.begin()
        jid = self.child.payload["jid"]
        job = {"tgt_type": "list", "fun": "test.ping", "jid": "20260101000000000007"}
        told = {"jid": job["jid"], "fun": "test.ping", "return": True, "retcode": 0}
        first = self.ask("run", orchestration=jid, tgt=["web1"], **job)
        minions["web1"].ask("_return", **told)
        self.successResultOf(first)

        second = self.ask("run", orchestration=jid, tgt=["web1", "web2"], **job)

        published = [one["tgt"] for one in self.rig.published_jobs()]
        self.assertEqual(published, [["web1"], ["web2"]])
        minions["web2"].ask("_return", **told)
        self.assertEqual(self.successResultOf(second)[0]["minions"], ["web1", "web2"])
        self.finish(FINE)
        self.successResultOf(d)

    def test_attached_to_another(self) -> None:
        """The jid of another job is refused: its returns are not for this step."""
        RigMinion(self.rig, "web1").accepted()
        d = self.begin()
        jid = self.child.payload["jid"]
        job = {"tgt": "web1", "jid": "20260101000000000007"}
        first = self.ask("run", orchestration=jid, fun="test.ping", **job)

        failed = self.ask("run", orchestration=jid, fun="test.version", **job)

        self.failureResultOf(failed, RemoteError)
        first.addErrback(lambda failure: None)
        first.cancel()
        self.finish(FINE)
        self.successResultOf(d)

    def test_stop(self) -> None:
        """A run is ended in the middle of a step, which says why; another is not harmed."""
        one, other = self.begin(), self.begin()
        jid = self.rig.children.all[0].payload["jid"]

        self.assertTrue(self.rig.orchestrating.stop(jid, "it was stopped by carol"))

        answer = self.successResultOf(one)
        self.assertEqual((answer["return"], answer["retcode"]), ("it was stopped by carol", 1))
        self.assertFalse(self.rig.orchestrating.stop(jid, "again"))
        self.assertNoResult(other)
        self.finish(FINE)
        self.assertEqual(self.successResultOf(other)["retcode"], 0)

    def test_progress(self) -> None:
        """
        Each step is told as it begins and as it ends, by events and to who watches; one that has
        its result from before is not, and who does not watch is told of no step.
        """
        chunks = [
            {"state": "salt", "fun": "function", "__id__": "ping", "name": "test.ping"},
            {"state": "salt", "fun": "state", "__id__": "web", "name": "web"},
            {"state": "salt", "fun": "runner", "__id__": "dns", "name": "x"},
        ]
        d = self.begin()
        jid = self.child.payload["jid"]
        self.rig.kept.results[0] = {"result": True}
        self.successResultOf(self.child.ask("run_begin", chunks=chunks, pillar=""))
        for number in (0, 1):
            low = chunks[number]
            self.successResultOf(self.child.ask("step_begin", number=number, low=low))
            self.rig.clock.advance(2)
            self.successResultOf(
                self.child.ask(
                    "step_end", number=number, result={"result": not number, "comment": "c" * 999}
                )
            )
        # Its requisite has failed: it does not begin
        self.successResultOf(self.child.ask("step_end", number=2, result={"result": False}))

        tag = f"saltwisted/orchestrate/{jid}"
        told = [(t, data) for t, data in self.rig.events if t.startswith(tag)]
        self.assertEqual([t for t, _ in told], [f"{tag}/step", f"{tag}/result", f"{tag}/result"])
        began, ended, left = (data for _, data in told)
        self.assertEqual(
            {key: began[key] for key in ("jid", "node", "step", "steps", "id", "function")},
            {
                "jid": jid,
                "node": "rig_master",
                "step": 2,
                "steps": 3,
                "id": "web",
                "function": "salt.state",
            },
        )
        self.assertTrue(began["job"])
        self.assertEqual((ended["result"], ended["seconds"]), (False, 2.0))
        self.assertEqual(len(ended["comment"]), 400)
        self.assertEqual((left["id"], left["result"], left["seconds"]), ("dns", False, 0.0))
        steps = [item["step"] for item in self.told if "step" in item]
        self.assertEqual([one["what"] for one in steps], ["step", "result", "result"])
        items: list[Any] = []

        async def keep(item: Any) -> None:
            items.append(item)

        for item in self.told:
            self.successResultOf(Deferred.fromCoroutine(without_steps(keep)(item)))
        self.assertEqual(items, [item for item in self.told if "step" not in item])
        self.assertIn({"orchestration": jid}, items)
        self.finish(FINE)
        self.successResultOf(d)

    def test_ended_while_it_begins(self) -> None:
        """
        A run that is ended while its first line is written is over when that counts: nobody goes
        on with it. One that was ended before is not written down at all.
        """
        for socket_ends in (False, True):
            begins: Deferred[None] = Deferred()
            self.patch(self.rig.kept, "run_begin", lambda jid, run, begins=begins: begins)
            self.rig.kept.calls.clear()
            d = self.begin()
            jid = self.child.payload["jid"]
            asked = self.child.ask("run_begin", chunks=[], pillar="")
            d.cancel()
            self.failureResultOf(d)
            if socket_ends:
                # It is killed, and nobody waits on its behalf any more
                asked.cancel()
                self.failureResultOf(asked, CancelledError)
            self.assertEqual(self.rig.kept.calls, [])
            begins.callback(None)

            if not socket_ends:
                self.successResultOf(asked)
            why = "whoever waited for it has gone"
            outcome = {"success": False, "why": why}
            self.assertEqual(self.rig.kept.calls, [("run_end", jid, outcome)])
            self.failureResultOf(self.child.ask("run_begin", chunks=[], pillar=""), TakenOver)

    def test_standing_terminal(self) -> None:
        """A terminal that stands still halts no step."""
        stands: Deferred[None] = Deferred()

        async def stream(item: Any) -> None:
            if "step" in item:
                await stands

        call = self.rig.ctx.runner("state.orch", ["deploy"], {}, local("root"), stream)
        d = Deferred.fromCoroutine(call)
        low = {"state": "salt", "fun": "state", "__id__": "web"}
        self.successResultOf(self.child.ask("run_begin", chunks=[low], pillar=""))

        self.successResultOf(self.child.ask("step_begin", number=0, low=low))
        self.successResultOf(self.child.ask("step_end", number=0, result={"result": True}))
        self.finish(FINE)

        self.successResultOf(d)
        stands.callback(None)

    def test_unknown_run(self) -> None:
        """A process of a run that is over may ask nothing."""
        failed = self.failureResultOf(
            self.ask("runner", orchestration="20260101000000000000", fun="manage.up"), RemoteError
        )

        self.assertIn("no orchestration", str(failed.value))

    def test_strangers(self) -> None:
        """Nobody but the master's own user acts in the name of a run."""
        from saltwisted.domain.operations.table import Caller

        d = self.begin()
        table = self.rig.table()
        table.add(OrchestrationOperations(self.rig.orchestrating).operations())
        caller = Caller(name="mallory", owner=False, source="uid 1000", door="the control socket")

        for op in ("run", "runner", "wheel"):
            args = {"orchestration": self.child.payload["jid"], "fun": "test.ping", "tgt": "*"}
            if op != "run":
                del args["tgt"]
            call = table.call(f"orchestration.{op}", args, caller, lambda item: None)
            failed = self.failureResultOf(Deferred.fromCoroutine(call), RemoteError)
            self.assertEqual(failed.value.name, "AuthorizationError", op)
        self.finish(FINE)
        self.successResultOf(d)

    def test_within_itself(self) -> None:
        """An orchestration that begins itself ends at a depth, with a clear error."""
        self.patch(running, "DEEPEST", 3)
        outer = self.begin()
        waiting = []
        for _ in range(2):
            jid = self.child.payload["jid"]
            waiting.append(self.ask("runner", orchestration=jid, fun="state.orch", arg=["deploy"]))
        self.assertEqual(len(self.rig.children.all), 3)

        jid = self.child.payload["jid"]
        self.successResultOf(self.ask("runner", orchestration=jid, fun="state.orch", arg=["x"]))

        self.assertEqual(len(self.rig.children.all), 3)
        rets = [data for tag, data in self.rig.events if tag.endswith("/ret")]
        self.assertIn("does one begin itself?", rets[-1]["return"])
        for child in reversed(self.rig.children.all):
            child.ask("answer", value=FINE)
            child.end()
        self.successResultOf(outer)
        for each in waiting:
            self.successResultOf(each)

    def test_pauses(self) -> None:
        """A run is paused and ended by its jid; for one that is not here that is an error."""
        d = self.begin()
        jid = self.child.payload["jid"]

        for fun, arg in (("state.pause", ("one", 5)), ("state.soft_kill", ("two",))):
            answer = self.successResultOf(self.begin(fun, jid, *arg))
            self.assertEqual((answer["return"], answer["retcode"]), (None, 0))
        wishes, _ = pauses.read(self.rig.ctx.config.cachedir, jid)
        self.assertEqual(wishes, {"one": {"duration": 5}, "two": {"kill": True}})
        self.successResultOf(self.begin("state.rm_pause", jid, "one"))
        wishes, _ = pauses.read(self.rig.ctx.config.cachedir, jid)
        self.assertEqual(wishes, {"two": {"kill": True}})
        self.finish(FINE)
        self.successResultOf(d)

        answer = self.successResultOf(self.begin("state.pause", jid, "one", "soon"))
        self.assertEqual(answer["retcode"], 1)
        self.assertIn("duration must be a number", answer["return"])
        answer = self.successResultOf(self.begin("state.soft_kill", jid))
        self.assertEqual(answer["retcode"], 1)
        self.assertIn(f"no orchestration {jid} runs here", answer["return"])
