"""
Few new connections in one turn of the reactor.

Twisted's port accepts a hundred connections in one go, and twenty more each time that there were
as many: a thousand clients that come back at once are accepted in a tenth of a second in which
nobody else is served.
"""

from __future__ import annotations

from typing import Any

from saltwisted.turns import turns_of

AT_ONCE = 16
"""Connections that are accepted in one turn: some two milliseconds."""


class Few:
    """Keeps a port from accepting more; its factory tells of each connection."""

    def __init__(self, reactor: Any) -> None:
        self._turns = turns_of(reactor)
        self._port: Any = None
        self._waits = self._still = False

    def watch(self, port: Any) -> Any:
        """The same port, which listens already."""
        self._port = port
        port.numberAccepts = AT_ONCE
        return port

    def forget(self) -> None:
        """The port is about to close."""
        self._port = None

    def hold(self, still: bool) -> None:
        """
        Accept nobody for a while, or again: those who knock wait in the kernel.

        @param still: whether nobody is accepted.
        """
        if self._port is not None and still != self._still:
            self._still = still
            if still:
                self._port.stopReading()
            else:
                self._port.startReading()

    def accepted(self) -> None:
        """One more connection."""
        if not self._waits and self._port is not None:
            self._waits = True
            self._turns.later(self._again)

    def _again(self) -> None:
        self._waits = False
        if self._port is not None:
            # It may have been changed both ways
            self._port.numberAccepts = AT_ONCE
