"""
What an SLS means by a Python package: its name, and which versions will do (PEP 440, 508).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from attrs import frozen

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<implicit>\d+)|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_n>\d*)))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*"
    r"(?:\((?P<inner>[^)]*)\)|(?P<specs>(?:===|~=|==|!=|<=|>=|<|>)[^;]*))?\s*(?:;.*)?"
)
_SPEC = re.compile(r"\s*(===|~=|==|!=|<=|>=|<|>)\s*([^\s,]+)\s*")

Spec = tuple[str, str]
"""Operator and version."""


@frozen(order=True)
class Version:
    """
    One version, in the order of PEP 440.

    @ivar release: without zeros at its end.
    @ivar before: what makes it older than the release: C{dev} alone, then a, b and rc.
    """

    epoch: int
    release: tuple[int, ...]
    before: tuple[int, ...]
    post: int
    dev: tuple[int, int]
    local: tuple[tuple[int, int | str], ...]

    @property
    def early(self) -> bool:
        """Whether it precedes its release."""
        return self.before[0] < 3 or self.dev[0] == 0


def parse_version(text: str) -> Version | None:
    """A version; C{None} if it is none."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    post = -1
    if match["implicit"] is not None or match["post"] is not None:
        post = int(match["implicit"] or match["post_n"] or 0)
    developing = match["dev"] is not None
    if match["pre"]:
        before = (_STAGES[match["pre"].lower()], int(match["pre_n"] or 0))
    elif developing and post < 0:
        before = (-1, 0)
    else:
        before = (3, 0)
    return Version(
        epoch=int(match["epoch"] or 0),
        release=tuple(release),
        before=before,
        post=post,
        dev=(0, int(match["dev_n"] or 0)) if developing else (1, 0),
        local=tuple(
            (1, int(part)) if part.isdigit() else (0, part.lower())
            for part in re.split(r"[-_.]", match["local"] or "")
            if part
        ),
    )


def _public(version: Version) -> tuple[Any, ...]:
    return (version.epoch, version.release, version.before, version.post, version.dev)


def _padded(version: Version, length: int) -> tuple[int, ...]:
    return (version.release + (0,) * length)[:length]


def _prefixed(version: Version, prefix: Version, length: int) -> bool:
    same = version.epoch == prefix.epoch
    return same and _padded(version, length) == _padded(prefix, length)


def _meets(version: Version, text: str, operator: str, wanted: str) -> bool:
    if operator == "===":
        return text.lower() == wanted.lower()
    if operator in ("==", "!=") and wanted.endswith(".*"):
        prefix = parse_version(wanted[:-2])
        if prefix is None:
            return False
        fits = _prefixed(version, prefix, wanted.count("."))
        return fits is (operator == "==")
    other = parse_version(wanted)
    if other is None:
        return False
    one, two = _public(version), _public(other)
    if operator in ("==", "!="):
        same = one == two and (not other.local or version.local == other.local)
        return same is (operator == "==")
    if operator == "~=":
        return one >= two and _prefixed(version, other, wanted.count("."))
    if operator == ">=":
        return one >= two
    if operator == "<=":
        return one <= two
    if operator == ">":
        # A later build of the same release is not greater than it.
        newer_build = version.post >= 0 and other.post < 0 and one[:2] == two[:2]
        return one > two and not newer_build
    earlier_of_it = version.early and not other.early and one[:2] == two[:2]
    return one < two and not earlier_of_it


def fulfils(text: str, specs: Iterable[Spec]) -> bool:
    """Whether a version meets all conditions; an early one only where a condition names one."""
    wanted = list(specs)
    if not wanted:
        return True
    version = parse_version(text)
    if version is None:
        return False
    if version.early:
        named = (parse_version(one.removesuffix(".*")) for operator, one in wanted)
        if not any(one is not None and one.early for one in named):
            return False
    return all(_meets(version, text, operator, one) for operator, one in wanted)


def same(one: str, other: str) -> bool:
    """Whether two versions are one."""
    first, second = parse_version(one), parse_version(other)
    return first is not None and first == second


@frozen
class Requirement:
    """
    @ivar name: empty where only pip can tell it, as for an address.
    """

    name: str
    specs: tuple[Spec, ...]


def parse_requirement(text: str) -> Requirement | None:
    """A package as pip takes it on its command line; C{None} if that is not well formed."""
    if re.match(r"(git|svn|hg|bzr)\+", text) or "://" in text or text.startswith(("/", ".")):
        return Requirement("", ())
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return None
    specs = []
    for one in (match["inner"] or match["specs"] or "").split(","):
        if not one.strip():
            continue
        spec = _SPEC.fullmatch(one)
        if spec is None or (spec[1] != "===" and parse_version(spec[2].removesuffix(".*")) is None):
            return None
        specs.append((spec[1], spec[2]))
    return Requirement(match["name"], tuple(specs))
