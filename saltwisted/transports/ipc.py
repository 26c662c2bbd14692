"""
The control socket: how commands and worker processes talk to their daemon.

Each message is a four-byte big-endian length and a msgpack map with bin types. A client sends
C{{"id", "op", "args"}}; the answer is C{{"id", "ok"}} or C{{"id", "error"}}, preceded by any number
of C{{"id", "item"}}; C{op: cancel} ends a call. The kernel says who is on the other side
(C{SO_PEERCRED}) before a byte is parsed. This module does not know the operations; the blocking
client is L{saltwisted.worker.control}.

A message is judged by its length before anything of it is kept, and decoded in turns of the
reactor; what comes behind it waits, and meanwhile no more is read. Who reads no answers gets none,
and is heard no more. What all who are not trusted make a daemon keep has one bound.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from io import BytesIO
from typing import Any

import msgpack
from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.doors import CONTROL, CONTROL_MINION, Door
from saltwisted.errors import (
    ConfigError,
    DeniedError,
    PortError,
    RemoteError,
    SaltwistedError,
    TargetError,
    WireError,
)
from saltwisted.transports.turns import LongLine
from saltwisted.turns import turns_of
from saltwisted.wire.decoding import ACCEPTED, QUICK, Bounds
from saltwisted.wire.decoding import STRANGER as FEW
from saltwisted.wire.msgpack import unpack_bin, unpacking_bin

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
    @ivar unfinished: seconds after which a message that is not whole yet ends the connection.
    @ivar bounds: what a message may have, beside its bytes.
    @ivar kept: bytes that all connections of one user may make the daemon keep; C{None}: they are
        not counted.
    """

    frame: int = 256 * 1024 * 1024
    calls: int = 256
    unsent: int = 16 * 1024 * 1024
    patience: float = 600.0
    unfinished: float = math.inf
    bounds: Bounds = ACCEPTED
    kept: int | None = None


def limits_of(door: Door, calls: int) -> Limits:
    """The limits of one who is not trusted, at a door."""
    return Limits(
        frame=door.request,
        calls=calls,
        unsent=door.memory // 12,
        patience=2 * door.holds,
        unfinished=door.holds,
        bounds=FEW,
        kept=door.memory,
    )


TRUSTED = Limits()
STRANGER = limits_of(CONTROL, calls=16)
REFUSED = limits_of(CONTROL_MINION, calls=4)
"""Of those whom a minion refuses, whatever they ask."""
LONG = 64 * 1024
"""Bytes of a message that is collected apart from what comes behind it."""
SHORT = 4096
"""Bytes of a message that is handled at once if it comes alone."""
DECODED, MAPS = 40, 100
"""
Bytes that are counted for each byte of a message while its call runs. Of a short negative number
Python makes 40, of a map with one key up to 140; of what people send it makes a few.
"""
OF_CONTAINERS = 4 * 1024 * 1024
"""Bytes that are counted for maps at the most, since a message has not more of them."""
ACCEPTS = 4
"""Connections that are accepted in one turn of the reactor; 20 more where many wait."""
SAID = 60.0
"""Seconds in which the log has one line of connections of one user that are dropped alike."""
MOST_SAID = 1024

Stream = Callable[[Any], Any]
"""C{stream(item)}: sends it; may be awaited, to wait for a reader that is slow."""
Handler = Callable[[str, dict[str, Any], PeerProcess, Stream], Coroutine[Any, Any, Any]]
Judge = Callable[[PeerProcess], "Limits | None"]


def _is_trusted(peer: PeerProcess) -> bool:
    return peer.uid in (0, os.geteuid())


def judge_by_uid(peer: PeerProcess) -> Limits | None:
    """Root and the daemon's own user are trusted; others get small limits (and no more rights)."""
    return TRUSTED if _is_trusted(peer) else STRANGER


def judge_of_minion(peer: PeerProcess) -> Limits | None:
    """As L{judge_by_uid}; on a minion others are only told that they may not."""
    return TRUSTED if _is_trusted(peer) else REFUSED


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


