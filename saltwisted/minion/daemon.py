"""
What a minion knows about itself, and how that is refreshed.

L{Minion} has grains and pillar. It passes them to the worker processes, to the targeting of
publications and to the schedule, and refreshes them on request or when it is time. Grains are
collected in a worker process; pillar comes from the master. C{roles.minion} connects the other
parts (links, jobs, schedule ...).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import RemoteError, SaltwistedError
from saltwisted.interfaces import IEventBus
from saltwisted.minion.connection import MasterLink
from saltwisted.transports.reasons import why

REFRESHED = {
    "pillar": "salt/minion/minion_pillar_refresh_complete",
    "modules": "salt/minion/minion_mod_refresh_complete",
}
"""Events that tell that a refresh is done, by Salt's tags."""

TRIGGERS = {"pillar_refresh": "pillar", "module_refresh": "modules", "grains_refresh": "grains"}
"""Events by which a module asks for a refresh, as in Salt (C{event.fire '{}' pillar_refresh})."""

NOTHING_KEPT = frozenset(("beacons", "matchers", "resources"))
"""Refreshing these is done as soon as it is asked: each job looks for itself."""

PATIENCE = 60.0
"""Seconds that a new pillar waits for grains which are being collected: they may never end."""

STARTUP = {
    "sls": lambda config: ("state.sls", [list(config.sls_list)]),
    "top": lambda config: ("state.top", [config.top_file]),
}
"""What C{startup_states} runs besides C{state.highstate}."""


class Facts(Protocol):
    """Where worker processes find grains and pillar (L{saltwisted.transports.workers.WarmPool})."""

    def set_fact(self, name: str, value: Any) -> None:
        """Tell them."""


