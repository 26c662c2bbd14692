"""
Salt's log options for Twisted's logger: levels, formats, the console and a file.

C{log_level} and C{log_fmt_console} govern what goes to the console (under systemd: the
journal), C{log_level_logfile} and C{log_fmt_logfile} what goes to C{log_file}.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from twisted.logger import (
    ILogObserver,
    LogEvent,
    LogLevel,
    formatEvent,
)
from zope.interface import implementer

LEVELS = {
    "all": 0,
    "garbage": 1,
    "trace": 5,
    "debug": 10,
    "profile": 15,
    "info": 20,
    "warning": 30,
    "error": 40,
    "critical": 50,
    "quiet": 1000,
}
"""Salt's names of levels, least to most severe."""

_NUMBER = {
    LogLevel.debug: 10,
    LogLevel.info: 20,
    LogLevel.warn: 30,
    LogLevel.error: 40,
    LogLevel.critical: 50,
}
_NAME = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
CONSOLE = "[%(levelname)-8s] %(message)s"
LOGFILE = (
    "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s"
)


def level_number(name: Any, default: int = 30) -> int:
    """The number of a level's name; an unknown name is the default."""
    return LEVELS.get(str(name).lower(), default)


class Target:
    """One place that lines are written to, from one level on."""

    def __init__(self, stream: TextIO, level: int, fmt: str, datefmt: str) -> None:
        self.stream = stream
        self.level = level
        self.fmt = fmt
        self.datefmt = datefmt

    def write(self, number: int, record: dict[str, Any], trace: str) -> None:
        """Write one event; a console that is gone is not worth dying for."""
        if number < self.level:
            return
        record["asctime"] = time.strftime(self.datefmt, time.localtime(record["created"]))
        try:
            line = self.fmt % record
        except (KeyError, ValueError, TypeError):
            line = CONSOLE % record
        try:
            self.stream.write(line + "\n" + trace)
            self.stream.flush()
        except (OSError, ValueError):
            self.level = LEVELS["quiet"]


@implementer(ILogObserver)
class SaltLog:
    """Twisted's log events as Salt's lines. May be called from any thread."""

    def __init__(self, targets: list[Target]) -> None:
        self._targets = targets

    def __call__(self, event: LogEvent) -> None:
        """Format and write one event."""
        number = _NUMBER.get(event.get("log_level", LogLevel.info), 20)
        namespace = str(event.get("log_namespace") or "")
        if number == 20 and namespace.startswith(("twisted.", "log_legacy", "-")):
            # Twisted's own life-cycle notes ("Starting factory ...") are details here
            number = 10
        # The first line (which version, which configuration) is shown at every level but quiet
        shown = LEVELS["critical"] if event.get("always") else number
        if not any(shown >= target.level for target in self._targets):
            return
        created = float(event.get("log_time") or 0.0)
        record = {
            "levelname": _NAME.get(number, "INFO"),
            "message": formatEvent(event) or str(event.get("message") or ""),
            "name": namespace.removeprefix("saltwisted.") or "saltwisted",
            "lineno": 0,
            "process": os.getpid(),
            "created": created,
            "msecs": int(created * 1000) % 1000,
            "threadName": "",
            "funcName": "",
            "bracketlevel": f"[{_NAME.get(number, 'INFO'):<8}]",
            "bracketname": f"[{namespace:<17}]",
            "bracketprocess": f"[{os.getpid()}]",
            "colorlevel": f"[{_NAME.get(number, 'INFO'):<8}]",
            "colorname": f"[{namespace:<17}]",
            "colorprocess": f"[{os.getpid()}]",
            "colormsg": "",
        }
        record["colormsg"] = record["message"]
        failure = event.get("log_failure")
        trace = ""
        if failure is not None:
            trace = failure.getTraceback()
        for target in self._targets:
            target.write(shown, dict(record), trace)


def observer(config: Any, level: str | None, environ: Mapping[str, str]) -> SaltLog:
    """
    The observer that a configuration asks for.

    A log file that cannot be opened is told on the console, and does not stop the start.
    """
    console_level = level_number(level or config.log_level)
    datefmt = str(config.log_datefmt or "%H:%M:%S")
    console_fmt = str(config.log_fmt_console or CONSOLE)
    if "JOURNAL_STREAM" in environ:
        console_fmt = "%(levelname)s: %(message)s"
    targets = [Target(sys.stderr, console_level, console_fmt, datefmt)]
    path = str(config.log_file or "")
    if path.startswith("/"):
        file_level = level_number(config.log_level_logfile or level or config.log_level)
        try:
            os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            stream = os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace")
            targets.append(
                Target(
                    stream,
                    file_level,
                    str(config.log_fmt_logfile or LOGFILE),
                    str(config.log_datefmt_logfile or "%Y-%m-%d %H:%M:%S"),
                )
            )
        except OSError as error:
            sys.stderr.write(f"saltwisted: no log file {path}: {error.strerror}\n")
    return SaltLog(targets)
