"""
Waits until the linked peers have an entry of a log on disk.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.progress import PeerTable


@define(eq=False)
class _Waiter:
    """Somebody who waits until some peers have an entry on disk."""

    stream: Stream
    number: int
    nodes: set[str]
    done: Deferred[Sequence[str]]
    timer: IDelayedCall | None = None


class Confirming:
    """
    The waiting callers, each with a time limit.

    @param peers: what each has on disk.
    """

    def __init__(self, clock: Any, peers: PeerTable) -> None:
        self._clock = clock
        self._peers = peers
        self._waiters: list[_Waiter] = []

    def wait(
        self, stream: Stream, number: int, linked: Iterable[str], seconds: float
    ) -> Deferred[Sequence[str]]:
        """Fires with those of the linked nodes that have not confirmed it until then."""
        done: Deferred[Sequence[str]] = Deferred()
        has = self._peers.confirmed_by(stream, number)
        waiter = _Waiter(stream, number, set(linked) - set(has), done)
        if not waiter.nodes:
            done.callback(())
            return done
        waiter.timer = self._clock.callLater(seconds, self._end, waiter)
        self._waiters.append(waiter)
        return done

    def look(self, linked: Container[str]) -> None:
        """Peers may have confirmed more, and links may have ended."""
        for waiter in list(self._waiters):
            waiter.nodes -= set(self._peers.confirmed_by(waiter.stream, waiter.number))
            if not any(node in linked for node in waiter.nodes):
                self._end(waiter)

    def end(self) -> None:
        """End all waiting."""
        for waiter in list(self._waiters):
            self._end(waiter)

    def _end(self, waiter: _Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            if waiter.timer is not None and waiter.timer.active():
                waiter.timer.cancel()
            waiter.done.callback(sorted(waiter.nodes))
