"""
Frames of web sockets, written and read by hand: the tests' own client.
"""

from __future__ import annotations

import base64
import hashlib
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = base64.b64encode(b"0123456789abcdef").decode()
MASK = b"\x01\x02\x03\x04"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}
"""Headers of a request for a web socket."""


def accepted(key: str = KEY) -> str:
    """What a server answers to a key (RFC 6455, 4.2.2)."""
    text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


def frame(
    payload: bytes = b"",
    opcode: int = TEXT,
    last: bool = True,
    masked: bool = True,
    size: int | None = None,
    flags: int = 0,
) -> bytes:
    """
    A client's frame.

    @param size: what it says of its size, if that is not true.
    """
    length = len(payload) if size is None else size
    mark = 0x80 if masked else 0
    head = bytes([(0x80 if last else 0) | flags | opcode])
    if length < 126:
        head += bytes([mark | length])
    elif length < 65536:
        head += bytes([mark | 126]) + struct.pack("!H", length)
    else:
        head += bytes([mark | 127]) + struct.pack("!Q", length)
    if masked:
        payload = bytes(byte ^ MASK[n % 4] for n, byte in enumerate(payload))
        head += MASK
    return head + payload


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """What a server has sent behind its answer: of each frame what it is, and what is in it."""
    found = []
    while len(data) >= 2:
        opcode, length, begin = data[0] & 0x0F, data[1] & 0x7F, 2
        if length == 126:
            length, begin = struct.unpack("!H", data[2:4])[0], 4
        elif length == 127:
            length, begin = struct.unpack("!Q", data[2:10])[0], 10
        if len(data) < begin + length:
            break
        found.append((opcode, data[begin : begin + length]))
        data = data[begin + length :]
    return found


def code_of(found: list[tuple[int, bytes]]) -> int:
    """The code of the close frame, which is the last; 0 if there is none."""
    if not found or found[-1][0] != CLOSE:
        return 0
    return int(struct.unpack("!H", found[-1][1][:2])[0])
