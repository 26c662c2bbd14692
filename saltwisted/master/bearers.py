"""
A provider's tokens that come with each request, once they are checked: what is known about them on
this node, only in memory.

A script that sends its token with each call does not log in. Its token is checked at the first
call, and again after some minutes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.domain.bearer import BearerError, claimed_name, parse, terms_of
from saltwisted.domain.eauth import BEARER_LENGTH, Token, new_token, token_digest
from saltwisted.interfaces import Entropy

MOST = 1000
"""Of those that are kept; the oldest goes first."""


@frozen
class Standing:
    """What is known about one token."""

    word: str
    token: Token


class Bearers:
    """The tokens of one node."""

    def __init__(self, now: Callable[[], float], entropy: Entropy) -> None:
        self._now = now
        self._entropy = entropy
        self._standing: dict[str, Standing] = {}
        self._tokens: dict[str, Token] = {}
        self._judging: dict[str, list[Deferred[None]]] = {}

    def get(self, digest: str) -> Token | None:
        """What a word of ours stands for, by its digest."""
        return self._tokens.get(digest)

    def name_in(self, text: str, settings: Mapping[str, Any]) -> str:
        """The user name that a token claims; C{""} if it is not a token."""
        if len(text) > BEARER_LENGTH:
            return ""
        try:
            return claimed_name(parse(text), terms_of(settings))
        except BearerError:
            return ""

    async def word(
        self, text: str, source: str, judge: Callable[[str, str], Awaitable[Token]]
    ) -> str:
        """
        What is known about a token. If several requests come with the same one at once, the first
        has it checked.

        @param judge: raises if something is wrong with it.
        """
        key = sha256(text.encode("utf-8", "replace")).hexdigest()
        while key in self._judging:
            waiting: Deferred[None] = Deferred()
            self._judging[key].append(waiting)
            await waiting
        found = self._standing.get(key)
        if found is not None and found.token.alive(self._now()):
            return found.word
        self._judging[key] = []
        try:
            token = await judge(text, source)
            return self._put(key, token)
        finally:
            for waiting in self._judging.pop(key):
                if not waiting.called:
                    waiting.callback(None)

    def _put(self, key: str, token: Token) -> str:
        self._drop(key)
        while len(self._standing) >= MOST:
            self._drop(next(iter(self._standing)))
        word = new_token(self._entropy, "sha256")
        self._standing[key] = Standing(word, token)
        self._tokens[token_digest(word)] = token
        return word

    def _drop(self, key: str) -> None:
        old = self._standing.pop(key, None)
        if old is not None:
            self._tokens.pop(token_digest(old.word), None)
