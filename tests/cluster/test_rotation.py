"""
The publish key of a cluster: stored by all before one hands it out, old and new in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.rotation import ClusterRotation
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.secrets import PUBLISH, Secrets
from saltwisted.wire.crypticle import SessionKey
from tests.cluster.memory import MemoryPeers
from tests.wire.recorded import Dice


class User:
    """A publisher that publishes nothing."""

    def __init__(self) -> None:
        self.key = SessionKey.generate(Dice())
        self.next_key: SessionKey | None = None
        self.under: tuple[SessionKey, ...] = ()

    def adopt(self, key: SessionKey) -> None:
        """Use it."""
        self.key, self.next_key = key, None

    def expect(self, key: SessionKey | None) -> None:
        """It will follow."""
        self.next_key = key

    def publish_under(self, keys: Sequence[SessionKey]) -> None:
        """Several, or none."""
        self.under = tuple(keys)


class Part:
    """One node."""

    def __init__(self, test: RotationTests, name: str) -> None:
        self.test = test
        self.secrets = Secrets()
        self.publisher = User()
        self.peers = MemoryPeers(name, test.clock)
        self.settled = True
        self.announced = 0
        self.switched: list[str] = []
        self.linked = True
        self.rotation = ClusterRotation(
            test.clock,
            self.peers,
            self.publisher,
            lambda: self.secrets.versions(PUBLISH),
            self.make,
            lambda: self.settled,
            self.announce,
            lambda: self.switched.append(self.publisher.key.text),
        )

    def announce(self) -> None:
        """Our own minions hear of it."""
        self.announced += 1

    def make(self) -> Any:
        """A new version, in the logs of all that are linked."""
        value = SessionKey.generate(self.test.dice).text.encode()
        self.test.spread(self.secrets.next_body(PUBLISH, value, self.test.clock.seconds()))
        return succeed(None)

    def take(self, body: dict[str, Any]) -> None:
        """A fact has come."""
        self.secrets.apply(body, 0, Dot(Stream("x", "0" * 16), 0))
        self.rotation.changed()

    def keys(self) -> list[str]:
        """All versions, oldest first."""
        return [each.value.decode() for each in reversed(self.secrets.versions(PUBLISH))]


class RotationTests(SynchronousTestCase):
    """Two nodes, the first version in use."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.dice = Dice()
        self.delayed: list[tuple[Part, dict[str, Any]]] | None = None
        self.parts: list[Part] = []
        self.a, self.b = Part(self, "a"), Part(self, "b")
        self.parts = [self.a, self.b]
        self.a.make()
        for part in self.parts:
            part.rotation.startService()
        self.a.peers.join(self.b.peers)
        self.clock.pump([0, 0, 0, 100])
        self.assertEqual(self.a.publisher.key, self.b.publisher.key)

    def spread(self, body: dict[str, Any]) -> None:
        """Into all logs; into that of b later, when it lags."""
        for part in self.parts or [self.a, self.b]:
            if part is self.b and self.delayed is not None:
                self.delayed.append((part, body))
            else:
                part.take(body)

    def keys_in_use(self) -> list[str]:
        """By node."""
        return [part.publisher.key.text for part in self.parts]

    def test_together(self) -> None:
        """All nodes switch to the same new key within seconds; our minions hear of it before."""
        old = self.keys_in_use()

        self.a.rotation.request("a test")
        self.b.rotation.request("another")
        self.clock.pump([1.0, 0, 0])
        self.assertEqual(self.keys_in_use(), old)
        self.assertTrue(all(part.announced for part in self.parts))
        self.clock.pump([0.5] * 12)

        new = self.keys_in_use()
        self.assertEqual(new[0], new[1])
        self.assertNotEqual(new, old)
        self.assertEqual([part.publisher.under for part in self.parts], [(), ()])
        self.assertEqual([part.publisher.next_key for part in self.parts], [None, None])

    def test_twice_in_between(self) -> None:
        """While a node has not stored it, nobody hands it out; then both keys are published."""
        self.delayed = []
        self.a.rotation.request("a test")
        self.clock.pump([1.0, 1.0, 0.5, 0.5])
        old, new = self.a.keys()
        self.assertEqual(self.keys_in_use(), [old, old])
        self.assertEqual([key.text for key in self.a.publisher.under], [old, new])

        for part, body in self.delayed:
            part.take(body)
        self.clock.pump([0, 0.5, 0])
        self.assertEqual(self.keys_in_use(), [new, old])
        self.assertEqual([key.text for key in self.a.publisher.under], [old, new])
        self.assertEqual([key.text for key in self.b.publisher.under], [old, new])
        self.clock.pump([1.0, 0, 0])

        self.assertEqual(self.keys_in_use(), [new, new])
        self.assertEqual([part.publisher.under for part in self.parts], [(), ()])

    def test_waits_for_sign_ins(self) -> None:
        """
        No new key is made while accepted minions wait for the present one; a node where some do
        when it is there hands it out up to five seconds later, and publishes under both.
        """
        self.clock.advance(1000)
        old = self.keys_in_use()
        self.a.settled = False
        self.a.rotation.request("a test")
        self.clock.pump([0.5] * 20)
        self.assertEqual(len(self.a.keys()), 1)

        self.a.settled, self.b.settled = True, False
        self.clock.pump([0.5] * 4)
        new = self.a.keys()[-1]
        self.assertEqual(self.keys_in_use(), [new, old[1]])
        self.assertEqual([key.text for key in self.b.publisher.under], [old[1], new])
        self.b.settled = True
        self.clock.pump([0.5] * 2)
        self.assertEqual(self.keys_in_use(), [new, new])

    def test_five_seconds_between_two(self) -> None:
        """Who needs seconds to sign in for one key gets it before there is another."""
        for number in range(40):
            self.parts[number % 2].rotation.request("a test")
            self.clock.pump([0, 0.5, 0])

        self.assertIn(self.a.secrets.versions(PUBLISH)[0].version, (4, 5))

    def test_waits_a_minute_at_most(self) -> None:
        """Somebody who signs in without end keeps the old key for a minute, not longer."""
        old = self.keys_in_use()
        self.a.settled = False
        self.a.rotation.request("a test")
        self.clock.pump([0.5] * 118)
        self.assertEqual(self.keys_in_use(), old)
        self.clock.pump([0.5] * 20)

        self.assertNotIn(old[0], self.keys_in_use())

    def test_one_that_does_not_store(self) -> None:
        """A linked node that never stores it is waited for some seconds, and the old key is
        published for a minute at most."""
        self.delayed = []
        self.a.rotation.request("a test")
        self.clock.pump([1.0] * 8)
        old, new = self.a.keys()

        self.assertEqual(self.keys_in_use(), [new, old])
        self.assertEqual(len(self.a.publisher.under), 2)
        self.clock.pump([1.0] * 60)
        self.assertEqual(self.a.publisher.under, ())

    def test_unlinked(self) -> None:
        """A node that was away takes the newest version when it is linked again."""
        self.a.peers.cut("b")
        self.delayed = []
        self.a.rotation.request("a test")
        self.clock.pump([1.0] * 4)
        new = self.a.keys()[-1]
        self.assertEqual(self.keys_in_use()[0], new)

        self.b.peers.join(self.a.peers)
        for part, body in self.delayed:
            part.take(body)
        self.clock.pump([1.0] * 4)

        self.assertEqual(self.keys_in_use(), [new, new])
        self.assertEqual([part.publisher.under for part in self.parts], [(), ()])

    def test_refused_at_once(self) -> None:
        """Where the old version does not count any more nothing is published under it."""
        value = SessionKey.generate(self.dice).text.encode()
        body = self.a.secrets.next_body(PUBLISH, value, 2000.0, refuse_old=True)
        self.spread(body)

        self.assertEqual([part.publisher.under for part in self.parts], [(), ()])
        self.clock.pump([1.0] * 4)
        self.assertEqual(self.keys_in_use(), [value.decode()] * 2)

    def test_not_before_the_last_is_done(self) -> None:
        """No rotation begins before the sign-ins of the last one are through, or a minute later."""
        self.a.rotation.request("one")
        self.clock.pump([1.0] * 4)
        first = self.keys_in_use()
        self.a.settled = False
        self.a.rotation.request("two")
        self.clock.pump([1.0] * 20)
        self.assertEqual(self.keys_in_use(), first)
        self.assertTrue(self.a.rotation.pending)
        self.clock.pump([1.0] * 45)

        self.assertNotEqual(self.keys_in_use(), first)

    def test_restart(self) -> None:
        """A node that starts hands out the newest version from the first sign-in on."""
        self.a.rotation.stopService()
        again = Part(self, "c")
        again.secrets = self.a.secrets
        again.rotation.startService()

        self.assertEqual(again.publisher.key, self.a.publisher.key)
        self.assertEqual(again.switched, [])
        again.rotation.stopService()

    def test_links_go_last(self) -> None:
        """A node that stops amid a change has no timer left when its links go after it."""
        self.delayed = []
        self.a.rotation.request("a test")
        self.clock.pump([1.0] * 2)
        self.a.rotation.stopService()

        self.a.peers.cut("b")

        self.b.rotation.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def tearDown(self) -> None:
        """No timer is left."""
        for part in self.parts:
            part.rotation.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])
