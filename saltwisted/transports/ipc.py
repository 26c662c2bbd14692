"""
The control socket: how commands and worker processes talk to their daemon.

Each message is a four-byte big-endian length and a msgpack map with bin types. A client sends
C{{"id", "op", "args"}}; the answer is C{{"id", "ok"}} or C{{"id", "error"}}, preceded by any number
of C{{"id", "item"}}; C{op: cancel} ends a call. The kernel says who is on the other side
(C{SO_PEERCRED}) before a byte is parsed. This module does not know the operations; the blocking
client is L{saltwisted.worker.control}.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgpack
from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.errors import (
    ConfigError,
    DeniedError,
    PortError,
    RemoteError,
    SaltwistedError,
    TargetError,
)

_HEAD = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")
MAX_PATH = 107
"""Bytes in a unix socket's path, by the kernel."""


@frozen
class PeerProcess:
    """The process on the other side, as the kernel identifies it."""

    uid: int
    gid: int
    pid: int


@frozen
class Limits:
    """
    The limits of one connection.

    @ivar frame: the size in bytes of the largest message that is read; a larger one is refused by
        its prefix.
    @ivar calls: calls that may run at once.
    @ivar unsent: bytes that may wait for a reader that has stopped reading.
    @ivar patience: seconds after which a reader that has stopped is dropped.
    """

    frame: int = 256 * 1024 * 1024
    calls: int = 256
    unsent: int = 16 * 1024 * 1024
    patience: float = 600.0


TRUSTED = Limits()
STRANGER = Limits(frame=1024 * 1024, calls=16, unsent=4 * 1024 * 1024, patience=120.0)

Stream = Callable[[Any], Any]
"""C{stream(item)}: sends it; may be awaited, to wait for a reader that is slow."""
Handler = Callable[[str, dict[str, Any], PeerProcess, Stream], Coroutine[Any, Any, Any]]
Judge = Callable[[PeerProcess], "Limits | None"]


def judge_by_uid(peer: PeerProcess) -> Limits | None:
    """Root and the daemon's own user are trusted; others get small limits (and no more rights)."""
    return TRUSTED if peer.uid in (0, os.geteuid()) else STRANGER


def error_map(error: BaseException | None) -> dict[str, Any]:
    """
    An error in the format of the socket; only errors that saltwisted raises itself are sent in
    full.
    """
    if isinstance(error, RemoteError):
        return {"name": error.name, "message": str(error), "details": error.details}
    if isinstance(error, DeniedError):
        return {"name": "AuthorizationError", "message": str(error), "details": None}
    if isinstance(error, TargetError):
        details = {"expression": error.expression, "position": error.position}
        return {"name": "SaltInvocationError", "message": str(error), "details": details}
    if isinstance(error, SaltwistedError):
        return {"name": type(error).__name__, "message": str(error), "details": None}
    return {
        "name": "SaltException",
        "message": f"the daemon failed ({type(error).__name__}); see its log",
        "details": None,
    }


def _plain(value: Any) -> Any:
    """What msgpack has no word for."""
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "items"):
        return dict(value.items())
    return str(value)


