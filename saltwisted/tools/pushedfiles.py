"""
Files that minions have pushed to a stock master, for a takeover: C{minionfs} serves them to others.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol


class Writer(Protocol):
    """Writes for the user that our master runs as; see L{saltwisted.tools.takeover.Writer}."""

    def folder(self, path: str) -> None:
        """Make a directory."""

    def file(self, path: str, data: bytes) -> None:
        """Write a file."""


def copy(source: str, target: str, writer: Writer) -> None:
    """Copy it from one C{cachedir} to another; links are left out, since they are never served."""
    for minion_id in _names(os.path.join(source, "minions")):
        top = os.path.join(source, "minions", minion_id, "files")
        for here, _, names in os.walk(top):
            below = os.path.relpath(here, source)
            for name in names:
                path = os.path.join(here, name)
                if not os.path.islink(path) and os.path.isfile(path):
                    for depth in range(1, below.count("/") + 2):
                        writer.folder(os.path.join(target, *below.split("/")[:depth]))
                    with open(path, "rb") as stream:
                        writer.file(os.path.join(target, below, name), stream.read())


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []
