"""
Points in local time as people write them: C{5:00pm}, C{Monday 8am}, C{2026-01-31T04:05:06}, cron.

Salt reads dates with dateutil and cron lines with croniter. This module reads both without them, as
far as schedules use them. Missing parts of a date come from the day on which it is read, so a bare
time means every day. All times are local and without zone, as in Salt's scheduler; the clock is an
argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import Any

from attrs import frozen

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july",
    "august", "september", "october", "november", "december",
)  # fmt: skip

ISO = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:[T ]+(\d\d?):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?$", re.IGNORECASE
)
CLOCK = re.compile(r"(?i)\b(\d{1,2})(?::(\d\d))?(?::(\d\d)(?:\.\d+)?)?\s*([ap])\.?m\b\.?")
CLOCK24 = re.compile(r"\b(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?\b")
SLASHED = re.compile(r"\b(\d{1,4})[/.](\d{1,2})(?:[/.](\d{1,4}))?\b")
HORIZON = timedelta(days=366 * 8)
"""How far ahead a time is looked for; the rarest, 29 February, is at most eight years away."""


class WhenError(ValueError):
    """The text is not a time."""


@frozen(kw_only=True)
class Moment:
    """A time of day, and as much of a date as was written."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    at: time = time()

    def on(self, today: datetime) -> datetime:
        """
        The point in time meant by someone who reads it on this day.

        @raises WhenError: for a day which that month has not.
        """
        try:
            base = date(
                self.year if self.year is not None else today.year,
                self.month if self.month is not None else today.month,
                self.day if self.day is not None else today.day,
            )
        except ValueError as error:
            raise WhenError(str(error)) from None
        if self.weekday is not None and self.day is None:
            base += timedelta(days=(self.weekday - base.weekday()) % 7)
        return datetime.combine(base, self.at)

    def after(self, moment: datetime) -> datetime | None:
        """The first time later than C{moment}; C{None} if there is none."""
        if self.year is not None and self.month is not None and self.day is not None:
            when = self.on(moment)
            return when if when > moment else None
        day = moment
        while day - moment <= HORIZON:
            try:
                when = self.on(day)
            except WhenError:
                pass
            else:
                if when > moment:
                    return when
            if self.day is None and self.month is None and self.year is None:
                day += timedelta(days=1)
            else:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        return None


def parse_moment(text: Any) -> Moment:
    """
    Read a date, a time, or both.

    @raises WhenError: when it is neither, or has a time zone.
    """
    if isinstance(text, datetime):
        return Moment(year=text.year, month=text.month, day=text.day, at=text.time())
    rest = str(text).strip()
    if not rest:
        raise WhenError("an empty time")
    try:
        match = ISO.match(rest)
        if match is not None:
            year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
            date(year, month, day)
            return Moment(year=year, month=month, day=day, at=time(hour, minute, second))
        return _parse_loose(rest)
    except ValueError as error:
        raise WhenError(f"{text!r} is not a time: {error}") from None


def _parse_loose(rest: str) -> Moment:
    at = time()
    timed = False
    match = CLOCK.search(rest)
    if match is not None:
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        if not 1 <= hour <= 12:
            raise WhenError("an hour before am or pm must be 1 to 12")
        at = time(hour % 12 + (12 if match[4].lower() == "p" else 0), minute, second)
        rest = rest[: match.start()] + " " + rest[match.end() :]
        timed = True
    else:
        match = CLOCK24.search(rest)
        if match is not None:
            hour, minute, second = (int(part or 0) for part in match.groups())
            at = time(hour, minute, second)
            rest = rest[: match.start()] + " " + rest[match.end() :]
            timed = True
    iso = ISO.match(rest.strip(" Tt,"))
    if iso is not None:
        year, month, day = (int(part) for part in iso.groups()[:3])
        date(year, month, day)
        return Moment(year=year, month=month, day=day, at=at)
    found: dict[str, int] = {}
    match = SLASHED.search(rest)
    if match is not None:
        found.update(_slashed(*match.groups()))
        rest = rest[: match.start()] + " " + rest[match.end() :]
    numbers: list[str] = []
    for word in re.findall(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]", rest):
        lowered = word.lower()
        if lowered.isdigit():
            numbers.append(word)
        elif len(lowered) >= 3 and (named := _index(lowered, WEEKDAYS)) is not None:
            found["weekday"] = named
        elif len(lowered) >= 3 and (named := _index(lowered, MONTHS)) is not None:
            found["month"] = named + 1
        elif lowered not in (",", "-", "at", "on", "of", "and", "st", "nd", "rd", "th", "t"):
            raise WhenError(f"{word!r} is not understood")
    for number in numbers:
        key = "year" if len(number) == 4 or "day" in found else "day"
        if key in found:
            raise WhenError(f"{number} is one number too many")
        found[key] = int(number)
    if "day" in found and "month" in found:
        date(found.get("year", 2000), found["month"], found["day"])
    if not found and not timed:
        raise WhenError("neither a date nor a time")
    return Moment(at=at, **found)


