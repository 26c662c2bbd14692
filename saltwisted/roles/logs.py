"""
Salt's log options for Twisted's logger: levels, formats, the console and a file.

C{log_level} and C{log_fmt_console} govern what goes to the console (under systemd: the
journal), C{log_level_logfile} and C{log_fmt_logfile} what goes to C{log_file}. A format that
is the word C{json} makes one JSON object of each event, a line each, with its fields.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Hashable, Iterator, Mapping
from threading import Lock
from typing import Any, TextIO

from attrs import define
from twisted.logger import (
    ILogObserver,
    LogEvent,
    LogLevel,
    formatEvent,
)
from zope.interface import implementer

from saltwisted.words import counted

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

OURS = ("always", "foreign", "isError", "system")
"""Keys of an event that say how it is logged, and nothing to its reader."""
JSON = "json"
"""The format that asks for one JSON object a line."""


def as_json(record: Mapping[str, Any], trace: str) -> str:
    """One event as a line of JSON; the time in UTC, with its zone."""
    created = record["created"]
    line: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
        + f".{int(created * 1000) % 1000:03d}Z",
        "level": record["levelname"].lower(),
        "logger": record["name"],
        "message": record["message"],
        "pid": record["process"],
        "fields": record.get("fields") or {},
    }
    if trace:
        line["traceback"] = trace
    return json.dumps(line, ensure_ascii=True, default=_short) + "\n"


def _short(value: Any) -> str:
    return str(value)[:200]


_UNSEEN = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    # Control characters, separators of lines, and what turns the direction of writing around
    for code in (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F),
                 *range(0x2066, 0x206A))
} | {9: "\\t", 10: "\\n", 13: "\\r"}  # fmt: skip


def one_line(text: str) -> str:
    """
    A text with its control characters spelt out: nobody's name or argument begins a line of its
    own in a log, or moves the cursor of who reads it.
    """
    return text if text.isprintable() else text.translate(_UNSEEN)


def indented(trace: str) -> str:
    """A traceback, none of whose lines can be taken for one of the log's."""
    return "".join(f"    {one_line(line)}\n" for line in trace.split("\n") if line)


def level_number(name: Any, default: int = 30) -> int:
    """The number of a level's name; an unknown name is the default."""
    return LEVELS.get(str(name).lower(), default)


QUIET = 10.0
"""A line that says the same within so many seconds is counted, and not written; ..."""
TELL = 60.0
"""... how often it came is written at least so often."""
LOOK = 1.0
"""Seconds between two looks at all of them."""
FOREIGN = 30
"""Lines a minute about what strangers and refused users do; the others are counted."""
MOST = 500
"""Lines that are remembered; of more the oldest are told and forgotten."""


@define
class Repeated:
    """
    A line that may come again.

    @ivar event: what is written again, with the count.
    @ivar told: when it was written.
    @ivar last: when it came last.
    """

    event: LogEvent
    told: float
    last: float
    count: int = 0


class Repeats:
    """
    Which lines only say again what was said a moment ago.

    A disk that refuses, or a peer that is away, would otherwise fill the log with one line, and
    hide all others in it. Time is an argument.
    """

    def __init__(self) -> None:
        self._lines: dict[Hashable, Repeated] = {}
        self._looked = 0.0

    def is_new(self, key: Hashable, event: LogEvent, now: float) -> bool:
        """Whether a line is to be written; if not, it is counted."""
        known = self._lines.get(key)
        if known is None:
            # A failure would keep all frames of its traceback
            self._lines[key] = Repeated({**event, "log_failure": None}, now, now)
            return True
        known.count += 1
        known.last = now
        return False

    def due(self, now: float, everything: bool = False) -> Iterator[tuple[LogEvent, int, float]]:
        """
        Lines that came again: the event, how often, and within how many seconds.

        In the order in which they came last, so that what was said last stands last.
        """
        if not everything and len(self._lines) <= MOST and 0 <= now - self._looked < LOOK:
            return
        self._looked = now
        for key, line in sorted(self._lines.items(), key=lambda pair: pair[1].last):
            is_quiet = everything or not 0 <= now - line.last < QUIET or len(self._lines) > MOST
            if line.count and (is_quiet or now - line.told >= TELL):
                yield line.event, line.count, max(line.last - line.told, 0.0)
                line.told, line.count = now, 0
            if is_quiet:
                del self._lines[key]


class Budget:
    """
    How many lines the doings of others may make: an event says C{foreign=True}.

    A counter has each of them; the log has enough to see what happens. Time is an argument.
    """

    def __init__(self) -> None:
        self._began = float("-inf")
        self._spent = 0
        self.dropped = 0

    def allows(self, now: float) -> bool:
        """Whether one more line may be written."""
        if not 0 <= now - self._began < TELL:
            self._began, self._spent = now, 0
        self._spent += 1
        if self._spent > FOREIGN:
            self.dropped += 1
        return self._spent <= FOREIGN

    def due(self, now: float, everything: bool = False) -> int:
        """The number of suppressed lines, when it is time to report it."""
        if not everything and 0 <= now - self._began < TELL:
            return 0
        dropped, self.dropped = self.dropped, 0
        return dropped


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
        if self.fmt == JSON:
            text = as_json(record, trace)
        else:
            record["message"] = one_line(record["message"])
            record["colormsg"] = record["message"]
            record["asctime"] = time.strftime(self.datefmt, time.localtime(record["created"]))
            try:
                line = self.fmt % record
            except (KeyError, ValueError, TypeError):
                line = CONSOLE % record
            text = line + "\n" + indented(trace)
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.level = LEVELS["quiet"]


