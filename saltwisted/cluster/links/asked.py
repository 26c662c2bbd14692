"""
Requests to a peer that have no answer yet.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.errors import RequestTimeout, TransportClosed


class Asked:
    """
    Each fires once: with its answer, or with the reason why there is none.

    @param node: the node that was asked.
    """

    def __init__(self, clock: Any, node: str) -> None:
        self._clock = clock
        self._node = node
        self._number = 0
        self._waiting: dict[int, Deferred[bytes]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._waiting

    def begin(self, word: str, timeout: float) -> tuple[int, Deferred[bytes]]:
        """A new question: its number, and what fires with the answer."""
        self._number += 1
        number = self._number
        answer: Deferred[bytes] = Deferred(lambda d: self._forget(number))
        self._waiting[number] = answer
        timer = self._clock.callLater(timeout, self._late, number, word)

        def over(value: Any) -> Any:
            if timer.active():
                timer.cancel()
            return value

        return number, answer.addBoth(over)

    def answered(self, number: int, body: bytes) -> None:
        """The answer has arrived, possibly too late."""
        answer = self._waiting.pop(number, None)
        if answer is not None:
            answer.callback(body)

    def failed(self, number: int, error: Exception) -> None:
        """There is none."""
        answer = self._waiting.pop(number, None)
        if answer is not None:
            answer.errback(error)

    def _forget(self, number: int) -> None:
        self._waiting.pop(number, None)

    def _late(self, number: int, word: str) -> None:
        self.failed(number, RequestTimeout(f"{self._node} did not answer {word}"))

    def lost(self, reason: str) -> None:
        """The link has ended."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.errback(TransportClosed(f"the link to {self._node} was lost: {reason}"))
