"""
How numbers and lists are put into sentences: the one place that knows singular from plural.
"""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str, plural: str = "") -> str:
    """
    C{1 change}, C{2 changes}, C{no changes}.

    @param noun: in the singular.
    @param plural: where it is not the singular and an C{s}.
    """
    many = plural or f"{noun}s"
    if number == 0:
        return f"no {many}"
    return f"{number} {noun if number == 1 else many}"


def listed(items: Iterable[object], last: str = "and") -> str:
    """C{a}, C{a and b}, C{a, b and c}."""
    *rest, end = [str(item) for item in items] or [""]
    return f"{', '.join(rest)} {last} {end}" if rest else end
