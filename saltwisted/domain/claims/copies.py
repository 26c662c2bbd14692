"""
The same event on several masters: which are copies of one, and which are several events.

A stock minion in hot mode sends each event to every master, each time with a stamp of its own.
Events with the same minion, tag and data (without C{_stamp}) are copies if they came to different
nodes, within ten seconds, and the other node's event has no copy from here yet. Two from the same
node are two events, unless both carry the same C{__pub_jid}: stock's C{salt-call} sends an event to
one master twice. For a minion's start only minion and tag count, because its data differ by
connection.

A stock minion keeps its events for a master that is away, and sends them in order when that master
is back, or after it has waited a minute for an answer that was lost. The time in such a request
does not help: 3008 seals it when the event is fired, 3006 and 3007 seal it when it is sent. So if a
minion is connected to another node as well, an event that arrives here is taken for a copy of an
identical event that came to others within L{LATE} and has no copy from here: there are as many
copies as events. If that is wrong because a copy was lost, then this event came to the others too,
and they react to it.

Identical events are numbered. The number is part of the key that is claimed, so that two nodes that
see copies at the same time, and do not know of each other's yet, claim the same key: one gets it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from saltwisted.domain.claims.words import Occasion

_NUMBER = re.compile("[0-9]{1,18}")
"""Other digits than these are none to L{int}, and more of them are no number of ours."""
WINDOW = 10.0
"""Seconds within which a copy comes to another node."""
LATE = 75.0
"""The same for a minion that is at several nodes, and keeps what it has for one that is away."""
SLACK = 1.0
"""Seconds that an event takes from a node's disk to another one's, and then some."""
MAX_KINDS = 100_000
"""Kinds of events that are remembered at most; beyond it the oldest are forgotten earlier."""
EACH = frozenset(("_stamp", "ts", "nonce", "tok"))
"""
What each request has of its own; an event that is sent by itself carries the whole request.
"""
KEEP = LATE
"""Seconds for which numbers that were given are remembered; longer than any copy is on its way."""
AT_ONCE = 1000
"""Kinds that are forgotten in one go: about a millisecond."""


def occasion_of(minion: str, tag: str, data: Any) -> Occasion:
    """What an event of a minion is known by."""
    call = _call(data)
    if tag in ("minion_start", f"salt/minion/{minion}/start"):
        return Occasion(alike=_digest([minion, tag]))
    return Occasion(alike=_digest([minion, tag, _bare(data)]), call=call)


def _call(data: Any) -> str:
    """The C{__pub_jid} of an event; C{salt-call} puts it into what C{event.send} was given."""
    inner = data.get("data") if isinstance(data, Mapping) else None
    for place in (data, inner):
        if isinstance(place, Mapping) and place.get("__pub_jid"):
            return str(place["__pub_jid"])
    return ""


def _bare(data: Any) -> Any:
    """The data without what each copy has of its own: stamps, and those of the request."""
    if not isinstance(data, Mapping):
        return data
    bare = {key: value for key, value in data.items() if key not in EACH}
    # `event.send` nests what it was given
    inner = bare.get("data")
    if isinstance(inner, Mapping):
        bare["data"] = {key: value for key, value in inner.items() if key != "_stamp"}
    return bare


def _digest(parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, default=repr, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@frozen
class Instance:
    """
    A claimed event: the number of its key, the node that it came to, and how many seconds ago it
    was claimed.
    """

    number: int
    node: str
    age: float


@define
class _Instance:
    """
    One event.

    @ivar nodes: to which nodes it is known to have come.
    """

    number: int
    seen: float
    nodes: set[str] = field(factory=set)


@define
class _Kind:
    """All that is alike. C{last} is the highest number that is known to be given."""

    last: int = 0
    touched: float = 0.0
    instances: list[_Instance] = field(factory=list)


class Copies:
    """
    What one node knows of instances; times are seconds of its own monotonic clock.

    @param node: this node's id.
    @param mark: a further part of the keys of numbered instances, so that nobody else assigns the
        same keys.
    """

    def __init__(self, node: str, mark: str = "") -> None:
        self._node, self._mark = node, mark
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()
        self._calls: OrderedDict[str, float] = OrderedDict()

    def came(self, occasion: Occasion, now: float, window: float = WINDOW) -> str | None:
        """
        An event came to this node: returns the key to claim for it, or C{None} for one that came
        here before. For a copy it is the key that another node has already claimed: it is ours if
        that node has given it up.

        @param window: seconds within which it may be a copy.
        """
        if occasion.call:
            # One key for all that carry this call; whoever is late finds it taken
            key = _key(occasion.alike, f"j{occasion.call}")
            return key if _is_first(self._calls, key, now) else None
        alike = occasion.alike + self._mark
        kind = self._kind(alike, now)
        instance = self._copied(kind, now, window)
        if instance is not None:
            return _key(alike, str(instance.number))
        return _key(alike, str(self._new(kind, self._node, kind.last + 1, now)))

    def _copied(self, kind: _Kind, now: float, window: float) -> _Instance | None:
        """
        The event of which what came here is the copy: the first of those that came in the last
        seconds, else the first of those before.
        """
        open_ = [each for each in kind.instances if self._node not in each.nodes]
        for within in (WINDOW, window):
            for instance in sorted(open_, key=lambda each: each.seen):
                if instance.seen > now - within:
                    instance.nodes.add(self._node)
                    return instance
        return None

    def back(self, key: str) -> None:
        """The event was refused, and will be sent again: it is not the one that came before."""
        self._calls.pop(key, None)

    def given(self, key: str, now: float) -> None:
        """An earlier life of this node assigned this key to an event, which is taken over now."""
        alike, number = number_of(key)
        if number is None:
            self._calls[key] = now
            return
        kind = self._kind(alike, now)
        if all(each.number != number for each in kind.instances):
            self._new(kind, self._node, number, now)

    def claimed(self, key: str, node: str, age: float, now: float) -> None:
        """
        The key of an event was claimed: copies of it may come here.

        @param node: the node that received it, whoever claims it: an event that comes to that node
            is a copy of nothing that came there before.
        @param age: how many seconds ago.
        """
        alike, number = number_of(key)
        if number is None or node == self._node:
            return
        kind = self._kind(alike, now)
        for instance in kind.instances:
            if instance.number == number:
                instance.nodes.add(node)
                return
        self._new(kind, node, number, now - age)

    def taken(
        self,
        key: str,
        node: str,
        age: float,
        recent: Sequence[Instance],
        now: float,
        window: float = WINDOW,
    ) -> str | None:
        """
        The key that L{came} had assigned was claimed before: C{None} if our event is a copy of one
        that another node has claimed, or the key to claim instead.

        @param node: the node that received the event for which it was claimed.
        @param age: how many seconds ago it was claimed.
        @param recent: what else the voters know about such events.
        @param window: seconds within which ours may be a copy.
        """
        alike, number = number_of(key)
        if number is None:
            return None
        kind = self._kind(alike, now)
        # The number is another's: ours was not the first with it
        kind.instances = [each for each in kind.instances if each.number != number]
        for instance in (Instance(number, node, age), *recent):
            kind.last = max(kind.last, instance.number)
            if instance.age <= window:
                name = _key(alike, str(instance.number))
                self.claimed(name, instance.node, instance.age, now)
        if self._copied(kind, now, window) is not None:
            return None
        return _key(alike, str(self._new(kind, self._node, kind.last + 1, now)))

    def _kind(self, alike: str, now: float) -> _Kind:
        kind = self._kinds.get(alike)
        if kind is None:
            kind = self._kinds[alike] = _Kind()
        self._kinds.move_to_end(alike)
        kind.touched = now
        kind.instances = [each for each in kind.instances if each.seen > now - LATE]
        self.forget(now)
        return kind

    def forget(self, now: float) -> None:
        """
        Forget events that are so old that no copy of them is on its way any more; call it
        repeatedly. A number that is assigned again is found taken, as long as members remember for
        what.
        """
        for _ in range(AT_ONCE):
            oldest = next(iter(self._kinds.values()), None)
            if oldest is None:
                return
            if oldest.touched > now - KEEP and len(self._kinds) <= MAX_KINDS:
                return
            self._kinds.popitem(last=False)

    def _new(self, kind: _Kind, node: str, number: int, now: float) -> int:
        kind.last = max(kind.last, number)
        kind.instances.append(_Instance(number, now, {node}))
        return number


class LoneCopies:
    """
    The same for a lone node: each event is one by itself, except those that carry the same
    C{__pub_jid}. Nothing is remembered of the others: a number is assigned only once in a life.

    @param mark: a further part of the keys of numbered instances: the life.
    """

    def __init__(self, mark: str = "") -> None:
        self._mark = mark
        self._count = 0
        self._calls: OrderedDict[str, float] = OrderedDict()

    def came(self, occasion: Occasion, now: float, window: float = WINDOW) -> str | None:
        """The key to claim for an event, or C{None} for one that came before."""
        if not occasion.call:
            self._count += 1
            return _key(occasion.alike + self._mark, str(self._count))
        key = _key(occasion.alike, f"j{occasion.call}")
        return key if _is_first(self._calls, key, now) else None

    def back(self, key: str) -> None:
        """The event was refused, and will be sent again: it is not the one that came before."""
        self._calls.pop(key, None)

    def given(self, key: str, now: float) -> None:
        """An earlier life assigned this key to an event, which is taken over now."""
        if number_of(key)[1] is None:
            self._calls[key] = now

    def taken(self, key: str, *known: Any) -> str | None:
        """
        The key was claimed before: the next one, or C{None} for an event that has come before.
        """
        alike, number = number_of(key)
        if number is None:
            return None
        self._count += 1
        return _key(alike, str(self._count))


def _is_first(calls: OrderedDict[str, float], key: str, now: float) -> bool:
    """Whether no event came with this call of late; it is remembered then."""
    while calls and next(iter(calls.values())) <= now - KEEP:
        calls.popitem(last=False)
    if key in calls:
        return False
    calls[key] = now
    return True


class EventKeys:
    """
    The keys of events, assigned when they arrive (C{IEventKeys}).

    @param seconds: monotonic.
    @param is_taken: whether a key was claimed here longer ago than numbers are remembered.
    @param window_of: within how many seconds an event of a minion may be a copy.
    """

    def __init__(
        self,
        copies: Copies | LoneCopies,
        node: str,
        seconds: Callable[[], float],
        is_taken: Callable[[str], bool] = lambda key: False,
        window_of: Callable[[str], float] = lambda minion: WINDOW,
    ) -> None:
        self._copies, self._node, self._seconds, self._is_taken = copies, node, seconds, is_taken
        self._window_of = window_of

    def of(self, minion: str, tag: str, data: Mapping[str, Any]) -> str | None:
        """According to earlier events here, and known claims of others."""
        now = self._seconds()
        key = self._copies.came(occasion_of(minion, tag, data), now, self._window_of(minion))
        while key is not None and self._is_taken(key):
            key = self._copies.taken(key, self._node, float("inf"), (), now)
        return key

    def back(self, key: str) -> None:
        """That event will come again."""
        self._copies.back(key)

    def given(self, key: str) -> None:
        """No other event gets it."""
        self._copies.given(key, self._seconds())


@frozen(kw_only=True)
class Known:
    """
    What is known of the claimant of a key.

    @ivar holder: the node and its life; C{age}: how many seconds ago, if that is known.
    @ivar came: for which event, C{node#life/number}; a node with an older release does not say it.
    @ivar came_ago: how many seconds ago the event arrived, at least.
    """

    holder: str
    age: float | None
    came: str = ""
    came_ago: float = 0.0


def is_taken_event(
    key: str, row: str, since: float | None, known: Known, window: float = WINDOW
) -> bool:
    """
    The key of an event that another life of a node received, and which is taken over now, was
    claimed: whether that is known to have been for this event, or a copy of it.

    An event that came to the same node is this very event, or another one. One that came to another
    node is a copy if both came within the time in which copies come. Otherwise it was an identical
    event whose number that life had not known, or which got a number that nobody had claimed. That
    life may have claimed this event under a later one, or not at all.

    @param row: the event, C{node#life/number}.
    @param since: how many seconds ago it came, if that is known.
    @param window: seconds within which it may be a copy.
    """
    if number_of(key)[1] is None:
        return True
    source, node = row.rpartition("/")[0] or row, _node_of(row)
    if not known.came:
        if known.holder == source:
            return True
        slack = SLACK if _node_of(known.holder) == node else window
        return since is not None and known.age is not None and known.age <= since + slack
    if _node_of(known.came) == node:
        return known.came == row
    if since is None or known.age is None:
        return False
    return known.age <= since + window and since <= known.came_ago + window + SLACK


def _node_of(life: str) -> str:
    """Of C{node#life}, and what may follow."""
    return life.rpartition("#")[0] or life


def _key(alike: str, number: str) -> str:
    return f"event/{alike}/{number}"


def number_of(key: str) -> tuple[str, int | None]:
    """The event without its number, and the number of the instance; C{None} for any other key."""
    parts = key.split("/")
    if len(parts) == 3 and parts[0] == "event" and _NUMBER.fullmatch(parts[2]):
        return parts[1], int(parts[2])
    return key, None
