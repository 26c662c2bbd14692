"""
Jobs and returns in a cluster: when a job may still be published, when a return is safe.

Three machines without a clock or a socket (cluster.md, section 4):

 - L{Window}: every node publishes every job, but only within C{publish_window} of its jid, and
   again only to a minion that no node can have reached: it was on no node that published.
   A job that comes later is never run: a healed partition must not run an old reboot.
 - L{Copies}: a return is acknowledged when another node has it on disk as well, or after a
   second with one copy, or at once while no node is linked.
 - L{Repeats}: a return without a jid of its own (C{jid: req}) that is repeated on another node is
   recognised by its minion and a hash of its load.

Times are seconds on one clock of the node's own; the age of a job is reckoned from its jid by the
caller, who knows how far the origin's clock is off.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

WINDOW = 30.0
WAIT = 1.0
"""Seconds that a return waits for its second copy."""
REPEAT_SECONDS = 300.0
MAX_REPEATS = 100_000
MAX_EARLY = 200
"""Jobs not heard of of which returns are remembered: those of minions' own calls are among them."""


@frozen
class Publish:
    """
    Publish a job here.

    @ivar only: C{None} for all targets, or the minions that it has not reached yet.
    """

    jid: str
    only: tuple[str, ...] | None = None


@frozen
class Closed:
    """
    The window of a job is over.

    @ivar unreached: expected minions that were on no node which published it.
    """

    jid: str
    unreached: tuple[str, ...]


@define
class _Open:
    """
    A job within its window.

    @ivar expected: the minions that it is for, so far.
    @ivar missing: those of them that have not returned.
    @ivar published: nodes that have published it to whoever was there.
    @ivar holders: which node each minion was on when it was published here; never changed.
    """

    until: float
    holders: Mapping[str, str]
    expected: set[str] = field(factory=set)
    missing: set[str] = field(factory=set)
    published: set[str] = field(factory=set)


class Window:
    """
    The jobs that may still be published.

    @param node: this node's id.
    @param seconds: C{publish_window}.
    """

    def __init__(self, node: str, seconds: float = WINDOW) -> None:
        self._node = node
        self._seconds = seconds
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._early: OrderedDict[str, set[str]] = OrderedDict()

    def started(
        self, jid: str, minions: Iterable[str], holders: Mapping[str, str], now: float
    ) -> None:
        """
        This node publishes a job of its own now.

        @param holders: minion to the node that it is on, of all nodes; it must not change any more.
        """
        job = self._open.get(jid)
        if job is None:
            job = self._open[jid] = _Open(now + self._seconds, holders)
        # A batch publishes its parts under one jid
        new = set(minions) - job.expected
        job.expected |= new
        job.missing |= new - self._early.pop(jid, set())
        job.published.add(self._node)

    def heard(
        self, jid: str, minions: Iterable[str], holders: Mapping[str, str], age: float, now: float
    ) -> list[Publish]:
        """
        Another node's job has come.

        @param age: seconds since it was given, by the clock of the node that gave it.
        """
        left = self._seconds - age
        job = self._open.get(jid)
        if left <= 0 or (job is not None and job.expected.issuperset(minions)):
            return []
        self.started(jid, minions, holders, now)
        self._open[jid].until = min(self._open[jid].until, now + min(left, self._seconds))
        return [Publish(jid)]

    def published(self, jid: str, node: str) -> None:
        """Another node has published it, to the minions that were there."""
        job = self._open.get(jid)
        if job is not None:
            job.published.add(node)

    def returned(self, jid: str, minion_id: str) -> None:
        """A minion has returned: it is never sent the job again."""
        job = self._open.get(jid)
        if job is not None:
            job.missing.discard(minion_id)
            return
        # A return may be here before its job
        self._early.setdefault(jid, set()).add(minion_id)
        if len(self._early) > MAX_EARLY:
            self._early.popitem(last=False)

    def arrived(self, minion_id: str, now: float) -> list[Publish]:
        """
        A minion has come to this node, from another or from nowhere.

        It gets what it cannot have got: jobs that were published while it was on no node, or
        on one that has not said that it published them.
        """
        found = []
        for jid, job in self._open.items():
            if now < job.until and self._is_unreached(job, minion_id):
                # Whatever comes of it: from now on it is on a node that published
                job.holders = {**job.holders, minion_id: self._node}
                found.append(Publish(jid, (minion_id,)))
        return found

    def _is_unreached(self, job: _Open, minion_id: str) -> bool:
        return minion_id in job.missing and job.holders.get(minion_id) not in job.published

    def tick(self, now: float) -> list[Closed]:
        """Time has passed."""
        found = []
        for jid in [jid for jid, job in self._open.items() if job.until <= now]:
            job = self._open.pop(jid)
            unreached = sorted(m for m in job.missing if self._is_unreached(job, m))
            found.append(Closed(jid, tuple(unreached)))
        return found

    def next_tick(self) -> float | None:
        """When L{tick} has something to do."""
        return min((job.until for job in self._open.values()), default=None)


