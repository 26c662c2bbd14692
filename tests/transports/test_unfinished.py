"""
The room for messages that are not whole yet.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports.unfinished import LARGE, STEP_TIME, Room, Unfinished

KIB = 1024
MIB = 1024 * KIB


class _One(Unfinished):
    """A connection that remembers why it was hung up on."""

    __slots__ = ("why",)

    def __init__(self, host: str) -> None:
        super().__init__(host, 0.0)
        self.why = ""

    def end(self, why: str) -> None:
        self.why = why


class RoomTests(SynchronousTestCase):
    """Who may stay."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.known: set[str] = {"10.0.0.1"}
        self.room = Room(self.clock, 10 * MIB, 30 * MIB, lambda: self.known)

    def test_honest_and_slow(self) -> None:
        """A stranger on a slow line is not hung up on while there is room (T-MEM-1)."""
        one = _One("10.9.9.9")
        for seconds in range(1, 1000):
            self.clock.advance(1)
            self.room.set(one, 8 * KIB * seconds)
            self.room.end_slow()
        self.room.set(one, 0)

        self.assertEqual((one.why, self.room.size, self.room.strange), ("", 0, 0))
        self.assertEqual(self.room.large, ())

    def test_no_progress(self) -> None:
        """Who has sent much and does not go on is hung up on after a minute (T-MEM-1)."""
        one, two = _One("10.9.9.9"), _One("10.0.0.1")
        for each in (one, two):
            self.room.set(each, MIB)
        self.clock.advance(STEP_TIME - 1)
        self.room.set(two, MIB + LARGE)
        self.room.end_slow()
        self.assertEqual((one.why, two.why), ("", ""))
        self.clock.advance(1)
        self.room.end_slow()

        self.assertEqual((one.why, two.why), ("slow frame", ""))
        self.assertEqual(self.room.size, MIB + LARGE)

    def test_excused(self) -> None:
        """While the messages are not fetched nobody's minute goes on."""
        one = _One("10.9.9.9")
        self.room.set(one, MIB)
        self.clock.advance(STEP_TIME)
        self.room.excuse()
        self.room.end_slow()

        self.assertEqual(one.why, "")

    def test_stalled_go_first(self) -> None:
        """
        Strangers who have stopped have to go before one who is still sending, though that one has
        sent more; each as long as it takes to make room (T-MEM-1).
        """
        stalled = [_One(f"10.9.9.{n}") for n in range(4)]
        for one in stalled:
            self.room.set(one, 2 * MIB)
        sender = _One("10.9.8.1")
        for step in range(1, 49):
            self.clock.advance(1)
            self.room.set(sender, step * 200 * KIB)

        self.assertEqual(sender.why, "")
        self.assertEqual({one.why for one in stalled}, {"no room"})
        self.assertLessEqual(self.room.size, 10 * MIB)

    def test_strangers_and_known(self) -> None:
        """What strangers send takes no room from minions that are known (T-MEM-1)."""
        minion = _One("10.0.0.1")
        self.room.set(minion, 15 * MIB)
        strangers = [_One("10.9.9.9") for _ in range(100)]
        for one in strangers:
            self.clock.advance(0.1)
            self.room.set(one, MIB)

        self.assertEqual((minion.why, self.room.strange), ("", 10 * MIB))
        self.assertEqual(sum(one.why == "no room" for one in strangers), 90)

    def test_known_have_a_limit(self) -> None:
        """Those that are known have a bound too; strangers go first when it is reached."""
        stranger, minions = _One("10.9.9.9"), [_One("10.0.0.1") for _ in range(4)]
        self.room.set(stranger, 5 * MIB)
        for one in minions[:3]:
            self.clock.advance(1)
            self.room.set(one, 9 * MIB)
        self.assertEqual([one.why for one in (stranger, *minions[:3])], ["no room", "", "", ""])
        self.room.set(minions[3], 9 * MIB)

        self.assertLessEqual(self.room.size, 30 * MIB)
        self.assertEqual([one.why for one in minions].count("no room"), 1)

    def test_many_small(self) -> None:
        """A great many that have sent little are one crowd, and its last has to go (T-MEM-1)."""
        small = [_One("10.9.9.9") for _ in range(400)]
        for one in small:
            self.room.set(one, 32 * KIB)

        self.assertEqual(self.room.size, 10 * MIB)
        self.assertEqual([one.why for one in small], [""] * 320 + ["no room"] * 80)

    def test_addresses_are_asked_for_seldom(self) -> None:
        """Who is known is asked once for many connections, and again after a while."""
        asked = []
        room = Room(self.clock, MIB * 100, MIB * 100, lambda: asked.append(1) or self.known)
        for _ in range(50):
            room.set(_One("10.0.0.2"), MIB)
        self.assertEqual((len(asked), room.strange), (1, 50 * MIB))
        self.clock.advance(5)
        self.known.add("10.0.0.2")
        room.set(_One("10.0.0.2"), MIB)

        self.assertEqual((len(asked), room.strange), (2, 50 * MIB))
