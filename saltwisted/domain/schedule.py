"""
The schedule: entries as Salt writes them, and whether one is due.

An L{ScheduleEntry} is the configuration, a L{Progress} its history. L{step} takes both and the
time, and returns the next progress and, if the job must run, what runs. Nothing here knows a clock
(times are local, without zone) or starts anything; C{domain/schedulebook.py} keeps both. The words
and their meaning are those of C{salt/utils/schedule.py} in 3008.2, with these exceptions, all on
purpose: several conditions (C{range}, C{until}, C{after}, ...) must all hold, whereas Salt lets the
last one win; and a time that fell between two checks of the clock is not lost, however far apart
the checks are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from attrs import evolve, frozen

from saltwisted.domain.when import Cron, Moment, first_after, parse_cron, parse_moment
from saltwisted.errors import SaltwistedError

GLOBALS = ("enabled", "skip_function", "skip_during_range", "splay")
"""Names in a schedule which are settings of all jobs, and no jobs."""

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
LONGEST_INTERVAL = 100 * 366 * 86400
"""Seconds; a date so far ahead is a mistake, and calendars end."""
GRACE = timedelta(seconds=1)
"""How late a job may be that became due before anybody looked: Salt's loop interval."""

REPLACED = frozenset(("not_in_range", "in_skip_range", "skip_explicit"))
"""Reasons for which a C{skip_function} runs instead of the job."""

MISSED = "missed"
"""Reason for a run that came too late to be made up for."""

Value = TypeVar("Value")
Dice = Callable[[int, int], int]
"""A whole number from the first to the last, both included."""


class ScheduleError(SaltwistedError):
    """An entry cannot be used, or a request about one; the text says why."""


@frozen(kw_only=True)
class Span:
    """From one time to another; with C{invert} the times outside it."""

    start: Moment
    end: Moment
    invert: bool = False

    def edges(self, now: datetime) -> tuple[datetime, datetime]:
        """Start and end as they read today."""
        return self.start.on(now), self.end.on(now)


@frozen(kw_only=True)
class ScheduleEntry:
    """
    One job of a schedule.

    @ivar every: seconds between two runs, or C{None} if C{triggers} has the times.
    @ivar once: whether the only trigger is a single point in time.
    @ivar splay: a random delay in seconds, from the first to the second number.
    @ivar latest: by how many seconds a run at a time of day may be late; beyond it, it was missed.
        C{None} if each is made up for.
    @ivar return_job: false to keep the return here, C{"nocache"} so that the master does not store
        it.
    """

    name: str
    function: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    every: int | None = None
    triggers: Sequence[Moment | Cron] = ()
    extra_times: Sequence[datetime] = ()
    skip_times: Sequence[datetime] = ()
    range: Span | None = None
    skip_during_range: Span | None = None
    run_after_skip_range: bool = False
    until: Moment | None = None
    after: Moment | None = None
    splay: tuple[int, int] | None = None
    enabled: bool = True
    run_on_start: bool = False
    dry_run: bool = False
    maxrunning: int = 1
    jid_include: bool = True
    skip_function: str | None = None
    return_job: bool | str = True
    returners: Sequence[str] = ()
    return_config: Any = None
    return_kwargs: Any = None
    metadata: Mapping[str, Any] | None = None
    latest: float | None = None


@frozen(kw_only=True)
class Progress:
    """
    The history of an entry.

    @ivar seen: when it was last checked.
    @ivar next_fire: when it is due, before splay.
    @ivar splay_at: when it is due, with splay.
    """

    seen: datetime | None = None
    next_fire: datetime | None = None
    splay_at: datetime | None = None
    last_run: datetime | None = None
    skip_reason: str = ""
    skipped_time: datetime | None = None

    @property
    def due(self) -> datetime | None:
        """When to look again."""
        return self.splay_at or self.next_fire


