"""
When a scheduled job runs.
"""

# ruff: noqa: DTZ001 - schedules run in local time, without zone
from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.document import parse
from saltwisted.domain.schedule import (
    Progress,
    ScheduleEntry,
    ScheduleError,
    parse_entry,
    saved,
    shown,
    stamped,
    step,
    wake,
    without_hidden,
)

NOW = datetime(2026, 3, 11, 12, 0, 0)


def low(first: int, _last: int) -> int:
    """Dice that always show the smallest number."""
    return first


def entry(settings: dict[str, Any] | None = None, **data: Any) -> ScheduleEntry:
    """A job that pings."""
    return parse_entry("job", {"function": "test.ping", **data}, settings or {}, NOW)


def runs(job: ScheduleEntry, seconds: int, start: datetime = NOW, every: int = 1) -> list[int]:
    """At which seconds after the start it runs, when looked at so often."""
    progress = Progress()
    found = []
    for second in range(0, seconds + 1, every):
        progress, run = step(job, progress, start + timedelta(seconds=second), low)
        if run is not None:
            found.append(second)
    return found


class IntervalTests(SynchronousTestCase):
    """Jobs that come again and again."""

    def test_interval(self) -> None:
        """An interval runs at start and then after each interval; units add up."""
        self.assertEqual(runs(entry(seconds=10), 35), [0, 10, 20, 30])
        self.assertEqual(runs(entry(seconds=10, run_on_start=False), 35), [10, 20, 30])
        self.assertEqual(entry(days=1, hours=1, minutes=1, seconds=1).every, 90061)

    def test_text_numbers(self) -> None:
        """Numbers from a command line may be text."""
        self.assertEqual(entry(seconds="15", enabled="true").every, 15)
        self.assertFalse(entry(seconds="15", enabled="false").enabled)

    def test_late_look(self) -> None:
        """A late look runs a job once, and counts its interval from there."""
        self.assertEqual(runs(entry(seconds=10), 70, every=35), [0, 35, 70])

    def test_splay(self) -> None:
        """A splay delays every run but the one at start."""
        self.assertEqual(runs(entry(seconds=10, splay={"start": 3, "end": 9}), 40), [0, 13, 26, 39])
        self.assertEqual(entry(seconds=10, splay=5).splay, (1, 5))
        self.assertEqual(entry({"splay": 7}, seconds=10).splay, (1, 7))

    def test_maxrunning(self) -> None:
        """A job that still runs often enough is skipped until the next interval."""
        job = entry(seconds=10, maxrunning=2)
        progress, run = step(job, Progress(), NOW, low, running=2)

        self.assertIsNone(run)
        self.assertEqual(progress.skip_reason, "maxrunning")
        self.assertEqual(progress.next_fire, NOW + timedelta(seconds=10))
        self.assertIsNotNone(step(job, Progress(), NOW, low, running=1)[1])

    def test_maxrunning_unlisted(self) -> None:
        """Without jid_include nobody counts."""
        job = entry(seconds=10, jid_include=False)

        self.assertIsNotNone(step(job, Progress(), NOW, low, running=9)[1])

    def test_disabled(self) -> None:
        """Disabled jobs, and all jobs of a disabled schedule, do not run but keep time."""
        job = entry(seconds=10, enabled=False)
        progress, run = step(job, Progress(), NOW, low)

        self.assertIsNone(run)
        self.assertEqual(progress.skip_reason, "disabled")
        self.assertEqual(runs(entry({"enabled": False}, seconds=10), 30), [])

    def test_dry_run(self) -> None:
        """A dry run keeps its times and starts nothing."""
        job = entry(seconds=10, dry_run=True)
        progress, run = step(job, Progress(), NOW, low)

        self.assertIsNone(run)
        self.assertEqual(progress.last_run, NOW)


