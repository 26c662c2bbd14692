"""
How a fetch would map the refs of a remote, by its refspecs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

BRANCHES, TAGS = "refs/heads/", "refs/tags/"


def tracked(told: Mapping[str, str], refspecs: Iterable[str]) -> dict[str, str] | None:
    """
    The refs after a fetch, with their objects; C{None} if only git can say.

    @param told: the refs of the remote.
    @param refspecs: C{+SOURCE:TARGET}, with one star each or none, and C{^SOURCE}.
    """
    wanted: list[tuple[str, str]] = []
    unwanted: list[str] = []
    for spec in refspecs:
        if spec[:1] == "^":
            unwanted.append(spec[1:])
            continue
        source, _, target = spec.removeprefix("+").partition(":")
        stars = source.count("*"), target.count("*")
        # Git looks in several places for a short name, and fails where a name is not there
        if stars not in ((1, 1), (0, 0)) or not source.startswith("refs/"):
            return None
        if stars == (0, 0) and source not in told:
            return None
        wanted.append((source, target))
    found: dict[str, str] = {}
    origin: dict[str, str] = {}
    for ref, oid in told.items():
        if any(_middle(source, ref) is not None for source in unwanted):
            continue
        for source, target in wanted:
            middle = _middle(source, ref)
            if middle is None:
                continue
            name = target.replace("*", middle)
            if origin.setdefault(name, ref) != ref:
                return None
            found[name] = oid
    return found


def _middle(pattern: str, ref: str) -> str | None:
    """What stands for the star; C{""} where there is none, C{None} where it does not fit."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if ref == pattern else None
    fits = len(ref) >= len(head) + len(tail) and ref.startswith(head) and ref.endswith(tail)
    return ref[len(head) : len(ref) - len(tail)] if fits else None


def is_narrow(refspecs: Iterable[str]) -> bool:
    """Whether only branches and tags are wanted: a remote may have many other refs."""
    return all(spec.lstrip("+^").startswith((BRANCHES, TAGS)) for spec in refspecs)
