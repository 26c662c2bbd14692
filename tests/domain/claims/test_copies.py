"""
The same event on several masters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.copies import (
    LATE,
    Copies,
    EventKeys,
    Instance,
    Known,
    LoneCopies,
    is_taken_event,
    number_of,
    occasion_of,
)


def event(**data: Any) -> Any:
    """Of minion m."""
    return occasion_of("m", "tag", data)


class OccasionTests(SynchronousTestCase):
    """What an event is known by."""

    def test_stamp(self) -> None:
        """The stamp, which is made anew for each master, does not count."""
        self.assertEqual(event(a=1, _stamp="x"), event(a=1, _stamp="y"))
        self.assertEqual(event(data={"_stamp": 1, "b": 2}), event(data={"_stamp": 2, "b": 2}))

    def test_others(self) -> None:
        """Minion, tag and data do."""
        seen = {
            event(a=1).alike,
            event(a=2).alike,
            occasion_of("n", "tag", {"a": 1}).alike,
            occasion_of("m", "other", {"a": 1}).alike,
        }

        self.assertEqual(len(seen), 4)

    def test_start(self) -> None:
        """A minion's start is known by minion and tag alone: its data differ by connection."""
        tag = "salt/minion/m/start"

        self.assertEqual(occasion_of("m", tag, {"a": 1}), occasion_of("m", tag, {"a": 2}))
        self.assertEqual(occasion_of("m", "minion_start", {}), occasion_of("m", "minion_start", 5))
        self.assertNotEqual(occasion_of("m", tag, {}), occasion_of("n", tag, {}))
        self.assertNotEqual(occasion_of("n", tag, {}), occasion_of("n", tag, {"a": 1}))

    def test_T_CLAIM_1_numbers(self) -> None:
        """T-CLAIM-1: digits that are none, and numbers that nobody reaches, are no instance."""
        self.assertEqual(number_of("event/x/12"), ("x", 12))
        for odd in ("\u00b2", "\u0663", "1" * 19, "1" * 5000, "", "-1"):
            self.assertEqual(number_of(f"event/x/{odd}"), (f"event/x/{odd}", None))

    def test_as_stock_sends_it(self) -> None:
        """
        The forms of 3008: an event that is sent by itself carries its request, whose time differs
        from copy to copy, and C{salt-call} puts its jid into what was given to C{event.send}.
        """

        def sent(ts: int, **inner: Any) -> dict[str, Any]:
            load = {"id": "m", "tag": "site/x", "cmd": "_minion_event", "ts": ts}
            return {**load, "data": {"n": 1, **inner}, "_stamp": f"at {ts}"}

        self.assertEqual(occasion_of("m", "site/x", sent(1)), occasion_of("m", "site/x", sent(2)))
        called = occasion_of("m", "site/x", sent(1, __pub_jid="20261123071617133250"))
        self.assertEqual(called.call, "20261123071617133250")
        again = occasion_of("m", "site/x", sent(3, __pub_jid="20261123071617133250"))
        self.assertEqual(called, again)

    def test_odd_data(self) -> None:
        """Bytes, lists with themselves aside, and what is no map are data as well."""
        self.assertNotEqual(occasion_of("m", "t", b"\xff").alike, occasion_of("m", "t", []).alike)


