"""Dates, with the names of C{salt.utils.dateutils}."""

from __future__ import annotations

import datetime
from typing import Any

from saltwisted.utils._own import own
from saltwisted.worker import renderfilters

date_cast = own(__name__, renderfilters.as_datetime)


def strftime(date: Any = None, format: str = "%Y-%m-%d") -> str:
    """A date, or now, in a format of C{strftime}."""
    return str(date_cast(date).strftime(format))


def total_seconds(td: datetime.timedelta) -> float:
    """The seconds of a time difference."""
    return (td.microseconds + (td.seconds + td.days * 24 * 3600) * 1_000_000) / 1_000_000
