"""
Does a master answer: one question over a connection of its own, without the library of ZeroMQ.

What is spoken over it is ZMTP 3.0 (rfc.zeromq.org/spec/23) with the null mechanism, as a C{REQ}
socket; or Salt's framing of C{transport: tcp}.
"""

from __future__ import annotations

import socket
import time

from saltwisted.errors import WireError
from saltwisted.wire.envelope import decode_reply, encode_clear_request
from saltwisted.wire.frames import FrameReader, encode_frame
from saltwisted.wire.msgpack import pack, unpack

_LIMIT = 1 << 20
"""Bytes of an answer to a ping."""

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_GREETING = _SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\x05READY" + b"\x0bSocket-Type" + (3).to_bytes(4, "big") + b"REQ"
_MORE, _LONG, _COMMAND = 1, 2, 4


def answers(host: str, port: int, transport: str, timeout: float) -> bool:
    """
    Whether somebody at this address answers a ping as a master does.

    @param transport: C{zeromq} or C{tcp}.
    @param timeout: seconds in all.
    """
    question = encode_clear_request({"cmd": "ping"})
    try:
        with socket.create_connection((host, port), timeout) as sock:
            line = _Line(sock, time.monotonic() + timeout)
            if transport == "tcp":
                reply = _by_frames(line, question)
            else:
                reply = _by_zmtp(line, question)
        decode_reply(reply)
    except (OSError, EOFError, WireError):
        return False
    return True


class _Line:
    """A connection that is read with an end in sight."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self.sock, self.end = sock, end

    def send(self, data: bytes) -> None:
        self.sock.settimeout(self._left())
        self.sock.sendall(data)

    def some(self, most: int) -> bytes:
        """What comes next; at least a byte."""
        self.sock.settimeout(self._left())
        data = self.sock.recv(most)
        if not data:
            raise EOFError
        return data

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self.some(min(count - len(data), 1 << 16))
        return data

    def _left(self) -> float:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _by_frames(line: _Line, question: bytes) -> bytes:
    # A frame holds the question itself, not what it is packed to.
    line.send(encode_frame(unpack(question), {"mid": 1}))
    reader = FrameReader(_LIMIT)
    while True:
        for frame in reader.feed(line.some(1 << 16)):
            if frame.head.get("mid") == 1:
                return pack(frame.body)


def _by_zmtp(line: _Line, question: bytes) -> bytes:
    line.send(_GREETING)
    greeting = line.read(64)
    if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3:
        raise WireError("greeting")
    line.send(_frame(_COMMAND, _READY))
    # A C{REQ} socket puts an empty part before its question.
    line.send(_frame(_MORE, b"") + _frame(0, question))
    while True:
        flags, data = _read_frame(line)
        if not flags & (_COMMAND | _MORE):
            return data


def _frame(flags: int, data: bytes) -> bytes:
    if len(data) > 255:
        return bytes((flags | _LONG,)) + len(data).to_bytes(8, "big") + data
    return bytes((flags, len(data))) + data


def _read_frame(line: _Line) -> tuple[int, bytes]:
    flags = line.read(1)[0]
    size = int.from_bytes(line.read(8 if flags & _LONG else 1), "big")
    if size > _LIMIT:
        raise WireError("frame size")
    return flags, line.read(size)
