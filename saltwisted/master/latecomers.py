"""
Jobs that a lone master publishes again for minions that connect later: those that were here before
its start, and those that have just been accepted.

L{saltwisted.domain.latecomers} has the rule; this module checks who has connected. In a cluster
C{seams.hearer} takes care of them, because another node may have reached those minions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.jobs import is_idle
from saltwisted.domain.latecomers import Coming, Latecomers
from saltwisted.errors import StoreError
from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

EVERY = 1.0
SLICE = 200
"""Minions that are looked at in one go: about a millisecond."""
TOGETHER = 0.1
"""Seconds in which those who answer are collected, to get the job by one publication."""
QUESTIONS = frozenset(("saltutil.find_job", "saltutil.find_cached_job"))
"""What a master asks about a job; nobody waits for late answers to these."""


class LateJobs:
    """Checks who has connected, as long as a job waits for somebody. Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        new_jid: Callable[[], str] = lambda: "",
        publish: Callable[[Mapping[str, Any], str], Coroutine[Any, Any, Any]] | None = None,
    ) -> None:
        """
        @param publish: publishes a question (its load) under a jid.
        """
        self._ground = ground
        self._new_jid, self._publish = new_jid, publish
        self._rules = Latecomers()
        self._coming = Coming()
        self._knows_before = False
        self._jobs: dict[str, tuple[Mapping[str, Any], list[Callable[[], None]]]] = {}
        self._idle: dict[str, list[str]] = {}
        self._giving: Any = None
        self._timer: Any = None
        self._is_looking = False

    def startService(self) -> None:
        """Who was here before the start has the whole window from now to come again."""
        self._remember()
        self._ground.keys.on_change(self._key_changed)

    def stopService(self) -> None:
        """End all waiting."""
        self._rules = Latecomers()
        for jid in list(self._jobs):
            self._forget(jid)
        self._idle.clear()
        for timer in (self._timer, self._giving):
            if timer is not None:
                timer.cancel()
        self._timer = self._giving = None

    def _remember(self) -> None:
        self._knows_before = True
        self._coming.expect(self._ground.presence.before(), self._end_of_window())

    def _end_of_window(self) -> float:
        now: float = self._ground.clock.seconds()
        return now + float(self._ground.config.publish_window)

    def _key_changed(self, minion_id: str, old: str, new: str) -> None:
        if new == "accepted" != old:
            self._coming.expect((minion_id,), self._end_of_window())
        elif old == "accepted" != new:
            self._coming.is_here(minion_id)

    async def missing(self, load: Mapping[str, Any], minions: Sequence[str]) -> list[str]:
        """
        Those of C{minions} that will come, but have not yet: a job goes to them later (L{first}).
        """
        if not self._knows_before:
            # A command may be served a moment before the ports are open
            self._remember()
        ground = self._ground
        late = self._coming.of(minions, ground.clock.seconds())
        if not late or load.get("fun") in QUESTIONS:
            return []
        elsewhere = ground.presence.elsewhere()
        found = []
        async for some in in_turns(ground.clock, _slices(late)):
            listening = ground.presence.listening(some) | elsewhere.keys() & some
            for minion_id in listening:
                self._coming.is_here(minion_id)
            found += [minion_id for minion_id in some if minion_id not in listening]
        return found

    def first(self, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        """A job goes out right after this, for these among others; see L{missing}."""
        ground, jid = self._ground, str(job["jid"])
        if ground.seams.hearer.cares_for_late or self._rules.more(jid, minions):
            return
        window = float(ground.config.publish_window)
        self._rules.expect(jid, minions, ground.clock.seconds(), window, asks=True)
        self._keep(jid, job)

    async def expect(self, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        """A job that had begun before the start goes out right after this, for these minions."""
        ground, jid = self._ground, str(job["jid"])
        if ground.seams.hearer.cares_for_late:
            return
        returned: Collection[str] = ()
        # If the disk does not say who has returned, that minion still knows the jid
        with suppress(StoreError):
            returned = await ground.jobs.returns(jid)
        _, listening = await self._look_for(minions)
        self._forget(jid)
        rest = set(minions).difference(listening, returned)
        window = float(ground.config.publish_window)
        self._rules.expect(jid, rest, ground.clock.seconds(), window)
        self._keep(jid, job)

    def _keep(self, jid: str, job: Mapping[str, Any]) -> None:
        def came(minion_id: str, data: Mapping[str, Any]) -> None:
            self._coming.is_here(minion_id)
            self._rules.returned(jid, minion_id)

        self._jobs[jid] = dict(job), []
        self._listen(jid, jid, came)
        self._schedule()

    def _listen(self, jid: str, to: str, came: Callable[[str, Mapping[str, Any]], None]) -> None:
        """As long as C{jid} waits for somebody, hear the returns of the job C{to}."""
        prefix = f"salt/job/{to}/ret/"
        stop = self._ground.bus.subscribe(prefix, lambda tag, data: came(tag[len(prefix) :], data))
        self._jobs[jid][1].append(stop)

    def _forget(self, jid: str) -> None:
        for stop in self._jobs.pop(jid, ({}, []))[1]:
            stop()

    def _schedule(self) -> None:
        if self._jobs and self._timer is None and not self._is_looking:
            self._timer = self._ground.clock.callLater(EVERY, self._begin_look)

    def _begin_look(self) -> None:
        self._timer = None
        self._is_looking = True
        let_go(self._look(), self.log, "nobody was looked for who may have missed a job")

    async def _look(self) -> None:
        clock = self._ground.clock
        try:
            self._give_now()
            for jid in self._rules.ended(clock.seconds()):
                self._forget(jid)
            here, listening = await self._look_for(sorted(self._rules.awaited()))
            for jid, minions in self._rules.seen(here, listening, clock.seconds()).items():
                self._send(jid, minions)
            for jid, minions in self._rules.questions(clock.seconds()).items():
                self._ask(jid, list(self._ground.presence.perhaps(minions)))
        finally:
            self._is_looking = False
            self._schedule()

    def _ask(self, jid: str, minions: list[str]) -> None:
        """
        Ask those that may be connected by now whether they run a job.

        Who answers listens, so that what is published from now on reaches it.
        """
        if not minions or self._publish is None:
            return

        def answered(minion_id: str, data: Mapping[str, Any]) -> None:
            if not is_idle(data):
                # It runs the job, or cannot tell
                self._rules.returned(jid, minion_id)
            elif self._rules.idle(jid, minion_id, self._ground.clock.seconds()):
                self._idle.setdefault(jid, []).append(minion_id)
                if self._giving is None:
                    self._giving = self._ground.clock.callLater(TOGETHER, self._give)
            self._coming.is_here(minion_id)

        question = self._new_jid()
        self._listen(jid, question, answered)
        load = {"tgt": minions, "tgt_type": "list", "fun": "saltutil.find_job", "arg": [jid]}
        let_go(self._publish(load, question), self.log, "nobody was asked about a late job")

    def _give_now(self) -> None:
        if self._giving is not None:
            self._giving.cancel()
            self._give()

    def _give(self) -> None:
        self._giving = None
        idle, self._idle = self._idle, {}
        for jid, minions in idle.items():
            if jid in self._jobs:
                self._send(jid, sorted(minions))

    async def _look_for(self, minions: Sequence[str]) -> tuple[set[str], set[str]]:
        """Those of them that are here, and those that subscribe to their own topic."""
        presence, live = self._ground.presence, self._ground.sessions.live()
        here: set[str] = set()
        listening: set[str] = set()
        async for some in in_turns(self._ground.clock, _slices(presence.perhaps(minions))):
            # Who has only signed in has made no request yet
            here |= presence.here(some) | live.keys() & some
            listening |= presence.listening(some)
        return here, listening

    def _send(self, jid: str, minions: list[str]) -> None:
        words = "job {jid} goes once more to minions that may have missed it: {count}"
        self.log.info(words, jid=jid, count=len(minions))
        self._ground.counters["jobs:again"] += len(minions)
        job = {**self._jobs[jid][0], "tgt": minions, "tgt_type": "list"}
        self._ground.publisher.publish(job, minions)


def _slices(minions: Sequence[str]) -> Iterator[tuple[str, ...]]:
    names = iter(minions)
    return iter(lambda: tuple(islice(names, SLICE)), ())
