"""
The master's schedule: runs entries when they are due, on one of the masters of a cluster.

C{domain/schedulebook.py} decides what is due, and C{seams.claims} who runs it. The schedule is one
duty. A run at a time of day, or of a longer interval, is also claimed by itself under that time, so
that a node that takes over does not repeat it. An entry with C{once: false} runs on each node.
C{seams.schedule} has the changes at run time, and what has run.

A schedule may have thousands of entries. Reading and checking them is one piece of work
(L{MasterSchedule._work}), which runs for a few milliseconds at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger, LogLevel

from saltwisted.domain.claims.words import Claim
from saltwisted.domain.masterschedule import (
    LATE,
    Act,
    act_of,
    effective,
    paused,
    prepared,
    remarks,
)
from saltwisted.domain.schedule import Dice, DueJob, restored, without_hidden
from saltwisted.domain.schedulebook import Book
from saltwisted.master.automation.records import Records
from saltwisted.master.automation.runs import DUTY, ScheduledRuns, local
from saltwisted.master.calls import Calls
from saltwisted.master.context import Context
from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import let_go, wait_for
from saltwisted.transports.turns import in_turns


class MasterSchedule:
    """
    A part of a master.

    @param ctx: the master's record of parts, once it exists.
    @param runtime: seconds of a clock that nobody sets, and that also counts sleep.
    @param hold: whether all automation is paused.
    """

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        calls: Calls,
        new_jid: Callable[[], str],
        ctx: Callable[[], Context],
        dice: Dice,
        runtime: Callable[[], float],
        offset: str = "+0000",
        hold: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ground = ground
        self._calls = calls
        self._runtime = runtime
        self._dice = dice
        self._hold = hold
        self._facts = ground.seams.schedule
        late = max(float(ground.config.loop_interval or 60), LATE)
        self.book = Book({}, dice, self._say, prepare=self._prepared, latest=late)
        self._acts: dict[str, Act] = {}
        # Those of entries that are being read
        self._read_acts: dict[str, Act] = {}
        self.records = Records(self._facts, self.book, ground.now)
        self.runs = ScheduledRuns(ground, calls, new_jid, ctx, self.records.keep, offset)
        self._restored: set[str] = set()
        self._claim: Claim | None = None
        self._began = False
        self._fresh = True
        self._busy = False
        self._unlooked = self._unread = self._unremarked = self._known = False
        self._waiting: list[Deferred[None]] = []
        self._timer: IDelayedCall | None = None

    # -- life

    def startService(self) -> None:
        """Read the entries, and want the duty."""
        self._began = self._unread = self._unremarked = True
        self._facts.listen(self._heard)
        self._ground.seams.claims.on_recover(DUTY, self._recover)
        self._ground.seams.claims.duty(DUTY, self._begin, self._end)
        self._look()

    def stopService(self) -> Deferred[Any]:
        """Start nothing any more, and end current runs."""
        self._began = False
        self._sleep(None)
        released: Any = self._ground.seams.claims.release(DUTY)
        ending = [Deferred.fromCoroutine(wait_for(released)), self.runs.cancel(each=True)]
        if self._busy:
            ending.append(Deferred())
            self._waiting.append(ending[-1])
        return DeferredList(ending, consumeErrors=True)

    def reconfigure(self) -> None:
        """The configuration was read again."""
        self._unremarked = True
        let_go(self.changed(), self.log, "the schedule could not be read")

    def changed(self) -> Deferred[None]:
        """
        An entry has changed, or automation is paused or resumed.

        @return: fires when the change applies, and everything due has begun.
        """
        if not self._began:
            return succeed(None)
        self._unread = True
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        self._look()
        return done

    def known(self) -> Deferred[None]:
        """Fires when the entries have been read that there were at the start."""
        done: Deferred[None] = Deferred()
        if self._known or not self._busy:
            done.callback(None)
        else:
            self._waiting.append(done)
        return done

    @property
    def holds(self) -> bool:
        """Whether this node runs what runs once."""
        return self._claim is not None

    def _begin(self, claim: Claim) -> None:
        """This node has the duty."""
        self._claim = claim
        self._restored.clear()
        self._look()

    def _end(self, why: str) -> Deferred[Any]:
        """It has it no more: what it runs for the cluster ends."""
        self.records.keep_all()
        self._claim = None
        self._restored.clear()
        if len(self.runs):
            self.log.warn("scheduled runs are stopped: {why}", why=why)
        return self.runs.cancel(each=False)

    async def _recover(self, key: str, plan: Mapping[str, Any], claim: Any) -> None:
        """The holder died in a run: nobody knows how far it came, and it is not begun again."""
        name = str(plan.get("name", ""))
        self.log.error(
            "the run of {name} ({key}) was lost with its node, and does not run again",
            name=name,
            key=key,
        )
        self._ground.counters["claims_lost"] += 1
        self._ground.bus.fire("saltwisted/schedule/lost", {"schedule": name, "key": key})
        await self._ground.seams.claims.end(claim, "lost")

    # -- what there is

    def _say(self, level: str, text: str) -> None:
        self.log.emit(LogLevel.levelWithName(level), "schedule: {text}", text=text)

    def judge(self, client: str, fun: str, args: list[Any], kwargs: dict[str, Any]) -> str:
        """Why a function cannot be called so; minions judge their own."""
        return "" if client == "local" else self._calls.refusal(client, fun, args, kwargs)

    def _prepared(self, name: str, data: Any) -> Any:
        ready = prepared(name, data, self.judge)
        if isinstance(data, Mapping):
            act = act_of(name, data)
            # A master alone is each of its nodes
            self._read_acts[name] = evolve(act, each=act.each and not self._facts.alone)
        return ready

    def configured(self) -> dict[str, Any]:
        """The schedule of the configuration."""
        return without_hidden(self._ground.config.schedule)

    def _taking(self) -> Iterator[None]:
        """Read the configuration, and what was changed since."""
        configured = self.configured()
        if self._unremarked:
            self._unremarked = False
            for remark in remarks(configured):
                if remark:
                    self._say("warn", remark)
                if not self._began:
                    return
                yield
        self._unread = False
        self._read_acts.clear()
        # What changes meanwhile is read afterwards, so that one who changes much does not stop it
        for _ in self.book.taking(effective(configured, self._facts.items()), self.time_of_day()):
            if not self._began:
                return
            yield
        self._known = True
        self._acts.update(self._read_acts)
        self._restored &= self.book.entries.keys()
        self.records.forget_others()

    def _heard(self, keys: Sequence[str]) -> None:
        """Another node has changed something, or has run something."""
        if not self._began:
            return
        if any(not key.startswith("ran/") for key in keys):
            self._unread = True
        if self._claim is None:
            names = {key.partition("/")[2] for key in keys}
            self._restored -= names
            self.records.forget(names)
        self._look()

    def restore(self, now: datetime) -> Iterator[None]:
        """Continue known entries where they were; in steps."""
        for name, entry in list(self.book.entries.items()):
            yield
            if name in self._restored or self.book.entries.get(name) is not entry:
                continue
            self._restored.add(name)
            known, data = self.records.known(name), self.book.own[name]
            if not known:
                if data.get("run_missed") and self._ours(name):
                    # It is known from now on; a time that is missed is one that comes later
                    seen = self.records.keep(name, {"seen": self._ground.now()})
                    let_go(wait_for(seen), self.log, "it will not be made up for")
                continue
            at_start = data.get("run_on_start") and self._fresh and self._facts.alone
            if at_start:
                continue
            ran = float(known.get("ran") or 0.0)
            since = local(ran or float(known.get("seen") or 0.0))
            self.book.progress[name] = restored(
                entry, local(ran) if ran else None, since, now, self._dice
            )

    # -- looking

    def time_of_day(self) -> datetime:
        """Local time, as schedules are written."""
        return local(self._ground.now())

    def _ours(self, name: str) -> bool:
        if self._hold() or paused(self._facts.items(), name):
            return False
        act = self._acts.get(name)
        return self._claim is not None or (act is not None and act.each)

    def _look(self) -> None:
        """Start what is due, and sleep until something is."""
        self._unlooked = True
        if self._began and not self._busy:
            self._busy = True
            let_go(self._work(), self.log, "the schedule could not be looked at")

    async def _work(self) -> None:
        """All that there is to read and to look at."""
        try:
            while self._began and (self._unread or self._unlooked):
                if self._unread or self.book.errors:
                    # A function of the site's may have come since: an entry is wrong without it
                    await self._calls.learn()
                async for _ in in_turns(self._ground.clock, self._steps()):
                    pass
        finally:
            self._busy = False
            self._sleep(self.book.sleep if self._began else None)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def _steps(self) -> Iterator[None]:
        """What comes next, unless it was stopped meanwhile."""
        if self._began:
            yield from self._taking() if self._unread else self._looking()

    def _looking(self) -> Iterator[None]:
        """Start what is due; what has to be read first ends it."""
        self._unlooked = False
        now = self.time_of_day()
        for _ in chain(self.book.retrying(now), self.restore(now)):
            if self._unread or not self._began:
                return
            yield
        self._acts.update(self._read_acts)
        now = self.time_of_day()
        for run in self.book.look(now, self._runtime(), self.runs.running, self._ours):
            if run is not None:
                self.start(run)
            if self._unread or not self._began:
                return
            yield
        self._fresh = self._fresh and self._claim is None

    def _sleep(self, seconds: float | None) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if seconds is not None:
            self._timer = self._ground.clock.callLater(seconds, self._look)

    def start(self, due: DueJob) -> str:
        """Begin a run; its jid."""
        key = next(each for each, entry in self.book.entries.items() if entry is due.entry)
        return self.runs.start(key, due, self._acts.get(key, Act()))