@implementer(ILogObserver)
class SaltLog:
    """Twisted's log events as Salt's lines. May be called from any thread."""

    def __init__(self, targets: list[Target], environ: Mapping[str, str] | None = None) -> None:
        self._targets = targets
        self._repeats = Repeats()
        self._foreign = Budget()
        self._lock = Lock()
        self._journal = "JOURNAL_STREAM" in (environ or {})
        self._console = targets[0].stream if targets else sys.stderr

    def follow(self, config: Any, level: str | None) -> None:
        """Use this configuration from now on, and open the file again (for logrotate)."""
        # Another file, perhaps: there a line is new
        self.settle(time.time(), everything=True)
        # sys.stderr is Twisted's by now, and leads back to us: the one of the start is meant
        new = targets(config, level, self._journal, self._console)
        old, self._targets = self._targets, new
        for target in old:
            if target.stream is not self._console:
                target.stream.close()

    def __call__(self, event: LogEvent) -> None:
        """Write one event, unless it only says again what was said a moment ago."""
        now = float(event.get("log_time") or 0.0)
        number = self._number(event)
        if number >= _NUMBER[LogLevel.info] and not event.get("always"):
            self.settle(now)
            with self._lock:
                if not self._repeats.is_new(_key(event, number), event, now):
                    return
                if event.get("foreign") and not self._foreign.allows(now):
                    return
        self._write(event, number)

    def settle(self, now: float, everything: bool = False) -> None:
        """Write how often lines were repeated; from time to time, and at the end."""
        with self._lock:
            due = list(self._repeats.due(now, everything))
            dropped = self._foreign.due(now, everything)
        if dropped:
            note = {
                "log_level": LogLevel.warn,
                "log_namespace": "saltwisted.log",
                "log_format": "{lines} about refused requests not written; the status counts them",
                "lines": counted(dropped, "more line"),
            }
            self._write(note, _NUMBER[LogLevel.warn], "", now)
        for event, count, seconds in due:
            again = f"{counted(count, 'time')} more within {seconds:.0f} s"
            self._write(event, self._number(event), f" ({again})", now)

    @staticmethod
    def _number(event: LogEvent) -> int:
        number = _NUMBER.get(event.get("log_level", LogLevel.info), 20)
        namespace = str(event.get("log_namespace") or "")
        if number == 20 and namespace.startswith(("twisted.", "log_legacy", "-")):
            # Twisted's own life-cycle notes ("Starting factory ...") are details here
            number = 10
        return number

    def _write(
        self, event: LogEvent, number: int, more: str = "", now: float | None = None
    ) -> None:
        namespace = str(event.get("log_namespace") or "")
        # The first line (which version, which configuration) is shown at every level but quiet
        shown = LEVELS["critical"] if event.get("always") else number
        if not any(shown >= target.level for target in self._targets):
            return
        created = float(event.get("log_time") or 0.0) if now is None else now
        record = {
            "levelname": _NAME.get(number, "INFO"),
            "message": _text(event) + more,
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
        if any(target.fmt == JSON for target in self._targets):
            record["fields"] = fields_of(event)
        failure = event.get("log_failure")
        trace = ""
        if failure is not None:
            trace = failure.getTraceback()
        for target in self._targets:
            target.write(shown, dict(record), trace)


def _text(event: LogEvent) -> str:
    return formatEvent(event) or str(event.get("message") or "")


def _key(event: LogEvent, number: int) -> Hashable:
    """What is the same of two lines that say the same."""
    failure = event.get("log_failure")
    why = "" if failure is None else f"{failure.type}: {failure.getErrorMessage()}"
    return number, event.get("log_namespace"), _text(event), why


def fields_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """What our own code logged beside the words; Twisted's own keys begin with C{log_}."""
    return {
        name: value if isinstance(value, (bool, int, float, type(None))) else _short(value)
        for name, value in event.items()
        if not name.startswith(("log_", "_"))
        and name not in ("always", "foreign", "isError", "system")
    }


def observer(config: Any, level: str | None, environ: Mapping[str, str]) -> SaltLog:
    """
    The observer that a configuration asks for.

    A log file that cannot be opened is told on the console, and does not stop the start.
    """
    return SaltLog(targets(config, level, "JOURNAL_STREAM" in environ, sys.stderr), environ)


def cannot_log(config: Any) -> str:
    """Why the log file cannot be written to; C{""} if it can, or if there is to be none."""
    path = str(config.log_file or "")
    if not path.startswith("/"):
        return ""
    place = path
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if place == path:
        why = errno.EISDIR if os.path.isdir(path) else errno.EACCES
        fits = os.access(path, os.W_OK) and not os.path.isdir(path)
    else:
        why = errno.EACCES if os.path.isdir(place) else errno.ENOTDIR
        fits = os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
    return "" if fits else f"the log file {path} cannot be opened: {os.strerror(why)}"


def targets(config: Any, level: str | None, journal: bool, console: TextIO) -> list[Target]:
    """The console and, if there is one, the log file, opened for appending."""
    console_level = level_number(level or config.log_level)
    datefmt = str(config.log_datefmt or "%H:%M:%S")
    console_fmt = str(config.log_fmt_console or CONSOLE)
    if journal and console_fmt != JSON:
        console_fmt = "%(levelname)s: %(message)s"
    found = [Target(console, console_level, console_fmt, datefmt)]
    path = str(config.log_file or "")
    if path.startswith("/"):
        file_level = level_number(config.log_level_logfile or level or config.log_level)
        try:
            os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            stream = os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace")
            found.append(
                Target(
                    stream,
                    file_level,
                    str(config.log_fmt_logfile or LOGFILE),
                    str(config.log_datefmt_logfile or "%Y-%m-%d %H:%M:%S"),
                )
            )
        except OSError as error:
            sys.stderr.write(
                f"saltwisted: the log file {path} cannot be opened: {error.strerror}\n"
            )
    return found
