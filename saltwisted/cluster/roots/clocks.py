"""
The clocks of the peers, as far as they have reported them: whether this node's own clock is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.causality.clock import skewed


class PeerClocks:
    """
    By how much each peer's clock is ahead of this node's.

    @param event: reports it on the bus.
    @ivar problem: what is wrong with this node's clock; empty if nothing is.
    """

    log = Logger()

    def __init__(
        self, now: Callable[[], float], event: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self.problem = ""
        self._now = now
        self._event = event
        self._ahead: dict[str, float] = {}

    def said(self, node: str, clock_ms: int, linked: Container[str]) -> None:
        """A peer has reported its clock; 0 if it has reported nothing since."""
        if clock_ms:
            self._ahead[node] = clock_ms / 1000 - self._now()
        self._judge(linked)

    def compared(self, ahead: Mapping[str, float], linked: Container[str]) -> None:
        """
        The clocks of the linked nodes were compared again. The time in the greeting is outdated,
        and a clock that was set since then may be right now, or wrong.

        @param ahead: seconds by which each is ahead of this node's.
        """
        self._ahead = dict(ahead)
        self._judge(linked)

    def _judge(self, linked: Container[str]) -> None:
        live = [ahead for node, ahead in self._ahead.items() if node in linked]
        problem = ""
        if skewed(0, live):
            problem = "clock: this node's clock is over ten minutes off its peers'"
        if problem != self.problem:
            self.problem = problem
            if problem:
                self.log.error("roots: {problem}; its changes wait", problem=problem)
                self._event("suspended", {"reason": problem})
