"""
What a claim is, and the other answers to a request for one.

The terms: a node I{claims} a key, each member I{grants} it or not, and a node that has the grants
of a majority I{holds} the claim for a term. The number of the term only grows with a key. It is the
fencing number of what the holder writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class Claim:
    """
    A beginning: this node, and no other, does what the plan says.

    @ivar key: what is claimed.
    @ivar term: the fencing number: higher than that of each earlier holder of this key.
    @ivar holder: the node.
    @ivar plan: what will be done, as recorded, which may be an earlier holder's plan.
    @ivar age: seconds since the plan was made, if another node made it.
    @ivar is_doubtful: two nodes that died had planned differently, or it is too long ago: it is
        unknown what was done. Work that must not be done twice is then lost.
    @ivar until: seconds of the holder's monotonic clock; see C{IClaims.holds}.
    """

    key: str
    term: int
    holder: str
    plan: Mapping[str, Any] = field(factory=dict)
    age: float = 0.0
    is_doubtful: bool = False
    until: float = float("inf")


@frozen(kw_only=True)
class Taken:
    """
    Somebody else does it, or it is done.

    @ivar holder: the node.
    @ivar ended: whether it is done; then C{result} says how.
    """

    key: str
    holder: str
    ended: bool = False
    result: str = ""


@frozen(kw_only=True)
class NoMajority:
    """
    Nobody may begin: too few members can be reached, or this node was told to claim nothing.

    @ivar why: for display.
    """

    key: str
    why: str


Answer = Claim | Taken | NoMajority


@frozen(kw_only=True)
class Receipt:
    """
    What is known of one claim of a short act.

    @ivar what: what was to be done, in a few words for people.
    @ivar event: the tag of the event for which it was done, or C{""}.
    @ivar begun: time of day by the holder's clock.
    @ivar ended: the same, or C{None} if it is not known to have ended.
    @ivar result: how it ended.
    """

    key: str
    term: int
    node: str
    what: str = ""
    event: str = ""
    begun: float = 0.0
    ended: float | None = None
    result: str = ""

    def shown(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "key": self.key,
            "term": self.term,
            "node": self.node,
            "what": self.what,
            "event": self.event,
            "begun": self.begun,
            "ended": self.ended,
            "result": self.result,
        }


def merged(receipts: Iterable[Receipt]) -> list[Receipt]:
    """
    The combined knowledge of several members, with one receipt for each act, oldest first; the same
    whoever asks.

    Each member has a row for an act, and not all say the same: one was away at the end, or granted
    an attempt that failed. One that heard of the end from others, when it asked for the act itself,
    does not know the time: its row ends when that attempt began.
    """

    def credit(one: Receipt) -> tuple[bool, bool, int, float, float]:
        ended = one.ended if one.ended is not None else one.begun
        return one.ended is not None, ended != one.begun, one.term, -one.begun, -ended

    found: dict[str, Receipt] = {}
    for receipt in receipts:
        known = found.get(receipt.key)
        if known is None or credit(known) < credit(receipt):
            found[receipt.key] = receipt
    return sorted(found.values(), key=lambda one: (one.begun, one.term, one.key))


@frozen(kw_only=True)
class Came:
    """
    An event whose key was assigned when it arrived, which may be long before it is claimed.

    @ivar source: the node that received it and its life, C{node#life}, if another life of a node
        received it than the one that claims; else C{""}.
    @ivar age: how many seconds ago that was; C{None}: only the time of day would tell.
    @ivar row: what distinguishes it from all others: C{node#life/number}.
    """

    key: str
    source: str = ""
    age: float | None = 0.0
    row: str = ""


@frozen(kw_only=True)
class Occasion:
    """
    An event of a minion, by what distinguishes it from others and identifies its copies.

    @ivar alike: what it has in common with its copies.
    @ivar call: the C{__pub_jid} that it carries, or C{""}: identical events with the same one are
        the same event, even if they come to one node twice.
    """

    alike: str
    call: str = ""
