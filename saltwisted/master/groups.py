"""
The groups of users who hold tokens, as their directory has them now.

A token lives for hours, but a membership may end at any minute. So while a token is used, the
directory is queried again in the background. A user who has left a group loses the rights that it
gave within L{HOLD} seconds on every node; a user who is no longer in any directory loses all
tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.eauth import Token
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

FRESH = 120.0
"""Seconds for which an answer is not asked for again."""
HOLD = 300.0
"""Seconds for which it counts, where there is no newer one."""
RETRY = 10.0
"""Seconds between two questions about a user when the first had no answer."""
MOST = 10_000
"""Users of whom something is remembered."""

Look = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""C{look(eauth, username)}: a L{saltwisted.domain.eauth.Proof} as plain data."""


@frozen
class Seen:
    """
    What was known about a user, and when.

    @ivar known: whether there was such a user.
    """

    at: float
    groups: tuple[str, ...]
    known: bool = True


class Groups:
    """One master's answers."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        now: Callable[[], float],
        look: Look,
        gone: Callable[[str, str], Awaitable[None]],
        tell: Callable[[str, str], None],
    ) -> None:
        """
        @param now: by the clock that tokens live by.
        @param gone: told of a user who is in no directory any more.
        @param tell: C{tell(about, text)} for the log.
        """
        self._clock = clock
        self._now = now
        self._look = look
        self._gone = gone
        self._tell = tell
        self._seen: dict[tuple[str, str], Seen] = {}
        self._asked: dict[tuple[str, str], float] = {}
        self._waiting: dict[tuple[str, str], list[Deferred[None]]] = {}

    async def of(self, token: Token) -> tuple[str, ...] | None:
        """The user's groups; C{None} if the user no longer exists."""
        who = (token.eauth, token.name)
        if self._age(who, token) >= FRESH:
            asking = self._ask(who)
            if self._age(who, token) >= HOLD:
                await asking
            else:
                let_go(asking, self.log, "groups are not asked for again")
        seen = self._last(who, token)
        if self._now() - seen.at >= HOLD:
            self._tell(
                f"groups {who}",
                f"external_auth: {who[0]}: the groups of {who[1]} could not be asked for in five"
                " minutes, and do not count until they can",
            )
            return ()
        return seen.groups if seen.known else None

    def _last(self, who: tuple[str, str], token: Token) -> Seen:
        """A login is an answer too."""
        seen = self._seen.get(who)
        if seen is None or seen.at < token.start:
            return Seen(token.start, token.groups)
        return seen

    def _age(self, who: tuple[str, str], token: Token) -> float:
        return self._now() - self._last(who, token).at

    def _ask(self, who: tuple[str, str]) -> Deferred[None]:
        """Fires after the answer, or at once where there was none a moment ago."""
        done: Deferred[None] = Deferred()
        if who in self._waiting:
            self._waiting[who].append(done)
        elif self._now() - self._asked.get(who, -RETRY) < RETRY:
            done.callback(None)
        else:
            self._waiting[who] = [done]
            let_go(Deferred.fromCoroutine(self._answer(who)), self.log, "groups are not asked for")
        return done

    async def _answer(self, who: tuple[str, str]) -> None:
        if len(self._asked) >= MOST:
            self._asked.clear()
            self._seen.clear()
        self._asked[who] = self._now()
        try:
            began = self._now()
            answer = await self._look(*who)
            if answer.get("problem"):
                self._tell(f"problem {who[0]}", str(answer["problem"]))
            else:
                groups = tuple(str(each) for each in answer.get("groups") or ())
                known = answer.get("ok") is True
                self._seen[who] = Seen(began, groups, known)
                if not known:
                    await self._gone(*who)
        finally:
            async for done in in_turns(self._clock, self._waiting.pop(who)):
                done.callback(None)
