"""
One to five masters that claim short acts and duties, and what can go wrong between and below them,
from one seed.

Real are the votes with their rules and their tables (SQLite in memory), the claims on top of them,
and the changes of who votes. Played are the network, the moment at which a disk has synced, the
clocks, the events, and what is done under a claim. Time is a clock that jumps from one
event to the next.

What breaks, until a moment at which all is well again: links (cut, or silent without a notice),
messages (late, also later than they are waited for), nodes (killed at any write, losing what was
not synced; frozen beyond a term), disks (lost), clocks (drifting by a hundredth, the time
of day jumping by a year), membership (nodes join, most of them after they were masters of their
own with votes and duties, and are removed). Some worlds begin with one node, which others join
within seconds of each other.

What must hold:

 - Two nodes never do the same duty at the same moment of true time.
 - What is done under a key is done under growing terms: the same or a lower one never follows.
 - An act that may be done once at most is done once at most; one that may be repeated is repeated
   under the same plan.
 - When all is well again for a while each duty is held by one node, no act is unfinished, and a
   new one is granted to each node.

C{python -m tests.sim.claims --seeds 10000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any
from unittest import mock

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed

from saltwisted.cluster.claims.claims import ClusterClaims
from saltwisted.cluster.claims.votes import Votes
from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.claims.voter import Adopt, Whole, Write, settle_seconds
from saltwisted.domain.claims.words import Claim
from saltwisted.errors import RequestTimeout, TransportClosed
from saltwisted.stores import claims as table
from saltwisted.transports import turns
from saltwisted.transports.deferreds import as_deferred
from tests.sim.batches import SimBatches
from tests.sim.cluster import FastClock
from tests.sim.play import play

WINDOW = 10.0
"""Longer than a term: else all that dead holders left is too old to be done again."""
TROUBLE = 90.0
"""Seconds in which things break."""
QUIET = 130.0
"""Seconds after which all has to be well."""
KILL_TIME = 1.0
"""Seconds that the end of a duty takes at most."""
DUTIES = ("schedule/a", "schedule/b")
HOT = "hot"
"""A minion that is at all nodes, and keeps copies of its events for those that are away."""
ONE = "one"
"""The cluster that all of them join."""
YEAR = 365 * 86400.0


class Broken(AssertionError):
    """A promise was not kept."""


class SimStore:
    """The votes' store, with a simulated moment at which a write has reached the disk."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.batches: SimBatches[list[Write]] = SimBatches(node, self._commit)

    def load(self) -> Deferred[Any]:
        def read() -> None:
            table.own(self.node.disk, self.node.cluster, self.node.name)
            done.callback(table.read(self.node.disk))

        done: Deferred[Any] = Deferred()
        # Links come up before that, too
        seconds = self.node.world.dice.choice((0.0, 0.01, 1.5))
        SimClock(self.node).callLater(seconds, read)
        return done

    def close(self) -> Deferred[None]:
        return succeed(None)

    def write(self, writes: Iterable[Write]) -> Deferred[None]:
        return self.batches.add(list(writes))

    def _commit(self, work: list[list[Write]]) -> None:
        table.commit(self.node.disk, [write for group in work for write in group])

    def prune(self, before: float) -> Deferred[int]:
        return succeed(table.delete_receipts(self.node.disk, before))

    def receipts(self, event: str, limit: int) -> Deferred[Any]:
        return succeed(table.read_receipts(self.node.disk, event, limit))


