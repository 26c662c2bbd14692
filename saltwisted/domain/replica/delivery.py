"""
Jobs and returns in a cluster: when a job may still be published, when a return is safe.

There are three machines without a clock or a socket (C{docs/replication.md}):

 - L{Window}: every node publishes every job, but only within C{publish_window} of its jid. A late
   publication goes only to a minion that no node can have reached. A job that arrives later
   is never run: after a partition, an old reboot must not run.
 - L{Copies}: a return is acknowledged when another node has it on disk as well, or after a
   second with one copy, or at once while no node is linked.
 - L{Repeats}: a return without a jid of its own (C{jid: req}) that is repeated on another node is
   recognised by its minion and a hash of its load.

Times are seconds on one clock of the node's own. The caller computes the age of a job from its jid,
because it knows how far the origin's clock is off.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from attrs import define, field, frozen

WINDOW = 30.0
PROMPT = 1.0
"""Seconds of age up to which a job goes out to all at a node: no minion moves so quickly."""
JUMP = 5.0
"""Seconds by which a job may be older than it seems: the clock that it was given by may have been
set since, and this node not have seen that, as when the other was started again meanwhile."""
ACQUAINTED = 20.0
"""Seconds after its start until a node knows of all minions that listen to it without a word."""
ASK_AGAIN = 0.5
"""Seconds after which an offer is made again that a node which may know more has not answered."""
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

    @ivar only: publish to these minions only; C{None} for all targets.
    """

    jid: str
    only: tuple[str, ...] | None = None


