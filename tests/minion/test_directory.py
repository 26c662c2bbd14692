"""
Who the masters are: configured, found by DNS, told by masters; and links that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.names import client, dns, server
from twisted.names.authority import FileAuthority
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.minion import failover
from saltwisted.minion.connection import Hooks
from saltwisted.minion.directory import Directory, Master, Service, in_order, srv_lookup
from saltwisted.minion.failover import Choice, Dial, Drop, Place, Policy, step
from saltwisted.minion.links import Links
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.stores.minion import MastersFile
from tests.minion.fakemaster import FakeMaster, FakeNet, MemoryKeys, config, facts, outside
from tests.minion.test_subscriber import MemoryKept

SRV = ("_salt._tcp.example.com", 4506)


class Names:
    """Name servers that answer what the test says."""

    def __init__(self) -> None:
        self.answers: Any = OSError("no answer")
        self.asked = 0

    async def ask(self, name: str) -> Sequence[Service]:
        """SRV records."""
        self.asked += 1
        if isinstance(self.answers, Exception):
            raise self.answers
        found: Sequence[Service] = self.answers
        return found


class Memory:
    """What is remembered."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def load(self) -> list[str]:
        """As it was saved."""
        return list(self.names)

    def save(self, names: Sequence[str]) -> None:
        """Keep."""
        self.names = list(names)


class OrderTests(SynchronousTestCase):
    """RFC 2782."""

    def test_priority_and_weight(self) -> None:
        """Lower priorities first; among equals chance as the weights say."""
        records = [
            Service("spare", 4506, 20, 100),
            Service("big", 4506, 10, 90),
            Service("small", 4506, 10, 10),
            Service("never", 4506, 10, 0),
        ]
        first: Counter[str] = Counter()
        for seed in range(1000):
            ordered = in_order(records, Random(seed))
            self.assertEqual(ordered[3].host, "spare")
            self.assertEqual(len({one.host for one in ordered}), 4)
            first[ordered[0].host] += 1

        self.assertGreater(first["big"], 800)
        self.assertGreater(first["small"], 50)
        self.assertLess(first["never"], 20)


