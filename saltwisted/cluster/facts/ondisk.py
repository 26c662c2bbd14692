"""
An act is reported as done when its entry is on this node's disk; otherwise the error says what is
true.

An entry is in force on this node at once. It is sent to nobody before it is on disk, and is lost if
the process ends before that. The node writes it again until the disk takes it. So an act whose
writing takes long is neither done nor undone: an error says so, and the act continues by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.errors import StoreError
from saltwisted.transports.deferreds import all_within, as_deferred, let_go

FOR_EVER = 1e9
log = Logger()


def refuse(problem: str) -> None:
    """
    Begin nothing that would not be written.

    @raises StoreError: the disk takes no writes.
    """
    if problem:
        raise StoreError(
            f"not done: {problem}. Nothing was changed; repair this node's disk, or use another "
            "member"
        )


def unknown(problem: str) -> StoreError:
    """What is true of an act that is in force here and not on the disk yet."""
    why = problem or "the disk has not answered"
    return StoreError(
        f"unknown: {why}. It holds on this node for now, and no other member has it; it is written "
        "as soon as the disk takes it, and lost if the process ends before that"
    )


async def done_or_unknown(
    clock: Any, problem: Callable[[], str], act: Callable[[], Awaitable[Any]]
) -> Any:
    """
    Do something that adds to the fact log; returns its answer, if the disk confirms it.

    @param problem: why the disk does not accept what is appended, or C{""}.
    @raises StoreError: nothing was begun, or the result is unknown.
    """
    refuse(problem())
    doing: Deferred[Any] = as_deferred(act())
    if await all_within(clock, FOR_EVER, [doing], problem):
        return await doing
    let_go(doing, log, "an operator's request failed after the disk had stopped answering")
    raise unknown(problem())
