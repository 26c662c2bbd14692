"""
Words of a peer, and the bodies that arrive on the other connection, put in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from saltwisted.cluster.links.commands import MAX_WAITING, NO_BULK

MAX_EXPECTED = 10_000
"""Words of a peer whose bodies are still on their way."""
ARRIVAL = 512
"""Bytes that a word that waits costs beside its body, roughly."""


class Arrival:
    """A word from the peer, whose body may still be on its way."""

    __slots__ = ("body", "deliver", "number")

    def __init__(self, number: int, body: bytes | None, deliver: Callable[[bytes], None]) -> None:
        self.number = number
        self.body = body
        self.deliver = deliver


class Arrivals:
    """
    Words of one name stay in order; the queue is bounded.

    @param close: ends the link, with the reason.
    @ivar expected: the number of a missing body, to its word and what waits for it.
    @ivar held_bytes: the size of words that wait for an earlier one.
    """

    def __init__(self, close: Callable[[str], None]) -> None:
        self.expected: dict[int, tuple[str, Arrival]] = {}
        self.held_bytes = 0
        self._close = close
        self._queues: dict[str, deque[Arrival]] = {}
        self._early: dict[int, bytes] = {}
        self._early_bytes = 0

    def clear(self) -> None:
        """The link has ended."""
        self._queues.clear()
        self.expected.clear()
        self._early.clear()

    def word(self, word: str, bulk: int, body: bytes, deliver: Callable[[bytes], None]) -> None:
        """Words of one name stay in order, also where a body comes by the other connection."""
        queue = self._queues.get(word)
        if bulk == NO_BULK:
            if not queue:
                deliver(body)
                return
            queue.append(Arrival(NO_BULK, body, deliver))
            self._hold(body)
            return
        whole = self._take_early(bulk)
        if whole is not None and not queue:
            deliver(whole)
            return
        arrival = Arrival(bulk, whole, deliver)
        self._queues.setdefault(word, deque()).append(arrival)
        if whole is not None:
            self._hold(whole)
        else:
            self.expected[bulk] = (word, arrival)
            if len(self.expected) > MAX_EXPECTED:
                self._close("words without bodies")

    def _hold(self, body: bytes) -> None:
        """It waits for an earlier word whose body a malicious peer never sends."""
        self.held_bytes += len(body) + ARRIVAL
        if self.held_bytes > MAX_WAITING:
            self._close("words wait for one without a body")

    def _take_early(self, number: int) -> bytes | None:
        whole = self._early.pop(number, None)
        if whole is not None:
            self._early_bytes -= len(whole)
        return whole

    def body(self, number: int, body: bytes) -> None:
        """A body came on the bulk connection; its word came before, or comes soon."""
        word, arrival = self.expected.pop(number, ("", None))
        if arrival is None:
            self._early[number] = body
            self._early_bytes += len(body)
            if self._early_bytes > MAX_WAITING:
                self._close("bodies without words")
            return
        arrival.body = body
        self._hold(body)
        queue = self._queues.get(word)
        while queue and queue[0].body is not None:
            first = queue.popleft()
            self.held_bytes -= len(first.body or b"") + ARRIVAL
            first.deliver(first.body or b"")
        if queue is not None and not queue:
            self._queues.pop(word, None)
