"""
The way from a command to the daemon on this machine: its control socket.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from saltwisted.tools.units import start_command
from saltwisted.worker.control import ControlClient

SOCKET = "saltwisted.sock"


def socket_path(opts: Mapping[str, Any]) -> str:
    """Where the daemon of this configuration listens."""
    return os.path.join(str(opts["sock_dir"]), SOCKET)


def connect(opts: Mapping[str, Any]) -> ControlClient:
    """A client for the daemon of this configuration; it connects at its first call."""
    return ControlClient(path=socket_path(opts))


def how_to_start(opts: Mapping[str, Any], role: str) -> str:
    """The command that starts the daemon which was not found."""
    return start_command(role, opts)


class Channel(ControlClient):
    """Many questions at once: send them with L{ask}, take their messages as they come."""

    def ask(self, op: str, /, **args: Any) -> int:
        """Send a question; its number is C{id} in each message that answers it."""
        with self._lock:
            return self._ask(op, args)

    def wait(self, seconds: float | None) -> dict[str, Any] | None:
        """The next message to any question, or C{None} when C{seconds} pass without one."""
        try:
            with self._lock:
                return self._receive(None if seconds is None else time.monotonic() + seconds)
        except TimeoutError:
            return None
