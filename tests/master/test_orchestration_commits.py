"""
An orchestration runs on the commits of its beginning: what it reads, the jobs of its steps, and
after a takeover the rest of it.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.operations.table import Caller
from saltwisted.domain.who import local
from saltwisted.errors import NotKept
from saltwisted.master.orchestration.operations import OrchestrationOperations
from saltwisted.master.seams import Seams
from tests.master.rig import FakeChild, RigMinion
from tests.master.test_orchestration import FINE, Kept, OrchRig

UPDATE = {"state": "salt", "fun": "runner", "name": "fileserver.update", "__id__": "new"}
APPLY = {"state": "salt", "fun": "state", "name": "apply", "__id__": "apply"}


class Files:
    """The files of one generation."""

    backends = ("gitfs",)

    def __init__(self, name: str) -> None:
        self.name = name

    def envs(self) -> list[str]:
        """Which one it is."""
        return [self.name]

    def refresh(self, chosen: Any) -> None:
        """A fetch would be this."""


class Generations:
    """
    C{IPins} of generations that a test has changed.

    @ivar now: what is served.
    @ivar kept: what can be had again.
    @ivar followed: jobs that run on the commits of a run.
    """

    def __init__(self) -> None:
        self.now, self.kept = "one", {"one", "two"}
        self.followed: list[str] = []

    @property
    def newest(self) -> Files:
        """What is served."""
        return Files(self.now)

    def still(self) -> Files:
        """The same, whatever comes."""
        return Files(self.now)

    def again(self, generation: str) -> Deferred[Files]:
        """Of then."""
        if generation not in self.kept:
            return fail(NotKept("no connected node has its commits"))
        return succeed(Files(generation))

    def follow(self, jid: str, fun: Any, generation: str) -> Deferred[None]:
        """Note it."""
        self.followed.append(generation)
        return succeed(None)

    def facts(self, jid: str, fun: Any) -> dict[str, str]:
        """What is served now."""
        return {"generation": self.now}

    def published(self, jid: str, minions: Any) -> None:
        """Nobody is pinned here."""

    def returned(self, jid: str, minion: str) -> None:
        """Nor released."""

    def files(self, minion: str) -> None:
        """All are served the newest."""


class CommitRig(OrchRig):
    """A master that serves commits."""

    def beside(self, alone: Seams) -> Seams:
        """With generations that a test can change."""
        self.kept, self.generations = Kept(), Generations()
        return evolve(alone, orchestrations=self.kept, pins=self.generations)


class CommitTests(SynchronousTestCase):
    """Runs whose processes do what the test says."""

    def setUp(self) -> None:
        """A master with one minion."""
        self.rig = CommitRig(self)
        RigMinion(self.rig, "web1").accepted()

    def begin(self) -> Deferred[Any]:
        """Call the runner as root."""
        return Deferred.fromCoroutine(
            self.rig.ctx.runner("state.orchestrate", ["deploy"], {}, local("root"))
        )

    def resume(self, done: dict[str, Any], **run: Any) -> tuple[str, Deferred[Any]]:
        """Another life, or node, has begun a run; its jid, and the rest of it here."""
        jid = "20260101000000000007"
        about = {
            "chunks": [UPDATE, APPLY],
            "generation": "one",
            "user": "root",
            "fun": "state.orchestrate",
            "options": {"kwarg": {}, "runner": {"arg": ["deploy"], "kwarg": {}}},
            **run,
        }
        going = self.rig.orchestrating.resume(jid, about, done, {})
        return jid, Deferred.fromCoroutine(going)

    @property
    def child(self) -> FakeChild:
        """The process that was begun last."""
        return self.rig.children.all[-1]

    def reads(self, child: FakeChild) -> str:
        """The generation that a process reads."""
        (name,) = self.successResultOf(child.ask("files", load={"cmd": "_file_envs"}))
        return str(name)

    def ask(self, op: str, **args: Any) -> Deferred[Any]:
        """What the process asks by the control socket."""
        table = self.rig.table()
        table.add(OrchestrationOperations(self.rig.orchestrating).operations())

        async def stream(item: Any) -> None:
            pass

        caller = Caller(name="root", owner=True, source="uid 0", door="the control socket")
        call = table.call(f"orchestration.{op}", args, caller, stream)
        return Deferred.fromCoroutine(call)

    def job(self, jid: str) -> None:
        """A step has published a job."""
        waiting = self.ask("run", orchestration=jid, tgt="web1", fun="state.apply")
        waiting.addErrback(lambda failure: None)
        waiting.cancel()

    def finish(self, d: Deferred[Any], child: FakeChild) -> Any:
        """A process ends well; what the runner has answered."""
        self.successResultOf(child.ask("answer", value=FINE))
        child.end()
        return self.successResultOf(d)

    def test_pinned(self) -> None:
        """
        The generation is written down before step one; the run, one that is a step of it, and the
        jobs of both are of that, whatever is served meanwhile.
        """
        d = self.begin()
        outer = self.child
        self.rig.generations.now = "two"
        self.successResultOf(outer.ask("run_begin", chunks=[APPLY], pillar=""))

        (_, jid, run), *_ = self.rig.kept.calls
        self.assertEqual(run["generation"], "one")
        inner = self.ask(
            "runner", orchestration=jid, fun="state.orchestrate", arg=["more"], kwarg={}
        )
        nested = self.child
        self.assertIsNot(nested, outer)
        self.assertEqual((self.reads(outer), self.reads(nested)), ("one", "one"))
        self.job(jid)
        self.job(nested.payload["jid"])
        self.assertEqual(self.rig.generations.followed, ["one", "one"])
        self.finish(inner, nested)
        self.finish(d, outer)

        self.finish(self.begin(), self.child)
        self.assertEqual(self.rig.generations.followed, ["one", "one"])

    def test_fetched(self) -> None:
        """Behind a step that has fetched itself, jobs run on what has come; the run reads on."""
        d = self.begin()
        jid, child = self.child.payload["jid"], self.child
        self.job(jid)
        self.successResultOf(self.ask("runner", orchestration=jid, fun="fileserver.update"))
        self.rig.generations.now = "two"
        self.job(jid)

        self.assertEqual(self.rig.generations.followed, ["one"])
        self.assertEqual(self.reads(child), "one")
        self.finish(d, child)

    def test_goes_on(self) -> None:
        """What is gone on with reads what it read before, and so do its jobs."""
        self.rig.generations.now = "two"
        jid, d = self.resume({})
        self.assertEqual(self.reads(self.child), "one")
        self.job(jid)
        self.assertEqual(self.rig.generations.followed, ["one"])
        self.finish(d, self.child)

        jid, d = self.resume({"0": {"result": True}})
        self.assertEqual(self.reads(self.child), "one")
        self.job(jid)
        self.assertEqual(self.rig.generations.followed, ["one"])
        self.finish(d, self.child)

    def test_not_kept(self) -> None:
        """A run whose commits cannot be had does not go on with others: it ends, and says why."""
        jid, d = self.resume({}, generation="lost")

        self.assertFalse(self.successResultOf(d)["success"])
        self.assertEqual(self.rig.children.all, [])
        self.assertNotIn(jid, self.rig.orchestrating.active)
        ((what, ended, outcome),) = self.rig.kept.calls
        self.assertEqual((what, ended, outcome["success"]), ("run_end", jid, False))
        self.assertIn("no connected node has its commits", outcome["why"])

    def test_dies_at_once(self) -> None:
        """A run that is gone on with ends with its process, however early that dies."""
        jid, d = self.resume({})
        self.child.end("was ended by SIGKILL")

        self.assertFalse(self.successResultOf(d)["success"])
        self.assertEqual([call[:2] for call in self.rig.kept.calls], [("run_end", jid)])
