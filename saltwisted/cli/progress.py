"""
The bar of C{salt --progress}: how many of the minions have returned, and for how long it runs.
And a line that counts, for what takes longer than a second.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO


class Bar:
    """
    One line that is written over and over, on a terminal, a file or a pipe alike.

    @ivar total: how many returns make it full.
    """

    def __init__(self, total: int, stream: TextIO) -> None:
        self.total = total
        self._count = 0
        self._stream = stream
        self._begin = time.monotonic()
        self._draw()

    def step(self) -> None:
        """One more."""
        self._count += 1
        self.total = max(self.total, self._count)
        self._draw()

    def end(self) -> None:
        """Leave the line as it stands."""
        self._stream.write("\n")
        self._stream.flush()

    def _draw(self) -> None:
        self._stream.write(line(self._count, self.total, time.monotonic() - self._begin, _width()))
        self._stream.write("\r")
        self._stream.flush()


class Counter:
    """
    One line on a terminal's standard error that counts, from the second second on.

    @param text: with C{{}} for each number.
    """

    def __init__(self, text: str, stream: TextIO | None = None, after: float = 1.0) -> None:
        self._text = text
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + after if self._stream.isatty() else float("inf")
        self._shown = False

    def show(self, *numbers: int) -> None:
        """These are the numbers by now; ten times a second at most."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.1
            self._shown = True
            self._stream.write("\r" + self._text.format(*numbers))
            self._stream.flush()

    def end(self) -> None:
        """Wipe the line."""
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()


def line(count: int, total: int, seconds: float, width: int) -> str:
    """The text for C{count} of C{total} after so many seconds, C{width} columns wide."""
    share = count / total if total else 1.0
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{share:4.0%} |"
    right = f"| Elapsed Time: {hours}:{minutes:02}:{rest:02} Returns: [{count}/{total}]"
    room = max(0, width - len(left) - len(right))
    return left + ("#" * int(share * room)).ljust(room) + right


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns - 1
    except OSError:
        return 79
