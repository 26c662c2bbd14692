"""
Worker processes, as a daemon sees them.

L{WarmPool} owns the warm parent (L{saltwisted.worker.process.warm}, which also names the messages
between the two): it asks it for children, gives each a control socket, learns how each one ended,
and puts a new parent in the place of one that died. There are two kinds of children: one per job
(L{WarmPool.spawn}), which outlives the daemon, and pooled ones which take calls one after another
(L{WarmPool.call}) and end with it. What children do is not known here; how a parent is made is an
argument.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgpack
from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.main import CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.errors import RemoteError
from saltwisted.transports.ipc import (
    ControlProtocol,
    ControlServer,
    Handler,
    PeerProcess,
    pack_message,
)

_HEAD = struct.Struct(">I")
_SLICE = 1 << 18

STRAGGLE = 2.0
"""Seconds between the end of a child's process and the end of its socket, at most."""


class Parent(Protocol):
    """A warm parent: its pid, and our end of the socket."""

    pid: int
    sock: socket.socket


Starter = Callable[[Sequence[str]], Any]
"""Makes a L{Parent} which preloads the named modules."""


@frozen
class Exit:
    """
    How a child ended.

    @ivar pid: 0 when it never started.
    @ivar status: as C{waitpid} gives it; C{None} when nobody could tell.
    """

    pid: int
    status: int | None

    @property
    def clean(self) -> bool:
        """It ended by itself, with status 0."""
        return self.status == 0

    def __str__(self) -> str:
        if self.pid == 0:
            return "could not be started"
        if self.status is None:
            return "ended"
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            try:
                name = signal.Signals(number).name
            except ValueError:
                name = f"signal {number}"
            return f"was ended by {name}"
        return f"exited with status {os.waitstatus_to_exitcode(self.status)}"


@define(eq=False)
class Child:
    """
    One child.

    @ivar pid: 0 until it has started.
    @ivar exited: fires once with its L{Exit}, after everything it said was heard.
    """

    number: int
    entry: str
    pid: int = 0
    exited: Deferred[Exit] = field(factory=Deferred)
    _pool: WarmPool = field(kw_only=True, repr=False)
    _message: dict[str, Any] = field(kw_only=True, repr=False)
    _handler: Handler = field(kw_only=True, repr=False)
    _protocol: ControlProtocol | None = field(default=None, repr=False)
    _status: int | None = None
    _parent: Any = field(default=None, repr=False)
    _reported: bool = False
    _silent: bool = False
    _spoke: bool = False
    _retried: bool = False
    _timer: Any = field(default=None, repr=False)

    def kill(self, number: int = signal.SIGKILL, group: bool = True) -> None:
        """Send a signal to the child; with C{group} also to the programs that it started."""
        self._pool._kill(self, number, group)


@frozen(kw_only=True)
class PoolLimits:
    """
    How a pool of one entry behaves.

    @ivar size: children at most.
    @ivar calls: calls after which a child is replaced.
    @ivar age: seconds after which it is replaced.
    @ivar idle: seconds without work after which it is let go.
    @ivar keep: children that stay however idle.
    @ivar queue: calls that may wait; more are refused.
    """

    size: int = 2
    calls: int = 1000
    age: float = 3600.0
    idle: float = 30.0
    keep: int = 0
    queue: int = 10000


