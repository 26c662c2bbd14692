"""
Git in a cluster, simulated: the real L{GitSharing} of three nodes on one clock, over links that are
cut and nodes that are killed. Disks, workers, claims and the remote are simple stand-ins.

Watched all the time: no node serves what it has not got, and none goes back to an earlier version.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.task import Clock

from saltwisted.cluster.git.backing import Backing
from saltwisted.cluster.git.exchange import Exchange
from saltwisted.cluster.git.ground import Ground
from saltwisted.cluster.git.sharing import GitSharing
from saltwisted.domain.claims.words import Claim
from saltwisted.domain.git.agreement import NONE, Version, content, shown, version_of
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

KEY = "states"
REF = "refs/remotes/origin/master"
LEASE = 8.0
FETCHES = 5.0
NAMES = ("a", "b", "c")


def commit(number: int) -> str:
    """The name of a commit of the remote."""
    return f"{number:040x}"


@define
class Disk:
    """What outlives a process."""

    folder: str
    objects: set[str] = field(factory=set)
    state: dict[str, Any] = field(factory=dict)


def _objects(state: Mapping[str, Any]) -> set[str]:
    tips = [*state["refs"].values(), *state.get("back", {}).values()]
    return {oid for tip in tips for oid in tip}


def refused(failure: Any) -> None:
    """By an error that is told."""
    failure.trap(SaltwistedError)


class Copy:
    """The repository of one node (C{IGitCopy})."""

    shared = shown = KEY
    error = ""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.folder = node.disk.folder
        self.state: Mapping[str, Any] = dict(node.disk.state)

    @property
    def is_pillar(self) -> bool:
        """Of which kind all are."""
        return self._node.world.is_pillar


class Link:
    """To one node, for as long as it is up."""

    def __init__(self, world: World, here: Node, there: Node) -> None:
        self._world, self._here, self._there = world, here, there
        self.node = there.name
        self.is_up = True
        self._waiting: list[Deferred[bytes]] = []

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        """One way."""
        self._later(lambda: maybeDeferred(self._there.answer, word, self._here.name, body + tail))

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Deferred[bytes]:
        """Answered after two ways, or never: then it ends with the link."""
        if not self.is_up:
            return fail(TransportClosed("the link has ended"))
        answer: Deferred[bytes] = Deferred()
        self._waiting.append(answer)

        def came(value: Any) -> Any:
            self._later(lambda: self._settle(answer, value))

        def asked() -> None:
            d = maybeDeferred(self._there.answer, word, self._here.name, body)
            d.addCallback(lambda got: as_deferred(got) if hasattr(got, "__await__") else got)
            d.addBoth(came)  # type: ignore[unused-awaitable]

        self._later(asked)
        return answer

    def _settle(self, answer: Deferred[bytes], value: Any) -> None:
        if answer in self._waiting:
            self._waiting.remove(answer)
            if hasattr(value, "value"):
                answer.errback(RemoteError("PeerRefused", str(value.value)))
            else:
                answer.callback(value or b"")

    def _later(self, do: Callable[[], Any]) -> None:
        def arrive() -> None:
            if self.is_up:
                do()

        # In order, as on a connection
        self._world.clock.callLater(0.02 + self._world.slow, arrive)

    def end(self) -> None:
        """It is down."""
        self.is_up = False
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.errback(TransportClosed("the link has ended"))


class Node:
    """One life of a node: C{IPeers}, C{IClaims}, C{IGitUpdates} and C{IGitCopies} in one."""

    def __init__(self, world: World, name: str, disk: Disk) -> None:
        self.world, self.name, self.disk = world, name, disk
        self.is_alive = True
        self._links: dict[str, Link] = {}
        self._answers: dict[str, Any] = {}
        self._receivers: list[Any] = []
        self._duty: Any = None
        self.copies = self
        self.copy = Copy(self)
        self.is_fetching = False
        exchange = Exchange(
            self,  # type: ignore[arg-type]
            world.may_have,
            self._work,
            lambda function, *args: maybeDeferred(function, *args),
            lambda: self,  # type: ignore[arg-type,return-value]
            world.clock.seconds,
            lambda: 1 << 20,
        )
        ground = Ground(
            clock=world.clock,
            node=name,
            peers=self,  # type: ignore[arg-type]
            exchange=exchange,
            updates=lambda: self,  # type: ignore[arg-type,return-value]
            may_write=lambda node: node not in world.read_only,
            may_have=world.may_have,
        )
        self.sharing = GitSharing(ground, self, lambda: 30.0)  # type: ignore[arg-type]
        self.backing = Backing(ground, self.sharing)

    # peers

    def answer(self, word: str, *args: Any) -> Any:
        """Register a handler, or have one called."""
        if len(args) == 1:
            self._answers[word] = args[0]
            return None
        node, body = args
        return self._answers[word](node, body) if self.is_alive else Deferred()

    def on_link(self, receiver: Any) -> None:
        """Tell it of links."""
        self._receivers.append(receiver)

    def links(self) -> list[Link]:
        """Those that are up."""
        return [self._links[name] for name in sorted(self._links)]

    def linked(self, other: Node, up: bool) -> None:
        """A link comes up or goes down."""
        if up:
            link = self._links[other.name] = Link(self.world, self, other)
        else:
            link = self._links.pop(other.name)
            link.end()
        for receiver in self._receivers:
            receiver(link, up)

    # claims

    def duty(self, name: str, begin: Any, end: Any) -> None:
        """It would have the duty."""
        self._duty = (begin, end)

    def release(self, name: str) -> Deferred[None]:
        """No more."""
        self._duty = None
        return succeed(None)

    def holds(self, claim: Claim) -> bool:
        """By the world's lease."""
        return self.is_alive and self.world.holds(self.name, claim.term)

    def problem(self) -> str:
        """Nothing is told."""
        return ""

    def granted(self, term: int) -> None:
        """It has the duty."""
        if self._duty is not None:
            self._duty[0](Claim(key="duty/git", term=term, holder=self.name, until=0.0))

    def said_by(self, node: str, word: str, question: Mapping[str, Any]) -> Deferred[bytes]:
        """What this node answers another one, that may be anything but honest."""
        answer = maybeDeferred(self.answer, word, node, pack_bin(dict(question)))
        # Twisted 22.4 does not wait for coroutines here
        return answer.addCallback(
            lambda got: as_deferred(got) if hasattr(got, "__await__") else got
        )

    # updates and copies

    def all(self) -> dict[str, Copy]:
        """The one repository."""
        return {KEY: self.copy}

    generation = ""

    def request(self, shared: str) -> dict[str, Any]:
        """What a worker is asked."""
        return {"folder": self.disk.folder}

    def begin(self, pillar: bool) -> None:
        """It may fetch."""

    def ask(self, shared: str) -> Deferred[Any]:
        """What the remote has."""
        return self._work({"do": "fetch"}, 0.0)

    def update_now(self, shared: str) -> Any:
        """Fetch."""
        return as_deferred(self.sharing.fetch(KEY, False, lambda: self.ask(KEY)))

    def said(self, shared: str, error: str) -> None:
        """What the other says."""

    def learn(self, shared: str, state: Mapping[str, Any]) -> None:
        """More objects."""

    def took(self, shared: str, state: Mapping[str, Any]) -> None:
        """This is served: here the laws are watched."""
        before, after = self.served, version_of(state.get("version"))
        if after < before:
            self.world.broken.append(f"{self.name} goes back from {before} to {after}")
        lacking = _objects(state) - self.disk.objects
        if lacking:
            self.world.broken.append(f"{self.name} serves {after} and lacks {lacking}")
        self.world.know(after, content(state))
        self.copy.state = state

    def lacks(self, shared: str, tips: Mapping[str, Any]) -> list[str]:
        """What is not on the disk."""
        return sorted(_objects({"refs": tips}) - self.disk.objects)

    @property
    def served(self) -> Version:
        """The version that it serves."""
        return version_of(self.copy.state.get("version"))

    def roll_back(self, number: int) -> Deferred[Any]:
        """Its operator wants an earlier commit."""
        tip = commit(number)
        return Deferred.fromCoroutine(self.backing.roll_back(KEY, {REF: [tip, tip, tip]}))

    # the worker

    def _work(self, request: Mapping[str, Any], seconds: float) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()

        def done() -> None:
            if self.is_alive:
                try:
                    answer.callback(self._do(request))
                except Exception as error:
                    answer.callback({"error": repr(error)})

        self.world.clock.callLater(self.world.dice.uniform(0.01, 1.5), done)
        return answer

    def _do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        disk, do = self.disk, request["do"]
        if do == "fetch":
            if self.name in self.world.blind:
                return {"error": "no route to host"}
            tip = commit(self.world.head)
            disk.objects.add(tip)
            return {"state": {"repo": "r", "refs": {REF: [tip, tip, tip]}, "large": {}}}
        if do == "pack":
            if set(request["wants"]) - disk.objects:
                return {"error": "this node does not have all wanted objects"}
            path = os.path.join(disk.folder, f"pack-{len(os.listdir(disk.folder))}")
            with open(path, "wb") as file:
                file.write(pack_bin(request["wants"]))
            return {"path": path, "size": os.path.getsize(path)}
        if do == "take":
            if request["pack"]:
                with open(os.path.join(disk.folder, request["pack"]), "rb") as file:
                    disk.objects.update(unpack_bin(file.read()))
            refs = {ref: [oid, oid, oid] for ref, oid in request["refs"].items()}
            if set(request["refs"].values()) - disk.objects:
                return {"error": "what came from another node lacks something"}
            return {"state": {"repo": "r", "refs": refs, "large": {}, **request["aside"]}}
        # As the worker does: what is not here is not served
        state = {"repo": "r", "refs": dict(request["refs"]), **request["aside"]}
        if _objects(state) - disk.objects:
            return {"error": "object is not here"}
        disk.state = {**state, "version": request["version"]}
        return {"state": dict(disk.state)}


