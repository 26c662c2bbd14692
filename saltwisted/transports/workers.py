"""
Worker processes, as a daemon sees them.

L{WarmPool} owns the warm parent (L{saltwisted.worker.process.warm}, which also names the messages
between the two). It asks the parent for children, gives each child a control socket, learns how
each one ended, and replaces a parent that died. A parent may also live only for as long as somebody
needs what it has imported. There are two kinds of children: one per job (L{WarmPool.spawn}), which
outlives the daemon, and pooled ones, which take calls one after another (L{WarmPool.call},
L{saltwisted.transports.callpool}) and end with the daemon. This module does not know what children
do; a function argument creates a parent.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgpack
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.errors import RemoteError
from saltwisted.transports.callpool import CallPool, PoolLimits
from saltwisted.transports.children import Child, Exit, plain
from saltwisted.transports.ipc import ControlProtocol, ControlServer, Handler, PeerProcess
from saltwisted.transports.parentlink import ParentLink
from saltwisted.transports.parentrest import ParentRest

STRAGGLE = 2.0
"""Seconds between the end of a child's process and the end of its socket, at most."""


class Parent(Protocol):
    """A warm parent: its pid, and our end of the socket."""

    pid: int
    sock: socket.socket


Starter = Callable[[Sequence[str]], Any]
"""Makes a L{Parent} which preloads the named modules."""


class WarmPool:
    """
    Children of a warm parent.

    @param reactor: for sockets and time.
    @param fork: creates the first parent, in L{privilegedStartService}.
    @param replace: creates later ones, while the reactor runs.
    @param preload: what parents import.
    @param pools: limits by entry; other entries have the default limits.
    @param handler: answers the requests of pooled children, C{async handler(op, args, peer,
        stream)}.
    @param rest: with C{None} there is a parent all the time. Otherwise the first child has one
        started, and it ends when it has no children and nobody has needed one of the entries that
        it has imported for so many seconds.
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
        rest: float | None = None,
    ) -> None:
        self.reactor = reactor
        self._fork = fork
        self._replace = replace
        self._preload = tuple(preload)
        self._limits = dict(pools or {})
        self._handler: Handler = handler or _refuse
        self._rest = ParentRest(
            reactor,
            rest,
            {name: each.rest for name, each in self._limits.items() if each.rest is not None},
            lambda: bool(self._children) or self._link is None,
            self._let_rest,
        )
        self._left: Deferred[None] = succeed(None)
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self._pools: dict[str, CallPool] = {}
        self._children: dict[int, Child] = {}
        self._facts: dict[str, bytes] = {}
        self._numbers = 0
        self._parent: Parent | None = None
        self._link: ParentLink | None = None
        self._server = _Sockets(reactor, self._socket_gone)
        self._stopping = False
        self._running = False
        self._born = 0.0
        self._delay = 0.0
        self._retry: Any = None

    # -- life ------------------------------------------------------------------

    def privilegedStartService(self) -> None:
        """Fork the warm parent, while that is still safe; none that is to rest."""
        if self._parent is None and self._rest.seconds is None:
            self._parent = self._fork(self._preload)

    def startService(self) -> None:
        """Take up the connection to the parent; make one if there is none and it is needed."""
        self._running = True
        self._stopping = False
        if self._parent is not None and not _is_ours(self._parent.pid):
            # twistd --uid has made us somebody else since: so must be what runs the jobs.
            self._parent.sock.close()
            _ = self._reap(self._parent.pid)
            self._parent = None
        if self._rest.seconds is not None:
            if self._children:
                self._restart()
            return
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
        self._rest.stop()
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
        reaped = self._left if parent is None else self._reap(parent.pid)
        return closed.addBoth(lambda _: reaped)

    def _connect(self) -> None:
        assert self._parent is not None
        self._born = self.reactor.seconds()
        self._link = ParentLink(self.reactor, self._parent.sock, self._received, self._lost)
        for name, value in self._facts.items():
            self._link.send({"do": "fact", "name": name, "value": value})
        self._rest.born()

    def _let_rest(self) -> None:
        assert self._parent is not None and self._link is not None
        self.log.debug("the warm parent (pid {pid}) rests", pid=self._parent.pid)
        self._link.close()
        self._left = self._reap(self._parent.pid)
        self._parent = self._link = None

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
                self._judge(child)
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
                _signal(pid, signal.SIGKILL)
            self.reactor.callLater(0.01 if left > 0 else 0.1, look, left - 1)

        look(tries)
        return done

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
        Have a pooled child call the entry; fires with the result.

        Fails with L{RemoteError}: the entry's own error by its name, C{WorkerTimeout} after
        C{timeout} seconds (the child is killed), C{WorkerDied}, or C{WorkerBusy} if too many calls
        wait. Cancelling withdraws a call that waits.
        """
        pool = self._pools.get(entry)
        if pool is None:
            limits = self._limits.get(entry, PoolLimits())
            pool = self._pools[entry] = CallPool(
                self.reactor,
                entry,
                limits,
                lambda handler: self._spawn(entry, None, handler, pooled=True),
                self._pooled,
            )
        return pool.call(payload, timeout)

    def answer(self, op: str, receiver: Callable[[dict[str, Any]], Any]) -> None:
        """Have a coroutine function, C{receiver(args)}, answer C{op} of pooled children."""
        self._answers[op] = receiver

    async def _pooled(self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
        receiver = self._answers.get(op)
        if receiver is not None:
            return await receiver(args)
        return await self._handler(op, args, peer, stream)

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
            "payload": msgpack.packb(payload, use_bin_type=True, default=plain),
        }
        child = Child(number, entry, kill=self._kill, message=message, handler=handler)
        self._children[number] = child
        if self._link is not None:
            self._send_spawn(child)
        elif self._running and self._retry is None:
            self._restart()
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
        self._rest.need(child.entry)
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
            self._judge(child)
        elif message["is"] == "failed":
            self.log.error("a worker cannot be forked: {reason}", reason=message["reason"])
            child._reported = True
            self._judge(child)

    def _socket_gone(self, child: Child) -> None:
        child._silent = True
        self._judge(child)

    def _judge(self, child: Child) -> None:
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
        self._rest.need(child.entry)
        self._rest.look_later()
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
            _signal(child.pid, number, group)


def _signal(pid: int, number: int, group: bool = False) -> None:
    """Send a signal to a process, or its group, if it is there and ours."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _is_ours(pid: int) -> bool:
    """Whether a process has our user; one that is gone has none to be wrong about."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except FileNotFoundError:
        return True


async def _refuse(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
    raise RemoteError("SaltInvocationError", f"{op} is not available to this worker")


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
