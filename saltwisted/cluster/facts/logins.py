"""
Login tokens of a cluster: made on one node, valid on all, deleted everywhere.

This replaces the files of a lone master (L{saltwisted.stores.tokens}), and takes the tokens in them
into the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.cluster.facts.ondisk import done_or_unknown
from saltwisted.domain.eauth import Token
from saltwisted.domain.replica.logins import KIND, LoginTokens, delete_body, make_body
from saltwisted.stores.tokens import TokenFiles
from saltwisted.transports.deferreds import let_go

LOOK = 600.0
"""Seconds between two looks for tokens that have ended."""
STEP = 0.05
PATIENCE = 30.0
"""Seconds that a token waits at most for this node to hear the others."""
AT_ONCE = 200
"""Tokens that one look deletes."""


class ClusterTokens:
    """A part of the service, started after the log and the files."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        fold: LoginTokens,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        now: Callable[[], float],
        epoch: Callable[[], int],
        settled: Callable[[], Awaitable[Any]],
        ready: Callable[[], bool],
        behind: Callable[[], bool],
        members: Callable[[], Container[str]],
        node: str,
        files: TokenFiles,
        problem: Callable[[], str] = lambda: "",
    ) -> None:
        """
        @param append: C{append(kind, body)} of the fact log; on this node's disk when it returns.
        @param now: the latest time that the members' clocks have shown, within bounds.
        @param epoch: of the join tokens: the removal of a node ends all tokens.
        @param settled: waits until the members that can be reached have what was appended.
        @param ready: whether this node has caught up; before it may not know of deletions, and
            honours no token.
        @param behind: whether it has still to hear what others did while it stood still, or
            while a link was down: tokens wait meanwhile.
        @param members: the other members: they delete their own ended tokens.
        @param problem: why this node's disk does not take what is appended, or C{""}.
        """
        self._clock = clock
        self._fold = fold
        self._append = append
        self.now = now
        self._epoch = epoch
        self._settled = settled
        self._ready = ready
        self._behind = behind
        self._members = members
        self._node = node
        self._files = files
        self._problem = problem
        self._loop = LoopingCall(self.look)
        self._loop.clock = clock

    @property
    def epoch(self) -> int:
        """Tokens of an earlier one are worthless."""
        return self._epoch()

    def startService(self) -> None:
        """Take the tokens along that were made before this master was a member."""
        taken = Deferred.fromCoroutine(self._take_along())
        let_go(taken, self.log, "tokens of before the cluster are lost: log in again")
        let_go(self._loop.start(LOOK, now=False), self.log, "expired tokens are no longer dropped")

    def stopService(self) -> None:
        """No more."""
        if self._loop.running:
            self._loop.stop()

    async def _take_along(self) -> None:
        for digest, token in self._files.items():
            if token.alive(self.now()) and digest not in self._fold.registers:
                await self._append(KIND, make_body(digest, evolve(token, epoch=self.epoch)))
            await self._files.drop(digest)

    def look(self) -> None:
        """Delete expired tokens, of this node and of former members."""
        if self._ready():
            let_go(Deferred.fromCoroutine(self._clean()), self.log, "ended tokens are kept")

    async def _clean(self) -> None:
        others = self._members()
        ended = self._fold.ended(
            self.now(), self.epoch, lambda node: node == self._node or node not in others
        )
        for digest in ended[:AT_ONCE]:
            await self._append(KIND, delete_body(digest))

    async def fresh(self) -> None:
        """Returns when this node knows what was deleted on others while it could not hear them."""
        end = self._clock.seconds() + PATIENCE
        while not self._ready() or self._behind():
            if self._clock.seconds() >= end:
                return
            await deferLater(self._clock, STEP)

    def get(self, digest: str) -> Token | None:
        """A token that was made and not deleted; it may have expired."""
        found = self._fold.registers.get(digest) if self._ready() else None
        return found.token if found is not None else None

    def items(self) -> Iterator[tuple[str, Token]]:
        """All of them."""
        for digest, state in list(self._fold.registers.items()):
            if state.token is not None:
                yield digest, state.token

    async def put(self, digest: str, token: Token) -> None:
        """
        Keep a new one; when this returns the members that can be reached honour it too.

        @raises StoreError: it is not on this node's disk.
        """
        await self._do(make_body(digest, token))

    async def _do(self, body: Mapping[str, Any]) -> None:
        async def act() -> None:
            await self._append(KIND, body)
            await self._settled()

        await done_or_unknown(self._clock, self._problem, act)

    async def drop(self, digest: str) -> bool:
        """
        Delete one; when this returns, no reachable member accepts it any more.

        @raises StoreError: the deletion is not on this node's disk.
        """
        if self.get(digest) is None:
            return False
        await self._do(delete_body(digest))
        return True
