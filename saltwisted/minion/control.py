"""
What jobs and the command line may request from a minion.

Jobs use the socket that they were started with; C{salt-call} and jobs of an earlier daemon use
C{sock_dir/saltwisted.sock}. There everything is for root and the minion's own user: a user who may
speak as this minion may run anything on it. The operations are rows of a table, as on a master;
errors have Salt's names.
"""

from __future__ import annotations

import fnmatch
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from saltwisted.domain.operations.arguments import (
    ANYTHING,
    FLAG,
    JID,
    MAP,
    SECONDS,
    TEXT,
    TEXTS,
    WHOLE,
    Argument,
    one_of,
)
from saltwisted.domain.operations.table import (
    Call,
    Caller,
    Handler,
    Operation,
    Operations,
    Stream,
    owner_only,
)
from saltwisted.domain.secrecy import firing_job, is_secret, told_event
from saltwisted.errors import RemoteError, RequestTimeout, TransportClosed, WireError
from saltwisted.interfaces import IEventBus
from saltwisted.minion.connection import MasterLink
from saltwisted.minion.links import ONCE
from saltwisted.transports.ipc import PeerProcess
from saltwisted.transports.localdoor import local_caller

TRIES = 5
"""Masters that may die under one request."""

REFUSAL = "this is for root and the minion's own user alone"
MAY = owner_only(REFUSAL)


@frozen(kw_only=True)
class Job(Caller):
    """
    A job of this minion.

    @ivar via: the master that it came from, which gets its requests.
    """

    via: str = ""


class Links(Protocol):
    """All masters (L{saltwisted.minion.links.Links})."""

    @property
    def best(self) -> MasterLink | None:
        """One that is up."""

    def named(self, name: str) -> MasterLink | None:
        """The one of this name."""

    def when_up(self) -> Deferred[Any]:
        """Fires with one that is up."""

    async def request(self, load: dict[str, Any], link: Any = None, **how: Any) -> Any:
        """Ask one."""

    def status(self) -> list[dict[str, Any]]:
        """How each is."""


