"""
What an SLS means by a version of a package: conditions, and whether a version meets them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.modules import _packages

Condition = tuple[str, str]
"""Operator and version."""


def conditions(text: str) -> list[Condition]:
    """C{">=1.2, <2"} as operators and versions; no operator means C{==}."""
    found: list[Condition] = []
    for one in text.split(",") if text.strip() else ():
        operator, version = _packages.split_comparison(one.strip())
        found.append(("==" if operator in ("", "=") else operator, version))
    return found


def _ignores_epoch(operator: str, version: str, told: bool | None) -> bool:
    """Where nobody says: C{1.2} names any epoch, C{1:1.2} and C{>1.2} do not."""
    if told is not None:
        return told
    return not ("<" in operator or ">" in operator or ":" in version)


def meets(
    installed: str, wanted: Condition, compare: _packages.Compare, ignore_epoch: bool | None = None
) -> bool:
    """Whether one version meets one condition; C{==} takes wildcards too."""
    operator, version = wanted
    if operator == "==" and fnmatch.fnmatch(installed, version):
        return True
    ignore = _ignores_epoch(operator, version, ignore_epoch)
    return _packages.compare(installed, operator, version, compare, ignore)


def fulfils(
    installed: Iterable[str],
    text: str,
    compare: _packages.Compare,
    ignore_epoch: bool | None = None,
    allow_updates: bool = False,
) -> bool:
    """
    Whether some installed version meets all conditions.

    @param allow_updates: a single C{==} is met by what is newer, too.
    """
    wanted = conditions(text)
    if allow_updates and len(wanted) == 1 and wanted[0][0] == "==":
        wanted = [(">=", wanted[0][1])]
    return any(all(meets(one, each, compare, ignore_epoch) for each in wanted) for one in installed)


def described(name: str, desired: Mapping[str, Any]) -> str:
    """A package as the comments call it: C{name}, C{name=1.2} or C{name>=1.2}."""
    version = desired[name]
    if not version:
        return name
    return f"{name}{version}" if version.startswith(("<", ">", "=")) else f"{name}={version}"
