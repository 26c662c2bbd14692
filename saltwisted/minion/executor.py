"""
Assigns jobs to worker processes: how many at once, which wait, and how each one ended.

The daemon's half of L{saltwisted.worker.process.main}. A job is a map of Salt's fields. Its
messages (returns, log lines, questions) go to the handler that the caller passes, and
L{Running.ended} fires when the process is gone. Nothing here knows masters or disks. Reactor thread
only; nothing blocks.
"""

from __future__ import annotations

import resource
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.errors import RemoteError
from saltwisted.words import are

ENTRY = "saltwisted.worker.process.main:run_job"

URGENT = frozenset(
    f"saltutil.{name}"
    for name in (
        "find_job", "is_running", "running", "find_cached_job",
        "kill_job", "term_job", "signal_job", "kill_all_jobs",
    )
)  # fmt: skip
"""Never queued: they are how one looks at, and ends, the jobs that fill the places."""

RESERVED_DESCRIPTORS = 100
PER_JOB = 5
"""Descriptors for everything else and for each job, when C{process_count_max} sets no limit."""


class Child(Protocol):
    """A worker process (L{saltwisted.transports.children.Child})."""

    pid: int
    exited: Deferred[Any]

    def kill(self, number: int, group: bool) -> None:
        """Send a signal."""


Handler = Callable[[str, dict[str, Any], Any, Any], Any]
"""C{async handler(op, args, peer, stream)}, as of a control socket."""


class JobProcesses(Protocol):
    """Creates worker processes (L{saltwisted.transports.workers.WarmPool})."""

    def spawn(self, entry: str, payload: Any, handler: Handler) -> Child:
        """Start one."""


@frozen(kw_only=True)
class Order:
    """
    A job to run.

    @ivar job: Salt's publication; at least C{jid}, C{fun} and C{arg}.
    @ivar handler: gets the requests and messages of the process, with the L{Running} first.
    @ivar private: whether only the caller gets the return; see
        L{saltwisted.worker.process.main.run_job}.
    @ivar listed: whether it has a process file; C{None}: unless it is private.
    @ivar return_jid: the return's jid, if it differs; C{""}: no return.
    @ivar own: whether the daemon itself wants the job, and no operator or master;
        C{None}: if it is private.
    @ivar via: the name of the master that gets the return.
    @ivar without: facts (C{grains}) that the worker must find by itself.
    """

    job: Mapping[str, Any]
    handler: Callable[[Running, str, dict[str, Any], Any], Any]
    private: bool = False
    listed: bool | None = None
    return_jid: str | None = None
    own: bool | None = None
    via: str = ""
    without: Sequence[str] = ()

    @property
    def jid(self) -> str:
        """The job's id."""
        return str(self.job["jid"])


@define(eq=False)
class Running:
    """
    A job that runs or waits.

    @ivar child: its process, once it has one.
    @ivar returned: whether its return has arrived.
    @ivar site: the last site file that it executed, as far as it has reported.
    @ivar killed: whether somebody had a signal sent to it.
    @ivar ended: fires once, with how the process ended.
    """

    order: Order
    since: float
    child: Child | None = None
    returned: bool = False
    site: str = ""
    killed: bool = False
    ended: Deferred[Any] = field(factory=Deferred)

    @property
    def pid(self) -> int:
        """The process; 0 while it waits."""
        return self.child.pid if self.child is not None else 0

    @property
    def suspect(self) -> str:
        """The text about the site's own code if the process has ended too early; C{""}: nothing."""
        if not self.site:
            return ""
        return f"; the last file of the site's own that it executed is {self.site}"


