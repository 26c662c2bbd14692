"""
The log of a worker process: what is logged in it goes to the daemon, whose log is the only one.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from saltwisted.errors import TransportClosed
from saltwisted.worker.control import ControlClient


class DaemonLog(logging.Handler):
    """Hands log records to the daemon, whose log is the only one; to stderr if it is gone."""

    def __init__(self, client: ControlClient) -> None:
        super().__init__()
        self._client = client

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises, as the C{logging} module asks."""
        try:
            text = self.format(record)
            try:
                self._client.notify("log", level=record.levelno, name=record.name, message=text)
            except TransportClosed:
                sys.stderr.write(f"{record.levelname}: {text}\n")
        except Exception:
            self.handleError(record)


LEVELS = {
    "all": 1,
    "garbage": 1,
    "trace": 5,
    "debug": logging.DEBUG,
    "profile": 15,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "quiet": 1000,
}
"""Salt's names of log levels."""


def log_to(handler: logging.Handler, opts: Mapping[str, Any]) -> None:
    """Send what modules log to one handler, at the level of the configuration."""
    wanted = [str(opts.get(key) or "").lower() for key in ("log_level_logfile", "log_level")]
    level = min((LEVELS[name] for name in wanted if name in LEVELS), default=logging.WARNING)
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
