"""
What a server sends over a web socket, as bytes: whole text messages in one frame each (RFC 6455,
5.2).

A server does not mask, so one message is the same bytes for all clients.
"""

from __future__ import annotations

import struct

_FINAL_TEXT = 0x81
_SHORT, _LONG = 126, 127


def text_frame(text: bytes) -> bytes:
    """A text message; C{text} is UTF-8."""
    size = len(text)
    if size < _SHORT:
        head = struct.pack("!BB", _FINAL_TEXT, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FINAL_TEXT, _SHORT, size)
    else:
        head = struct.pack("!BBQ", _FINAL_TEXT, _LONG, size)
    return head + text


def event_frame(tag: str, document: bytes) -> bytes:
    """An event in stock's words, by JSON of all of it."""
    return text_frame(b"data: %b\n\n" % document)


def document_frame(tag: str, document: bytes) -> bytes:
    """JSON alone, for C{?format_events}."""
    return text_frame(document)
