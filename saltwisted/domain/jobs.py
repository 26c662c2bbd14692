"""
One running job from the command line's point of view: who is expected, and when waiting ends.

It follows stock Salt's client. If returns are missing after C{timeout} seconds, the missing minions
are asked whether they still run the job (C{saltutil.find_job}). Answers are awaited for
C{gather_job_timeout} seconds, and as long as some minion runs it, the question is repeated. The
driver does the publishing and has the timers: events come in by method calls with the time, effects
go out as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

RETURNED = ("fun", "fun_args", "metadata", "out", "retcode", "return", "success")
"""What a return of a minion says beside its id and the jid."""


@frozen
class PublishFindJob:
    """Ask these minions whether they run the job; then call L{RunningJob.asked}."""

    ids: tuple[str, ...]


@frozen
class Yield:
    """A return to pass on, the first of its minion."""

    minion_id: str
    data: Mapping[str, Any]


@frozen
class Done:
    """
    Waiting is over.

    @ivar missing: ids that did not return, sorted.
    """

    missing: tuple[str, ...]


Effect = PublishFindJob | Yield | Done


@define
class RunningJob:
    """
    What is known about one job. Times are seconds on any clock that does not jump.

    @ivar expected: minions that should return; grows when others are found to run it.
    @ivar accepted: ids that may be asked; C{None} means all.
    @ivar grace: seconds in which no minion is given up, from the beginning and from the last time
        that one said that it runs the job: returns may be on their way to a master that is away.
    """

    jid: str
    expected: set[str]
    timeout: float
    gather: float
    accepted: frozenset[str] | None = None
    grace: float = 0.0
    returned: set[str] = field(factory=set)
    done: bool = False
    _missing: int = 0
    _due: float = 0.0
    _late: float = 0.0
    _until: dict[str, float] = field(factory=dict)
    _running: bool = True

    def begin(self, now: float) -> list[Effect]:
        """The job was published."""
        self._due, self._late = now + self.timeout, now + self.grace
        self._missing = len(self.expected)
        self._until = dict.fromkeys(self.expected, self._due)
        return self._finish() if not self.expected else []

    def add(self, ids: Iterable[str], now: float) -> None:
        """More minions are expected (announced later, or seen to run the job)."""
        for minion_id in ids:
            if minion_id not in self.expected:
                self.expected.add(minion_id)
                self._until[minion_id] = now + self.timeout
                if minion_id not in self.returned:
                    self._missing += 1

    def got(self, minion_id: str, data: Mapping[str, Any]) -> list[Effect]:
        """A return came, from whomever; a second one of the same minion is nothing new."""
        if self.done or minion_id in self.returned or "return" not in data:
            return []
        self.returned.add(minion_id)
        if minion_id in self.expected:
            self._missing -= 1
        effects: list[Effect] = [Yield(minion_id, data)]
        if not self._missing:
            effects += self._finish()
        return effects

    def asked(self, now: float) -> None:
        """C{find_job} was published, or could not be: answers count from now."""
        self._due = now + self.gather

    def answered(self, minion_id: str, data: Mapping[str, Any], now: float) -> list[Effect]:
        """
        A minion answered C{find_job}.

        A map that is not empty says that it runs the job. A return code above 0 says that it cannot
        tell, and it is no longer awaited, as in Salt.
        """
        if self.done:
            return []
        retcode = data.get("retcode")
        if isinstance(retcode, int) and retcode > 0:
            if minion_id in self.expected:
                self.expected.discard(minion_id)
                self._until.pop(minion_id, None)
                if minion_id not in self.returned:
                    self._missing -= 1
            return self._finish() if not self._missing else []
        value = _found(data)
        if not isinstance(value, Mapping) or not value:
            return []
        self.add((minion_id,), now)
        self._until[minion_id] = now + self.timeout
        if self.grace:
            self._late = max(self._late, now + self.grace)
        self._running = True
        return []

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: at L{next_tick} or any other moment."""
        if self.done or now < self._due:
            return []
        missing = sorted(self.expected - self.returned)
        if self._running:
            self._running = False
            self._due = now + self.gather
            askable = tuple(
                minion_id
                for minion_id in missing
                if self.accepted is None or minion_id in self.accepted
            )
            return [PublishFindJob(askable)] if askable else []
        if any(now < self._until.get(minion_id, 0.0) for minion_id in missing):
            return []
        if now < self._late:
            self._running = True
            self._due = max(now + 1.0, min(now + self.timeout, self._late))
            return []
        return self._finish()

    def next_tick(self) -> float | None:
        """When L{tick} has something to do, unless something happens before; C{None} when done."""
        if self.done:
            return None
        if self._running:
            return self._due
        waiting = [self._until.get(minion_id, 0.0) for minion_id in self.expected - self.returned]
        return max([self._due, *waiting])

    def cancel(self) -> list[Effect]:
        """End the waiting."""
        return [] if self.done else self._finish()

    def _finish(self) -> list[Effect]:
        self.done = True
        return [Done(tuple(sorted(self.expected - self.returned)))]


def _found(data: Mapping[str, Any]) -> Any:
    """The value of an answer to C{find_job}."""
    value = data.get("return")
    return value["return"] if isinstance(value, Mapping) and "return" in value else value


def is_idle(data: Mapping[str, Any]) -> bool:
    """Whether a minion says by its answer to C{find_job} that it does not run the job."""
    return not data.get("retcode") and _found(data) == {}


def remembered(jid: str, minion_id: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    The return of a job that a minion has kept, as the minion would have sent it; C{None} if there
    is none in its answer to C{saltutil.find_cached_job}.
    """
    value = data.get("return")
    if not isinstance(value, Mapping) or "return" not in value or data.get("retcode"):
        return None
    if str(value.get("jid")) != jid:
        return None
    kept = {name: value[name] for name in RETURNED if name in value}
    return {"cmd": "_return", "id": minion_id, **kept, "jid": jid}
