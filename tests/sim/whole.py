"""
Masters with all that they keep alike: facts and roots on one clock, one disk and one network, and
a membership that decides who links and who may do what with roots.

Nodes, disks, clocks, wires and what befalls them are those of L{tests.sim.cluster}; the roots of
each node are those of L{tests.sim.roots}, over streams that live as long as the links. A node that
dies, at whichever write of either, takes both with it; one that is frozen, cut off, set back or
lost is so with both. Meanwhile users edit files and pillars on any node, and operators accept and
delete keys, let nodes join, remove them, have them leave, and change rights.

What must hold when all is well again is what both simulations ask of the live members, and:

 - A node that had a tree serves it when it starts, unless somebody could give it another.
 - They are the members that the membership names, and all that have a share have the same tree.
 - What was edited on a node after all members knew that it may not write (any more), or that it
   was removed, is nowhere else, nor in anybody's store.
 - A node without the right to pillars has no store of them, and in its directory nothing that was
   written after all members knew.

C{python -m tests.sim.whole --seeds 1000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from saltwisted.cluster.life.join import pack_facts, unpack_facts
from saltwisted.cluster.life.keptmembership import KEEP_FACTS
from saltwisted.cluster.roots.founding import FOUND_AFTER
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.domain.replica.membership import (
    MEMBER,
    PILLAR,
    READ,
    REMOVED,
    RIGHTS,
    WRITE,
    Member,
    Membership,
)
from saltwisted.errors import StoreError
from tests.sim import cluster, roots
from tests.sim.cluster import Broken, SimClock, SimDisk
from tests.sim.play import play
from tests.sim.roots import FIXED, SCANNED, SHARE

OUTSIDE = "outside"
PILLARS = "pillar/base/0"
SOON = 0.1
"""Seconds until a member is built again."""
ASK_AGAIN = 5.0
"""Seconds after which who wants to join asks another member."""
EDITS = 60
UNIQUE = 30
"""Bytes from which on a content is like no other."""
CHOICES = (RIGHTS, RIGHTS, (READ, WRITE), (READ, PILLAR), (READ,))


class Disk(SimDisk):
    """
    The facts, what is kept beside their log, and the stores of the roots; people's directories
    are on another one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = ""
        self.kept = b""
        self.may_lose: Callable[[], bool] = lambda: True
        self.on_loss: Callable[[], None] = lambda: None
        self._kept_then: list[bytes] = []

    def remember(self) -> None:
        """A snapshot of all at one moment."""
        super().remember()
        self._kept_then.append(self.kept)
        copy = self._copy(len(self.days) - 1)
        if os.path.isdir(self.store):
            shutil.copytree(self.store, copy, symlinks=True)

    def set_back(self, day: Any, noticed: bool) -> None:
        """All of an earlier day is back."""
        super().set_back(day, noticed)
        self.on_loss()
        number = next(n for n, each in enumerate(self.days) if each is day)
        self.kept = self._kept_then[number]
        if self.may_lose():
            shutil.rmtree(self.store, ignore_errors=True)
            if os.path.isdir(self._copy(number)):
                shutil.copytree(self._copy(number), self.store, symlinks=True)

    def lose(self) -> None:
        """Nothing is left but what is kept in a file of its own."""
        super().lose()
        self.on_loss()
        if self.may_lose():
            shutil.rmtree(self.store, ignore_errors=True)

    def _copy(self, day: int) -> str:
        return f"{self.store}-{day}"


