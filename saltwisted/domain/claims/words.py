"""
What a claim is, and what else may be answered to whoever wants one.

The word for the way: a node I{claims} a key, each member I{grants} it or not, and whoever has the
grants of a majority I{holds} the claim for a term. The number of the term only grows with a key.
It is the fencing number of what the holder writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class Claim:
    """
    A beginning: this node, and no other, does what the plan says.

    @ivar key: what for.
    @ivar term: the fencing number: higher than that of each earlier holder of this key.
    @ivar holder: the node.
    @ivar plan: what will be done; as it was written down, which may be an earlier holder's.
    @ivar age: seconds since the plan was made, where that was by somebody else.
    @ivar is_doubtful: two nodes that died had planned differently, or it is too long ago: it cannot
        be told what was done. What must not be done twice is lost then.
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

    @ivar holder: who.
    @ivar ended: whether it is done; C{result} says how then.
    """

    key: str
    holder: str
    ended: bool = False
    result: str = ""


@frozen(kw_only=True)
class NoMajority:
    """
    Nobody may begin: too few members can be asked, or this node was told to claim nothing.

    @ivar why: for people.
    """

    key: str
    why: str


Answer = Claim | Taken | NoMajority


@frozen(kw_only=True)
class Receipt:
    """
    What is known of one claim of a short act.

    @ivar what: what was to be done, in a few words for people.
    @ivar event: the tag of the event that it was done for, or C{""}.
    @ivar begun: time of day by the holder's clock.
    @ivar ended: the same, or C{None} while it is not known to have ended.
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
    What several members know, with one receipt for each act, oldest first; the same whoever asks.

    Each member has a row for an act, and not all say the same: one was away at the end, or granted
    an attempt that came to nothing. One that heard of the end from others, when it asked for the
    act itself, does not know the time: its row ends when that attempt began.
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
    An event whose key was given when it came, which may be long before it is claimed.

    @ivar source: the node that it came to and its life, C{node#life}, if another life of one took
        it than the one that claims; else C{""}.
    @ivar age: how many seconds ago that was; C{None}: only the time of day would tell.
    @ivar row: what tells it from all others: C{node#life/number}.
    """

    key: str
    source: str = ""
    age: float | None = 0.0
    row: str = ""


@frozen(kw_only=True)
class Occasion:
    """
    An event of a minion, by what tells it from others and knows its copies.

    @ivar alike: what it has in common with its copies.
    @ivar call: the C{__pub_jid} that it carries, or C{""}: whatever is alike and has the same, is
        the same event, though it comes to one node twice.
    """

    alike: str
    call: str = ""