@frozen
class Offer:
    """
    Ask the other nodes which of these minions may have the job, and publish it to the others.

    Ask all linked nodes (L{Window.reached}), then call L{Window.answered}.
    """

    jid: str
    minions: tuple[str, ...]


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
    @ivar here: who may have it from this node.
    @ivar offered: who was offered it here.
    @ivar undecided: those of them about whom a node that published it could not be asked.
    @ivar again: when it is asked again.
    @ivar published: nodes that have published it.
    @ivar unsure: it went out here to minions of which this node did not know yet.
    """

    until: float
    expected: set[str] = field(factory=set)
    missing: set[str] = field(factory=set)
    here: set[str] = field(factory=set)
    offered: set[str] = field(factory=set)
    published: set[str] = field(factory=set)
    unsure: bool = False
    undecided: set[str] = field(factory=set)
    again: float = 0.0


class Window:
    """
    The jobs that may still be published.

    A minion that was restarted remembers no job, so a job that is published to it twice runs twice,
    even a reboot. Therefore a job is published once to all minions of a node, when it is given, and
    later to those that were connected all the time. A minion that connects later gets it only after
    all nodes that published it have said that it cannot have it from them.

    @param node: this node's id.
    @param born: when this life of the node began: it cannot know what an earlier life published.
    @param seconds: C{publish_window}.
    """

    def __init__(self, node: str, born: float, seconds: float = WINDOW) -> None:
        self._node = node
        self._born = born
        self._seconds = seconds
        self._open: OrderedDict[str, _Open] = OrderedDict()
        # A thousand jobs in a burst are a thousand open windows: nobody walks through all of them
        self._ends: list[tuple[float, str]] = []
        self._undecided: dict[str, _Open] = {}
        self._early: OrderedDict[str, set[str]] = OrderedDict()

    def started(self, jid: str, minions: Iterable[str], own: Iterable[str], now: float) -> None:
        """
        This node publishes a job of its own now, to all at this node.

        @param own: the minions at this node.
        """
        self._note(jid, minions, now + self._seconds)
        self._all_here(self._open[jid], own, now)

    def _all_here(self, job: _Open, own: Iterable[str], now: float) -> None:
        job.here.update(own)
        job.published.add(self._node)
        job.unsure = job.unsure or now < self._born + ACQUAINTED

    def _note(self, jid: str, minions: Iterable[str], until: float) -> set[str]:
        job = self._open.get(jid)
        if job is None:
            job = self._open[jid] = _Open(until)
            heappush(self._ends, (until, jid))
        # A batch publishes its parts under one jid
        new = set(minions) - job.expected
        job.expected |= new
        job.missing |= new - self._early.pop(jid, set())
        return new

    def job_came(
        self,
        jid: str,
        minions: Sequence[str],
        own: Mapping[str, float],
        age: float,
        now: float,
    ) -> list[Publish | Offer]:
        """
        Another node's job has arrived.

        @param own: the minions at this node, and since when they have been there.
        @param age: seconds since it was given, by the clock of the node that gave it.
        """
        left = min(self._seconds - age, self._seconds)
        job = self._open.get(jid)
        if left <= 0 or self._is_of_before(age, now):
            return []
        if job is not None and job.expected.issuperset(minions):
            return []
        new = self._note(jid, minions, now + left)
        job = self._open[jid]
        if age <= PROMPT:
            self._all_here(job, own, now)
            return [Publish(jid)]
        # Who has been here all the time cannot have it from elsewhere
        late = new & job.missing & own.keys()
        given = now - age - JUMP
        steady = {minion_id for minion_id in late if own[minion_id] <= given}
        moved = late - steady
        job.here |= steady
        job.offered |= moved
        found: list[Publish | Offer] = []
        if steady:
            job.published.add(self._node)
            found.append(Publish(jid, tuple(sorted(steady))))
        if moved:
            found.append(Offer(jid, tuple(sorted(moved))))
        return found

    def _is_of_before(self, age: float, now: float) -> bool:
        return now - age < self._born

    def published(self, jid: str, node: str) -> None:
        """Another node has published it, to the minions that were there."""
        job = self._open.get(jid)
        if job is not None:
            job.published.add(node)

    def publishers(self, jid: str) -> list[str]:
        """The nodes of which this one knows that they have published a job."""
        job = self._open.get(jid)
        return [] if job is None else sorted(job.published)

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

    def arrived(self, minion_id: str, now: float) -> list[Offer]:
        """A minion has come to this node, from another or from nowhere."""
        found = []
        for jid, job in self._open.items():
            if job.unsure:
                continue
            gone = job.here | job.offered
            if now < job.until and minion_id in job.missing and minion_id not in gone:
                job.offered.add(minion_id)
                found.append(Offer(jid, (minion_id,)))
        return found

    def reached(self, jid: str, minions: Iterable[str], age: float | None, now: float) -> list[str]:
        """
        Another node asks which of these minions may have the job from this one.

        From now on none of the others gets it here.

        @param age: of the job; C{None} if it is unknown.
        """
        minions = list(minions)
        if age is None or self._is_of_before(age, now):
            return minions
        job = self._open.get(jid)
        if job is None:
            return []
        if job.unsure:
            return minions
        found = [minion_id for minion_id in minions if minion_id in job.here]
        job.offered.update(minions)
        return found

    def answered(self, offer: Offer, answers: Mapping[str, Iterable[str]], now: float) -> list[str]:
        """
        The other nodes have answered: publish the job to these.

        @param answers: node to the minions that may have it from there; nodes that did not
            answer are not in it.
        """
        job = self._open.get(offer.jid)
        if job is None or now >= job.until:
            return []
        if job.published - answers.keys() - {self._node}:
            # Cut off, or not linked yet after a cut: it may be asked before the window is over
            job.undecided.update(offer.minions)
            job.again = now + ASK_AGAIN
            self._undecided[offer.jid] = job
            return []
        taken = {minion_id for minions in answers.values() for minion_id in minions}
        free = [m for m in offer.minions if m in job.missing and m not in taken]
        job.here.update(free)
        if free:
            job.published.add(self._node)
        return free

    def again(self, now: float) -> list[Offer]:
        """Time has passed, or a node is linked: offers that could not be decided."""
        found = []
        for jid, job in list(self._undecided.items()):
            if job.again > now:
                continue
            del self._undecided[jid]
            minions, job.undecided = job.undecided & job.missing, set()
            if minions and now < job.until:
                found.append(Offer(jid, tuple(sorted(minions))))
        return found

    def tick(self, now: float, holders: Mapping[str, str]) -> list[Closed]:
        """
        The windows that are over now.

        @param holders: minion to the node that it is on.
        """
        found = []
        while self._ends and self._ends[0][0] <= now:
            jid = heappop(self._ends)[1]
            job = self._open.pop(jid)
            self._undecided.pop(jid, None)
            missing = job.missing - job.here
            unreached = sorted(m for m in missing if holders.get(m) not in job.published)
            found.append(Closed(jid, tuple(unreached)))
        return found

    def next_tick(self) -> float | None:
        """When L{tick} or L{again} has something to do."""
        due = [job.again for job in self._undecided.values()]
        if self._ends:
            due.append(self._ends[0][0])
        return min(due, default=None)


@frozen
class Acknowledge:
    """Tell the minion that its return is safe; C{copies} nodes have it on disk."""

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

    @param wanted: C{return_copies}; with 1 no return waits.
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
        """Time has passed: returns that have waited long enough are acknowledged with one copy."""
        found = []
        while self._waiting and self._waiting[0].due <= now:
            found.append(self._end(1))
        return found

    def alone(self) -> list[Acknowledge]:
        """No node is linked any more: there is nothing to wait for."""
        return [self._end(1) for _ in range(len(self._waiting))]

    def lost(self) -> list[tuple[str, str]]:
        """The disk has lost its contents: these must not be acknowledged."""
        lost = [(each.jid, each.minion_id) for each in self._waiting]
        self._waiting.clear()
        self._keys.clear()
        return lost

    def next_tick(self) -> float | None:
        """When L{tick} has something to do."""
        return self._waiting[0].due if self._waiting else None

    def _end(self, copies: int) -> Acknowledge:
        waiting = self._waiting.popleft()
        self._keys.pop((waiting.jid, waiting.minion_id), None)
        return Acknowledge(waiting.jid, waiting.minion_id, copies)


def load_hash(*packed: bytes | memoryview) -> bytes:
    """
    A hash of a return, without the fields that change with each attempt.

    @param packed: the load as it is stored, in one piece or several: without C{jid}, C{id},
        C{nonce}, C{ts} and C{tok}.
    """
    made = hashlib.blake2b(digest_size=16)
    for piece in packed:
        made.update(piece)
    return made.digest()


class Repeats:
    """Returns of the last minutes whose jid was made by the node that received them."""

    def __init__(self, seconds: float = REPEAT_SECONDS) -> None:
        self._seconds = seconds
        self._seen: OrderedDict[tuple[str, bytes], tuple[str, str, float]] = OrderedDict()

    def remember(self, minion_id: str, digest: bytes, jid: str, node: str, now: float) -> None:
        """A node has received such a return under this jid."""
        self._seen.setdefault((minion_id, digest), (jid, node, now))
        while self._seen:
            key = next(iter(self._seen))
            if self._seen[key][2] > now - self._seconds and len(self._seen) <= MAX_REPEATS:
                break
            del self._seen[key]

    def jid_of(self, minion_id: str, digest: bytes, node: str, now: float) -> str | None:
        """
        The jid that another node gave to this return, or C{None} if it is new.

        @param node: the node that asks: the same return twice on one node is two calls with the
            same result.
        """
        found = self._seen.get((minion_id, digest))
        if found is None or found[1] == node or found[2] <= now - self._seconds:
            return None
        return found[0]


def merged_holders(parts: Sequence[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """
    Minion to node, from what each node reports about itself; if two claim one minion, the later in
    C{parts} has it.
    """
    return {minion_id: node for node, minions in parts for minion_id in minions}
