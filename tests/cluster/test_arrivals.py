"""What a peer says and is asked, without a link."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links import arrivals
from saltwisted.cluster.links.arrivals import Arrivals
from saltwisted.cluster.links.asked import Asked
from saltwisted.cluster.links.commands import NO_BULK
from saltwisted.errors import RequestTimeout, TransportClosed


class ArrivalsTests(SynchronousTestCase):
    """Words, and bodies that come by another connection."""

    def setUp(self) -> None:
        self.closed: list[str] = []
        self.arrivals = Arrivals(self.closed.append)
        self.got: list[bytes] = []

    def word(self, name: str, bulk: int = NO_BULK, body: bytes = b"") -> None:
        """A word has come."""
        self.arrivals.word(name, bulk, body, self.got.append)

    def test_in_order(self) -> None:
        """Words of one name wait for the body of the one before; others do not."""
        self.word("a", 1)
        self.word("a", body=b"second")
        self.word("b", body=b"other")
        self.assertEqual(self.got, [b"other"])
        self.assertGreater(self.arrivals.held_bytes, 0)
        self.arrivals.body(1, b"first")
        self.assertEqual(self.got, [b"other", b"first", b"second"])
        self.assertEqual((self.arrivals.held_bytes, self.arrivals.expected), (0, {}))

    def test_body_first(self) -> None:
        """A body that comes before its word waits for it."""
        self.arrivals.body(1, b"early")
        self.word("a", 1)
        self.assertEqual((self.got, self.closed), ([b"early"], []))

    def test_bounds(self) -> None:
        """Words without bodies, bodies without words, and what waits for them end the link."""
        self.patch(arrivals, "MAX_WAITING", 2000)
        self.patch(arrivals, "MAX_EXPECTED", 1)
        self.arrivals.body(7, bytes(2001))
        self.word("a", 1)
        self.word("a", body=bytes(2000))
        self.word("b", 2)
        self.assertEqual(
            self.closed,
            ["bodies without words", "words wait for one without a body", "words without bodies"],
        )
        self.arrivals.clear()
        self.arrivals.body(1, b"late")
        self.assertEqual(self.got, [])


class AskedTests(SynchronousTestCase):
    """Questions."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.asked = Asked(self.clock, "b")
        self.addCleanup(lambda: self.assertEqual(self.clock.getDelayedCalls(), []))

    def test_once(self) -> None:
        """The answer of each comes to who asked it; what comes later is not looked at."""
        (one, first), (two, second) = self.asked.begin("x", 5), self.asked.begin("y", 5)
        self.asked.answered(two, b"two")
        self.asked.answered(two, b"again")
        self.assertEqual(self.successResultOf(second), b"two")
        self.clock.advance(5)
        self.assertIn("did not answer x", str(self.failureResultOf(first, RequestTimeout).value))
        self.asked.failed(one, ValueError("late"))
        self.assertNotIn(one, self.asked)

    def test_ends(self) -> None:
        """Who stops waiting hears nothing more; with the link end all that wait."""
        (number, given_up), (_, waits) = self.asked.begin("x", 5), self.asked.begin("y", 5)
        given_up.cancel()
        self.failureResultOf(given_up)
        self.assertNotIn(number, self.asked)
        self.asked.lost("gone")
        self.failureResultOf(waits, TransportClosed)
