"""
The nodes that keep what is written down of orchestrations, and questions to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.errors import RemoteError, SaltwistedError, TakenOver
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred

PATIENCE = 5.0
"""Seconds that an answer is waited for."""


class Alone:
    """The peers of a master that has none."""

    def links(self) -> Sequence[Any]:
        """Nobody."""
        return ()

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        """Nobody comes."""

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        """Nobody asks."""

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """There is nobody."""


class Keepers:
    """
    As one node sees them. Reactor thread only.

    @param members: the ids of all nodes that count for a majority, this one too.
    @param two: what holds for two members: C{pair} or C{both}.
    """

    def __init__(
        self, node: str, peers: IPeers, members: Callable[[], Collection[str]], two: str
    ) -> None:
        self.node, self._peers, self._members, self._two = node, peers, members, two
        self._deaf: set[str] = set()
        # After an upgrade it may know what it did not know before
        peers.on_link(lambda link, up: self._deaf.discard(link.node))

    def reachable(self) -> list[str]:
        """This node, and the others that can be asked."""
        return [self.node, *(link.node for link in self._peers.links())]

    def voters(self) -> tuple[Collection[str], Collection[str], str]:
        """The members, those that are there and know these words, and what holds for two."""
        members = set(self._members()) | {self.node}
        return members, set(self.reachable()) - self._deaf, self._two

    async def ask(self, node: str, word: str, body: bytes) -> bytes:
        """
        One question.

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

        asked = [Deferred.fromCoroutine(ask(node)) for node in self.reachable()[1:]]
        answers = [await waiting for waiting in asked]
        return [answer for answer in answers if answer is not None]
