"""Room that is kept for a start on a full disk."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master import reserve
from saltwisted.master.reserve import NAME, PERIOD, PLENTY, SIZE, Reserve


class ReserveTests(SynchronousTestCase):
    """On a disk that has as much room as the test says."""

    def setUp(self) -> None:
        """A directory on a disk with room."""
        self.folder = tempfile.mkdtemp(prefix="reserve")
        self.addCleanup(os.rmdir, self.folder)
        self.path = f"{self.folder}/{NAME}"
        self.addCleanup(lambda: os.path.exists(self.path) and os.unlink(self.path))
        self.room = PLENTY
        self.clock = Clock()
        self.patch(reserve.os, "posix_fallocate", self.allocate)
        self.patch(reserve.os, "statvfs", self.statvfs)

    def allocate(self, fd: int, start: int, size: int) -> None:
        """As the system does it."""
        if size - os.fstat(fd).st_size > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.ftruncate(fd, size)

    def statvfs(self, path: str) -> Any:
        """As the system does it."""
        return os.statvfs_result((1, 1, 0, 0, self.room, 0, 0, 0, 0, 255))

    def make(self) -> Reserve:
        """One that is opened and started."""
        made = Reserve(self.clock, [self.folder, self.folder], maybeDeferred)
        made.open()
        made.startService()
        return made

    def stop(self, made: Reserve) -> None:
        """Stop it."""
        self.successResultOf(Deferred.fromCoroutine(made.stopService()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_kept(self) -> None:
        """Where there is room, some of it is kept, and nothing is said."""
        made = self.make()

        self.assertEqual(os.stat(self.path).st_size, SIZE)
        self.assertEqual(os.listdir(self.folder), [NAME])
        self.assertEqual(made.problem, "")
        self.stop(made)

    def test_given_up(self) -> None:
        """On a full disk the reserve is given up first, which is said until it is back."""
        self.stop(self.make())
        self.room = 0

        made = self.make()

        self.assertEqual(os.listdir(self.folder), [])
        self.assertIn(self.folder, made.problem)
        self.clock.advance(PERIOD)
        self.assertIn("is full", made.problem)
        self.room = PLENTY
        self.clock.advance(PERIOD)
        self.assertEqual(made.problem, "")
        self.assertEqual(os.stat(self.path).st_size, SIZE)
        self.stop(made)

    def test_rest(self) -> None:
        """At the stop what there is goes back, so that the next start has as much as this one."""
        self.room = 0
        made = self.make()
        self.room = SIZE // 4

        self.stop(made)

        self.assertEqual(os.stat(self.path).st_size, SIZE // 4)

    def test_does_not_fill_the_disk(self) -> None:
        """Nothing is kept on a disk that has not much room itself."""
        self.room = PLENTY - 1

        made = self.make()

        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(made.problem, "")
        made._loop.stop()