def _slashed(first: str, second: str, third: str | None) -> dict[str, int]:
    """C{month/day/year}, or another order where the numbers leave no choice."""
    a, b = int(first), int(second)
    if len(first) == 4:
        return {"year": a, "month": b, "day": int(third or 1)}
    month, day = (b, a) if a > 12 else (a, b)
    date(2000, month, day)
    if third is None:
        return {"month": month, "day": day}
    year = int(third)
    return {"month": month, "day": day, "year": year if len(third) > 2 else 2000 + year}


def _index(word: str, names: tuple[str, ...]) -> int | None:
    return next((index for index, name in enumerate(names) if name.startswith(word)), None)


ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

CRON_MONTHS = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
CRON_DAYS = {name[:3]: (number + 1) % 7 for number, name in enumerate(WEEKDAYS)}


@frozen(kw_only=True)
class Cron:
    """
    Five fields of cron.

    @ivar either: whether a day may match the day of the month or that of the week, which is so if
        both are restricted.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def after(self, moment: datetime) -> datetime | None:
        """The first minute later than C{moment} which fits; C{None} if none ever does."""
        when = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = moment + HORIZON
        while when <= end:
            if when.month not in self.months:
                when = (when.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._day_fits(when):
                when = when.replace(hour=0, minute=0) + timedelta(days=1)
            elif when.hour not in self.hours:
                when = when.replace(minute=0) + timedelta(hours=1)
            elif when.minute not in self.minutes:
                when += timedelta(minutes=1)
            else:
                return when
        return None

    def _day_fits(self, when: datetime) -> bool:
        by_day = when.day in self.days
        by_week = when.isoweekday() % 7 in self.weekdays
        return by_day or by_week if self.either else by_day and by_week


def parse_cron(text: Any) -> Cron:
    """
    Read a cron line: five fields, with names, lists, ranges and steps.

    @raises WhenError: for anything else, also for what only some crons know (seconds, C{L}, C{#}).
    """
    line = str(text).strip().lower()
    fields = ALIASES.get(line, line).split()
    if len(fields) != 5:
        raise WhenError(f"{text!r} does not have five fields: minute hour day month weekday")
    minutes, hours, days, months, weekdays = fields
    cron = Cron(
        minutes=_field(minutes, 0, 59, {}),
        hours=_field(hours, 0, 23, {}),
        days=_field(days, 1, 31, {}),
        months=_field(months, 1, 12, CRON_MONTHS),
        weekdays=frozenset(day % 7 for day in _field(weekdays, 0, 7, CRON_DAYS)),
        either=days not in ("*", "?") and weekdays not in ("*", "?"),
    )
    if cron.after(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - local, without zone
        raise WhenError(f"{text!r} names a day that does not exist")
    return cron


def _field(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = _number(step_text, names, 1, high) if "/" in part else 1
        if span in ("*", "?"):
            first, last = low, high if high != 7 else 6
        elif "-" in span[1:]:
            start, _, end = span.partition("-")
            first, last = _number(start, names, low, high), _number(end, names, low, high)
        else:
            first = _number(span, names, low, high)
            last = first if "/" not in part else high
        if first <= last:
            values.update(range(first, last + 1, step))
        else:  # from Friday to Monday
            span_high = high if high != 7 else 6
            circle = [*range(first, span_high + 1), *range(low, last + 1)]
            values.update(circle[::step])
    return frozenset(values)


def _number(text: str, names: dict[str, int], low: int, high: int) -> int:
    number = names.get(text[:3]) if text in names or text[:3] in names else None
    if number is None:
        if not text.isdigit():
            raise WhenError(f"{text!r} is not a number for a cron field")
        number = int(text)
    if not low <= number <= high:
        raise WhenError(f"{number} is not between {low} and {high}")
    return number


def first_after(triggers: Iterable[Moment | Cron], moment: datetime) -> datetime | None:
    """The earliest of several."""
    times = [when for trigger in triggers if (when := trigger.after(moment)) is not None]
    return min(times, default=None)
