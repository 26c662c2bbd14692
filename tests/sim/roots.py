"""
Two to four masters that keep one root alike, and what can go wrong between and below them, from one
seed.

Real are the service of the roots with its shares, streams, stores, SQLite and directories (in
memory, on C{/dev/shm}), and the kernel's events. Played are the network, time, the operators, and
the moment at which a process dies: at any write, fsync, rename and commit of its store, or between
two events. What breaks: streams (cut, and whole groups of nodes apart), processes (killed, also
again while they start), indices (lost, or set back to an earlier copy), and whole disks (set back
unnoticed, as a virtual machine is to a snapshot, with and without the directory that is edited).

When all is well again, all directories are alike and are what is committed; what anybody
committed is visible, was replaced knowingly, or is kept as a conflict on every node.

C{python -m tests.sim.roots --seeds 1000 [--first N]} plays many; exit status 1 when one broke.
A seed is one story, in whatever order a process goes through its sets.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled, ConnectionDone
from twisted.python.failure import Failure

from saltwisted.cluster.roots import look as rootlook
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.settings import Root
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import DIR, FILE, LINK, Batch, ReplicaId, Version
from saltwisted.domain.roots.guards import Limits
from saltwisted.domain.roots.index import Policy
from saltwisted.domain.roots.manifest import Generation
from saltwisted.stores.roots import treeread
from saltwisted.stores.roots.store import RootStore
from tests.roots import world as judges
from tests.sim.cluster import Broken, FastClock
from tests.sim.play import play

SHARE = "file/base/0"
NOW = 1_800_000_000.0
SETTLED = 400.0
"""Seconds from healing until all must be alike: peers that are waited for in vain cost the most."""
SCANNED = 70.0
"""Seconds within which everything is looked at."""
ACTS = 40
NAMES = ("a", "b", "c", "d")
PATHS = ("x", "y", "one/x", "one/y", "two/x", "one/deep/z", "two/link")
FIXED = ("keep/1", "keep/2")
"""Files that nobody deletes: a tree of nothing is held back, and rightly so."""


class Killed(BaseException):
    """The process is gone."""


class SimStore(RootStore):
    """Tells the world of what is durable, and dies where that is wanted."""

    def __init__(self, node: SimNode, share: str, *args: Any, **more: Any) -> None:
        self.node = node
        self.share = share
        super().__init__(*args, **more, step=node.step)

    def commit(self, *args: Any, **more: Any) -> Any:
        made = super().commit(*args, **more)
        if made is not None:
            self.node.world.committed(self.share, made[0])
        return made


class SimTimer:
    """A timer: one that is due while the process cannot run is still to come."""

    def __init__(self, node: SimNode, when: float, what: Callable[[], None]) -> None:
        self._node, self._life, self._what = node, node.life, what
        self._over = False
        clock = node.world.clock
        self._time = clock.seconds() + when
        self._call = clock.callLater(when, node.awake, self._due)

    def getTime(self) -> float:
        return self._time

    def _due(self) -> None:
        if not self._over:
            self._over = True
            if self._node.life == self._life:
                self._what()

    def active(self) -> bool:
        return not self._over

    def cancel(self) -> None:
        if self._over:
            raise AlreadyCalled()
        self._over = True
        if self._call.active():
            self._call.cancel()


class SimReactor:
    """The clock and the descriptors of one life of a process."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self.readers: list[Any] = []

    def seconds(self) -> float:
        return self._node.world.clock.seconds()

    def callLater(self, when: float, what: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return SimTimer(self._node, when, lambda: what(*args, **more))

    def callFromThread(self, what: Callable[..., Any], *args: Any) -> None:
        what(*args)

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)

    def poll(self) -> None:
        """Take what the kernel has told."""
        for reader in list(self.readers):
            reader.doRead()


