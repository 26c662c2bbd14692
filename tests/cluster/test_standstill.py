from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.standstill import WORD, Standstill
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.knowledge import encode_knowledge
from saltwisted.wire.msgpack import pack_bin
from tests.cluster.memory import MemoryPeers

NEWS = Stream("b", "b" * 16)


class GapTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.near, self.far = MemoryPeers("a", self.clock), MemoryPeers("b", self.clock)
        self.suspended = 0.0
        self.written = True
        self.known: dict[Stream, int] = {}
        self.theirs: dict[Stream, int] = {}
        self.answered: list[bytes] = []
        self.gap = Standstill(
            self.clock,
            self.near,
            lambda: self.known,
            lambda: self.written,
            lambda frame, peer, reply: self.answered.append(frame),
            10.0,
            lambda: self.clock.seconds() + self.suspended,
        )
        self.far.answer(WORD, lambda node, body: pack_bin(encode_knowledge(self.theirs)))
        self.near.join(self.far)
        self.gap.startService()
        self.addCleanup(self.gap.stopService)
        self.pass_time(3)

    def pass_time(self, seconds: float) -> None:
        self.clock.pump([0.05] * round(seconds / 0.05))

    def request(self, frame: bytes) -> None:
        def reply(data: bytes) -> Any:
            return None

        if not self.gap.keeps(frame, "peer", reply):
            self.answered.append(frame)

    def test_nothing_happens(self) -> None:
        """Without a gap nobody waits."""
        self.request(b"one")

        self.assertEqual(self.answered, [b"one"])

    def test_gap(self) -> None:
        """After a gap the first request waits until what the other node did is here."""
        self.theirs = {NEWS: 7}
        self.suspended = 60.0
        self.request(b"one")
        self.pass_time(2)
        self.request(b"two")
        self.assertEqual(self.answered, [])

        self.known, self.written = {NEWS: 7}, False
        self.pass_time(0.2)
        self.assertEqual(self.answered, [], "it is not in the directories yet")
        self.written = True
        self.pass_time(0.2)

        self.assertEqual(self.answered, [b"one", b"two"])
        self.assertFalse(self.gap.closed)
        self.assertEqual(self.gap.count, 1)

    def test_nobody_answers(self) -> None:
        """A member that does not answer is waited for as long as at a start."""
        self.theirs = {NEWS: 7}
        self.suspended = 60.0
        self.request(b"one")
        self.near.cut("b")
        self.pass_time(9)
        self.assertEqual(self.answered, [])

        self.pass_time(1.5)

        self.assertEqual(self.answered, [b"one"])

    def test_alone(self) -> None:
        """Who has no link waits for nobody."""
        self.near.cut("b")
        self.pass_time(1)
        self.suspended = 60.0

        self.request(b"one")

        self.assertEqual(self.answered, [b"one"])

    def test_link_returns(self) -> None:
        """What was revoked on the other side of a cut is in force before the first request."""
        self.near.cut("b")
        self.pass_time(3)
        self.theirs = {NEWS: 7}
        self.near.join(self.far)

        self.request(b"one")
        self.pass_time(1)
        self.assertEqual(self.answered, [])
        self.known = {NEWS: 7}
        self.pass_time(0.2)

        self.assertEqual(self.answered, [b"one"])
        self.assertEqual(self.gap.count, 0)

    def test_link_returns_for_a_moment(self) -> None:
        """A link that came and went is no reason to wait."""
        self.near.cut("b")
        self.theirs = {NEWS: 7}
        self.near.join(self.far)
        self.request(b"one")
        self.near.cut("b")
        self.pass_time(0.2)

        self.assertEqual(self.answered, [b"one"])

    def test_gap_and_a_flapping_link(self) -> None:
        """After a gap a member that comes and goes is waited for all the same."""
        self.theirs = {NEWS: 7}
        self.suspended = 60.0
        self.request(b"one")
        self.near.cut("b")
        self.near.join(self.far)
        self.near.cut("b")
        self.pass_time(9)
        self.assertEqual(self.answered, [])

        self.pass_time(1.5)

        self.assertEqual(self.answered, [b"one"])
