"""
A year of a master's schedule, with summer time, restarts and clocks that are set (pains 1.16).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from datetime import date, datetime
from itertools import pairwise
from random import Random
from typing import Any

from twisted.internet.task import Clock

from saltwisted.domain import schedulebook
from tests.master.test_schedule import ScheduleCase, ScheduleRig

DAY = 86400


def day(at: float) -> date:
    """The local day."""
    return datetime.fromtimestamp(at).date()  # noqa: DTZ006 - local


SCHEDULE = {
    "hourly": {"function": "test.arg", "cron": "30 * * * *"},
    "noon": {"function": "test.arg", "cron": "0 12 * * *"},
    "noon-too": {"function": "test.arg", "when": "12:00pm"},
    "night": {"function": "test.arg", "cron": "30 2 * * *"},
    "interval": {"function": "test.arg", "hours": 7},
}


class YearTests(ScheduleCase):
    """In Berlin, where summer time is."""

    def setUp(self) -> None:
        """The local time of Berlin."""
        before = os.environ.get("TZ")

        def back() -> None:
            if before is None:
                del os.environ["TZ"]
            else:
                os.environ["TZ"] = before
            time.tzset()

        os.environ["TZ"] = "Europe/Berlin"
        time.tzset()
        self.addCleanup(back)
        # Seldom, for the test's time
        self.patch(schedulebook, "LONGEST_SLEEP", 900.0)

    def life(self, clock: Clock, known: Any, runs: list[tuple[str, float]], until: float) -> Any:
        """One life of a master, until a time; what it knows at its end."""
        kind = type("Knowing", (ScheduleRig,), {"known": known})
        rig = kind(self, schedule=dict(SCHEDULE), clock=clock)
        rig.bus.subscribe(
            "__schedule_return",
            lambda tag, data: runs.append((data["schedule"], clock.seconds())),
        )
        rig.schedule.startService()
        while clock.seconds() < until:
            due = min(call.getTime() for call in clock.getDelayedCalls())
            clock.advance(min(due, until) - clock.seconds())
            rig.events.clear()
        self.successResultOf(rig.schedule.stopService())
        return rig.ctx.seams.schedule

    def test_year(self) -> None:
        """
        Each time of day comes once, also on the days on which summer time begins and ends; an
        interval keeps its length over all of it; two jobs of one minute both run.
        """
        clock = Clock()
        clock.advance(1767222000 + 7)  # the first of January
        start, dice = clock.seconds(), Random(2026)
        runs: list[tuple[str, float]] = []
        down: list[tuple[float, float]] = []
        known = None
        while clock.seconds() < start + 365 * DAY:
            known = self.life(clock, known, runs, clock.seconds() + dice.uniform(1, 60) * DAY)
            away = dice.choice([5, 30, 4 * 3600])
            down.append((clock.seconds(), clock.seconds() + away))
            clock.advance(away)

        def missed(at: float) -> bool:
            """Whether no master ran then, and for longer than a run may be late."""
            return any(begin <= at < end - 60 for begin, end in down)

        ran: dict[str, list[float]] = {name: [] for name in SCHEDULE}
        for name, at in runs:
            ran[name].append(at)
        end = clock.seconds()
        hours = [at for at in range(int(start), int(end)) if at % 3600 == 1800]
        slots = Counter(int(at) // 3600 for at in ran["hourly"])
        expected = {at // 3600 for at in hours if not missed(at)}
        self.assertEqual(
            set(slots) - {int(e) // 3600 for _, e in down},
            expected - {int(e) // 3600 for _, e in down},
        )
        self.assertEqual(max(slots.values()), 1)
        for name in ("noon", "noon-too"):
            days = Counter(day(at) for at in ran[name])
            self.assertEqual(max(days.values()), 1)
            self.assertGreater(len(days), 355)
        self.assertEqual(
            [day(at) for at in ran["noon"]],
            [day(at) for at in ran["noon-too"]],
        )
        nights = Counter(day(at) for at in ran["night"])
        self.assertEqual(max(nights.values()), 1)
        self.assertIn(date(2026, 3, 29), nights)
        self.assertIn(date(2026, 10, 25), nights)
        for one, two in pairwise(ran["interval"]):
            late = sum(e - b for b, e in down if one <= b <= two)
            self.assertGreaterEqual(two - one, 7 * 3600 - 1)
            self.assertLessEqual(two - one, 7 * 3600 + late + 1)
