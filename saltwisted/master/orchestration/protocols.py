"""
The interfaces to the records of runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from saltwisted.domain.orchestration.copies import NONE, Rank


class IRunWriter(Protocol):
    """
    One run of an orchestration for which this node writes the lines.

    @ivar doubtful: it was taken over, and members that were removed or declared dead may have had
        lines that no other member has.
    """

    doubtful: bool

    @property
    def lines(self) -> Sequence[bytes]:
        """All, packed (L{saltwisted.domain.orchestration.words})."""

    def add(self, line: Mapping[str, Any]) -> Awaitable[None]:
        """
        One line more; fires when it counts.

        @raises TakenOver: another node writes this run now, or the claim is lost.
        @raises StoreError: the own disk refuses.
        """

    def close(self) -> None:
        """Nothing more is written here."""


class IRunRecords(Protocol):
    """
    The records of orchestrations, on the disks of a majority of the members. Reactor thread only.
    """

    def begin(
        self, jid: str, claim: int, line: Mapping[str, Any], holds: Callable[[], bool]
    ) -> Awaitable[IRunWriter]:
        """
        Begin to write a run that is new; fires when its first line counts.

        @param claim: the number of the claim under which it is written.
        @param holds: whether that claim may still be acted on.
        @raises TakenOver: it is lost before that.
        @raises StoreError: the own disk refuses.
        """

    def take(
        self, jid: str, attempt: int, claim: int, holds: Callable[[], bool], patience: float
    ) -> Awaitable[IRunWriter]:
        """
        Write a run that another node, or another life of this one, has written before. When this
        fires, nobody else can write it, and its lines are all that ever counted (but see
        C{doubtful}).

        @param attempt: how often it was begun or resumed.
        @param patience: seconds after which it gives up, if the nodes that must be asked are away.
        @raises TakenOver: the claim is lost before that, or it has given up.
        @raises StoreError: this node's disk refuses.
        """

    def read(self, jid: str, enough: Rank = (NONE, 0)) -> Awaitable[Sequence[bytes]]:
        """
        What the nodes that can be asked have of a run; nothing of one that nobody knows.

        @param enough: nobody is asked if this disk has as much.
        """

    def heads(self) -> Awaitable[Mapping[str, Rank]]:
        """The runs that the nodes that can be asked know of, and what the best of them has."""

    def unfinished(self) -> Mapping[str, str]:
        """The runs that have not ended, as far as this disk knows, and on which node they go on."""

    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """
        The generations of these, as far as this disk knows, each with its trees: share to digest,
        in hexadecimal digits.
        """

    def all_unfinished(self) -> Awaitable[Mapping[str, str]]:
        """The same, of all nodes that can be asked."""

    def forget(self, before: float) -> Awaitable[None]:
        """Delete all runs whose jid was assigned before this time of day."""

    def on_change(self, receiver: Callable[[str], None]) -> None:
        """Call C{receiver(jid)} when this disk has more of a run."""

    def wish_at(self, node: str, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        Make another node halt, continue or end a run.

        @param wish: C{stop} at once, or as L{saltwisted.worker.states.pauses.apply} takes it.
        @raises DeniedError: it cannot be asked, or refuses.
        """

    def on_wish(self, receiver: Callable[[str, Mapping[str, Any], str], Awaitable[Any]]) -> None:
        """Call C{receiver(jid, wish, user)} when another node asks for that."""

    async def startService(self) -> None:
        """Read the disk."""

    async def stopService(self) -> None:
        """Accept nothing any more."""
