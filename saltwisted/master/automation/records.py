"""
The history of the entries of the master's schedule, stored so that another life or node can
continue.

The notes are in C{seams.schedule}. An entry that runs every few seconds would write all the time.
So its history is kept in memory, and noted every L{NOTED} seconds and at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.domain.masterschedule import IScheduleFacts, digest
from saltwisted.domain.schedule import GLOBALS
from saltwisted.domain.schedulebook import Book
from saltwisted.errors import StoreError
from saltwisted.master.automation.runs import claimed
from saltwisted.transports.deferreds import let_go, wait_for

NOTED = 10.0
"""Seconds between two notes of what an entry of a short interval has done."""


class Records:
    """The notes of one master. A note is valid as long as the times of its entry do not change."""

    log = Logger()

    def __init__(self, facts: IScheduleFacts, book: Book, now: Callable[[], float]) -> None:
        self._facts = facts
        self._book = book
        self._now = now
        self._latest: dict[str, Mapping[str, Any]] = {}
        self._noted: dict[str, float] = {}
        self._unnoted: set[str] = set()
        self._timings: dict[str, tuple[Any, Mapping[str, Any], str]] = {}

    def known(self, name: str) -> Mapping[str, Any]:
        """What is known of the runs of an entry; nothing if it means other times by now."""
        found = self._latest.get(name) or self._facts.items().get(f"ran/{name}", {})
        return found if found.get("timing") == self._timing(name) else {}

    def _timing(self, name: str) -> str:
        own = self._book.own
        data, settings = own.get(name), {each: own[each] for each in GLOBALS if each in own}
        before = self._timings.get(name)
        if before is None or before[:2] != (data, settings):
            # Asked for at each look: to make it takes much longer than to compare
            before = self._timings[name] = (data, settings, digest(data, settings))
        return before[2]

    def keep(self, name: str, more: Mapping[str, Any]) -> Awaitable[None]:
        """
        Note something about an entry.

        @return: fires when it is on disk, or fails with L{StoreError}; at once for notes that may
            wait.
        """
        body = {**self.known(name), **more, "timing": self._timing(name)}
        self._latest[name] = body
        entry, now = self._book.entries.get(name), self._now()
        if entry is not None and not claimed(entry) and now - self._noted.get(name, 0.0) < NOTED:
            self._unnoted.add(name)
            return succeed(None)
        self._noted[name] = now
        self._unnoted.discard(name)
        waiting = Deferred.fromCoroutine(wait_for(self._facts.put(f"ran/{name}", body)))
        return waiting.addErrback(self._failed, name)

    def _failed(self, failure: Any, name: str) -> None:
        failure.trap(StoreError)
        self.log.error(
            "the result of scheduled job {name} cannot be stored: {error}",
            name=name,
            error=failure.value,
        )
        raise failure.value

    def keep_all(self) -> None:
        """What waits is noted, before others go on from it."""
        names, self._unnoted = self._unnoted, set()
        self._noted.clear()
        for name in names:
            if name in self._book.entries:
                let_go(wait_for(self.keep(name, {})), self.log, "not noted")

    def forget(self, names: Iterable[str]) -> None:
        """Others know better."""
        for name in list(names):
            self._latest.pop(name, None)
            self._noted.pop(name, None)

    def forget_others(self) -> None:
        """Forget entries that no longer exist."""
        self.forget(self._latest.keys() - self._book.entries.keys())
        for name in self._timings.keys() - self._book.own.keys():
            del self._timings[name]