class RootsNode(roots.SimNode):
    """
    The roots of a master.

    @ivar had: the shares of which it had a whole tree in its last life.
    """

    def __init__(self, world: Roots, master: Master) -> None:
        self.master = master
        self.had: set[str] = set()
        super().__init__(world, master.name)
        self.trees[PILLARS] = f"{self.folder}/pillar"
        os.makedirs(self.trees[PILLARS])

    def members(self) -> Sequence[str]:
        return self.master.others()

    def may(self, node: str, right: str) -> bool:
        return self.master.membership.may_as_seen_by(self.master.key, self.name, node, right)

    def now(self) -> float:
        return self.master.now()

    def awake(self, work: Callable[[], None]) -> None:
        self.master.awake(work)

    def begin(self) -> None:
        super().begin()
        # Who starts again for a writer that is gone a moment later waits, and rightly so
        sure = {name for name in self.had if not self._givers(name)}
        self.reactor.callLater(FOUND_AFTER + 5.0, self._has_still, sure)

    def _givers(self, name: str) -> list[str]:
        """The others that may write a share."""
        return [
            node
            for node in self.members()
            if self.may(node, WRITE) and (name != PILLARS or self.may(node, PILLAR))
        ]

    def _has_still(self, sure: set[str]) -> None:
        """What it had, it has, if nobody could give it anything else."""
        shares = self.sync.shares if self.sync is not None else {}
        for name in sure & self.had & shares.keys():
            if not self._givers(name) and not shares[name].ready and not self.master.stood:
                self.world.broken(f"{self.name} had {name}, and waits for who does not exist")

    def kill(self) -> None:
        if self.sync is not None:
            self.had = {name for name, share in self.sync.shares.items() if share.ready}
        super().kill()

    def died(self) -> None:
        super().died()
        self.master.whole.died(self.master)

    def begin_anew(self) -> None:
        self.master.build_anew()


class Roots(roots.World):
    """The roots of all masters."""

    def __init__(self, whole: WholeWorld) -> None:
        super().__init__(whole.seed)
        self.whole = whole
        self.clock = whole.clock
        self.shares = (SHARE, PILLARS)

    def may_stream(self, one: roots.SimNode, two: roots.SimNode) -> bool:
        """As long as there is a link, and nobody is frozen in it."""
        session = self.whole.sessions.get(frozenset((one.name, two.name)))
        return session is not None and all(
            side.up and not side.lossy and not side.owner.frozen for side in session
        )

    def having(self, name: str) -> list[roots.SimNode]:
        """The live members that may have it."""
        return [
            node.roots
            for node in self.whole.judged()
            if name == SHARE or node.roots.may(node.name, PILLAR)
        ]

    def broken(self, why: str) -> None:
        self.whole.broken(why)

    def wrote(self, node: roots.SimNode, name: str, content: bytes) -> None:
        if len(content) >= UNIQUE:
            self.whole.edited(node.name, name, content)


@define(eq=False)
class Master(cluster.SimNode):
    """
    A node of a cluster with a membership.

    @ivar phase: C{outside} until it was let in, C{member}, or C{removed}: it knows that it is.
    @ivar key: its key id; another one each time that it joins.
    @ivar rights: what it was built to do with roots.
    @ivar expected: the members that it knew when it began to catch up.
    """

    disk: Disk = field(factory=Disk)
    phase: str = OUTSIDE
    joins: int = 0
    key: str = ""
    rights: tuple[str, ...] = RIGHTS
    leaving: bool = False
    expected: set[str] = field(factory=set)
    membership: Membership = field(factory=Membership)
    roots: RootsNode = field(init=False)

    @property
    def whole(self) -> WholeWorld:
        """Its world."""
        assert isinstance(self.world, WholeWorld)
        return self.world

    def start(self) -> None:
        """A new life; the roots begin when it has caught up."""
        cluster.SimNode.start(self)
        self.expected = set(self.others())
        self.log.folds.listen("member", lambda changes: self._members_changed())
        self._follow()

    def built(self, folds: Folds) -> None:
        """Before the log is read: what is kept beside it decides what is built."""
        folds.apply_facts(unpack_facts(self.disk.kept))
        own = self.membership.find(self.key)
        self.rights = own.rights if own is not None else RIGHTS
        self.leaving = False
        self.roots.build()

    def serve(self) -> None:
        """It has caught up."""
        self.roots.begin()

    def kill(self) -> None:
        """End its process now."""
        cluster.SimNode.kill(self)
        self.roots.kill()

    def others(self) -> list[str]:
        """The other members."""
        live = self.membership.live()
        return sorted({member.node for member in live if member.key != self.key})

    def _members_changed(self) -> None:
        SimClock(self).callLater(KEEP_FACTS, self.keep)
        SimClock(self).callLater(0, self.whole.relink, self)
        self._follow()

    def keep(self) -> None:
        """Beside the log."""
        self.disk.kept = pack_facts(self.membership)

    def _follow(self) -> None:
        own = self.membership.find(self.key)
        if own is None:
            return
        if own.removed is not None:
            if not self.leaving:
                SimClock(self).callLater(0, self.whole.end, self)
        elif own.rights != self.rights:
            self.rights = own.rights
            self.keep()
            self.build_anew()

    def build_anew(self) -> None:
        """As the lifecycle does it: all parts stop cleanly, and begin again."""
        SimClock(self).callLater(SOON, self._stop)

    def _stop(self) -> None:
        if self.log.ends > self.whole.clock.seconds():
            self.build_anew()
            return
        self.whole.kill(self)
        self.whole.start(self)