class DirectoryTests(SynchronousTestCase):
    """The list and its changes."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.names = Names()
        self.kept = Memory()
        self.changes: list[list[Master]] = []
        self.needy = False

    def build(self, *configured: Master) -> Directory:
        """One, started."""
        made = Directory(
            self.clock,
            configured,
            self.names.ask,
            Random(1),
            self.kept,
            lambda name: None if " " in name else (name, 4506),
            lambda masters: self.changes.append(list(masters)),
            lambda: self.needy,
        )
        made.start()
        self.addCleanup(made.stop)
        return made

    def test_plain(self) -> None:
        """Without SRV names nobody is asked."""
        made = self.build(("a", 4506), ("b", 1), ("a", 4506))

        self.assertEqual(made.masters, [("a", 4506), ("b", 1)])
        self.assertEqual((self.names.asked, self.clock.getDelayedCalls()), (0, []))

    def test_records(self) -> None:
        """Records stand where the name stands; they are asked for again when they expire."""
        self.names.answers = [Service("x", 14506, 1, ttl=60), Service("y", 0, 2, ttl=600)]
        made = self.build(("a", 4506), SRV, ("b", 4506))
        both = [("a", 4506), ("x", 14506), ("y", 4506), ("b", 4506)]
        self.assertEqual(made.masters, both)
        self.assertEqual(self.changes, [both])

        self.clock.advance(80)
        self.assertEqual(self.names.asked, 2)
        self.assertEqual(len(self.changes), 1)
        self.names.answers = [Service("y", 4506, ttl=1e9)]
        self.clock.advance(80)

        self.assertEqual(self.changes[-1], [("a", 4506), ("y", 4506), ("b", 4506)])
        self.clock.advance(4400)
        self.assertEqual(self.names.asked, 4)

    def test_no_answer(self) -> None:
        """What was known holds while name servers are silent, and they are asked again soon."""
        made = self.build(SRV)
        self.assertEqual(made.masters, [])
        self.clock.advance(7)
        self.assertEqual(self.names.asked, 2)
        self.names.answers = [Service("x", 4506)]
        self.clock.advance(7)
        self.assertEqual(made.masters, [("x", 4506)])

        self.names.answers = []
        self.clock.advance(80)

        self.assertEqual(made.masters, [("x", 4506)])

    def test_needy(self) -> None:
        """While no master is there they are asked more often than the records say."""
        self.names.answers = [Service("x", 4506, ttl=3600)]
        self.needy = True
        self.build(SRV)

        self.clock.pump([1] * 60)

        self.assertGreater(self.names.asked, 4)

    def test_told(self) -> None:
        """What a master says comes after the configuration, and is known after a restart."""
        made = self.build(("a", 4506))

        made.told(["b", "no name", "a", "c"])
        made.told(["b", "no name", "a", "c"])

        known = [("a", 4506), ("b", 4506), ("c", 4506)]
        self.assertEqual(self.changes, [known])
        self.assertEqual(self.build(("a", 4506)).masters, known)
        made.told(["c"])
        self.assertEqual(self.changes[-1], [("a", 4506), ("c", 4506)])
        made.told([" "])
        self.assertEqual(len(self.changes), 2)

    def test_told_by_itself(self) -> None:
        """A master that we know by a name is not a second master when it tells its address."""
        made = self.build(("name", 4506))

        made.told(["a", "b"], ("name", 4506), "a")
        self.assertEqual(made.masters, [("name", 4506), ("b", 4506)])
        made.told(["a", "b"], ("b", 4506), "b")
        self.assertEqual(made.masters, [("name", 4506), ("b", 4506)])
        # Behind one name (a balancer) another node answers now
        made.told(["a", "b"], ("name", 4506), "b")
        self.assertEqual(made.masters, [("name", 4506), ("a", 4506)])
        made.told(["a", "b"], ("name", 4506), "no name")
        self.assertEqual(made.masters, [("name", 4506), ("a", 4506)])

    def test_file(self) -> None:
        """The list survives in a file; one that cannot be read is not a list."""
        path = self.mktemp()
        MastersFile(f"{path}/x/masters").save(["a", "b:1"])
        self.assertEqual(MastersFile(f"{path}/x/masters").load(), ["a", "b:1"])
        self.assertEqual(MastersFile(f"{path}/x").load(), [])
        self.assertEqual(MastersFile(f"{path}/none").load(), [])


class NameServerTests(TestCase):
    """A real name server on loopback, since what is proved is what twisted.names does."""

    timeout = 20

    def test_lookup(self) -> Deferred[None]:
        """Records come with port, priority, weight and time to live."""
        name = "_salt._tcp.example.com"

        class Zone(FileAuthority):
            def loadFile(self, filename: str) -> None:
                self.soa = (b"example.com", dns.Record_SOA(b"ns", b"me", 1, 1, 1, 1, 60))
                self.records = {
                    b"example.com": [self.soa[1]],
                    name.encode(): [
                        dns.Record_SRV(10, 5, 4506, b"one.example.com", ttl=77),
                        dns.Record_SRV(20, 0, 14506, b"two.example.com", ttl=88),
                    ],
                }

        authority = Zone("")
        factory = server.DNSServerFactory(authorities=[authority])
        port = reactor.listenUDP(0, dns.DNSDatagramProtocol(factory), "127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        resolver = client.Resolver(servers=[("127.0.0.1", port.getHost().port)], reactor=reactor)

        async def ask() -> None:
            found = await srv_lookup(reactor, resolver)(name)
            self.assertEqual(
                sorted(found, key=lambda one: one.port),
                [
                    Service("one.example.com", 4506, 10, 5, 77.0),
                    Service("two.example.com", 14506, 20, 0, 88.0),
                ],
            )
            with self.assertRaises(Exception):
                await srv_lookup(reactor, resolver)("_none._tcp.example.com")

        return Deferred.fromCoroutine(ask())


class FollowTests(SynchronousTestCase):
    """Links follow the list."""

    def setUp(self) -> None:
        self.net = FakeNet()
        self.masters = {
            name: self.net.add(name, FakeMaster(), f"10.0.0.{number}")
            for number, name in enumerate("abc", 1)
        }
        for master in self.masters.values():
            master.ours = True
            master.publish_key = self.masters["a"].publish_key
            master.sessions = self.masters["a"].sessions
        self.names = Names()
        self.kept = Memory()
        self.used: list[str] = []

    def build(self, **options: Any) -> Links:
        """Links, started."""
        subscriber = Subscriber(
            facts, lambda job, link: None, Seen(MemoryKept(), self.net.clock.seconds)
        )
        links = Links(
            config(**options),
            outside(self.net, MemoryKeys(), services=self.names.ask, kept=self.kept),
            subscriber,
            facts,
            Hooks(on_up=lambda link, first: self.used.append(link.name)),
        )
        self.addCleanup(links.stopService)
        links.startService()
        return links

    def up(self, links: Links) -> list[str]:
        """Who is connected."""
        return [link.name for link in links.links if link.up]

    def test_hot_records(self) -> None:
        """A minion starts with no master at all, connects to those of the records, and follows."""
        links = self.build(master=SRV[0])
        self.net.run(3)
        self.assertEqual(links.links, [])

        self.names.answers = [Service("a", 4506, ttl=5), Service("b", 4506, ttl=5)]
        self.net.run(10)
        self.assertEqual(sorted(self.up(links)), ["a", "b"])
        self.names.answers = [Service("b", 4506, ttl=5), Service("c", 4506, ttl=5)]
        self.net.run(10)
        self.assertEqual(sorted(self.up(links)), ["b", "c"])
        self.names.answers = [Service("a", 4506, ttl=5)]
        self.net.run(10)

        self.assertEqual(self.up(links), ["a"])
        self.assertEqual(len(links.links), 3)

    def test_cluster(self) -> None:
        """One configured master names the others; when it dies, another of them is used."""
        for master in self.masters.values():
            master.masters = ["b", "a", "c"]
        links = self.build(master="a")
        self.net.run(15)
        self.assertEqual(self.up(links), ["a"])
        self.assertEqual(self.kept.names, ["b", "a", "c"])

        del self.net.masters["10.0.0.1", 4506]
        self.net.run(30)

        self.assertEqual(self.used, ["a", "b"])
        self.assertEqual(self.up(links), ["b"])

    def test_known_from_before(self) -> None:
        """A minion whose configured master is gone for good finds those it was told of."""
        self.kept.names = ["c"]
        links = self.build(master="unknown")
        self.net.run(10)

        self.assertEqual(self.up(links), ["c"])

    def test_one_that_is_not_listed_any_more(self) -> None:
        """The master in use is used on when the list forgets it; after its end it is not."""
        self.names.answers = [Service("a", 4506, ttl=5)]
        links = self.build(master=[SRV[0]], master_type="failover")
        self.net.run(3)
        self.names.answers = [Service("b", 4506, ttl=5)]
        self.net.run(10)
        self.assertEqual(self.up(links), ["a"])

        del self.net.masters["10.0.0.1", 4506]
        self.net.run(40)
        self.net.add("a", self.masters["a"])
        self.net.run(40)

        self.assertEqual((self.up(links), self.used), (["b"], ["a", "b"]))

    def test_ping(self) -> None:
        """C{ping_interval} is in minutes, and the ping is an event at each master."""
        links = self.build(master=["a", "b"], ping_interval=2)
        self.net.run(130, 0.5)

        self.assertEqual(sorted(self.up(links)), ["a", "b"])
        for name in "ab":
            tags = [load.get("tag") for load in self.masters[name].loads]
            self.assertEqual(tags.count("minion_ping"), 1)


class HistoryTests(SynchronousTestCase):
    """Fail-over while the list changes."""

    def test_any_history(self) -> None:
        """Who serves is dialled; who is dialled is listed, or serves; somebody is always tried."""
        for seed in range(300):
            dice = Random(seed)
            choice = Choice(order=())
            dialled: set[int] = set()
            for _ in range(120):
                kind = dice.choice(
                    (
                        failover.Begin(),
                        failover.Turn(),
                        failover.Look(),
                        failover.Up(dice.randrange(4)),
                        failover.Down(dice.randrange(4)),
                        failover.Unreached(dice.randrange(4)),
                        failover.Doubted(dice.randrange(4), True),
                        failover.Trusted(dice.randrange(4)),
                        failover.Listed(tuple(dice.sample(range(4), dice.randrange(5)))),
                        failover.End() if dice.random() < 0.1 else failover.Turn(),
                    )
                )
                choice, effects = step(choice, kind, Policy())
                for effect in effects:
                    if isinstance(effect, Dial):
                        self.assertNotIn(effect.master, dialled)
                        dialled.add(effect.master)
                    elif isinstance(effect, Drop):
                        dialled.discard(effect.master)

                self.assertEqual(dialled, set(choice.dialled), (seed, kind))
                if choice.serving is not None:
                    self.assertIn(choice.serving, dialled)
                self.assertLessEqual(dialled - {choice.serving}, set(choice.order))
                if choice.place is Place.SEEKING and choice.order:
                    self.assertTrue(dialled, (seed, kind))
