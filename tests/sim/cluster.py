"""
Two to seven masters, their keys, and what can go wrong between and below them, from one seed.

Real are the fact log with its tables (SQLite in memory), its folds, the shipping over links with
its machine, and the gates before requests after a start, a pause and a cut. Played are the network,
the moment at which a disk has synced, the clocks, and the operators. Time is a L{Clock} that jumps
from one event to the next.

What breaks, until a moment at which all is well again: links (cut, cut without a notice, in one
pair or around a whole group of nodes), messages (late; on wild wires also lost, twice, out of
order), nodes (killed at any write, losing what was not synced; frozen), disks (set back to an
earlier day with or without a notice, lost), clocks (drifting, jumping by a year).

What must hold, and where it is looked at:

 - All nodes know the same and show the same keys at the end, and these are what the rule says: a
   key is accepted if and only if somebody accepted it who knew of every revocation of it; so a
   deleted key never comes back by itself (L{World.check}).
 - A revocation is obeyed a second later wherever there is a sound link (C{World._obeyed}).
 - Elsewhere before the first request is answered that comes after the link did, or after a start
   or a pause; a member that does not answer is waited for C{CATCHUP_WAIT} seconds
   (L{World.served}).
 - What a node tells of is on its disk (C{World._told}).
 - Equal knowledge means equal digests, also when a disk was set back (L{World.check}).
 - A whole play is a function of its seed.

What minions do and what becomes of jobs and returns is played in L{tests.sim.jobs}.

C{python -m tests.sim.cluster --seeds 10000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import sqlite3
import sys
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from saltwisted.cluster.life.catchup import CatchUp
from saltwisted.cluster.life.standstill import PAUSE_SECONDS, Standstill
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KIND, REVOCATIONS, KeySet, finger_of
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import RequestTimeout, StoreError, TransportClosed
from saltwisted.stores.facts import table
from saltwisted.stores.facts.log import ReplicaLog, _Write
from saltwisted.transports.deferreds import as_deferred
from tests.sim.play import play

NOW = 1_800_000_000.0
SETTLED = 90.0
"""Seconds from healing until all nodes must be the same."""

BOUND = 1.0
"""Seconds in which a revocation is obeyed wherever there is a sound link."""

CATCHUP_WAIT = 10.0
"""Seconds for which a node waits for those that do not answer before it serves."""

DAY = 50.0
"""Seconds of a day here; tombstones live four of them, so some nodes come back too late."""


class FastClock(Clock):
    """A L{Clock} that does not sort all its calls for each new one."""

    def callLater(self, when: float, what: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        call = DelayedCall(
            self.seconds() + when, what, args, kw, self.calls.remove, _nothing, self.seconds
        )
        insort(self.calls, call, key=DelayedCall.getTime)
        return call

    def _sortCalls(self) -> None:
        """They are sorted."""


def _nothing(call: Any) -> None:
    """A call is never put off here."""


class Broken(AssertionError):
    """A promise was not kept."""


class SimDisk:
    """What is on a node's disk: one database, and its earlier days."""

    def __init__(self) -> None:
        self.db = _database()
        self.inode = 1
        self.days: list[sqlite3.Connection] = []

    def remember(self) -> None:
        """A backup."""
        day = _database()
        self.db.backup(day)
        self.days.append(day)

    def set_back(self, day: sqlite3.Connection, noticed: bool) -> None:
        """An earlier day is back; C{noticed}: the file is another one, as after a copy."""
        self.db = _database()
        day.backup(self.db)
        self.inode += noticed

    def lose(self) -> None:
        """Nothing is left."""
        self.db = _database()
        self.inode += 1


def _database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