class End:
    """One side of a stream: bytes arrive in order, some time later, in pieces of any size."""

    MOST = 128 * 1024

    def __init__(self, world: World, node: SimNode, protocol: RootLink) -> None:
        self._world, self._node, self.protocol = world, node, protocol
        self.other: End
        self.up = True
        self._last = 0.0
        self._waiting = 0
        self._producer: Any = None
        self._paused = False
        self._kept: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        if not self.up:
            return
        clock, dice = self._world.clock, self._world.dice
        self._last = max(clock.seconds() + dice.expovariate(100), self._last)
        self._waiting += len(data)
        if self._waiting > self.MOST and self._producer is not None:
            self._producer.pauseProducing()
        cut = dice.randrange(len(data) + 1)
        clock.callLater(self._last - clock.seconds(), self._carried, [data[:cut], data[cut:]])

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def _carried(self, pieces: list[bytes]) -> None:
        before = self._waiting
        self._waiting -= sum(map(len, pieces))
        if before > self.MOST >= self._waiting:
            self._node.awake(self._drained)
        self.other._node.awake(lambda: self.other.arrived(pieces))

    def _drained(self) -> None:
        if self._producer is not None and self.up:
            self._producer.resumeProducing()

    def arrived(self, pieces: list[bytes]) -> None:
        """Bytes came."""
        self._kept.extend(piece for piece in pieces if piece)
        while self._kept and self.up and not self._paused:
            self.protocol.dataReceived(self._kept.popleft())

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self.arrived([])

    def loseConnection(self) -> None:
        self._world.clock.callLater(0.01, self.cut)

    def abortConnection(self) -> None:
        self.cut()

    def cut(self) -> None:
        """Both sides hear of it, those that live."""
        for end in (self, self.other):
            if end.up:
                end.up = False
                end._node.awake(end._lost)

    def _lost(self) -> None:
        if self.protocol.transport is not None and self._node.has(self.protocol):
            self.protocol.connectionLost(Failure(ConnectionDone()))


