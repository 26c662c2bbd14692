"""Who waits until other nodes have an entry on disk."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.confirming import Confirming
from saltwisted.domain.replica.entry import Stream

OWN = Stream("a", "0" * 16)


class Table:
    """What peers have on disk."""

    def __init__(self) -> None:
        self.has: dict[str, int] = {}

    def confirmed_by(self, stream: Stream, number: int) -> list[str]:
        """Those that have an entry."""
        return sorted(node for node, last in self.has.items() if last >= number)


class ConfirmingTests(SynchronousTestCase):
    """Two peers."""

    def setUp(self) -> None:
        self.clock, self.table = Clock(), Table()
        self.confirming = Confirming(self.clock, self.table)  # type: ignore[arg-type]
        self.addCleanup(lambda: self.assertEqual(self.clock.getDelayedCalls(), []))

    def test_all(self) -> None:
        """It fires when the last has confirmed, or at once if all have."""
        self.table.has = {"b": 1}
        wait = self.confirming.wait(OWN, 2, "bc", 9)
        self.table.has = {"b": 2}
        self.confirming.look("bc")
        self.assertNoResult(wait)
        self.table.has["c"] = 3
        self.confirming.look("bc")
        self.assertEqual(self.successResultOf(wait), [])
        self.assertEqual(list(self.successResultOf(self.confirming.wait(OWN, 2, "bc", 9))), [])

    def test_too_long(self) -> None:
        """After the time it fires with those that have not, and so it does at the end."""
        self.table.has = {"b": 2}
        wait = self.confirming.wait(OWN, 2, "bc", 9)
        self.clock.advance(9)
        self.assertEqual(self.successResultOf(wait), ["c"])
        wait = self.confirming.wait(OWN, 3, "bc", 9)
        self.confirming.end()
        self.assertEqual(self.successResultOf(wait), ["b", "c"])

    def test_link_ends(self) -> None:
        """Nobody waits for a node whose link has ended; it is named all the same."""
        wait = self.confirming.wait(OWN, 2, "bc", 9)
        self.table.has = {"b": 2}
        self.confirming.look("b")
        self.assertEqual(self.successResultOf(wait), ["c"])
