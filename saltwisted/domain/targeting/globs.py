"""
Shell wild cards, read in one pass.

The patterns are those of L{fnmatch}. Its C{translate} searches the end of every C{[} again, so a
pattern of 64 KiB of them takes it a minute.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache

_SIGN = re.compile(r"[*?[]")


def translate(pattern: str) -> str:
    """A regular expression for the whole text, as L{fnmatch.translate} makes it."""
    # Behind the last bracket that closes, none that opens is more than itself
    closed = pattern.rfind("]") + 1
    if "[" in pattern[closed:]:
        pattern = pattern[:closed] + pattern[closed:].replace("[", "[[]")
    return fnmatch.translate(pattern)


@lru_cache(maxsize=512)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """The same, compiled."""
    return re.compile(translate(pattern))


def glob_test(pattern: str) -> Callable[[str], bool]:
    """
    The same as a predicate, for a pattern that few texts come near to: it is compiled when the
    first one does.
    """
    first = _SIGN.search(pattern)
    if first is None:
        return pattern.__eq__
    prefix = pattern[: first.start()]
    least = 0 if "[" in pattern else len(pattern) - pattern.count("*")

    def test(text: str) -> bool:
        if len(text) < least or not text.startswith(prefix):
            return False
        return glob_regex(pattern).match(text) is not None

    return test


def globbed(text: str, pattern: str) -> bool:
    """Whether the pattern means this text; case matters."""
    return glob_regex(pattern).match(text) is not None