@frozen
class Acknowledge:
    """Tell the minion that its return is kept; C{copies} nodes have it on disk."""

    jid: str
    minion_id: str
    copies: int


@define
class _Waiting:
    number: int
    jid: str
    minion_id: str
    due: float


class Copies:
    """
    Returns that are on disk here, and wait for the disk of another node.

    @param wanted: C{return_copies}; with 1 nobody waits.
    """

    def __init__(self, wanted: int = 2, wait: float = WAIT) -> None:
        self._wanted = wanted
        self._wait = wait
        self._waiting: deque[_Waiting] = deque()
        self._keys: dict[tuple[str, str], int] = {}

    def stored(
        self, number: int, jid: str, minion_id: str, linked: int, now: float
    ) -> list[Acknowledge]:
        """
        A return is on disk here.

        @param number: in this node's own stream; it grows.
        @param linked: how many other nodes are linked.
        """
        if self._wanted < 2 or not linked:
            return [Acknowledge(jid, minion_id, 1)]
        self._waiting.append(_Waiting(number, jid, minion_id, now + self._wait))
        self._keys[jid, minion_id] = number
        return []

    def is_waiting(self, jid: str, minion_id: str) -> bool:
        """Whether its acknowledgement is still to come."""
        return (jid, minion_id) in self._keys

    def confirmed(self, number: int) -> list[Acknowledge]:
        """Another node has our stream on its disk up to here."""
        found = []
        while self._waiting and self._waiting[0].number <= number:
            found.append(self._end(2))
        return found

    def tick(self, now: float) -> list[Acknowledge]:
        """Time has passed: who has waited long enough is acknowledged with one copy."""
        found = []
        while self._waiting and self._waiting[0].due <= now:
            found.append(self._end(1))
        return found

    def alone(self) -> list[Acknowledge]:
        """No node is linked any more: nobody has anything to wait for."""
        return [self._end(1) for _ in range(len(self._waiting))]

    def next_tick(self) -> float | None:
        """When L{tick} has something to do."""
        return self._waiting[0].due if self._waiting else None

    def _end(self, copies: int) -> Acknowledge:
        waiting = self._waiting.popleft()
        self._keys.pop((waiting.jid, waiting.minion_id), None)
        return Acknowledge(waiting.jid, waiting.minion_id, copies)


def load_hash(packed: bytes) -> bytes:
    """
    What a return says, without what is new at each attempt.

    @param packed: the load as it is stored: without C{jid}, C{id}, C{nonce}, C{ts} and C{tok}.
    """
    return hashlib.blake2b(packed, digest_size=16).digest()


class Repeats:
    """Returns of the last minutes whose jid was made by the node that took them."""

    def __init__(self, seconds: float = REPEAT_SECONDS) -> None:
        self._seconds = seconds
        self._seen: OrderedDict[tuple[str, bytes], tuple[str, str, float]] = OrderedDict()

    def remember(self, minion_id: str, digest: bytes, jid: str, node: str, now: float) -> None:
        """A node has taken such a return under this jid."""
        self._seen.setdefault((minion_id, digest), (jid, node, now))
        while self._seen:
            key = next(iter(self._seen))
            if self._seen[key][2] > now - self._seconds and len(self._seen) <= MAX_REPEATS:
                break
            del self._seen[key]

    def jid_of(self, minion_id: str, digest: bytes, node: str, now: float) -> str | None:
        """
        The jid that another node gave to this return, or C{None} when it is new.

        @param node: who asks: the same return twice on one node is two calls that say the same.
        """
        found = self._seen.get((minion_id, digest))
        if found is None or found[1] == node or found[2] <= now - self._seconds:
            return None
        return found[0]


def merged_holders(parts: Sequence[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """
    Minion to node, of what each node says of itself; where two claim one minion, the later in
    C{parts} has it.
    """
    return {minion_id: node for node, minions in parts for minion_id in minions}
