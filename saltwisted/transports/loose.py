"""
Deferreds that nobody waits for: their failure is logged, never lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure


def let_go(
    waiting: Deferred[Any] | Coroutine[Any, Any, Any], log: Logger, words: str, **fields: Any
) -> None:
    """
    Want nothing back from C{waiting}; a failure is logged with these words.

    @param words: the log format, with C{fields} in it.
    """
    d = waiting if isinstance(waiting, Deferred) else Deferred.fromCoroutine(waiting)

    def failed(failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure(words, failure=failure, **fields)

    d.addErrback(failed)  # type: ignore[unused-awaitable]


async def wait_for(waiting: Awaitable[Any]) -> Any:
    """A coroutine that waits for anything that can be awaited."""
    return await waiting


def as_deferred(waiting: Any) -> Deferred[Any]:
    """A Deferred for a Deferred, a coroutine or any other awaitable."""
    if isinstance(waiting, Deferred):
        return waiting
    return Deferred.fromCoroutine(wait_for(waiting))
