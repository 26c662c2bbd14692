"""
Times as people write them, judged by dateutil and croniter.

The expected values were computed with dateutil 4.0.0 and croniter 7.0.0 (which Salt uses)
at the time L{NOW}; C{None} where they refuse.
"""

# ruff: noqa: DTZ001 - schedules run in local time, without zone
from __future__ import annotations

from datetime import datetime, timedelta

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.when import WhenError, first_after, parse_cron, parse_moment

NOW = datetime(2026, 3, 11, 12, 30, 15)
MOMENTS = {
    "5:00pm": "2026-03-11T17:00:00",
    "5pm": "2026-03-11T17:00:00",
    "8am": "2026-03-11T08:00:00",
    "12am": "2026-03-11T00:00:00",
    "12pm": "2026-03-11T12:00:00",
    "17:00": "2026-03-11T17:00:00",
    "17:00:30": "2026-03-11T17:00:30",
    "00:00": "2026-03-11T00:00:00",
    "Monday 5:00pm": "2026-03-16T17:00:00",
    "monday": "2026-03-16T00:00:00",
    "tue 8:15": "2026-03-17T08:15:00",
    "Fri": "2026-03-13T00:00:00",
    "2026-01-31T04:05:06": "2026-01-31T04:05:06",
    "2026-01-31 04:05": "2026-01-31T04:05:00",
    "2026-01-31": "2026-01-31T00:00:00",
    "20260131": "2026-01-31T00:00:00",
    "20260131T040506": "2026-01-31T04:05:06",
    "01/31/2026 5:00pm": "2026-01-31T17:00:00",
    "1/2/2026": "2026-01-02T00:00:00",
    "31/1/2026": "2026-01-31T00:00:00",
    "1/31": "2026-01-31T00:00:00",
    "January 31, 2026 5pm": "2026-01-31T17:00:00",
    "31 Jan 2026 17:00": "2026-01-31T17:00:00",
    "Jan 31": "2026-01-31T00:00:00",
    "31 January": "2026-01-31T00:00:00",
    "Jan 31 2026": "2026-01-31T00:00:00",
    "Wed, 31 Dec 2025 10:00": "2025-12-31T10:00:00",
    "noon": None,
    "gibberish": None,
    "25:00": None,
    "2026-13-01": None,
    "31/31/2026": None,
    "": None,
    "2026-01-31 5:00 PM": "2026-01-31T17:00:00",
    "5:00PM Monday": "2026-03-16T17:00:00",
    "5:30 a.m.": "2026-03-11T05:30:00",
    "2026/01/31 05:00": "2026-01-31T05:00:00",
    "31.1.2026": "2026-01-31T00:00:00",
    "3rd of May 2026": "2026-05-03T00:00:00",
    "2026-01-31T04:05:06.789": "2026-01-31T04:05:06",
    "12:30:15.5": "2026-03-11T12:30:15",
    "Sunday 00:00": "2026-03-15T00:00:00",
    "thursday 23:59": "2026-03-12T23:59:00",
}
CRONS = {
    "* * * * *": [
        "2026-03-11T12:31:00",
        "2026-03-11T12:32:00",
        "2026-03-11T12:33:00",
        "2026-03-11T12:34:00",
        "2026-03-11T12:35:00",
    ],
    "*/5 * * * *": [
        "2026-03-11T12:35:00",
        "2026-03-11T12:40:00",
        "2026-03-11T12:45:00",
        "2026-03-11T12:50:00",
        "2026-03-11T12:55:00",
    ],
    "0 5 * * 1-5": [
        "2026-03-12T05:00:00",
        "2026-03-13T05:00:00",
        "2026-03-16T05:00:00",
        "2026-03-17T05:00:00",
        "2026-03-18T05:00:00",
    ],
    "30 4 1,15 * 5": [
        "2026-03-13T04:30:00",
        "2026-03-15T04:30:00",
        "2026-03-20T04:30:00",
        "2026-03-27T04:30:00",
        "2026-04-01T04:30:00",
    ],
    "0 0 29 2 *": [
        "2028-02-29T00:00:00",
        "2032-02-29T00:00:00",
        "2036-02-29T00:00:00",
        "2040-02-29T00:00:00",
        "2044-02-29T00:00:00",
    ],
    "@hourly": [
        "2026-03-11T13:00:00",
        "2026-03-11T14:00:00",
        "2026-03-11T15:00:00",
        "2026-03-11T16:00:00",
        "2026-03-11T17:00:00",
    ],
    "@weekly": [
        "2026-03-15T00:00:00",
        "2026-03-22T00:00:00",
        "2026-03-29T00:00:00",
        "2026-04-05T00:00:00",
        "2026-04-12T00:00:00",
    ],
    "0 0 * * 7": [
        "2026-03-15T00:00:00",
        "2026-03-22T00:00:00",
        "2026-03-29T00:00:00",
        "2026-04-05T00:00:00",
        "2026-04-12T00:00:00",
    ],
    "0 22 * * mon-fri": [
        "2026-03-11T22:00:00",
        "2026-03-12T22:00:00",
        "2026-03-13T22:00:00",
        "2026-03-16T22:00:00",
        "2026-03-17T22:00:00",
    ],
    "5-10/2 * * jan,jul *": [
        "2026-07-01T00:05:00",
        "2026-07-01T00:07:00",
        "2026-07-01T00:09:00",
        "2026-07-01T01:05:00",
        "2026-07-01T01:07:00",
    ],
    "0 0 31 * *": [
        "2026-03-31T00:00:00",
        "2026-05-31T00:00:00",
        "2026-07-31T00:00:00",
        "2026-08-31T00:00:00",
        "2026-10-31T00:00:00",
    ],
    "0 12 * * sun": [
        "2026-03-15T12:00:00",
        "2026-03-22T12:00:00",
        "2026-03-29T12:00:00",
        "2026-04-05T12:00:00",
        "2026-04-12T12:00:00",
    ],
    "15 14 1 * *": [
        "2026-04-01T14:15:00",
        "2026-05-01T14:15:00",
        "2026-06-01T14:15:00",
        "2026-07-01T14:15:00",
        "2026-08-01T14:15:00",
    ],
    "0 0 * * fri-mon": [
        "2026-03-13T00:00:00",
        "2026-03-14T00:00:00",
        "2026-03-15T00:00:00",
        "2026-03-16T00:00:00",
        "2026-03-20T00:00:00",
    ],
    "0 0 30 2 *": None,
    "* * *": None,
    "61 * * * *": None,
    "0 0 1 * 1": [
        "2026-03-16T00:00:00",
        "2026-03-23T00:00:00",
        "2026-03-30T00:00:00",
        "2026-04-01T00:00:00",
        "2026-04-06T00:00:00",
    ],
    "*/7 */5 */3 * *": [
        "2026-03-13T00:00:00",
        "2026-03-13T00:07:00",
        "2026-03-13T00:14:00",
        "2026-03-13T00:21:00",
        "2026-03-13T00:28:00",
    ],
    "0 0 ? * 1": [
        "2026-03-16T00:00:00",
        "2026-03-23T00:00:00",
        "2026-03-30T00:00:00",
        "2026-04-06T00:00:00",
        "2026-04-13T00:00:00",
    ],
    "59 23 31 12 6": [
        "2026-12-05T23:59:00",
        "2026-12-12T23:59:00",
        "2026-12-19T23:59:00",
        "2026-12-26T23:59:00",
        "2026-12-31T23:59:00",
    ],
    "0 0 */2 * 1": [
        "2026-03-13T00:00:00",
        "2026-03-15T00:00:00",
        "2026-03-16T00:00:00",
        "2026-03-17T00:00:00",
        "2026-03-19T00:00:00",
    ],
}