class CopiesTests(SynchronousTestCase):
    """Nodes a and b."""

    def setUp(self) -> None:
        self.a, self.b = Copies("a"), Copies("b")

    def test_same_key_at_once(self) -> None:
        """Two nodes that do not know of each other's copy claim the same key; one is late."""
        first, second = self.a.came(event(), 0.0), self.b.came(event(), 100.0)

        self.assertEqual(first, second)
        self.assertIsNone(self.b.taken(first or "", "a", 0.1, (), 100.1))

    def test_copy(self) -> None:
        """What another node has claimed is claimed here by the same key, once."""
        key = self.a.came(event(), 0.0)
        self.b.claimed(key or "", "a", 0.0, 100.0)

        copy, another = self.b.came(event(), 105.0), self.b.came(event(), 105.0)

        self.assertEqual(copy, key)
        self.assertNotEqual(another, key)

    def test_taken_up(self) -> None:
        """
        What this node does for another one that is gone is no event of its own: a copy that comes
        here is one, and what comes after that is not.
        """
        mine = Copies("a")
        key = "event/" + event(x=1).alike + "/1"
        mine.claimed(key, "f", 2.0, 100.0)

        self.assertEqual(mine.came(event(x=1), 100.5), key)
        self.assertIsNone(mine.taken(key, "f", 0.5, (), 100.6))

        again = mine.came(event(x=1), 100.7)
        self.assertNotEqual(again, key)

    def test_taken_up_by_others(self) -> None:
        """What came to this node, and another one does, has no copy here."""
        key = self.a.came(event(), 0.0) or ""

        again = self.a.taken(key, "a", 0.1, [Instance(1, "a", 0.1)], 0.2)

        self.assertEqual(again, key.replace("/1", "/2"))

    def test_two_of_one_node(self) -> None:
        """Two from the same node are two events."""
        self.assertNotEqual(self.a.came(event(), 0.0), self.a.came(event(), 0.1))

    def test_each_copy_once(self) -> None:
        """Two events on two nodes are two events: each has its copy."""
        keys = [self.a.came(event(), 0.0), self.a.came(event(), 1.0)]
        for key in keys:
            self.b.claimed(key or "", "a", 0.0, 1.0)

        self.assertEqual([self.b.came(event(), 2.0) for _ in range(2)], keys)
        self.assertNotIn(self.b.came(event(), 2.0), keys)

    def test_same_call(self) -> None:
        """Two from the same node that carry the same C{__pub_jid} are one."""
        jid = event(__pub_jid="2026")

        self.assertIsNotNone(self.a.came(jid, 0.0))
        self.assertIsNone(self.a.came(jid, 9.0))
        self.assertIsNone(self.b.taken(self.b.came(jid, 0.0) or "", "a", 9.0, (), 9.0))
        self.assertIsNotNone(self.a.came(event(__pub_jid="2027"), 9.0))

    def test_after_the_window(self) -> None:
        """What comes later than ten seconds is another event, though its number is taken."""
        key = self.a.came(event(), 0.0) or ""
        late = self.b.came(event(), 11.0) or ""
        self.assertEqual(key, late)

        again = self.b.taken(late, "a", 11.0, (), 11.0)

        self.assertIsNotNone(again)
        self.assertNotEqual(again, key)

    def test_many_before(self) -> None:
        """A node that was away learns the newest number at once, and which events are new."""
        key = self.b.came(event(), 0.0) or ""

        again = self.b.taken(key, "a", 900.0, [Instance(7, "a", 30.0)], 0.0) or ""
        self.assertTrue(again.endswith("/8"))
        self.assertIsNone(self.b.taken(again, "a", 2.0, [Instance(9, "c", 1.0)], 0.0))

    def test_copy_in_one_life(self) -> None:
        """What is taken by this node itself (in an earlier life) is no copy."""
        key = self.a.came(event(), 0.0) or ""

        self.assertIsNotNone(self.a.taken(key, "a", 1.0, (), 0.0))


class MemoryTests(SynchronousTestCase):
    """What is remembered, and for how long."""

    def test_forgotten_in_time(self) -> None:
        """
        A kind of which nothing was heard for longer than copies take is forgotten, though no other
        event comes, in short turns; one of which something was heard is not.
        """
        copies = Copies("a")
        for number in range(2500):
            copies.came(event(number=number), 0.0)
        copies.came(event(number=7), 50.0)
        copies.forget(LATE - 1.0)
        self.assertEqual(len(copies._kinds), 2500)

        left = []
        for second in range(4):
            copies.forget(LATE + second)
            left.append(len(copies._kinds))

        self.assertEqual(left, [1500, 500, 1, 1])
        self.assertIn("/3", copies.came(event(number=7), LATE + 10.0) or "")

    def test_many_at_once(self) -> None:
        """There are never more than some, and the oldest go first."""
        copies = Copies("a")
        with mock.patch("saltwisted.domain.claims.copies.MAX_KINDS", 10):
            for number in range(30):
                copies.came(event(number=number), number / 100)

        self.assertEqual(len(copies._kinds), 10)
        self.assertIn("/2", copies.came(event(number=29), 1.0) or "")

    def test_a_number_that_is_given_again(self) -> None:
        """Who has forgotten a kind gets the next number as soon as he hears of the last one."""
        copies = Copies("a")
        for at in (0.0, 1.0):
            copies.came(event(), at)

        copies.forget(2 * LATE)
        again = copies.came(event(), 2 * LATE) or ""
        self.assertIn("/1", again)
        recent = [Instance(2, "a", 2 * LATE - 1.0)]
        self.assertIn("/3", copies.taken(again, "a", 2 * LATE, recent, 2 * LATE) or "")


