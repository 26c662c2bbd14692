"""
The nodes that keep the records of orchestrations, and requests to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.domain.claims.electorate import PAIR, Electorate, Seat, found
from saltwisted.domain.orchestration.copies import Record, Takeover, Writer
from saltwisted.domain.orchestration.seats import seats_of
from saltwisted.errors import RemoteError, SaltwistedError, TakenOver
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred

PATIENCE = 5.0
"""Seconds that an answer is waited for."""


class Alone:
    """The peers of a lone master."""

    def links(self) -> Sequence[Any]:
        """Nobody."""
        return ()

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        """Nobody comes."""

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        """Nobody asks."""

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """There is nobody."""


@frozen(kw_only=True)
class Electors:
    """
    Which members get seats in runs that begin now.

    @ivar key: the key by which the members know this node.
    @ivar members: all that count for a majority, linked or not, including this node.
    @ivar gone: the keys of members that were removed or declared dead.
    @ivar key_of: the key of a link's member.
    @ivar two: the rule for two members: C{pair} or C{both}.
    """

    key: str
    members: Callable[[], Sequence[Seat]]
    gone: Callable[[], Collection[str]] = tuple
    key_of: Callable[[Any], str] = lambda link: str(link.node)
    two: str = PAIR


def alone(node: str) -> Electors:
    """A master that has no peers is known by its name."""
    return Electors(key=node, members=lambda: [Seat(node, node)])


class Keepers:
    """The nodes as one of them sees them. Reactor thread only."""

    def __init__(self, node: str, peers: IPeers, electors: Electors) -> None:
        self.node, self._peers, self._electors = node, peers, electors
        self._deaf: set[str] = set()
        # After an upgrade it may know what it did not know before
        peers.on_link(lambda link, up: self._deaf.discard(link.node))

    def reachable(self) -> list[Seat]:
        """This node, and the others that can be asked."""
        others = [Seat(link.node, self._electors.key_of(link)) for link in self._peers.links()]
        return [Seat(self.node, self._electors.key), *others]

    def _linked(self) -> set[str]:
        """Those that are there and know these words."""
        near = [seat for seat in self.reachable() if seat.node not in self._deaf]
        return {key for seat in near for key in keys_of(seat)}

    def members(self) -> list[Seat]:
        """Who is to have a seat, this node too."""
        return sorted({*self._electors.members(), Seat(self.node, self._electors.key)})

    def counted(self, writer: Writer) -> int:
        """Up to which line those of a writer count now."""
        return writer.counted(self._linked(), self._electors.gone(), self._electors.two)

    def next_seats(self, writer: Writer) -> Electorate | None:
        """Whether the seats of a run have to change now."""
        rules = self._electors
        return writer.next_seats(self._electors.members(), self._linked(), rules.gone(), rules.two)

    def seats_of(self, record: Record) -> tuple[Electorate, int]:
        """
        The seats that apply to a record, and how many lines there are up to those that name them:
        none if it names none, or if nobody of those is left.
        """
        seats, named = seats_of(record.lines)
        if seats is None or seats.is_gone(self._electors.gone()):
            return found(self.members(), seats), 0
        return seats, named

    def is_enough(self, takeover: Takeover) -> bool:
        """Whether those who have promised know of all that ever counted."""
        seats, _ = self.seats_of(takeover.best)
        rules = self._electors
        return takeover.is_enough(seats, self._linked(), rules.gone(), rules.two)

    def why_not(self, takeover: Takeover) -> str:
        """Why they do not, for people."""
        seats, _ = self.seats_of(takeover.best)
        gone = self._electors.gone()
        silent = {seat for seat in seats.seats() if not keys_of(seat) & takeover.said}
        names = ", ".join(sorted({seat.node for seat in silent if seat.key not in gone}))
        if not names:
            return "another node takes it over just now"
        all_names = ", ".join(sorted({seat.node for seat in seats.seats()}))
        return (
            f"what was written down of it last is on a majority of {all_names}, and {names} cannot"
            " be asked"
        )

    def is_doubtful(self, record: Record) -> bool:
        """Whether members that are gone may have had lines that nobody else has."""
        seats, _ = seats_of(record.lines)
        gone = self._electors.gone()
        return seats is not None and seats.may_forget(gone, self._electors.two)

    async def ask(self, node: str, word: str, body: bytes) -> bytes:
        """
        One request.

        @raises SaltwistedError: there is no answer.
        """
        for link in self._peers.links():
            if link.node == node:
                try:
                    answer = bytes(await as_deferred(link.ask(word, body, PATIENCE)))
                except RemoteError:
                    # It is of an earlier release, or its disk refuses: it has no copy
                    self._deaf.add(node)
                    raise
                self._deaf.discard(node)
                return answer
        raise TakenOver("it is not linked")

    async def ask_all(self, word: str, body: bytes) -> list[bytes]:
        """The answers of the others, as far as there are any."""

        async def ask(node: str) -> bytes | None:
            try:
                return await self.ask(node, word, body)
            except SaltwistedError:
                # It is away, or of an earlier release
                return None

        asked = [Deferred.fromCoroutine(ask(seat.node)) for seat in self.reachable()[1:]]
        answers = [await waiting for waiting in asked]
        return [answer for answer in answers if answer is not None]


def keys_of(seat: Seat) -> set[str]:
    """
    What a seat is known by in runs: its key, and its name in those that it began as a master alone.
    """
    return {seat.key, seat.node}
