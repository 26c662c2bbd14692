"""
Work that others go by, and whoever waits for it.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger, LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.transports.deferreds import OneByOne, to_its_end


class ToItsEndTests(SynchronousTestCase):
    """Work of two parts; the second waits for a disk."""

    def setUp(self) -> None:
        self.disk: Deferred[str] = Deferred()
        self.done: list[str] = []
        self.waiting = to_its_end(self.work(), Logger("test"), "{what} failed", what="writing")

    async def work(self) -> str:
        """Write, and read what was written."""
        self.done.append("begun")
        self.done.append(await self.disk)
        return self.done[-1]

    def test_waits(self) -> None:
        """Whoever waits gets the value, or the error, which is then not in the log."""
        self.assertNoResult(self.waiting)
        self.disk.callback("written")
        self.assertEqual(self.successResultOf(self.waiting), "written")

        self.setUp()
        self.disk.errback(StoreError("full"))
        self.failureResultOf(self.waiting, StoreError)

    def test_goes_away(self) -> None:
        """The work goes on to its end."""
        self.waiting.cancel()
        self.failureResultOf(self.waiting, CancelledError)
        self.assertEqual(self.done, ["begun"])

        self.disk.callback("written")

        self.assertEqual(self.done, ["begun", "written"])

    def test_fails_then(self) -> None:
        """What fails afterwards is in the log: by its words if we said it, else with where."""
        heard: list[tuple[LogLevel, str]] = []

        def hear(event: dict[str, object]) -> None:
            if event.get("log_namespace") == "test":
                heard.append((event["log_level"], str(event.get("error", ""))))

        globalLogPublisher.addObserver(hear)
        self.addCleanup(globalLogPublisher.removeObserver, hear)
        for error in (StoreError("full"), ZeroDivisionError()):
            self.setUp()
            self.waiting.cancel()
            self.failureResultOf(self.waiting, CancelledError)
            self.disk.errback(error)

        self.assertEqual([level for level, _ in heard], [LogLevel.warn, LogLevel.critical])
        self.assertIn("full", heard[0][1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class OneByOneTests(SynchronousTestCase):
    """Three things, each of which waits for something."""

    def setUp(self) -> None:
        self.waits: dict[str, Deferred[None]] = {}
        self.ended: list[str] = []
        self.things: OneByOne[str] = OneByOne(self.work, Logger("test"), "one failed")
        for name in ("a", "b", "c"):
            self.things.put(name)

    async def work(self, name: str) -> None:
        """Wait."""
        self.waits[name] = Deferred()
        await self.waits[name]
        self.ended.append(name)

    def test_in_order(self) -> None:
        """One is begun when the one before it has ended; later ones are begun at once."""
        for count, name in enumerate("abc", 1):
            self.assertEqual((list(self.waits), len(self.things)), (list("abc")[:count], 3 - count))
            self.waits[name].callback(None)
        self.things.put("d")
        self.waits["d"].callback(None)

        self.assertEqual(self.ended, ["a", "b", "c", "d"])

    def test_failure(self) -> None:
        """A failure is logged, and the next ones are begun, though nothing more comes."""
        self.waits["a"].errback(ZeroDivisionError("a mistake"))
        self.waits["b"].errback(CancelledError())
        self.waits["c"].callback(None)

        self.assertEqual(self.ended, ["c"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_clear(self) -> None:
        """What was not begun is forgotten."""
        self.things.clear()
        self.waits["a"].callback(None)

        self.assertEqual((self.ended, list(self.waits)), (["a"], ["a"]))