class SimLink:
    """One side of a link of two lives."""

    def __init__(self, world: World, owner: SimNode, other: SimNode) -> None:
        self.world, self.owner, self.other = world, owner, other
        self.node = other.name
        self.lives = (owner.life, other.life)
        self.silent = False
        self.last = 0.0
        self.asked: list[Deferred[bytes]] = []

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred()
        self.asked.append(answer)

        def arrived() -> None:
            handler = self.other.peers.words[word]
            said = handler(self.owner.name, body)
            done = succeed(said) if isinstance(said, bytes) else as_deferred(said)
            done.addCallbacks(
                lambda got: back.carry(lambda: answer.called or answer.callback(got)),
                lambda failure: back.carry(lambda: answer.called or answer.errback(failure)),
            )

        back = self.other.links.get(self.owner.name)
        if back is None:
            return fail(TransportClosed("closed"))
        self.carry(arrived)
        clock = SimClock(self.owner)
        timer = clock.callLater(
            timeout, lambda: answer.called or answer.errback(RequestTimeout("late"))
        )

        def settled(value: Any) -> Any:
            if timer.active():
                timer.cancel()
            return value

        return answer.addBoth(settled)

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        self.carry(lambda: self.other.peers.words[word](self.owner.name, body + tail))

    def carry(self, deliver: Callable[[], Any]) -> None:
        """Bring it to the other side, in order, unless this is silent or cut meanwhile."""
        if self.silent:
            return
        world = self.world
        at = world.clock.seconds() + world.dice.choice(world.delays)
        self.last = at = max(at, self.last)
        world.messages += 1

        def come() -> None:
            if self.owner.links.get(self.node) is self and self.other.life == self.lives[1]:
                self.other.awake(deliver)

        world.clock.callLater(at - world.clock.seconds(), come)


