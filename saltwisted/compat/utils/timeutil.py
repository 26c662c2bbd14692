"""C{salt.utils.timeutil}: times of day, and lengths of time in words."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

_FORMS = ("%H%M", "%Hh%M", "%I%p", "%I:%M%p", "%I:%M %p")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def utcnow() -> datetime:
    """The time in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def utcfromtimestamp(timestamp: float) -> datetime:
    """A time in UTC, without a zone."""
    return datetime.fromtimestamp(timestamp, UTC).replace(tzinfo=None)


def get_timestamp_at(time_in: Any = None, time_at: Any = None) -> Any:
    """
    When something is that comes in C{time_in} (minutes, or C{1h30m}) or at C{time_at}.

    @raises ValueError: C{time_at} has another form than C{1830}, C{18h30}, C{1pm} or C{1:20am}.
    """
    if time_in:
        if isinstance(time_in, int):
            hours, minutes = 0, time_in
        else:
            parts = str(time_in).replace("h", ":").replace("m", "").split(":")
            words = parts if len(parts) == 2 else ["0", *parts]
            hours, minutes = int(words[0]), int(words[1] or 0)
        # As in Salt, which takes the time in UTC for the local one
        then = utcnow() + timedelta(hours=hours, minutes=minutes)
        return time.mktime(then.timetuple())
    if not time_at or isinstance(time_at, (int, float)):
        return time_at or None
    for form in _FORMS:
        try:
            return time.mktime(datetime.strptime(time_at, form).timetuple())  # noqa: DTZ007
        except ValueError:
            continue
    raise ValueError(f"{time_at} does not match any of the accepted formats: {', '.join(_FORMS)}")


def get_time_at(
    time_in: Any = None, time_at: Any = None, out_fmt: str = "%Y-%m-%dT%H:%M:%S"
) -> str:
    """The same, as a text in local time."""
    return time.strftime(out_fmt, time.localtime(get_timestamp_at(time_in, time_at)))


def timestring_map(val: Any) -> float | None:
    """
    Seconds of a text such as C{90s}, C{60m}, C{1.5h} or C{7d}, or of a number.

    @raises ValueError: it is none.
    """
    if val is None:
        return None
    try:
        return float(val)
    except ValueError:
        pass
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", val)
    if found is None:
        raise ValueError(f"Invalid time string format: {val}")
    return float(found[1]) * _SECONDS[found[2]]