class SimLog(ReplicaLog):
    """The fact log, with a simulated moment at which a write has reached the disk."""

    def __init__(self, world: World, node: SimNode, folds: Folds) -> None:
        super().__init__(world.clock, "", node.name, folds, world.entropy, node.now)
        self._world = world
        self._owner = node
        self._committing: list[_Write] = []
        self.ends = 0.0
        """When what is being written now will be on the disk."""

    def startService(self) -> None:
        """Read what is on the disk."""
        db = self._owner.disk.db
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:
            for number, text in enumerate(table.MIGRATIONS):
                db.executescript(f"BEGIN; {text} PRAGMA user_version={number + 1}; COMMIT;")
        self._load(db)
        self._db = db
        self._thread = self  # type: ignore[assignment]

    def _inode(self) -> int:
        return self._owner.disk.inode

    def stopService(self) -> Deferred[None]:
        self._thread = None
        return succeed(None)

    def _enqueue(self, write: _Write, wake: bool = True) -> Deferred[None]:
        if self._thread is None:
            return fail(StoreError("closed"))
        self._queue.append(write)
        if not self._committing:
            self._begin()
        return write.done

    def _begin(self) -> None:
        self._committing, self._queue = list(self._queue), type(self._queue)()
        delay = self._world.dice.choice((0.001, 0.004, 0.02, self._owner.slowness))
        self.ends = self._world.clock.seconds() + delay
        self._world.clock.callLater(delay, self._synced)

    def _synced(self) -> None:
        if self._thread is None:
            return
        if self._owner.frozen:
            self._world.clock.callLater(0.5, self._synced)
            return
        batch, self._committing = self._committing, []
        self.sync(batch)
        if self._queue:
            self._begin()
        for write in batch:
            if self._thread is not None:
                write.done.callback(None)

    def sync(self, batch: Sequence[_Write]) -> None:
        """One transaction."""
        assert self._db is not None and self._streams is not None
        self._db.execute("BEGIN")
        for write in batch:
            write.work(self._db, self._streams)
        self._db.execute("COMMIT")

    def kill(self) -> None:
        """The process is gone: what was being written may be on the disk, the rest is not."""
        if self._committing and self._world.dice.random() < 0.5:
            self.sync(self._committing)
        self._thread = None

    def since(self, after: Knowledge, limit: int) -> Deferred[Sequence[Entry]]:
        if self._thread is None:
            return fail(StoreError("closed"))
        db, upto = self._db, self.knowledge()
        assert db is not None
        d: Deferred[Sequence[Entry]] = Deferred()
        found = table.read_since(db, after, upto, limit)
        self._world.clock.callLater(self._world.dice.uniform(0, 0.01), d.callback, found)
        return d


class SimLink:
    """One side of a link."""

    def __init__(self, world: World, owner: SimNode, node: str) -> None:
        self.node = node
        self.queued = 0
        self.up = False
        self.lossy = False
        self._world = world
        self.owner = owner
        self.other: SimLink
        self._last = 0.0

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        self._world.carry(self, word, body + tail)

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Deferred[bytes]:
        if not self.up:
            return fail(TransportClosed("closed"))
        world, answer = self._world, Deferred[bytes]()
        number = str(world.messages) + "." + str(id(answer))

        def give(node: str, value: bytes) -> None:
            if not answer.called:
                answer.callback(value)

        def hear(node: str, value: bytes) -> None:
            said = self.other.owner.peers.words[word](node, value)
            done = succeed(said) if isinstance(said, bytes) else as_deferred(said)
            done.addCallback(lambda result: self.other.tell("<" + number, result))

        self.owner.peers.words["<" + number] = give
        self.other.owner.peers.words[">" + number] = hear
        self.tell(">" + number, body)
        return answer.addTimeout(
            timeout, world.clock, onTimeoutCancel=lambda *_: fail(RequestTimeout("late"))
        )

    def close(self, reason: str) -> None:
        raise Broken(f"{self.owner.name} closed its link to {self.node}: {reason}")

    def arrives(self, delay: float, ordered: bool) -> float:
        """When a message arrives that takes so long."""
        at = self._world.clock.seconds() + delay
        if ordered:
            at = self._last = max(at, self._last)
        return at


class SimClock:
    """What a process sees of the clock: its timers wait while it is frozen."""

    def __init__(self, node: SimNode) -> None:
        self._node, self._life = node, node.life

    def seconds(self) -> float:
        """Of all."""
        return self._node.world.clock.seconds()

    def callLater(self, when: float, what: Callable[..., Any], *args: Any) -> Any:
        """Of this life alone."""

        def due() -> None:
            if self._node.life == self._life:
                self._node.awake(lambda: what(*args))

        return self._node.world.clock.callLater(when, due)


class SimStandstill(Standstill):
    """
    The gate after a pause. The clock that it looks at is the time that its process was frozen,
    which says the same as a beat each second, and costs less.
    """

    def startService(self) -> None:
        self._running = True
        self._seen = self._boot()

    def stopService(self) -> None:
        self._running = False
        self._waiting.clear()


class SimPeers:
    """The links of one life of a node."""

    def __init__(self) -> None:
        self.live: dict[str, SimLink] = {}
        self.receivers: list[Callable[[Any, bool], None]] = []
        self.words: dict[str, Callable[[str, bytes], Any]] = {}

    def links(self) -> Sequence[Any]:
        return [self.live[node] for node in sorted(self.live)]

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        self.receivers.append(receiver)

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        self.words[word] = handler

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        raise NotImplementedError("nothing here streams")


