"""
Messages to the service manager (sd_notify(3)): ready, reloading, stopping, and still alive.

The variables by which systemd says where it listens are taken out of the environment, so
that no job of ours and no program that a state starts speaks in our name.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.transports.deferreds import let_go

log = Logger()
STATUS_EVERY = 2.0
EXTENSION = 60
"""Seconds for which a start that goes on asks."""
_taken: dict[str, str] = {}


def take(environ: MutableMapping[str, str] | None = None) -> None:
    """Take the service manager's address out of the environment, and remember it."""
    environ = os.environ if environ is None else environ
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        if name in environ:
            _taken[name] = environ.pop(name)


def notify(message: str) -> bool:
    """
    Send one message to the service manager, if there is one; never fails, and never waits:
    a service manager that does not read must not stop our reactor.
    """
    path = os.environ.get("NOTIFY_SOCKET") or _taken.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            sock.connect(address)
            sock.sendall(message.encode())
    except OSError:
        return False
    return True


class ServiceManager:
    """
    What one daemon tells its service manager.

    Pings of the watchdog come from the reactor: one that is stuck stops pinging, and systemd
    starts the daemon again after C{WatchdogSec}.
    """

    def __init__(self, clock: Any) -> None:
        take()
        self._clock = clock
        self._pings: LoopingCall | None = None

    def ready(self) -> None:
        """Report that the daemon serves; from now on the reactor pings the watchdog."""
        notify("READY=1")
        seconds = watchdog_seconds(_taken, os.getpid())
        if seconds and self._pings is None:
            self._pings = LoopingCall(notify, "WATCHDOG=1")
            self._pings.clock = self._clock
            _ = self._pings.start(seconds / 3)

    def reloading(self) -> None:
        """The configuration is being read again; L{ready} ends it."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        notify(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def status(self, text: str) -> None:
        """One line for C{systemctl status}."""
        tell_status(text)

    def stopping(self) -> None:
        """It is going; whether it hangs is now the stop's own time limit's business."""
        if self._pings is not None and self._pings.running:
            self._pings.stop()
        self._pings = None
        notify("STOPPING=1")


class StatusLine:
    """
    The line that C{systemctl status} shows, told again whenever it changes.

    @param text: how the daemon is, in some words.
    """

    def __init__(self, clock: Any, text: Callable[[], str]) -> None:
        self._text = text
        self._told = ""
        self._loop = LoopingCall(self._tell)
        self._loop.clock = clock

    def startService(self) -> None:
        """Send the line from now on."""
        let_go(self._loop.start(STATUS_EVERY), log, "the service manager hears no more")

    def stopService(self) -> None:
        """Send it no more."""
        if self._loop.running:
            self._loop.stop()

    def _tell(self) -> None:
        text = self._text()
        if text != self._told:
            self._told = text
            tell_status(text)


def tell_status(text: str, still_starting: bool = False) -> None:
    """
    One line for C{systemctl status}.

    @param still_starting: the start goes on, and is not to be given up for a while.
    """
    line = "STATUS=" + text.replace("\n", " ")
    notify(f"{line}\nEXTEND_TIMEOUT_USEC={EXTENSION * 1_000_000}" if still_starting else line)


def watchdog_seconds(environ: Mapping[str, str], pid: int) -> float:
    """How often the service manager wants to hear from this process; 0 for never."""
    wanted = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not wanted.isdigit():
        return 0.0
    return int(wanted) / 1e6
