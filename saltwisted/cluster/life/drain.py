"""
What a node hands over before it leaves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.task import deferLater

QUIET = 0.3
"""Seconds without anything new, after which what was under way has been written."""
STEP = 0.05
LOOK = 0.5
"""Seconds between two checks of which minions have yet to return."""


async def returned(
    clock: Any, missing: Callable[[], Awaitable[set[str]]], seconds: float
) -> list[str]:
    """
    Wait until minions have brought what they run: some stock ones bring it to this node alone.

    @param missing: who has yet to return.
    @param seconds: how long at most.
    @return: who has not.
    """
    end = clock.seconds() + seconds
    while (late := await missing()) and clock.seconds() < end:
        await deferLater(clock, LOOK)
    return sorted(late)


async def drained(
    clock: Any,
    stored: Callable[[], int],
    confirmed: Callable[[], int],
    linked: Callable[[], bool],
    seconds: float,
) -> int:
    """
    Wait until another node has on its disk whatever arose here.

    @param stored: the number of our newest entry on disk.
    @param confirmed: up to which number some other node has them.
    @param linked: whether there is anybody to wait for.
    @param seconds: how long at most.
    @return: how many entries no other node has.
    """
    end = clock.seconds() + seconds
    last, since = stored(), clock.seconds()
    while clock.seconds() < end and linked():
        now = stored()
        if now != last:
            last, since = now, clock.seconds()
        if clock.seconds() - since >= QUIET and confirmed() >= last:
            return 0
        await deferLater(clock, STEP)
    return max(stored() - confirmed(), 0)
