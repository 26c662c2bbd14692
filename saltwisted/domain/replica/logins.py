"""
Login tokens that are valid on all nodes: what is known of each, by its digest.

There is a register for each token: its terms, or that it was deleted. A deletion outranks
everything, and removes the terms. The token itself is nowhere: a node needs only the digest to
recognise it.

An expired token is deleted by an act of the node that made it, whose clock decided when it expires.
No node forgets one by itself, or nodes with the same knowledge would have different contents. A
deletion is kept until no member can have the token any more, by days of running time, as with
deleted keys. It does not count in digests, so that nodes may forget it at different moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from attrs import frozen

from saltwisted.domain.causality.knowledge import Dot, knows
from saltwisted.domain.eauth import NAME_LENGTH, Token
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError

KIND = "login"
LINGER = 3600.0
"""Seconds after its end for which a token is kept."""
MAX_GROUPS = 4096
_HEX = frozenset("0123456789abcdef")

Place = tuple[int, Dot[Stream]]


@frozen
class Login:
    """
    What is known of one token.

    @ivar token: C{None} once it is deleted.
    @ivar place: when and where it was created, or deleted.
    """

    token: Token | None
    place: Place


class LoginTokens(Registers[Login]):
    """
    The fold of kind C{login}. A body has C{op} and C{id} (the digest); C{make} with the terms, and
    C{delete}.
    """

    kind = KIND

    def key_of(self, body: Mapping[str, Any]) -> str:
        """The token's digest."""
        found = body["id"]
        if not isinstance(found, str) or len(found) != 64 or not _HEX.issuperset(found):
            raise WireError("login-id")
        return found

    def join(
        self, state: Login | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Login:
        """See the class."""
        here = (stamp, origin)
        if body["op"] == "delete":
            if state is not None and state.token is None:
                # The last of several: it is the one that has to be forgotten by all
                return Login(None, max(state.place, here))
            return Login(None, here)
        if body["op"] != "make":
            raise WireError("login-op")
        made = Login(_terms(body), here)
        if state is None:
            return made
        if state.token is None or state.place <= here:
            return state
        return made

    def facts(self, key: str, state: Login) -> Iterable[Fact]:
        """One fact: the terms, or the deletion."""
        if state.token is None:
            return [Fact({"op": "delete", "id": key}, *state.place)]
        return [Fact(make_body(key, state.token), *state.place)]

    def counts(self, state: Login) -> bool:
        """What is deleted is forgotten in time."""
        return state.token is not None

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """Forget deletions that everybody has known for long."""
        old = [
            key
            for key, state in self.registers.items()
            if state.token is None and knows(dropped, state.place[1])
        ]
        for key in old:
            self.forget(key)
        return len(old)

    def ended(self, now: float, epoch: int, ours: Callable[[str], bool]) -> list[str]:
        """
        The digests of tokens that are not valid: expired, or of another epoch than this.

        @param ours: whether this node may delete the tokens of a node.
        """
        return [
            key
            for key, state in self.registers.items()
            if state.token is not None
            and (now > state.token.expire + LINGER or state.token.epoch != epoch)
            and ours(state.place[1].source.node)
        ]


def make_body(digest: str, token: Token) -> dict[str, Any]:
    """The body that makes a token known."""
    return {"op": "make", "id": digest, **token.plain(), "epoch": token.epoch}


def delete_body(digest: str) -> dict[str, Any]:
    """The body that ends a token, for good."""
    return {"op": "delete", "id": digest}


def _terms(body: Mapping[str, Any]) -> Token:
    name, eauth, groups, rules = body["name"], body["eauth"], body["groups"], body["rules"]
    start, expire, epoch = float(body["start"]), float(body["expire"]), body["epoch"]
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= NAME_LENGTH
        or not isinstance(eauth, str)
        or len(eauth) > NAME_LENGTH
        or not isinstance(groups, (list, tuple))
        or len(groups) > MAX_GROUPS
        or not all(isinstance(group, str) for group in groups)
        or not isinstance(rules, (list, tuple, type(None)))
        or not isfinite(start)
        or not isfinite(expire)
        or not isinstance(epoch, int)
        or isinstance(epoch, bool)
    ):
        raise WireError("login-terms")
    return Token(
        name=name,
        eauth=eauth,
        start=start,
        expire=expire,
        groups=tuple(groups),
        rules=None if rules is None else list(rules),
        epoch=epoch,
    )
