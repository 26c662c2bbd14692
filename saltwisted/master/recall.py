"""
Returns that minions have kept, of a job whose master has died.

A stock minion returns only to the master that gave it the job: if that master is gone, the return
is lost on its way. With C{cache_jobs: True} the minion has first written it to its own disk, and
C{saltutil.find_cached_job} finds it. Our minions return to any master.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.jobs import is_idle, remembered
from saltwisted.master.ground import Ground
from saltwisted.master.returned import announce, keep
from saltwisted.transports.deferreds import let_go

TOGETHER = 0.5
"""Seconds in which those who say that they are idle are collected, to be asked by one job."""


class Recall:
    """
    The questions about one job. Reactor thread only.

    @param publish: publishes a load under a jid.
    @param minions: those that got the job from a master that died.
    @ivar idle: those of them that have said that they do not run it.
    """

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        publish: Callable[[Mapping[str, Any], str], Coroutine[Any, Any, Any]],
        new_jid: Callable[[], str],
        jid: str,
        minions: Collection[str],
    ) -> None:
        self._ground, self._publish, self._new_jid = ground, publish, new_jid
        self._jid, self._minions = jid, frozenset(minions)
        self.idle: set[str] = set()
        self._due: set[str] = set()
        self._timer: IDelayedCall | None = None
        self._stops: list[Callable[[], None]] = []

    def answered(self, minion: str, data: Mapping[str, Any]) -> None:
        """A minion answered C{find_job}: if it is idle, it is asked what it has kept."""
        if minion not in self._minions or not is_idle(data):
            return
        self.idle.add(minion)
        self._due.add(minion)
        if self._timer is None:
            self._timer = self._ground.clock.callLater(TOGETHER, self._ask)

    def _ask(self) -> None:
        self._timer = None
        jid, due = self._new_jid(), sorted(self._due)
        self._due.clear()
        self._stops.append(self._ground.bus.subscribe(f"salt/job/{jid}/ret/", self._told))
        load = {
            "tgt": due,
            "tgt_type": "list",
            "fun": "saltutil.find_cached_job",
            "arg": [self._jid],
        }
        let_go(self._publish(load, jid), self.log, "find_cached_job could not be published")

    def _told(self, tag: str, data: Mapping[str, Any]) -> None:
        minion = tag.rsplit("/ret/", 1)[-1]
        load = remembered(self._jid, minion, data) if minion in self._minions else None
        if load is None:
            return
        self.log.info("{minion} had kept its return of job {jid}", minion=minion, jid=self._jid)
        if self._ground.config.job_cache:
            let_go(keep(self._ground, minion, load), self.log, "a return was not stored")
        else:
            announce(self._ground, minion, load)

    def stop(self) -> None:
        """Ask no more minions."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        while self._stops:
            self._stops.pop()()
