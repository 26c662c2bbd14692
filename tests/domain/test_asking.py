"""Whom a node asks for what it lacks of a log."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.asking import GRACE_SECONDS, WANT_SECONDS, Asking
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.progress import PeerProgress, PeerTable
from saltwisted.domain.replica.setback import AGAIN_SECONDS, MOST_RENEWALS, SetBack
from saltwisted.domain.replica.words import StatePart, Want, WantState, decode

OWN, A = Stream("o", "0" * 16), Stream("a", "a" * 16)


class Log:
    """What is on disk here."""

    stream = OWN
    last = 3

    def __init__(self) -> None:
        self.known: dict[Stream, int] = {OWN: 3}

    def knowledge(self) -> dict[Stream, int]:
        """How far each stream is here."""
        return self.known


def peer(node: str, known: dict[Stream, int], floor: dict[Stream, int] | None = None) -> Any:
    """A linked peer that has said hello."""
    found = PeerProgress(node, 0.0)
    found.known, found.goal, found.floor = dict(known), dict(known), floor or {}
    return found


class AskingTests(SynchronousTestCase):
    """A node that lacks entries."""

    def setUp(self) -> None:
        self.log = Log()
        self.asking = Asking(self.log)  # type: ignore[arg-type]

    def ask(self, now: float, *peers: PeerProgress) -> dict[str, Any]:
        """Whom it asks for what."""
        sent = self.asking.ask(peers, {one.node: one for one in peers}, now)
        return {one.peer: decode(one.message) for one in sent}

    def test_origin_first(self) -> None:
        """Where an entry arose it comes by itself, unless that takes too long."""
        origin, other = peer("a", {A: 5}), peer("b", {A: 5})
        self.assertEqual(self.ask(0, origin, other), {})
        self.assertEqual(self.asking.due(), GRACE_SECONDS)
        self.assertEqual(self.ask(GRACE_SECONDS, origin, other), {"b": Want({A: 0})})

    def test_one_at_a_time(self) -> None:
        """Who is asked has some time; then another is asked first."""
        b, c = peer("b", {A: 5}), peer("c", {A: 5})
        self.assertEqual(list(self.ask(0, b, c)), ["c"])
        self.assertEqual(self.ask(1, b, c), {})
        self.assertEqual(self.asking.due(), WANT_SECONDS)
        self.assertEqual(list(self.ask(WANT_SECONDS, b, c)), ["b"])
        self.asking.left("b")
        self.assertEqual(list(self.ask(WANT_SECONDS + 1, c)), ["c"])

    def test_own_stream(self) -> None:
        """Nobody is asked for what arose here."""
        self.assertEqual(self.ask(0, peer("b", {OWN: 9})), {})

    def test_whole_state(self) -> None:
        """Below the floor of a peer its state is asked for, whose parts come in their order."""
        b = peer("b", {A: 9}, {A: 7})
        self.assertEqual(self.ask(0, b), {"b": WantState()})
        part = StatePart(1, [])
        self.assertFalse(self.asking.take_part(b, part, 1))
        self.assertEqual(self.ask(1, b), {"b": WantState()})
        self.assertTrue(self.asking.take_part(b, StatePart(0, []), 2))
        self.assertTrue(self.asking.take_part(b, part, 3))
        self.assertIsNone(self.asking.take_part(peer("c", {}), part, 3))
        self.log.known = {OWN: 3, A: 7}
        self.asking.took_state("b")
        self.assertEqual(self.ask(4, b), {"b": Want({A: 7})})


class SetBackTests(SynchronousTestCase):
    """A peer that knows more of this node than the node itself."""

    def test_believed(self) -> None:
        """One new incarnation at a time, and not for ever at one peer's word."""
        set_back, other = SetBack(Log()), peer("b", {OWN: 4})  # type: ignore[arg-type]
        self.assertEqual(set_back.check(peer("b", {OWN: 3})), [])
        for _ in range(MOST_RENEWALS):
            (renew,) = set_back.check(other)
            self.assertEqual((renew.stream, renew.number), (OWN, 4))  # type: ignore[union-attr]
            self.assertEqual(set_back.check(other), [])
            set_back.renewed()
        (doubted,) = set_back.check(other)
        self.assertEqual(type(doubted).__name__, "Doubted")
        self.assertEqual(set_back.check(other), [])

    def test_failed(self) -> None:
        """Where the disk refuses it is tried again, and that is not held against the peer."""
        set_back, other = SetBack(Log()), peer("b", {OWN: 4})  # type: ignore[arg-type]
        for round_ in range(MOST_RENEWALS + 1):
            self.assertEqual(len(set_back.check(other)), 1)
            set_back.failed("b", round_ * 100)
            self.assertEqual(set_back.check(other), [])
            self.assertFalse(set_back.is_due(round_ * 100))
            self.assertTrue(set_back.is_due(round_ * 100 + AGAIN_SECONDS))


class PeerTableTests(SynchronousTestCase):
    """Questions about peers."""

    def test_lacks(self) -> None:
        """What a peer lacks is known while it is linked, and by what it had when it left."""
        table = PeerTable(Log())  # type: ignore[arg-type]
        table.all["b"] = peer("b", {OWN: 1})
        silent = table.all["c"] = PeerProgress("c", 0.0)
        self.assertEqual((table.linked(), table.ready()), (["b"], [table.all["b"]]))
        self.assertEqual((table.lag("b"), table.lag("c"), table.confirmed()), (2, None, 1))
        self.assertEqual(table.confirmed_by(OWN, 1), ["b"])
        self.assertFalse(silent.ready)
        table.remove("b")
        self.assertEqual((table.lag("b"), table.lacks("b"), table.lacks("c")), (None, 2, None))
