"""
Short acts of a member whose court says what a test wants it to say.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.claims.acts import MOST_WAIT, Acts
from saltwisted.cluster.claims.court import Gone, Granted, Leave, Outcome, Refused, Wish
from saltwisted.domain.claims.copies import Instance
from saltwisted.domain.claims.words import Came, Claim, NoMajority, Taken

WINDOW = 30.0


class Court:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Deferred[Outcome]]] = []
        self.doubts = 0.0

    async def ask(self, wish: Wish) -> Outcome:
        """See L{saltwisted.cluster.claims.court.ICourt}."""
        answer: Deferred[Outcome] = Deferred()
        self.asked.append((wish.key, answer))
        return await answer

    def say(self, outcome: Outcome) -> None:
        """To the last question."""
        self.asked[-1][1].callback(outcome)

    def doubts_until(self) -> float:
        """See L{saltwisted.cluster.claims.court.ICourt}."""
        return self.doubts

    async def end(self, wish: Wish, term: int, result: str) -> bool:
        """It is kept."""
        return True

    def on_claimed(self, receiver: Any) -> None:
        """Nobody else claims."""


class LateTests(SynchronousTestCase):
    """What came is begun within C{publish_window} or never: members forget what was done."""

    def setUp(self) -> None:
        self.clock, self.court = Clock(), Court()
        leave = Leave(settled=lambda: True, running=True)
        court: Any = self.court
        self.acts = Acts(self.clock, "a", court, lambda: 0.5, WINDOW, Counter(), leave)

    def test_tried_within_the_window(self) -> None:
        """It is asked for again and again, for the last time when the window ends."""
        answer = Deferred.fromCoroutine(self.acts.begin("act/1", {}))
        while not answer.called:
            self.court.say(Refused("no majority"))
            last = self.clock.seconds()
            self.clock.advance(MOST_WAIT)

        self.assertIsInstance(self.successResultOf(answer), NoMajority)
        self.assertGreater(len(self.court.asked), WINDOW / MOST_WAIT)
        self.assertAlmostEqual(last, WINDOW, delta=MOST_WAIT)

    def test_stood_still_between_two_attempts(self) -> None:
        """A process that stood still between two attempts does not make another one."""
        answer = Deferred.fromCoroutine(self.acts.begin("act/1", {}))
        self.court.say(Refused("no majority"))
        self.clock.advance(20 * WINDOW)

        self.assertEqual(len(self.court.asked), 1)
        refused = self.successResultOf(answer)
        self.assertIsInstance(refused, NoMajority)
        self.assertEqual(refused.why, "no majority")

    def test_stood_still_with_another_number(self) -> None:
        """
        An event whose number somebody else has gets another one; not when it has become too old
        meanwhile: the window does not begin anew.
        """
        answer = Deferred.fromCoroutine(self.acts.begin_event("m", "t", {"x": 1}, {}))
        self.clock.advance(20 * WINDOW)
        # A minute before ours came, so that it was another event
        self.court.say(Gone(holder="b", age=20 * WINDOW + 60))

        self.assertEqual(len(self.court.asked), 1)
        self.assertIsInstance(self.successResultOf(answer), NoMajority)

    def test_granted(self) -> None:
        """In time it is begun."""
        answer = Deferred.fromCoroutine(self.acts.begin_event("m", "t", {"x": 1}, {}))
        self.court.say(Gone(holder="b", age=WINDOW))
        self.court.say(Granted(term=7, until=40.0))

        claim = self.successResultOf(answer)
        self.assertIsInstance(claim, Claim)
        self.assertEqual((len(self.court.asked), claim.term), (2, 7))

    def test_members_that_are_gone(self) -> None:
        """
        What came before members were declared dead, which could decide without this one, is not
        begun; what comes later is.
        """
        before = Deferred.fromCoroutine(self.acts.begin("act/1", {}))
        self.court.say(Refused("no majority"))
        self.court.doubts = 10.0
        self.clock.advance(MOST_WAIT)

        refused = self.successResultOf(before)
        self.assertIsInstance(refused, NoMajority)
        self.assertIn("gone for good", refused.why)
        self.clock.advance(10.0)
        later = Deferred.fromCoroutine(self.acts.begin("act/2", {}))
        self.court.say(Granted(term=7, until=40.0))
        self.assertIsInstance(self.successResultOf(later), Claim)

    def test_taken_up_after_members_that_are_gone(self) -> None:
        """An event counts from when it came, though it is claimed a while later."""
        self.clock.advance(20.0)
        self.court.doubts = 15.0
        for source in ("", "b#1"):
            came = Came(key="event/x/1", source=source, age=8.0)

            answer = Deferred.fromCoroutine(self.acts.begin_event("m", "t", {}, {}, "", came))

            self.assertIn("gone for good", self.successResultOf(answer).why)

    def test_others_are_remembered_from_when_they_came(self) -> None:
        """
        A copy of what another node had claimed long before ours was asked for does not hide the
        next event.
        """
        self.clock.advance(100.0)
        key = self.acts.keys.of("m", "t", {})
        assert key is not None
        self.clock.advance(25.0)
        answer = Deferred.fromCoroutine(
            self.acts.begin_event("m", "t", {}, {}, "", Came(key=key, age=25.0))
        )
        alike = key.rpartition("/")[0]
        recent = (Instance(1, "b", 26.0), Instance(2, "c", 24.0))
        self.court.say(Gone(holder="b", age=26.0, recent=recent))
        self.assertIsInstance(self.successResultOf(answer), Taken)

        self.assertEqual(self.acts.keys.of("m", "t", {}), f"{alike}/3")

    def live(self, came: str) -> Any:
        """What becomes of event 5 of this life, where c has done another one under its key."""
        self.clock.advance(100.0)
        key = self.acts.keys.of("m", "t", {"x": 1})
        assert key is not None
        event = Came(key=key, row="a#2/5", age=0.5)
        answer = Deferred.fromCoroutine(self.acts.begin_event("m", "t", {"x": 1}, {}, "", event))
        self.court.say(Gone(holder="c", by="c#1", age=0.1, came=came, came_ago=0.2, ended=True))
        if not answer.called:
            self.court.say(Granted(term=8, until=140.0))
        return self.successResultOf(answer)

    def test_finished_by_others(self) -> None:
        """
        What others finished under an event's key is this very event, or a copy that came to another
        node; or it is one that is alike, of an earlier life of this node: then it is begun.
        """
        for came, kind in (("a#2/5", Taken), ("b#1/9", Taken), ("a#1/3", Claim), ("a#2/4", Claim)):
            self.setUp()
            self.assertIsInstance(self.live(came), kind, came)

    def test_alike_at_the_same_moment(self) -> None:
        """
        While this node asks for an event that it has taken up, one with the same key is a copy if
        it came to another node, and another event if it came to the same one.
        """
        for source, kind in (("b#1", Taken), ("c#0", NoMajority)):
            self.setUp()
            self.clock.advance(100.0)
            events = [Came(key="event/x/1", source="c#1", age=1.0, row="c#1/3")]
            events.append(Came(key="event/x/1", source=source, age=1.5, row=f"{source}/8"))
            answers = [
                Deferred.fromCoroutine(self.acts.begin_event("m", "t", {}, {}, "", each))
                for each in events
            ]

            self.assertEqual(len(self.court.asked), 1)
            self.assertIsInstance(self.successResultOf(answers[1]), kind, source)

    def begun_before(self, by: str, age: float) -> Any:
        """What is said of an event whose number has a plan of somebody who died."""
        answer = Deferred.fromCoroutine(self.acts.begin_event("m", "t", {"x": 1}, {}))
        self.court.say(Granted(term=7, until=40.0, planned=b"\x80", by=by, age=age))
        if not answer.called:
            self.court.say(Granted(term=8, until=40.0))
        return self.successResultOf(answer)

    def test_like_one_that_this_node_had_begun(self) -> None:
        """
        An event that is like one that an earlier life of this node had begun is another event:
        that one is finished, and this one begun.
        """
        for age in (3.0, float("inf")):
            self.assertIsInstance(self.begun_before("a#0", age), Claim)

    def test_like_one_that_another_node_had_begun(self) -> None:
        """That is a copy, within ten seconds and where it is not known; later another event."""
        for age, kind in ((3.0, Taken), (20.0, Claim), (float("inf"), Taken)):
            self.setUp()
            self.assertIsInstance(self.begun_before("b#0", age), kind)
