"""
The reactor's clock does not follow the time of day.
"""

from __future__ import annotations

import os
import time
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.selectreactor import SelectReactor
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.uptime import LookFirst, run_by_uptime


class UptimeTests(SynchronousTestCase):
    """A reactor of our own, which is never run."""

    def setUp(self) -> None:
        """Nothing is due."""
        self.reactor = SelectReactor()
        self.addCleanup(self.close)

    def close(self) -> None:
        """Close what wakes it."""
        for reader in self.reactor.removeAll():
            reader.connectionLost(None)

    def test_time_of_day_is_set(self) -> None:
        """A timer is due when its time has passed, whatever the time of day is by then."""
        run_by_uptime(self.reactor)
        fired: list[str] = []
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        call = self.reactor.callLater(5, fired.append, "late")
        self.reactor.callLater(0, fired.append, "now")
        after = time.clock_gettime(time.CLOCK_BOOTTIME)

        self.assertTrue(before + 5 <= call.getTime() <= after + 5)
        for jump in (86_400, -86_400):
            self.patch(time, "time", lambda jump=jump: before + jump)
            self.reactor.runUntilCurrent()
        self.assertEqual(fired, ["now"])
        call.cancel()

    def test_too_late(self) -> None:
        """Timers that are there already would be due in decades: the clock then stays."""
        call = self.reactor.callLater(5, lambda: None)
        run_by_uptime(self.reactor)

        self.assertTrue(abs(call.getTime() - self.reactor.seconds()) < 60)
        call.cancel()


class Reader:
    """Something that can be read."""

    def __init__(self, fd: int, story: list[str]) -> None:
        self.fd, self.story = fd, story

    def fileno(self) -> int:
        return self.fd

    def doRead(self) -> None:
        os.read(self.fd, 100)
        self.story.append("read")

    def connectionLost(self, reason: Any) -> None:
        os.close(self.fd)

    def logPrefix(self) -> str:
        return "reader"


class LookFirstTests(SynchronousTestCase):
    """A reactor of our own, which takes single steps, on a clock that stands still."""

    def setUp(self) -> None:
        """Two bytes wait in a pipe."""
        self.reactor: Any = EPollReactor()
        self.addCleanup(self.close)
        self.now = 100.0
        self.reactor.seconds = lambda: self.now
        self.story: list[str] = []
        out, self.into = os.pipe()
        self.addCleanup(os.close, self.into)
        self.reactor.addReader(Reader(out, self.story))
        self.look = LookFirst(self.reactor, lambda: self.story.append("looked"))
        self.look.startService()

    def close(self) -> None:
        """Close what is open."""
        for reader in self.reactor.removeAll():
            reader.connectionLost(None)
        self.reactor._poller.close()

    def step(self, passed: float) -> None:
        """Something comes, and time passes before the reactor's wait is over."""
        os.write(self.into, b"x")
        self.now += passed
        self.reactor.doIteration(1)

    def test_before_a_byte_is_read(self) -> None:
        """After a pause of the process it looks, and reads what has come meanwhile then."""
        self.step(0.1)
        self.step(30.0)

        self.assertEqual(self.story, ["read", "looked", "read"])

    def test_as_it_was(self) -> None:
        """When it ends, the reactor waits as it did."""
        self.look.stopService()
        self.step(30.0)

        self.assertEqual(self.story, ["read"])

    def test_other_reactor(self) -> None:
        """A reactor that waits in another way is left as it is."""
        other = SelectReactor()
        look = LookFirst(other, lambda: None)

        look.startService()
        look.stopService()
        for reader in other.removeAll():
            reader.connectionLost(None)

        self.assertFalse(hasattr(other, "_poller"))