class Control:
    """
    The operations.

    @param links: the masters.
    @param bus: the minion's own event bus.
    @param minion_id: the id under which events are fired.
    @param patience: seconds that a request waits until there is a master at all.
    @param returned: takes what a job reports about its return (C{Jobs.returned}).
    @param keep: takes a return that is not on disk (C{Jobs.keep}).
    @param jobs: the running jobs (C{Jobs.listed}).
    @param kill: sends a signal to a job (C{Jobs.kill}).
    @param refresh: C{refresh(what, **options)}, see L{saltwisted.minion.daemon.Minion.refresh}.
    @param schedule: C{schedule(func, **data)}, see C{Scheduler.call}.
    @param status: numbers about the minion.
    @param join: takes a join token; raises L{WireError} if it is invalid.
    """

    log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        links: Links,
        bus: IEventBus,
        minion_id: str,
        patience: float,
        returned: Callable[[Mapping[str, Any]], None],
        keep: Callable[[Mapping[str, Any]], Awaitable[None]],
        jobs: Callable[[], list[dict[str, Any]]],
        kill: Callable[[str, int], bool],
        refresh: Callable[..., Awaitable[Any]],
        schedule: Callable[..., Mapping[str, Any]],
        status: Callable[[], dict[str, Any]],
        join: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._links = links
        self._bus = bus
        self._id = minion_id
        self._patience = patience
        self._returned = returned
        self._keep = keep
        self._jobs = jobs
        self._kill = kill
        self._refresh = refresh
        self._schedule = schedule
        self._status = status
        self._join = join
        self._fired = 0
        self._table = Operations("this minion", self.operations())

    # -- doors

    async def handle(self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Stream) -> Any:
        """
        An operation asked on the public socket.

        @raises RemoteError: not allowed, not known, or failed.
        """
        caller = local_caller(peer)
        if not caller.owner:  # he is not even told what there is
            raise RemoteError("AuthorizationError", REFUSAL)
        return await self._table.call(op, args, caller, stream)

    async def ask(self, op: str, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """
        An operation asked by a job of ours.

        @param via: the master that the job came from: its requests go there.
        @raises RemoteError: not known, or failed.
        """
        caller = Job(name="job", owner=True, source=via, door="a job", via=via)
        return await self._table.call(op, args, caller, stream)

    def operations(self) -> list[Operation]:
        """The rows."""
        load = Argument("load", MAP, needed=True, may_be_empty=True)
        tag = Argument("tag", ANYTHING, needed=True, may_be_empty=True)
        return [
            _row("request", self.request, load, Argument("timeout", SECONDS)),
            _row("pillar_request", self.pillar_request, load),
            _row(
                "fire_event",
                self.fire_event,
                tag,
                Argument("data", ANYTHING),
                Argument("to_master", FLAG),
            ),
            _row(
                "return",
                self.give_back,
                Argument("name", TEXT),
                Argument("packed", ANYTHING),
                Argument("load", MAP),
                Argument("via", TEXT),
            ),
            _row("running", self.running),
            _row(
                "signal",
                self.signal,
                Argument("jid", JID, needed=True),
                Argument("signal", WHOLE),
            ),
            _row("status", self.status),
            _row("join", self.join, Argument("token", TEXT, needed=True)),
            _row(
                "refresh",
                self.refresh,
                Argument("what", TEXT, needed=True),
                more="how: `wait`, `timeout`, `clean_cache`",
            ),
            _row(
                "schedule",
                self.schedule,
                Argument("func", TEXT, needed=True),
                more="the data of that function",
            ),
            _row(
                "log",
                self.log_record,
                Argument("level", WHOLE),
                Argument("name", TEXT),
                Argument("message", TEXT),
            ),
            _row(
                "events",
                self.events,
                Argument("tags", TEXTS),
                Argument("match", one_of(*_MATCHES)),
                streams=True,
            ),
        ]

    # -- the master

    async def _link(self, via: str) -> MasterLink:
        """The master of a job, else any that is up, else the next that comes up in time."""
        link = self._links.named(via) if via else None
        if link is not None and link.up:
            return link
        if self._links.best is not None:
            return self._links.best
        waiting = self._links.when_up().addTimeout(self._patience, self._clock)
        try:
            found: MasterLink = await waiting
        except TimeoutError as error:
            raise TransportClosed(self._absence()) from error
        return found

    async def _asked(self, via: str, cmd: str, ask: Callable[[MasterLink], Awaitable[Any]]) -> Any:
        """
        Ask the master of a job; when it goes away meanwhile, the next that is there in time. A
        state run must not fail for a file because its master dies while it is fetched.
        """
        for _ in range(TRIES):
            link = await self._link(via)
            try:
                return await ask(link)
            except TransportClosed:
                if link.up or cmd in ONCE:
                    raise
        return await ask(await self._link(via))

    def _absence(self) -> str:
        """That there is no master, and why."""
        reasons = [f"{one['master']}: {one['reason']}" for one in self._links.status()]
        return "; ".join(["no master is connected", *reasons])

    async def request(self, call: Call) -> Any:
        """Send one request to the master; C{load} has C{cmd} and its fields."""
        load = dict(call.args["load"])
        cmd = str(load.get("cmd", ""))
        raw = cmd == "_serve_file"
        how = {"timeout": float(call.args["timeout"])} if call.args.get("timeout") else {}
        try:
            answer = await self._asked(
                _via(call), cmd, lambda link: self._links.request(dict(load), link, raw=raw, **how)
            )
        except (TransportClosed, WireError) as error:
            raise _refusal(cmd, error) from error
        return _readable(answer) if raw else answer

    async def pillar_request(self, call: Call) -> Any:
        """Request a pillar for the fields of C{load}; the minion's own pillar stays as it is."""
        fields = {key: value for key, value in dict(call.args["load"]).items() if key not in _ADDED}
        fields.setdefault("extra_minion_data", {})
        try:
            return await self._asked(
                _via(call), "_pillar", lambda link: link.fetch_pillar(**fields)
            )
        except (TransportClosed, WireError) as error:
            raise _refusal("_pillar", error) from error

    async def fire_event(self, call: Call) -> Any:
        """Fire an event on the minion's bus, and with C{to_master} on the master's too."""
        tag, given = str(call.args["tag"]), call.args.get("data")
        data = given if isinstance(given, dict) else {"data": given}
        about = firing_job(tag, data)
        if about and any(is_secret(job) for job in self._jobs() if job.get("jid") == about):
            tag, data = told_event(tag, data)
        self._bus.fire(tag, data)
        if call.args.get("to_master"):
            # A master gets text as it was given: the event there is this load
            sent = data if isinstance(given, dict) else data["data"]
            load = {"cmd": "_minion_event", "tag": tag, "data": sent, "pretag": None}
            if not data.get("__pub_jid"):
                # It is sent again where no answer comes, and is the same event then
                self._fired += 1
                load["__pub_jid"] = f"{self._clock.seconds():.6f}-{self._fired}"
            await self.request(evolve(call, args={"load": load}))
        return True

    # -- jobs

    async def give_back(self, call: Call) -> Any:
        """Accept a return for the master: by its name on disk, or as a whole."""
        if call.args.get("name"):
            self._returned(call.args)
        elif isinstance(call.args.get("load"), dict):
            await self._keep(call.args["load"])

    async def running(self, call: Call) -> Any:
        """List the running jobs and, with C{pid} 0, the waiting ones."""
        return self._jobs()

    async def signal(self, call: Call) -> Any:
        """Send a signal to a job; SIGKILL if none is named."""
        return self._kill(str(call.args["jid"]), int(call.args.get("signal", signal.SIGKILL)))

    # -- ourselves

    async def status(self, call: Call) -> Any:
        """Report the state of the minion."""
        return self._status()

    async def join(self, call: Call) -> Any:
        """Sign in with a token of a cluster from now on."""
        try:
            self._join(str(call.args["token"]))
        except WireError as error:
            raise RemoteError("SaltInvocationError", error.reason) from None
        return {"id": self._id}

    async def refresh(self, call: Call) -> Any:
        """Refresh C{what}: C{pillar}, C{grains} or C{modules}."""
        how = dict(call.args)
        return await self._refresh(how.pop("what"), **how)

    async def schedule(self, call: Call) -> Any:
        """List or change the schedule."""
        data = dict(call.args)
        return self._schedule(data.pop("func"), **data)

    async def log_record(self, call: Call) -> Any:
        """Log a record of a job's module."""
        level = int(call.args.get("level", 20))
        self.log.emit(
            _LEVELS[min(max(level // 10, 1), 5)],
            "{name}: {text}",
            name=str(call.args.get("name", ""))[:200],
            text=str(call.args.get("message", "")),
            log_namespace=str(call.args.get("name", ""))[:200],
        )

    async def events(self, call: Call) -> Any:
        """Stream the minion's own events whose tags fit one of C{tags}."""
        for_ever: Deferred[None] = Deferred()
        wanted = [str(tag) for tag in call.args.get("tags") or [""]]
        match = str(call.args.get("match") or "startswith")
        fits = _MATCHES[match]

        def receive(tag: str, data: Mapping[str, Any]) -> None:
            if any(fits(tag, one) for one in wanted):
                call.stream({"tag": tag, "data": data})

        stop = self._bus.subscribe("", receive)
        try:
            call.stream({"tag": "", "data": {}, "ready": True})
            await for_ever
        finally:
            stop()


def _row(
    name: str, handler: Handler, *takes: Argument, streams: bool = False, more: str = ""
) -> Operation:
    return Operation(name=name, right=MAY, handler=handler, takes=takes, streams=streams, more=more)


def _via(call: Call) -> str:
    """The master that the job came from; nothing for the command line."""
    return call.caller.via if isinstance(call.caller, Job) else ""


_ADDED = frozenset(("cmd", "id", "tok", "nonce", "ts", "ver"))
"""Fields that the channel writes."""

_LEVELS = {
    1: LogLevel.debug,
    2: LogLevel.info,
    3: LogLevel.warn,
    4: LogLevel.error,
    5: LogLevel.critical,
}

_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "startswith": lambda tag, wanted: tag.startswith(wanted),
    "endswith": lambda tag, wanted: tag.endswith(wanted),
    "find": lambda tag, wanted: wanted in tag,
    "fnmatch": fnmatch.fnmatchcase,
    "regex": lambda tag, wanted: re.search(wanted, tag) is not None,
}


def _refusal(cmd: str, error: Exception) -> RemoteError:
    if isinstance(error, RequestTimeout):
        return RemoteError("SaltReqTimeoutError", f"{cmd}: the master did not answer in time")
    return RemoteError("SaltClientError", f"{cmd}: {error}")


def _readable(answer: Any) -> Any:
    """An answer that was read raw: keys and short fields as text, C{data} as bytes."""
    if not isinstance(answer, dict):
        return answer
    readable = {}
    for key, value in answer.items():
        name = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key
        if name != "data" and isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        readable[name] = value
    return readable
