"""
The limits on targets.

A target may come from a user with few rights, or from one minion of many. So a target is measured
before it is read; a target beyond these limits matches nobody, and the reason is reported. They are
far from what people write. Lists of names have limits of their own, because a batch names its
minions.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.targeting.nodegroups import OPERATORS

LENGTH = 65_536
"""Characters of an expression."""
WORDS = 1024
"""Words of a compound, operators and parentheses included; globs of one target."""
DEPTH = 64
"""Parentheses within parentheses."""
PARTS = 64
"""Steps of a path into grains or pillar."""
NAMES = 131_072
"""Names of a list."""
NAMES_LENGTH = 8_388_608
"""Characters of a list."""

PATHS = frozenset(("grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact"))
COMPOUNDS = frozenset(("compound", "compound_pillar_exact"))


def fault(tgt: Any, tgt_type: str, delimiter: str = ":") -> str:
    """What is too much in a target, as a sentence; C{""} when nothing is."""
    if isinstance(tgt, (list, tuple, set, frozenset, dict)):
        return _of_list(tgt, tgt_type)
    if not isinstance(tgt, str):
        return ""
    if tgt_type == "list":
        if len(tgt) > NAMES_LENGTH:
            return _long(len(tgt), NAMES_LENGTH)
        return _many("names", tgt.count(",") + 1, NAMES)
    if len(tgt) > LENGTH:
        return _long(len(tgt), LENGTH)
    if tgt_type in COMPOUNDS:
        return _of_words(tgt.split())
    if tgt_type in PATHS:
        return path_fault(tgt, delimiter)
    return ""


def path_fault(tgt: str, delimiter: str) -> str:
    """What is too much in a path into nested data."""
    # Below the first map the delimiter is a colon, whatever it was before
    parts = tgt.count(":") + 1
    if delimiter and delimiter != ":":
        parts += tgt.count(delimiter)
    return _many("parts", parts, PARTS)


def _of_list(tgt: Any, tgt_type: str) -> str:
    if tgt_type == "list":
        return _many("names", len(tgt), NAMES)
    reason = _many("words", len(tgt), WORDS)
    if reason:
        return reason
    words = [str(word) for word in tgt]
    length = sum(map(len, words))
    if length > LENGTH:
        return _long(length, LENGTH)
    return _of_words(words) if tgt_type in COMPOUNDS else ""


def _of_words(words: list[str]) -> str:
    reason = _many("words", len(words), WORDS)
    if reason:
        return reason
    depth = deepest = 0
    for word in words:
        if word == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif word == ")":
            depth -= 1
    if deepest > DEPTH:
        return f"The target has {deepest} nested parentheses; at most {DEPTH} are allowed"
    for word in words:
        if word not in OPERATORS and word[1:2] == "@" and word[0] in "GPIJ":
            reason = path_fault(word[2:], ":")
        elif word not in OPERATORS and word[2:3] == "@" and word[0] in "GPIJ":
            reason = path_fault(word[3:], word[1])
        if reason:
            return reason
    return ""


def _long(length: int, most: int) -> str:
    return f"The target is {length} characters long; at most {most} are allowed"


def _many(what: str, count: int, most: int) -> str:
    return f"The target has {count} {what}; at most {most} are allowed" if count > most else ""
