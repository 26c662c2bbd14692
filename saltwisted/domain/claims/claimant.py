"""
A claimant: the result of the voters' answers, and how long it may act on what they granted.

There are three parts without a clock: L{Round} counts the answers to one question; L{last_moment}
is the end of a term from its holder's point of view; L{step} is the life of a duty on one node, as
a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum

from attrs import define, field, frozen

from saltwisted.domain.claims.electorate import PAIR, Electorate
from saltwisted.domain.claims.messages import DONE, GRANTED, HELD, Reply
from saltwisted.domain.claims.voter import MARGIN, TERM

RENEW_EVERY = 1.0
"""Seconds between two renewals."""
END_TIME = 1.5
"""Seconds that the end of a duty may take: it is called so long before its term runs out."""
LOOK_EVERY = 0.5
"""Seconds after which a node looks again whether a duty is free."""


def last_moment(sent: float) -> float:
    """
    Until when a holder may act, who asked at this moment. Each voter counts from later on, and
    longer.
    """
    return sent + TERM * (1 - MARGIN)


@define
class Round:
    """
    The answers to one question about one key.

    @ivar silent: voters that gave no answer.
    """

    electorate: Electorate
    gone: Collection[str] = ()
    two: str = PAIR
    replies: dict[str, Reply] = field(factory=dict)
    silent: set[str] = field(factory=set)

    def add(self, key: str, reply: Reply | None) -> None:
        """A voter has answered, or will not."""
        if reply is None:
            self.silent.add(key)
        else:
            self.replies[key] = reply

    def said(self, word: str) -> set[str]:
        """Who said this."""
        return {key for key, reply in self.replies.items() if reply.said == word}

    def _is_majority(self, keys: Collection[str]) -> bool:
        return self.electorate.is_majority(keys, self.gone, self.two)

    @property
    def is_granted(self) -> bool:
        """Whether the term is ours."""
        return self._is_majority(self.said(GRANTED))

    @property
    def taken(self) -> Reply | None:
        """
        One voter's statement about a key that is done, or that a majority says somebody holds.
        """
        for reply in self.replies.values():
            if reply.said == DONE:
                return reply
        holders = Counter(r.holder for r in self.replies.values() if r.said == HELD)
        for holder, _ in holders.most_common(1):
            keys = {k for k, r in self.replies.items() if r.said == HELD and r.holder == holder}
            if self._is_majority(keys):
                return next(self.replies[key] for key in sorted(keys))
        return None

    @property
    def is_over(self) -> bool:
        """Whether more answers would change nothing."""
        if self.is_granted or self.taken is not None:
            return True
        open_ = {s.key for s in self.electorate.seats()} - set(self.replies) - self.silent
        return not open_

    @property
    def highest(self) -> int:
        """The highest reported term."""
        return max((reply.term for reply in self.replies.values()), default=0)

    @property
    def planned(self) -> tuple[Reply | None, bool]:
        """
        What a dead holder had recorded last, as far as the granting voters know; and whether it is
        doubtful that this is what was begun.
        """
        found = [r for r in self.replies.values() if r.said == GRANTED and r.plan is not None]
        last = max(found, key=lambda reply: reply.accepted, default=None)
        if last is None or not last.is_first:
            return last, False
        return last, any(reply.plan != last.plan for reply in found)

    @property
    def age(self) -> float:
        """How long ago the plan was made; infinite if nobody knows."""
        ages = [r.age for r in self.replies.values() if r.plan is not None and not r.is_old]
        return max(ages, default=float("inf"))

    @property
    def can_be_asked(self) -> bool:
        """Whether those who answered at all would be a majority."""
        return self._is_majority(set(self.replies))

    def why(self) -> str:
        """Why it was not granted."""
        seats = {seat.key: seat.node for seat in self.electorate.seats()}
        parts = []
        silent = sorted(seats[key] for key in self.silent if key in seats)
        if silent:
            parts.append(f"{', '.join(silent)} cannot be asked")
        for key, reply in sorted(self.replies.items()):
            if reply.why and key in seats:
                parts.append(f"{seats[key]}: {reply.why}")
        return "; ".join(parts) or "the members do not agree"


class Duty(Enum):
    """The life of a duty on one node."""

    FREE = "not wanted"
    WANTED = "wanted"
    ASKING = "asking"
    CANCELLED = "asking, not wanted any more"
    HELD = "held"
    ENDING = "ending"


class Said(Enum):
    """An event in its life."""

    WANT = "it is wanted"
    LEAVE = "it is not wanted any more"
    LOOK = "it seems to be free"
    GRANTED = "a majority granted it"
    REFUSED = "it was not granted"
    DOUBT = "the term may run out, or was lost"
    ENDED = "all has ended"


class Do(Enum):
    """The action that follows."""

    ASK = "ask all voters"
    BEGIN = "begin"
    END = "end"
    DROP = "give the term back"


@frozen
class Step:
    """The next state, and the actions."""

    to: Duty
    do: tuple[Do, ...] = ()


TABLE: dict[tuple[Duty, Said], Step] = {
    (Duty.FREE, Said.WANT): Step(Duty.WANTED),
    (Duty.WANTED, Said.LEAVE): Step(Duty.FREE),
    (Duty.WANTED, Said.LOOK): Step(Duty.ASKING, (Do.ASK,)),
    (Duty.ASKING, Said.GRANTED): Step(Duty.HELD, (Do.BEGIN,)),
    (Duty.ASKING, Said.REFUSED): Step(Duty.WANTED),
    (Duty.ASKING, Said.LEAVE): Step(Duty.CANCELLED),
    (Duty.CANCELLED, Said.WANT): Step(Duty.ASKING),
    (Duty.CANCELLED, Said.GRANTED): Step(Duty.FREE, (Do.DROP,)),
    (Duty.CANCELLED, Said.REFUSED): Step(Duty.FREE),
    (Duty.HELD, Said.LEAVE): Step(Duty.ENDING, (Do.END,)),
    (Duty.HELD, Said.DOUBT): Step(Duty.ENDING, (Do.END,)),
    (Duty.ENDING, Said.ENDED): Step(Duty.FREE, (Do.DROP,)),
}
"""
A duty that has ended is free; a node that still wants it says so again. What is not in the table
changes nothing: one that is ending is not begun before it has ended.
"""


def step(state: Duty, said: Said) -> Step:
    """What comes of it."""
    return TABLE.get((state, said), Step(state))
