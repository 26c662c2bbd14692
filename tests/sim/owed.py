"""
Events of minions that are owed a reaction, among all that can go wrong between and below masters.

The world is that of L{tests.sim.claims}, with its votes, claims, cuts, kills at any write, frozen
nodes and clocks that jump. In addition events come to nodes, hot copies of them to several, are
written down (C{KeptEvents} is real, its file a dictionary that is synced a moment later),
acknowledged, and reacted to after a while, as by a reactor whose SLS take long to render.

What must hold beside what holds there:

 - An event that was acknowledged is reacted to, or said as lost.
 - It is reacted to once; what may be repeated is repeated under the same plan alone.
 - When all is well again for a while no node has any row.

Exception: what one node acknowledged with its own disk alone, and that node was removed.

C{python -m tests.sim.owed --seeds 10000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, succeed

from saltwisted.domain.claims.words import Came, Claim, NoMajority, Taken
from saltwisted.domain.reactions.keeping import Id, Kept, Owed
from saltwisted.errors import StoreError
from saltwisted.master.automation.kept import KeptEvents
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import unpack_bin
from tests.sim.batches import SimBatches
from tests.sim.claims import HOT, WINDOW, Broken, SimClock, SimNode, World
from tests.sim.play import play

MINION, TAG = "m", "site/x"
COPY = 9.0
"""Seconds within which a copy is one by every clock."""
KEPT_BACK = 30.0
"""
The same of a copy that a hot minion has kept, while no clock was set and nobody removed; not much
less than what members remember who have lost their votes.
"""


class SimKeptStore:
    """Rows, with a simulated moment at which a write has reached the disk."""

    def __init__(self, node: OwedNode) -> None:
        self.node = node
        self.batches: SimBatches[tuple[list[Kept], list[Id]]] = SimBatches(
            node, self._commit, refusals=0.02
        )

    def load(self) -> Deferred[list[Kept]]:
        return succeed(list(self.node.rows.values()))

    def close(self) -> Deferred[None]:
        return succeed(None)

    def write(self, put: Iterable[Kept], delete: Iterable[Id] = ()) -> Deferred[None]:
        return self.batches.add((list(put), list(delete)))

    def _commit(self, work: list[tuple[list[Kept], list[Id]]]) -> None:
        for put, delete in work:
            self.node.rows.update((row.id, row) for row in put)
            for each in delete:
                self.node.rows.pop(each, None)


@define(eq=False)
class OwedNode(SimNode):
    """
    A master that events come to.

    @ivar rows: its disk.
    """

    rows: dict[Id, Kept] = field(factory=dict)
    kept: KeptEvents = field(init=False)
    kept_store: SimKeptStore = field(init=False)

    def start(self) -> None:
        """A new life."""
        SimNode.start(self)
        world = self.world
        self.kept_store = SimKeptStore(self)
        self.kept = KeptEvents(
            SimClock(self),
            self.name,
            str(self.life),
            self.kept_store,
            lambda: world.clock.seconds() + self.offset,
            Counter(),
            self.peers,  # type: ignore[arg-type]
            2,
            self.claims.would_claim,
            self.claims.keys.given,
        )
        self.kept.on_found(self.found)
        self.kept.startService()
        self.claims.on_recover("event", self.recover)

    def kill(self) -> None:
        """What was being written may be on the disk."""
        if self.alive and self.world.dice.random() < 0.5:
            self.kept_store.batches.sync()
        SimNode.kill(self)

    # What it does

    def receive(self, event: int, data: Mapping[str, Any], kind: str) -> None:
        """An event of a minion has come: what the handler of events does."""
        world, life = self.world, self.life
        now, minion = world.clock.seconds(), str(data.get("minion", MINION))
        passed = now - world.first.setdefault(event, now)
        if passed > (KEPT_BACK if minion == HOT and not world.is_vague() else COPY):
            # A copy that comes later may be another event, as the page says
            world.acts += 1
            world.late[world.acts] = event
            event = world.acts
            world.first[event] = now
        elif passed > 10.0:
            world.counts["kept back"] += 1
        key = self.claims.keys.of(minion, TAG, data)
        assert key is not None

        def stored(owed: list[Owed]) -> Any:
            (kept,) = owed[0].parts.values()
            world.events[kept.id] = (event, kind)
            world.keyed.setdefault(key, set()).add(event)
            # It may have stood still since then
            since = owed[0].since(SimClock(self).seconds())
            self.later(event, kind, kept, Came(key=key, age=since, row=kept.row))
            return self.kept.copied(owed)

        def acknowledged(_: Any) -> None:
            if self.life == life:
                world.tell(f"{self.name} acknowledges {event}")
                world.owed.setdefault(event, set()).add(self.name)

        d = self.kept.keep([(minion, TAG, data, {0: key})]).addCallback(stored)
        d.addCallbacks(acknowledged, lambda failure: failure.trap(StoreError) and None)
        d.addErrback(world.failed)

    def found(self, kept: Kept, age: float) -> None:
        """Another life left it: what the reactor does."""
        world = self.world
        event, kind = world.events.get(kept.id, (0, ""))
        if not event:
            # It was killed between the disk and the moment at which it knew
            event, kind = world.unknown(kept)
        world.tell(f"{self.name} finds {event}, {age:.1f} s old")
        world.counts["found"] += 1
        if not 0 <= age <= WINDOW:
            self.give_up(event, kept, self.came(kept, age if kept.heard is not None else None))
            return
        self.later(event, kind, kept, self.came(kept, age))

    def came(self, kept: Kept, age: float | None) -> Came:
        """What another life has taken."""
        return Came(key=kept.key, source=kept.source, age=age, row=kept.row)

    def give_up(self, event: int, kept: Kept, came: Came) -> None:
        """It is lost if nobody has claimed it."""
        plan = {"kind": "once", "jid": "", "event": event}
        d = as_deferred(self.claims.begin_event(kept.minion, TAG, {}, plan, "", came))

        def answered(answer: Any) -> None:
            self.world.tell(f"{self.name} would give {event} up: {answer}")
            if isinstance(answer, Taken):
                self.kept.done(kept)
                return
            if event in self.world.reacted:
                self.world.counts["said in vain"] += 1
            self.lose(event, kept)
            if isinstance(answer, Claim):
                _ = as_deferred(self.claims.end(answer, "lost"))

        d.addCallback(answered)
        d.addErrback(self.world.failed)

    def later(self, event: int, kind: str, kept: Kept, came: Came) -> None:
        """When it is rendered."""
        clock, begun = SimClock(self), SimClock(self).seconds()

        def rendered() -> None:
            age = (came.age or 0.0) + clock.seconds() - begun
            if age > WINDOW:
                self.lose(event, kept)
                return
            self.claim(event, kind, kept, evolve(came, age=age))

        clock.callLater(self.world.dice.choice((0.0, 0.0, 0.3, 4.0)), rendered)

    def claim(self, event: int, kind: str, kept: Kept, came: Came) -> None:
        """Whoever gets it acts."""
        world, life = self.world, self.life
        plan = {"kind": kind, "jid": f"{self.name}{self.life}/{kept.id}", "event": event}
        d = as_deferred(self.claims.begin_event(kept.minion, TAG, {}, plan, "", came))

        def answered(answer: Any) -> None:
            if self.life != life:
                return
            world.counts[type(answer).__name__] += 1
            world.tell(f"{self.name} is told of {event}: {answer}")
            if isinstance(answer, NoMajority):
                self.lose(event, kept)
            elif isinstance(answer, Claim):
                self.kept.done(kept)
                self.act(answer.key, plan, answer)
            else:
                world.taken[event] = answer.key
                self.kept.done(kept)

        d.addCallback(answered)
        d.addErrback(world.failed)

    def lose(self, event: int, kept: Kept) -> None:
        """It is said as lost."""
        self.world.tell(f"{self.name} says {event} as lost")
        self.world.said.add(event)
        self.kept.done(kept)

    def over(self, claim: Claim, result: str) -> None:
        """It has ended."""
        if result == "lost":
            self.world.said.add(claim.plan.get("event"))
        SimNode.over(self, claim, result)

    def recover(self, key: str, plan: Any, claim: Claim) -> Any:
        """A dead member had begun it."""
        self.world.tell(f"{self.name} has to finish {plan}")
        before = self.world.counts["effects"]
        done = SimNode.recover(self, key, plan, claim)
        if self.world.counts["effects"] == before:
            self.world.said.add(plan.get("event"))
        return done


class OwedWorld(World):
    """
    What a seed makes of it.

    @ivar events: row to event, and what kind of reaction it asks for.
    @ivar owed: events that were acknowledged, and by whom.
    @ivar first: when an event came to any node.
    @ivar late: copies that came so late that they may be taken for others, and those that nobody
        was told of, to what they copy.
    @ivar said: events that were said as lost.
    @ivar keyed: key to the events that got it when they came.
    @ivar taken: events that seemed to be another's, to the key that it has.
    """

    def __init__(self, seed: int) -> None:
        self.events: dict[Id, tuple[int, str]] = {}
        self.owed: dict[int, set[str]] = {}
        self.said: set[int] = set()
        self.reacted: dict[int, tuple[str, str]] = {}
        self.first: dict[int, float] = {}
        self.late: dict[int, int] = {}
        self.keyed: dict[str, set[int]] = {}
        self.taken: dict[int, str] = {}
        self.unknowns = 0
        super().__init__(seed)

    def make(self, name: str, knows: Iterable[str]) -> SimNode:
        """A node, with nothing on its disk."""
        rate = 1.0 + self.dice.choice((0.0, 0.0, 0.01, -0.01))
        node = self.nodes[name] = OwedNode(self, name, rate)
        node.knows = set(knows)
        return node

    def unknown(self, kept: Kept) -> tuple[int, str]:
        """One that nobody was told of."""
        self.unknowns -= 1
        # Others may have had a copy of it
        self.late[self.unknowns] = unpack_bin(kept.data).get("event", self.unknowns)
        self.keyed.setdefault(kept.key, set()).add(self.unknowns)
        return self.events.setdefault(kept.id, (self.unknowns, "once"))

    def event(self) -> None:
        """
        Besides those of the world of claims: one that has its like at the same node, or one with
        copies at several.
        """
        World.event(self)
        self.acts += 1
        event, kind = self.acts, self.dice.choice(("local", "once"))
        if self.dice.random() < 0.4:
            names = [self.dice.choice(sorted(node.name for node in self.members()))]
            data = {"home": names[0], "like": self.dice.choice((1, 2))}
        else:
            names = [node.name for node in self.members() if self.dice.random() < 0.6]
            data = {"event": event}
        waits: tuple[float, ...] = (0.0, 0.0, 0.01, 1.0, 4.0)
        if len(names) > 1 and "event" in data and self.dice.random() < 0.5:
            data["minion"] = HOT
            waits += (12.0, 20.0, 28.0)
        for name in names:
            node, life = self.nodes[name], self.nodes[name].life
            if not node.alive:
                continue

            def come(node: Any = node, life: int = life) -> None:
                if node.life == life:
                    node.awake(lambda: node.receive(event, data, kind))

            self.clock.callLater(self.dice.choice(waits), come)

    def is_vague(self) -> bool:
        """Whether copies that come late cannot be told for certain, as the page says."""
        clocks = {node.offset for node in self.nodes.values()}
        return bool(self.removed) or len(clocks) > 1

    def effect(self, node: SimNode, key: str, plan: Any, claim: Claim) -> None:
        """Each event once."""
        World.effect(self, node, key, plan, claim)
        event = plan.get("event")
        if event is None:
            return
        before = self.reacted.setdefault(event, (key, plan["jid"]))
        if before != (key, plan["jid"]):
            self.broken(f"event {event}: {node.name} does {key} {plan['jid']} after {before}")

    def check(self) -> None:
        """Nothing is owed."""
        # Two that come late to two nodes are copies of one another, whichever of them is reacted to
        ended = {self.late.get(event, event) for event in self.reacted.keys() | self.said}
        for event, takers in self.owed.items():
            if self.late.get(event, event) in ended or takers & self.removed:
                continue
            alike = self.keyed.get(self.taken.get(event, ""), set()) - {event}
            if alike - self.owed.keys():
                # One of them was not acknowledged: its minion sends it again
                continue
            self.broken(f"event {event} was acknowledged by {sorted(takers)}, and forgotten")
        for node in self.nodes.values():
            if node.alive and node.name not in node.gone and len(node.kept.shelf):  # type: ignore[attr-defined]
                self.broken(f"{node.name} owes {node.rows}")  # type: ignore[attr-defined]
        self.counts["owed"] += len(self.owed)
        self.counts["reacted"] += len(self.reacted)
        self.counts["said"] += len(self.said)
        World.check(self)


if __name__ == "__main__":
    sys.exit(play("tests.sim.owed", OwedWorld, Broken, lambda world: world.counts))
