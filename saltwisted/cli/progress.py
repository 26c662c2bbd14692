"""
The bar of C{salt --progress}: how many of the minions have returned, and for how long it runs.
And lines that count, for what takes longer than a second.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from saltwisted.cli import console


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


class Waiting:
    """
    The line that is shown for anything longer than a second, and taken away at the end.

    @param is_shown: whether anything is.
    """

    def __init__(self, what: str, is_shown: bool) -> None:
        self._what = what
        self._is_shown = is_shown
        self._began = time.monotonic()
        self._waits: Mapping[str, int] = {}
        self._sent: Mapping[str, int] = {}
        self._problem = ""
        self._work: Sequence[Mapping[str, Any]] = ()
        self._is_there = False

    def show(self, item: Mapping[str, Any]) -> None:
        """
        The node has told how far it is: C{work} (L{_progress}), C{waits} (how many changes each
        node lacks), C{sent} (how many bytes it was sent), and C{problem}, in words.
        """
        self._waits = item.get("waits", self._waits)
        self._sent = item.get("sent", self._sent)
        self._problem = item.get("problem", self._problem)
        self._work = item.get("work", self._work)
        seconds = time.monotonic() - self._began
        if not self._is_shown or seconds < 1:
            return
        parts = [_progress(one) for one in self._work]
        if self._waits:
            parts.append(f"changes on their way: {', '.join(map(self._way, self._waits))}")
        if self._problem and not parts:
            parts.append(self._problem)
        text = f"{self._what}: {'; '.join([*parts, f'{seconds:.0f} s'])}"
        room = shutil.get_terminal_size().columns - 1
        console.write_error(f"\r\x1b[K{text[:room]}")
        self._is_there = True

    def _way(self, node: str) -> str:
        sent = self._sent.get(node, 0)
        return f"{node}: {self._waits[node]}" + (f" ({in_units(sent)} sent)" if sent else "")

    def end(self) -> None:
        """Take the line away."""
        if self._is_there:
            self._is_there = False
            console.write_error("\r\x1b[K")


def _progress(work: Mapping[str, Any]) -> str:
    of = f" of {work['of']}" if work["of"] else ""
    text = f"{work['share']}: {work['done']}{of} {work['doing']}"
    if not work.get("of_bytes"):
        return text
    return f"{text}, {in_units(work['bytes'])} of {in_units(work['of_bytes'])}"


def in_units(count: int) -> str:
    """So many bytes, as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return str(count)


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
