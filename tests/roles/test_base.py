"""
Parts that start in order and stop in reverse, and the log that they share.
"""

from __future__ import annotations

import io
import os
import pwd
import signal
import socket
import sys
import tempfile
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import ConfigError
from saltwisted.roles.base import OrderedService
from saltwisted.roles.logs import CONSOLE, SaltLog, Target, level_number
from saltwisted.roles.notify import notify
from saltwisted.roles.privileges import become
from saltwisted.tap import Options


class Part:
    """A part that tells what happens to it, and may take its time."""

    def __init__(self, name: str, log: list[str], slow: bool = False, bad: bool = False) -> None:
        self.name = name
        self.log = log
        self.waiting: Deferred[None] | None = Deferred() if slow else None
        self.bad = bad

    def startService(self) -> Any:
        """Start, at once or when the test says so."""
        self.log.append(f"+{self.name}")
        if self.bad:
            raise ConfigError("no")
        return self.waiting

    def stopService(self) -> Any:
        """Stop."""
        self.log.append(f"-{self.name}")


class Stuck(Part):
    """A part that never stops."""

    def stopService(self) -> Any:
        """Begin to stop, for ever."""
        super().stopService()
        return Deferred()


class OrderedServiceTests(SynchronousTestCase):
    """The order of things."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.log: list[str] = []
        self.failed: list[BaseException] = []
        self.up: list[bool] = []

    def service(self, *parts: Part) -> OrderedService:
        """The parts as one service."""
        return OrderedService(
            self.clock, parts, self.failed.append, started=lambda: self.up.append(True)
        )

    def test_debug_signals(self) -> None:
        """A daemon that gets SIGUSR1 or SIGUSR2 says where the answer is, and goes on."""
        folder = self.mktemp()
        os.mkdir(folder)
        self.patch(tempfile, "tempdir", folder)
        self.patch(sys, "stderr", io.StringIO())
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.clock.callFromThread = lambda call, *args: call(*args)  # type: ignore[attr-defined]
        service = self.service(Part("a", self.log))
        heard: list[Any] = []
        globalLogPublisher.addObserver(heard.append)
        self.addCleanup(globalLogPublisher.removeObserver, heard.append)
        service.startService()  # type: ignore[unused-awaitable]

        for number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)

        lines = [event["line"] for event in heard if "line" in event]
        self.assertEqual([line[:9] for line in lines], ["SIGUSR1: ", "SIGUSR2: "])
        self.assertEqual(len(os.listdir(folder)), 1)
        self.assertEqual((self.log, self.up), (["+a"], [True]))

    def test_order(self) -> None:
        """A part starts when the one before is up; they stop in reverse."""
        slow = Part("a", self.log, slow=True)
        service = self.service(slow, Part("b", self.log))

        service.startService()  # type: ignore[unused-awaitable]
        before = list(self.log)
        assert slow.waiting is not None
        slow.waiting.callback(None)
        self.successResultOf(service.stopService())

        self.assertEqual(before, ["+a"])
        self.assertEqual(self.log, ["+a", "+b", "-b", "-a"])
        self.assertEqual(self.up, [True])

    def test_failed_start(self) -> None:
        """A part that does not start ends the others, and is told."""
        service = self.service(Part("a", self.log), Part("b", self.log, bad=True))

        self.successResultOf(service.startService())

        self.assertEqual(self.log, ["+a", "+b", "-b", "-a"])
        self.assertEqual([type(error) for error in self.failed], [ConfigError])
        self.assertEqual(self.up, [])
        self.flushLoggedErrors(ConfigError)

    def test_stop_during_start(self) -> None:
        """A stop in the middle of the start starts nothing more; twice is once."""
        slow = Part("a", self.log, slow=True)
        service = self.service(slow, Part("b", self.log))
        service.startService()  # type: ignore[unused-awaitable]

        first, second = service.stopService(), service.stopService()
        assert slow.waiting is not None
        slow.waiting.callback(None)

        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(self.log, ["+a", "-a"])

    def test_broken_by_the_stop(self) -> None:
        """A part whose start ends with an error because it was stopped has not failed."""
        slow = Part("a", self.log, slow=True)
        service = self.service(slow, Part("b", self.log))
        service.startService()  # type: ignore[unused-awaitable]

        service.stopService()  # type: ignore[unused-awaitable]
        assert slow.waiting is not None
        slow.waiting.errback(RuntimeError("changed meanwhile"))

        self.assertEqual((self.log, self.failed, self.up), (["+a", "-a"], [], []))
        self.assertEqual(self.flushLoggedErrors(RuntimeError), [])

    def test_deadline(self) -> None:
        """A part that does not stop is left after its time, and the next one is stopped."""
        service = self.service(Part("a", self.log), Stuck("b", self.log))
        service.startService()  # type: ignore[unused-awaitable]

        done = service.stopService()
        self.assertNoResult(done)
        self.clock.advance(5.1)

        self.successResultOf(done)
        self.assertEqual(self.log, ["+a", "+b", "-b", "-a"])


class SaltLogTests(SynchronousTestCase):
    """Salt's lines from Twisted's events."""

    def write(self, level: str, *events: dict[str, Any]) -> str:
        """What a console of this level shows of some events."""
        stream = io.StringIO()
        log = SaltLog([Target(stream, level_number(level), CONSOLE, "%H:%M:%S")])
        for event in events:
            log({"log_time": 1.0, "log_namespace": "saltwisted.x", **event})
        return stream.getvalue()

    def test_levels(self) -> None:
        """Events below the level are not shown; quiet shows nothing."""
        events = [
            {"log_level": LogLevel.debug, "log_format": "small"},
            {"log_level": LogLevel.warn, "log_format": "{what} happened", "what": "it"},
        ]

        self.assertEqual(self.write("warning", *events), "[WARNING ] it happened\n")
        self.assertEqual(self.write("all", *events).count("\n"), 2)
        self.assertEqual(self.write("quiet", *events), "")
        self.assertEqual(level_number("nonsense"), 30)

    def test_first_line(self) -> None:
        """The line that names the configuration is shown at every level but quiet."""
        event = {"log_level": LogLevel.info, "log_format": "who", "always": True}

        self.assertEqual(self.write("error", event), "[INFO    ] who\n")
        self.assertEqual(self.write("quiet", event), "")

    def test_braces_and_percents(self) -> None:
        """Text from outside is data: neither braces nor percents in it are read as a format."""
        event = {"log_level": LogLevel.error, "log_format": "{x}", "x": "{y} %(message)s %d"}

        self.assertEqual(self.write("info", event), "[ERROR   ] {y} %(message)s %d\n")

    def test_broken_format(self) -> None:
        """A format that cannot be used gives the usual line instead of none."""
        stream = io.StringIO()
        log = SaltLog([Target(stream, 0, "%(nothing)s", "%H")])

        log({"log_level": LogLevel.info, "log_format": "x", "log_time": 1.0})

        self.assertEqual(stream.getvalue(), "[INFO    ] x\n")

    def test_gone_console(self) -> None:
        """A console that is gone ends nothing."""
        stream = io.StringIO()
        log = SaltLog([Target(stream, 0, CONSOLE, "%H")])
        stream.close()

        log({"log_level": LogLevel.info, "log_format": "x", "log_time": 1.0})


class StartTests(SynchronousTestCase):
    """What stands before any part."""

    def test_roles(self) -> None:
        """A role that is missing or unknown is refused with the names that there are."""
        for words, reason in (
            ([], "--role is needed"),
            (["--role", "foo"], "unknown"),
        ):
            error = self.assertRaises(UsageError, Options().parseOptions, words)
            self.assertIn(reason, str(error))
        options = Options()
        options.parseOptions(["--role", "master", "--config", "/x"])
        self.assertEqual((options["role"], options["config"]), ("master", "/x"))

    def test_user(self) -> None:
        """Our own user is fine; one that does not exist is named."""
        become("")
        become(pwd.getpwuid(os.geteuid()).pw_name)
        error = self.assertRaises(ConfigError, become, "no-such-user-here")
        self.assertIn("no-such-user-here", str(error))

    def test_notify(self) -> None:
        """systemd is told, where there is one, and nothing fails where there is none."""
        path = os.path.join("/tmp", f"swt-notify-{os.getpid()}-{os.urandom(4).hex()}")
        self.addCleanup(os.unlink, path)
        self.patch(os, "environ", {**os.environ, "NOTIFY_SOCKET": path})
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(path)

            self.assertTrue(notify("READY=1"))

            self.assertEqual(sock.recv(100), b"READY=1")
        os.environ["NOTIFY_SOCKET"] = "/does/not/exist"
        self.assertFalse(notify("READY=1"))
        del os.environ["NOTIFY_SOCKET"]
        self.assertFalse(notify("READY=1"))
