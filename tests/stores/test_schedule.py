"""
The file of a lone master's schedule.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.stores.schedule import ScheduleFile


class ScheduleFileTests(SynchronousTestCase):
    """What holds, and what does not."""

    def setUp(self) -> None:
        self.path = os.path.join(self.mktemp(), "schedule")
        os.makedirs(os.path.dirname(self.path))
        self.waiting: list[tuple[Deferred[Any], Any, Any]] | None = None

    def run_at_once(self, function: Any, *args: Any) -> Deferred[Any]:
        """A thread that has no time of its own; or one that is waited for."""
        if self.waiting is None:
            return maybeDeferred(function, *args)
        d: Deferred[Any] = Deferred()
        self.waiting.append((d, function, args))
        return d

    def file(self) -> ScheduleFile:
        """The file as a new life finds it."""
        file = ScheduleFile(self.path, self.run_at_once)
        file.startService()
        return file

    def test_kept(self) -> None:
        """What was put is there in the next life, for its owner alone; what was dropped is not."""
        file = self.file()
        self.successResultOf(file.put("job/a", {"data": {"x": 1}}))
        self.successResultOf(file.put("job/b", {"data": None}))
        self.successResultOf(file.put("job/b", None))

        self.assertEqual(self.file().items(), {"job/a": {"data": {"x": 1}}})
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_together(self) -> None:
        """What is put while the disk works is written next, all at once."""
        file, self.waiting = self.file(), []
        done = [file.put(f"job/{n}", {"n": n}) for n in range(5)]
        self.assertEqual(len(self.waiting), 1)
        for _ in range(2):
            d, function, args = self.waiting.pop()
            d.callback(function(*args))

        self.assertEqual(self.waiting, [])
        for each in done:
            self.successResultOf(each)
        self.assertEqual(len(self.file().items()), 5)

    def test_refused(self) -> None:
        """What the disk refuses is said, and does not hold; what was there still does."""
        file = self.file()
        self.successResultOf(file.put("job/a", {"n": 1}))
        self.waiting = []
        done = [file.put("job/a", {"n": 2}), file.put("job/b", {"n": 3})]
        self.waiting.pop()[0].errback(OSError(28, "No space left on device"))

        for each in done:
            self.failureResultOf(each, StoreError)
        self.assertEqual(file.items(), {"job/a": {"n": 1}})
        self.waiting = None
        self.successResultOf(file.put("job/c", {"n": 4}))
        self.assertEqual(set(self.file().items()), {"job/a", "job/c"})

    def test_damaged(self) -> None:
        """A file that is none is said, and the master starts."""
        with open(self.path, "wb") as handle:
            handle.write(b"\xc1nonsense")

        self.assertEqual(self.file().items(), {})
