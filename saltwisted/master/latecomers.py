"""
Jobs that a lone master publishes again after its start, for minions that connect later.

L{saltwisted.domain.latecomers} has the rule; this module checks who has connected. In a cluster
C{seams.hearer} takes care of them, because another node may have reached those minions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.latecomers import Latecomers
from saltwisted.errors import StoreError
from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

EVERY = 1.0
SLICE = 200
"""Minions that are looked at in one go: about a millisecond."""


class LateJobs:
    """Checks who has connected, as long as a job waits for somebody. Reactor thread only."""

    log = Logger()

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rules = Latecomers()
        self._jobs: dict[str, tuple[Mapping[str, Any], Callable[[], None]]] = {}
        self._timer: Any = None
        self._is_looking = False

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """End all waiting."""
        self._rules = Latecomers()
        for jid in list(self._jobs):
            self._forget(jid)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
        prefix = f"salt/job/{jid}/ret/"

        def came(tag: str, data: Mapping[str, Any]) -> None:
            self._rules.returned(jid, tag[len(prefix) :])

        self._jobs[jid] = dict(job), ground.bus.subscribe(prefix, came)
        self._schedule()

    def _forget(self, jid: str) -> None:
        if jid in self._jobs:
            self._jobs.pop(jid)[1]()

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
            for jid in self._rules.ended(clock.seconds()):
                self._forget(jid)
            here, listening = await self._look_for(sorted(self._rules.awaited()))
            for jid, minions in self._rules.seen(here, listening, clock.seconds()).items():
                self._send(jid, minions)
        finally:
            self._is_looking = False
            self._schedule()

    async def _look_for(self, minions: Sequence[str]) -> tuple[set[str], set[str]]:
        """Those of them that are here, and those that subscribe to their own topic."""
        presence, live = self._ground.presence, self._ground.sessions.live()
        here: set[str] = set()
        listening: set[str] = set()
        names = iter(presence.perhaps(minions))
        slices = iter(lambda: tuple(islice(names, SLICE)), ())
        async for some in in_turns(self._ground.clock, slices):
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
