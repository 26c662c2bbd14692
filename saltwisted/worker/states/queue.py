"""
One state run at a time: which runs are before this one, and waiting for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

LOOK = 0.2
"""Seconds between looks at the runs before ours."""


def before(jid: Any, active: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs that began earlier; all of them if ours has no id."""
    if jid is None:
        return list(active)
    return [job for job in active if job.get("jid") is not None and str(job["jid"]) < str(jid)]


def wait(
    opts: Mapping[str, Any],
    jid: Any,
    limit: int,
    is_running: Callable[[str], list[dict[str, Any]]],
) -> bool:
    """
    Wait until no earlier state run is left.

    @param limit: give up at once if so many are before us; 0: never.
    @return: false if it gave up.
    """
    waiting = before(jid, is_running("state.*"))
    if limit and len(waiting) >= limit:
        return False
    while waiting:
        time.sleep(LOOK)
        waiting = before(jid, is_running("state.*"))
    return True


def started(jid: Any) -> str:
    """When a job began, as Salt writes it: C{2024, Jan 31 12:00:00.000000}."""
    text = str(jid)
    if len(text) != 20 and (len(text) <= 21 or text[20] != "_"):
        return ""
    try:
        moment = datetime.strptime(text[:20], "%Y%m%d%H%M%S%f")  # noqa: DTZ007 - only printed again
    except ValueError:
        return ""
    return moment.strftime("%Y, %b %d %H:%M:%S.%f")
