"""
Repetition of a call (C{retry}), and what its result says about time and about a crash.

The texts are those of C{salt/state.py}.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_RETRY: dict[str, Any] = {"until": True, "attempts": 2, "splay": 0, "interval": 30}
_RETRY_TYPES = {"until": bool, "attempts": int, "interval": int, "splay": int}


def retry_settings(given: Any) -> dict[str, Any]:
    """C{retry} in full: C{until attempts interval splay}, with defaults for what is wrong."""
    if isinstance(given, Mapping):
        return {
            key: given[key] if isinstance(given.get(key), kind) else _RETRY[key]
            for key, kind in _RETRY_TYPES.items()
        }
    if given is False:
        return {**_RETRY, "attempts": 0}
    return dict(_RETRY)


def interval(retry: Mapping[str, Any]) -> int:
    """Seconds until the next attempt."""
    splay = random.randint(0, retry["splay"]) if retry["splay"] else 0  # noqa: S311 - no secret
    return int(retry["interval"]) + splay


def attempt(number: int, result: Mapping[str, Any]) -> str:
    """What is said of an attempt that was not the last."""
    return (
        f'Attempt {number}: Returned a result of "{result["result"]}", '
        f'with the following comment: "{result["comment"]}"'
    )


def would_retry(result: Mapping[str, Any], retry: Mapping[str, Any]) -> str:
    """What is said under C{test}. The state's own comment is foreign text, and may hold braces."""
    return (
        f"{result['comment'] or ''}  The state would be retried every {retry['interval']} seconds "
        f"(with a splay of up to {retry['splay']} seconds) a maximum of {retry['attempts']} times "
        f"or until a result of {retry['until']} is returned"
    )


def span(began: datetime) -> tuple[str, float]:
    """Local time of day when something began, and the milliseconds since."""
    passed = datetime.now(tz=UTC) - began
    milliseconds = (passed.seconds * 1000000 + passed.microseconds) / 1000.0
    return began.astimezone().time().isoformat(), milliseconds


def instant() -> tuple[str, float]:
    """The same for what takes no time."""
    return span(datetime.now(tz=UTC))


def crashed() -> str:
    """The exception that is handled, in Salt's words: nothing there is raised C{from} another."""
    return traceback.format_exc().replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    )