class World:
    """
    Three nodes.

    @ivar broken: what has happened that must not.
    @ivar head: the newest commit of the remote.
    @ivar blind: nodes that do not reach the remote.
    """

    def __init__(
        self, seed: int, folder: str, is_pillar: bool = False, denied: str = "", read_only: str = ""
    ) -> None:
        """
        @param is_pillar: whether the remote is one of C{git_pillar}.
        @param denied: nodes that may have no pillars, and C{read_only}: that say nothing to others.
        """
        self.dice = random.Random(seed)
        self.is_pillar, self.denied, self.read_only = is_pillar, denied, read_only
        self.clock = Clock()
        self.slow = 0.0
        self.head = 1
        self.broken: list[str] = []
        self.blind: set[str] = set()
        self.term = 0
        self._holder, self._until = "", 0.0
        self._life: Any = None
        self._sides: dict[str, int] = dict.fromkeys(NAMES, 0)
        self._known: dict[Version, Any] = {}
        self.nodes: dict[str, Node] = {}
        for name in NAMES:
            disk = Disk(os.path.join(folder, name))
            os.makedirs(disk.folder)
            self.start(name, disk)

    def may_have(self, node: str, pillar: bool) -> bool:
        """Whether a node may have something of this kind."""
        return not (pillar and node in self.denied)

    def know(self, version: Version, plain: Mapping[str, Any]) -> None:
        """One version is the same on all nodes."""
        if self._known.setdefault(version, plain) != plain:
            self.broken.append(f"two nodes serve different commits as {version}")

    # what happens to nodes

    def node(self, name: str, disk: Disk) -> Node:
        """What a life of a node is."""
        return Node(self, name, disk)

    def start(self, name: str, disk: Disk) -> None:
        """A new life."""
        node = self.nodes[name] = self.node(name, disk)
        for other in self.nodes.values():
            if (
                other is not node
                and other.is_alive
                and self._sides[other.name] == self._sides[name]
            ):
                node.linked(other, True)
                other.linked(node, True)
        self.begun(node)

    def begun(self, node: Node) -> None:
        """It starts."""
        _ = Deferred.fromCoroutine(node.sharing.startService())

    def kill(self, name: str) -> None:
        """In the middle of whatever it does."""
        node = self.nodes[name]
        node.is_alive = False
        for link in node.links():
            self.nodes[link.node].linked(node, False)
            link.end()
        if node.sharing._loop is not None:
            node.sharing._loop.stop()

    def cut(self, sides: Mapping[str, int]) -> None:
        """From now on only nodes of one side are linked."""
        before, self._sides = self._sides, dict(sides)
        living = [node for node in self.nodes.values() if node.is_alive]
        for one in living:
            for other in living:
                was = before[one.name] == before[other.name]
                now = sides[one.name] == sides[other.name]
                if one is not other and was is not now:
                    one.linked(other, now)

    # claims

    @property
    def _same(self) -> bool:
        """Whether the holder is in the life in which it got the duty."""
        return self._life is self.nodes[self._holder]

    def holds(self, name: str, term: int) -> bool:
        """Whether it has the duty now."""
        return (name, term) == (self._holder, self.term) and self.clock.seconds() < self._until

    def _judge(self) -> None:
        """Renew the lease with a majority; a new one only after the old one has run out."""

        def able(name: str) -> bool:
            side = self._sides[name]
            near = [n for n in NAMES if self.nodes[n].is_alive and self._sides[n] == side]
            return self.nodes[name].is_alive and len(near) > 1

        now = self.clock.seconds()
        if self._holder and able(self._holder) and self._same and now < self._until:
            self._until = now + LEASE
        elif now >= self._until:
            wanting = [name for name in NAMES if able(name) and self.nodes[name]._duty]
            if wanting:
                self._holder = self.dice.choice(wanting)
                self._life = self.nodes[self._holder]
                self.term += 1
                self._until = now + LEASE
                self.nodes[self._holder].granted(self.term)

    # time

    def run(self, seconds: float) -> None:
        """Let time pass: who has the duty fetches every few seconds."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            self.clock.advance(0.1)
            self._judge()
            for node in self.nodes.values():
                self._have_fetched(node)

    def _have_fetched(self, node: Node) -> None:
        if not node.is_alive or node.is_fetching or not node.sharing.fetches(self.is_pillar):
            return
        node.is_fetching = True

        def again(result: Any) -> None:
            def free() -> None:
                node.is_fetching = False

            self.clock.callLater(FETCHES, free)
            if hasattr(result, "value") and node.is_alive:
                self.broken.append(f"a fetch failed: {result.value!r}")

        node.update_now(KEY).addBoth(again)  # type: ignore[unused-awaitable]

    def served(self) -> set[tuple[Version, str]]:
        """What living nodes serve."""
        return {
            (node.served, shown(node.copy.state).get(REF, [""])[0])
            for node in self.nodes.values()
            if node.is_alive
        }


def chaos(world: World, steps: int) -> None:
    """Kills, cuts, pushes and remotes that cannot be reached, by the world's dice."""
    dice = world.dice
    for _ in range(steps):
        what = dice.randrange(7)
        if what == 0:
            world.cut({name: dice.randrange(2) for name in NAMES})
        elif what == 1:
            world.cut(dict.fromkeys(NAMES, 0))
        elif what == 2:
            name = dice.choice(NAMES)
            if world.nodes[name].is_alive:
                world.kill(name)
        elif what == 3:
            for name in NAMES:
                if not world.nodes[name].is_alive:
                    world.start(name, world.nodes[name].disk)
        elif what == 4:
            world.blind = {name for name in NAMES if dice.randrange(3) == 0}
        elif what == 5:
            name = dice.choice(NAMES)
            if world.nodes[name].is_alive:
                # It may be refused: nobody has the duty, or the link to who has it ends
                world.nodes[name].roll_back(dice.randint(1, world.head)).addErrback(refused)
        world.slow = dice.choice((0.0, 0.0, 0.5))
        world.head += dice.randrange(3)
        world.run(dice.uniform(0.2, 12.0))


def heal(world: World) -> None:
    """All is well again."""
    world.blind, world.slow = set(), 0.0
    for name in NAMES:
        if not world.nodes[name].is_alive:
            world.start(name, world.nodes[name].disk)
    world.cut(dict.fromkeys(NAMES, 0))
    world.head += 1
    world.run(60.0)


__all__ = ("KEY", "NAMES", "NONE", "World", "chaos", "commit", "heal", "refused")
