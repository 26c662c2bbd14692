"""
Job ids: twenty digits of UTC time, and sometimes C{_} and the number of a process.

The form is Salt's own (C{%Y%m%d%H%M%S} and six digits of microseconds). A jid becomes part of tags
and, in stock tools, of paths. L{is_jid} is therefore the only check that text from outside has to
pass. This module does not know where jids are stored.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from attrs import define

REQUEST = "req"
"""What a minion sends as jid when the master shall choose one (every C{salt-call})."""

SLOTS = 100
"""How many nodes of a cluster can give out jids at the same time."""

_JID = re.compile(r"[0-9]{20}(?:_[0-9]{1,19})?", re.ASCII)
LONGEST = 40
"""Characters of a jid."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def is_jid(value: object) -> bool:
    """Whether C{value} is text in the form of a job id (the time in it is not checked)."""
    return isinstance(value, str) and _JID.fullmatch(value) is not None


def jid_at(now: float, suffix: str = "") -> str:
    """The job id of a moment: C{now} in seconds since 1970, UTC; C{suffix} follows after C{_}."""
    moment = _EPOCH + timedelta(microseconds=round(now * 1_000_000))
    text = moment.strftime("%Y%m%d%H%M%S%f").rjust(20, "0")
    return f"{text}_{suffix}" if suffix else text


def jid_seconds(jid: str) -> float | None:
    """Seconds since 1970 of a job id, or C{None} if it names no existing moment."""
    if not is_jid(jid):
        return None
    try:
        moment = datetime.strptime(jid[:20], "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp()


def jid_to_time(jid: object) -> str:
    """The start time as C{jobs.*} prints it (C{2026, Jul 01 12:00:00.000000}); C{""} if none."""
    return _printed(jid) if isinstance(jid, str) else ""


@lru_cache(2048)
def _printed(jid: str) -> str:
    """Lists of jobs, which are asked for again and again, have mostly the same ones."""
    if len(jid) > LONGEST or not is_jid(jid) or not 1 <= int(jid[4:6]) <= 12:
        return ""
    month = _MONTHS[int(jid[4:6]) - 1]
    return f"{jid[:4]}, {month} {jid[6:8]} {jid[8:10]}:{jid[10:12]}:{jid[12:14]}.{jid[14:20]}"


def jid_mark(jid: str) -> int:
    """The moment of a jid in microseconds since 1970, exactly; 0 if it names none."""
    if not is_jid(jid):
        return 0
    try:
        moment = datetime.strptime(jid[:20], "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return (moment - _EPOCH) // timedelta(microseconds=1)


@define
class JidMaker:
    """
    Makes job ids that grow strictly, even when the clock stands still or goes back.

    Stock Salt promises that only with C{unique_jid}. A jid that was assigned twice would let two
    jobs share their returns, so here it always holds. The process number is appended only with
    C{unique_jid}, as in Salt. In a cluster the last two digits are the node's slot, so that no two
    nodes ever assign the same.

    @ivar suffix: the process number for C{unique_jid}, or C{""}.
    @ivar slot: 0 to 99, or C{None} for a master without peers.
    """

    suffix: str = ""
    slot: int | None = None
    _last: int = 0

    @property
    def mark(self) -> int:
        """The moment of the last jid, in microseconds; to be kept over a restart."""
        return self._last

    def resume(self, mark: int) -> None:
        """Never give out a jid at or before this moment (microseconds since 1970) again."""
        self._last = max(self._last, mark)

    def take_slot(self, slot: int) -> None:
        """The node's slot from now on; below 0 it has none."""
        self.slot = slot if slot >= 0 else None

    def make(self, now: float) -> str:
        """A new jid, at or just after C{now} (seconds since 1970)."""
        micro = max(round(now * 1_000_000), self._last + 1)
        if self.slot is not None:
            micro += (self.slot - micro) % SLOTS
        self._last = micro
        moment = _EPOCH + timedelta(microseconds=micro)
        text = moment.strftime("%Y%m%d%H%M%S%f")
        return f"{text}_{self.suffix}" if self.suffix else text
