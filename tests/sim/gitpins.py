"""
Runs and jobs on commits, in the world of L{tests.sim.gitviews}: which commits those are is kept by
the real L{RootPins}, L{GitViews}, L{CommitViews} and L{EarlierCommits} of three nodes, on disks
that outlive them. Played are orchestrations, with their lines on the disks of a majority, minions
that ask any node for files, and the record of jobs.

What must hold beside what holds there:

 - Whoever goes on with a run reads the commits of its beginning; so do the jobs of its steps. A run
   ends where no node in reach has served these.
 - A minion is served the commits of its job until it has returned, by each node that has heard of
   the job, and the newest from then on.
 - When all is well, C{--generation} takes a name on all nodes, and there as the same commits, or
   on none. It takes those of runs and jobs that have not ended.

C{python -m tests.sim.gitpins --seeds 1000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred

from saltwisted.cluster.git.views import GitViews
from saltwisted.cluster.roots.pins import RootPins
from saltwisted.config.git import GitRemote
from saltwisted.domain.git import history, made
from saltwisted.domain.git.agreement import shown
from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.jid import jid_at
from saltwisted.domain.roots import ranon
from saltwisted.errors import DeniedError
from saltwisted.master import commitpins
from saltwisted.master.commitviews import CommitViews
from saltwisted.master.earliercommits import EarlierCommits
from saltwisted.stores.git.source import GitFiles, GitView, Served
from tests.sim.gitviews import NAMES, Copy, Disk, Node, World, commit, refused
from tests.sim.play import play

REMOTE = GitRemote(id="states", url="states", name="states")
FUN = "state.sls"
HEARD = 2.0
"""Seconds in which a node that is linked has heard of a job, and has its record on disk."""
MOST = 6
"""Generations that are kept in any case, in this world."""


class Broken(AssertionError):
    """A promise was not kept."""


@define
class Record:
    """What a disk has of a job: its generation, its minion, and whether that has returned."""

    generation: str
    trees: Mapping[str, str]
    minion: str
    returned: bool = False


@define
class PinDisk(Disk):
    """
    @ivar had: commits that were served from it.
    @ivar runs: those that have not ended, with their generations and trees.
    """

    had: set[str] = field(factory=set)
    runs: dict[str, tuple[str, Mapping[str, str]]] = field(factory=dict)
    jobs: dict[str, Record] = field(factory=dict)


class PinRepository:
    """
    What has been fetched: each commit has one file, of its own name, and brings all before it.
    """

    large: Mapping[str, int] = {}

    def __init__(self, disk: PinDisk) -> None:
        self._disk, self.path = disk, disk.folder

    def commit(self, prefix: str) -> tuple[str, str] | None:
        """It and its tree."""
        found = [each for each in self._disk.objects if each.startswith(prefix)]
        if not found and len(prefix) == 40 and int(prefix, 16) <= self._newest():
            found = [prefix]
        return (found[0], found[0]) if len(found) == 1 else None

    def _newest(self) -> int:
        return max((int(each, 16) for each in self._disk.objects), default=0)

    def has(self, oid: str) -> bool:
        """Whether it is here."""
        return oid in self._disk.objects

    def close(self) -> None:
        """It has no files."""


class PinCopy(Copy):
    """As an operator sees it."""

    rolled_back = False


@define
class FileServer:
    """Over some directories, and git."""

    chosen: Mapping[str, Any]
    git: GitFiles | None

    def tip(self, node: PinNode) -> str:
        """The commit that somebody reads by it."""
        source = self.git or node.files
        places = source.view.places("base")
        return places[0].commit if places else ""


class NoMarks:
    """Marks that nobody looks at."""

    def open(self, oldest: float) -> list[Any]:
        """None."""
        return []

    def add(self, marks: Iterable[Any]) -> None:
        """Not kept."""

    def close(self) -> None:
        """Nothing to do."""


class PinSync:
    """The directories of a node: one, in which nothing changes."""

    def __init__(self, node: PinNode) -> None:
        self.node, self.pool, self._seconds = node.name, node.pool, node.seconds
        generation = SimpleNamespace(digest=b"d" * 32)
        trees = SimpleNamespace(get={generation.digest: generation}.get)
        self.shares = {
            "file/base/0": SimpleNamespace(generation=generation, trees=trees, store=None)
        }
        self.pinned: Any = None
        # All that a node lends, and says of itself, is this one object
        self.host = self.report = self.news = self

    def digests(self) -> dict[str, bytes]:
        """What is newest."""
        return {name: share.generation.digest for name, share in self.shares.items()}

    def now(self) -> float:
        """All clocks are right."""
        return 1_700_000_000 + self._seconds()

    def event(self, what: str, data: Any) -> None:
        """Nobody hears of it."""


class PinNode(Node):
    """
    One life of a node.

    @ivar reading: the runs that go on here, with what they read.
    """

    world: PinWorld
    disk: PinDisk

    def __init__(self, world: PinWorld, name: str, disk: PinDisk) -> None:
        super().__init__(world, name, disk)
        self.copy = PinCopy(self)
        self.is_ready = False
        self.reading: dict[str, Any] = {}
        self.repository = PinRepository(disk)
        self.files = GitFiles(disk.folder, "sha256", self.pool, lambda request: Deferred())
        kept = os.path.join(disk.folder, "kept")
        earlier = EarlierCommits(f"{kept}/generations", self.files, self.pool, self.seconds)
        known = CommitViews(self.files, earlier, lambda: self)  # type: ignore[arg-type,return-value]
        self.views = GitViews(self.sharing._ground, known, self.backing)
        self.pins = self.made(f"{kept}/ran")
        self.show()

    def made(self, path: str) -> RootPins:
        """What is tested."""
        return RootPins(
            PinSync(self),  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.world.clock,
            FileServer,
            Counter(),
            NoMarks(),  # type: ignore[arg-type]
            path,
            commits=lambda: self.views,
            jobs=self,  # type: ignore[arg-type]
            runs=lambda: dict(self.disk.runs.values()),
        )

    # what is recorded of jobs

    async def unfinished(self, since: float) -> Sequence[Any]:
        """Those whose minions have not returned, by this disk."""
        return [
            (jid, {"generation": job.generation, "trees": job.trees}, [job.minion])
            for jid, job in self.disk.jobs.items()
            if not job.returned
        ]

    async def returned_ids(self, jid: str) -> Sequence[str]:
        """Who has returned, by this disk."""
        job = self.disk.jobs.get(jid)
        return [job.minion] if job is not None and job.returned else []

    async def start(self) -> None:
        """As a master: links are up by then, and minions are served afterwards."""
        await self.pins.startService()
        await self.sharing.startService()
        self.is_ready = self.is_alive

    def seconds(self) -> float:
        """The time."""
        return self.world.clock.seconds()

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """In a thread, which dies with the node."""
        done: Deferred[Any] = Deferred()

        def work() -> None:
            if self.is_alive:
                maybeDeferred(function, *args).chainDeferred(done)

        self.world.clock.callLater(self.world.dice.uniform(0.001, 0.3), work)
        return done

    # copies

    def view(self) -> GitView:
        """What has come."""
        if not self.copy.state:
            return GitView(())
        refs = {ref: Tip(*tip) for ref, tip in shown(self.copy.state).items()}
        return GitView([Served(REMOTE, self.disk.folder, self.repository, refs)])  # type: ignore[arg-type]

    def show(self) -> None:
        """It is served."""
        self.files.show(self.view())
        if tip := self.tip:
            self.disk.had.add(tip)
            self.world.names.add(self.files.view.name)

    @property
    def tip(self) -> str:
        """The newest commit that is served here."""
        return FileServer({}, None).tip(self)

    def took(self, shared: str, state: Mapping[str, Any]) -> None:
        """This is served."""
        super().took(shared, state)
        self.show()

    # what others have of it

    def near(self) -> list[PinNode]:
        """Who is linked, and lives."""
        linked = [self.world.nodes[link.node] for link in self.links()]
        return [node for node in linked if node.is_alive]  # type: ignore[misc]


@define(eq=False)
class Run:
    """
    An orchestration that counts.

    @ivar waits: those are away without whom nobody goes on with it.
    """

    jid: str
    name: str
    trees: Mapping[str, str]
    tip: str
    node: PinNode
    until: float
    away: float | None = None
    asked: bool = False
    waits: bool = False


@define(eq=False)
class Job:
    """Of one minion. C{heard}: since when nodes know of it."""

    jid: str
    minion: str
    name: str
    trees: Mapping[str, str]
    tip: str
    until: float
    heard: dict[str, float] = field(factory=dict)
    returned: bool = False


class PinWorld(World):
    """
    Three nodes, runs and jobs.

    @ivar names: of all generations that somebody was told of.
    @ivar runs: those that have not ended.
    @ivar cuts: how often the links have changed.
    """

    nodes: dict[str, PinNode]  # type: ignore[assignment]

    def __init__(self, seed: int, folder: str = "", long: float = 900.0) -> None:
        """@param long: seconds that some runs and jobs last."""
        self._made = "" if folder else tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.seed, self.long = seed, long
        self.names: set[str] = set()
        self.runs: list[Run] = []
        self.jobs: list[Job] = []
        self.counts: Counter[str] = Counter()
        self.cuts = self.numbers = 0
        super().__init__(seed, folder or self._made)

    def _links_change(self) -> None:
        self.cuts += 1
        self._since = self.clock.seconds()

    def node(self, name: str, disk: Disk) -> Node:
        """A life."""
        return PinNode(self, name, disk if isinstance(disk, PinDisk) else PinDisk(disk.folder))

    def start(self, name: str, disk: Disk) -> None:
        """A new life."""
        self._links_change()
        super().start(name, disk)

    def begun(self, node: Node) -> None:
        """It starts."""
        assert isinstance(node, PinNode)
        Deferred.fromCoroutine(node.start()).addErrback(self.failed)  # type: ignore[unused-awaitable]

    def kill(self, name: str) -> None:
        """In the middle of whatever it does."""
        self._links_change()
        node = self.nodes[name]
        super().kill(name)
        node.pins._living.end()
        node.reading.clear()

    def cut(self, sides: Mapping[str, int]) -> None:
        """From now on only nodes of one side are linked."""
        self._links_change()
        super().cut(sides)

    def failed(self, failure: Any) -> None:
        """Nothing may fail but by an error that is told."""
        self.broken.append(f"{failure.value!r}\n{failure.getTraceback()}")

    def wrong(self, what: str) -> None:
        """A promise is broken."""
        self.broken.append(f"at {self.clock.seconds():.1f}: {what}")

    def end(self) -> None:
        """Leave nothing."""
        for node in self.nodes.values():
            node.is_alive = False
        if self._made:
            shutil.rmtree(self._made)

    # -- runs

    def able(self, node: PinNode) -> bool:
        """Whether it has a majority, in this life."""
        return node.is_alive and self.nodes[node.name] is node and bool(node.near())

    def new_jid(self) -> str:
        """No two are the same."""
        self.numbers += 1
        return jid_at(1_700_000_000 + int(self.clock.seconds()) + self.numbers / 1e6)

    def lasts(self) -> float:
        """Until when something goes on."""
        most = self.dice.choice((10.0, 60.0, self.long))
        return self.clock.seconds() + self.dice.uniform(5.0, most)

    def begin(self, node: PinNode) -> None:
        """An orchestration: what it reads is chosen, and its first line counts soon after."""
        jid = self.new_jid()
        facts = node.pins.facts(jid, FUN)
        server = node.pins.still()
        if "commits" not in facts:
            return
        tip, trees = server.tip(node), facts["trees"]
        run = Run(jid, facts["generation"], trees, tip, node, self.lasts())
        node.reading[jid] = server

        def counts() -> None:
            if not self.able(node):
                node.reading.pop(jid, None)
                return
            self.names.add(run.name)
            self.counts["runs"] += 1
            self.runs.append(run)
            self._write(run)

        self.clock.callLater(self.dice.uniform(0.01, 0.3), counts)

    def _write(self, run: Run) -> None:
        for node in (run.node, *run.node.near()):
            node.disk.runs[run.jid] = (run.name, run.trees)

    def _over(self, run: Run) -> None:
        self.runs.remove(run)
        for node in self.nodes.values():
            node.disk.runs.pop(run.jid, None)
            node.reading.pop(run.jid, None)

    def _tend(self, run: Run) -> None:
        """A second of it."""
        now = self.clock.seconds()
        if run.asked or run.waits:
            return
        if self.able(run.node):
            run.away = None
            if now > run.until:
                self.counts["ended"] += 1
                self._over(run)
            elif self.dice.random() < 0.1:
                self._step(run)
            return
        if run.away is None:
            run.away = now
        if now - run.away < 10.0:
            return
        run.node.reading.pop(run.jid, None)
        takers = [
            node
            for node in self.nodes.values()
            if node.is_ready and self.able(node) and run.jid in node.disk.runs
        ]
        if takers:
            self._go_on(run, self.dice.choice(takers))

    def _go_on(self, run: Run, node: PinNode) -> None:
        """Another node, or another life of this one, takes it over."""
        run.asked, cuts = True, self.cuts
        run.node = node

        def here(server: FileServer) -> None:
            run.asked = False
            if not self.able(node):
                return
            self.counts["taken over"] += 1
            if server.tip(node) != run.tip:
                self.wrong(f"{run} is gone on with at {server.tip(node)}")
            node.reading[run.jid] = server
            run.away = None
            self._write(run)

        def refused(failure: Any) -> None:
            failure.trap(DeniedError)
            run.asked = False
            if not node.is_alive:
                return
            self._may_be_gone(node, run.tip, cuts, f"{run.jid} cannot go on: {failure.value}")
            self._over(run)

        going = Deferred.fromCoroutine(node.pins.again(run.name))  # type: ignore[arg-type]
        going.addCallbacks(here, refused).addErrback(self.failed)  # type: ignore[unused-awaitable]

    def _may_be_gone(self, node: PinNode, tip: str, cuts: int, what: str) -> None:
        """Commits are refused: only where nobody in reach has served them."""
        self.counts["refused"] += 1
        having = [each.name for each in (node, *node.near()) if tip in each.disk.had]
        if having and cuts == self.cuts:
            self.wrong(f"{node.name}: {what}, and {having} have had {tip}")

    # -- jobs

    def _step(self, run: Run) -> None:
        """The job of a step."""
        node, jid, cuts = run.node, self.new_jid(), self.cuts

        def followed(_: Any) -> None:
            if self.able(node):
                self.publish(node, jid, run.tip)

        def refused(failure: Any) -> None:
            failure.trap(DeniedError)
            if node.is_alive:
                what = f"a step of {run.jid} is refused: {failure.value}"
                self._may_be_gone(node, run.tip, cuts, what)

        following = Deferred.fromCoroutine(node.pins.follow(jid, FUN, run.name))
        following.addCallbacks(followed, refused).addErrback(self.failed)  # type: ignore[unused-awaitable]

    def publish(self, node: PinNode, jid: str = "", tip: str = "") -> None:
        """A job of one minion."""
        jid = jid or self.new_jid()
        facts = node.pins.facts(jid, FUN)
        if "commits" not in facts:
            return
        found = facts["commits"]["base"]["states"]
        if tip and found != tip:
            self.wrong(f"the job of a step runs on {found}, and its run on {tip}")
        name, trees = facts["generation"], facts["trees"]
        job = Job(jid, f"m{jid}", name, trees, found, self.lasts())
        self.names.add(job.name)
        self.counts["jobs"] += 1
        self.jobs.append(job)
        # Its record is on disk before it goes out
        node.disk.jobs[jid] = Record(job.name, job.trees, job.minion)
        node.pins.published(jid, [job.minion])
        job.heard[node.name] = self.clock.seconds()

    def publish_on(self, node: PinNode, name: str) -> None:
        """A job on an earlier generation, or on a commit, which may never have been served."""
        jid = self.new_jid()

        def chosen(_: Any) -> None:
            if node.is_alive:
                self.publish(node, jid)
                self.counts["chosen"] += 1
                # Who has begun it has its commit, as if it had served it
                node.disk.had.add(self.jobs[-1].tip)

        def refused(failure: Any) -> None:
            failure.trap(DeniedError)

        choosing = Deferred.fromCoroutine(node.pins.choose(jid, FUN, name, []))
        choosing.addCallbacks(chosen, refused).addErrback(self.failed)  # type: ignore[unused-awaitable]

    def _hear(self, job: Job) -> None:
        """Records of jobs, and of returns, go from node to node."""
        now = self.clock.seconds()
        for node in self.nodes.values():
            if not node.is_alive or node.name in job.heard:
                continue
            when = [job.heard[each.name] for each in node.near() if each.name in job.heard]
            if when and now - max(self._since, min(when)) >= HEARD:
                job.heard[node.name] = now
                node.disk.jobs[job.jid] = Record(job.name, job.trees, job.minion)
        for name in job.heard:
            node, record = self.nodes[name], self.nodes[name].disk.jobs[job.jid]
            told = [each.disk.jobs.get(job.jid) for each in node.near()]
            if node.is_alive and not record.returned:
                record.returned = any(each is not None and each.returned for each in told)
                if record.returned:
                    node.pins.returned_elsewhere(job.jid, job.minion)

    def _serve(self, job: Job) -> None:
        """A second of it: the minion asks some node for a file, or returns."""
        now = self.clock.seconds()
        nodes = [
            node
            for node in self.nodes.values()
            if node.is_ready
            and node.is_alive
            and now - job.heard.get(node.name, now) > HEARD
            and job.jid in node.disk.jobs
        ]
        if not nodes:
            return
        node = self.dice.choice(nodes)
        if not job.returned and now > job.until:
            job.returned = True
            node.disk.jobs[job.jid].returned = True
            node.pins.returned(job.jid, job.minion)
        elif self.dice.random() < 0.1 and not job.returned:
            self._ask(node, job)

    def _ask(self, node: PinNode, job: Job) -> None:
        cuts = self.cuts

        def served(server: Any) -> None:
            tip = (server or node.pins.newest).tip(node)
            if tip != job.tip and node.is_alive and not job.returned:
                what = f"the minion of {job.jid} is served {tip}, and not {job.tip}"
                self._may_be_gone(node, job.tip, cuts, what)

        maybeDeferred(node.pins.files, job.minion).addCallback(served).addErrback(self.failed)  # type: ignore[unused-awaitable]

    # -- time

    def run(self, seconds: float) -> None:
        """Let time pass, from one call to the next."""
        clock = self.clock
        end = clock.seconds() + seconds
        while clock.seconds() < end:
            until = min(float(int(clock.seconds() + 1.0)), end)
            while clock.calls and clock.calls[0].getTime() <= until:
                clock.advance(max(0.0, clock.calls[0].getTime() - clock.seconds()))
            clock.advance(max(0.0, until - clock.seconds()))
            self._judge()
            for node in self.nodes.values():
                self._have_fetched(node)
            for run in list(self.runs):
                self._tend(run)
            for job in list(self.jobs):
                self._hear(job)
                self._serve(job)

    def choose(self, node: PinNode, name: str) -> str:
        """The commit of C{--generation}; empty where it is refused."""
        jid, found = self.new_jid(), []

        def chosen(_: Any) -> None:
            found.append(node.pins.facts(jid, FUN)["commits"]["base"]["states"])

        def refused(failure: Any) -> None:
            failure.trap(DeniedError)
            if name not in str(failure.value):
                self.wrong(f"a refusal without its name: {failure.value}")
            found.append("")

        choosing = Deferred.fromCoroutine(node.pins.choose(jid, FUN, name, []))
        choosing.addCallbacks(chosen, refused).addErrback(self.failed)  # type: ignore[unused-awaitable]
        for _ in range(30):
            if found:
                return found[0]
            self.run(1.0)
        self.wrong(f"{node.name} says nothing of {name}")
        return ""

    # -- what happens

    def chaos(self, steps: int) -> None:
        """Kills, cuts, pushes, rollbacks, runs and jobs, by the dice."""
        dice = self.dice
        for _ in range(steps):
            what = dice.randrange(12)
            node = self.nodes[dice.choice(NAMES)]
            if what == 0:
                self.cut({name: dice.randrange(2) for name in NAMES})
            elif what in (1, 2):
                self.cut(dict.fromkeys(NAMES, 0))
            elif what == 3 and node.is_alive:
                self.kill(node.name)
            elif what in (4, 5):
                self.up()
            elif what == 6:
                self.restart_all()
            elif what == 7 and node.is_ready and node.is_alive:
                node.roll_back(dice.randint(1, self.head)).addErrback(refused)
            elif what in (8, 9) and node.is_ready and self.able(node):
                self.begin(node)
            elif what == 10 and node.is_ready and node.is_alive:
                self.publish_on(node, commit(dice.randint(1, self.head)))
            elif node.is_ready and node.is_alive:
                self.publish(node)
            self.slow = dice.choice((0.0, 0.0, 0.5))
            self.head += dice.randrange(3)
            self.run(dice.choice((dice.uniform(0.2, 12.0), dice.uniform(5.0, 60.0))))

    def up(self) -> None:
        """Nobody is away."""
        for name in NAMES:
            if not self.nodes[name].is_alive:
                self.start(name, self.nodes[name].disk)

    def restart_all(self) -> None:
        """At one moment; they come back one after the other."""
        for name in NAMES:
            if self.nodes[name].is_alive:
                self.kill(name)
        for name in self.dice.sample(NAMES, len(NAMES)):
            self.run(self.dice.uniform(0.1, 3.0))
            self.start(name, self.nodes[name].disk)

    def heal(self) -> None:
        """All is well again."""
        self.slow = 0.0
        self.up()
        self.cut(dict.fromkeys(NAMES, 0))
        self.head += 1
        self.run(60.0)

    def check(self) -> None:
        """All nodes take the same names, and those that are needed."""
        if len({node.tip for node in self.nodes.values()}) > 1:
            self.wrong("the nodes serve different commits")
        for name in sorted(self.names):
            needed = {run.tip for run in self.runs if run.name == name}
            needed |= {job.tip for job in self.jobs if job.name == name and not job.returned}
            told = {node.name: self.choose(node, name) for node in self.nodes.values()}
            if len(set(told.values())) > 1:
                self.wrong(f"{name} is taken as {told}")
            # Whoever had these commits may be gone for good: then nobody takes them
            for tip in needed:
                having = [node.name for node in self.nodes.values() if tip in node.disk.had]
                if having and tip not in told.values():
                    self.wrong(f"{name} is needed, {having} have had {tip}, and are told {told}")
        self.end_all()
        for job in self.jobs:
            for node in self.nodes.values():
                self._newest(node, job)
        self.run(20.0)

    def end_all(self) -> None:
        """Runs and jobs come to their ends."""
        now = self.clock.seconds()
        for each in (*self.runs, *self.jobs):
            each.until = min(each.until, now)
        self.run(30.0)
        if self.runs or not all(job.returned for job in self.jobs):
            self.wrong(f"{self.runs} and {self.jobs} do not end")

    def _newest(self, node: PinNode, job: Job) -> None:
        """A minion that has returned is served the newest."""

        def served(server: Any) -> None:
            tip = (server or node.pins.newest).tip(node)
            if tip != node.tip:
                self.wrong(f"{node.name} serves {tip} after {job.jid}, and not {node.tip}")

        maybeDeferred(node.pins.files, job.minion).addCallback(served).addErrback(self.failed)  # type: ignore[unused-awaitable]


class Play:
    """One seed from beginning to end, where few generations are kept."""

    steps = 25

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """
        All of it.

        @raises Broken: a promise was not kept.
        """
        with (
            mock.patch.object(ranon, "MOST", MOST),
            mock.patch.object(history, "MOST", MOST),
            mock.patch.object(made, "MOST", MOST),
            mock.patch.object(commitpins, "MOST_VIEWS", 3),
            mock.patch.object(os, "fsync", lambda fd: None),
        ):
            world = PinWorld(self.seed)
            try:
                self.play(world)
            finally:
                world.end()
        self.counts = world.counts
        if world.broken:
            raise Broken(f"seed {self.seed}: " + "\n".join(world.broken[:5]))

    def play(self, world: PinWorld) -> None:
        """What happens."""
        world.run(30.0)
        world.chaos(self.steps)
        world.heal()
        world.check()


if __name__ == "__main__":
    sys.exit(play("tests.sim.gitpins", Play, Broken, lambda each: each.counts))
