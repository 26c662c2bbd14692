"""
A disk as stores see it: calls that a thread makes, which may be held up, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, execute

from saltwisted.errors import StoreError


class Disk:
    """
    Calls of the store; a thread that can be held up.

    @ivar held: calls that wait, if C{holding}.
    """

    def __init__(self) -> None:
        self.holding = self.full = False
        self.held: list[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Now, or at L{release}."""
        if self.full:
            return execute(self._refuse)
        if not self.holding:
            return execute(function, *args)
        self.held.append((Deferred(), function, args))
        return self.held[-1][0]

    def _refuse(self) -> None:
        raise StoreError("the disk is full", "events.sqlite")

    def release(self) -> None:
        """Let them through, and all after them."""
        self.holding = False
        held, self.held = self.held, []
        for d, function, args in held:
            execute(function, *args).chainDeferred(d)