class KeptBackTests(SynchronousTestCase):
    """
    Copies that a minion kept for b while b was away; a has had the events at once. The minion is
    connected to both.
    """

    def setUp(self) -> None:
        self.a, self.b = Copies("a"), Copies("b")

    def fire(self, times: Sequence[float]) -> list[str]:
        """Events that are alike come to a at these times."""
        return [self.a.came(event(), at, LATE) or "" for at in times]

    def test_unknown(self) -> None:
        """One that comes within a minute is the copy; one of a minion that is only here is not."""
        (key,) = self.fire([0.0])

        late = self.b.came(event(), 60.0, LATE) or ""
        self.assertEqual(late, key)
        self.assertIsNone(self.b.taken(late, "a", 60.0, (), 60.0, LATE))

        other = Copies("c")
        late = other.came(event(), 60.0) or ""
        self.assertEqual(other.taken(late, "a", 60.0, (), 60.0), key.replace("/1", "/2"))

    def test_too_late(self) -> None:
        """What comes much later is another event."""
        (key,) = self.fire([0.0])
        late = self.b.came(event(), 80.0, LATE) or ""

        self.assertEqual(self.b.taken(late, "a", 80.0, (), 80.0, LATE), key.replace("/1", "/2"))

    def test_each_once(self) -> None:
        """
        A minion fires what is alike every five seconds: what it has kept are copies of as many
        events, each once, and what comes after that is the next event.
        """
        times = [0.0, 5.0, 10.0, 15.0, 20.0]
        keys = self.fire(times)
        recent = [Instance(n + 1, "a", 21.0 - at) for n, at in enumerate(times)]
        first = self.b.came(event(), 21.0, LATE) or ""
        self.assertIsNone(self.b.taken(first, "a", 21.0, recent, 21.0, LATE))

        copies = {self.b.came(event(), 21.1, LATE) for _ in times[1:]}
        self.assertEqual(len(copies), 4)
        self.assertLessEqual(copies, set(keys))

        self.assertEqual(self.b.came(event(), 25.0, LATE), self.a.came(event(), 25.0, LATE))

    def test_new_beside_a_lost_copy(self) -> None:
        """
        What comes at once belongs to what came at once, although a copy of what was before never
        comes.
        """
        keys = self.fire([0.0, 30.0])
        self.b.claimed(keys[0], "a", 0.0, 0.0)
        self.b.claimed(keys[1], "a", 0.0, 30.0)

        self.assertEqual(self.b.came(event(), 30.1, LATE), keys[1])

    def test_two_of_one_node(self) -> None:
        """Two from the same node are two events still."""
        self.assertEqual(len(set(self.fire([0.0, 5.0, 10.0]))), 3)


class KeyTests(SynchronousTestCase):
    """Keys that are given when events come, long before they are claimed."""

    def setUp(self) -> None:
        self.taken: set[str] = set()
        self.keys = EventKeys(Copies("a"), "a", lambda: 100.0, lambda key: key in self.taken)

    def test_each(self) -> None:
        """Each event has its own; one that was claimed here long ago gives way."""
        first = self.keys.of("m", "tag", {"a": 1})
        assert first is not None
        self.taken.add(first.replace("/1", "/2"))

        self.assertEqual(self.keys.of("m", "tag", {"a": 1}), first.replace("/1", "/3"))

    def test_given(self) -> None:
        """A number of an earlier life, whose event is taken up, is not given again."""
        first = self.keys.of("m", "tag", {"a": 1})
        assert first is not None
        other = EventKeys(Copies("a"), "a", lambda: 100.0)

        other.given(first)

        self.assertEqual(other.of("m", "tag", {"a": 1}), first.replace("/1", "/2"))

    def test_call(self) -> None:
        """The same call twice is one event; one that was refused may come again."""
        load = {"__pub_jid": "20261123071617133250"}
        key = self.keys.of("m", "tag", load)
        assert key is not None
        self.assertIsNone(self.keys.of("m", "tag", load))

        self.keys.back(key)

        self.assertEqual(self.keys.of("m", "tag", load), key)
        other = EventKeys(Copies("a"), "a", lambda: 100.0)
        other.given(key)
        self.assertIsNone(other.of("m", "tag", load))