class Minion(Service):
    """
    The facts of one minion.

    @param facts: the worker processes.
    @param call: C{call(fun, arg, without)}: runs a function in a worker, which then finds some
        facts by itself; returns its return fields.
    @param bus: the minion's own event bus.
    @param pick: the master to ask, or C{None} if there is none.
    @param on_facts: called with pillar and grains when they have changed.
    @param on_master: called with true when a master is connected, and with false when the last one
        has gone.
    """

    log = Logger()
    name = "minion"

    def __init__(
        self,
        clock: IReactorTime,
        config: MinionConfig,
        facts: Facts,
        call: Callable[[str, Sequence[Any], Sequence[str]], Awaitable[dict[str, Any]]],
        bus: IEventBus,
        pick: Callable[[], MasterLink | None],
        marks: Callable[[], Any] = tuple,
        on_facts: Callable[[Mapping[str, Any], Mapping[str, Any]], None] = lambda p, g: None,
        on_master: Callable[[bool], None] = lambda there: None,
    ) -> None:
        self._clock = clock
        self._config = config
        self._facts = facts
        self._call = call
        self._bus = bus
        self._pick = pick
        self._marks = marks
        self._marked: Any = None
        self._collecting = DeferredLock()
        self._begun = 0
        self._collected = 0
        self._told: Mapping[str, Any] | None = None
        self.grains: dict[str, Any] = {}
        self.pillar: dict[str, Any] = {}
        self.opts = config.as_opts()
        self.blackouts: list[list[str]] = []
        self._on_facts = on_facts
        self._on_master = on_master
        self._up: set[str] = set()
        self._loop: LoopingCall | None = None
        self._unsubscribe: list[Callable[[], None]] = []
        self._environ: dict[str, Any] = {"clear": False, "values": {}}
        self._started = time.time()

    # -- life

    async def _begin(self) -> None:
        try:
            await self._collect()
        except SaltwistedError as error:
            # A minion without grains still answers; the next refresh may mend it.
            self.log.error("the grains could not be collected: {error}", error=str(error))
        minutes = float(self._config.grains_refresh_every or 0)
        if minutes > 0 and self.running:
            self._loop = LoopingCall(lambda: Deferred.fromCoroutine(self._refresh_regularly()))
            self._loop.clock = self._clock
            _ = self._loop.start(minutes * 60, now=False)

    def startService(self) -> Deferred[None]:
        """Tell the options and collect the grains; fires when they are there."""
        super().startService()
        self._facts.set_fact("opts", self.opts)
        self._unsubscribe = [
            *(self._bus.subscribe(tag, self._asked) for tag in TRIGGERS),
            self._bus.subscribe("environ_setenv", self._set_environment),
        ]
        return Deferred.fromCoroutine(self._begin())

    def stopService(self) -> None:
        """Refresh no more."""
        super().stopService()
        while self._unsubscribe:
            self._unsubscribe.pop()()
        loop, self._loop = self._loop, None
        if loop is not None and loop.running:
            loop.stop()

    # -- facts

    def targeting(self) -> MinionFacts:
        """What targets may ask."""
        return MinionFacts(
            id=self._config.id,
            grains=self.grains,
            pillar=self.pillar,
            nodegroups=self._config.nodegroups,
        )

    async def _collect(self) -> bool:
        """
        Collect the grains: once at a time, and together with all others who asked before it began.

        @return: whether they differ from those before.
        @raises RemoteError: the worker failed.
        """
        begun, before = self._begun, self.grains
        async with self._collecting:
            if self._collected <= begun:
                await self._collect_now()
        return self.grains is not before

    async def _collect_now(self) -> None:
        self._begun += 1
        number = self._begun
        # As they are before they are read: what changes meanwhile is read the next time
        marks = self._marks()
        ret = await self._call("grains.items", [], ("grains",))
        grains = ret.get("return")
        if not isinstance(grains, dict):
            raise RemoteError("GrainsError", str(grains)[:500])
        # Only now: whoever looks at the marks wants to know which files the grains are from
        self._marked, self._collected = marks, number
        if grains != self.grains:
            self.grains = grains
            self._facts.set_fact("grains", grains)
            self._tell()

    async def _settle(self) -> None:
        """
        Have the grains that the files of grains now say, without collecting them if none of these
        files has changed.

        @raises RemoteError: the worker failed.
        """
        try:
            await self._collecting.acquire().addTimeout(PATIENCE, self._clock)
        except TimeoutError:
            self.log.warn(
                "the grains are still being collected after {patience} seconds: the pillar is "
                "compiled with those from before",
                patience=PATIENCE,
            )
            return
        try:
            if self._marks() != self._marked:
                await self._collect_now()
        finally:
            self._collecting.release()

    def take_pillar(self, pillar: dict[str, Any]) -> None:
        """A new pillar has come."""
        self.pillar = pillar
        self._facts.set_fact("pillar", pillar)
        for problem in pillar.get("_errors") or ():
            self.log.error("the pillar has an error: {problem}", problem=str(problem)[:500])
        self._tell()

    def _tell(self) -> None:
        self.blackouts = [
            [str(name) for name in source.get("minion_blackout_whitelist") or ()]
            for source in (self.pillar, self.grains)
            if source.get("minion_blackout")
        ]
        self._on_facts(self.pillar, self.grains)

    def reconfigure(self, names: Iterable[str]) -> None:
        """These options of the configuration have new values: jobs from now on see them."""
        fresh = self._config.as_opts()
        for name in names:
            if name == "extra":
                self.opts.update(self._config.extra)
            elif name in fresh:
                self.opts[name] = fresh[name]
        self._facts.set_fact("opts", self.opts)
        self._tell()

    # -- masters

    def master_up(self, name: str, address: str, port: int, first: bool) -> None:
        """A master has proved itself."""
        self._up.add(name)
        uri = f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"
        self.opts.update(master_ip=address, master_uri=uri)
        if self._config.master_type not in ("str", "disable"):
            # One at a time: modules see that one in place of the list, as in Salt.
            self.opts["master"] = name
        self._facts.set_fact("opts", self.opts)
        self._bus.fire("__master_connected", {"master": name})
        self._on_master(True)

    def master_down(self, name: str) -> None:
        """A master has gone."""
        self._up.discard(name)
        self._bus.fire("__master_disconnected", {"master": name})
        if not self._up:
            self._on_master(False)

    def startup_job(self) -> tuple[str, list[Any]] | None:
        """What C{startup_states} asks to be run at the first connection."""
        wanted = self._config.startup_states
        if not wanted:
            return None
        chosen = STARTUP.get(wanted)
        return ("state.highstate", []) if chosen is None else chosen(self._config)

    # -- again

    async def refresh(self, what: str, wait: bool = False, timeout: Any = 30, **how: Any) -> bool:
        """
        Refresh something.

        @param what: C{pillar}, C{grains}, C{modules}, or something that is never cached.
        @param wait: return when it is done, or after C{timeout} seconds; else at once.
        @param how: C{clean_cache} for a pillar.
        @raises RemoteError: it is unknown, or it failed while a caller waits.
        """
        if what in NOTHING_KEPT:
            return True
        if what not in ("pillar", "grains", "modules"):
            raise RemoteError("SaltInvocationError", f"there is no refresh of {what!r}")
        work: Deferred[bool] = Deferred.fromCoroutine(self._refresh(what, how))
        if wait:
            try:
                return await work.addTimeout(float(timeout or 30), self._clock)
            except SaltwistedError as error:
                raise RemoteError("SaltClientError", str(error)) from error
            except TimeoutError as error:
                raise RemoteError("SaltReqTimeoutError", f"{what}: not done in time") from error
        _ = work.addErrback(
            lambda failure: self.log.error(
                "the {what} could not be refreshed: {error}",
                what=what,
                error=why(failure),
            )
        )
        return True

    def _asked(self, tag: str, data: Mapping[str, Any]) -> None:
        """A module has fired one of Salt's events for a refresh."""
        what = TRIGGERS.get(tag)
        if what is not None:
            how = {"clean_cache": True} if data.get("clean_cache") else {}
            _ = Deferred.fromCoroutine(self.refresh(what, **how))

    def _set_environment(self, tag: str, data: Mapping[str, Any]) -> None:
        """C{environ.setenv} with C{update_minion}: for all jobs to come."""
        environ = data.get("environ")
        if not isinstance(environ, Mapping):
            return
        if data.get("clear_all"):
            self._environ = {"clear": True, "values": {}}
        for name, value in environ.items():
            if value is False:
                self._environ["values"][str(name)] = None if data.get("false_unsets") else ""
            else:
                self._environ["values"][str(name)] = str(value)
        self._facts.set_fact("environ", self._environ)

    async def _refresh(self, what: str, how: Mapping[str, Any]) -> bool:
        # Refreshing modules collects the grains too, as in Salt. Stock does so for a pillar as
        # well; here that takes the grains as they are, unless a file that they are written in has
        # changed: a grain module that was just synced, and /etc/salt/grains, show as in Salt.
        changed = False
        try:
            if what == "pillar":
                await self._settle()
            else:
                changed = await self._collect()
        except SaltwistedError as error:
            if what == "grains":
                raise
            self.log.error("the grains could not be collected: {error}", error=str(error))
        if what == "modules":
            self._bus.fire(REFRESHED["modules"], {"complete": True})
        # A pillar that others have asked for meanwhile has told the master
        if what != "pillar" and (not changed or self._told is self.grains):
            return True
        link = self._pick()
        if link is None:
            raise SaltwistedError("no master is connected")
        # The fields make it a pillar of somebody's own in the link's eyes: take it ourselves.
        fields = {"clean_cache": True} if how.get("clean_cache") else {}
        self._told = self.grains
        pillar = await link.fetch_pillar(**fields)
        if fields:
            self.take_pillar(pillar)
        self._bus.fire(REFRESHED["pillar"], {"complete": True})
        return True

    async def _refresh_regularly(self) -> None:
        try:
            await self._refresh("grains", {})
        except SaltwistedError as error:
            self.log.error("the grains could not be refreshed: {error}", error=str(error))

    # -- for people

    def status(self) -> dict[str, Any]:
        """Numbers about the facts."""
        return {
            "id": self._config.id,
            "started": self._started,
            "grains": len(self.grains),
            "pillar": len(self.pillar),
            "masters_up": sorted(self._up),
            "blackout": bool(self.blackouts),
        }
