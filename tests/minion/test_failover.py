from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any
from zlib import crc32

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.minion import failover
from saltwisted.minion import links as links_module
from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.failover import (
    TABLE,
    Ask,
    Choice,
    Dial,
    Drop,
    Hush,
    Lose,
    Place,
    Policy,
    Serve,
    ranked,
    step,
)
from saltwisted.minion.links import Links
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.wire.handshake import MasterIdentity
from saltwisted.wire.rsa import PrivateKey
from tests.minion.fakemaster import (
    JID,
    FakeMaster,
    FakeNet,
    MemoryKeys,
    config,
    facts,
    outside,
)
from tests.minion.test_subscriber import MemoryKept
from tests.wire.recorded import key

EVENTS = (
    failover.Begin(),
    failover.End(),
    failover.Listed((0, 1, 2)),
    failover.Turn(),
    failover.Look(),
    *(
        kind(number)
        for kind in (failover.Up, failover.Down, failover.Unreached, failover.Trusted)
        for number in range(3)
    ),
    *(failover.Doubted(number, silent) for number in range(3) for silent in (False, True)),
)


def three(**changes: Any) -> Choice:
    """Three masters, none wanted yet."""
    return Choice(order=(0, 1, 2), **changes)


class TableTests(SynchronousTestCase):
    def test_every_event_in_every_place(self) -> None:
        """Links speak when they like: no event is a surprise anywhere."""
        kinds = {event.__class__ for event in EVENTS}

        self.assertEqual(set(TABLE), {(place, kind) for place in Place for kind in kinds})

    def test_any_history(self) -> None:
        """Whatever happens, the order keeps all masters, and who serves is dialled and alone."""
        for seed in range(200):
            dice = Random(seed)
            policy = Policy(failback=dice.choice((0.0, 30.0)))
            choice = three(home=dice.choice((None, 0)))
            dialled: set[int] = set()
            serving: int | None = None
            for _ in range(100):
                choice, effects = step(choice, dice.choice(EVENTS), policy)
                for effect in effects:
                    if isinstance(effect, Dial):
                        self.assertNotIn(effect.master, dialled)
                        dialled.add(effect.master)
                    elif isinstance(effect, Drop):
                        dialled.discard(effect.master)
                    elif isinstance(effect, Serve):
                        serving = effect.master
                    elif isinstance(effect, Lose) and serving == effect.master:
                        serving = None

                self.assertEqual(sorted(choice.order), [0, 1, 2])
                self.assertEqual(dialled, set(choice.dialled))
                self.assertEqual(serving, choice.serving)
                self.assertEqual(serving is None, choice.place in (Place.STOPPED, Place.SEEKING))
                if serving is not None:
                    self.assertIn(serving, dialled)
                if choice.place is Place.STOPPED:
                    self.assertEqual(dialled, set())
                elif choice.place is Place.SEEKING:
                    self.assertNotEqual(dialled, set())

    def test_staggered(self) -> None:
        """The next master is dialled at the first failure or after a turn, more at each turn."""
        policy = Policy(stagger=2)
        choice, effects = step(Choice(order=(0, 1, 2, 3, 4)), failover.Begin(), policy)
        self.assertEqual(effects, (Dial(0), Ask(2)))
        after, effects = step(choice, failover.Unreached(0), policy)
        self.assertEqual(effects, (Dial(1), Ask(2)))
        after, effects = step(after, failover.Turn(), policy)
        self.assertEqual(effects, (Dial(2), Dial(3), Ask(2)))
        after, effects = step(after, failover.Turn(), policy)
        self.assertEqual(effects, (Dial(4), Hush()))

    def test_failed_one_goes_to_the_end(self) -> None:
        """When the one in use fails the next in order is dialled, and it is the last now."""
        choice = three(place=Place.SERVED, serving=0, dialled=frozenset({0}))

        after, effects = step(choice, failover.Down(0), Policy())

        self.assertEqual(after.order, (1, 2, 0))
        self.assertEqual(effects[:2], (Lose(0), Dial(1)))

    def test_doubt(self) -> None:
        """Silence dials another at once; being heard lets that one go again."""
        choice = three(place=Place.SERVED, serving=0, dialled=frozenset({0}))
        doubting, effects = step(choice, failover.Doubted(0, True), Policy())
        self.assertIn(Dial(1), effects)

        _, effects = step(doubting, failover.Trusted(0), Policy())
        self.assertEqual(effects, (Drop(1), Hush()))
        after, effects = step(doubting, failover.Up(1), Policy())

        self.assertEqual(effects[:3], (Serve(1), Lose(0), Drop(0)))
        self.assertEqual(after.serving, 1)

    def test_one_master_is_never_dropped(self) -> None:
        """A list of one waits for that one, whatever happens to it."""
        choice, _ = step(Choice(order=(0,)), failover.Begin(), Policy())
        for event in (failover.Unreached(0), failover.Turn(), failover.Up(0), failover.Down(0)):
            choice, effects = step(choice, event, Policy())
            self.assertNotIn(Drop(0), effects)
        self.assertEqual(choice.dialled, {0})

    def test_options(self) -> None:
        """Who is first: the list's first, chance with random_master, the id with distributed."""

        def order(master_type: str, **options: Any) -> tuple[int, ...]:
            settings = config(master_type=master_type, **options)
            return ranked(settings, range(3), lambda some: some.reverse()).order

        first = crc32(b"m1") % 3
        self.assertEqual(order("failover"), (0, 1, 2))
        self.assertEqual(order("failover", random_master=True), (2, 1, 0))
        self.assertEqual(order("failover", master_shuffle=True), (2, 1, 0))
        self.assertEqual(order("failover", random_master=True, master_failback=True), (0, 2, 1))
        rest = tuple(n for n in range(3) if n != first)
        self.assertEqual(order("distributed"), (first, *rest))
        self.assertEqual(order("distributed", random_master=True), (first, *reversed(rest)))

    def test_intervals(self) -> None:
        """The interval of failback is its own, that of the alive checks, or ours."""
        cases = ((0, 0, 30), (0, 7, 7), (9, 7, 9), (0.1, 0, 1))
        for own, alive, expected in cases:
            settings = config(
                master_failback=True, master_failback_interval=own, master_alive_interval=alive
            )
            self.assertEqual(Policy.of(settings).failback, expected)
        self.assertEqual(Policy.of(config(master_failback_interval=9)).failback, 0)


