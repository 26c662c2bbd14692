"""
Which minions have yet to get a job that a master publishes right after its start, or right after
their acceptance.

Minions connect one by one in the seconds after a start, and nobody keeps earlier publications for
them. So a minion that was not connected gets the job when it connects.

There are three signs that a minion listens:

 - It subscribes to a topic of its own, as ours do: then it gets what is published now.
 - It answers a question that was published (L{Latecomers.questions}): whether it runs the job. One
   that does not run it gets it, and one that does has it. This is how a job that was never
   published before reaches stock minions: no address has to be guessed, and nobody gets it twice.
 - It has sent a request, or there is a connection from its address: then it will listen in a
   moment, as far as anybody knows. This is for jobs that an earlier life of the master has
   published, which minions know by the jid, and for more minions than are asked. A minion that
   gets the job by this sign, and subscribes to its topic only later, gets it again then. In the
   middle of the time, such a job is also published to the minions without any sign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

from attrs import define, field

SETTLING = 2.0
"""Seconds after a minion was first seen until it can be expected to listen."""
MOST_GUESSED = 1000
"""Minions that get a job without a sign of them, or are asked: each connection gets the list of
them all."""
FIRST_QUESTION = 2.0
"""Seconds after a job until minions are asked: those that have had it may have returned by then."""
PATIENCE = 0.25
"""Part of the time since the job that passes between two questions; at least a second."""


@define
class _Job:
    """
    @ivar guess: when those get it of whom there was no sign.
    @ivar left: the minions of which nobody knows that they have it.
    @ivar ask: when those are asked; never, if only what is seen of them counts.
    @ivar due: when those of them get it that were seen, and do not subscribe to their topic; never,
        if that was done.
    """

    begun: float
    until: float
    guess: float
    left: set[str]
    ask: float = inf
    due: dict[str, float] = field(factory=dict)


class Latecomers:
    """The jobs for which minions may still connect; times are seconds on any clock."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def expect(
        self, jid: str, minions: Iterable[str], now: float, window: float, asks: bool = False
    ) -> None:
        """
        These have not got the job; a minion that connects within so many seconds gets it then.

        @param asks: whether they are asked; otherwise what is seen of them counts. More than
            L{MOST_GUESSED} are not asked.
        """
        left = set(minions)
        job = self._jobs[jid] = _Job(now, now + window, now + window / 2, left)
        if asks and len(left) <= MOST_GUESSED:
            job.ask, job.guess = now + FIRST_QUESTION, inf

    def more(self, jid: str, minions: Iterable[str]) -> bool:
        """Another part of the same job has gone out; false if it is not waited with that job."""
        if jid in self._jobs:
            self._jobs[jid].left.update(minions)
        return jid in self._jobs

    def returned(self, jid: str, minion_id: str) -> None:
        """A minion has returned, or runs the job: it is not sent the job again."""
        if jid in self._jobs:
            self._jobs[jid].left.discard(minion_id)

    def idle(self, jid: str, minion_id: str, now: float) -> bool:
        """A minion has answered that it does not run the job; whether it gets it now."""
        job = self._jobs.get(jid)
        if job is None or now >= job.until or minion_id not in job.left:
            return False
        job.left.discard(minion_id)
        return True

    def questions(self, now: float) -> dict[str, list[str]]:
        """Jid to the minions that are asked now whether they run that job."""
        found = {}
        for jid, job in self._jobs.items():
            if job.ask <= now < job.until and job.left:
                job.ask = now + max(1.0, PATIENCE * (now - job.begun))
                found[jid] = sorted(job.left)
        return found

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
            likely = _likely(job, here, now) if job.ask == inf else set()
            if sure or likely:
                found[jid] = sorted(sure | likely)
        return found


def _likely(job: _Job, here: Collection[str], now: float) -> set[str]:
    """Those that can be expected to listen, by what was seen of them; each once."""
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
    return likely


class Coming:
    """
    The minions that are known to come: they were here before a start, or have just been accepted.

    Each for a while; then it is a minion like any other. Times are seconds on any clock.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def expect(self, minions: Iterable[str], until: float) -> None:
        """These will come, probably before then."""
        self._until.update(dict.fromkeys(minions, until))

    def is_here(self, minion_id: str) -> None:
        """It has returned or subscribed, so it gets what is published from now on; or it is no
        longer accepted."""
        self._until.pop(minion_id, None)

    def of(self, minions: Collection[str], now: float) -> list[str]:
        """Those of C{minions} that have yet to come."""
        if self._until and max(self._until.values()) <= now:
            self._until.clear()
        until = self._until
        return [m for m in minions if m in until and until[m] > now] if until else []