@define(eq=False)
class SimNode:
    """
    A master.

    @ivar group: nodes of different groups cannot meet.
    @ivar offset: seconds by which its clock is wrong; C{drift}: seconds per second.
    @ivar slowness: the longest that its disk takes.
    @ivar young: deeds of this life that are not on its disk yet.
    @ivar refused: nodes of which it said in this life that they were away for too long.
    @ivar stood: seconds that it was frozen in this life.
    @ivar since: when it was frozen last.
    @ivar born: when this life began.
    @ivar met: nodes that it was linked to in this life.
    @ivar owes: what it has to obey since a link came up or it was thawed: the other node, the
        link, since when, and what was known there then.
    """

    world: World
    name: str
    disk: SimDisk = field(factory=SimDisk)
    alive: bool = False
    frozen: bool = False
    group: int = 0
    offset: float = 0.0
    drift: float = 0.0
    slowness: float = 0.02
    life: int = 0
    inbox: list[Callable[[], None]] = field(factory=list)
    young: set[str] = field(factory=set)
    refused: set[str] = field(factory=set)
    stood: float = 0.0
    since: float = 0.0
    born: float = 0.0
    met: set[str] = field(factory=set)
    owes: dict[str, tuple[SimLink, float, Knowledge]] = field(factory=dict)
    catch_up: CatchUp = field(init=False)
    standstill: SimStandstill = field(init=False)
    log: SimLog = field(init=False)
    keys: KeySet = field(init=False)
    peers: SimPeers = field(init=False)
    shipping: Shipping = field(init=False)

    def now(self) -> float:
        """By its own clock."""
        seconds = self.world.clock.seconds()
        return NOW + seconds * (1 + self.drift) + self.offset

    def start(self) -> None:
        """A new life."""
        self.life += 1
        self.alive, self.frozen = True, False
        self.inbox.clear()
        self.young.clear()
        self.refused.clear()
        self.peers = SimPeers()
        self.log = self.world.make_log(self)
        self.log.startService()
        self.shipping = self.world.make_shipping(self)
        heard = self.shipping.machine.caught_up
        self.log.all_told = lambda: heard.issuperset(self.world.others(self))
        self.shipping.on_refused = self._refused
        self.shipping.on_differs = self.world.differs
        self.shipping.startService()
        self.stood, self.born = 0.0, self.world.clock.seconds()
        self.met.clear()
        self.owes.clear()
        clock = SimClock(self)
        self.catch_up = CatchUp(
            clock=clock,
            peers=self.peers,
            others=lambda: self.world.others(self),
            caught_up_with=self.shipping.machine.peers.caught_up_with,
            digests=self.log.digests,
            verified=True,
            now_verified=lambda: None,
            wait=CATCHUP_WAIT,
            alone=True,
        )
        self.standstill = self.world.make_standstill(self, clock)
        self.standstill.startService()
        life = self.life
        serving = Deferred.fromCoroutine(self.catch_up.startService())
        _ = serving.addCallback(lambda _: self._serves(life))

    def _serves(self, life: int) -> None:
        if self.alive and self.life == life and self.catch_up.done:
            self.serve()
            self.request()

    def serve(self) -> None:
        """It has caught up: what waits for that begins."""

    def request(self) -> None:
        """A minion's request, which is answered now or later or never."""
        open_for_all = self.alive and not self.frozen and self.catch_up.done
        if open_for_all and not self.standstill.keeps(b"", "", lambda reply: None):
            self.world.served(self)

    def _refused(self, peer: str, by_peer: bool) -> None:
        self.world.tell(f"{self.name}: away too long, says {'' if by_peer else 'of '}{peer}")
        if not by_peer:
            self.refused.add(peer)
        else:
            self.world.clock.callLater(1.0, self._join_again, peer, self.life)

    def _join_again(self, peer: str, life: int) -> None:
        """What the operator is told to do; of two that refuse each other, one does it."""
        if self.alive and self.life == life and (peer not in self.refused or self.name > peer):
            self.world.rejoin(self)

    def kill(self) -> None:
        """End its process now."""
        if self.alive:
            self.alive = False
            self.catch_up.stopService()
            self.standstill.stopService()
            self.log.kill()
            self.shipping.stopService()
            self.peers.live.clear()

    def awake(self, work: Callable[[], None]) -> None:
        """Do something when it is not frozen."""
        if self.alive:
            if self.frozen:
                self.inbox.append(work)
            else:
                work()


