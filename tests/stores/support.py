"""
What the tests of stores share: directories of their own, and a reactor for threads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds after which a thread that does not report fails the test."""


class ThreadReactor:
    """
    Runs what threads hand over in the thread of the test, while it waits for an answer.

    No time passes by itself: C{callLater(0)} is the next turn, anything longer is refused.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], Any, Any]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Hand a call over."""
        self._calls.put((function, args, kwargs))

    def seconds(self) -> float:
        """No time passes."""
        return 0.0

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any) -> None:
        """The next turn."""
        if delay:
            raise AssertionError("time does not pass here")
        self._calls.put((function, args, {}))

    def turn(self) -> None:
        """Wait for one call, and make it."""
        function, args, kwargs = self._calls.get(timeout=PATIENCE)
        function(*args, **kwargs)

    def result(self, d: Deferred[T]) -> T:
        """Turn until the Deferred has fired; its value, or its exception."""
        found: list[Any] = []
        d.addBoth(found.append)
        while not found:
            self.turn()
        if hasattr(found[0], "raiseException"):
            found[0].raiseException()
        return found[0]  # type: ignore[no-any-return]


class FolderTestCase(SynchronousTestCase):
    """A test with an empty directory."""

    def setUp(self) -> None:
        """Make it, under a short path."""
        self.folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *parts: str) -> str:
        """A path in the directory."""
        return os.path.join(self.folder, *parts)

    def write(self, path: str, content: bytes | str = b"", mode: int = 0o644) -> str:
        """A file in the directory, with the directories above it."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(full, mode)
        return full

    def umask(self, mask: int) -> None:
        """A umask for the rest of the test."""
        self.addCleanup(os.umask, os.umask(mask))

    def modes(self) -> dict[str, int]:
        """Every file and directory below the folder with its mode."""
        found = {}
        for top, dirs, files in os.walk(self.folder):
            for name in dirs + files:
                path = os.path.join(top, name)
                found[os.path.relpath(path, self.folder)] = os.lstat(path).st_mode & 0o7777
        return found
