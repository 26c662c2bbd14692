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


def are(number: int, noun: str, plural: str = "", verbs: tuple[str, str] = ("is", "are")) -> str:
    """
    The same with its verb: C{1 change is}, C{no changes are}.

    @param verbs: for one and for many.
    """
    return f"{counted(number, noun, plural)} {verbs[number != 1]}"


HAVE = ("has", "have")
WERE = ("was", "were")


def listed(items: Iterable[object], last: str = "and") -> str:
    """C{a}, C{a and b}, C{a, b and c}."""
    *rest, end = [str(item) for item in items] or [""]
    return f"{', '.join(rest)} {last} {end}" if rest else end