class Executor:
    """
    Runs jobs.

    @param workers: creates processes.
    @param now: seconds since 1970.
    @param limit: C{process_count_max}; below 1: as many as there are descriptors for.
    @param settings: what every job gets: C{outbox}, C{socket}.
    @param queue_limit: how many jobs may wait; a further one is refused.
    """

    log = Logger()

    def __init__(
        self,
        workers: JobProcesses,
        now: Callable[[], float],
        limit: int,
        settings: Mapping[str, Any],
        queue_limit: int = 10_000,
    ) -> None:
        self._workers = workers
        self._now = now
        self.limit = limit if limit > 0 else _places()
        self._settings = dict(settings)
        self._queue_limit = queue_limit
        self._queue: deque[Running] = deque()
        self._running: dict[Running, None] = {}
        self._stopped = False
        self._blackouts: Sequence[Sequence[str]] = ()

    def black_out(self, blackouts: Sequence[Sequence[str]]) -> None:
        """What jobs may still call from now on, by each blackout that the minion is under."""
        self._blackouts = blackouts

    def run(self, order: Order) -> Running:
        """
        Start a job, or queue it if all slots are in use.

        Private calls and those that manage jobs are never queued.

        @raises RemoteError: C{TooManyJobs}: the queue is full, too.
        """
        running = Running(order, self._now())
        fun = order.job["fun"]  # a list for several functions
        at_once = order.private or (isinstance(fun, str) and fun in URGENT)
        if at_once or len(self._running) < self.limit:
            self._start(running)
        elif len(self._queue) < self._queue_limit:
            self.log.warn(
                "job {jid} waits: {jobs} running, which is process_count_max",
                jid=order.jid,
                jobs=are(len(self._running), "job"),
            )
            self._queue.append(running)
        else:
            raise RemoteError(
                "TooManyJobs",
                f"{are(len(self._running), 'job')} running, and {len(self._queue)} waiting already",
            )
        return running

    async def call(
        self,
        fun: str,
        arg: Sequence[Any],
        handler: Callable[[Running, str, dict[str, Any], Any], Any],
        jid: str,
        without: Sequence[str] = (),
    ) -> dict[str, Any]:
        """
        Run one function for ourselves.

        @param handler: for its requests other than its return.
        @param without: facts that the worker must find by itself.
        @return: its return fields.
        @raises RemoteError: C{WorkerDied}.
        """
        kept: list[dict[str, Any]] = []

        async def hear(running: Running, op: str, args: dict[str, Any], stream: Any) -> Any:
            if op == "private_return":
                kept.append(args["ret"])
                running.returned = True
                return None
            if op == "begins":
                running.site = str(args.get("path"))[:300]
                return None
            return await handler(running, op, args, stream)

        job = {"jid": jid, "fun": fun, "arg": list(arg), "ret": ""}
        order = Order(job=job, handler=hear, private=True, without=tuple(without))
        running = self.run(order)
        how = await running.ended
        if not kept:
            raise RemoteError("WorkerDied", f"the process of {fun} {how}{running.suspect}")
        return kept[0]

    def find(self, jid: str) -> Running | None:
        """The running or waiting job of this id."""
        for running in (*self._running, *self._queue):
            if running.order.jid == jid:
                return running
        return None

    def kill(self, jid: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to a job's process and its programs, or take it out of the queue."""
        running = self.find(jid)
        if running is None:
            return False
        if running.child is None:
            self._queue.remove(running)
            running.ended.callback("was taken out of the queue")
        else:
            running.killed = True
            running.child.kill(number, True)
        return True

    @property
    def running(self) -> list[Running]:
        """Jobs with a process, oldest first."""
        return list(self._running)

    @property
    def waiting(self) -> list[Running]:
        """Jobs in the queue, next first."""
        return list(self._queue)

    def stop(self) -> list[Running]:
        """
        Start no more jobs; running ones continue without us.

        @return: what was in the queue.
        """
        self._stopped = True
        waiting = list(self._queue)
        self._queue.clear()
        return waiting

    def _start(self, running: Running) -> None:
        order = running.order
        payload: dict[str, Any] = {
            **self._settings,
            "job": dict(order.job),
            "blackouts": [list(each) for each in self._blackouts],
            "private": order.private,
            "via": order.via,
        }
        if order.without:
            payload["without"] = list(order.without)
        if order.listed is not None:
            payload["listed"] = order.listed
        if order.own is not None:
            payload["own"] = order.own
        if order.return_jid is not None:
            payload["return_jid"] = order.return_jid

        async def child_said(op: str, args: dict[str, Any], peer: Any, stream: Any) -> Any:
            return await order.handler(running, op, args, stream)

        self._running[running] = None
        running.child = self._workers.spawn(ENTRY, payload, child_said)
        _ = running.child.exited.addCallback(self._ended, running)

    def _ended(self, how: Any, running: Running) -> None:
        self._running.pop(running, None)
        while self._queue and len(self._running) < self.limit and not self._stopped:
            self._start(self._queue.popleft())
        try:
            running.ended.callback(how)
        except Exception:
            self.log.failure(
                "cleanup after job {jid} failed", jid=running.order.jid, failure=Failure()
            )


def _places() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1000
    return max(1, (soft - RESERVED_DESCRIPTORS) // PER_JOB)
