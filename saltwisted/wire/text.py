"""
Text that UTF-8 can carry, and text that it cannot (T-TEXT-1).

Python's text may have halves of characters (lone surrogates): JSON writes them as C{"\\ud800"},
and bytes of a command line or a file name that are no UTF-8 become some. UTF-8 has no form for
them, so they can be neither sent nor stored. Where others bring text in, such text is refused
(L{has_halves}); what must not be refused, a return above all, is written with a backslash in the
place of each half (L{escaped}).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ESCAPE", "HALVES", "escaped", "has_halves", "is_text", "json_has_halves"]

ESCAPE = "backslashreplace"
"""The error handler of Python's codecs that writes a half as text: C{\\ud800}."""

HALVES = "text that is no UTF-8 (half a character, a lone surrogate)"
"""What is said of it, at each door."""


def is_text(text: str) -> bool:
    """Whether UTF-8 can carry this text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """The text itself, or one that UTF-8 can carry, with a backslash for each half."""
    return text.encode("utf-8", ESCAPE).decode()


def json_has_halves(source: str | bytes, value: Any) -> bool:
    """
    As L{has_halves}, of a value that was read from this JSON, where only an escape makes a half:
    without one nothing is looked at.

    @param source: JSON in UTF-8, or what was decoded strictly.
    """
    if isinstance(source, str):
        may = "\\ud" in source or "\\uD" in source
    else:
        may = b"\\ud" in source or b"\\uD" in source
    return may and has_halves(value)


def has_halves(value: Any) -> bool:
    """
    Whether there is text that UTF-8 cannot carry in a value: plain data, however deep, keys
    included.
    """
    waiting: list[Any] = [(value,)]
    while waiting:
        for each in waiting.pop():
            if isinstance(each, str):
                if not each.isascii() and not is_text(each):
                    return True
            elif isinstance(each, Mapping):
                waiting.append(each)
                waiting.append(each.values())
            elif isinstance(each, (list, tuple, set, frozenset)):
                waiting.append(each)
    return False
