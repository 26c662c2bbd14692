"""
An act is reported as done when what it added is on this node's disk; else what is true is said.

What was added is in force here from the first moment on, goes to nobody before it is on the disk,
and is lost if the process ends before. The disk is tried again until it takes it. So an act whose
writing lasts is neither done nor undone: that is said, by an error, and the act goes on by itself.
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
    Do something that adds to the fact log; its answer, unless the disk gives none.

    @param problem: why the disk does not take what is appended, or C{""}.
    @raises StoreError: nothing was begun, or it is not known what becomes of it.
    """
    refuse(problem())
    doing: Deferred[Any] = as_deferred(act())
    if await all_within(clock, FOR_EVER, [doing], problem):
        return await doing
    let_go(doing, log, "an operator's request failed after the disk had stopped answering")
    raise unknown(problem())
