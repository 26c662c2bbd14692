"""
The parts of a link, each without the others: signing in again, what is held, and the heart.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, TransportClosed
from saltwisted.minion.channel import Session
from saltwisted.minion.heart import ASK_WITHIN, Heart
from saltwisted.minion.publications import DOUBT_EVERY, MAX_HELD, Publications, Wishes
from saltwisted.minion.rules import Denied, Failed, Rules, SignedIn
from saltwisted.minion.signin import REOPEN_EVERY, SignInAgain


class SignInAgainTests(SynchronousTestCase):
    """New sign-ins on a living link."""

    def setUp(self) -> None:
        """One that counts how often it begins."""
        self.clock = Clock()
        self.begun = 0
        self.connected = True
        self.again = SignInAgain(self.clock, self.begin)

    def begin(self) -> bool:
        """Begin, if there is a connection."""
        self.begun += self.connected
        return self.connected

    def test_shared(self) -> None:
        """Who asks while a sign-in runs gets its answer; who asks later gets another one."""
        first, second = self.again.ask(), self.again.ask()
        self.assertEqual(self.begun, 1)
        waiting = self.again.ended()
        third = self.again.ask()

        self.again.answer(waiting, SignedIn())

        self.assertEqual([self.successResultOf(each) for each in (first, second)], [None, None])
        self.assertNoResult(third)
        self.assertEqual(self.begun, 2)
        self.again.answer(self.again.ended(), Denied("rejected"))
        self.failureResultOf(third, AuthenticationError)

    def test_closed(self) -> None:
        """Without a connection it fails at once, and the next one is a new try."""
        self.connected = False
        self.failureResultOf(self.again.ask(), TransportClosed)
        self.connected = True
        waiting: Deferred[None] = self.again.ask()
        self.again.answer(self.again.stop(), Failed("closed"))
        self.failureResultOf(waiting, TransportClosed)

    def test_paced(self) -> None:
        """What strangers cause is one sign-in in some seconds, and none after the end."""
        for _ in range(5):
            self.again.soon()
            self.again.answer(self.again.ended(), SignedIn())
        self.assertEqual(self.begun, 1)
        self.clock.advance(REOPEN_EVERY)
        self.assertEqual(self.begun, 2)
        self.again.answer(self.again.ended(), SignedIn())
        self.again.soon()
        self.again.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class Reader:
    """A subscriber to whom a publication is a number, and whose keys open what is smaller."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.key = 0
        self.taken: list[int] = []
        self.on_take: Any = lambda: None

    def read(self, payload: Any, session: Any) -> Any:
        """Text is noise."""
        if isinstance(payload, str):
            raise AuthenticationError("signature")
        return payload

    def open(self, publication: int, session: Any, now: float) -> tuple[Any, str]:
        """A job with that number."""
        if publication >= self.key:
            raise AuthenticationError("publish key")
        return SimpleNamespace(fun="test.ping", number=publication), "key"

    def take(self, job: Any, key: str, source: Any, name: str) -> None:
        """Note it."""
        self.taken.append(job.number)
        self.on_take()


class PublicationsTests(SynchronousTestCase):
    """What comes in over a subscription."""

    def setUp(self) -> None:
        """A reader without keys."""
        self.clock, self.reader = Clock(), Reader()
        self.wished: list[str] = []
        wishes = Wishes(
            keys=lambda: self.wished.append("keys"),
            next_key=lambda: self.wished.append("next"),
            sign_in=lambda: self.wished.append("sign in"),
        )
        reader: Any = self.reader
        self.publications = Publications(
            reader, Session(), self.clock.seconds, wishes, None, "master"
        )

    def test_held(self) -> None:
        """What no key opens is kept in order until it is here, and given up when it never comes."""
        for number in (1, 5, 2):
            self.publications.came(number)
        self.assertEqual((self.reader.taken, self.publications.held), ([], 3))
        self.assertEqual(self.wished, ["keys"] * 3)

        self.reader.key = 3
        self.publications.read_held(float("-inf"))
        self.assertEqual((self.reader.taken, self.publications.held), ([1, 2], 1))
        self.publications.read_held(self.clock.seconds())

        self.assertEqual((self.reader.taken, self.publications.held), ([1, 2], 0))
        self.assertEqual(self.reader.counters["given up:publish key"], 1)

    def test_end(self) -> None:
        """Nothing is taken after the attempt has ended, also when a job ended it."""
        self.publications.came(1)
        self.publications.came(2)
        self.reader.key = 9
        self.reader.on_take = self.publications.forget

        self.publications.read_held(float("-inf"))

        self.assertEqual((self.reader.taken, self.publications.held), ([1], 0))

    def test_flood(self) -> None:
        """Noise makes one sign-in a minute, and what is held has a bound."""
        for number in range(MAX_HELD + 5):
            self.publications.came("noise")
            self.publications.came(number)
        self.assertEqual(self.wished.count("sign in"), 1)
        self.assertEqual(self.publications.held, MAX_HELD)
        self.clock.advance(DOUBT_EVERY)
        self.publications.came("noise")
        self.assertEqual(self.wished.count("sign in"), 2)


class HeartTests(SynchronousTestCase):
    """When a master is asked for a sign of life."""

    def test_one_timer(self) -> None:
        """
        A wish for keys comes before a beat that is planned later and does not put off another
        wish; none is left when the attempt has ended.
        """
        clock, beats = Clock(), []
        outside: Any = SimpleNamespace(reactor=clock, now=clock.seconds, dice=Random(1))
        heart = Heart(Rules(), Session(), outside, beats.append, lambda names, own: None)

        heart.after(60.0)
        heart.want_keys()
        (wish,) = clock.getDelayedCalls()
        soon = wish.getTime()
        for _ in range(9):
            heart.want_keys()
            (wish,) = clock.getDelayedCalls()
            self.assertLessEqual(wish.getTime(), soon)
        clock.advance(ASK_WITHIN)
        self.assertEqual(beats, [True])
        heart.after(1.0)
        clock.advance(1.0)
        self.assertEqual(beats, [True, False])
        heart.suspect()
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        heart.stop()

        self.assertEqual(clock.getDelayedCalls(), [])