class SimPeers:
    """The links of one life."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.words: dict[str, Any] = {}
        self.receivers: list[Any] = []

    def links(self) -> Sequence[SimLink]:
        return [self.node.links[name] for name in sorted(self.node.links)]

    def on_link(self, receiver: Any) -> None:
        self.receivers.append(receiver)

    def answer(self, word: str, handler: Any) -> None:
        self.words[word] = handler


class SimClock:
    """What one life of a process sees of a clock that drifts and that nobody sets."""

    def __init__(self, node: SimNode) -> None:
        self.node, self.life = node, node.life

    def seconds(self) -> float:
        return self.node.world.clock.seconds() * self.node.rate + 1000.0

    def callLater(self, when: float, what: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        def due() -> None:
            if self.node.life == self.life:
                self.node.awake(lambda: what(*args, **kw))

        return self.node.world.clock.callLater(max(0.0, when) / self.node.rate, due)


@define(eq=False)
class Doing:
    """A duty that is done."""

    node: SimNode
    life: int
    term: int
    claim: Claim


@define(eq=False)
class SimNode:
    """
    A master.

    @ivar rate: seconds of its clock per second.
    @ivar cluster: the world's, or its own before it joins.
    @ivar knows: the members, as far as it has heard.
    @ivar gone: members that it has heard are removed.
    """

    world: World
    name: str
    rate: float = 1.0
    cluster: str = ONE
    disk: sqlite3.Connection = field(init=False)
    offset: float = 0.0
    life: int = 0
    alive: bool = False
    frozen: bool = False
    inbox: list[Callable[[], Any]] = field(factory=list)
    links: dict[str, SimLink] = field(factory=dict)
    knows: set[str] = field(factory=set)
    gone: set[str] = field(factory=set)
    peers: SimPeers = field(init=False)
    store: SimStore = field(init=False)
    votes: Votes = field(init=False)
    claims: ClusterClaims = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.disk = new_disk()

    def awake(self, what: Callable[[], Any]) -> None:
        """Do it when this process runs."""
        if self.frozen:
            self.inbox.append(what)
        else:
            what()

    def start(self) -> None:
        """A new life."""
        self.life += 1
        self.alive, self.frozen = True, False
        self.inbox.clear()
        self.peers = SimPeers(self)
        self.store = SimStore(self)
        clock, world = SimClock(self), self.world
        self.votes = Votes(
            clock,
            self.name,
            self.name,
            self.peers,  # type: ignore[arg-type]
            lambda: [Seat(name, name) for name in sorted(self.knows - self.gone)],
            lambda: self.gone,
            lambda link: link.node,
            self.store,
            f"{self.life}",
            lambda: world.clock.seconds() + self.offset,
            "pair",
            WINDOW,
        )
        self.claims = ClusterClaims(
            clock,
            self.name,
            self.votes,
            world.dice.random,
            WINDOW,
            Counter(),
            elsewhere=lambda minion: minion == HOT,
        )
        self.claims.on_recover("act", self.recover)
        for name in DUTIES:
            self.want(name)
        claims, life = self.claims, self.life
        started = Deferred.fromCoroutine(self.votes.startService())

        def then(_: Any) -> None:
            if self.life == life:
                claims.startService()

        started.addCallback(then)  # type: ignore[unused-awaitable]
        started.addErrback(world.failed)  # type: ignore[unused-awaitable]

    async def stop(self) -> None:
        """This life ends as a service does that is stopped."""
        claims, votes = self.claims, self.votes
        await claims.stopService()
        await votes.stopService()

    def want(self, name: str) -> None:
        """It would do a duty."""
        self.claims.duty(
            name,
            lambda claim: self.world.begun(self, name, claim),
            lambda why: self.world.ends(self, name),
        )

    def kill(self) -> None:
        """The process is gone: what was being written may be on the disk, the rest is not."""
        if not self.alive:
            return
        self.world.tell(f"{self.name} is killed")
        self.alive = self.frozen = False
        self.inbox.clear()
        self.life += 1
        if self.world.dice.random() < 0.5:
            self.store.batches.sync()
        for name in list(self.links):
            self.world.cut(self, self.world.nodes[name])

    def freeze(self) -> None:
        """It stands still."""
        self.world.tell(f"{self.name} is frozen")
        self.frozen = True

    def thaw(self) -> None:
        """
        It goes on: what came meanwhile is read, and timers are due, in any order; but before
        that it looks at what it holds.
        """
        if not self.frozen:
            return
        self.world.tell(f"{self.name} goes on")
        self.frozen = False
        self.claims.look()
        inbox, self.inbox = self.inbox, []
        for each in inbox:
            self.awake(each)

    # What it does

    def react(self, key: str, kind: str) -> None:
        """An event has come."""
        plan = {"kind": kind, "jid": f"{self.name}{self.life}"}
        life = self.life
        d = as_deferred(self.claims.begin(key, plan, "a test", "tag"))

        def answered(answer: Any) -> None:
            self.world.counts[type(answer).__name__] += 1
            if isinstance(answer, Claim) and self.life == life:
                self.act(key, plan, answer)

        d.addCallback(answered)  # type: ignore[unused-awaitable]
        d.addErrback(self.world.failed)  # type: ignore[unused-awaitable]

    def act(self, key: str, plan: Any, claim: Claim) -> None:
        """Do what is planned, and end it some time later."""
        life, wait = self.life, self.world.dice.choice((0.0, 0.0, 0.05, 3.0))

        def do() -> None:
            result = "lost"
            if self.claims.holds(claim):
                self.world.effect(self, key, plan, claim)
                result = "done"
            more = self.world.dice.choice((0.0, 0.1, 9.0))
            SimClock(self).callLater(more, self.over, claim, result)

        if self.life == life:
            SimClock(self).callLater(wait, do)
            if not self.world.is_well and self.world.dice.random() < 0.03:
                # The worst moment: it has the claim, and has not acted
                self.freeze()

    def over(self, claim: Claim, result: str) -> None:
        """It has ended."""
        d = as_deferred(self.claims.end(claim, result))
        d.addErrback(self.world.failed)  # type: ignore[unused-awaitable]

    def recover(self, key: str, plan: Any, claim: Claim) -> Any:
        """A dead member had begun it."""
        self.world.counts["recovered"] += 1
        can_repeat = plan.get("kind") == "local" and not claim.is_doubtful
        if can_repeat and self.claims.holds(claim):
            self.world.effect(self, key, plan, claim)
            return self.claims.end(claim, "done")
        self.world.counts["lost"] += 1
        return self.claims.end(claim, "lost")


def new_disk() -> sqlite3.Connection:
    """Nothing was voted."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for number, text in enumerate(table.MIGRATIONS):
        db.executescript(f"BEGIN; {text} PRAGMA user_version={number + 1}; COMMIT;")
    return db


