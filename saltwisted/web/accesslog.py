"""
C{log_access_file}: a line for each request, as web servers write it.

Never what is behind the question mark, nor a header that proves somebody: a token in a log is one
that everybody has who reads it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, TextIO

from saltwisted.errors import ConfigError

LONGEST = 500
"""Characters of a word of the client's."""
TOKEN = re.compile(rb"(?<=/)[0-9A-Fa-f]{32,}(?=/|$)")
"""What looks like one in a path: C{/ws/TOKEN} is for browsers, which have no other way."""


class AccessLog:
    """One file, to which is appended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: TextIO | None = None

    def startService(self) -> None:
        """
        Open it.

        @raises ConfigError: it cannot be written to.
        """
        try:
            # A path is written down as it came, whatever it is
            self._file = open(  # noqa: SIM115 - it is closed at the end
                self._path, "a", buffering=1, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise ConfigError(f"log_access_file {self._path}: {error.strerror}") from None

    def stopService(self) -> None:
        """Close it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def write(self, request: Any, now: float) -> None:
        """A request has its answer."""
        if self._file is None:
            return
        moment = datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        path = TOKEN.sub(b"...", request.path or b"")
        asked = " ".join(quoted(part) for part in (request.method, path, request.clientproto))
        agent = quoted(request.getHeader(b"user-agent") or b"-")
        address = getattr(request.client, "host", "-")
        try:
            self._file.write(
                f'{address} - {quoted(request.who.encode()) or "-"} [{moment}] "{asked}"'
                f' {int(request.code)} {request.sentLength or "-"} "-" "{agent}"\n'
            )
        except OSError:
            # A full disk: the request has its answer all the same
            return


def quoted(word: Any) -> str:
    """A word of the client's on one line, between quotes."""
    text = bytes(word or b"")[:LONGEST].decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() and letter not in '"\\' else f"\\x{ord(letter):02x}"
        for letter in text
    )
