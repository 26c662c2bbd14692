"""
Which minions have yet to get a job that a master publishes right after its start.

Minions reconnect one by one in the seconds after a start, and nobody keeps earlier publications for
them. So a minion that was not connected gets the job again when it connects. A minion knows the jid
and runs the job once, so if it is doubtful whether it has the job, it gets it again.

There are two signs that a minion has connected. Either it subscribes to a topic of its own: then it
gets what is published now. Or it has sent a request, or there is a connection from its address:
then it will listen in a moment, as far as anybody knows. Stock minions give only the second sign. A
minion that gets the job after the second sign, and gives the first one only later, gets it again
then.

A stock minion that connects from an address that is not known to be its own, and sends nothing,
gives no sign. So in the middle of the time, the job is also published to the minions without any
sign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

from attrs import define, field

SETTLING = 2.0
"""Seconds after a minion was first seen until it can be expected to listen."""
MOST_GUESSED = 1000
"""Minions that get a job without a sign of them: each connection gets the list of them all."""


@define
class _Job:
    """
    @ivar guess: when those get it of whom there was no sign.
    @ivar left: the minions of which nobody knows that they have it.
    @ivar due: when those of them get it that were seen, and do not subscribe to their topic; never,
        if that was done.
    """

    until: float
    guess: float
    left: set[str]
    due: dict[str, float] = field(factory=dict)


class Latecomers:
    """The jobs for which minions may still connect; times are seconds on any clock."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def expect(self, jid: str, minions: Iterable[str], now: float, window: float) -> None:
        """
        These have not got the job; a minion that connects within so many seconds gets it then.
        """
        self._jobs[jid] = _Job(now + window, now + window / 2, set(minions))

    def returned(self, jid: str, minion_id: str) -> None:
        """A minion has returned: it is not sent the job again."""
        if jid in self._jobs:
            self._jobs[jid].left.discard(minion_id)

    def ended(self, now: float) -> list[str]:
        """The jobs for which no minion is awaited any more; they are forgotten."""
        found = [jid for jid, job in self._jobs.items() if job.until <= now or not job.left]
        for jid in found:
            del self._jobs[jid]
        return found

    def awaited(self) -> set[str]:
        """The minions to look for."""
        return {minion_id for job in self._jobs.values() for minion_id in job.left}

    def seen(
        self, here: Collection[str], listening: Collection[str], now: float
    ) -> dict[str, list[str]]:
        """
        These minions are there now.

        @param here: those that have spoken, or have a connection.
        @param listening: those that subscribe to their own topic.
        @return: jid to the minions that get it now.
        """
        found = {}
        for jid, job in self._jobs.items():
            if now >= job.until:
                continue
            sure = job.left.intersection(listening)
            job.left -= sure
            # Who went away again, and comes back, takes its time again
            job.due = {each: at for each, at in job.due.items() if at == inf or each in here}
            likely = {
                minion_id
                for minion_id in job.left.intersection(here)
                if job.due.setdefault(minion_id, now + SETTLING) <= now
            }
            if job.guess <= now:
                job.guess = inf
                unseen = job.left - job.due.keys()
                likely |= unseen if len(unseen) <= MOST_GUESSED else set()
            # Not without the first sign again
            job.due.update(dict.fromkeys(likely, inf))
            if sure or likely:
                found[jid] = sorted(sure | likely)
        return found
