"""
Who is informed about the entries of the job cache, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.logger import Logger

from saltwisted.domain.replica.entry import Entry
from saltwisted.stores.jobs.merging import Merge
from saltwisted.stores.jobs.streams import JobStreams

Receiver = Callable[[Sequence[Entry], str], None]


class Timer(Protocol):
    """The reactor's time."""

    def clock(self) -> float:
        """What it is."""

    def later(self, delay: float, function: Callable[[], None]) -> Any:
        """Call something a moment later."""


class Announcements:
    """
    Reports what is on disk: own entries at once to receivers on this node, and in batches to those
    who ship them.

    @ivar collecting: seconds for which own entries are collected under load, so that they share the
        cost of a message to each node; the first one after a pause is sent at once.
    """

    log = Logger()

    def __init__(self, timer: Timer, streams: JobStreams, collecting: float) -> None:
        self.collecting = collecting
        self._timer = timer
        self._streams = streams
        self._receivers: list[Receiver] = []
        self._stored: list[Receiver] = []
        self._new: list[Callable[[Sequence[Entry]], None]] = []
        self._confirmations: list[Callable[[int], None]] = []
        self._collected: list[Entry] = []
        self._told_at = -1e9
        self._later: Any = None

    def on_entries(self, receiver: Receiver) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; own have source C{""}."""
        self._receivers.append(receiver)

    def on_stored(self, receiver: Receiver) -> None:
        """As L{on_entries}, for own entries alone, and never later than their Deferreds fire."""
        self._stored.append(receiver)

    def on_new(self, receiver: Callable[[Sequence[Entry]], None]) -> None:
        """Call C{receiver(entries)} with entries of other nodes that this node did not have."""
        self._new.append(receiver)

    def on_confirmed(self, receiver: Callable[[int], None]) -> None:
        """Call C{receiver(number)} when another node has more of our stream on its disk."""
        self._confirmations.append(receiver)

    @property
    def watched(self) -> bool:
        """Whether anybody wants to know of entries."""
        return bool(self._receivers or self._stored)

    @property
    def stored_number(self) -> int:
        """The number of our newest entry on disk, announced or not."""
        if self._collected and self._collected[-1].stream == self._streams.stream:
            return self._collected[-1].number
        return self._streams.last

    @property
    def confirmed_number(self) -> int:
        """Up to which number some other node has them."""
        return self._streams.confirmed

    def appended(self, entries: Sequence[Entry]) -> None:
        """Own entries are on disk: those who ship them hear of it at once, or a moment later."""
        for receiver in self._stored:
            self._call(receiver, entries, "")
        self._collected += entries
        now = self._timer.clock()
        if self._later is None and now - self._told_at >= self.collecting:
            self._announce()
        elif self._later is None:
            self._later = self._timer.later(self.collecting, self._announce)

    def _announce(self) -> None:
        self._later = None
        entries, self._collected = self._collected, []
        if entries and entries[-1].stream == self._streams.stream:
            self._told_at = self._timer.clock()
            # Only now it is known to others: else they would be read from the disk for them
            self._streams.advance(entries[-1].number)
            for receiver in self._receivers:
                self._call(receiver, entries, "")

    def merged(self, merge: Merge, changed: Sequence[bool]) -> None:
        """Entries of others are on disk."""
        new = [entry for entry, fresh in zip(merge.entries, changed, strict=True) if fresh]
        if new:
            for tell in self._new:
                self._call(tell, new)
        for receiver in self._receivers:
            self._call(receiver, merge.entries, merge.source)

    def confirmed(self, number: int) -> None:
        """Another node has our stream up to here."""
        for receiver in self._confirmations:
            self._call(receiver, number)

    def forget(self) -> None:
        """What was collected is in a file that was opened."""
        self._collected = []

    def stop(self) -> None:
        """The store closes: collected entries are on disk, and are sent after the next start."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._collected = []

    def _call(self, receiver: Callable[..., None], *args: Any) -> None:
        try:
            receiver(*args)
        except Exception:
            self.log.failure("a receiver of job entries failed")
