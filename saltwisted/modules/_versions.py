"""
Versions of any form, in their order: numbers and words, compared one by one.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"\d+|[a-z]+")


def order(version: object) -> list[tuple[int, int | str]]:
    """To compare by: a number is more than a word, C{10} is more than C{9}."""
    found = _PARTS.findall(str(version))
    return [(1, int(part)) if part.isdigit() else (0, part) for part in found]