class CalendarTests(SynchronousTestCase):
    """Jobs at points in time."""

    def test_once(self) -> None:
        """A single time comes once; one that has passed never."""
        self.assertEqual(runs(entry(once="2026-03-11T12:00:20"), 60), [20])
        self.assertEqual(runs(entry(once="2026-03-11T11:59:20"), 60), [])
        self.assertEqual(runs(entry(once="11.03.2026 12:00", once_fmt="%d.%m.%Y %H:%M"), 60), [0])

    def test_when(self) -> None:
        """Several times a day, and a name for one of them."""
        job = parse_entry(
            "job",
            {"function": "f.f", "when": ["12:00:05", "tea", "11:00"]},
            {},
            NOW,
            whens={"tea": "12:00:10"},
        )

        self.assertEqual(runs(job, 30), [5, 10])
        self.assertEqual(runs(job, 30, NOW + timedelta(days=1)), [5, 10])

    def test_cron(self) -> None:
        """A cron line runs at full minutes."""
        self.assertEqual(runs(entry(cron="*/2 * * * *"), 300), [0, 120, 240])

    def test_nothing_lost(self) -> None:
        """A time between two looks is not lost, and runs once."""
        self.assertEqual(runs(entry(when="12:00:20"), 300, every=60), [60])

    def test_splayed_when(self) -> None:
        """A splay delays a point in time."""
        self.assertEqual(runs(entry(when="12:00:20", splay={"start": 5, "end": 6}), 60), [25])

    def test_run_on_start(self) -> None:
        """Points in time run at start only when asked."""
        self.assertEqual(runs(entry(when="12:00:20", run_on_start=True), 60), [0, 20])


class ConditionTests(SynchronousTestCase):
    """What stands between a due job and its run."""

    def test_range(self) -> None:
        """A periodic job waits for its range, starts with it, and ends with it."""
        job = entry(seconds=10, run_on_start=False, range={"start": "12:00:25", "end": "12:00:50"})

        self.assertEqual(runs(job, 100), [25, 35, 45])

    def test_range_inverted(self) -> None:
        """An inverted range keeps out what is inside."""
        job = entry(
            seconds=10,
            run_on_start=False,
            range={"invert": True, "start": "12:00:15", "end": "12:00:45"},
        )

        self.assertEqual(runs(job, 60), [10, 45, 55])

    def test_wake_for_range(self) -> None:
        """A job that waits for its range asks to be looked at when that begins."""
        job = entry(seconds=10, run_on_start=False, range={"start": "12:30", "end": "13:00"})
        progress, _ = step(job, Progress(), NOW, low)
        progress, run = step(job, progress, NOW + timedelta(seconds=10), low)

        self.assertIsNone(run)
        self.assertEqual(progress.skip_reason, "not_in_range")
        self.assertEqual(
            wake(job, progress, NOW + timedelta(seconds=10)), NOW + timedelta(minutes=30)
        )

    def test_skip_during_range(self) -> None:
        """Runs inside are dropped; with run_after_skip_range one follows at its end."""
        span = {"start": "12:00:15", "end": "12:00:45"}
        job = entry(seconds=10, run_on_start=False, skip_during_range=span)
        after = entry(when="12:00:30", skip_during_range=span, run_after_skip_range=True)

        self.assertEqual(runs(job, 70), [10, 50, 60, 70])
        self.assertEqual(runs(entry({"skip_during_range": span}, when="12:00:30"), 70), [])
        self.assertEqual(runs(after, 70), [46])

    def test_skip_function(self) -> None:
        """A skip_function runs instead of what is skipped."""
        job = entry(
            {"skip_function": "test.skipped"},
            seconds=10,
            run_on_start=False,
            range={"start": "13:00", "end": "14:00"},
        )
        progress, _ = step(job, Progress(), NOW, low)
        _, run = step(job, progress, NOW + timedelta(seconds=10), low)

        assert run is not None
        self.assertEqual(run.function, "test.skipped")

    def test_explicit(self) -> None:
        """A postponed run is skipped at its time and run at the new one."""
        job = entry(
            when="12:00:20",
            skip_explicit=[{"time": "2026-03-11T12:00:20", "time_fmt": "%Y-%m-%dT%H:%M:%S"}],
            run_explicit=[{"time": "2026-03-11T12:00:40", "time_fmt": "%Y-%m-%dT%H:%M:%S"}],
        )

        self.assertEqual(runs(job, 60), [40])
        self.assertEqual(runs(job, 60, every=15), [45])

    def test_until_after(self) -> None:
        """A job runs after its C{after} and before its C{until}; both must hold."""
        self.assertEqual(
            runs(entry(seconds=10, run_on_start=False, until="2026-03-11T12:00:30"), 60), [10, 20]
        )
        self.assertEqual(
            runs(entry(seconds=10, run_on_start=False, after="2026-03-11T12:00:30"), 60),
            [40, 50, 60],
        )
        both = entry(
            seconds=10,
            run_on_start=False,
            range={"start": "12:00:00", "end": "12:00:20"},
            until="13:00",
        )
        self.assertEqual(runs(both, 60), [10, 20])