@frozen(kw_only=True)
class DueJob:
    """
    A job that must start now.

    @ivar function: normally the entry's own, or its C{skip_function}.
    @ivar late: seconds between due time and now.
    @ivar due: the time for which it was due, before splay, in seconds ago; C{None} for a run at the
        start, or a requested one.
    """

    entry: ScheduleEntry
    function: str
    late: float = 0.0
    due: float | None = None


def parse_entry(
    name: str,
    data: Any,
    settings: Mapping[str, Any],
    now: datetime,
    whens: Mapping[str, Any] | None = None,
    returner: Any = None,
) -> ScheduleEntry:
    """
    Read one job.

    @param settings: the whole schedule, for its L{GLOBALS}.
    @param whens: named times, from C{whens} in pillar or grains.
    @param returner: C{schedule_returner}, which applies to every job.
    @raises ScheduleError: when it can never run.
    """
    if not isinstance(data, Mapping):
        kind = type(data).__name__
        raise ScheduleError(f'Scheduled job "{name}" should have a dict value, not {kind}')
    try:
        return _parse(name, data, settings, now, whens or {}, returner)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(f"{error}. Ignoring job {name}.") from None


def _of(option: str, read: Callable[..., Value], *values: Any) -> Value:
    """
    What an option says.

    @raises ValueError: naming the option.
    """
    try:
        return read(*values)
    except KeyError as error:
        raise ValueError(f"{option}: {error.args[0]!r} is missing") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{option}: {error}") from None


