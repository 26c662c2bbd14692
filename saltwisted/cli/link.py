"""
The way from a command to the daemon on this machine: its control socket.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.advice import By, Said
from saltwisted.worker.control import ControlClient

SOCKET = "saltwisted.sock"


def socket_path(opts: Mapping[str, Any]) -> str:
    """Where the daemon of this configuration listens."""
    return os.path.join(str(opts["sock_dir"]), SOCKET)


def connect(opts: Mapping[str, Any]) -> ControlClient:
    """A client for the daemon of this configuration; it connects at its first call."""
    return ControlClient(path=socket_path(opts))


def start(opts: Mapping[str, Any], role: str = "master") -> str:
    """
    How to start the daemon which was not found, as a sentence.

    @param role: C{master} for the one that this machine has: alone, or a node of a cluster.
    """
    from saltwisted.tools import units

    pki_dir = str(opts.get("pki_dir") or "")
    chosen = units.master_role(pki_dir) if role == "master" and pki_dir else role
    return told(units.start(chosen, opts), opts)


def told(said: Said, opts: Mapping[str, Any]) -> str:
    """Advice for the user of a command: what is another user's to run says so."""
    sentence = str(at(opts)(said))
    return f"{sentence} (as root)" if said.by is By.ROOT and os.geteuid() else sentence


def at(opts: Mapping[str, Any]) -> Callable[[Said], Said]:
    """What makes advice one for this machine and this configuration."""
    # A command whose daemon answers does without
    from saltwisted.tools import units

    directory = os.path.dirname(str(opts.get("conf_file") or ""))
    return lambda said: units.here(said, directory)


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