_MAP_OF_TWO = b"\x82"
_ID = msgpack.packb("id")
_ITEM = msgpack.packb("item")


def pack_value(value: Any) -> bytes:
    """A value of a message, as L{pack_message} packs it."""
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True, default=_plain)
    except (UnicodeEncodeError, OverflowError):
        packed = msgpack.packb(_keep_text(value), use_bin_type=True, default=_plain)
    return packed


def item_parts(number: int, packed: bytes) -> list[bytes]:
    """The bytes of C{{"id", "item"}}; those of the item are not copied."""
    head = _MAP_OF_TWO + _ID + bytes(msgpack.packb(number)) + _ITEM
    return [_HEAD.pack(len(head) + len(packed)) + head, packed]


class _Call:
    """
    One running call: what cancels it, and whether its answer is still wanted.

    @ivar size: bytes that are counted for its arguments.
    """

    __slots__ = ("live", "running", "size")

    def __init__(self, size: int) -> None:
        self.live = True
        self.running: Any = None
        self.size = size

    def cancel(self) -> None:
        self.live = False
        if self.running is not None:
            self.running.cancel()


_NO_LINE: LongLine[None] = LongLine(None, lambda nothing: iter(()))
"""Of a connection that is not heard, or no more."""


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
        self._long: BytesIO | None = None
        self._missing = 0
        self._line: LongLine[None] = _NO_LINE
        self._stands = self._held = False
        self._unfinished: Any = None
        self._calls: dict[int, _Call] = {}
        self._running_bytes = 0
        self._paused = False
        self._unsent = 0
        self._waiting: list[Deferred[None]] = []
        self._timer: Any = None
        self._lost = self._hung_up = False
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
        self._line = LongLine(self._server.clock, self._messages, self._standing)
        self.transport.registerProducer(self, True)  # type: ignore[union-attr]

    # In

    def dataReceived(self, data: bytes) -> None:
        """Collect, and handle each whole message when its turn has come."""
        if self._lost:
            return
        busy = self._buffer or self._missing or self._line.rests
        if not busy and _is_one(data, self._limits.frame):
            # As most come: one short message, which is all that there is to do
            try:
                self._message(unpack_bin(data[_HEAD.size :]), len(data))
            except WireError:
                self._drop("undecodable")
            return
        if self._long is None:
            self._buffer += data
        else:
            piece = data[: self._missing]
            self._long.write(piece)
            self._missing -= len(piece)
            self._buffer += data[len(piece) :]
        if not self._line.rests and not self._missing:
            self._line.put(None)
        self._waits()
        self._keeps()

    def _standing(self, stands: bool) -> None:
        self._stands = stands
        if self._hung_up and not stands:
            self._end()
        else:
            self._hold()

    def _hold(self) -> None:
        """Read no more while messages wait, nor from a client that does not read."""
        holds = self._stands or self._paused
        if holds != self._held and not (self._lost or self._hung_up):
            self._held = holds
            transport: Any = self.transport
            (transport.pauseProducing if holds else transport.resumeProducing)()

    def _messages(self, _: None) -> Iterator[None]:
        """Handle all that are whole, one in each step, or in several."""
        while not self._lost:
            body = self._whole()
            if body is None:
                return
            self._no_unfinished()
            try:
                message = yield from _decoding(body, self._limits.bounds)
            except WireError:
                self._drop("undecodable")
                return
            if not self._lost:
                self._message(message, len(body))
                self._waits()
            yield

    def _whole(self) -> bytes | None:
        """The next message that is whole; a long one is collected without being copied again."""
        if self._long is not None:
            if self._missing:
                return None
            body, self._long = self._long.getvalue(), None
            return body
        if len(self._buffer) < _HEAD.size:
            return None
        (size,) = _HEAD.unpack_from(self._buffer)
        end = _HEAD.size + size
        if size > self._limits.frame:
            self._drop("oversized")
            return None
        if end <= len(self._buffer):
            body = bytes(memoryview(self._buffer)[_HEAD.size : end])
            del self._buffer[:end]
            return body
        if size > LONG:
            self._long = BytesIO()
            self._long.write(memoryview(self._buffer)[_HEAD.size :])
            self._missing = end - len(self._buffer)
            self._buffer.clear()
        return None

    def _waits(self) -> None:
        """Somebody who begins a message has some time to finish it."""
        begun = bool(self._buffer) or self._long is not None
        if begun and self._unfinished is None and not self._lost:
            if self._limits.unfinished < math.inf:
                self._unfinished = self._server.clock.callLater(self._limits.unfinished, self._late)
        elif not begun:
            self._no_unfinished()

    def _late(self) -> None:
        self._unfinished = None
        if self._held:
            # It is ours that nothing more of it is read
            self._waits()
        else:
            self._drop("unfinished")

    def _no_unfinished(self) -> None:
        timer, self._unfinished = self._unfinished, None
        if timer is not None:
            timer.cancel()

    def _keeps(self) -> bool:
        """Tell the server what this connection makes it keep; false if it is dropped for that."""
        if self._limits.kept is not None and self._admitted:
            size = 0 if self._lost else len(self._buffer) + self._unsent + self._running_bytes
            if self._long is not None:
                size += self._long.tell()
            self._server.keeps(self, size, self._limits.kept)
        return not self._lost

    def drop_kept(self) -> None:
        """It keeps more than all others; for the server."""
        self._drop("crowded")

    def _message(self, message: Any, size: int) -> None:
        if not isinstance(message, dict):
            self._drop("undecodable")
            return
        number, op, args = message.get("id"), message.get("op"), message.get("args", {})
        if not isinstance(number, int) or not isinstance(op, str):
            self._drop("undecodable")
            return
        counted = counted_for(size)
        if op == "cancel":
            if number in self._calls:
                self._forget(number).cancel()
        elif not isinstance(args, dict) or any(type(key) is not str for key in args):
            self._refuse(number, "args must be a map whose keys are strings")
        elif number in self._calls:
            self._refuse(number, f"call {number} is still running")
        elif len(self._calls) >= self._limits.calls:
            self._server.counters["ipc_calls_refused"] += 1
            self._refuse(number, f"more than {self._limits.calls} calls at once")
        elif not self._server.has_room(self, counted, self._limits.kept):
            self._server.counters["ipc_calls_refused"] += 1
            self._refuse(number, "too much is asked for at once")
        else:
            self._start(number, op, args, counted)

    def _refuse(self, number: int, reason: str) -> None:
        error = {"name": "SaltInvocationError", "message": reason, "details": None}
        self._send({"id": number, "error": error})

    def _start(self, number: int, op: str, args: dict[str, Any], size: int) -> None:
        call = _Call(size)
        self._calls[number] = call
        self._running_bytes += size
        self._keeps()

        def stream(item: Any) -> Deferred[None]:
            if not call.live:
                return succeed(None)
            self._write(item_parts(number, self._server.packed(item)))
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

    def _forget(self, number: int) -> _Call:
        call = self._calls.pop(number)
        call.live = False
        self._running_bytes -= call.size
        self._keeps()
        return call

    def _unsendable(self, failure: Failure) -> None:
        self.log.failure("an answer cannot be serialized", failure=failure)
        self._drop("unsendable")

    # Out

    def _send(self, message: dict[str, Any]) -> None:
        if not self._lost:
            self._write([pack_message(message)])

    def _write(self, parts: list[bytes]) -> None:
        if self._lost or self._hung_up:
            return
        if self._paused:
            self._unsent += sum(map(len, parts))
            if self._unsent > self._limits.unsent:
                self._drop("slow")
                return
            if not self._keeps():
                return
        self.transport.writeSequence(parts)  # type: ignore[union-attr]

    def _drained(self) -> Deferred[None]:
        """Fires when the reader has caught up, or is gone."""
        if self._lost or self._hung_up or not self._paused:
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
            self._hold()
            self._timer = self._server.clock.callLater(self._limits.patience, self._drop, "stalled")

    def resumeProducing(self) -> None:
        """Everything is out: let the streams go on."""
        self._paused = False
        self._unsent = 0
        self._hold()
        self._keeps()
        self._release()

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
        if self._server.is_news(self.peer.uid, reason):
            self.log.warn(
                "control connection of uid {uid} (pid {pid}) dropped: {reason}",
                uid=self.peer.uid,
                pid=self.peer.pid,
                reason=reason,
            )
        self.transport.abortConnection()  # type: ignore[union-attr]
        self._end()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel what still runs for this peer; what it said before it went is heard."""
        self._hung_up = True
        self._cancel_calls()
        self._release()
        if self._lost or not self._line.rests:
            self._end()

    def hang_up(self) -> None:
        """End it now, whatever was said; for the server."""
        self.transport.abortConnection()  # type: ignore[union-attr]
        self._end()

    def _end(self) -> None:
        if not self._lost:
            self._lost = True
            self._line.stop()
            # No circle of the two stays: thousands may come and go in a second
            self._line = _NO_LINE
            self._no_unfinished()
            self._buffer.clear()
            self._long, self._missing = None, 0
            self._cancel_calls()
            self._release()
            self._keeps()
        if self._hung_up and self._admitted:
            self._admitted = False
            self._server.gone(self)

    def _cancel_calls(self) -> None:
        calls, self._calls = self._calls, {}
        self._running_bytes = 0
        for call in calls.values():
            call.cancel()

    def _release(self) -> None:
        """Nobody waits for this reader any more."""
        self._stop_timer()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)


def counted_for(size: int) -> int:
    """Bytes that are counted for a message of this size while its call runs."""
    return DECODED * size + min(MAPS * size, OF_CONTAINERS)


def _is_one(data: bytes, most: int) -> bool:
    """Whether this is one whole message, and a short one."""
    size = len(data) - _HEAD.size
    return 0 < size <= SHORT and size <= most and _HEAD.unpack_from(data)[0] == size


def _decoding(body: bytes, bounds: Bounds) -> Generator[None, None, Any]:
    """The steps that decode a message. @raises WireError: it is none, or no good one."""
    if len(body) <= QUICK:
        return unpack_bin(body)
    return (yield from unpacking_bin(body, bounds))


class _ControlFactory(Factory):
    noisy = False

    def __init__(self, build: Callable[[], ControlProtocol]) -> None:
        self._build = build

    def buildProtocol(self, addr: Any) -> ControlProtocol:
        protocol = self._build()
        protocol.factory = self
        return protocol


def check_socket(path: str) -> None:
    """
    Whether a control socket can be at a path, as far as that can be said without making it.

    @raises ConfigError: the path is too long, or something else is there.
    """
    size = len(os.fsencode(path))
    if size > MAX_PATH:
        raise ConfigError(
            f"the control socket's path {path} has {size} bytes, but a unix socket may have only "
            f"{MAX_PATH}: choose a shorter sock_dir"
        )
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot listen on {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} exists and is not a socket: remove it")


class ControlServer:
    """
    Listens on a unix socket, and takes over sockets that are already connected.

    @param reactor: for sockets and timers.
    @param handler: C{async handler(op, args, peer, stream)}; its result is the answer. A
        L{SaltwistedError} is sent to the client, any other error is logged. C{stream(item)} sends
        an item at once; awaiting it waits for a slow reader.
    @param judge: returns the limits for a peer, or C{None} to hang up without reading.
    @param path: where to listen; without a path only L{adopt} works.
    @param connections: how many at most; each uid that is not trusted may have an eighth of them,
        and all of these together a half.
    @param kept: bytes that all connections whose limits are counted may make it keep.
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
        kept: int = CONTROL.memory_all,
    ) -> None:
        self.clock = reactor
        self.path = path
        self.counters: Counter[str] = Counter() if counters is None else counters
        self._handler = handler
        self._judge = judge
        self._most = connections
        self._open: set[ControlProtocol] = set()
        self._per_uid: Counter[int] = Counter()
        self._strangers = 0
        self._most_kept = kept
        self._kept: dict[ControlProtocol, int] = {}
        self._kept_by: Counter[int] = Counter()
        self._kept_all = 0
        self._said: dict[tuple[int, str], float] = {}
        self._item: tuple[Any, bytes] | None = None
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
        check_socket(path)
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
        self._few_accepts()

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
        if stat.S_ISSOCK(mode):
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
            protocol.hang_up()
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
        self._few_accepts()
        limits = self._judge(peer)
        if limits is None:
            self.counters["ipc_refused"] += 1
            return None
        trusted = _is_trusted(peer)
        if len(self._open) >= self._most or (
            not trusted
            and (
                self._per_uid[peer.uid] >= max(self._most // 8, 1)
                or self._strangers >= max(self._most // 2, 1)
            )
        ):
            self.counters["ipc_refused_full"] += 1
            return None
        self._open.add(protocol)
        self._per_uid[peer.uid] += 1
        self._strangers += not trusted
        return limits

    def _few_accepts(self) -> None:
        """Twisted accepts a hundred in one turn, and 20 more in each that is filled."""
        if hasattr(self._port, "numberAccepts"):
            self._port.numberAccepts = ACCEPTS

    def gone(self, protocol: ControlProtocol) -> None:
        """A connection ended; for the protocol."""
        self._open.discard(protocol)
        uid = protocol.peer.uid
        self._per_uid[uid] -= 1
        if self._per_uid[uid] <= 0:
            del self._per_uid[uid]
        self._strangers -= not _is_trusted(protocol.peer)
        if not self._open:
            closed, self._closed = self._closed, []
            for done in closed:
                done.callback(None)

    # What those who are not trusted make it keep

    def has_room(self, protocol: ControlProtocol, size: int, most: int | None) -> bool:
        """Whether a user may make it keep so many bytes more; for the protocol."""
        return most is None or self._kept_by[protocol.peer.uid] + size <= most

    def keeps(self, protocol: ControlProtocol, size: int, most: int) -> None:
        """
        A connection makes it keep so many bytes now. If its user, or all users, make it keep too
        much, the connection that keeps most ends; for the protocol.

        @param most: bytes for all connections of this user.
        """
        uid, more = protocol.peer.uid, size - self._kept.pop(protocol, 0)
        if size:
            self._kept[protocol] = size
        self._kept_all += more
        self._kept_by[uid] += more
        if self._kept_by[uid] <= 0:
            del self._kept_by[uid]
        if more <= 0:
            return
        if self._kept_all > self._most_kept:
            (uid, _), most = self._kept_by.most_common(1)[0], 0
        if self._kept_by[uid] > most:
            same = (each for each in self._kept if each.peer.uid == uid)
            max(same, key=self._kept.__getitem__).drop_kept()

    def is_news(self, uid: int, reason: str) -> bool:
        """Whether the log has no line yet that somebody was dropped so; for the protocol."""
        now = self.clock.seconds()
        if now - self._said.get((uid, reason), -SAID) < SAID:
            return False
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said[uid, reason] = now
        return True

    def packed(self, item: Any) -> bytes:
        """An item of a stream. All who are sent the same object in one turn share its bytes."""
        if self._item is not None and self._item[0] is item:
            return self._item[1]
        packed = pack_value(item)
        if len(self._open) > 1:
            if self._item is None:
                turns_of(self.clock).later(self._forget_item)
            self._item = item, packed
        return packed

    def _forget_item(self) -> None:
        self._item = None

    @property
    def connections(self) -> int:
        """How many peers are connected now."""
        return len(self._open)
