"""
Jobs of a minion, from the publication until the return is sent.

Every accepted job gets one return: its own, or, if its process died first, one that says how. At
the start, what an earlier daemon has left is taken over: returns on disk, jobs whose process still
works (they are watched until they end), and process files of jobs whose process is gone.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from saltwisted.domain.secrecy import told
from saltwisted.errors import RemoteError
from saltwisted.minion import mine
from saltwisted.minion.executor import Executor, Order, Running
from saltwisted.minion.returns import Returns
from saltwisted.worker.jobfiles import (
    ON_PURPOSE,
    SIGNALLED,
    Outbox,
    OutboxReturn,
    failed,
    is_job_process,
    jid_of,
    proc_path,
    read_kept,
    read_procs,
    remove_quietly,
    signalled,
    valid_jid,
)

WATCH = 1.0
"""Seconds between two looks at jobs that were started by an earlier daemon."""

Ask = Callable[[str, dict[str, Any], Any, str], Awaitable[Any]]
"""C{ask(op, args, stream, via)}: an operation of the control socket, asked by a job."""

Run = Callable[..., Deferred[Any]]
"""C{run(function, *args)}: in a thread."""


class Jobs(Service):
    """
    Accepts jobs, and makes sure that each one returns.

    @param executor: runs them.
    @param returns: sends their returns.
    @param outbox: the directory of returns.
    @param run: for the disk.
    @param cachedir: where the process files are.
    @param minion_id: the id under which the minion returns.
    @param ask: answers the requests of jobs, except for returns.
    """

    log = Logger()
    name = "jobs"

    def __init__(
        self,
        clock: IReactorTime,
        executor: Executor,
        returns: Returns,
        outbox: Outbox,
        run: Run,
        cachedir: str,
        minion_id: str,
        ask: Ask,
    ) -> None:
        self._clock = clock
        self._executor = executor
        self._returns = returns
        self._outbox = outbox
        self._run = run
        self._cachedir = cachedir
        self._id = minion_id
        self._ask = ask
        self._adopted: dict[str, dict[str, Any]] = {}
        self._timer: IDelayedCall | None = None
        self.taken = 0

    # -- life

    def startService(self) -> None:
        """Take up what an earlier daemon has left."""
        super().startService()
        left = dict(read_procs(self._cachedir))
        returned = {jid_of(name) for name in self._outbox.names()}
        for path, job in left.items():
            jid = str(job.get("jid"))
            if is_job_process(job["pid"], jid):
                self.log.info(
                    "job {jid} ({fun}) of an earlier daemon is still running",
                    jid=jid,
                    fun=str(job.get("fun"))[:200],
                )
                self._adopted[path] = job
            elif jid in returned:
                remove_quietly(path)
            else:
                self._lost(path, job)
        self._watch_later()

    def stopService(self) -> None:
        """Take no more jobs; those that run go on, and the next daemon takes up their returns."""
        super().stopService()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        for running in self._executor.stop():
            self._fail(running, "The minion was stopped before the job's turn came")

    # -- jobs come

    def take(self, job: Mapping[str, Any], via: str = "") -> None:
        """
        Run a job that a master has published, already judged and seen for the first time.

        @param via: the master's name.
        """
        jid, fun = job.get("jid"), job.get("fun")
        if not self.running:
            return
        if not valid_jid(jid):
            self.log.warn("a job with an invalid jid is not run: {jid}", jid=repr(jid)[:200])
            return
        self.taken += 1
        self.log.info(
            "User {user} Executing command {fun} with jid {jid}",
            user=str(job.get("user", "?"))[:200],
            fun=str(fun)[:200],
            jid=jid,
        )
        known = {key: value for key, value in job.items() if key not in _TRANSPORT}
        self._start(Order(job={"ret": "", **known}, handler=self._heard, via=via))

    def schedule(
        self, job: Mapping[str, Any], listed: bool = True, return_jid: str | None = None
    ) -> None:
        """
        Run a job of our own schedule.

        @param return_jid: see L{Order}.
        """
        # Nobody chooses what the mine's own entry calls
        own = (job.get("schedule"), job.get("fun")) == (mine.JOB, mine.FUNCTION)
        if self.running:
            self._start(
                Order(job=job, handler=self._heard, listed=listed, return_jid=return_jid, own=own)
            )

    async def call(
        self, fun: str, arg: Sequence[Any], jid: str, without: Sequence[str] = ()
    ) -> dict[str, Any]:
        """
        Run one function for the daemon itself; nobody else sees it.

        @param without: facts that the worker shall find by itself.
        @return: its return fields.
        @raises RemoteError: its process died.
        """
        return await self._executor.call(fun, arg, self._heard, jid, without)

    def _start(self, order: Order) -> None:
        try:
            running = self._executor.run(order)
        except RemoteError as error:
            self.log.error("job {jid} is refused: {error}", jid=order.jid, error=str(error))
            self._fail(Running(order, 0.0), f"The minion is too busy: {error}")
            return
        _ = running.ended.addCallback(self._ended, running)

    # -- jobs speak

    async def _heard(self, running: Running, op: str, args: dict[str, Any], stream: Any) -> Any:
        if op == "return":
            running.returned = True
            self.returned(args)
            return None
        if op == "begins":
            running.site = str(args.get("path"))[:300]
            return None
        return await self._ask(op, args, stream, running.order.via)

    def returned(self, args: Mapping[str, Any]) -> None:
        """A process hands in its return: on disk, or whole; or says that there is none."""
        name = args.get("name")
        if name:
            packed = args.get("packed")
            self._returns.add(str(name), read_kept(packed) if packed else None)
        elif isinstance(args.get("load"), dict):
            self._returns.add_homeless(OutboxReturn(args["load"], str(args.get("via") or "")))

    async def keep(self, load: Mapping[str, Any], via: str = "") -> None:
        """Take over a return that is not on disk yet (of C{salt-call}, of a dead job)."""
        whole = {"cmd": "_return", "id": self._id, **told(load)}
        try:
            name, _ = await self._run(self._outbox.put, whole, via)
        except OSError as error:
            self.log.error("a return cannot be saved on disk: {error}", error=str(error))
            self._returns.add_homeless(OutboxReturn(whole, via))
        else:
            self._returns.add(name, OutboxReturn(whole, via))

    # -- jobs end

    def _ended(self, how: Any, running: Running) -> None:
        if not self.running:
            return
        order = running.order
        if not running.returned or (running.site and not how.clean):
            self.log.warn(
                "the process of job {jid} ({fun}) {how} {when} it returned{site}",
                jid=order.jid,
                fun=str(order.job.get("fun"))[:200],
                how=str(how),
                when="after" if running.returned else "before",
                site=running.suspect,
            )
        if running.returned:
            return
        if running.pid:
            text = f"The process of the job (pid {running.pid}) {how} before it returned"
        else:
            text = f"The job {how}"
        self._fail(running, text + running.suspect)

    def _fail(self, running: Running, text: str) -> None:
        order = running.order
        _ = Deferred.fromCoroutine(self._failed(order, text, running.killed)).addErrback(
            lambda failure: self.log.failure("job {jid}", failure=failure, jid=order.jid)
        )

    async def _failed(self, order: Order, text: str, killed: bool) -> None:
        path = proc_path(self._cachedir, order.jid)
        killed = await self._run(signalled, path) or killed
        await self._run(remove_quietly, path)
        if order.private or order.return_jid == "":
            return
        ret = failed(order.job, text + (ON_PURPOSE if killed else ""))
        if order.return_jid is not None:
            ret["jid"] = order.return_jid
        names = await self._run(self._outbox.names)
        for name in names:
            if jid_of(name) == ret["jid"] != "req":
                # It had put its return on disk, and died before it could tell.
                self._returns.add(name)
                return
        await self.keep(ret, order.via)

    def _lost(self, path: str, job: Mapping[str, Any]) -> None:
        """A process file whose process is gone, and no return."""
        known = {key: value for key, value in job.items() if key not in ("pid", SIGNALLED)}
        text = f"The process of the job (pid {job['pid']}) ended without a return"
        if SIGNALLED in job:
            text += ON_PURPOSE
        self.log.warn("job {jid} of an earlier daemon is lost", jid=str(job.get("jid"))[:200])

        async def tell() -> None:
            await self._run(remove_quietly, path)
            await self.keep(failed(known, text))

        _ = Deferred.fromCoroutine(tell()).addErrback(
            lambda failure: self.log.failure(
                "the failure of a lost job could not be returned", failure=failure
            )
        )

    # -- jobs of an earlier daemon

    def _watch_later(self) -> None:
        if self._adopted and self.running:
            self._timer = self._clock.callLater(WATCH, self._watch)

    def _watch(self) -> None:
        """Look for those that have ended, and for the returns that they left."""
        self._timer = None
        gone = {
            path: job
            for path, job in self._adopted.items()
            if not is_job_process(job["pid"], str(job.get("jid")))
        }
        if gone:
            self._returns.rescan()
        for path, job in gone.items():
            del self._adopted[path]
            if not self._returns.has(str(job.get("jid"))) and path in dict(
                read_procs(self._cachedir)
            ):
                self._lost(path, job)
        self._watch_later()

    # -- questions

    def listed(self) -> list[dict[str, Any]]:
        """Every job at work or waiting, as C{saltutil.running} shows it; C{pid} 0: it waits."""
        found = [
            {**told(running.order.job), "pid": running.pid}
            for running in (*self._executor.running, *self._executor.waiting)
            if not running.order.private
        ]
        return [*found, *self._adopted.values()]

    def named(self, schedule: str) -> int:
        """How many jobs of one schedule entry run or wait."""
        return sum(1 for job in self.listed() if job.get("schedule") == schedule)

    def kill(self, jid: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to a job."""
        return self._executor.kill(jid, number)


_TRANSPORT = frozenset(("serial", "tgt_uid"))
"""Fields of a publication that are not the job's."""
