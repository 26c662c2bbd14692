"""
The publish key changes while jobs are given: nodes of one cluster, and minions of both kinds that
listen to all of them, on one clock.

Real are the change of the key on each node (L{ClusterRotation}), its fact, the publications, and
the links of our minions. Simulated are a stock minion, as far as the key goes, and the wire: words
and facts between nodes take their time, publications come in order and later than answers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any

from twisted.internet.defer import succeed

from saltwisted.cluster.facts.rotation import ClusterRotation
from saltwisted.config.options import MasterConfig
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.secrets import PUBLISH, Secrets
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import AuthenticationError
from saltwisted.master.publisher import Publisher
from saltwisted.minion.channel import Identity
from saltwisted.minion.links import Links
from saltwisted.minion.subscriber import NEXT_KEY, Seen, Subscriber
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.publication import Publication, decode_publication, open_job
from tests.cluster.memory import MemoryPeers
from tests.minion.fakemaster import FakeMaster, FakeNet, MemoryKeys, config, outside
from tests.minion.test_subscriber import MemoryKept, jid
from tests.wire.recorded import Dice, key

SLOWEST = 3.0
"""Seconds that the sign-in of a stock minion waits at most, among those of all others."""


class Broken(AssertionError):
    """A promise is broken."""


class Node(FakeMaster):
    """One node: what it answers comes from its real publisher."""

    def __init__(self, world: World, name: str, address: str) -> None:
        super().__init__()
        self.world, self.name, self.address = world, name, address
        self.ours = True
        self.secrets = Secrets()
        self.peers = MemoryPeers(name, world.net.clock)
        self.signing = 0
        self.publisher = Publisher(
            MasterConfig(), key("master"), world.bytes, self.publish_key, world.net.clock.seconds
        )
        self.publisher.add_server(self)  # type: ignore[arg-type]
        self.rotation = ClusterRotation(
            world.net.clock,
            self.peers,
            self.publisher,
            lambda: self.secrets.versions(PUBLISH),
            self.make,
            lambda: not self.signing,
            lambda: self.give(f"{name} announces", fun=NEXT_KEY, tgt=[], tgt_type="list"),
            lambda: None,
        )

    def make(self) -> Any:
        """A new version, in the own log now and in the others when it comes there."""
        value = SessionKey.generate(self.world.bytes).text.encode()
        body = self.secrets.next_body(PUBLISH, value, self.world.net.clock.seconds())
        for node in self.world.nodes:
            wait = 0.0 if node is self else self.world.dice.choice(self.world.spread)
            self.world.net.clock.callLater(wait, node.take, body)
        return succeed(None)

    def take(self, body: dict[str, Any]) -> None:
        """A fact has come."""
        self.secrets.apply(body, 0, Dot(Stream("x", "0" * 16), 0))
        self.rotation.changed()

    def handle(self, frame: bytes) -> bytes | None:
        """The reply to a frame."""
        self.publish_key, self.next_key = self.publisher.key, self.publisher.next_key
        self.former = self.publisher.former()
        return super().handle(frame)

    def give(self, name: str, **more: Any) -> None:
        """Publish a job."""
        job = {"fun": "test.ping", "arg": [], "tgt": "*", "ret": "", "jid": name, **more}
        self.publisher.publish(job, None)

    def publish(self, payload: bytes, topics: Sequence[bytes] | None) -> None:
        """It comes to who listens to this node, in order."""
        self.world.net.clock.callLater(self.world.lag, self.world.arrive, self, payload)


class Stock:
    """
    A stock minion, as far as the publish key goes: what it cannot read makes it sign in, and what
    it still cannot read then is lost.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys = {node.name: node.publisher.key for node in world.nodes}
        self.waiting: dict[str, deque[Publication]] = {}
        self.ran: Counter[str] = Counter()
        self.sign_ins = 0

    def hear(self, node: Node, payload: bytes) -> None:
        """A publication."""
        publication = decode_publication(payload)
        waiting = self.waiting.get(node.name)
        if self.read(node, publication):
            return
        if waiting is None:
            # One sign-in for all that comes meanwhile
            self.waiting[node.name] = waiting = deque()
            self.sign_ins += 1
            node.signing += 1
            wait = self.world.dice.choice((0.01, 0.1, SLOWEST))
            self.world.net.clock.callLater(wait, self.signed_in, node)
        waiting.append(publication)

    def signed_in(self, node: Node) -> None:
        """It has the key of this moment."""
        node.signing -= 1
        self.keys[node.name] = node.publisher.key
        for publication in self.waiting.pop(node.name):
            self.read(node, publication)

    def read(self, node: Node, publication: Publication) -> bool:
        """Run it, unless it was run; whether it can be read."""
        try:
            job = open_job(publication, self.keys[node.name])
        except AuthenticationError:
            return False
        if job.fun != NEXT_KEY and not self.ran[job.jid]:
            self.ran[job.jid] += 1
        return True