def _as_bytes(text: str) -> bytes:
    """The bytes that undecodable text came from, or whatever stands nearest."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _keep_text(value: Any) -> Any:
    """A value whose text is not UTF-8, or whose numbers are too large, in a form that packs."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return _as_bytes(value)
        return value
    if isinstance(value, dict):
        return {_keep_text(key): _keep_text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_keep_text(item) for item in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return str(value)
    return value


def pack_message(message: dict[str, Any]) -> bytes:
    """One message with its length in front."""
    try:
        body = msgpack.packb(message, use_bin_type=True, default=_plain)
    except (UnicodeEncodeError, OverflowError):
        plain = {key: _keep_text(value) for key, value in message.items()}
        body = msgpack.packb(plain, use_bin_type=True, default=_plain)
    return bytes(_HEAD.pack(len(body)) + body)


class _Call:
    """One running call: what cancels it, and whether its answer is still wanted."""

    __slots__ = ("live", "running")

    def __init__(self) -> None:
        self.live = True
        self.running: Any = None

    def cancel(self) -> None:
        self.live = False
        if self.running is not None:
            self.running.cancel()


@implementer(IPushProducer)
class ControlProtocol(Protocol):
    """One connection. An invalid message ends it; a failing call ends only itself."""

    log = Logger()

    def __init__(self, server: ControlServer, handler: Handler, peer: PeerProcess | None) -> None:
        self._server = server
        self._handler = handler
        self.peer = peer if peer is not None else PeerProcess(-1, -1, -1)
        self._given = peer is not None
        self._limits = STRANGER
        self._buffer = bytearray()
        self._need = 4
        self._body = False
        self._calls: dict[int, _Call] = {}
        self._paused = False
        self._unsent = 0
        self._waiting: list[Deferred[None]] = []
        self._timer: Any = None
        self._lost = False
        self._admitted = False

    def connectionMade(self) -> None:
        """Ask the kernel who this is, and let the server decide whether to read at all."""
        if not self._given:
            raw = self.transport.getHandle().getsockopt(  # type: ignore[union-attr]
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            pid, uid, gid = _CREDENTIALS.unpack(raw)
            self.peer = PeerProcess(uid, gid, pid)
        limits = self._server.admit(self)
        if limits is None:
            self._lost = True
            self.transport.abortConnection()  # type: ignore[union-attr]
            return
        self._admitted = True
        self._limits = limits
        self.transport.registerProducer(self, True)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        """Collect, and handle each whole message."""
        if self._lost:
            return
        self._buffer += data
        while len(self._buffer) >= self._need and not self._lost:
            piece = bytes(self._buffer[: self._need])
            del self._buffer[: self._need]
            if not self._body:
                (size,) = _HEAD.unpack(piece)
                if size > self._limits.frame:
                    self._drop("oversized")
                    return
                self._need, self._body = size, True
            else:
                self._need, self._body = 4, False
                self._message(piece)

    def _message(self, body: bytes) -> None:
        try:
            message = msgpack.unpackb(body, raw=False, strict_map_key=False, use_list=True)
        except Exception:  # msgpack raises half a dozen unrelated types on bad input
            self._drop("undecodable")
            return
        if not isinstance(message, dict):
            self._drop("undecodable")
            return
        number, op, args = message.get("id"), message.get("op"), message.get("args", {})
        if not isinstance(number, int) or not isinstance(op, str):
            self._drop("undecodable")
            return
        if op == "cancel":
            if number in self._calls:
                self._calls[number].cancel()
                del self._calls[number]
        elif not isinstance(args, dict) or any(type(key) is not str for key in args):
            self._refuse(number, "args must be a map whose keys are strings")
        elif number in self._calls:
            self._refuse(number, f"call {number} is still running")
        elif len(self._calls) >= self._limits.calls:
            self._server.counters["ipc_calls_refused"] += 1
            self._refuse(number, f"more than {self._limits.calls} calls at once")
        else:
            self._start(number, op, args)

    def _refuse(self, number: int, reason: str) -> None:
        error = {"name": "SaltInvocationError", "message": reason, "details": None}
        self._send({"id": number, "error": error})

    def _start(self, number: int, op: str, args: dict[str, Any]) -> None:
        call = _Call()
        self._calls[number] = call

        def stream(item: Any) -> Deferred[None]:
            if not call.live:
                return succeed(None)
            self._send({"id": number, "item": item})
            return self._drained()

        def done(value: Any) -> None:
            if call.live:
                self._forget(number)
                self._send({"id": number, "ok": value})

        def failed(failure: Failure) -> None:
            if not isinstance(failure.value, (SaltwistedError, CancelledError)):
                self.log.failure("{op} on the control socket failed", failure=failure, op=op[:100])
            if call.live:
                self._forget(number)
                self._send({"id": number, "error": error_map(failure.value)})

        call.running = Deferred.fromCoroutine(self._handler(op, args, self.peer, stream))
        call.running.addCallbacks(done, failed).addErrback(self._unsendable)
        if not call.live:
            call.running.cancel()

    def _forget(self, number: int) -> None:
        self._calls.pop(number).live = False

    def _unsendable(self, failure: Failure) -> None:
        self.log.failure("an answer cannot be serialized", failure=failure)
        self._drop("unsendable")

    def _send(self, message: dict[str, Any]) -> None:
        if self._lost:
            return
        data = pack_message(message)
        if self._paused:
            self._unsent += len(data)
            if self._unsent > self._limits.unsent:
                self._drop("slow")
                return
        self.transport.write(data)  # type: ignore[union-attr]

    def _drained(self) -> Deferred[None]:
        """Fires when the reader has caught up, or is gone."""
        if self._lost or not self._paused:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def pauseProducing(self) -> None:
        """The reader does not keep up: let streams wait, and give it some patience."""
        if not self._paused:
            self._paused = True
            self._unsent = 0
            # A client that does not read gets no more answers either; else a client
            # that asks ahead (chunks of a file) would be dropped for its own haste
            self.transport.pauseProducing()  # type: ignore[union-attr]
            self._timer = self._server.clock.callLater(self._limits.patience, self._drop, "stalled")

    def resumeProducing(self) -> None:
        """Everything is out: let the streams go on."""
        if self._paused and not self._lost:
            self.transport.resumeProducing()  # type: ignore[union-attr]
        self._paused = False
        self._unsent = 0
        self._stop_timer()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)

    def stopProducing(self) -> None:
        """The connection is gone; L{connectionLost} is called too."""

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _drop(self, reason: str) -> None:
        self._timer = None if reason == "stalled" else self._timer
        if self._lost:
            return
        self._server.counters[f"ipc_dropped_{reason}"] += 1
        self.log.warn(
            "control connection of uid {uid} (pid {pid}) dropped: {reason}",
            uid=self.peer.uid,
            pid=self.peer.pid,
            reason=reason,
        )
        self.transport.abortConnection()  # type: ignore[union-attr]
        self._end()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel what still runs for this peer."""
        self._end()
        if self._admitted:
            self._server.gone(self)

    def _end(self) -> None:
        self._lost = True
        self._stop_timer()
        self._buffer.clear()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.cancel()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)


class _ControlFactory(Factory):
    noisy = False

    def __init__(self, build: Callable[[], ControlProtocol]) -> None:
        self._build = build

    def buildProtocol(self, addr: Any) -> ControlProtocol:
        protocol = self._build()
        protocol.factory = self
        return protocol


class ControlServer:
    """
    Listens on a unix socket, and takes over sockets that are already connected.

    @param reactor: for sockets and timers.
    @param handler: C{async handler(op, args, peer, stream)}; its result is the answer. A
        L{SaltwistedError} is sent to the client, any other error is logged. C{stream(item)} sends
        an item at once; awaiting it waits for a slow reader.
    @param judge: returns the limits for a peer, or C{None} to hang up without reading.
    @param path: where to listen; without a path only L{adopt} works.
    @param connections: how many at most; each uid that is not trusted may have an eighth of them.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        handler: Handler,
        path: str | None = None,
        judge: Judge = judge_by_uid,
        connections: int = 512,
        counters: Counter[str] | None = None,
    ) -> None:
        self.clock = reactor
        self.path = path
        self.counters: Counter[str] = Counter() if counters is None else counters
        self._handler = handler
        self._judge = judge
        self._most = connections
        self._open: set[ControlProtocol] = set()
        self._per_uid: Counter[int] = Counter()
        self._port: Any = None
        self._lock_fd = -1
        self._closed: list[Deferred[None]] = []

    def startService(self) -> None:
        """
        Lock, replace a stale socket, and listen (0666; the directory, if new, 0755).

        @raises ConfigError: when the path is too long, in use, or something else is there.
        """
        path = self.path
        if path is None or self._port is not None:
            return
        if len(os.fsencode(path)) > MAX_PATH:
            raise ConfigError(
                f"the control socket's path {path} has {len(os.fsencode(path))} bytes, but a "
                f"unix socket may have only {MAX_PATH}: choose a shorter sock_dir"
            )
        folder = os.path.dirname(path)
        try:
            if not os.path.isdir(folder):
                os.makedirs(folder)
                os.chmod(folder, 0o755)  # noqa: S103 - everybody may connect, and is judged then
            self._lock(path + ".lock")
            self._clear(path)
        except OSError as error:
            self._unlock()
            raise ConfigError(f"cannot listen on {path}: {error.strerror}") from error
        try:
            factory = _ControlFactory(lambda: ControlProtocol(self, self._handler, None))
            self._port = self.clock.listenUNIX(path, factory, backlog=128, mode=0o666)
        except Exception as error:
            self._unlock()
            raise PortError(f"cannot listen on {path}: {error}") from error

    def _lock(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock_fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            raise PortError(
                f"another daemon uses {self.path}: stop it, or set another sock_dir"
            ) from None

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _clear(self, path: str) -> None:
        """Remove a socket that nobody listens on any more; we hold the lock."""
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            self._unlock()
            raise ConfigError(f"{path} exists and is not a socket: remove it")
        os.unlink(path)

    def stopService(self) -> Deferred[None]:
        """Stop listening and hang up; fires when every connection is gone."""
        port, self._port = self._port, None
        listening: Any = succeed(None) if port is None else maybeDeferred(port.stopListening)

        def closed(_: Any) -> Deferred[None]:
            if self.path is not None:
                with contextlib.suppress(OSError):
                    if port is not None and stat.S_ISSOCK(os.lstat(self.path).st_mode):
                        os.unlink(self.path)
            self._unlock()
            return self.hang_up()

        done: Deferred[None] = listening.addBoth(closed)
        return done

    def hang_up(self) -> Deferred[None]:
        """End every connection that there is; fires when they are gone."""
        done: Deferred[None] = Deferred()
        if not self._open:
            done.callback(None)
            return done
        self._closed.append(done)
        for protocol in tuple(self._open):
            protocol.transport.abortConnection()  # type: ignore[union-attr]
        return done

    def adopt(
        self, sock: socket.socket, peer: PeerProcess | None = None, handler: Handler | None = None
    ) -> ControlProtocol:
        """
        Serve a connected stream socket, such as one end of a socket pair with a job's process.

        The socket object is taken over; do not use it afterwards.

        @param peer: who it is; the kernel names the creator of a socket pair, not its reader.
        @param handler: instead of the server's own.
        """
        chosen = self._handler if handler is None else handler
        made: list[ControlProtocol] = []

        def build() -> ControlProtocol:
            made.append(ControlProtocol(self, chosen, peer))
            return made[0]

        sock.setblocking(False)
        with sock:
            self.clock.adoptStreamConnection(sock.fileno(), socket.AF_UNIX, _ControlFactory(build))
        return made[0]

    def admit(self, protocol: ControlProtocol) -> Limits | None:
        """Decide about a new connection; for the protocol."""
        peer = protocol.peer
        limits = self._judge(peer)
        if limits is None:
            self.counters["ipc_refused"] += 1
            return None
        trusted = peer.uid in (0, os.geteuid())
        if len(self._open) >= self._most or (
            not trusted and self._per_uid[peer.uid] >= max(self._most // 8, 1)
        ):
            self.counters["ipc_refused_full"] += 1
            return None
        self._open.add(protocol)
        self._per_uid[peer.uid] += 1
        return limits

    def gone(self, protocol: ControlProtocol) -> None:
        """A connection ended; for the protocol."""
        self._open.discard(protocol)
        self._per_uid[protocol.peer.uid] -= 1
        if self._per_uid[protocol.peer.uid] <= 0:
            del self._per_uid[protocol.peer.uid]
        if not self._open:
            closed, self._closed = self._closed, []
            for done in closed:
                done.callback(None)

    @property
    def connections(self) -> int:
        """How many peers are connected now."""
        return len(self._open)
