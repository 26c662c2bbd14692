"""
What a command says to its user: lines on stdout, log lines on stderr and in the log file.

Salt's log format and levels, without the C{logging} package: importing that
costs more than most commands print. Commands that run Salt modules in their
own process (C{salt-call}) connect the two with L{adopt_logging}.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

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

_state: dict[str, Any] = {
    "console": 30,
    "file": 1000,
    "path": None,
    "prefix": "",
    "insist": False,
}


def configure(
    level: str,
    path: str | None = None,
    file_level: str | None = None,
    prefix: str = "",
    insist: bool = False,
) -> None:
    """
    Choose what is shown and what is kept.

    @param level: Salt's name of the lowest level that reaches stderr.
    @param path: the log file; it is opened for the first line that belongs there.
    @param prefix: put before each console line (C{"# "} keeps YAML output valid).
    @param insist: whether somebody asked for this log file, and wants to hear if it cannot be.
    """
    _state["console"] = LEVELS.get(level.lower(), 30)
    _state["file"] = 1000 if path is None else LEVELS.get((file_level or level).lower(), 30)
    _state["path"] = path
    _state["prefix"] = prefix
    _state["insist"] = insist


def enabled(level: str) -> bool:
    """Whether a line of this level would go anywhere; saves making the text."""
    value = LEVELS[level]
    return bool(value >= min(_state["console"], _state["file"]))


def log(level: str, message: str, name: str = "saltwisted.cli") -> None:
    """One line for the log. The caller never passes secrets, nor arguments of jobs."""
    value = LEVELS[level]
    if value >= _state["console"]:
        write_error(f"{_state['prefix']}[{level.upper():<8}] {message}\n")
    if value >= _state["file"]:
        _keep(level, message, name)


def _keep(level: str, message: str, name: str) -> None:
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    line = f"{stamp},{int(now % 1 * 1000):03d} [{name:<17}:0   ][{level.upper():<8}][{os.getpid()}]"
    path = _state["path"]
    try:
        os.makedirs(os.path.dirname(path) or ".", 0o750, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError:
        _state["file"] = 1000
        if _state["insist"] and _state["console"] <= 30:
            write_error(
                f"{_state['prefix']}[WARNING ] Failed to open log file, do you have permission "
                f"to write to {path}?\n"
            )
        return
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{line} {message}\n")


def adopt_logging() -> None:
    """Send the records of the C{logging} package the same two ways; for in-process modules."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            closest = max(
                (value, name) for name, value in LEVELS.items() if value <= record.levelno
            )
            log(closest[1], text, record.name)

    root = logging.getLogger()
    root.handlers[:] = [Handler()]
    root.setLevel(max(1, min(_state["console"], _state["file"])))


def write_error(text: str) -> None:
    """Write to stderr, after what stdout holds, so that the two keep their order."""
    try:
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def say(text: str, end: str = "\n") -> None:
    """Print at once; a reader that went away (C{| head}) is no error."""
    try:
        sys.stdout.write(text + end)
        sys.stdout.flush()
    except UnicodeEncodeError:
        sys.stdout.write(str(text.encode("utf-8")) + end)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()


def _drop_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere, instead of failing loudly."""
    with open(os.devnull, "w", encoding="utf-8") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