class WarmPool:
    """
    Children of a warm parent.

    @param reactor: for sockets and time.
    @param fork: makes the first parent, in L{privilegedStartService}.
    @param replace: makes later ones, while the reactor runs.
    @param preload: what parents import.
    @param pools: limits by entry; entries without have the default ones.
    @param handler: answers what pooled children ask, C{async handler(op, args, peer, stream)}.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        fork: Starter,
        replace: Starter,
        preload: Sequence[str] = (),
        pools: dict[str, PoolLimits] | None = None,
        handler: Handler | None = None,
    ) -> None:
        self.reactor = reactor
        self._fork = fork
        self._replace = replace
        self._preload = tuple(preload)
        self._limits = dict(pools or {})
        self._handler: Handler = handler or _refuse
        self._pools: dict[str, _Pool] = {}
        self._children: dict[int, Child] = {}
        self._facts: dict[str, bytes] = {}
        self._numbers = 0
        self._parent: Parent | None = None
        self._link: _Link | None = None
        self._server = _Sockets(reactor, self._socket_gone)
        self._stopping = False
        self._running = False
        self._born = 0.0
        self._delay = 0.0
        self._retry: Any = None

    # -- life ------------------------------------------------------------------

    def privilegedStartService(self) -> None:
        """Fork the warm parent, while that is still safe."""
        if self._parent is None:
            self._parent = self._fork(self._preload)

    def startService(self) -> None:
        """Take up the connection to the parent; make one if there is none."""
        self._running = True
        self._stopping = False
        if self._parent is not None and not _is_ours(self._parent.pid):
            # twistd --uid has made us somebody else since: so must be what runs the jobs.
            self._parent.sock.close()
            _ = self._reap(self._parent.pid)
            self._parent = None
        if self._parent is None:
            self._parent = self._replace(self._preload)
        self._connect()

    def stopService(self) -> Deferred[None]:
        """
        Let the parent and the pooled children go; children with jobs stay.

        Fires when the parent has ended.
        """
        self._stopping = True
        self._running = False
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        self._retry = None
        for pool in self._pools.values():
            pool.stop()
        link, self._link = self._link, None
        parent, self._parent = self._parent, None
        if link is not None:
            link.close()
        elif parent is not None:
            parent.sock.close()
        for child in list(self._children.values()):
            if child._timer is not None and child._timer.active():
                child._timer.cancel()
        self._children.clear()
        closed = self._server.stopService()
        if parent is None:
            return closed
        reaped = self._reap(parent.pid)
        return closed.addBoth(lambda _: reaped)

    def _connect(self) -> None:
        assert self._parent is not None
        self._born = self.reactor.seconds()
        self._link = _Link(self.reactor, self._parent.sock, self._received, self._lost)
        for name, value in self._facts.items():
            self._link.send({"do": "fact", "name": name, "value": value})

    def _lost(self) -> None:
        """The parent is gone: start another, at once or, if it dies young, after a pause."""
        parent, self._parent, self._link = self._parent, None, None
        if parent is not None:
            _ = self._reap(parent.pid)
        if self._stopping:
            return
        young = self.reactor.seconds() - self._born < 5
        self._delay = min(max(self._delay * 2, 0.5), 30.0) if young else 0.0
        self.log.error(
            "the warm parent of the worker processes (pid {pid}) died; a new one starts",
            pid=parent.pid if parent is not None else 0,
        )
        for child in list(self._children.values()):
            if child._silent:
                self._settle(child)
        self._retry = self.reactor.callLater(self._delay, self._restart)

    def _restart(self) -> None:
        self._retry = None
        if self._stopping or self._parent is not None:
            return
        try:
            self._parent = self._replace(self._preload)
        except OSError as error:
            self.log.error("the warm parent cannot be started: {error}", error=error)
            self._delay = min(max(self._delay * 2, 0.5), 30.0)
            self._retry = self.reactor.callLater(self._delay, self._restart)
            return
        self._connect()
        for child in list(self._children.values()):
            if child.pid == 0 and child._protocol is None:
                self._send_spawn(child)

    def _reap(self, pid: int, tries: int = 200) -> Deferred[None]:
        """Wait, without blocking, for a parent that has been told to end (or has ended)."""
        done: Deferred[None] = Deferred()

        def look(left: int) -> None:
            try:
                found, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                found = pid
            if found:
                done.callback(None)
                return
            if left == 0:
                self._signal(pid, signal.SIGKILL)
            self.reactor.callLater(0.01 if left > 0 else 0.1, look, left - 1)

        look(tries)
        return done

    @staticmethod
    def _signal(pid: int, number: int, group: bool = False) -> None:
        try:
            if group:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def preload(self, module: str) -> None:
        """Have parents that are not started yet import one more module."""
        self._preload = (*self._preload, module)

    # -- facts -----------------------------------------------------------------

    def set_fact(self, name: str, value: Any) -> None:
        """Tell the parent something that every later child shall know; plain data."""
        packed: bytes = msgpack.packb(value, use_bin_type=True)
        if self._facts.get(name) == packed:
            return
        self._facts[name] = packed
        if self._link is not None:
            self._link.send({"do": "fact", "name": name, "value": packed})

    # -- children --------------------------------------------------------------

    def spawn(self, entry: str, payload: Any, handler: Handler) -> Child:
        """
        Start a child for one job.

        @param entry: C{"module:function"}, one of C{worker.warm.ENTRIES}.
        @param handler: answers what the child asks on its control socket.
        """
        return self._spawn(entry, payload, handler, pooled=False)

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """
        Have a pooled child call the entry; fires with what it gave back.

        Fails with L{RemoteError}: the entry's own error by its name, C{WorkerTimeout} after
        C{timeout} seconds (the child is killed), C{WorkerDied}, or C{WorkerBusy} when too
        many calls wait. Cancelling takes back a call that waits.
        """
        pool = self._pools.get(entry)
        if pool is None:
            limits = self._limits.get(entry, PoolLimits())
            pool = self._pools[entry] = _Pool(self, entry, limits, self._handler)
        return pool.call(payload, timeout)

    def recycle(self, entry: str) -> None:
        """Replace the pooled children of an entry as soon as each one is idle."""
        if entry in self._pools:
            self._pools[entry].recycle()

    @property
    def parent_pid(self) -> int:
        """The warm parent's pid; 0 while there is none."""
        return self._parent.pid if self._parent is not None else 0

    def status(self) -> dict[str, Any]:
        """Numbers for a status answer."""
        return {
            "parent": self.parent_pid,
            "children": len(self._children),
            "waiting": {entry: pool.waiting for entry, pool in self._pools.items()},
        }

    def _spawn(self, entry: str, payload: Any, handler: Handler, pooled: bool) -> Child:
        self._numbers += 1
        number = self._numbers
        message = {
            "do": "spawn",
            "n": number,
            "entry": entry,
            "pooled": pooled,
            "payload": msgpack.packb(payload, use_bin_type=True, default=_plain),
        }
        child = Child(number, entry, pool=self, message=message, handler=handler)
        self._children[number] = child
        if self._link is not None:
            self._send_spawn(child)
        return child

    def _send_spawn(self, child: Child) -> None:
        assert self._link is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

        async def child_said(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
            child._spoke = True
            return await child._handler(op, args, peer, stream)

        peer = PeerProcess(os.geteuid(), os.getegid(), 0)
        child._protocol = self._server.adopt(ours, peer, child_said)
        self._server.owners[child._protocol] = child
        child._parent = self._parent
        child._silent = False
        self._link.send(child._message, theirs)

    def _received(self, message: dict[str, Any]) -> None:
        child = self._children.get(message.get("n", 0))
        if child is None:
            return
        if message["is"] == "started":
            child.pid = message["pid"]
            child._message = {}
        elif message["is"] == "exited":
            child.pid = message["pid"]
            child._status = message["status"]
            child._reported = True
            self._settle(child)
        elif message["is"] == "failed":
            self.log.error("a worker cannot be forked: {reason}", reason=message["reason"])
            child._reported = True
            self._settle(child)

    def _socket_gone(self, child: Child) -> None:
        child._silent = True
        self._settle(child)

    def _settle(self, child: Child) -> None:
        """Decide whether a child has ended, by its parent's word and its socket's end."""
        if child.number not in self._children:
            return
        orphan = child._parent is not self._parent
        if child._silent and orphan and not child._reported:
            if child.pid == 0 and not child._spoke and not child._retried:
                # The parent died with the request in its hands: nobody ever ran it.
                child._retried = True
                child._protocol = None
                if self._link is not None:
                    self._send_spawn(child)
                return
            self._ended(child)
        elif child._reported and (child._silent or child.pid == 0):
            self._ended(child)
        elif child._reported and child._timer is None:
            child._timer = self.reactor.callLater(STRAGGLE, self._ended, child)

    def _ended(self, child: Child) -> None:
        self._children.pop(child.number, None)
        if child._timer is not None and child._timer.active():
            child._timer.cancel()
        if child._protocol is not None and not child._silent:
            self._server.owners.pop(child._protocol, None)
            child._protocol.transport.abortConnection()  # type: ignore[union-attr]
        child.exited.callback(Exit(child.pid, child._status))

    def _kill(self, child: Child, number: int, group: bool) -> None:
        if child.number not in self._children:
            return
        if self._link is not None and child._parent is self._parent:
            self._link.send(
                {"do": "kill", "n": child.number, "signal": int(number), "group": group}
            )
        elif child.pid and not child._silent:
            # Its parent is gone; the open socket says that the pid is still its own.
            self._signal(child.pid, number, group)


def _is_ours(pid: int) -> bool:
    """Whether a process has our user; one that is gone has none to be wrong about."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except FileNotFoundError:
        return True


async def _refuse(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
    raise RemoteError("SaltInvocationError", f"{op} is not available to this worker")


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"cannot be sent to a worker: {type(value).__name__}")


class _Sockets(ControlServer):
    """The control sockets of children; tells when one is gone."""

    def __init__(self, reactor: Any, gone: Callable[[Child], None]) -> None:
        super().__init__(reactor, _refuse, connections=1 << 20)
        self.owners: dict[ControlProtocol, Child] = {}
        self._tell = gone

    def gone(self, protocol: ControlProtocol) -> None:
        """A child's socket has ended, after all that came through it."""
        super().gone(protocol)
        child = self.owners.pop(protocol, None)
        if child is not None:
            self._tell(child)


@implementer(IReadWriteDescriptor)
class _Link:
    """Our end of the socket to a warm parent: messages with descriptors out, messages in."""

    def __init__(
        self,
        reactor: Any,
        sock: socket.socket,
        received: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._received = received
        self._gone = lost
        self._out: deque[tuple[memoryview, socket.socket | None]] = deque()
        self._in = bytearray()
        self._open = True
        reactor.addReader(self)

    def send(self, message: dict[str, Any], passed: socket.socket | None = None) -> None:
        """Queue a message; a socket that goes with it is ours to close."""
        if not self._open:
            if passed is not None:
                passed.close()
            return
        self._out.append((memoryview(pack_message(message)), passed))
        if len(self._out) == 1:
            self.doWrite()

    def close(self) -> None:
        """Hang up, quietly."""
        if self._open:
            self._open = False
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            self._sock.close()
            for _, passed in self._out:
                if passed is not None:
                    passed.close()
            self._out.clear()

    def doWrite(self) -> Any:
        """Send what the socket takes."""
        while self._out:
            data, passed = self._out[0]
            try:
                if passed is not None:
                    sent = socket.send_fds(self._sock, [data[:_SLICE]], [passed.fileno()])
                else:
                    sent = self._sock.send(data[:_SLICE])
            except BlockingIOError:
                self._reactor.addWriter(self)
                return None
            except OSError:
                self._end()
                return None
            if passed is not None:
                passed.close()
            if sent < len(data):
                self._out[0] = (data[sent:], None)
            else:
                self._out.popleft()
        self._reactor.removeWriter(self)
        return None

    def doRead(self) -> Any:
        """Take what the parent reports."""
        try:
            data = self._sock.recv(_SLICE)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._end()
            return None
        self._in += data
        while self._open and len(self._in) >= 4:
            (size,) = _HEAD.unpack_from(self._in)
            if len(self._in) < 4 + size:
                break
            body = bytes(self._in[4 : 4 + size])
            del self._in[: 4 + size]
            self._received(msgpack.unpackb(body, raw=False))
        return None

    def _end(self) -> None:
        if self._open:
            self.close()
            self._gone()

    def fileno(self) -> int:
        """For the reactor."""
        return self._sock.fileno()

    def logPrefix(self) -> str:
        """For the reactor."""
        return "workers"

    def connectionLost(self, reason: Failure = Failure(CONNECTION_LOST)) -> None:  # noqa: B008
        """For the reactor, which found the descriptor broken."""
        self._end()


@define(eq=False)
class _Call:
    """One call of a pool: waiting, or with a child."""

    payload: bytes = field(repr=False)
    result: Deferred[Any]
    timer: Any = None
    child: _Pooled | None = None


@define(eq=False)
class _Pooled:
    """A pooled child: with a call, or waiting (its question C{work} unanswered)."""

    child: Child
    born: float
    calls: int = 0
    call: _Call | None = None
    asking: Deferred[Any] | None = None
    stale: bool = False
    timer: Any = None


class _Pool:
    """The pooled children of one entry, and the calls that wait for them."""

    log = Logger()

    def __init__(self, owner: WarmPool, entry: str, limits: PoolLimits, handler: Handler) -> None:
        self._owner = owner
        self._clock = owner.reactor
        self._entry = entry
        self._limits = limits
        self._handler = handler
        self._queue: deque[_Call] = deque()
        self._workers: set[_Pooled] = set()

    @property
    def waiting(self) -> int:
        """Calls that no child has taken yet."""
        return len(self._queue)

    def call(self, payload: Any, timeout: float) -> Deferred[Any]:
        """See L{WarmPool.call}."""
        if len(self._queue) >= self._limits.queue:
            failure = RemoteError("WorkerBusy", f"{len(self._queue)} calls are already waiting")
            return _failed(failure)
        packed = msgpack.packb(payload, use_bin_type=True, default=_plain)
        call = _Call(packed, Deferred(lambda _: self._forget(call)))
        call.timer = self._clock.callLater(timeout, self._too_long, call, timeout)
        self._queue.append(call)
        self._feed()
        return call.result

    def recycle(self) -> None:
        """Let every child go when it has no call; new ones are made when needed."""
        for worker in list(self._workers):
            worker.stale = True
            if worker.asking is not None:
                self._dismiss(worker)
        self._feed()

    def stop(self) -> None:
        """Fail what waits; the children end when their sockets do."""
        calls = [*self._queue, *(w.call for w in self._workers if w.call is not None)]
        self._queue.clear()
        for worker in self._workers:
            worker.call = None
            self._quiet(worker)
        self._workers.clear()
        for call in calls:
            self._finish(call, RemoteError("WorkerDied", "the daemon is stopping"))

    def _feed(self) -> None:
        """Give waiting calls to idle children, and make children for the rest."""
        for worker in list(self._workers):
            if not self._queue:
                return
            if worker.asking is not None:
                self._give(worker)
        unborn = sum(1 for w in self._workers if w.call is None and w.asking is None)
        while len(self._workers) < self._limits.size and unborn < len(self._queue):
            self._hire()
            unborn += 1

    def _hire(self) -> None:
        async def child_said(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
            if op == "work":
                return await self._work(worker, args)
            return await self._handler(op, args, peer, stream)

        child = self._owner._spawn(self._entry, None, child_said, pooled=True)
        worker = _Pooled(child, self._clock.seconds())
        self._workers.add(worker)
        _ = child.exited.addCallback(self._exited, worker)

    def _work(self, worker: _Pooled, args: dict[str, Any]) -> Deferred[Any]:
        """A child brings a result, if it had a call, and asks for the next."""
        call, worker.call = worker.call, None
        if call is not None:
            error = args.get("error")
            if error is None:
                self._finish(call, args.get("value"))
            else:
                self._finish(call, RemoteError(**error))
        asking: Deferred[Any] = Deferred()
        worker.asking = asking
        age = self._clock.seconds() - worker.born
        if worker not in self._workers or worker.stale:
            self._dismiss(worker)
        elif worker.calls >= self._limits.calls or age > self._limits.age:
            self._dismiss(worker)
            self._feed()
        elif self._queue:
            self._give(worker)
        else:
            worker.timer = self._clock.callLater(self._limits.idle, self._idle, worker)
        return asking

    def _give(self, worker: _Pooled) -> None:
        self._quiet(worker)
        call = self._queue.popleft()
        call.child = worker
        worker.call = call
        worker.calls += 1
        asking, worker.asking = worker.asking, None
        assert asking is not None
        asking.callback(call.payload)

    def _idle(self, worker: _Pooled) -> None:
        worker.timer = None
        if len(self._workers) > self._limits.keep:
            self._dismiss(worker)
        else:
            worker.timer = self._clock.callLater(self._limits.idle, self._idle, worker)

    def _dismiss(self, worker: _Pooled) -> None:
        """Tell an idle child to end."""
        self._quiet(worker)
        self._workers.discard(worker)
        asking, worker.asking = worker.asking, None
        if asking is not None:
            asking.callback(None)

    def _quiet(self, worker: _Pooled) -> None:
        timer, worker.timer = worker.timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _exited(self, how: Exit, worker: _Pooled) -> None:
        self._quiet(worker)
        expected = worker not in self._workers
        self._workers.discard(worker)
        call, worker.call = worker.call, None
        if call is not None:
            self._finish(call, RemoteError("WorkerDied", f"the worker process {how}"))
        if not expected:
            self.log.warn("a worker process of {entry} {how}", entry=self._entry, how=str(how))
            if call is None and self._queue and worker.calls == 0:
                # It died before its first question; its successor may do the same.
                self._finish(
                    self._queue.popleft(), RemoteError("WorkerDied", f"the worker process {how}")
                )
        self._feed()

    def _too_long(self, call: _Call, seconds: float) -> None:
        call.timer = None
        error = RemoteError("WorkerTimeout", f"no answer within {seconds:g} s")
        worker = call.child
        if worker is None:
            self._forget(call)
        elif worker.call is call:
            worker.call = None
            self._workers.discard(worker)
            worker.child.kill(signal.SIGKILL)
        self._finish(call, error)
        self._feed()

    def _forget(self, call: _Call) -> None:
        if call in self._queue:
            self._queue.remove(call)
        if call.timer is not None and call.timer.active():
            call.timer.cancel()

    def _finish(self, call: _Call, value: Any) -> None:
        if call.timer is not None and call.timer.active():
            call.timer.cancel()
        call.timer = None
        if call.result.called:
            return
        if isinstance(value, RemoteError):
            call.result.errback(Failure(value))
        else:
            call.result.callback(value)


def _failed(error: Exception) -> Deferred[Any]:
    d: Deferred[Any] = Deferred()
    d.errback(Failure(error))
    return d
