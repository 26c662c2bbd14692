"""
Reading the configuration again, and what the service manager hears meanwhile.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import tempfile
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.load import Loaded
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.errors import ConfigError
from saltwisted.roles import notify
from saltwisted.roles.base import OrderedService
from saltwisted.roles.logs import JSON, SaltLog, Target
from saltwisted.roles.reload import MASTER_BUILT_IN, MINION_BUILT_IN, Reload


class Manager:
    """A service manager's socket."""

    def __init__(self, case: SynchronousTestCase) -> None:
        folder = tempfile.mkdtemp(dir="/tmp")
        self.path = os.path.join(folder, "n")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.setblocking(False)
        case.addCleanup(os.rmdir, folder)
        case.addCleanup(os.unlink, self.path)
        case.addCleanup(self.sock.close)

    def heard(self) -> list[str]:
        """What was told since the last question."""
        found = []
        try:
            while True:
                found.append(self.sock.recv(4096).decode())
        except BlockingIOError:
            return found


class ServiceManagerTests(SynchronousTestCase):
    """Readiness, watchdog, reload and stop, as systemd hears them."""

    def setUp(self) -> None:
        self.manager = Manager(self)
        self.clock = Clock()
        self.environ = {
            "NOTIFY_SOCKET": self.manager.path,
            "WATCHDOG_USEC": "30000000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        self.patch(os, "environ", self.environ)
        self.patch(notify, "_taken", {})

    def service(self, **more: Any) -> OrderedService:
        """A service without parts."""
        return OrderedService(self.clock, [], self.fail, **more)

    def test_life(self) -> None:
        """Ready after the start; then pings thrice per watchdog period; and the end is told."""
        service = self.service()

        service.startService()  # type: ignore[unused-awaitable]
        self.assertEqual(self.manager.heard(), ["READY=1", "WATCHDOG=1"])
        self.clock.advance(10)
        self.clock.advance(10)
        self.assertEqual(self.manager.heard(), ["WATCHDOG=1", "WATCHDOG=1"])
        self.successResultOf(service.stopService())

        self.assertEqual(self.manager.heard(), ["STOPPING=1"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_inner(self) -> None:
        """A service inside a daemon tells the service manager nothing, and its end is no end."""
        service = self.service(inner=True, reload=self.fail)

        service.startService()  # type: ignore[unused-awaitable]
        service.reload()
        self.successResultOf(service.stopService())

        self.assertEqual(self.manager.heard(), [])

    def test_slow_start(self) -> None:
        """Nothing is ready, and no watchdog pinged, before the last part is up."""

        class Slow:
            waiting: Deferred[None] = Deferred()

            def startService(self) -> Deferred[None]:
                return self.waiting

            def stopService(self) -> None:
                pass

        service = OrderedService(self.clock, [Slow()], self.fail)

        service.startService()  # type: ignore[unused-awaitable]
        self.assertEqual(self.manager.heard(), [])
        Slow.waiting.callback(None)

        self.assertEqual(self.manager.heard()[0], "READY=1")
        self.successResultOf(service.stopService())

    def test_private(self) -> None:
        """What we start cannot speak in our name: the variables are gone."""
        self.service()

        self.assertEqual(self.environ, {})

    def test_deaf(self) -> None:
        """A service manager that does not read costs some messages, and no time."""
        service = self.service()
        service.startService()  # type: ignore[unused-awaitable]

        self.clock.pump([10.0] * 2000)

        self.assertLess(len(self.manager.heard()), 2000)
        self.successResultOf(service.stopService())

    def test_other_process(self) -> None:
        """A watchdog that waits for another process gets no pings from us."""
        self.assertEqual(notify.watchdog_seconds({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, 2), 0)
        self.assertEqual(notify.watchdog_seconds({"WATCHDOG_USEC": "soon"}, 2), 0)
        self.assertEqual(notify.watchdog_seconds({"WATCHDOG_USEC": "2500000"}, 2), 2.5)

    def test_reload(self) -> None:
        """A reload is told from its begin to its end; those asked for meanwhile are one more."""
        readings: list[Deferred[str]] = []

        async def read() -> str:
            readings.append(Deferred())
            return await readings[-1]

        service = self.service(reload=read)
        service.startService()  # type: ignore[unused-awaitable]
        self.manager.heard()

        service.reload()
        service.reload()
        service.reload()
        begun = self.manager.heard()
        readings[0].callback("all is well")
        ended = self.manager.heard()
        readings[1].callback("")

        self.assertTrue(begun[0].startswith("RELOADING=1\nMONOTONIC_USEC="), begun)
        self.assertEqual(ended[:2], ["READY=1", "STATUS=all is well"])
        self.assertEqual(len(readings), 2)
        self.successResultOf(service.stopService())

    def test_failed_reload(self) -> None:
        """A reload that raises leaves the daemon ready, and the next one works."""
        calls: list[int] = []

        async def read() -> str:
            calls.append(1)
            raise RuntimeError("no")

        service = self.service(reload=read)
        service.startService()  # type: ignore[unused-awaitable]
        service.reload()
        service.reload()

        self.assertEqual(len(calls), 2)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)
        self.assertIn("READY=1", self.manager.heard()[-2:])
        self.successResultOf(service.stopService())

    def test_whole_stop(self) -> None:
        """Parts that never stop are all given up within ten seconds, and not after five each."""

        class Stuck:
            def startService(self) -> None:
                pass

            def stopService(self) -> Deferred[None]:
                return Deferred()

        service = OrderedService(self.clock, [Stuck() for _ in range(4)], self.fail)
        service.startService()  # type: ignore[unused-awaitable]
        stopped = service.stopService()

        self.clock.pump([0.1] * 99)

        self.successResultOf(stopped)


class ReloadTests(SynchronousTestCase):
    """Which new values count, and when."""

    def setUp(self) -> None:
        self.config = MasterConfig(config_dir="/c", log_file="")
        self.applied: list[list[str]] = []

    def reload(self, read: Any) -> Reload:
        """A reload of a master's configuration."""
        return Reload(
            self.config,
            read,
            lambda call: succeed(None).addCallback(lambda _: call()),
            MASTER_BUILT_IN,
            lambda names: self.applied.append(list(names)),
            SaltLog([]),
            None,
        )

    def test_live(self) -> None:
        """What is looked at when needed counts at once, for whoever holds the configuration."""
        new = self.config.evolve(nodegroups={"fleet": "*"}, publish_port=5505)
        reload = self.reload(lambda: Loaded(new))

        said = self.successResultOf(Deferred.fromCoroutine(reload()))

        self.assertEqual(self.config.nodegroups, {"fleet": "*"})
        self.assertEqual(self.applied, [["nodegroups"]])
        self.assertEqual(self.config.publish_port, 4505)
        self.assertEqual(said, "serving; a restart is needed for publish_port")

    def test_broken(self) -> None:
        """A configuration that cannot work changes nothing."""

        def read() -> Loaded:
            raise ConfigError("a number is needed", "/c/master", 3)

        said = self.successResultOf(Deferred.fromCoroutine(self.reload(read)()))

        self.assertIn("a number is needed", said)
        self.assertEqual(self.config, MasterConfig(config_dir="/c", log_file=""))
        self.assertEqual(self.applied, [])

    def test_names(self) -> None:
        """The lists name options that there are; what is logged is never among them."""
        self.assertEqual(MASTER_BUILT_IN - set(MasterConfig.fields), set())
        self.assertEqual(MINION_BUILT_IN - set(MinionConfig.fields), set())
        built_in = MASTER_BUILT_IN | MINION_BUILT_IN
        self.assertEqual([name for name in built_in if name.startswith("log_")], [])

    def test_roles(self) -> None:
        """A master never takes a minion's values."""
        with self.assertRaises(TypeError):
            self.config.adopt(MinionConfig(), ["timeout"])


class JsonTests(SynchronousTestCase):
    """Logs for machines."""

    def test_line(self) -> None:
        """One event is one line with time, level, words and fields."""
        stream = io.StringIO()
        log = SaltLog([Target(stream, 20, JSON, "")])

        log(
            {
                "log_level": LogLevel.warn,
                "log_namespace": "saltwisted.master.x",
                "log_time": 1000000000.25,
                "log_format": "{minion} is late by {seconds} s\nand more",
                "minion": "web1",
                "seconds": 2,
                "deep": {"a": 1},
            }
        )

        lines = stream.getvalue().splitlines()
        self.assertEqual(len(lines), 1)
        line = json.loads(lines[0])
        self.assertEqual(line["time"], "2001-09-09T01:46:40.250Z")
        self.assertEqual((line["level"], line["logger"]), ("warning", "master.x"))
        self.assertEqual(line["message"], "web1 is late by 2 s\nand more")
        self.assertEqual(line["fields"], {"minion": "web1", "seconds": 2, "deep": "{'a': 1}"})

    def test_console(self) -> None:
        """After a reload lines go where they went at the start, though Twisted took stderr."""
        console = io.StringIO()
        log = SaltLog([Target(console, 20, "%(message)s", "")])
        self.patch(sys, "stderr", io.StringIO())

        log.follow(MasterConfig(log_file="", log_level="info"), None)
        log({"log_level": LogLevel.info, "log_format": "hello", "log_time": 1.0})

        self.assertIn("hello", console.getvalue())
        self.assertEqual(sys.stderr.getvalue(), "")  # type: ignore[attr-defined]

    def test_reopened(self) -> None:
        """After logrotate a reload writes to the new file, at the new level."""
        path = os.path.join(self.mktemp(), "master")
        config = MasterConfig(log_file=os.path.abspath(path), log_level="quiet")
        log = SaltLog([])
        log.follow(config.evolve(log_level_logfile="error"), None)
        event = {"log_level": LogLevel.info, "log_format": "hello", "log_time": 1.0}
        log(event)
        os.rename(path, path + ".1")

        log.follow(config.evolve(log_level_logfile="info"), None)
        log(event)

        with open(path + ".1", encoding="utf-8") as old, open(path, encoding="utf-8") as new:
            self.assertEqual((old.read(), new.read().count("hello")), ("", 1))
        log.follow(config.evolve(log_file=""), None)