class ReadingTests(SynchronousTestCase):
    """Entries as they are written."""

    def test_refused(self) -> None:
        """Each broken entry is refused with its name and the reason."""
        cases: list[tuple[Any, str]] = [
            ({"seconds": 5}, "names no function"),
            ({"function": "f.f"}, "no time to run at"),
            ({"function": "f.f", "seconds": "x"}, "seconds: 'x' is not a whole number"),
            ({"function": "f.f", "seconds": -5}, "negative"),
            ({"function": "f.f", "when": "5pm", "cron": "* * * * *"}, "together"),
            ({"function": "f.f", "when": "5pm", "seconds": 5}, "Unable to use"),
            ({"function": "f.f", "when": "teatime"}, "not a time"),
            ({"function": "f.f", "cron": "x"}, "five fields"),
            ({"function": "f.f", "once": "tomorrow"}, "does not match format"),
            ({"function": "f.f", "seconds": 5, "splay": {"start": 9, "end": 1}}, "splay"),
            ({"function": "f.f", "seconds": 5, "range": "8-10"}, "dictionary"),
            (
                {"function": "f.f", "seconds": 5, "range": {"start": "8am"}},
                "range: 'end' is missing",
            ),
            ({"function": "f.f", "seconds": 5, "skip_explicit": [5]}, "Ignoring"),
            ("f.f", "dict value"),
        ]
        for data, expected in cases:
            error = self.assertRaises(ScheduleError, parse_entry, "odd", data, {}, NOW)
            self.assertIn(expected, str(error))
            self.assertIn("odd", str(error))

    def test_spellings(self) -> None:
        """The function may be called function, func or fun; returners may be one or many."""
        for key in ("function", "func", "fun"):
            job = parse_entry("j", {key: "a.b", "seconds": 1}, {}, NOW)
            self.assertEqual(job.function, "a.b")
        job = parse_entry(
            "j", {"fun": "a.b", "seconds": 1, "returner": ["x", "y"]}, {}, NOW, returner="x"
        )
        self.assertEqual(list(job.returners), ["x", "y"])

    def test_shown(self) -> None:
        """Times are shown as text under Salt's hidden names, and are not saved."""
        progress, _ = step(entry(seconds=10), Progress(), NOW, low)
        hidden = shown(progress, entry(seconds=10))

        self.assertEqual(hidden["_next_fire_time"], "2026-03-11T12:00:10")
        self.assertEqual(hidden["_last_run"], "2026-03-11T12:00:00")
        self.assertEqual(hidden["_seconds"], 10)
        self.assertEqual(
            without_hidden({"a": {"x": 1, **hidden}, "enabled": True}),
            {"a": {"x": 1}, "enabled": True},
        )

    def test_saved(self) -> None:
        """A saved schedule reads back as configuration, without hidden keys."""
        schedule = {"j": {"function": "f.f", "seconds": 5, "_splay": None, "args": ["ä"]}}

        text = saved(schedule)

        self.assertEqual(
            parse(text, "x"), {"schedule": {"j": {"function": "f.f", "seconds": 5, "args": ["ä"]}}}
        )

    def test_metadata(self) -> None:
        """Metadata gets Salt's three times."""
        stamps = stamped({"who": "me"}, NOW, NOW - timedelta(hours=1), "+0100")

        self.assertEqual(
            stamps,
            {
                "who": "me",
                "_TOS": "+0100",
                "_TS": "Wed Mar 11 12:00:00 2026",
                "_TT": "2026 March 11 Wed 11 03",
            },
        )
