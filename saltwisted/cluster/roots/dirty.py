"""
Paths that were reported as changed, and that have not been scanned since.

What the kernel said about each is kept: an event that reports a file's end says nothing new if
there is none, and the events of our own writing are told apart from those of a user. Pure.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from saltwisted.transports.inotify import CLOSE_WRITE, DELETE, IS_DIR, MODIFY, MOVED_FROM

REMOVED = MOVED_FROM | DELETE | IS_DIR
"""Bits of events that tell of an end: what comes to be at that path later makes another event."""
WRITTEN = MODIFY | CLOSE_WRITE
"""Bits of events that we never cause: we write aside, and rename."""
LOOK = 1
"""No event, but somebody wants the path to be looked at."""


class Dirty:
    """The paths, each with the bits of everything that was reported about it."""

    def __init__(self) -> None:
        self._masks: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._masks)

    def __contains__(self, path: bytes) -> bool:
        return path in self._masks

    def add(self, path: bytes, mask: int = LOOK) -> None:
        """A path was reported."""
        self._masks[path] = self._masks.get(path, 0) | mask

    def update(self, paths: Iterable[bytes]) -> None:
        """Look at all these."""
        for path in paths:
            self.add(path)

    def clear(self) -> None:
        """Discard all reports."""
        self._masks.clear()

    def take(self, known: Container[bytes]) -> set[bytes]:
        """
        Take out all paths to be scanned.

        @param known: paths where we know of something: the end of other files does not matter.
        """
        masks, self._masks = self._masks, {}
        return {path for path, mask in masks.items() if mask & ~REMOVED or path in known}

    def take_echo(self, written: Container[bytes], known: Container[bytes]) -> set[bytes]:
        """
        Take out the paths that we have just written, and about which nothing was reported that we
        cannot have caused.

        They must be compared with what we know of them, and added again if they differ. Where we
        have removed something, nothing needs to be compared.
        """
        mine = [
            path
            for path, mask in self._masks.items()
            if path in written and not mask & (WRITTEN | LOOK)
        ]
        found = set()
        for path in mine:
            mask = self._masks.pop(path)
            if mask & ~REMOVED or path in known:
                found.add(path)
        return found

    def follow(self, old: bytes, new: bytes) -> None:
        """We have moved a directory: reports about paths in it apply to their new names."""
        inside = old + b"/"
        for path in [path for path in self._masks if path.startswith(inside)]:
            self.add(new + b"/" + path[len(inside) :])