class World:
    """
    What a seed makes of it.

    @cvar grows: how likely it is that it begins with one node.
    @cvar sizes: with how many nodes it may begin.
    @ivar peace: seconds before the first trouble.
    """

    grows = 0.2
    peace = 0.0
    sizes: tuple[int, ...] = (1, 2, 2, 3, 3, 3, 4, 5)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.clock = FastClock()
        self.story: list[str] = []
        self.counts: Counter[str] = Counter()
        self.messages = 0
        self.deadly = 0.0
        self.delays = self.dice.choice(((0.001,), (0.001, 0.01, 0.05), (0.01, 0.3, 1.5)))
        self.doing: dict[str, list[Doing]] = {name: [] for name in DUTIES}
        self.terms: dict[str, int] = {}
        self.done: dict[str, list[tuple[str, str, int]]] = {}
        self.last: dict[str, tuple[Any, float]] = {}
        self.cuts: set[frozenset[str]] = set()
        self.nodes: dict[str, SimNode] = {}
        self.removed: set[str] = set()
        self.acts = 0
        size = self.dice.choice(self.sizes)
        self.size = size
        names = "abcde"[:size]
        if self.dice.random() < self.grows:
            self.grow(names)
            return
        for name in names:
            self.make(name, names)
        first = [Adopt(found([Seat(name, name) for name in names])), Whole()]
        for node in self.nodes.values():
            table.own(node.disk, ONE, node.name)
            table.commit(node.disk, first)
            node.start()
        self.heal()

    def grow(self, names: Sequence[str]) -> None:
        """It begins with one node; the others join within seconds."""
        first, *others = self.dice.sample(names, len(names))
        self.make(first, [first]).start()
        span = self.dice.choice((2.0, 10.0, 40.0))
        for name in others:
            self.alone(name, self.dice.uniform(0.0, span))
        self.peace = self.dice.choice((0.0, 15.0, 60.0))

    def make(self, name: str, knows: Iterable[str]) -> SimNode:
        """A node, with nothing on its disk."""
        rate = 1.0 + self.dice.choice((0.0, 0.0, 0.01, -0.01))
        node = self.nodes[name] = SimNode(self, name, rate)
        node.knows = set(knows)
        return node

    def tell(self, text: str) -> None:
        """Into the story."""
        self.story.append(f"{self.clock.seconds():.3f} {text}")

    def broken(self, why: str) -> None:
        """
        @raises Broken: always.
        """
        story = "\n".join(self.story[-80:])
        # Who is called may keep what is raised to itself, and log it
        self.fault = self.fault or Broken(f"seed {self.seed}: {why}\n{story}")
        raise self.fault

    def failed(self, failure: Any) -> Any:
        """What is never to fail has."""
        if failure.check(Broken):
            return failure
        self.problem = failure.getTraceback()
        self.tell(self.problem)
        self.broken("an error")
        return None

    # The network

    def link(self, one: SimNode, other: SimNode) -> None:
        """They can meet."""
        pair = frozenset((one.name, other.name))
        if pair in self.cuts or not (one.alive and other.alive) or other.name in one.links:
            return
        if {one.name, other.name} & (one.gone | other.gone):
            return
        if other.name not in one.knows or one.name not in other.knows:
            return
        for a, b in ((one, other), (other, one)):
            a.links[b.name] = SimLink(self, a, b)
        # All that one of them has heard of the members the other hears now
        for a, b in ((one, other), (other, one)):
            b.knows |= a.knows
            b.gone |= a.gone
        for a, b in ((one, other), (other, one)):
            link = a.links.get(b.name)
            if link is not None:
                for receiver in a.peers.receivers:
                    a.awake(lambda receiver=receiver, link=link: receiver(link, True))

    def cut(self, one: SimNode, other: SimNode) -> None:
        """The link ends."""
        for a, b in ((one, other), (other, one)):
            link = a.links.pop(b.name, None)
            if link is None:
                continue
            for receiver in a.peers.receivers:
                if a.alive:
                    a.awake(lambda receiver=receiver, link=link: receiver(link, False))
            for asked in link.asked:
                if not asked.called and a.alive:
                    a.awake(
                        lambda asked=asked: asked.called or asked.errback(TransportClosed("cut"))
                    )

    def silence(self, one: SimNode, other: SimNode) -> None:
        """Nothing comes through, and nobody is told; later the link ends."""
        for a, b in ((one, other), (other, one)):
            if b.name in a.links:
                a.links[b.name].silent = True
        self.clock.callLater(self.dice.choice((2.0, 10.0)), self.cut, one, other)

    def pairs(self) -> list[tuple[SimNode, SimNode]]:
        """All."""
        nodes = list(self.nodes.values())
        return [(a, b) for n, a in enumerate(nodes) for b in nodes[:n]]

    def partition(self) -> None:
        """A group of nodes is cut off, or one pair."""
        quietly = self.dice.random() < 0.5
        group = {name for name in self.nodes if self.dice.random() < 0.5}
        chosen = [p for p in self.pairs() if (p[0].name in group) != (p[1].name in group)]
        if self.dice.random() < 0.3:
            chosen = [self.dice.choice(self.pairs())] if self.pairs() else []
        self.tell(f"cut{' silently' if quietly else ''}: {[a.name + b.name for a, b in chosen]}")
        for one, other in chosen:
            self.cuts.add(frozenset((one.name, other.name)))
            if quietly:
                self.silence(one, other)
            else:
                self.cut(one, other)

    def heal(self) -> None:
        """All that live can meet."""
        self.cuts.clear()
        self.meet()

    def meet(self) -> None:
        """Links are dialled again."""
        for one, other in self.pairs():
            self.link(one, other)
        for node in self.nodes.values():
            for name in list(node.links):
                # Facts of members go by every link, and soon
                node.knows |= self.nodes[name].knows
                node.gone |= self.nodes[name].gone
            for name in list(node.links):
                if name in node.gone or node.name in node.gone:
                    self.cut(node, self.nodes[name])

    # What is done

    def begun(self, node: SimNode, name: str, claim: Claim) -> None:
        """A duty is begun."""
        self.tell(f"{node.name} begins {name}, term {claim.term}")
        if node.cluster != ONE:
            self.counts["own duties"] += 1
            return
        self.counts["duties"] += 1
        doing = self.doing[name]
        doing[:] = [d for d in doing if d.node.life == d.life]
        others = [d for d in doing if not d.node.frozen]
        if others:
            self.broken(f"{name}: {node.name} begins and {others[0].node.name} does it still")
        if claim.term <= self.terms.get(name, 0):
            self.broken(f"{name}: {node.name} begins with term {claim.term} again")
        self.terms[name] = claim.term
        doing.append(Doing(node, node.life, claim.term, claim))

    def ends(self, node: SimNode, name: str) -> Any:
        """A duty is to end: at once after its term, else within a second."""
        self.tell(f"{node.name} ends {name}")
        doing = self.doing[name]
        own = [d for d in doing if d.node is node and d.life == node.life]
        ended: Deferred[None] = Deferred()

        def over() -> None:
            for each in own:
                if each in doing:
                    doing.remove(each)
            ended.callback(None)

        own_duty = node.claims.duties.known[name]
        if SimClock(node).seconds() > own_duty.until:
            over()
        else:
            # True seconds: whatever the process does, its children are killed by then
            self.clock.callLater(
                self.dice.choice((0.0, 0.3, KILL_TIME)),
                lambda life=node.life: node.awake(over) if node.life == life else None,
            )
        return ended

    def effect(self, node: SimNode, key: str, plan: Any, claim: Claim) -> None:
        """A short act takes effect."""
        self.tell(f"{node.name} does {key}, term {claim.term}, {plan}")
        self.counts["effects"] += 1
        before = self.done.setdefault(key, [])
        if before and claim.term <= before[-1][2]:
            self.broken(f"{key}: term {claim.term} after {before[-1]}")
        event, now = plan.get("event"), self.clock.seconds()
        other, at = self.last.get(key, (event, now))
        self.last[key] = event, now
        if other != event and now > at + 2 * settle_seconds(WINDOW):
            # Its members may have forgotten it: then the key is free for another event
            before.clear()
        if before and plan["kind"] != "local":
            self.broken(f"{key}: done again by {node.name} after {before[-1]}")
        if before and plan["jid"] != before[-1][1]:
            self.broken(f"{key}: done by {plan['jid']} after {before[-1]}")
        before.append((node.name, plan["jid"], claim.term))

    def look_at_duties(self) -> None:
        """Nobody does what somebody else does."""
        for name, doing in self.doing.items():
            now = [d for d in doing if d.node.life == d.life and not d.node.frozen]
            if len(now) > 1:
                self.broken(f"{name} is done by {[d.node.name for d in now]}")

    def event(self) -> None:
        """An event comes to some of the nodes, at about the same time."""
        self.acts += 1
        key = f"act/{self.acts}"
        kind = self.dice.choice(("local", "once"))
        names = [node.name for node in self.members() if self.dice.random() < 0.6]
        for name in names:
            node, life = self.nodes[name], self.nodes[name].life
            if not node.alive:
                continue

            def come(node: SimNode = node, life: int = life) -> None:
                at = self.clock.seconds()

                def read() -> None:
                    # What waited longer for a process that stood still is another event
                    if self.clock.seconds() <= at + WINDOW:
                        node.react(key, kind)

                if node.life == life:
                    node.awake(read)

            self.clock.callLater(self.dice.choice((0.0, 0.0, 0.01, 1.0, 4.0)), come)

    # Trouble

    def trouble(self) -> None:
        """One thing goes wrong, or right again."""
        what = self.dice.choice(
            (
                "cut",
                "cut",
                "heal",
                "kill",
                "kill",
                "start",
                "start",
                "freeze",
                "thaw",
                "thaw",
                "jump",
                "join",
                "remove",
                "lose",
                "leader",
                "deadly",
            )
        )
        node = self.dice.choice(list(self.nodes.values()))
        if what == "cut":
            self.partition()
        elif what == "heal":
            self.tell("healed")
            self.heal()
        elif what == "kill":
            node.kill()
        elif what == "start" and not node.alive and node.name not in self.removed:
            self.start(node)
        elif what == "freeze" and node.alive and not node.frozen:
            node.freeze()
        elif what == "thaw":
            node.thaw()
        elif what == "jump":
            node.offset += self.dice.choice((-YEAR, YEAR, 40.0))
        elif what == "join":
            self.join()
        elif what == "remove":
            self.remove()
        elif what == "lose" and not node.alive and self.dice.random() < 0.3:
            # One disk of several: who has lost all of them has lost the votes
            several = len(self.members()) > 2 and self.remembered({node.name} | self.removed)
            if not self.lost and node.cluster == ONE and several:
                self.tell(f"{node.name} has lost its votes")
                self.lost = node.name
                node.disk = new_disk()
        elif what == "leader" and node.alive and not node.frozen:
            node.claims.set_leader(self.dice.random() < 0.5)
        elif what == "deadly":
            self.deadly = self.dice.choice((0.0, 0.02))

    lost = ""
    fault: Broken | None = None
    is_well = False

    def start(self, node: SimNode) -> None:
        """It is started again."""
        self.tell(f"{node.name} is started")
        node.start()
        self.meet()

    def members(self) -> list[SimNode]:
        """All that have joined, and may have been removed since."""
        return [node for node in self.nodes.values() if node.cluster == ONE]

    def hosts(self) -> list[SimNode]:
        """Where a command can be given."""
        return [n for n in self.members() if n.alive and not n.frozen and not n.gone & {n.name}]

    def join(self) -> None:
        """A node joins, most often after it was alone for a while."""
        free = [name for name in "abcdefg" if name not in self.nodes]
        if free:
            wait = self.dice.choice((0.0, 0.5, 3.0, 20.0))
            self.alone(self.dice.choice(free), wait)

    def alone(self, name: str, seconds: float) -> None:
        """A master of its own, which has a vote, and duties, and joins after some time."""
        node = self.make(name, [name])
        node.cluster = f"that of {name}"
        if seconds:
            self.tell(f"{name} is alone")
            node.start()
        self.clock.callLater(seconds, self.stop_to_join, node)

    def stop_to_join(self, node: SimNode) -> None:
        """What it does as its own master ends, unless it is dead."""
        if node.cluster == ONE:
            return
        if node.frozen or not self.hosts():
            self.clock.callLater(0.5, self.stop_to_join, node)
        elif node.alive:
            life = node.life
            stopped = Deferred.fromCoroutine(node.stop())
            stopped.addCallback(lambda _: self.enter(node, life))  # type: ignore[unused-awaitable]
            stopped.addErrback(self.failed)  # type: ignore[unused-awaitable]
            # Unless it is killed before it has stopped
            self.clock.callLater(5.0, self.stop_to_join, node)
        else:
            self.enter(node, node.life)

    def enter(self, node: SimNode, life: int) -> None:
        """It joins by one that lives."""
        hosts = self.hosts()
        if node.life != life or node.cluster == ONE or not hosts:
            return
        host = self.dice.choice(hosts)
        self.tell(f"{node.name} joins by {host.name}")
        self.counts["joins"] += 1
        node.cluster = ONE
        node.knows, node.gone = host.knows | {node.name}, set(host.gone)
        host.knows.add(node.name)
        node.start()
        self.meet()

    def remembered(self, lost: set[str]) -> bool:
        """Whether others have all that was voted, whoever of them goes by which electorate."""
        memories = [table.read(node.disk) for node in self.members()]
        known = [memory.electorate for memory in memories if memory.electorate is not None]
        return not any(each.may_forget(lost) for each in known)

    def remove(self) -> None:
        """
        An operator removes a node, at one that lives. One that was removed while it lived behind a
        cut may act beside others, which the operator is told; so here it is dead, or can hear it.
        """
        hosts = self.hosts()
        if not hosts or len(self.members()) < 2:
            return
        # What only the next one to be removed has heard of, nobody would ever hear
        left = [node for node in self.members() if node.name not in self.removed]
        if any(self.removed - node.gone for node in left):
            return
        host = self.dice.choice(hosts)
        others = [n for n in left if n is not host and n.name in host.knows]
        # Nor can it be the only one by which two have heard of each other
        if any(n.knows != host.knows for n in self.members()):
            return
        others = [n for n in others if not n.alive]
        if not others:
            return
        node = self.dice.choice(others)
        # Who never heard who voted begins with terms from 1 again, as the page says
        voters = [v.electorate for v in (n.votes.voter for n in self.members()) if v]
        if any(each is None for each in voters):
            return
        if self.lost and not self.remembered({node.name, self.lost} | self.removed):
            return
        self.tell(f"{host.name} removes {node.name}")
        self.removed.add(node.name)
        host.gone.add(node.name)
        self.meet()

    # The whole

    def run(self) -> None:
        """
        Play it.

        @raises Broken: a promise was not kept.
        """
        # As long as a turn takes here, all goes by the seed
        with mock.patch.object(turns, "PORTION", math.inf):
            self._play()

    def _play(self) -> None:
        self.advance(self.peace)
        end = self.clock.seconds() + TROUBLE
        calm = self.dice.choice((1.0, 3.0, 8.0))
        while self.clock.seconds() < end:
            self.advance(self.dice.uniform(0, 2 * calm))
            self.trouble()
            for _ in range(self.dice.choice((0, 1, 3))):
                self.event()
        self.tell("all is well from here on")
        self.is_well = True
        self.deadly, self.delays = 0.0, (0.001, 0.01)
        for node in self.nodes.values():
            node.thaw()
            if not node.alive and node.name not in self.removed:
                node.start()
            node.claims.set_leader(True)
        self.heal()
        for _ in range(int(QUIET)):
            self.advance(1.0)
            self.meet()
        self.check()

    def advance(self, seconds: float) -> None:
        """Time passes."""
        end = self.clock.seconds() + seconds
        while True:
            calls = self.clock.calls
            if not calls or calls[0].getTime() > end:
                break
            self.clock.advance(max(0.0, calls[0].getTime() - self.clock.seconds()))
            self.look_at_duties()
            if self.fault is not None:
                raise self.fault
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def check(self) -> None:
        """All is well."""
        nodes = [n for n in self.nodes.values() if n.alive and n.name not in n.gone]
        for name, doing in self.doing.items():
            now = [d.node.name for d in doing if d.node.life == d.life]
            if len(now) != 1:
                self.broken(f"{name} is done by {now or 'nobody'}: {self.why(nodes)}")
        for node in nodes:
            if not node.claims.would_claim():
                self.broken(f"{node.name}: {node.claims.problem()}")
            if node.votes.unfinished():
                self.broken(f"{node.name} knows of {node.votes.unfinished()}, unfinished")
            self.acts += 1
            before = self.counts["Claim"]
            node.react(f"act/{self.acts}", "once")
            self.advance(8.0)
            if self.counts["Claim"] != before + 1:
                self.broken(f"{node.name} is granted nothing")
        self.counts["worlds"] += 1

    def why(self, nodes: Sequence[SimNode]) -> str:
        """For the story."""
        return "; ".join(
            f"{n.name}: {n.claims.problem() or 'fine'} {n.votes.voter and n.votes.voter.electorate}"
            for n in nodes
        )


class Growing(World):
    """Masters of their own that become one cluster within seconds."""

    grows = 1.0


if __name__ == "__main__":
    sys.exit(play("tests.sim.claims", World, Broken, lambda world: world.counts))