class FailoverTests(SynchronousTestCase):
    """Three masters on a fake network; one of them in use."""

    def setUp(self) -> None:
        self.net = FakeNet()
        self.names = ["a", "b", "c"]
        self.masters = [
            self.net.add(name, FakeMaster(), f"10.0.0.{number}")
            for number, name in enumerate(self.names, 1)
        ]
        first = self.masters[0]
        for master in self.masters:
            master.ours = True
            master.publish_key, master.sessions = first.publish_key, first.sessions
            master.pillar = {"from": self.names[self.masters.index(master)]}
        self.heard: list[Any] = []
        self.jobs: list[Any] = []

    def build(self, **options: Any) -> Links:
        subscriber = Subscriber(
            facts,
            lambda job, link: self.jobs.append((job.jid, link.name)),
            Seen(MemoryKept(), self.net.clock.seconds),
        )
        self.links = links = Links(
            config(**{"master": self.names, "master_type": "failover", **options}),
            outside(self.net, MemoryKeys()),
            subscriber,
            facts,
            Hooks(
                on_up=lambda link, first: self.heard.append(("up", link.name)),
                on_down=lambda link, reason: self.heard.append(("down", link.name)),
                on_pillar=lambda link, pillar: self.heard.append(("pillar", pillar["from"])),
            ),
        )
        self.addCleanup(self.check_end)
        return links

    def check_end(self) -> None:
        self.links.stopService()
        self.net.run(100, 1.0)
        self.assertEqual(self.net.clock.getDelayedCalls(), [])
        self.assertEqual(self.net.subscriptions, [])
        self.assertTrue(all(channel.closed for channel in self.net.channels))

    def start(self, seconds: float = 1, **options: Any) -> Links:
        links = self.build(**options)
        links.startService()
        self.net.run(seconds)
        return links

    @property
    def serving(self) -> str:
        link = self.links.best
        return link.name if link is not None else ""

    def dies(self, number: int, quietly: bool = False) -> None:
        """A master ends; its connections with it, unless nobody could tell."""
        self.masters[number].alive = False
        address = f"10.0.0.{number + 1}"
        for one in list(self.net.subscriptions):
            if one.where[0] == address and not quietly:
                one.lost()

    def test_first_of_the_list(self) -> None:
        """The first that answers is in use, and nobody else is even looked up."""
        self.start()

        self.assertEqual(self.serving, "a")
        self.assertEqual(self.heard, [("pillar", "a"), ("up", "a")])
        self.assertEqual(self.net.resolved, ["a"])

    def test_start_order(self) -> None:
        """Any subset of masters may be up at the start: one is in use within five seconds."""
        for up in (s for n in (1, 2, 3) for s in permutations(range(3), n)):
            for number, master in enumerate(self.masters):
                master.alive = number in up
            self.start(5)
            self.assertIn(self.serving, [self.names[number] for number in up])
            self.check_end()

    def test_mistake(self) -> None:
        """If one effect fails, those after it come about, and so does what they bring about."""
        standby = self.start()._standby
        assert standby is not None
        done: list[str] = []

        def fail(driver: Any, effect: int) -> None:
            done.append("failed")
            standby.happens("second")
            raise ZeroDivisionError("a mistake")

        def do(driver: Any, effect: str) -> None:
            done.append(effect)

        outcomes = {"first": (1, "after it"), "second": ("brought about",)}
        self.patch(links_module, "_EFFECTS", {int: fail, str: do})
        self.patch(failover, "step", lambda choice, event, policy: (choice, outcomes[event]))
        standby.happens("first")

        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(done, ["failed", "after it", "brought about"])

    def test_unresolvable(self) -> None:
        """A name that is not known costs no wait at all."""
        self.net.names["a"] = OSError("unknown")
        self.start(0.5)

        self.assertEqual(self.serving, "b")

    def test_pending(self) -> None:
        """A master that has not accepted us yet does not keep us from one that has."""
        self.masters[0].state = "pending"
        self.start(0.5)

        self.assertEqual(self.serving, "b")

    def test_killed(self) -> None:
        """A killed master is replaced within three seconds, without configuration."""
        self.start()
        self.dies(0)
        self.net.run(3)

        self.assertEqual(self.serving, "b")
        self.assertEqual(self.heard[-2:], [("up", "b"), ("down", "a")])
        self.assertIn(("pillar", "b"), self.heard)

    def test_stopped(self) -> None:
        """A master that keeps its connections but says nothing is replaced too."""
        self.start()
        self.dies(0, quietly=True)
        self.net.run(18)

        self.assertEqual(self.serving, "b")

    def test_alive_interval(self) -> None:
        """With master_alive_interval that is noticed as fast as it says."""
        self.start(master_alive_interval=2)
        self.dies(0, quietly=True)
        self.net.run(9)

        self.assertEqual(self.serving, "b")

    def test_blink(self) -> None:
        """A connection that ends under a living master does not make the minion change."""
        self.start()
        for one in list(self.net.subscriptions):
            one.lost()
        self.net.run(10)

        self.assertEqual(self.serving, "a")
        self.assertEqual(self.net.resolved, ["a"])

    def test_fifty_failovers(self) -> None:
        """It changes as often as it must."""
        self.start()
        for _ in range(50):
            dead = self.names.index(self.serving)
            self.dies(dead)
            self.net.run(6)
            self.assertNotIn(self.serving, ("", self.names[dead]))
            self.masters[dead].alive = True

    def test_all_away(self) -> None:
        """An hour without any master: the minion is there within ten seconds when one is back."""
        self.start()
        for number in range(3):
            self.dies(number)
        self.net.run(3600, 1.0)
        self.assertEqual(self.serving, "")
        self.masters[2].alive = True
        self.net.run(10)

        self.assertEqual(self.serving, "c")

    def test_stays(self) -> None:
        """Without master_failback the minion stays where it is."""
        self.masters[0].alive = False
        self.start(5, master_failback_interval=5)
        self.masters[0].alive = True
        self.net.run(300)

        self.assertEqual(self.serving, "b")
        self.assertFalse(self.links.links[0].up)

    def test_old_one_is_left_alone(self) -> None:
        """After a fail-over nothing is asked of the old master any more, also when it is back."""
        self.start()
        self.dies(0)
        self.net.run(5)
        self.masters[0].alive = True
        asked = len(self.masters[0].log)
        self.net.run(600)

        self.assertEqual(self.serving, "b")
        self.assertEqual(len(self.masters[0].log), asked)
        self.assertGreater(len(self.masters[1].log), 0)

    def test_failback(self) -> None:
        """With master_failback it goes back, and is never without a master on the way."""
        self.masters[0].alive = False
        self.start(5, master_failback=True, master_failback_interval=5)
        self.assertEqual(self.serving, "b")
        self.net.run(60)
        self.assertEqual(self.serving, "b")
        self.masters[0].alive = True
        self.net.run(12)

        self.assertEqual(self.serving, "a")
        self.assertEqual(self.heard[-2:], [("up", "a"), ("down", "b")])
        self.assertEqual([one.where[0] for one in self.net.subscriptions], ["10.0.0.1"])

    def test_fifty_failbacks(self) -> None:
        """There and back, as often as the first master goes and comes."""
        self.start(master_failback=True, master_failback_interval=3)
        for _ in range(50):
            self.dies(0)
            self.net.run(4)
            self.assertEqual(self.serving, "b")
            self.masters[0].alive = True
            self.net.run(8)
            self.assertEqual(self.serving, "a")

    def test_distributed(self) -> None:
        """The id says who is first, and its death is as any other's."""
        self.start(master_type="distributed")
        first = crc32(b"m1") % 3
        self.assertEqual(self.serving, self.names[first])
        self.dies(first)
        self.net.run(5)

        self.assertNotIn(self.serving, ("", self.names[first]))

    def test_jobs(self) -> None:
        """Jobs of the master in use run; its twin's copy of one does not run again."""
        self.start()
        self.net.publish(self.masters[0].publication())
        self.dies(0)
        self.net.run(5)
        self.net.publish(self.masters[1].publication())

        self.assertEqual(self.jobs, [(JID, "a")])

    def test_return_of_a_dead_master(self) -> None:
        """A return for a master that is away goes to the one in use."""
        self.start()
        self.dies(0)
        self.net.run(5)
        d = Deferred.fromCoroutine(self.links.deliver({"cmd": "_return", "jid": JID}, "a"))
        self.net.run(1)

        self.successResultOf(d)
        self.assertIn("_return", self.masters[1].log)

    def test_return_of_a_silent_master(self) -> None:
        """A hot minion tries a silent master once, then brings the return to another."""
        self.start(master_type="str")
        self.dies(0, quietly=True)
        d = Deferred.fromCoroutine(self.links.deliver({"cmd": "_return", "jid": JID}, "a"))
        self.net.run(11)

        self.successResultOf(d)
        self.assertIn("_return", self.masters[1].log)

    def test_mine_for_all(self) -> None:
        """Mine data goes to every master that is connected."""
        self.start(master_type="str")
        d = Deferred.fromCoroutine(self.links.request({"cmd": "_mine", "data": {}}))
        self.net.run(1)

        self.successResultOf(d)
        self.assertEqual([m.log.count("_mine") for m in self.masters], [1, 1, 1])

    def test_one_host_two_ports(self) -> None:
        """Masters that share a host are told apart by their ports."""
        self.net.masters["10.0.0.1", 4507] = self.masters[1]
        links = self.start(master=["a:4506", "a:4507", "a:4506"], master_type="str")

        self.assertEqual([link.name for link in links.links], ["a:4506", "a:4507"])
        self.assertTrue(all(link.up for link in links.links))