@define(eq=False)
class Edit:
    """
    Something that only a user of one node wrote.

    @ivar forbidden: the nodes that must never have it.
    """

    node: str
    share: str
    digest: bytes
    forbidden: set[str]


class WholeWorld(cluster.World):
    """
    A cluster with a membership, and roots.

    @ivar changes: what operators said about a node's membership and rights: where it is in the log.
    @ivar doomed: nodes that somebody has removed, or that leave.
    """

    nodes: list[Master]  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes = [Master(self, node.name) for node in self.nodes[:5]]
        self.users = Random(f"users {seed}")
        self.roots = Roots(self)
        self.edits: list[Edit] = []
        self.changes: dict[str, list[Any]] = {}
        self.doomed: set[str] = set()
        self.acts = 0

    # -- what a cluster with a membership does otherwise

    def make_folds(self, node: Master) -> Folds:  # type: ignore[override]
        """Keys, and who belongs to it."""
        node.keys, node.membership = KeySet(), Membership()
        folds = Folds([node.keys, node.membership])
        node.built(folds)
        return folds

    def others(self, node: Master) -> list[str]:  # type: ignore[override]
        """As its membership says; of those it has to have met, who was one when it started."""
        return node.others()

    def must_meet(self, node: Master) -> list[str]:  # type: ignore[override]
        """Who joined meanwhile is not waited for."""
        return [name for name in node.others() if name in node.expected]

    def may_link(self, one: Master, other: Master) -> bool:  # type: ignore[override]
        """Both must know the other for a member."""
        return (
            self.may_meet(one, other)
            and one.membership.is_member(other.key)
            and other.membership.is_member(one.key)
        )

    def judged(self) -> Sequence[Master]:
        """The live members."""
        return [node for node in self.nodes if node.phase == MEMBER]

    def start(self, node: Master) -> None:  # type: ignore[override]
        """Who is not a member does not start."""
        if node.phase == MEMBER:
            super().start(node)

    def died(self, node: Master) -> None:
        """At a write of its roots; somebody starts it again."""
        self.tell(f"{node.name} dies at a write of its roots")
        self.kill(node)
        self.clock.callLater(self.users.choice((0.1, 3.0, 20.0)), self.start, node)

    def link(self, one: Master, other: Master) -> None:  # type: ignore[override]
        """The streams come with the link."""
        super().link(one, other)
        self.clock.callLater(0.002, self.roots.dial)

    def unlink(self, pair: frozenset[str]) -> None:
        """The streams end with the link."""
        super().unlink(pair)
        end = self.roots.ends.get(pair)
        if end is not None:
            end.cut()

    def relink(self, node: Master) -> None:
        """Links to who is no longer a member end at once."""
        for pair, (one, other) in list(self.sessions.items()):
            if node.name in pair and not node.membership.is_member(
                (other if one.owner is node else one).owner.key  # type: ignore[attr-defined]
            ):
                self.unlink(pair)

    def end(self, node: Master) -> None:
        """It knows that it is removed."""
        if node.phase == MEMBER:
            self.tell(f"{node.name} is out")
            node.phase = REMOVED
            self.kill(node)

    def rejoin(self, node: Master) -> None:  # type: ignore[override]
        """It was away for too long: it is removed, and joins under another key."""

        def work() -> None:
            if node.phase == MEMBER:
                self.kill(node)
                self._forget_alone(node)
                node.disk.lose()
                node.phase = OUTSIDE
                self.admit(node)

        self.clock.callLater(0.1, work)

    # -- operators

    def admit(self, node: Master) -> None:
        """Whoever can be reached lets a node in; its old key goes first."""
        hosts = [
            n for n in self._awake() if n is not node and not n.leaving and self.may_meet(n, node)
        ]
        if node.phase != OUTSIDE:
            return
        self.clock.callLater(ASK_AGAIN, self.admit, node)
        if not hosts:
            return
        host = self.users.choice(hosts)
        if node.key and not self._is_removed(host, node):
            self._append(host, node, {"op": "remove", "key": node.key, "by": "x", "left": True})
        node.joins += 1
        key = hashlib.sha256(f"{node.name} {node.joins}".encode()).hexdigest()
        rights = self.users.choice(CHOICES)
        self.tell(f"{host.name} admits {node.name} as {key[:4]}, {rights}")
        self._pardon(node.name, rights)
        body = {**_add(node.name, key), "by": host.name, "rights": list(rights)}
        self._append(host, node, body).addCallback(lambda _: self._admitted(host, node, key))

    def _admitted(self, host: Master, node: Master, key: str) -> None:
        if node.phase == OUTSIDE:
            node.disk.kept = pack_facts(host.membership)
            node.key = key
            node.phase = MEMBER
            self.start(node)

    def _awake(self) -> list[Master]:
        return [node for node in self.nodes if node.alive and not node.frozen]

    def _is_removed(self, host: Master, node: Master) -> bool:
        known = host.membership.find(node.key)
        return known is None or known.removed is not None

    def _append(self, host: Master, about: Master, body: Mapping[str, Any]) -> Deferred[Any]:
        def placed(entry: Entry) -> None:
            self.changes.setdefault(about.name, []).append(entry.dot)

        d = host.log.append("member", body).addCallback(placed)
        return d.addErrback(lambda failure: failure.trap(StoreError))

    def govern(self) -> None:
        """An operator changes who may do what."""
        dice, awake = self.users, self._awake()
        if not awake:
            return
        host, node = dice.choice(awake), dice.choice(self.nodes)
        # Those that cannot hear of it now are the interesting ones
        apart = [n for n in awake if n is not host and n.name not in host.peers.live]
        if apart and dice.random() < 0.7:
            node = dice.choice(apart)
        roll = dice.random()
        if roll < 0.6:
            self.set_rights(host, node, dice.choice(CHOICES))
        elif len([n for n in self.nodes if n.name not in self.doomed]) < 3:
            return
        elif roll < 0.85:
            self.remove(host, node)
        else:
            self.leave(host)

    def set_rights(self, host: Master, node: Master, rights: tuple[str, ...]) -> None:
        """C{saltwisted members rights}, with what it refuses."""
        known = _live(host, node)
        if known is None or known.rights == rights:
            return
        if host.membership.why_not_rights(known, rights):
            return
        self.tell(f"{host.name}: {node.name} may {' '.join(rights)}")
        self._pardon(node.name, rights)
        self._append(host, node, {"op": "rights", "key": node.key, "rights": list(rights)})

    def remove(self, host: Master, node: Master) -> None:
        """C{saltwisted remove}: who is linked is told."""
        if host is node or _live(host, node) is None:
            return
        self.tell(f"{host.name} removes {node.name}")
        self.doomed.add(node.name)
        link = host.peers.live.get(node.name)
        if link is not None:
            self._farewell(host, node)
        self._append(host, node, {"op": "remove", "key": node.key, "by": host.name, "left": False})

    def leave(self, node: Master) -> None:
        """C{saltwisted leave}."""
        if not node.peers.live or _live(node, node) is None:
            return
        self.tell(f"{node.name} leaves")
        self.doomed.add(node.name)
        node.leaving = True
        body = {"op": "remove", "key": node.key, "by": node.name, "left": True}
        self._append(node, node, body)
        SimClock(node).callLater(2.0, self.end, node)

    def _farewell(self, host: Master, node: Master) -> None:
        def arrive() -> None:
            if self.may_meet(host, node):
                node.awake(lambda: self.end(node))

        self.clock.callLater(0.02, arrive)

    def _farewells(self) -> None:
        """Who was removed while it was away is told when it dials."""
        for one in self._awake():
            for other in self._awake():
                known = one.membership.find(other.key)
                if known is not None and known.removed is not None and one is not other:
                    self._farewell(one, other)

    # -- users

    def edited(self, name: str, share: str, content: bytes) -> None:
        """Somebody wrote this content, which is nowhere else: who must never see it?"""
        forbidden = set()
        if self._all_know(name, WRITE):
            forbidden = {node.name for node in self.nodes} - {name}
        if share == PILLARS:
            for node in self.nodes:
                if node.name != name and self._all_know(node.name, PILLAR):
                    forbidden.add(node.name)
        self.edits.append(Edit(name, share, hashlib.sha256(content).digest(), forbidden))

    def _all_know(self, name: str, right: str) -> bool:
        """Whether all others have it on disk that a node lacks a right, or is out."""
        others = [node for node in self.nodes if node.phase == MEMBER and node.name != name]
        return bool(others and self.changes.get(name)) and all(
            not node.membership.may(name, right)
            and _covers(node.log.knowledge(), self.changes[name])
            for node in others
        )

    def _pardon(self, name: str, rights: Sequence[str]) -> None:
        """With the right comes what was kept from it, and from others."""
        for edit in self.edits:
            if WRITE in rights and edit.node == name:
                edit.forbidden.clear()
            if PILLAR in rights:
                edit.forbidden.discard(name)

    def forgive(self, node: Master) -> None:
        """What was known is perhaps not known any more."""
        node.roots.had.clear()
        for edit in self.edits:
            edit.forbidden.clear()

    def part(self) -> None:
        """A node is cut off from some, loses its rights there, and is used on; then it is back."""
        dice = self.users
        node = dice.choice(self.nodes)
        others = [n for n in self._awake() if n is not node]
        if not others or not node.alive:
            return
        pairs = {frozenset((node.name, other.name)) for other in others}
        self.tell(f"{node.name} is cut off")
        self.cuts |= pairs
        for pair in pairs & self.sessions.keys():
            self.unlink(pair)
        self.set_rights(dice.choice(others), node, dice.choice(CHOICES))
        for seconds in (0.5, 4.0, 5.0):
            self.clock.callLater(seconds, self._edit_alone, node)
        self.clock.callLater(dice.choice((5.0, 8.0)), self.cuts.difference_update, pairs)

    def _edit_alone(self, node: Master) -> None:
        if not self.healed:
            node.roots.edit(self.users, self.users.choice((SHARE, PILLARS)))

    def use(self) -> None:
        """What kernel and streams have to tell; and somebody does something."""
        dice = self.users
        self.clock.callLater(dice.choice((0.05, 0.3, 1.0)), self.use)
        self.roots.turn()
        self._farewells()
        if self.healed or dice.random() > 0.3 or self.acts > EDITS:
            return
        self.acts += 1
        roll, node = dice.random(), dice.choice(self.nodes)
        if self.sessions and roll < 0.04:
            self.part()
        elif roll < 0.66:
            for _ in range(dice.choice((1, 1, 1, 3))):
                node.roots.edit(dice, dice.choice((SHARE, SHARE, PILLARS)))
        elif roll < 0.84:
            self.govern()
        elif roll < 0.94:
            node.roots.fatal = dice.randrange(12)
        elif node.phase == OUTSIDE and not node.joins:
            self.admit(node)

    # -- a whole play

    def run(self) -> None:
        """@raises Broken: a promise was not kept."""
        with self.roots.folder_of_its_own():
            for node in self.nodes:
                node.roots = RootsNode(self.roots, node)
                node.disk.store = f"{node.roots.folder}/store"
                node.disk.on_loss = partial(self.forgive, node)
                node.disk.may_lose = lambda node=node: self._is_held(node)
            self.roots.nodes = [node.roots for node in self.nodes]
            super().run()

    def _is_held(self, node: Master) -> bool:
        """Whether another has roots, and may write: somebody must start again from something."""
        return any(
            other is not node
            and other.phase == MEMBER
            and other.name not in self.doomed
            and other.membership.may(other.name, WRITE)
            and all(name in other.roots.stores for name in self.roots.shares)
            for other in self.nodes
        )

    def begin(self) -> None:
        """One founds, most are with it from the beginning, some come later."""
        first, dice = self.nodes[0], self.users
        for node in self.nodes:
            if node is first or dice.random() < 0.75:
                node.joins = 1
                node.key = hashlib.sha256(f"{node.name} 1".encode()).hexdigest()
                node.phase = MEMBER
        for name in FIXED:
            for share in self.roots.shares:
                first.roots.write(name, name.encode(), share)
        first.start()
        for node in self.judged():
            rights = RIGHTS if node is first else dice.choice(CHOICES)
            self._append(first, node, {**_add(node.name, node.key), "rights": list(rights)})
        kept = pack_facts(first.membership)
        for node in self.judged():
            node.disk.kept = kept
            if node is not first:
                node.start()
        self.use()

    def heal(self) -> None:
        """All is well; clocks too, without which roots wait."""
        super().heal()
        for node in self.nodes:
            node.offset = node.drift = 0.0
            node.roots.fatal = -1
            if node.phase == OUTSIDE:
                self.admit(node)
        self.clock.callLater(30.0, self._mend)

    def _mend(self) -> None:
        """What operators see when all can be reached: somebody is half out, or nobody may write."""
        # Not one that was let in by who was removed, and that nobody else has heard of
        host = max(self.judged(), key=self._known_by)
        for node in self.nodes:
            if node.phase == REMOVED and not self._is_removed(host, node):
                self.remove(host, node)
            elif node.phase == MEMBER and host.membership.find(node.key) is None:
                # Who let it in could tell nobody of it before it was gone itself
                self.rejoin(node)
        live = host.membership.live()
        if not any({WRITE, PILLAR} <= {*member.rights} for member in live):
            holders = [node for node in self.judged() if host.membership.may(node.name, PILLAR)]
            self.set_rights(host, (holders or [host])[0], RIGHTS)

    def _known_by(self, node: Master) -> int:
        return sum(each.membership.is_member(node.key) for each in self.judged())

    def settle(self) -> None:
        """Facts, then roots; and what the kernel has not told is found by a look at everything."""
        super().settle()
        self._roots_settle()
        self.play(SCANNED)
        self._roots_settle()

    def _roots_settle(self) -> None:
        end = self.clock.seconds() + roots.SETTLED
        while not self.roots.settled() and not self.why:
            if self.clock.seconds() > end:
                self.broken(f"roots are not alike in time: {self.roots.states()}")
            self.play(5.0)

    def check(self) -> None:
        """See the module."""
        for node in self.nodes:
            if node.phase == REMOVED:
                self._forget_alone(node)
        super().check()
        for node in self.judged():
            members = {member.key for member in node.membership.members()}
            if members != {each.key for each in self.judged()}:
                self.broken(f"{node.name} knows other members: {node.membership.members()}")
        self.roots.judge()
        for node in self.judged():
            if not node.roots.may(node.name, PILLAR) and PILLARS in node.roots.stores:
                self.broken(f"{node.name} has no right to pillars, and a store of them")
        for edit in self.edits:
            for node in self.nodes:
                if node.name in edit.forbidden and node.roots.holds(edit.share, edit.digest):
                    self.broken(f"{node.name} has what only {edit.node} may have: {edit}")


def _add(name: str, key: str) -> dict[str, Any]:
    return {
        "op": "add",
        "key": key,
        "node": name,
        "public": "",
        "by": name,
        "token": "",
        "wait": False,
        "about": {},
    }


def _live(host: Master, node: Master) -> Member | None:
    known = host.membership.find(node.key)
    return known if known is not None and known.removed is None else None


def _covers(known: Knowledge, dots: Sequence[Any]) -> bool:
    return all(known.get(dot.source, 0) >= dot.number for dot in dots)


def _counts(world: WholeWorld) -> Mapping[str, int]:
    return {
        "requests": world.requests,
        "messages": world.messages,
        "batches": world.roots.batches,
        "edits": len(world.edits),
        "changes of members": sum(map(len, world.changes.values())),
        "out": len([node for node in world.nodes if node.phase == REMOVED]),
        "deaths at a write of roots": world.roots.deaths,
    }


if __name__ == "__main__":
    sys.exit(play("tests.sim.whole", WholeWorld, Broken, _counts))