class SimNode:
    """One master: what is on its disk, and its process if there is one."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.folder = f"{world.folder}/{name}"
        self.root = f"{self.folder}/root"
        self.trees = {SHARE: self.root}
        self.life = 0
        self.sync: RootSync | None = None
        self.reactor: SimReactor
        self.links: set[RootLink] = set()
        self.fatal = -1
        self.skew = 0.0
        os.makedirs(self.root)

    @property
    def share(self) -> Any:
        assert self.sync is not None
        return self.sync.shares[SHARE]

    @property
    def stores(self) -> Mapping[str, RootStore]:
        """Of the shares that are here and open."""
        shares = self.sync.shares if self.sync is not None else {}
        return {name: share.store for name, share in shares.items() if share.store is not None}

    def holds(self, name: str, digest: bytes) -> bool:
        """Whether a content is in this node's directory, or in its store."""
        store = self.stores.get(name)
        return (store is not None and store.objects.has(digest)) or any(
            digest == _digest(f"{folder}/{each}")
            for folder, _, files in os.walk(self.trees[name])
            for each in files
        )

    # -- what a world with a membership says

    def members(self) -> Sequence[str]:
        """The others."""
        return [node.name for node in self.world.nodes if node is not self]

    def may(self, node: str, right: str) -> bool:
        """What a member may do."""
        return right != "write" or node not in self.world.readers

    def now(self) -> float:
        """By its own clock."""
        return NOW + self.world.clock.seconds() + self.skew

    def awake(self, work: Callable[[], None]) -> None:
        """Do something as soon as the process can."""
        work()

    def died(self) -> None:
        """The process is gone at a write."""
        self.world.deaths += 1
        self.kill()

    def begin_anew(self) -> None:
        """As the lifecycle does it: the process goes on with new parts."""
        self.reactor.callLater(0.1, self._again)

    def _again(self) -> None:
        self.kill()
        self.start()

    def has(self, protocol: RootLink) -> bool:
        """Whether this life made it."""
        return self.sync is not None and protocol in self.links

    def step(self, what: str) -> None:
        """An act of the store: perhaps the last one."""
        self.world.steps += 1
        if self.fatal == 0:
            self.fatal = -1
            raise Killed(what)
        if self.fatal > 0:
            self.fatal -= 1

    def pool(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """At once, and told a little later; after the death of the process never."""
        done: Deferred[Any] = Deferred()
        life, reactor = self.life, self.reactor
        try:
            result = function(*args)
        except Killed:
            self.died()
            return done
        except Exception:
            result = Failure()
        if life == self.life:
            reactor.callLater(self.world.dice.random() * 0.01, self._tell, done, result)
        return done

    def _tell(self, done: Deferred[Any], result: Any) -> None:
        self.reactor.poll()
        done.callback(result)

    def start(self) -> None:
        """A process."""
        if self.sync is None:
            self.build()
            self.begin()

    def build(self) -> None:
        """Its parts."""
        self.life += 1
        self.reactor = SimReactor(self)
        world = self.world
        options = {"free_mib": 0, "scan_s": 60}
        self.sync = RootSync(
            Host(
                reactor=self.reactor,
                node=self.name,
                pool=self.pool,
                fire=lambda tag, data: None,
                members=self.members,
                entropy=lambda count: world.dice.randbytes(count),
                now=self.now,
                # Never in the twentieth of a second after a write, which real time would decide
                now_ns=lambda: time.time_ns() + 10**9,
                may=self.may,
            ),
            [Root(name, path) for name, path in self.trees.items()],
            f"{self.folder}/store",
            options,
        )
        self.sync.news.on_stranded.append(lambda share: self.begin_anew())
        for name, share in self.sync.shares.items():
            share.core.make_store = partial(self._make_store, name, share.core.limits)

    def begin(self) -> None:
        """Its parts start."""
        assert self.sync is not None
        d = Deferred.fromCoroutine(self.sync.startService())
        d.addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        if failure.check(Killed):
            # At a write that was not made in the pool
            self.died()
            return
        self.world.errors.append(f"{self.name}: {failure.getTraceback()}")

    def _make_store(self, share: str, limits: Limits, where: str) -> SimStore:
        entropy = self.world.dice.randbytes
        return SimStore(self, share, where, self.name, entropy, self.now, Policy(), limits)

    def kill(self) -> None:
        """As by SIGKILL; what the kernel holds for it is gone."""
        sync, self.sync = self.sync, None
        self.life += 1
        links, self.links = self.links, set()
        if sync is None:
            return
        for link in links:
            if link.transport is not None:
                link.transport.cut()
        for share in sync.shares.values():
            share.core.end()
            share.watch.events.stop()
            share.core.tree.close()
            if share.store is not None:
                share.store.close()

    # -- what its administrator does

    def write(self, name: str, content: bytes, share: str = SHARE) -> None:
        """Write a file, and whatever directory it needs."""
        path = f"{self.trees[share]}/{name}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        except OSError:
            return
        os.write(fd, content)
        os.close(fd)
        self.world.stamp += 1
        os.utime(path, ns=(self.world.stamp * 10**9, self.world.stamp * 10**9))
        self.world.wrote(self, share, content)

    def edit(self, dice: Random, share: str = SHARE) -> None:
        """Something that people do to trees."""
        root = self.trees[share]
        path = f"{root}/{dice.choice(PATHS)}"
        roll = dice.random()
        try:
            if roll < 0.6:
                size = dice.choice((3, 30, 3000, 100_000))
                self.write(os.path.relpath(path, root), dice.randbytes(size), share)
            elif roll < 0.75:
                os.unlink(path)
            elif roll < 0.82:
                shutil.rmtree(f"{root}/{dice.choice(('one', 'two'))}")
            elif roll < 0.92:
                one, two = dice.sample(("one", "two", "three"), 2)
                os.rename(f"{root}/{one}", f"{root}/{two}")
            elif roll < 0.96:
                os.symlink("x", path)
                self.world.stamp += 1
                when = self.world.stamp * 10**9
                os.utime(path, ns=(when, when), follow_symlinks=False)
            else:
                os.chmod(path, dice.choice((0o600, 0o755)))
        except OSError:
            # It was not there, or something else was
            return


class World:
    """
    @param seed: says everything.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.clock = FastClock()
        self.stamp = 1_700_000_000
        self.steps = self.deaths = self.batches = self.set_backs = 0
        self.errors: list[str] = []
        self.shares: tuple[str, ...] = (SHARE,)
        self.histories: defaultdict[str, dict[Dot[ReplicaId], tuple[bytes, Any, Batch]]] = (
            defaultdict(dict)
        )
        self.nodes: list[SimNode] = []
        self.readers: frozenset[str] = frozenset()
        self.ends: dict[frozenset[str], End] = {}
        self.apart: set[frozenset[str]] = set()
        self.copies: dict[str, str] = {}
        self.folder = ""

    def having(self, name: str) -> Sequence[SimNode]:
        """The nodes that must have a share alike at the end."""
        return self.nodes

    def may_stream(self, one: SimNode, two: SimNode) -> bool:
        """Whether two can have a stream."""
        return frozenset((one.name, two.name)) not in self.apart

    def broken(self, why: str) -> None:
        """@raises Broken: always."""
        raise Broken(f"seed {self.seed}: {why}")

    def wrote(self, node: SimNode, name: str, content: bytes) -> None:
        """A user wrote a file."""

    def committed(self, name: str, batch: Batch) -> None:
        """A batch is on a disk."""
        self.batches += 1
        history = self.histories[name]
        for number, (path, entry) in enumerate(batch.entries):
            dot = Dot(batch.replica, batch.lo + number)
            old = history.get(dot)
            if old is not None and old[1] != entry and self._alive(name, dot):
                self.broken(f"{dot} was used twice")
            history[dot] = (path, entry, batch)

    def _alive(self, name: str, dot: Dot[ReplicaId]) -> bool:
        return any(
            name in node.stores and node.stores[name].knowledge.get(dot.source, 0) >= dot.number
            for node in self.nodes
            if node.name != dot.source.master
        )

    # -- the story

    def run(self) -> None:
        """@raises Broken: a promise was not kept."""
        with self.folder_of_its_own():
            self._play()

    @contextmanager
    def folder_of_its_own(self) -> Iterator[None]:
        """Where the disks of all nodes are; afterwards nothing of them is left."""
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="simroots-", dir=base)
        told, share = treeread.TOLD, rootlook.SCAN_SHARE
        # Seconds that pass here are none of the processor's: they make no look at everything dear
        rootlook.SCAN_SHARE = 0
        # In half of all worlds each new content is offered before its batch is made
        treeread.TOLD = 1 if self.seed % 2 else told
        try:
            yield
        finally:
            treeread.TOLD, rootlook.SCAN_SHARE = told, share
            for node in self.nodes:
                node.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _play(self) -> None:
        dice = self.dice
        self.nodes = [SimNode(self, name) for name in NAMES[: dice.choice((2, 3, 3, 4))]]
        if len(self.nodes) > 2 and self.seed % 5 == 0:
            # One may not write: what is edited there never gets anywhere
            self.readers = frozenset({self.nodes[-1].name})
        for name in FIXED:
            self.nodes[0].write(name, name.encode())
        for node in self.nodes:
            node.skew = dice.choice((0.0, 0.0, dice.uniform(-60, 60)))
            node.start()
        self._until(20.0, self._ready)
        for _ in range(ACTS):
            self._advance(dice.choice((0.01, 0.1, 0.3, 1.0, 5.0)))
            self._act()
        self._heal()
        self._settle()
        # What the kernel has not told is found by the next look at everything
        self._advance(SCANNED)
        self._settle()
        self.judge()

    def _settle(self) -> None:
        if not self._until(SETTLED, self.settled):
            self.broken(f"not alike in time: {self.states()}")

    def _act(self) -> None:
        dice = self.dice
        node = dice.choice(self.nodes)
        roll = dice.random()
        if roll < 0.55:
            for _ in range(dice.choice((1, 1, 1, 3))):
                node.edit(dice)
            if dice.random() < 0.3:
                # Somebody else does so at the same moment
                dice.choice(self.nodes).edit(dice)
        elif roll < 0.65:
            for end in list(self.ends.values()):
                if dice.random() < 0.5:
                    end.cut()
        elif roll < 0.72:
            names = [node.name for node in self.nodes]
            group = set(dice.sample(names, dice.randrange(1, len(names))))
            self.apart = {
                frozenset((one, two)) for one in group for two in names if two not in group
            }
            for pair in self.apart & self.ends.keys():
                self.ends[pair].cut()
        elif roll < 0.77:
            self.apart = set()
        elif roll < 0.87:
            node.fatal = dice.randrange(12)
        elif roll < 0.93:
            node.kill()
        elif roll < 0.96:
            self._lose_index(node)
        else:
            node.start()

    def _lose_index(self, node: SimNode) -> None:
        """The store is gone, or an earlier copy of it comes back."""
        others = [n for n in self.nodes if n is not node and n.sync is not None]
        if not any(
            other.share.store and other.share.store.knowledge and other.name not in self.readers
            for other in others
        ):
            return
        node.kill()
        store, copy = f"{node.folder}/store", f"{node.folder}/copy"
        if self.dice.random() < 0.5:
            shutil.rmtree(store, ignore_errors=True)
        elif os.path.isdir(copy):
            self.set_back(node, self.dice.choice(("noticed", "store", "disk")))
        elif os.path.isdir(store):
            self.back_up(node)

    def back_up(self, node: SimNode) -> None:
        """Copy the disk of a node that does not run."""
        for source, name in self._places(node):
            shutil.copytree(source, f"{node.folder}/copy/{name}", symlinks=True)

    def set_back(self, node: SimNode, how: str) -> None:
        """
        An earlier copy is back, of a node that does not run.

        @param how: C{noticed}: the files of the index are others, as after a copy; C{store}: they
            are the same, as far as can be seen; C{disk}: the trees are those of then, too.
        """
        self.set_backs += 1
        (store, _), *trees = self._places(node)
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(f"{node.folder}/copy/store", store, symlinks=True)
        for share in node.trees if how != "noticed" else ():
            index = f"{store}/{share.replace('/', '-')}/index.sqlite"
            if os.path.exists(index):
                with closing(sqlite3.connect(index)) as db, db:
                    inode = str(os.stat(index).st_ino)
                    db.execute("UPDATE meta SET value = ? WHERE name = 'inode'", (inode,))
        for tree, name in trees if how == "disk" else ():
            # The directory itself stays: it is the same one by its number
            for each in os.listdir(tree):
                path = f"{tree}/{each}"
                (shutil.rmtree if is_folder(path) else os.unlink)(path)
            shutil.copytree(f"{node.folder}/copy/{name}", tree, symlinks=True, dirs_exist_ok=True)

    def _places(self, node: SimNode) -> Sequence[tuple[str, str]]:
        """What is on the disk of a node, the store first: where it is, and its name in the copy."""
        trees = ((path, f"tree{number}") for number, path in enumerate(node.trees.values()))
        return (f"{node.folder}/store", "store"), *trees

    def _heal(self) -> None:
        self.apart = set()
        for node in self.nodes:
            node.fatal = -1
            node.start()

    # -- time

    def _until(self, limit: float, true: Callable[[], bool]) -> bool:
        end = self.clock.seconds() + limit
        while self.clock.seconds() < end:
            if true():
                return True
            self._advance(1.0)
        return true()

    def turn(self) -> None:
        """Make the streams that can be, and hear what the kernels have to tell."""
        self.dial()
        for node in self.nodes:
            if node.sync is not None:
                node.awake(node.reactor.poll)

    def _advance(self, seconds: float) -> None:
        self.turn()
        end = self.clock.seconds() + seconds
        while True:
            calls = self.clock.getDelayedCalls()
            due = min((call.getTime() for call in calls), default=end)
            if due > end:
                break
            self.clock.advance(max(due - self.clock.seconds(), 0.0))
        self.clock.advance(end - self.clock.seconds())

    def dial(self) -> None:
        """Make the streams that can be, most of them."""
        for number, one in enumerate(self.nodes):
            for two in self.nodes[number + 1 :]:
                pair = frozenset((one.name, two.name))
                if one.sync is None or two.sync is None or not self.may_stream(one, two):
                    continue
                end = self.ends.get(pair)
                if end is not None and end.up and end.other.up:
                    continue
                if self.dice.random() < 0.3:
                    continue
                ours, theirs = (
                    one.sync.streams.stream(two.name, True),
                    two.sync.streams.stream(one.name, False),
                )
                one.links.add(ours)
                two.links.add(theirs)
                first, second = End(self, one, ours), End(self, two, theirs)
                first.other, second.other = second, first
                self.ends[pair] = first
                ours.makeConnection(first)  # type: ignore[arg-type]
                theirs.makeConnection(second)  # type: ignore[arg-type]

    # -- the judge

    def _ready(self) -> bool:
        return all(
            node.sync is not None and node.sync.report.ready and name in node.sync.shares
            for name in self.shares
            for node in self.having(name)
        )

    def settled(self) -> bool:
        """Whether all are alike, and nothing is under way."""
        return self._ready() and all(map(self._is_alike, self.shares))

    def _is_alike(self, name: str) -> bool:
        shares = [node.sync.shares[name] for node in self.having(name) if node.sync is not None]
        return not shares or (
            all(share.is_settled and not share.core.coming for share in shares)
            and len({str(sorted(share.store.knowledge.items())) for share in shares}) == 1
            and len({share.generation.digest for share in shares}) == 1
            and not any(share.store.tree.pending(share.store.generation) for share in shares)
        )

    def states(self) -> list[Any]:
        """What each node says, for people."""
        return [
            (
                node.name,
                [
                    (
                        name,
                        share.generation.name if share.generation else "",
                        share.ready,
                        share.is_settled,
                        share.core.suspended,
                        share.core.last_error,
                        share.inbox.held_remote,
                        list(share.core.held),
                    )
                    for name, share in node.sync.shares.items()
                ],
                {n: link.error for n, link in node.sync.streams.links.items()},
                dict(node.sync.streams.flags),
            )
            for node in self.nodes
            if node.sync is not None
        ] + self.errors

    def judge(self) -> None:
        """@raises Broken: something was lost, or a directory is not what is committed."""
        for name in self.shares:
            if self.having(name):
                self._judge(name, self.having(name))

    def _judge(self, name: str, nodes: Sequence[SimNode]) -> None:
        for node in nodes:
            found, wanted = _tree(node.trees[name]), _manifest(node.stores[name].generation)
            if found != wanted:
                odd = {p for p in found.keys() | wanted.keys() if found.get(p) != wanted.get(p)}
                some = {path: (found.get(path, "-"), wanted.get(path, "-")) for path in odd}
                self.broken(f"the directory {name} of {node.name} differs: {some}")
        judge = judges.World(0)
        judge.history = self.histories[name]
        judge.replicas = [_Replica(node, name) for node in nodes]  # type: ignore[misc]
        try:
            judge.judge()
        except judges.Violation as error:
            self.broken(f"{name}: {error}")


class SetBackWorld(World):
    """Disks are set back again and again, none of them noticed."""

    def _act(self) -> None:
        dice = self.dice
        if dice.random() > 0.2:
            super()._act()
            return
        node = dice.choice(self.nodes)
        writers = [n for n in self.nodes if n is not node and n.name not in self.readers]
        if not any(other.sync and other.share.store for other in writers):
            return
        node.kill()
        copy = f"{node.folder}/copy"
        if os.path.isdir(copy) and dice.random() < 0.6:
            self.set_back(node, dice.choice(("store", "disk")))
        elif os.path.isdir(f"{node.folder}/store"):
            shutil.rmtree(copy, ignore_errors=True)
            self.back_up(node)
        node.start()


class _Replica:
    """A node, as the judge of the laws looks at replicas."""

    def __init__(self, node: SimNode, share: str) -> None:
        self.name = node.name
        store = node.stores[share]
        self.index = store.index
        self.conflicts: dict[tuple[bytes, Dot[ReplicaId]], Version] = {
            (path, version.dot): version for path, version, _, _ in store.conflicts.all()
        }


def is_folder(path: str) -> bool:
    """Whether it is a directory itself."""
    return os.path.isdir(path) and not os.path.islink(path)


def _digest(path: str) -> bytes:
    if os.path.islink(path):
        return b""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).digest()


def _tree(root: str) -> Mapping[bytes, Any]:
    found: dict[bytes, Any] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            full = f"{folder}/{name}"
            path = os.fsencode(os.path.relpath(full, root))
            if name.startswith(".saltwisted"):
                continue
            if os.path.islink(full):
                found[path] = os.fsencode(os.readlink(full))
            elif os.path.isdir(full):
                found[path] = None
            else:
                found[path] = (os.stat(full).st_size, os.stat(full).st_mode & 0o777)
    return found


def _manifest(generation: Generation) -> Mapping[bytes, Any]:
    kinds = {
        FILE: lambda entry: (entry.size, entry.mode),
        DIR: lambda entry: None,
        LINK: lambda entry: entry.content,
    }
    return {path: kinds[entry.kind](entry) for path, entry in generation.walk()}


def _counts(world: World) -> Mapping[str, int]:
    return {
        "batches": world.batches,
        "acts": world.steps,
        "deaths": world.deaths,
        "disks set back": world.set_backs,
    }


if __name__ == "__main__":
    sys.exit(play("tests.sim.roots", World, Broken, _counts))