class World:
    """
    Three nodes, two minions of ours, and two stock ones or none.

    @ivar lag: seconds that publications take.
    @ivar spread: seconds that a fact may take to another node.
    """

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.bytes = Dice(seed * 1_000_000)
        self.net = FakeNet(delay=self.dice.choice((0.01, 0.4)))
        self.lag = self.dice.choice((0.001, 0.05, 0.3))
        self.spread = self.dice.choice(((0.01,), (0.01, 0.3), (0.01, 0.3, 2.0, 7.0)))
        self.nodes = [Node(self, name, f"10.0.0.{n}") for n, name in enumerate("abc", 1)]
        for node in self.nodes:
            self.net.add(node.name, node, node.address)
        self.nodes[0].make()
        self.net.run(8)
        for node in self.nodes:
            node.rotation.startService()
        for one, other in ((0, 1), (0, 2), (1, 2)):
            self.nodes[one].peers.join(self.nodes[other].peers)
        self.net.run(70, 1.0)
        self.stock = [Stock(self) for _ in range(self.dice.choice((0, 2)))]
        self.ours = [Counter[str]() for _ in range(2)]
        self.links = [self.minion(f"m{n}", ran) for n, ran in enumerate(self.ours)]
        self.given: list[str] = []

    def minion(self, minion_id: str, ran: Counter[str]) -> Links:
        """One of ours."""
        facts = MinionFacts(id=minion_id, grains={}, pillar={}, nodegroups={})

        def run(job: Any, link: Any) -> None:
            ran[job.jid] += 1

        pair = key("minion")
        identity = Identity(id=minion_id, key=pair, tok=pair.sign_x931(b"salt"))
        links = Links(
            config(id=minion_id, master=[node.name for node in self.nodes]),
            outside(self.net, MemoryKeys(), identity=identity, dice=Random(self.dice.random())),
            Subscriber(lambda: facts, run, Seen(MemoryKept(), self.net.clock.seconds)),
            lambda: facts,
        )
        links.startService()
        return links

    def arrive(self, node: Node, payload: bytes) -> None:
        """A publication comes to all that listen to a node."""
        for one in list(self.net.subscriptions):
            if one.where[0] == node.address:
                one.received(payload, None)
        for minion in self.stock:
            minion.hear(node, payload)

    def job(self) -> None:
        """A job, which each node publishes."""
        name = jid(len(self.given))
        self.given.append(name)
        for node in self.nodes:
            self.net.clock.callLater(self.dice.choice((0.0, 0.005, 0.02)), node.give, name)

    def run(self, seconds: float = 60.0) -> World:
        """
        Play, and see whether each job came to each minion, once.

        @raises Broken: it did not.
        """
        try:
            self.net.run(5)
            for _ in range(int(seconds / 0.25)):
                if self.dice.random() < 0.25:
                    self.dice.choice(self.nodes).rotation.request("a test")
                if self.dice.random() < 0.3:
                    self.job()
                self.net.run(0.25, 0.05)
            self.net.run(15)
        finally:
            for links in self.links:
                links.stopService()
            for node in self.nodes:
                node.rotation.stopService()
        for which, ran in [("ours", ran) for ran in self.ours] + [
            ("stock", minion.ran) for minion in self.stock
        ]:
            if ran != Counter(self.given):
                raise Broken(
                    f"{which}: {Counter(self.given) - ran} lost, {ran - Counter(self.given)}"
                )
        signed = [node.log.count("_auth") for node in self.nodes]
        if signed != [len(self.links)] * len(self.nodes):
            raise Broken(f"ours signed in {signed} times")
        return self
