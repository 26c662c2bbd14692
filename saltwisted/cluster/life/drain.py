"""
What a node hands over before it leaves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred

DRAIN_TIME = 10.0
"""Seconds that a node which leaves waits until others have its jobs and returns."""
RETURN_TIME = 30.0
"""Seconds that it waits for returns of minions that run a job."""
LEAVES = "this node is leaving its cluster and accepts no more jobs: give it to another member"
QUIET = 0.3
"""Seconds without anything new, after which what was under way has been written."""
STEP = 0.05
GRACE = 5.0
"""Seconds in which what a minion has done before it was asked may still come."""
LOOK = 0.5
"""Seconds between two checks of which minions have yet to return."""


async def returned(
    clock: Any,
    owed: Callable[[], Awaitable[Mapping[str, set[str]]]],
    seconds: float,
    running: Running,
) -> list[str]:
    """
    Wait until minions have returned the jobs that they run: some stock ones return only to this
    node.

    Minions that have yet to return are asked once what they run. A job that a minion does not run
    was lost, or its return is on its way; it gets a moment more.

    @param owed: which minions have yet to return to which jobs.
    @param seconds: how long at most.
    @return: those that have not returned.
    """
    end = clock.seconds() + seconds
    idle: dict[tuple[str, str], float] = {}
    asked: Deferred[None] | None = None

    def answered(minion_id: str, jids: Collection[str]) -> None:
        since = clock.seconds()
        idle.update({(minion_id, jid): since for jid in known.get(minion_id, set()) - set(jids)})

    try:
        while True:
            known, now = await owed(), clock.seconds()
            late = sorted(
                minion_id
                for minion_id, jids in known.items()
                if any(now - idle.get((minion_id, jid), now) < GRACE for jid in jids)
            )
            if not late or now >= end:
                return late
            if asked is None:
                asked = as_deferred(running(late, answered))
                # Who cannot be asked is waited for
                asked.addErrback(lambda _: None)  # type: ignore[unused-awaitable]
            await deferLater(clock, LOOK)
    finally:
        if asked is not None:
            asked.cancel()


async def drained(
    clock: Any,
    stored: Callable[[], int],
    confirmed: Callable[[], int],
    linked: Callable[[], bool],
    seconds: float,
) -> int:
    """
    Wait until another node has on its disk whatever arose here.

    @param stored: the number of our newest entry on disk.
    @param confirmed: up to which number some other node has them.
    @param linked: whether there is anybody to wait for.
    @param seconds: how long at most.
    @return: how many entries no other node has.
    """
    end = clock.seconds() + seconds
    last, since = stored(), clock.seconds()
    while clock.seconds() < end and linked():
        now = stored()
        if now != last:
            last, since = now, clock.seconds()
        if clock.seconds() - since >= QUIET and confirmed() >= last:
            return 0
        await deferLater(clock, STEP)
    return max(stored() - confirmed(), 0)


class Running(Protocol):
    """Asks minions which jobs they run."""

    def __call__(
        self, minions: Collection[str], answered: Callable[[str, Collection[str]], None]
    ) -> Awaitable[None]:
        """C{answered(minion, jids)} is called for each that says it."""


class Where(Protocol):
    """Which minion is where; see L{saltwisted.cluster.jobs.presence}."""

    def holders(self) -> Mapping[str, str]:
        """Minion to node."""

    def own(self) -> Mapping[str, float]:
        """The minions at this node."""


class Rows(Protocol):
    """The job log."""

    @property
    def stored_number(self) -> int:
        """The number of our newest entry on disk."""

    @property
    def confirmed_number(self) -> int:
        """Up to which number some other node has them."""


@define(kw_only=True)
class Drain:
    """
    Sends minions elsewhere, and hands what they have brought here to the others.

    @ivar live: ids of the minions that have a session here.
    @ivar under_way: which of some minions have not returned to some of the latest jobs.
    @ivar running: asks minions which jobs they run.
    @ivar take_no_jobs: C{take_no_jobs(why)}: from then on new jobs are refused with this reason.
    @ivar answer_nobody: makes minions go elsewhere.
    """

    clock: Any
    peers: IPeers
    where: Where
    rows: Rows
    live: Callable[[], Collection[str]]
    under_way: Callable[[Collection[str]], Awaitable[Mapping[str, set[str]]]]
    running: Running
    take_no_jobs: Callable[[str], None]
    answer_nobody: Callable[[], None]

    async def __call__(self) -> tuple[int, list[str]]:
        """How many entries no other node has, and who has not returned."""
        # What was said to be done would be on nobody's disk but ours
        self.take_no_jobs(LEAVES)
        # Who listens here, and who has another master besides, but may bring a return here alone
        here = {*self.where.own(), *(set(self.live()) & set(self.where.holders()))}
        # As long as they may bring it here: a stock minion that turns to another master while it
        # runs a job can lose what comes of it
        late = await returned(self.clock, lambda: self.under_way(here), RETURN_TIME, self.running)
        self.answer_nobody()
        alone = await drained(
            self.clock,
            lambda: self.rows.stored_number,
            lambda: self.rows.confirmed_number,
            lambda: bool(self.peers.links()),
            DRAIN_TIME,
        )
        return alone, late
