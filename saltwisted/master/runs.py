"""
Follows one job for a caller who waits: the driver of L{saltwisted.domain.jobs}.

It listens before it publishes, because a return may be on the bus before the publish call returns.
The command line, batches, runners and minions that publish all wait through here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.jobids import judged_jid
from saltwisted.domain.jobs import Done, Effect, PublishFindJob, RunningJob, Yield
from saltwisted.domain.who import Who
from saltwisted.master.ground import Ground
from saltwisted.master.recall import Recall
from saltwisted.transports.deferreds import let_go

LATE = 75.0
"""Seconds for which a job that another master has published is waited for at least."""


class Publish(Protocol):
    """
    How to publish. C{jid} is one of ours; without it, the caller has chosen the jid in the load.
    The answer may also contain what was C{returned} before, by minion, and who was C{told} before.
    """

    def __call__(
        self, load: Mapping[str, Any], who: Who, jid: str = ""
    ) -> Awaitable[dict[str, Any]]: ...


class AwaitedJob:
    """One job with one waiting caller; L{items} may be iterated once."""

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        publish: Publish,
        ask: Publish,
        new_jid: Callable[[], str],
        load: dict[str, Any],
        who: Who,
        timeout: float,
        gather: float,
    ) -> None:
        """
        @param publish: how the job is published.
        @param ask: how questions about it are, each to some of its minions.
        """
        self._ground = ground
        self._publish = publish
        self._ask_minions = ask
        self._new_jid = new_jid
        self._load = load
        self._who = who
        self._timeout = timeout
        self._gather = gather
        self._items: deque[dict[str, Any]] = deque()
        self._wake: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._job: RunningJob | None = None
        self._recall: Recall | None = None
        self._early: list[tuple[str, Mapping[str, Any]]] = []
        self._stops: list[Callable[[], None]] = []
        self._ended = False
        self._chosen = judged_jid(load.get("jid"))
        # A batch runs its parts under one jid, and each part awaits its own minions only
        self._shared = bool(self._chosen)

    async def items(self) -> AsyncGenerator[dict[str, Any], None]:
        """
        C{published}, each C{return} as it comes, and C{missing} if some did not return.

        Leaving early (the caller went away) stops the waiting, never the job.
        """
        own = "" if self._chosen else self._new_jid()
        jid = self._chosen or own
        self._listen(f"salt/job/{jid}/ret/", self._returned)
        try:
            published = await self._go_out(own)
            yield {
                "kind": "published",
                "jid": published.get("jid"),
                "minions": published.get("minions", []),
                "missing": published.get("missing", []),
                "told": published.get("told", []),
                **{name: published[name] for name in ("older", "late") if name in published},
            }
            if not published.get("jid"):
                return
            self._early.extend(published.get("returned", {}).items())
            # Its minions may have to find another master first
            grace = LATE if "returned" in published else 0.0
            if published.get("late"):
                grace = max(grace, float(self._ground.config.publish_window))
            if published.get("told"):
                self._recall = self._recalling(jid, published["told"])
            self._begin(jid, published["minions"], grace)
            while True:
                while self._items:
                    yield self._items.popleft()
                if self._ended:
                    return
                self._wake = Deferred()
                await self._wake
        finally:
            self._stop()

    async def _go_out(self, own: str) -> dict[str, Any]:
        return await self._publish(self._load, self._who, own)

    def _recalling(self, jid: str, minions: list[str]) -> Recall:
        async def publish(load: Mapping[str, Any], own: str) -> None:
            await self._ask_minions(load, self._who, own)

        return Recall(self._ground, publish, self._new_jid, jid, minions)

    def _listen(self, prefix: str, receiver: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._stops.append(self._ground.bus.subscribe(prefix, receiver))

    def _begin(self, jid: str, minions: list[str], grace: float) -> None:
        self._job = RunningJob(jid, set(minions), self._timeout, self._gather, grace=grace)
        self._apply(self._job.begin(self._ground.clock.seconds()))
        early, self._early = self._early, []
        for minion, data in early:
            if not self._shared or minion in self._job.expected:
                self._apply(self._job.got(minion, data))
        self._schedule()

    def _returned(self, tag: str, data: Mapping[str, Any]) -> None:
        minion = tag.rsplit("/ret/", 1)[-1]
        if self._job is None:
            self._early.append((minion, data))
        elif not self._shared or minion in self._job.expected:
            self._apply(self._job.got(minion, data))

    def _found(self, tag: str, data: Mapping[str, Any]) -> None:
        if self._job is not None:
            minion = tag.rsplit("/ret/", 1)[-1]
            self._apply(self._job.answered(minion, data, self._ground.clock.seconds()))
            if self._recall is not None:
                self._recall.answered(minion, data)
            self._schedule()

    def _tick(self) -> None:
        self._timer = None
        if self._job is not None:
            self._apply(self._job.tick(self._ground.clock.seconds()))
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._job.next_tick() if self._job is not None and not self._ended else None
        if due is not None:
            delay = max(due - self._ground.clock.seconds(), 0.01)
            self._timer = self._ground.clock.callLater(delay, self._tick)

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Yield):
                self._items.append(
                    {"kind": "return", "id": effect.minion_id, "data": dict(effect.data)}
                )
            elif isinstance(effect, PublishFindJob):
                self._ask(effect.ids)
            elif isinstance(effect, Done):
                self._end(effect.missing)
        if self._wake is not None and (self._items or self._ended):
            wake, self._wake = self._wake, None
            wake.callback(None)

    def _end(self, missing: tuple[str, ...]) -> None:
        self._ended = True
        if not missing:
            return
        present = self._ground.presence.present(missing)
        cache = self._ground.cache
        self._items.append(
            {
                "kind": "missing",
                "ids": list(missing),
                "idle": [] if self._recall is None else sorted(self._recall.idle & set(missing)),
                "connected": {m: m in present or not cache.has("grains", m) for m in missing},
            }
        )

    def _ask(self, ids: tuple[str, ...]) -> None:
        """Ask the silent whether they still run the job."""
        assert self._job is not None
        jid = self._new_jid()
        self._listen(f"salt/job/{jid}/ret/", self._found)
        load = {
            "tgt": list(ids),
            "tgt_type": "list",
            "fun": "saltutil.find_job",
            "arg": [self._job.jid],
        }
        let_go(self._ask_and_tell(load, jid), self.log, "find_job could not be published")

    async def _ask_and_tell(self, load: Mapping[str, Any], jid: str) -> None:
        await self._ask_minions(load, self._who, jid)
        if self._job is not None:
            self._job.asked(self._ground.clock.seconds())
            self._schedule()

    def _stop(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._recall is not None:
            self._recall.stop()
        while self._stops:
            self._stops.pop()()
