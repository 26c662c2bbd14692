"""
Who decides about claims: the votes of the members (L{saltwisted.cluster.claims.votes}), or an etcd.
L{saltwisted.cluster.claims.claims} uses what was granted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, frozen

from saltwisted.domain.claims.copies import Instance
from saltwisted.domain.claims.voter import node_of
from saltwisted.domain.claims.words import Receipt


@frozen(kw_only=True)
class Wish:
    """
    What this node wants to claim.

    @ivar plan: packed; C{None} for a duty, and for an act that somebody else has begun.
    @ivar came: the event that the claim is for: C{node#life/number}, by the node that received it.
    @ivar came_at: when the event arrived, by this node's clock.
    """

    key: str
    plan: bytes | None = None
    is_duty: bool = False
    what: str = ""
    event: str = ""
    came: str = ""
    came_at: float = 0.0


@frozen(kw_only=True)
class Granted:
    """
    The claim is granted.

    @ivar until: the last moment for which it holds, by this node's clock.
    @ivar planned: the plan of a dead holder, packed; C{None} if there was none.
    @ivar by: that holder: the node and its life, C{node#life}, if that is known.
    @ivar age: seconds since then.
    @ivar came: the event that the claim was made for; C{came_ago}: how many seconds ago it arrived,
        at least.
    """

    term: int
    until: float
    planned: bytes | None = None
    by: str = ""
    age: float = 0.0
    is_doubtful: bool = False
    came: str = ""
    came_ago: float = 0.0


@frozen(kw_only=True)
class Gone:
    """
    Another node has the claim, or has done the work.

    @ivar holder: the node.
    @ivar by: the node and its life, C{node#life}, if that is known.
    @ivar is_old: it is longer ago than C{age}; nobody knows how long.
    @ivar came: the event; C{came_ago}: how many seconds ago it arrived, at least.
    """

    holder: str
    age: float
    by: str = ""
    is_old: bool = False
    ended: bool = False
    result: str = ""
    recent: tuple[Instance, ...] = ()
    came: str = ""
    came_ago: float = 0.0

    @property
    def at_node(self) -> str:
        """The node that the event came to, which need not be the one that has claimed it."""
        return node_of(self.came or self.by or self.holder)


@frozen
class Refused:
    """
    The claim is not granted now.

    @ivar wait: whether it makes sense to ask again at once, with a higher term.
    """

    why: str
    at_once: bool = False


Outcome = Granted | Gone | Refused


NOT_ALLOWED = "this node was told to claim nothing (reactor.set_leader)"


@define
class Leave:
    """
    Whether this node may claim anything now.

    @ivar may: whether nobody has forbidden it.
    @ivar settled: whether it serves.
    """

    settled: Callable[[], bool]
    may: bool = True
    running: bool = False

    @property
    def ready(self) -> bool:
        """Whether it may begin something."""
        return self.may and self.running and self.settled()

    @property
    def why(self) -> str:
        """Why it may not."""
        return NOT_ALLOWED if not self.may else "this node stops"


class ICourt(Protocol):
    """Grants claims. Reactor thread only."""

    def ask(self, wish: Wish) -> Awaitable[Outcome]:
        """One attempt; claims that were granted in vain are released. Never fails."""

    def renew(self, held: Mapping[str, int]) -> Awaitable[Mapping[str, float]]:
        """
        Renew terms, key to term. The last moments of those that were renewed; 0.0 for one that
        is lost; nothing for one of which it is not known.
        """

    def drop(self, key: str, term: int) -> Awaitable[None]:
        """Give a term back under which nothing was begun, or all has ended."""

    def end(self, wish: Wish, term: int, result: str) -> Awaitable[bool]:
        """Say that a short act has ended; whether that is kept safely."""

    def unfinished(self) -> Sequence[str]:
        """Keys of short acts that were begun, and whose holders seem to be dead."""

    def doubts_until(self) -> float:
        """
        Before this moment, members that are gone for good may have acted without anybody else's
        knowledge; 0.0 if there is no such doubt.
        """

    def is_free(self, key: str) -> bool:
        """Whether it has a point to ask for a duty."""

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """Key to node and term of what is held now, as far as this node knows; duties only."""

    def receipts(self, event: str, limit: int) -> Awaitable[Sequence[Receipt]]:
        """What is kept of short acts."""

    def problem(self) -> str:
        """Why nothing is granted, or C{""}."""

    def on_claimed(self, receiver: Callable[[str, str], None]) -> None:
        """Call C{receiver(key, node)} when another node claims a short act."""

    def care(self) -> Awaitable[Any] | None:
        """Called each second."""
