from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.upkeep import DAY, AwayTooLong, Upkeep


class Log:
    """What upkeep needs of a log."""

    def __init__(self) -> None:
        self.wants_compaction = False
        self.done: list[str] = []

    async def compact(self) -> int:
        self.done.append("compact")
        self.wants_compaction = False
        return 0

    async def check(self) -> None:
        self.done.append("check")

    def mark(self) -> Deferred[None]:
        self.done.append("mark")
        return succeed(None)


class UpkeepTests(SynchronousTestCase):
    def test_by_the_clock(self) -> None:
        """A full log is compacted in a minute, checked each hour, and each day is marked once."""
        clock, log = Clock(), Log()
        upkeep = Upkeep(clock, log)  # type: ignore[arg-type]
        upkeep.startService()
        clock.advance(61)
        self.assertEqual(log.done, [])
        log.wants_compaction = True
        clock.advance(60)
        self.assertEqual(log.done, ["compact"])

        for _ in range(round(2 * DAY / 60) + 2):
            clock.advance(60)

        self.assertEqual(
            [what for what in log.done if what != "check"], ["compact", "mark", "mark"]
        )
        self.assertEqual(log.done.count("check"), 48)
        upkeep.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])


class AwayTooLongTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.ended = 0
        self.alarms: list[tuple[str, Mapping[str, Any]]] = []
        self.away = AwayTooLong(
            self.clock, self.end, lambda tag, data: self.alarms.append((tag, data))
        )

    def end(self) -> None:
        self.ended += 1

    def test_refused(self) -> None:
        """Who is called too old by another ends his membership."""
        self.away("b", True)
        self.clock.advance(3)

        self.assertEqual(self.ended, 1)

    def test_refuses(self) -> None:
        """Who calls another too old goes on, and raises an alarm."""
        self.away("b", False)
        self.away("b", False)
        self.clock.advance(3)

        self.assertEqual(self.ended, 0)
        self.assertEqual(self.alarms, [("saltwisted/alarm/away-too-long", {"node": "b"})])

    def test_mutual(self) -> None:
        """Two that call each other too old both go on: a person decides."""
        self.away("b", True)
        self.away("b", False)
        self.clock.advance(3)

        self.assertEqual(self.ended, 0)
