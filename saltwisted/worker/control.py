"""
The blocking client of a control socket.

Used by worker processes (over the socket pair they were born with) and by the
command line (over C{sock_dir/saltwisted.sock}). The wire is a four-byte
big-endian length and one msgpack map with bin types: C{{"id", "op", "args"}} out;
C{{"id", "ok"}}, C{{"id", "error"}} and, for streams, C{{"id", "item"}} back. The server's
side is L{saltwisted.transports.ipc}.

One thread at a time may wait for an answer; C{call} and C{stream} take a lock, so
that a module may use threads of its own.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any

import msgpack

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.wire.text import ESCAPE, HALVES

MAX_MESSAGE = 1 << 30
"""Bytes in one message. The peer is a process of this machine; this only stops nonsense."""

_HEAD = struct.Struct(">I")


class ControlClient:
    """
    Calls a daemon on this machine, one answer at a time.

    @param path: the daemon's socket; connected at the first use.
    @param sock: a connected stream socket instead of a path; closed by L{close}.
    @param timeout: seconds to wait for each answer, or C{None} for ever. A call may
        override it with L{call_within}.
    """

    def __init__(
        self,
        path: str | None = None,
        sock: socket.socket | None = None,
        timeout: float | None = None,
    ) -> None:
        self.path = path
        self.timeout = timeout
        self._sock = sock
        self._next = 0
        self._lock = threading.RLock()
        self._waiting: dict[int, list[dict[str, Any]]] = {}
        self._pid = os.getpid()

    def call(self, op: str, /, **args: Any) -> Any:
        """
        One question, one answer.

        @raises RemoteError: the daemon refused or failed.
        @raises TransportClosed: no daemon, or it went away before it answered.
        """
        return self.call_within(self.timeout, op, **args)

    def call_within(self, timeout: float | None, op: str, /, **args: Any) -> Any:
        """
        As L{call}, with a limit in seconds of its own.

        @raises TimeoutError: no answer in time; the daemon is told to forget the question.
        """
        flow = self.stream_within(timeout, op, **args)
        while True:
            try:
                next(flow)
            except StopIteration as done:
                return done.value

    def stream(self, op: str, /, **args: Any) -> Generator[Any, None, Any]:
        """
        One question, items as they come; the generator's return value is the final answer.

        Closing the generator early cancels the question.
        """
        return self.stream_within(self.timeout, op, **args)

    def stream_within(
        self, timeout: float | None, op: str, /, **args: Any
    ) -> Generator[Any, None, Any]:
        """As L{stream}; C{timeout} is the longest silence in seconds, not the whole length."""
        with self._lock:
            number = self._ask(op, args)
        finished = False
        try:
            while True:
                answer = self._answer(number, timeout)
                if "item" in answer:
                    yield answer["item"]
                    continue
                finished = True
                return _value(answer)
        except TransportClosed:
            finished = True
            raise
        finally:
            self._waiting.pop(number, None)
            if not finished:
                self._cancel(number)

    def pipeline(
        self, op: str, asked: Iterable[dict[str, Any]], window: int, timeout: float | None = None
    ) -> Generator[Any, None, None]:
        """
        One question after another, C{window} of them on their way at any time; answers in order.

        Close the generator when enough has come: what is still on its way is cancelled.
        """
        numbers: deque[int] = deque()
        try:
            for args in asked:
                with self._lock:
                    numbers.append(self._ask(op, args))
                if len(numbers) == window:
                    answer = self._answer(numbers[0], timeout)
                    self._waiting.pop(numbers.popleft(), None)
                    yield _value(answer)
            while numbers:
                answer = self._answer(numbers[0], timeout)
                self._waiting.pop(numbers.popleft(), None)
                yield _value(answer)
        finally:
            for number in numbers:
                self._waiting.pop(number, None)
                self._cancel(number)

    def notify(self, op: str, /, **args: Any) -> None:
        """
        Tell the daemon something and do not wait; its answer is thrown away.

        @raises TransportClosed: it could not even be told.
        """
        with self._lock:
            self._waiting.pop(self._ask(op, args), None)
            # A client that only sends must read too, or the daemon's answers pile up on its side.
            while self._sock is not None and self._readable(self._sock):
                self._sort(self._receive(None))

    def close(self) -> None:
        """Hang up. A client with a path connects again at its next use."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for C{select}; connects if needed."""
        return self._connected().fileno()

    def _connected(self) -> socket.socket:
        if self._sock is not None and self._pid == os.getpid():
            return self._sock
        if self.path is None:
            raise TransportClosed("the connection to the daemon is closed")
        # After a fork the parent still talks on the old connection: take one of our own.
        self.close()
        self._pid = os.getpid()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.connect(self.path)
        except OSError as error:
            sock.close()
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
                raise TransportClosed(f"no daemon answers on {self.path}") from error
            raise TransportClosed(f"{self.path}: {error.strerror}") from error
        self._sock = sock
        return sock

    def _ask(self, op: str, args: dict[str, Any]) -> int:
        self._next += 1
        number = self._next
        self._send({"id": number, "op": op, "args": args})
        self._waiting[number] = []
        return number

    def _send(self, message: dict[str, Any]) -> None:
        body = self._packed(message)
        sock = self._connected()
        sock.settimeout(None)
        try:
            if len(body) < 65536:
                sock.sendall(_HEAD.pack(len(body)) + body)
            else:
                sock.sendall(_HEAD.pack(len(body)))
                sock.sendall(body)
        except OSError as error:
            self.close()
            raise TransportClosed(f"the daemon went away: {error.strerror}") from error

    def _packed(self, message: dict[str, Any]) -> bytes:
        """
        A message as bytes. Text that UTF-8 cannot carry is what somebody has typed, or what a job
        has found: a command says so, and a worker sends it with backslashes, since its answer must
        arrive (T-TEXT-1).

        @raises RemoteError: it is a command's.
        """
        pack: Any = msgpack.packb
        try:
            body: bytes = pack(message, use_bin_type=True, default=_plain)
        except UnicodeEncodeError:
            if self.path is not None:
                raise RemoteError("SaltInvocationError", f"an argument has {HALVES}") from None
            body = pack(message, use_bin_type=True, default=_plain, unicode_errors=ESCAPE)
        return body

    def _cancel(self, number: int) -> None:
        try:
            with self._lock:
                if self._sock is not None and self._pid == os.getpid():
                    self._send({"id": number, "op": "cancel"})
        except TransportClosed:
            pass

    def _answer(self, number: int, timeout: float | None) -> dict[str, Any]:
        """The next message for this question; messages for other questions are kept for them."""
        with self._lock:
            kept = self._waiting[number]
            if kept:
                return kept.pop(0)
            deadline = None if timeout is None else time.monotonic() + timeout
            while True:
                message = self._receive(deadline)
                if message.get("id") == number:
                    return message
                self._sort(message)

    def _sort(self, message: dict[str, Any]) -> None:
        """Keep a message for the question that it answers; nobody may want it any more."""
        owner = message.get("id")
        if owner in self._waiting:
            self._waiting[owner].append(message)

    @staticmethod
    def _readable(sock: socket.socket) -> bool:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))

    def _receive(self, deadline: float | None) -> dict[str, Any]:
        sock = self._sock
        if sock is None:
            raise TransportClosed("the connection to the daemon is closed")
        (size,) = _HEAD.unpack(self._exactly(sock, 4, deadline))
        if size > MAX_MESSAGE:
            self.close()
            raise TransportClosed(f"a message of {size} bytes: this is not a control socket")
        body = self._exactly(sock, size, None)
        try:
            message = msgpack.unpackb(body, raw=False, strict_map_key=False)
        except Exception as error:  # msgpack raises half a dozen unrelated types on bad input
            self.close()
            raise TransportClosed(
                "a message that is not msgpack: this is not a control socket"
            ) from error
        if not isinstance(message, dict):
            self.close()
            raise TransportClosed("a message that is not a map: this is not a control socket")
        return message

    def _exactly(self, sock: socket.socket, size: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            # A message that has begun is read to its end, or the stream is out of step.
            if deadline is None or parts:
                sock.settimeout(None)
            else:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the daemon did not answer in time")
                sock.settimeout(left)
            try:
                chunk = sock.recv(min(size - len(parts), 1 << 20))
            except TimeoutError as error:
                raise TimeoutError("the daemon did not answer in time") from error
            except OSError as error:
                self.close()
                raise TransportClosed(f"the daemon went away: {error.strerror}") from error
            if not chunk:
                self.close()
                raise TransportClosed("the daemon closed the connection")
            parts += chunk
        return bytes(parts)


def _value(answer: dict[str, Any]) -> Any:
    """What an answer says, or the error that it is."""
    if "error" in answer:
        error = answer["error"]
        if not isinstance(error, dict):
            error = {"message": str(error or "")}
        raise RemoteError(
            str(error.get("name", "Error")), str(error.get("message", "")), error.get("details")
        )
    return answer.get("ok")


def _plain(value: Any) -> Any:
    """What msgpack has no word for, as Salt sends it: sets as lists, dates as text."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "items"):
        return dict(value.items())
    return str(value)
