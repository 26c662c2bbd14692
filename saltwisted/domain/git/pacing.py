"""
When a remote is fetched again.
"""

from __future__ import annotations

NEVER = float("inf")
SLOWEST = 900.0
"""Seconds after which a remote that does not answer is asked again at the latest."""
SOONEST = 1.0


def pause(interval: float, failures: int, dice: float) -> float:
    """
    Seconds until a remote is asked again.

    Twice as long after each failure that follows another, and never all remotes at one moment.

    @param interval: as configured; with 0 only somebody's word has it asked.
    @param dice: from 0 to 1.
    """
    if interval <= 0 and not failures:
        return NEVER
    base = max(interval, SOONEST) if interval > 0 else 60.0
    doubled = min(base * 2.0 ** min(failures, 20), max(SLOWEST, base)) if failures else base
    return doubled * (0.95 + 0.1 * dice)