@define
class Deed:
    """
    What an operator did, or a minion's sign-in led to.

    @ivar saw: the deeds that its node had in its folds, and what those on this key had seen.
    """

    name: str
    act: str
    minion_id: str
    finger: str
    node: str
    saw: frozenset[str]


class World:
    """
    A cluster.

    @ivar story: what happened, for people.
    """

    def __init__(self, seed: int, plan: Callable[[World], None] | None = None, size: int = 0):
        """
        @param plan: what goes wrong, instead of what the seed says.
        """
        self.seed = seed
        self.dice = Random(seed)
        self.asking = Random(seed)
        self.clock = FastClock()
        self.story: list[str] = []
        self.wild = plan is None and self.dice.random() < 0.3
        self.healed = False
        self.deeds: dict[str, Deed] = {}
        self.durable: set[str] = set()
        self.places: dict[str, set[Any]] = {}
        self.cuts: set[frozenset[str]] = set()
        self.sessions: dict[frozenset[str], tuple[SimLink, SimLink]] = {}
        self.set_backs = 0
        self.messages = 0
        self.alarms = 0
        self.requests = 0
        self.why = ""
        self._plan = plan
        count = size or self.dice.randint(2, 7)
        self.nodes = [SimNode(self, f"m{number}") for number in range(count)]
        self.minions = [f"web{number}" for number in range(self.dice.randint(1, 6))]
        self.pubs = [b"key a\n", b"key b\n"]

    # -- parts that a mutation replaces

    def make_log(self, node: SimNode) -> SimLog:
        """The log of one life."""
        log = SimLog(self, node, self.make_folds(node))
        log.on_entries(lambda entries, source: self._told(node, entries, source))
        return log

    def make_folds(self, node: SimNode) -> Folds:
        """What the log of one life adds up to."""
        node.keys = KeySet()
        return Folds([node.keys])

    def make_shipping(self, node: SimNode) -> Shipping:
        """The shipping of one life."""
        dice = Random(self.dice.random())
        return Shipping(node.name, node.log, node.peers, self.clock, dice)

    def make_standstill(self, node: SimNode, clock: SimClock) -> SimStandstill:
        """The gate of one life."""
        return SimStandstill(
            clock,
            node.peers,
            node.log.knowledge,
            lambda: True,
            lambda frame, peer, reply: self.served(node),
            CATCHUP_WAIT,
            lambda: node.stood,
        )

    def entropy(self, count: int) -> bytes:
        """Dice for incarnations."""
        return self.dice.randbytes(count)

    # -- who belongs to it: all, unless a world has a membership

    def others(self, node: SimNode) -> list[str]:
        """The other members, as this node knows them."""
        return [other.name for other in self.nodes if other is not node]

    def must_meet(self, node: SimNode) -> list[str]:
        """Whom it has to hear before it serves."""
        return self.others(node)

    def may_link(self, one: SimNode, other: SimNode) -> bool:
        """Whether two that are alive can have a link."""
        return self.may_meet(one, other)

    def begin(self) -> None:
        """Start whoever is there from the beginning."""
        for node in self.nodes:
            node.start()

    def judged(self) -> Sequence[SimNode]:
        """The nodes that must be the same at the end."""
        return self.nodes

    # -- the wire

    def tell(self, text: str) -> None:
        """A line for the story."""
        self.story.append(f"{self.clock.seconds():8.3f} {text}")

    def carry(self, link: SimLink, word: str, body: bytes) -> None:
        """Take a message from one side of a link to the other, or not."""
        if not link.up:
            return
        self.messages += 1
        # Questions have dice of their own: who asks more changes nothing else
        dice = self.asking if word[0] in "<>" else self.dice
        hello = b"\xa5hello" in body[:16]
        wild = self.wild and not self.healed and not hello
        copies = 1
        if wild and dice.random() < 0.06:
            copies = dice.choice((0, 2))
        delay = dice.choice((0.0005, 0.002, 0.01, 0.05))
        link.queued += len(body)
        life = link.other.owner.life

        def arrive() -> None:
            owner = link.other.owner
            if not self._meet(link):
                # What is lost on a cut network is missing in the stream: this link will be reset
                link.lossy = link.other.lossy = True
            elif link.other.up and owner.life == life:
                handler = owner.peers.words[word]
                owner.awake(lambda: link.other.up and handler(link.owner.name, body))

        for _ in range(copies):
            extra = dice.uniform(0, 0.3) if wild and dice.random() < 0.1 else 0.0
            at = link.arrives(delay + extra, ordered=not wild)
            self.clock.callLater(at - self.clock.seconds(), arrive)
        self.clock.callLater(delay, self._drained, link, len(body))

    def _drained(self, link: SimLink, size: int) -> None:
        link.queued -= size

    def _meet(self, link: SimLink) -> bool:
        return self.may_meet(link.owner, link.other.owner)

    def may_meet(self, one: SimNode, other: SimNode) -> bool:
        """Whether the network carries anything between two."""
        pair = frozenset((one.name, other.name))
        return one.group == other.group and pair not in self.cuts

    def _links(self) -> None:
        """Each second or so: make the links that can be, and end those that cannot."""
        for index, one in enumerate(self.nodes):
            for other in self.nodes[index + 1 :]:
                pair = frozenset((one.name, other.name))
                session = self.sessions.get(pair)
                can = one.alive and other.alive and self.may_link(one, other)
                if session is not None and any(not side.up for side in session):
                    del self.sessions[pair]
                elif session is not None and (not can or session[0].lossy):
                    # Somebody notices at last; for 15 seconds perhaps nobody does
                    if self.healed or self.dice.random() < 0.3:
                        self.unlink(pair)
                elif session is None and can and not (one.frozen or other.frozen):
                    self.link(one, other)
        self.clock.callLater(self.dice.uniform(0.5, 1.5), self._links)

    def link(self, one: SimNode, other: SimNode) -> None:
        """Both sides get their end."""
        near, far = SimLink(self, one, other.name), SimLink(self, other, one.name)
        near.other, far.other = far, near
        self.sessions[frozenset((one.name, other.name))] = (near, far)
        near.up = far.up = True
        for side in (near, far):
            owner, there = side.owner, side.other.owner
            owner.peers.live[side.node] = side
            owner.met.add(side.node)
            owner.owes[side.node] = (side, self.clock.seconds(), dict(there.log.knowledge()))
        for side in (near, far):
            for receiver in list(side.owner.peers.receivers):
                receiver(side, True)
            self._ask_soon(side.owner)

    def _ask_soon(self, node: SimNode) -> None:
        """Minions do not wait for a good moment."""
        node.request()
        for seconds in (0.02, 0.1, 0.7):
            self.clock.callLater(seconds, node.request)

    def unlink(self, pair: frozenset[str]) -> None:
        """Both sides lose their end."""
        for side in self.sessions.pop(pair, ()):
            side.up = False
            owner = side.owner
            if owner.alive and owner.peers.live.get(side.node) is side:
                del owner.peers.live[side.node]
                for receiver in list(owner.peers.receivers):
                    receiver(side, False)

    # -- what goes wrong

    def differs(self, peer: str, kind: str) -> None:
        """The digests of equal knowledge differ."""
        self.alarms += 1
        self.tell(f"{peer} knows the same and holds other {kind}")

    def kill(self, node: SimNode) -> None:
        """SIGKILL, or the power."""
        if node.alive:
            self.tell(f"{node.name} is killed")
            node.kill()
            for pair in [pair for pair in self.sessions if node.name in pair]:
                self.unlink(pair)

    def start(self, node: SimNode) -> None:
        """Start it again."""
        if not node.alive:
            node.start()
            self.tell(f"{node.name} starts as {node.log.stream.incarnation[:4]}")
            # What was on the disk when it was killed may not have been told of, and is known now
            self._stored(list(table.read_entries(node.disk.db)))

    def freeze(self, node: SimNode, seconds: float) -> None:
        """SIGSTOP, and later SIGCONT."""
        if node.alive and not node.frozen:
            self.tell(f"{node.name} is frozen for {seconds:.0f} s")
            node.frozen = True
            node.since = self.clock.seconds()
            self.clock.callLater(seconds, self.thaw, node, node.life)

    def thaw(self, node: SimNode, life: int) -> None:
        """SIGCONT."""
        if node.frozen and node.life == life:
            node.frozen = False
            now = self.clock.seconds()
            node.stood += now - node.since
            if now - node.since > PAUSE_SECONDS:
                for side in node.peers.live.values():
                    there = side.other.owner
                    if there.alive:
                        node.owes[side.node] = (side, now, dict(there.log.knowledge()))
            self._ask_soon(node)
            inbox, node.inbox = node.inbox, []
            for work in inbox:
                node.awake(work)

    def rejoin(self, node: SimNode) -> None:
        """Throw away what it has and join as new; what it alone knew is gone with it."""

        def work() -> None:
            self.kill(node)
            self._forget_alone(node)
            node.disk.lose()
            self.start(node)

        self.clock.callLater(0.1, work)

    def _forget_alone(self, node: SimNode) -> None:
        """Deeds that are on no other disk are lost with this one, and nothing was promised."""
        here = self._on_disk(node)
        others: set[str] = set()
        for other in self.nodes:
            if other is not node:
                others |= self._on_disk(other)
        lost = {name for name in here if name not in others}
        self._lose(lost)
        if lost:
            self.tell(f"lost with {node.name}: {' '.join(sorted(lost))}")

    def _lose(self, names: set[str]) -> None:
        """These are on no disk any more: what comes by their numbers is something else."""
        self.durable -= names
        for name in names:
            self.places.pop(name, None)

    def _on_disk(self, node: SimNode) -> set[str]:
        """The deeds that a disk holds, one by one or in a snapshot (then: all that it knows)."""
        try:
            entries = list(table.read_entries(node.disk.db))
            facts = list(table.read_facts(node.disk.db))
        except sqlite3.Error:
            return set()
        keys = KeySet()
        found = set()
        for entry in entries:
            fields = entry.fields()
            if entry.kind == KIND:
                found.add(str(fields.get("by", "")))
                keys.apply(fields, entry.stamp, entry.dot)
        for kind, fact in facts:
            if kind == KIND:
                keys.apply(*fact)
        known = {s: k for s, (k, _, _) in table.read_streams(node.disk.db).items()}
        for name, dot in self.places.items():
            if any(known.get(stream, 0) >= number for stream, number in dot):
                found.add(name)
        return found

    # -- operators

    def deed(self) -> None:
        """Somebody does something to a key, knowing what his node knows."""
        awake = [node for node in self.nodes if node.alive and not node.frozen]
        if not awake:
            return
        node = self.dice.choice(awake)
        minion_id, pub = self.dice.choice(self.minions), self.dice.choice(self.pubs)
        act = self.dice.choice(("accept", "accept", "pend", "delete", "reject", "delete", "clash"))
        self.act(node, act, minion_id, pub)

    def act(self, node: SimNode, act: str, minion_id: str, pub: bytes) -> str:
        """Do it; the name of the deed."""
        name = f"d{len(self.deeds)}"
        finger = finger_of(pub)
        saw = self.applied(node)
        # Who sees a deed on a key sees what it had seen
        for seen in [self.deeds[each] for each in saw]:
            if (seen.minion_id, seen.finger) == (minion_id, finger):
                saw |= seen.saw
        body = node.keys.act(act, minion_id, pub, by=name)
        self.deeds[name] = Deed(name, act, minion_id, finger, node.name, frozenset(saw))
        self.tell(f"{node.name}: {name} {act} {minion_id} {pub.decode().strip()[-1]}")
        node.young.add(name)
        done = node.log.append(KIND, body)
        done.addErrback(lambda failure: None)
        return name

    def applied(self, node: SimNode) -> set[str]:
        """The deeds whose streams this node's folds contain, its own that are under way too."""
        known = dict(node.log.knowledge())
        known[node.log.stream] = node.log.last
        found = set()
        for name, places in self.places.items():
            if any(known.get(stream, 0) >= number for stream, number in places):
                found.add(name)
        return found | node.young

    def _told(self, node: SimNode, entries: Sequence[Entry], source: str) -> None:
        """A log says that entries are on disk: are they? Others hear of them from now on."""
        known = {s: k for s, (k, _, _) in table.read_streams(node.disk.db).items()}
        for entry in entries:
            if known.get(entry.stream, 0) < entry.number:
                self.broken(f"{node.name} tells of {entry.dot}, which is not on its disk")
        self._stored(entries)

    def _stored(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.kind != KIND:
                continue
            fields = entry.fields()
            name = str(fields.get("by", ""))
            if name not in self.deeds:
                continue
            places = self.places.setdefault(name, set())
            new = not places
            places.add((entry.stream, entry.number))
            for node in self.nodes:
                node.young.discard(name)
            self.durable.add(name)
            if new and self.deeds[name].act in REVOCATIONS:
                self._watch(name)

    def _watch(self, name: str) -> None:
        """A revocation is on disk: where the links are sound, it is obeyed a second later."""
        deed = self.deeds[name]
        node = next(n for n in self.nodes if n.name == deed.node)
        sound = (
            []
            if self.wild
            else [
                (link, link.other.owner, link.other.owner.life)
                for link in (node.peers.links() if node.alive else [])
                if self._sound(link)
            ]
        )
        self.clock.callLater(BOUND, self._obeyed, name, sound)

    def _sound(self, link: SimLink) -> bool:
        one, other = link.owner, link.other.owner
        return (
            link.up
            and not link.lossy
            and self._meet(link)
            and not (one.frozen or other.frozen)
            and max(one.slowness, other.slowness) < 0.1
            and max(one.log.ends, other.log.ends) < self.clock.seconds() + 0.1
            and other.shipping.machine.peers.lag(one.name) is not None
            and one.shipping.machine.peers.lag(other.name) is not None
        )

    def _obeyed(self, name: str, sound: list[tuple[SimLink, SimNode, int]]) -> None:
        deed = self.deeds[name]
        for link, node, life in sound:
            if not self._sound(link) or node.life != life:
                continue
            if self._accepts(node, deed):
                self.broken(f"{node.name} still accepts {deed.minion_id} after {name}")

    def served(self, node: SimNode) -> None:
        """
        A node answers a request: it obeys what was revoked on a member before the two could
        meet again, or had to wait for that member for too long.
        """
        now = self.clock.seconds()
        if node.life != 1 and now < node.born + CATCHUP_WAIT and not self.wild:
            unmet = [name for name in self.must_meet(node) if name not in node.met]
            if unmet:
                self.broken(f"{node.name} serves and has not heard {unmet}")
        for name, (link, since, known) in node.owes.items():
            if self.wild or now >= since + CATCHUP_WAIT or not (link.up and not link.lossy):
                continue
            for deed in self._revocations(known):
                if self._accepts(node, deed):
                    self.broken(f"{node.name} serves {deed.minion_id}; {name} knows {deed.name}")
        self.requests += 1

    def _revocations(self, known: Knowledge) -> Iterator[Deed]:
        """What was revoked in this knowledge."""
        for name, places in self.places.items():
            deed = self.deeds[name]
            if deed.act in REVOCATIONS and any(known.get(s, 0) >= n for s, n in places):
                yield deed

    def _accepts(self, node: SimNode, deed: Deed) -> bool:
        """Whether a node has a key for accepted, though nobody who knew has accepted it again."""
        register = node.keys.register(deed.minion_id, deed.finger)
        return (
            register is not None
            and register.word == "accepted"
            and not any(
                other.act == "accept"
                and other.finger == deed.finger
                and other.minion_id == deed.minion_id
                and deed.name in other.saw
                for other in self.deeds.values()
            )
        )

    # -- a whole play

    def mishap(self) -> None:
        """Something goes wrong."""
        dice, node = self.dice, self.dice.choice(self.nodes)
        kind = dice.random()
        if kind < 0.3:
            self.kill(node)
            if node.disk.days and dice.random() < 0.15:
                self._set_back(node)
            elif dice.random() < 0.05 and len([n for n in self.nodes if n.alive]) > 1:
                self.tell(f"{node.name} loses its disk")
                self._forget_alone(node)
                node.disk.lose()
            self.clock.callLater(dice.choice((0.01, 1.0, 20.0)), self.start, node)
        elif kind < 0.45:
            self.freeze(node, dice.choice((1.0, 7.0, 25.0)))
        elif kind < 0.6:
            other = dice.choice(self.nodes)
            pair = frozenset((node.name, other.name))
            if len(pair) == 2:
                self.tell(f"cut between {node.name} and {other.name}")
                self.cuts.add(pair)
                self.clock.callLater(dice.choice((2.0, 30.0)), self.cuts.discard, pair)
        elif kind < 0.75:
            self.tell("the network falls into groups")
            for each in self.nodes:
                each.group = dice.randint(0, 1)
            self.clock.callLater(dice.choice((3.0, 30.0)), self._rejoin_groups)
        elif kind < 0.85:
            node.offset = dice.choice((0.0, 0.5, -3.0, 700.0, -86400.0, 365 * 86400.0))
            node.drift = dice.choice((0.0, 0.01, -0.01))
            self.tell(f"the clock of {node.name} is {node.offset:+.1f} s off")
        elif kind < 0.92:
            node.slowness = dice.choice((0.02, 0.02, 0.5, 3.0))
        elif node.alive and not node.frozen:
            self.tell(f"{node.name} compacts")
            _ = Deferred.fromCoroutine(node.log.compact(keep=dice.choice((0, 2, 5)))).addErrback(
                lambda failure: None
            )

    def _set_back(self, node: SimNode) -> None:
        noticed = self.dice.random() < 0.5
        self.tell(f"{node.name} is set back to an earlier day ({noticed=})")
        self.set_backs += 1
        before = self._on_disk(node)
        day = self.dice.choice(node.disk.days)
        held = {
            n: self._on_disk(n_) for n, n_ in ((x.name, x) for x in self.nodes if x is not node)
        }
        node.disk.set_back(day, noticed)
        after = self._on_disk(node)
        elsewhere: set[str] = set().union(*held.values()) if held else set()
        self._lose({name for name in before if name not in after | elsewhere})

    def _rejoin_groups(self) -> None:
        for node in self.nodes:
            node.group = 0

    def _daily(self) -> None:
        """What the master does once a day, here more often."""
        for node in self.nodes:
            if node.alive and not node.frozen:
                node.disk.remember()
                _ = node.log.mark(4, 2).addErrback(lambda failure: None)
        self.clock.callLater(DAY, self._daily)

    def run(self) -> None:
        """
        Play it.

        @raises Broken: with the story, when a promise was not kept.
        """
        self.begin()
        self._links()
        self.clock.callLater(DAY / 2, self._daily)
        length = 60.0
        if self._plan is None:
            length = self.dice.choice((20.0, 60.0, 60.0, 400.0))
            for _ in range(self.dice.randint(5, 40)):
                self.clock.callLater(self.dice.uniform(0, length), self.deed)
            for _ in range(self.dice.randint(0, 14)):
                self.clock.callLater(self.dice.uniform(0, length), self.mishap)
        else:
            self._plan(self)
        self.play(length)
        self.heal()
        self.settle()
        if self.why:
            raise Broken(self.why)
        self.check()

    def settle(self) -> None:
        """Give all the time in which they must become the same."""
        self.play(SETTLED)

    def play(self, seconds: float) -> None:
        """Let time pass, from event to event."""
        end = self.clock.seconds() + seconds
        while not self.why:
            calls = self.clock.getDelayedCalls()
            if not calls or calls[0].getTime() > end:
                break
            self.clock.advance(max(0.0, calls[0].getTime() - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def heal(self) -> None:
        """All is well from now on."""
        self.healed = True
        self.tell("all is well again")
        self.cuts.clear()
        self._rejoin_groups()
        for node in self.nodes:
            node.slowness = 0.02
            self.start(node)
            self.thaw(node, node.life)

    # -- promises

    def broken(self, why: str) -> None:
        """A promise was not kept; it may be inside a Deferred that this is noticed."""
        text = "\n".join([f"seed {self.seed}: {why}", *self.story[-60:]])
        self.why = self.why or text
        raise Broken(text)

    def check(self) -> None:
        """Same knowledge, same keys everywhere; and they are what the rule says."""
        if self.alarms:
            self.broken("digests differed")
        nodes = self.judged()
        first = nodes[0]
        for node in nodes:
            if node.log.knowledge() != first.log.knowledge():
                self.broken(
                    f"{node.name} knows {_short(node.log.knowledge())}, "
                    f"{first.name} {_short(first.log.knowledge())}"
                )
            if node.log.digests() != first.log.digests() or not node.log.digests():
                self.broken(f"{node.name} and {first.name} hold different keys")
            for minion_id in self.minions:
                if node.keys.view(minion_id) != first.keys.view(minion_id):
                    self.broken(f"{node.name} and {first.name} show {minion_id} differently")
        for minion_id in self.minions:
            for pub in self.pubs:
                self._check_key(first, minion_id, finger_of(pub))

    def _check_key(self, node: SimNode, minion_id: str, finger: str) -> None:
        deeds = [
            self.deeds[name]
            for name in self.durable
            if self.deeds[name].minion_id == minion_id and self.deeds[name].finger == finger
        ]
        revoked = {deed.name for deed in deeds if deed.act in REVOCATIONS}
        accepts = [deed for deed in deeds if deed.act == "accept"]
        register = node.keys.register(minion_id, finger)
        accepted = register is not None and register.word == "accepted"
        may = any(revoked <= deed.saw for deed in accepts)
        if accepted and not may:
            self.broken(f"{minion_id} is accepted, though nobody did so who knew of {revoked}")
        if may and not accepted and not self.set_backs:
            self.broken(f"{minion_id} is not accepted: {register}")


def _short(knowledge: Knowledge) -> str:
    return " ".join(f"{s.node}/{s.incarnation[:4]}:{n}" for s, n in sorted(knowledge.items()))


def _counts(world: World) -> dict[str, int]:
    return {
        "requests": world.requests,
        "digests differed": world.alarms,
        "messages": world.messages,
    }


if __name__ == "__main__":
    sys.exit(play("tests.sim.cluster", World, Broken, _counts))