class MomentTests(SynchronousTestCase):
    """Dates and times."""

    def test_as_dateutil(self) -> None:
        """Every form that schedules use is read as dateutil reads it."""
        found = []
        for text, expected in MOMENTS.items():
            try:
                got = parse_moment(text).on(NOW).replace(microsecond=0).isoformat()
            except WhenError:
                got = None
            if got != expected:
                found.append((text, got, expected))

        self.assertEqual(found, [])

    def test_zone_refused(self) -> None:
        """A time zone is an error, since schedules run in local time."""
        for text in ("2026-01-31T04:05:06+00:00", "2026-01-31T04:05:06Z", "5pm CET"):
            self.assertRaises(WhenError, parse_moment, text)

    def test_datetime(self) -> None:
        """A value that is a point in time already is taken as it is."""
        when = datetime(2026, 5, 6, 7, 8, 9)

        self.assertEqual(parse_moment(when).on(NOW), when)

    def test_after(self) -> None:
        """A bare time comes every day, a weekday every week, a full date once."""
        daily, weekly = parse_moment("12:00"), parse_moment("Wednesday 13:00")
        once, yearly = parse_moment("2026-03-11 13:00"), parse_moment("February 29 8am")

        self.assertEqual(daily.after(NOW), datetime(2026, 3, 12, 12))
        self.assertEqual(weekly.after(NOW), datetime(2026, 3, 11, 13))
        self.assertEqual(weekly.after(datetime(2026, 3, 11, 13)), datetime(2026, 3, 18, 13))
        self.assertEqual(once.after(NOW), datetime(2026, 3, 11, 13))
        self.assertIsNone(once.after(datetime(2026, 3, 11, 13)))
        self.assertEqual(yearly.after(NOW), datetime(2028, 2, 29, 8))

    def test_monthly(self) -> None:
        """The 31st comes in the months that have one."""
        last = parse_moment("31 08:00")

        self.assertEqual(last.after(NOW), datetime(2026, 3, 31, 8))
        self.assertEqual(last.after(datetime(2026, 3, 31, 8)), datetime(2026, 5, 31, 8))

    def test_first(self) -> None:
        """Of several times the earliest counts."""
        times = [parse_moment("14:00"), parse_moment("13:00"), parse_cron("45 * * * *")]

        self.assertEqual(first_after(times, NOW), datetime(2026, 3, 11, 12, 45))
        self.assertIsNone(first_after([], NOW))


class CronTests(SynchronousTestCase):
    """Cron lines."""

    def test_as_croniter(self) -> None:
        """The next five times of every line are croniter's."""
        found = []
        for line, expected in CRONS.items():
            got: list[str] | None = []
            try:
                cron, when = parse_cron(line), NOW
                for _ in range(5):
                    following = cron.after(when)
                    assert following is not None and got is not None
                    when = following
                    got.append(when.isoformat())
            except WhenError:
                got = None
            if got != expected:
                found.append((line, got, expected))

        self.assertEqual(found, [])

    def test_refused(self) -> None:
        """What only some crons know is refused with the reason, not misread."""
        for line in (
            "* * * * * *",
            "0 0 L * *",
            "0 0 * * 5#2",
            "a b c d e",
            "",
            "60 * * * *",
            None,
        ):
            self.assertRaises(WhenError, parse_cron, line)

    def test_strictly_later(self) -> None:
        """The minute that is running does not count again."""
        cron = parse_cron("* * * * *")

        self.assertEqual(cron.after(NOW), NOW.replace(minute=31, second=0))
        self.assertEqual(
            cron.after(NOW.replace(minute=31, second=0)), NOW.replace(minute=32, second=0)
        )
        self.assertEqual(
            cron.after(NOW + timedelta(days=1)), NOW.replace(day=12, minute=31, second=0)
        )
