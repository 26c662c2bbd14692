"""
Small queries to the system that grains and execution modules share.

Examples are the path of a program, and the contents of a small file. Nothing here starts a process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

USUAL_DIRS = (
    "/sbin",
    "/bin",
    "/usr/sbin",
    "/usr/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
)
"""Searched after C{PATH}, as in Salt: daemons are often started with a poor C{PATH}."""


def which(name: str | None, path: str | None = None) -> str | None:
    """
    The first executable of this name in C{PATH} and the usual directories, or C{None}.

    @param name: a bare name, or a path, which must then be executable itself.
    @param path: a C{PATH} other than the environment's.
    """
    if not name:
        return None
    if os.path.isabs(name):
        return name if is_executable(name) else None
    dirs = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    seen = set(dirs)
    for folder in (*dirs, *(item for item in USUAL_DIRS if item not in seen)):
        full = os.path.join(folder, name)
        if is_executable(full):
            return full
    return None


def which_bin(names: list[str] | tuple[str, ...]) -> str | None:
    """The first of these programs that is there, or C{None}."""
    for name in names:
        found = which(name)
        if found:
            return found
    return None


def is_executable(path: str) -> bool:
    """A regular file (or a link to one) that this process may run."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and os.access(path, os.X_OK)


def read_text(path: str, default: str = "", limit: int = -1) -> str:
    """A small text file, undecodable bytes escaped; C{default} if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(limit)
    except OSError:
        return default


def read_bytes(path: str) -> bytes | None:
    """A small file, or C{None} if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def is_true(value: Any) -> bool:
    """
    Truth as Salt reads it from a command line.

    A number is true above zero (a fraction below one is not: Salt cuts it first), text that
    is a number likewise, other text only if it says C{true} in any case, the rest as in Python.
    """
    for kind in (int, float):
        try:
            value = kind(value)
        except (ValueError, TypeError, OverflowError):
            continue
    if isinstance(value, (int, float)):
        return value > 0
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def compare_dicts(old: Any, new: Any) -> dict[Any, dict[str, Any]]:
    """
    What changed between two maps, as Salt reports it: C{key: {old, new}}.

    A side on which the key is missing is the empty string.
    """
    left: Mapping[Any, Any] = old or {}
    right: Mapping[Any, Any] = new or {}
    changes: dict[Any, dict[str, Any]] = {}
    for key in {*left, *right}:
        if key not in left:
            changes[key] = {"old": "", "new": right[key]}
        elif key not in right:
            changes[key] = {"new": "", "old": left[key]}
        elif right[key] != left[key]:
            changes[key] = {"old": left[key], "new": right[key]}
    return changes
