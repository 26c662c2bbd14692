"""
What modules and states that deal with packages share: versions, wildcards, the refresh mark.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools

log = logging.getLogger(__name__)

Compare = Callable[..., Any]
"""C{compare(one, other, ignore_epoch=False)} gives -1, 0, 1, or C{None} if it cannot tell."""

_OPERATORS = {"<": (-1,), "<=": (-1, 0), "==": (0,), ">=": (0, 1), ">": (1,), "!=": (-1, 1)}


def rtag(opts: Mapping[str, Any]) -> str:
    """The file whose presence asks the next state run to refresh the package lists once."""
    return os.path.join(opts["cachedir"], "pkg_refresh")


def clear_rtag(opts: Mapping[str, Any]) -> None:
    """Remove the mark."""
    try:
        os.remove(rtag(opts))
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("Encountered error removing rtag: %s", error)


def write_rtag(opts: Mapping[str, Any]) -> None:
    """Set the mark."""
    try:
        _files.mark(rtag(opts))
    except OSError as error:
        log.warning("Encountered error writing rtag: %s", error)


def check_refresh(opts: Mapping[str, Any], refresh: Any = None) -> bool:
    """Whether to refresh: when told to, or when the mark is set and nobody forbids it."""
    return systools.is_true(refresh) or (os.path.isfile(rtag(opts)) and refresh is not False)


def compare(
    one: Any, operator: str, other: Any, cmp_func: Compare, ignore_epoch: bool = False
) -> bool:
    """Whether two versions stand to one another as the operator says; false if nobody can tell."""
    wanted = _OPERATORS.get(operator)
    if wanted is None:
        log.error("Invalid operator '%s' for version comparison", operator)
        return False
    result = cmp_func(one, other, ignore_epoch=ignore_epoch)
    if result is None:
        return False
    return (result > 0) - (result < 0) in wanted


def split_comparison(version: str) -> tuple[str, str]:
    """C{">= 1.2"} to operator and version; the operator may be missing."""
    match = re.match(r"^(<=>|!=|>=|<=|>>|<<|<>|>|<|=)?\s?([^<>=]+)$", version)
    if match is None:
        return "", version
    return match.group(1) or "", match.group(2)


def match_version(
    desired: str, available: Iterable[str], cmp_func: Compare, ignore_epoch: bool = False
) -> str | None:
    """The first of the versions that fits C{">= 1.2"}, or C{None}."""
    operator, version = split_comparison(desired)
    for candidate in available:
        if compare(candidate, operator or "==", version, cmp_func, ignore_epoch):
            return candidate
    return None


def match_wildcard(installed: Iterable[str], wanted: dict[str, Any]) -> dict[str, Any]:
    """Wanted packages with each C{*} name replaced by the installed ones it stands for."""
    result = {name: value for name, value in wanted.items() if "*" not in name}
    for pattern, value in wanted.items():
        if "*" in pattern:
            for name in fnmatch.filter(installed, pattern):
                result[name] = value
    return result


def module_environment(
    opts: Mapping[str, Any], pillar: Any, names: tuple[str, ...]
) -> dict[str, str]:
    """
    What the option or pillar C{system-environment:modules:NAME:_} adds to the environment.

    @param names: the virtual and the real name of the module; the later one wins.
    """
    found: dict[str, str] = {}
    for source in (opts, pillar or {}):
        modules = ((source.get("system-environment") or {}).get("modules")) or {}
        for name in names:
            found.update((modules.get(name) or {}).get("_") or {})
    return found


def foreign_name(name: str, arch: str, grains: Mapping[str, Any]) -> str:
    """C{name:arch} for a package of another architecture on amd64, as Salt lists it."""
    native = grains.get("osarch", "")
    foreign = grains.get("cpuarch", "") == "x86_64" and native == "amd64"
    return f"{name}:{arch}" if foreign and arch not in ("all", native) else name


def debian_compare(one: str, other: str) -> int | None:
    """
    The order of two Debian versions, by the rules of C{deb-version(7)}.

    @return: C{None} if a version has a syntax that only C{dpkg} itself can judge.
    """
    first, second = _debian_parts(one), _debian_parts(other)
    if first is None or second is None:
        return None
    if first[0] != second[0]:
        return -1 if first[0] < second[0] else 1
    return _debian_order(first[1], second[1]) or _debian_order(first[2], second[2])


def _debian_parts(version: str) -> tuple[int, str, str] | None:
    match = re.fullmatch(r"(?:(\d+):)?([A-Za-z0-9.+~-]+?)(?:-([A-Za-z0-9.+~]+))?", version)
    if match is None or not match.group(2)[0].isdigit() or version.endswith("-"):
        return None
    return int(match.group(1) or 0), match.group(2), match.group(3) or ""


def _letter_rank(letter: str) -> int:
    if letter == "~":
        return -1
    return ord(letter) if letter.isalpha() else ord(letter) + 256


def _debian_order(one: str, other: str) -> int:
    """Compare by turns the text and the number at the front, until one differs."""
    left, right = re.split(r"(\d+)", one), re.split(r"(\d+)", other)
    for at in range(max(len(left), len(right))):
        a = left[at] if at < len(left) else ""
        b = right[at] if at < len(right) else ""
        if at % 2:
            x, y = int(a or 0), int(b or 0)
            if x != y:
                return -1 if x < y else 1
            continue
        for place in range(max(len(a), len(b))):
            p = _letter_rank(a[place]) if place < len(a) else 0
            q = _letter_rank(b[place]) if place < len(b) else 0
            if p != q:
                return -1 if p < q else 1
    return 0


def loose_compare(one: Any, other: Any, ignore_epoch: bool = False) -> int:
    """The order of two versions of any kind: numbers and words by turns, dots apart."""
    left, right = (
        [int(part) if part.isdigit() else part for part in re.findall(r"\d+|[a-z]+|[^\da-z.]+", v)]
        for v in (
            str(item).split(":", 1)[-1] if ignore_epoch else str(item) for item in (one, other)
        )
    )
    if any(isinstance(part, str) for part in (*left, *right)):
        # A word has no order among numbers, but among their digits.
        a, b = ([p if isinstance(p, str) else f"{p:08d}" for p in side] for side in (left, right))
        return (a > b) - (a < b)
    return (left > right) - (left < right)
