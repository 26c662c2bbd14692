"""
Append-only files of the API: C{log_access_file} and C{log_error_file}.

The first has a line for each request, as web servers write it; the second has errors, as CherryPy
writes them. Neither contains a query string, nor a header with credentials: a token in a log is
known to everybody who reads it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from saltwisted.config.api import ApiOptions
from saltwisted.errors import ConfigError
from saltwisted.web.traffic import Traffic

MODE = 0o640
"""Of a new file, whatever the umask allows: addresses and names are not for everybody."""
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
LONGEST = 500
"""Characters of a word of the client's."""
TOKEN = re.compile(rb"(?<=/)[0-9A-Fa-f]{32,}(?=/|$)")
"""What looks like one in a path: C{/ws/TOKEN} is for browsers, which have no other way."""


def check_log_file(option: str, path: str) -> None:
    """
    Whether a log can be written to; nothing is.

    @raises ConfigError: it cannot be.
    """
    place = path if os.path.lexists(path) else os.path.dirname(path) or "."
    number = errno.EISDIR if os.path.isdir(path) else errno.EACCES
    if not os.path.isdir(os.path.dirname(path) or "."):
        number = errno.ENOENT
    elif os.access(place, os.W_OK) and not os.path.isdir(path):
        return
    raise ConfigError(f"{option} {path}: {os.strerror(number)}")


class LogFile:
    """One file."""

    def __init__(self, option: str, path: str) -> None:
        """
        @param option: which names the path.
        """
        self._option, self._path = option, path
        self._file: TextIO | None = None

    def startService(self) -> None:
        """
        Open it.

        @raises ConfigError: it cannot be written to.
        """
        try:
            fd = os.open(self._path, _APPENDING, MODE)
            # A path is written down as it came, whatever it is
            self._file = open(  # noqa: SIM115 - it is closed at the end
                fd, "a", buffering=1, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise ConfigError(f"{self._option} {self._path}: {error.strerror}") from None

    def stopService(self) -> None:
        """Close it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def add(self, text: str) -> None:
        """Append a line, or several."""
        if self._file is None:
            return
        try:
            self._file.write(f"{text}\n")
        except OSError:
            # A full disk: the request has its answer all the same
            return


class AccessLog(LogFile):
    """Requests and their answers."""

    def __init__(self, path: str) -> None:
        super().__init__("log_access_file", path)

    def write(self, request: Any, now: float) -> None:
        """A request has its answer."""
        moment = datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        asked = " ".join(
            quoted(part) for part in (request.method, shown_path(request), request.clientproto)
        )
        agent = quoted(request.getHeader(b"user-agent") or b"-")
        address = getattr(request.client, "host", "-")
        self.add(
            f'{address} - {quoted(request.who.encode()) or "-"} [{moment}] "{asked}"'
            f' {int(request.code)} {request.sentLength or "-"} "-" "{agent}"'
        )


class ErrorLog(LogFile):
    """Errors of the server, and when it started and ended."""

    def __init__(self, path: str) -> None:
        super().__init__("log_error_file", path)

    def engine(self, text: str, now: float) -> None:
        """The server as a whole."""
        self.add(f"{_moment(now)} ENGINE {text}")

    def wrong(self, request: Any, status: int, message: str, trace: str, now: float) -> None:
        """
        A request was answered with a server error.

        @param trace: the traceback, or C{""}.
        """
        asked = " ".join(quoted(part) for part in (request.method, shown_path(request)))
        address = getattr(request.client, "host", "-")
        # What a client wrote may be in a message: it begins no line
        said = quoted(message.encode("utf-8", "replace"))
        lines = [f'{_moment(now)} HTTP {address} "{asked}" {status} {said}']
        lines += [f"    {quoted(line.encode('utf-8', 'replace'))}" for line in trace.splitlines()]
        self.add("\n".join(lines))


class Journal:
    """
    The results of requests, for those who want them recorded.

    @ivar traffic: how much there was.
    @ivar parts: the files that are open while the API listens.
    """

    def __init__(
        self,
        options: ApiOptions,
        now: Callable[[], float],
        seconds: Callable[[], float],
    ) -> None:
        """
        @param seconds: the clock by which requests come.
        """
        self._now, self._seconds = now, seconds
        self.traffic = Traffic(now())
        access, errors = options.log_access_file, options.log_error_file
        self._access = AccessLog(access) if access else None
        self._errors = ErrorLog(errors) if errors else None
        self.parts: list[LogFile] = [
            each for each in (self._access, self._errors) if each is not None
        ]

    def written(self, request: Any) -> None:
        """A request has its answer."""
        self.traffic.count(request, self._seconds())
        if self._access is not None:
            self._access.write(request, self._now())

    def wrong(self, request: Any, status: int, message: str, trace: str) -> None:
        """That answer is an error of ours."""
        if self._errors is not None:
            self._errors.wrong(request, status, message, trace, self._now())

    def engine(self, text: str) -> None:
        """The API begins or ends."""
        if self._errors is not None:
            self._errors.engine(text, self._now())


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("[%d/%b/%Y:%H:%M:%S]")


def shown_path(request: Any) -> bytes:
    """The path without a token in it."""
    return TOKEN.sub(b"...", request.path or b"")


def quoted(word: Any) -> str:
    """A word of the client's on one line, between quotes."""
    text = bytes(word or b"")[:LONGEST].decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() and letter not in '"\\' else f"\\x{ord(letter):02x}"
        for letter in text
    )