class SignedMastersTests(SynchronousTestCase):
    """Masters with keys of their own, and one key that vouches for them."""

    def test_each_its_own(self) -> None:
        """Each master's key is remembered under its name, and checked from then on."""
        net = FakeNet()
        signer = key("master_sign")
        kept: dict[str, MemoryKeys] = {}
        for number, name in enumerate(("a", "b"), 1):
            master = net.add(name, FakeMaster(), f"10.0.0.{number}")
            master.identity = MasterIdentity(
                PrivateKey.generate(2048) if number == 2 else key("master"), sign_key=signer
            )
        links = Links(
            config(master=["a", "b"], verify_master_pubkey_sign=True),
            outside(
                net,
                MemoryKeys(),
                sign_key=signer.public,
                keys_of=lambda name: kept.setdefault(name, MemoryKeys()),
            ),
            None,
            facts,
        )
        self.addCleanup(links.stopService)
        links.startService()
        net.run(2)

        self.assertTrue(all(link.up for link in links.links), links.status())
        for number, name in enumerate(("a", "b"), 1):
            master = net.masters[f"10.0.0.{number}", 4506]
            self.assertEqual(kept[name].key, master.identity.key.public)

    def test_wrong_signer(self) -> None:
        """A master whose key another key has signed is refused, whoever it is."""
        net = FakeNet()
        net.add("a", FakeMaster()).identity = MasterIdentity(key("master"), sign_key=key("minion2"))
        links = Links(
            config(master="a", verify_master_pubkey_sign=True),
            outside(net, MemoryKeys(), sign_key=key("master_sign").public),
            None,
            facts,
        )
        self.addCleanup(links.stopService)
        links.startService()
        net.run(2)

        link: MasterLink = links.links[0]
        self.assertFalse(link.up)
        self.assertIn("signature", str(link.status()["reason"]))