def _parse(
    name: str,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    now: datetime,
    whens: Mapping[str, Any],
    returner: Any,
) -> ScheduleEntry:
    function = data.get("function") or data.get("func") or data.get("fun")
    if not isinstance(function, str) or not function:
        raise ScheduleError(f"Job {name} names no function. Ignoring job {name}.")
    every, triggers = _times(name, data, whens)
    splay = data.get("splay") or settings.get("splay")
    during = data.get("skip_during_range") or settings.get("skip_during_range")
    extra = _of("run_explicit", _explicit, data.get("run_explicit"))
    skip_span = None if not during else _of("skip_during_range", _span, during, now)
    if skip_span is not None and data.get("run_after_skip_range"):
        extra.append(skip_span.end.on(now) + GRACE)
    metadata = data.get("metadata")
    returners: list[str] = []
    for option, names in (("returner", data.get("returner")), ("schedule_returner", returner)):
        returners += _of(option, _names, names)
    return ScheduleEntry(
        name=str(data.get("name", name)),
        function=function,
        args=_of("args", _listed, data.get("args")),
        kwargs=_of("kwargs", _mapped, data.get("kwargs")),
        every=every,
        triggers=triggers,
        extra_times=extra,
        skip_times=_of("skip_explicit", _explicit, data.get("skip_explicit")),
        range=_of("range", _span, data["range"], now) if data.get("range") else None,
        skip_during_range=skip_span,
        run_after_skip_range=bool(data.get("run_after_skip_range")),
        until=_of("until", parse_moment, data["until"]) if data.get("until") else None,
        after=_of("after", parse_moment, data["after"]) if data.get("after") else None,
        splay=_of("splay", _splay, splay),
        enabled=_truth(data.get("enabled", True)) and _truth(settings.get("enabled", True)),
        run_on_start=_truth(data.get("run_on_start", every is not None)),
        dry_run=bool(data.get("dry_run")),
        maxrunning=_of("maxrunning", _whole, data.get("maxrunning", 1)),
        jid_include=_truth(data.get("jid_include", True)),
        skip_function=settings.get("skip_function"),
        return_job=data.get("return_job", True),
        returners=list(dict.fromkeys(returners)),
        return_config=data.get("return_config"),
        return_kwargs=data.get("return_kwargs"),
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{value!r} is not a whole number") from None


def _listed(value: Any) -> list[Any]:
    if value is None or isinstance(value, (list, tuple)):
        return list(value or ())
    raise ValueError(f"a list is needed, not {type(value).__name__}")


def _mapped(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    raise ValueError(f"a map is needed, not {type(value).__name__}")


def _names(value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value] if value else []
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{value!r} is no name, and no list of names")
    return names


def _truth(value: Any) -> bool:
    """Command lines write C{"true"} where files write C{true}."""
    return value.lower() not in ("false", "no", "off") if isinstance(value, str) else bool(value)


def _times(
    name: str, data: Mapping[str, Any], whens: Mapping[str, Any]
) -> tuple[int | None, list[Moment | Cron]]:
    kinds = [key for key in ("when", "cron", "once") if data.get(key) is not None]
    units = [unit for unit in UNITS if data.get(unit) is not None]
    if len(kinds) > 1:
        raise ScheduleError(f'Unable to use "{", ".join(kinds)}" together. Ignoring job {name}.')
    if kinds and units:
        raise ScheduleError(
            f'Unable to use "{", ".join(units)}" with "{kinds[0]}". Ignoring job {name}.'
        )
    if units:
        seconds = sum(_of(unit, _whole, data[unit]) * UNITS[unit] for unit in units)
        if seconds < 0:
            raise ValueError(f"{', '.join(units)}: An interval cannot be negative")
        if seconds > LONGEST_INTERVAL:
            raise ValueError(f"{', '.join(units)}: an interval of more than a hundred years")
        return max(seconds, 1), []
    if "when" in kinds:
        listed = data["when"] if isinstance(data["when"], list) else [data["when"]]
        return None, [
            _of("when", parse_moment, whens.get(text, text) if isinstance(text, str) else text)
            for text in listed
        ]
    if "cron" in kinds:
        return None, [_of("cron", parse_cron, data["cron"])]
    if "once" in kinds:
        once = data["once"]
        if not isinstance(once, datetime):
            once = _of("once", datetime.strptime, str(once), data.get("once_fmt", TIME_FORMAT))
        return None, [parse_moment(once)]
    if data.get("run_explicit"):
        return None, []
    raise ScheduleError(f"Job {name} has no time to run at. Ignoring job {name}.")


def _explicit(listed: Any) -> list[datetime]:
    times = []
    for item in _listed(listed):
        if isinstance(item, datetime):
            times.append(item)
        elif not isinstance(item, Mapping):
            raise ValueError(f"{item!r} does not have a time and a time_fmt")
        else:
            fmt = item.get("time_fmt", TIME_FORMAT)
            times.append(datetime.strptime(str(item["time"]), fmt))  # noqa: DTZ007
    return sorted(times)


def _span(data: Any, now: datetime) -> Span:
    if not isinstance(data, Mapping):
        raise ValueError("must be specified as a dictionary")
    span = Span(
        start=_of("start", parse_moment, data["start"]),
        end=_of("end", parse_moment, data["end"]),
        invert=bool(data.get("invert")),
    )
    # Weekdays are in another order tomorrow
    if span.start.weekday is None and span.end.weekday is None:
        start, end = span.edges(now)
        if end <= start:
            raise ValueError("Invalid range, end must be larger than start")
    return span


def _splay(splay: Any) -> tuple[int, int] | None:
    if not splay:
        return None
    if isinstance(splay, Mapping):
        start, end = _whole(splay["start"]), _whole(splay["end"])
        if end < start:
            raise ValueError("Invalid splay, end must be larger than start")
    else:
        start, end = 1, max(_whole(splay), 1)
    if max(-start, end) > LONGEST_INTERVAL:
        raise ValueError("a delay of more than a hundred years")
    return start, end


def step(
    entry: ScheduleEntry, progress: Progress, now: datetime, dice: Dice, running: int = 0
) -> tuple[Progress, DueJob | None]:
    """
    Look at one job.

    @param running: how many of this entry's jobs are still running.
    @return: the new progress, and what to start, if anything.
    """
    first = progress.seen is None
    since = progress.seen if progress.seen is not None else now - GRACE
    if first:
        progress = _plan(entry, progress, since if entry.every is None else now, dice)
    progress = evolve(progress, seen=now, skip_reason="", skipped_time=None)
    if first and entry.run_on_start:
        if entry.enabled:
            return _start(entry, progress, now, dice, running, entry.function, 0.0)
        return _skip(entry, progress, now, dice, "disabled"), None
    extra = [when for when in entry.extra_times if since < when <= now]
    due = progress.due
    if not extra and (due is None or due > now):
        return progress, None
    when = extra[0] if extra else due
    late = 0.0 if when is None else (now - when).total_seconds()
    if not entry.enabled:
        return _skip(entry, progress, now, dice, "disabled"), None
    if entry.every is None and entry.latest is not None and late > entry.latest:
        return _skip(entry, progress, now, dice, MISSED), None
    reason, stays = _obstacle(entry, now, since)
    slot = extra[0] if extra else progress.next_fire
    ago = None if slot is None else (now - slot).total_seconds()
    if reason == "":
        return _start(entry, progress, now, dice, running, entry.function, late, ago)
    if entry.skip_function is not None and reason in REPLACED:
        return _start(entry, progress, now, dice, running, entry.skip_function, late, ago)
    if stays and entry.every is not None:
        return evolve(progress, skip_reason=reason, skipped_time=now), None
    return _skip(entry, progress, now, dice, reason), None


def _obstacle(entry: ScheduleEntry, now: datetime, since: datetime) -> tuple[str, bool]:
    """
    Why a job that is due does not run; empty when nothing is in its way.

    The second value says whether a periodic job stays due, to run as soon as its range begins.
    """
    if entry.range is not None:
        start, end = entry.range.edges(now)
        if entry.range.invert and start < now < end:
            return "in_skip_range", True
        if not entry.range.invert and not start <= now <= end:
            return "not_in_range", True
    if entry.skip_during_range is not None:
        start, end = entry.skip_during_range.edges(now)
        if start <= now <= end:
            return "in_skip_range", False
    if any(since < when <= now or when <= now <= when + GRACE for when in entry.skip_times):
        return "skip_explicit", False
    if entry.until is not None and entry.until.on(now) <= now:
        return "until_passed", False
    if entry.after is not None and entry.after.on(now) >= now:
        return "after_not_passed", False
    return "", False


def _start(
    entry: ScheduleEntry,
    progress: Progress,
    now: datetime,
    dice: Dice,
    running: int,
    function: str,
    late: float,
    ago: float | None = None,
) -> tuple[Progress, DueJob | None]:
    if entry.jid_include and running >= entry.maxrunning:
        return _skip(entry, progress, now, dice, "maxrunning"), None
    planned = _plan(entry, evolve(progress, last_run=now), now, dice)
    if entry.dry_run:
        return planned, None
    return planned, DueJob(entry=entry, function=function, late=late, due=ago)


def _skip(
    entry: ScheduleEntry, progress: Progress, now: datetime, dice: Dice, reason: str
) -> Progress:
    planned = _plan(entry, progress, now, dice)
    return evolve(planned, skip_reason=reason, skipped_time=now)


def _plan(entry: ScheduleEntry, progress: Progress, after: datetime, dice: Dice) -> Progress:
    """When it is due next."""
    if entry.every is not None:
        next_fire: datetime | None = after + timedelta(seconds=entry.every)
    else:
        next_fire = first_after(entry.triggers, after)
    splay_at = None
    if entry.splay is not None and next_fire is not None:
        splay_at = next_fire + timedelta(seconds=dice(*entry.splay))
    return evolve(progress, next_fire=next_fire, splay_at=splay_at)


def awaited(entry: ScheduleEntry, now: datetime, dice: Dice) -> Progress:
    """
    The progress of an entry that somebody else runs, and that is ours when that one has died. An
    interval that never ran has none: it runs when it is ours.
    """
    if entry.every is not None:
        return Progress()
    return _plan(entry, Progress(seen=now), now, dice)


def restored(
    entry: ScheduleEntry, ran: datetime | None, known: datetime, now: datetime, dice: Dice
) -> Progress:
    """
    The progress of an entry that somebody knew before: of an earlier life, or of another node.

    @param ran: when it ran last, if it did.
    @param known: since when it is known, or when it ran last.
    """
    window = timedelta(seconds=entry.latest) if entry.latest is not None else GRACE
    progress = Progress(seen=max(known, now - window), last_run=ran)
    return _plan(entry, progress, known, dice)


REPEATED = timedelta(hours=3)
"""A clock that goes back by no more begins an hour again, as at the end of summer time."""


def shifted(entry: ScheduleEntry, progress: Progress, jump: timedelta, now: datetime) -> Progress:
    """
    The progress after the time of day was set by C{jump}, or summer time began or ended.

    An interval keeps its length. A time of day that was skipped is due at once, and one that comes
    a second time is not due again; but an hourly time keeps to the hours that exist. A clock that
    was set by more than L{REPEATED} was wrong before: set back, all times are new; set ahead, the
    times that it has passed were missed.
    """
    if entry.every is not None:
        splay_at, next_fire = progress.splay_at, progress.next_fire
        return evolve(
            progress,
            seen=None if progress.seen is None else progress.seen + jump,
            next_fire=None if next_fire is None else next_fire + jump,
            splay_at=None if splay_at is None else splay_at + jump,
        )
    hourly = any(isinstance(each, Cron) and len(each.hours) == 24 for each in entry.triggers)
    if abs(jump) <= REPEATED and not hourly:
        due = progress.due
        if due is not None and now - jump < due <= now:
            return evolve(progress, next_fire=now, splay_at=None)
        return progress
    if jump > REPEATED:
        return progress  # what was missed is judged as after any other time away
    return evolve(progress, seen=now, next_fire=first_after(entry.triggers, now), splay_at=None)


def wake(entry: ScheduleEntry, progress: Progress, now: datetime) -> datetime | None:
    """
    When this entry must be checked again; C{None} for never.

    A job that waits for its range to begin is checked then, not all the time.
    """
    due = progress.due
    if due is not None and due <= now and entry.range is not None:
        start, end = entry.range.edges(now)
        if entry.range.invert:
            due = end if start < now < end else due
        elif start > now:
            due = start
        elif end < now:
            due = now + timedelta(seconds=60)  # it may read otherwise tomorrow
    times = [when for when in entry.extra_times if when > now]
    if due is not None:
        times.append(max(due, now))
    return min(times, default=None)


def shown(progress: Progress, entry: ScheduleEntry | None = None) -> dict[str, Any]:
    """The hidden keys that Salt adds to a job when it shows it; times as text."""
    values: dict[str, Any] = {
        "_next_fire_time": progress.next_fire,
        "_splay": progress.splay_at,
        "_last_run": progress.last_run,
        "_skipped_time": progress.skipped_time,
        "_skip_reason": progress.skip_reason or None,
        "_skipped": True if progress.skip_reason else None,
        "_seconds": entry.every if entry is not None else None,
    }
    always = ("_next_fire_time", "_splay")
    return {
        key: value.strftime(TIME_FORMAT) if isinstance(value, datetime) else value
        for key, value in values.items()
        if value is not None or key in always
    }


def without_hidden(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule as it is saved: without keys that begin with an underscore."""
    return {
        name: {key: value for key, value in data.items() if not str(key).startswith("_")}
        if isinstance(data, Mapping)
        else data
        for name, data in schedule.items()
    }


def stamped(
    metadata: Mapping[str, Any], now: datetime, utc: datetime, offset: str
) -> dict[str, Any]:
    """A job's metadata with the three times that Salt adds to it."""
    return {
        **metadata,
        "_TOS": offset,
        "_TS": now.strftime("%a %b %e %H:%M:%S %Y"),
        "_TT": utc.strftime("%Y %B %d %a %H %m"),
    }


def saved(schedule: Mapping[str, Any]) -> str:
    """A schedule as the text of C{_schedule.conf}, in the shape which both we and Salt read."""
    import yaml

    return str(
        yaml.safe_dump(
            {"schedule": without_hidden(schedule)}, default_flow_style=False, allow_unicode=True
        )
    )