class TakenUpTests(SynchronousTestCase):
    """The second event that came to a#1, five seconds ago, before that ended; its key is taken."""

    since: float | None = 5.0

    def is_it(self, age: float | None, came: str, came_ago: float = 0.0) -> bool:
        """Whether it is known to be for this event."""
        known = Known(holder="c#1", age=age, came=came, came_ago=came_ago)
        return is_taken_event("event/k/3", "a#1/2", self.since, known)

    def test_itself(self) -> None:
        """This very event, whoever claimed it, however long ago."""
        self.assertTrue(self.is_it(4.0, "a#1/2", 4.5))
        self.assertTrue(self.is_it(None, "a#1/2"))
        self.since = None
        self.assertTrue(self.is_it(None, "a#1/2"))

    def test_same_node(self) -> None:
        """What is like it and came to the same node is another event, in whichever life."""
        for came in ("a#1/1", "a#1/20", "a#0/2", "a#2/2", "a#"):
            self.assertFalse(self.is_it(1.0, came, 5.0), came)

    def test_copy(self) -> None:
        """What came to another node at about the same time is a copy."""
        self.assertTrue(self.is_it(0.1, "b#1/7", 5.0))
        self.assertTrue(self.is_it(14.0, "b#1/7", 14.5))

    def test_namesake(self) -> None:
        """What came to another node long before or after is another event."""
        self.assertFalse(self.is_it(16.0, "b#1/7", 16.0))
        self.since = 25.0
        self.assertFalse(self.is_it(1.0, "b#1/7", 2.0))

    def test_unknown_age(self) -> None:
        """Where it is not known when one of them came, it cannot be told whether it is a copy."""
        self.assertFalse(self.is_it(None, "b#1/7"))
        self.since = None
        self.assertFalse(self.is_it(1.0, "b#1/7", 2.0))

    def test_call(self) -> None:
        """The key of a call is of that call alone."""
        known = Known(holder="b#1", age=None)
        self.assertTrue(is_taken_event("event/k/j2026", "a#1/2", 5.0, known))


class OlderTakenUpTests(SynchronousTestCase):
    """The same, as far as a node of an older release tells: not which event a key was taken for."""

    def is_it(self, holder: str, age: float | None) -> bool:
        """Whether it is known to be for this event."""
        return is_taken_event("event/k/3", "a#1/2", 5.0, Known(holder=holder, age=age))

    def test_by_itself(self) -> None:
        """What that life claimed under the key is the event, however long ago."""
        self.assertTrue(self.is_it("a#1", 4.0))
        self.assertTrue(self.is_it("a#1", None))

    def test_by_whoever_takes_it_up(self) -> None:
        """What another claimed just now is: he takes it up too, or has a copy of it."""
        self.assertTrue(self.is_it("b#1", 0.1))
        self.assertTrue(self.is_it("b#1", 14.0))
        self.assertTrue(self.is_it("a#2", 1.0))
        self.assertTrue(self.is_it("b", 1.0))

    def test_namesake(self) -> None:
        """What was claimed before is another event."""
        self.assertFalse(self.is_it("b#1", 16.0))
        self.assertFalse(self.is_it("a#0", 7.0))

    def test_unknown_age(self) -> None:
        """When another one claimed it, nobody knows any more."""
        self.assertFalse(self.is_it("b#1", None))


class LoneTests(SynchronousTestCase):
    """A node that is alone."""

    def setUp(self) -> None:
        self.copies = LoneCopies(".life")

    def test_each_is_one(self) -> None:
        """Events that are alike are several, and nothing is remembered of them."""
        keys = [self.copies.came(event(x=1), 1.0) for _ in range(100)]

        self.assertEqual(len(set(keys)), 100)
        self.assertEqual(self.copies._calls, {})
        assert keys[0] is not None
        self.assertNotIn(self.copies.taken(keys[0], "a", 1.0, (), 1.0), keys)

    def test_calls(self) -> None:
        """What C{salt-call} sends twice is one event, but for one that was refused."""
        call = event(x=1, __pub_jid="2026")
        key = self.copies.came(call, 1.0)
        assert key is not None

        self.assertIsNone(self.copies.came(call, 2.0))
        self.assertIsNone(self.copies.taken(key, "a", 1.0, (), 2.0))
        self.copies.back(key)
        self.assertEqual(self.copies.came(call, 3.0), key)
        self.copies.given(key, 4.0)
        self.assertIsNone(self.copies.came(call, 5.0))
        self.assertEqual(self.copies.came(call, 5.0 + LATE), key)
