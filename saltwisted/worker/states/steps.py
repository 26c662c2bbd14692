"""
Who is informed of the calls of a run, before and after: an orchestration is recorded while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from saltwisted.domain.highstate.words import Chunk

STEPS = "__steps__"
"""Under which the surroundings of a job have L{Steps}, if its run is written down."""
ACTS = "__orchestration__"
"""Under which they have what an orchestration asks of its master."""


class Steps(Protocol):
    """Gets reports about a run. Numbers are the places of calls in their order."""

    def compiled(self, chunks: Sequence[Chunk], pillar: Any) -> bool:
        """A run is about to begin; whether it is the one that is written down."""

    def begin(self, number: int, low: Chunk) -> dict[str, Any] | None:
        """A call is about to be made; its result, if it has one already."""

    def end(self, number: int, result: Mapping[str, Any]) -> None:
        """A call has its result, or will not be made."""


class Numbered:
    """
    The calls of one run, by their numbers.

    @param steps: gets the reports; C{None} for nobody.
    """

    def __init__(self, steps: Steps | None) -> None:
        self._steps = steps
        self._numbers: dict[str, int] = {}
        self._open: set[str] = set()

    def compiled(self, tags: Sequence[str], chunks: Sequence[Chunk], pillar: Any) -> None:
        """The order is known; nobody is told of a run that is not written down."""
        if self._steps is None:
            return
        if self._numbers or not self._steps.compiled(chunks, pillar):
            self._steps = None
            return
        for tag in tags:
            self._numbers.setdefault(tag, len(self._numbers))

    def begin(self, tag: str, low: Chunk) -> dict[str, Any] | None:
        """A call is about to be made."""
        if self._steps is None or not self._numbers:
            return None
        return self._steps.begin(self._number(tag), low)

    def end(self, tag: str, result: Mapping[str, Any]) -> None:
        """A call has its result."""
        if self._steps is not None and self._numbers:
            self._steps.end(self._number(tag), result)

    def left(self, tag: str) -> None:
        """A call goes on in a process of its own."""
        self._open.add(tag)

    def collected(self, running: Mapping[str, Mapping[str, Any]], going: set[str]) -> None:
        """Processes of calls have ended, but those that are C{going}."""
        for tag in sorted(self._open - going, key=self._number):
            self._open.discard(tag)
            self.end(tag, running[tag])

    def _number(self, tag: str) -> int:
        return self._numbers.setdefault(tag, len(self._numbers))
