"""
What jobs and the command line may ask of a minion.

Jobs ask over the socket that they were born with, C{salt-call} and jobs of an earlier daemon
over C{sock_dir/saltwisted.sock}. There everything is for root and the minion's own user:
who may speak as this minion may run anything on it. Each operation is a method
C{op_<name>}; errors carry Salt's names.
"""

from __future__ import annotations

import fnmatch
import os
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from saltwisted.errors import RemoteError, RequestTimeout, TransportClosed, WireError
from saltwisted.interfaces import IEventBus
from saltwisted.minion.connection import MasterLink
from saltwisted.minion.links import ONCE

TRIES = 5
"""Masters that may die under one request."""

Stream = Callable[[Any], Any]


class Peer(Protocol):
    """Who is on the other side (L{saltwisted.transports.ipc.Peer})."""

    @property
    def uid(self) -> int:
        """The user."""


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
    @param minion_id: as whom events are fired.
    @param patience: seconds that a request waits for a master to be there at all.
    @param returned: takes what a job says of its return (C{Jobs.returned}).
    @param keep: takes a return that is not on disk (C{Jobs.keep}).
    @param jobs: the jobs at work (C{Jobs.listed}).
    @param kill: sends a signal to a job (C{Jobs.kill}).
    @param refresh: C{refresh(what, **options)}, see L{saltwisted.minion.daemon.Minion.refresh}.
    @param schedule: C{schedule(func, **data)}, see C{Scheduler.call}.
    @param status: numbers about the minion.
    @param join: takes a join token; raises L{WireError} for what is none.
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

    # -- doors

    async def handle(self, op: str, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """
        An operation asked on the public socket.

        @raises RemoteError: not allowed, not known, or failed.
        """
        if peer.uid not in (0, os.geteuid()):
            raise RemoteError(
                "AuthorizationError", "this is for root and the minion's own user alone"
            )
        return await self.ask(op, args, stream, "")

    async def ask(self, op: str, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """
        An operation asked by a job of ours.

        @param via: the master that the job came from: its requests go there.
        @raises RemoteError: not known, or failed.
        """
        method = getattr(self, f"op_{op}", None) if op.isidentifier() else None
        if method is None:
            raise RemoteError("UnknownOperation", f"this minion does not know {op!r}")
        try:
            return await method(dict(args), stream, via)
        except KeyError as error:
            raise RemoteError("SaltInvocationError", f"{op} needs {error.args[0]!r}") from None

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

    async def op_request(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """One request to the master; C{load} has C{cmd} and its fields."""
        load = dict(args["load"])
        cmd = str(load.get("cmd", ""))
        raw = cmd == "_serve_file"
        how = {"timeout": float(args["timeout"])} if args.get("timeout") else {}
        try:
            answer = await self._asked(
                via, cmd, lambda link: self._links.request(dict(load), link, raw=raw, **how)
            )
        except (TransportClosed, WireError) as error:
            raise _refusal(cmd, error) from error
        return _readable(answer) if raw else answer

    async def op_pillar_request(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """A pillar compiled for the fields of C{load}; our own is left as it is."""
        fields = {key: value for key, value in dict(args["load"]).items() if key not in _ADDED}
        fields.setdefault("extra_minion_data", {})
        try:
            return await self._asked(via, "_pillar", lambda link: link.fetch_pillar(**fields))
        except (TransportClosed, WireError) as error:
            raise _refusal("_pillar", error) from error

    async def op_fire_event(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """An event for our own bus, and with C{to_master} for the master's."""
        tag, data = str(args["tag"]), args.get("data")
        data = data if isinstance(data, dict) else {"data": data}
        self._bus.fire(tag, data)
        if args.get("to_master"):
            load = {"cmd": "_minion_event", "tag": tag, "data": data, "pretag": None}
            await self.op_request({"load": load}, stream, via)
        return True

    # -- jobs

    async def op_return(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """A return to bring to the master: on disk already, or whole."""
        if args.get("name"):
            self._returned(args)
        elif isinstance(args.get("load"), dict):
            await self._keep(args["load"])

    async def op_running(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Jobs at work and, with C{pid} 0, waiting."""
        return self._jobs()

    async def op_signal(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Send a signal to a job of ours (C{jid}, C{signal}; SIGKILL by default)."""
        return self._kill(str(args["jid"]), int(args.get("signal", signal.SIGKILL)))

    # -- ourselves

    async def op_status(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """How we are."""
        return self._status()

    async def op_join(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Sign in by a token of a cluster, C{token}, from now on."""
        try:
            self._join(str(args["token"]))
        except WireError as error:
            raise RemoteError("SaltInvocationError", error.reason) from None
        return {"id": self._id}

    async def op_refresh(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Look anew at C{what}: C{pillar}, C{grains}, C{modules} ..."""
        return await self._refresh(str(args.pop("what")), **args)

    async def op_schedule(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Look at or change the schedule: C{func} and its data."""
        return self._schedule(str(args.pop("func")), **args)

    async def op_log(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """A log record of a job's module."""
        level = int(args.get("level", 20))
        self.log.emit(
            _LEVELS[min(max(level // 10, 1), 5)],
            "{name}: {text}",
            name=str(args.get("name", ""))[:200],
            text=str(args.get("message", "")),
            log_namespace=str(args.get("name", ""))[:200],
        )

    async def op_events(self, args: dict[str, Any], stream: Stream, via: str) -> Any:
        """Stream our own events; C{tags} and C{match} as on a master."""
        for_ever: Deferred[None] = Deferred()
        wanted = [str(tag) for tag in args.get("tags") or [""]]
        match = str(args.get("match") or "startswith")
        fits = _MATCHES.get(match)
        if fits is None:
            raise RemoteError("SaltInvocationError", f"match: {match!r} is none of {[*_MATCHES]}")

        def receive(tag: str, data: Mapping[str, Any]) -> None:
            if any(fits(tag, one) for one in wanted):
                stream({"tag": tag, "data": data})

        stop = self._bus.subscribe("", receive)
        try:
            stream({"tag": "", "data": {}, "ready": True})
            await for_ever
        finally:
            stop()


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
