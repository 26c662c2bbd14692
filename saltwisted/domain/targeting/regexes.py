"""
Whether a regular expression may take for ever.

Python's C{re} tries one way after another, and some expressions have more ways through a short text
than there are atoms (C{(a+)+$}); nothing can interrupt it. This module reads the expression as
C{re} parses it and is strict: everything that is not clearly cheap counts as risky. Cheap are a few
open repetitions one after another, none inside another and without a choice in them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

VARIABLE = 6
"""Repetitions of varying length that a cheap expression has at most, C{?} included."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_LONG = 16


@lru_cache(maxsize=256)
def is_risky(pattern: str, repetitions: int = 2) -> bool:
    """
    Whether matching may take longer than a text's length to the power of C{repetitions}.

    @param repetitions: how many open repetitions (C{*}, C{+}, C{{2,}}) count as cheap: two for
        names of at most 255 characters, one for what may be long.
    """
    try:
        parsed = import_module("re._parser").parse(pattern)
    except (re.error, TypeError, OverflowError):
        return False  # it is none; compiling it says so
    except (ImportError, RecursionError):
        return True
    try:
        open_ones, variable, alone = _weigh(parsed, False)
    except RecursionError:
        return True
    return not alone or open_ones > repetitions or variable > VARIABLE


def _weigh(items: Any, repeated: bool) -> tuple[int, int, bool]:
    """Open and varying repetitions below, and whether none is inside of another."""
    open_ones = variable = 0
    alone = True
    for kind, value in items:
        name = str(kind)
        inner: list[Any] = []
        within = repeated
        if name in _REPEATS:
            least, most, body = value
            most = int(most)
            inner = [body]
            within = repeated or most > 1
            if most != least:
                variable += 1
                alone = alone and not repeated
            if most > _LONG:
                open_ones += 1
        elif name == "BRANCH":
            inner = value[1]
            alone = alone and not repeated
        elif name == "SUBPATTERN":
            inner = [value[-1]]
        elif name == "ATOMIC_GROUP":
            inner = [value]
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [value[1]]
        elif name.startswith("GROUPREF"):
            alone = False
        for body in inner:
            more_open, more_variable, fine = _weigh(body, within)
            open_ones += more_open
            variable += more_variable
            alone = alone and fine
    return open_ones, variable, alone
