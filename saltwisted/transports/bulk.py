"""
TLS for connections that carry much data: whole writes and whole reads instead of single records.

Twisted hands over each record of 16 KiB separately, with a dozen calls for each. Most of these let
another thread have the interpreter, and have to get it back: during a first sync that took half of
the reactor's time. Nothing here changes the bytes on the wire. If a version of Twisted or pyOpenSSL
lacks something that is needed, the connection stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from OpenSSL import SSL
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

BUFFER = 512 * 1024
"""Bytes that a connection for bulk reads at once; with more in its queue its producer waits."""
RECORD = 16 * 1024
"""Bytes that TLS encrypts together, at most."""
WHOLE = 1024 * 1024
"""Encrypted bytes that go to the socket as one: of what is in pieces, it makes one, once more."""
_lib: Any = getattr(SSL, "_lib", None)
_ffi: Any = getattr(SSL, "_ffi", None)
_PARTIAL_WRITE = 1
"""C{SSL_MODE_ENABLE_PARTIAL_WRITE}, which pyOpenSSL sets and does not name."""

_CIPHERS = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"


def write_wholly(context: SSL.Context) -> None:
    """Let one call encrypt all records of a write, where pyOpenSSL can (26, not Debian 12's 23)."""
    clear: Callable[[int], int] | None = getattr(context, "clear_mode", None)
    if clear is not None:
        clear(_PARTIAL_WRITE)


def prefer_short_keys(context: SSL.Context) -> None:
    """
    Prefer AES with 128 bits, if pyOpenSSL supports that: it takes a quarter less work, and is no
    easier to break.
    """
    choose: Callable[[bytes], None] | None = getattr(context, "set_tls13_ciphersuites", None)
    if choose is not None:
        choose(_CIPHERS)


def widen(transport: Any) -> None:
    """
    Let a connection for bulk take and give more at a time than the 64 KiB of most: fewer turns of
    the reactor for the same bytes. Whatever this transport has no room for stays as it is.
    """
    socket = getattr(transport, "transport", None) or transport
    for name, size in (("bufferSize", BUFFER), ("SEND_LIMIT", 4 * BUFFER)):
        if isinstance(getattr(socket, name, None), int):
            setattr(socket, name, size)
    if isinstance(transport, TLSMemoryBIOProtocol) and all(hasattr(transport, n) for n in _USED):
        connection = transport.getHandle()
        if connection is None or not hasattr(connection, "_raise_ssl_error"):
            return
        _write_together(transport)
        if hasattr(connection, "_ssl") and hasattr(_lib, "SSL_read"):
            _read_together(transport)
        _ask_for_errors_only(connection)


_USED = (
    "_aborted",
    "_appSendBuffer",
    "_bufferedWrite",
    "_flushReceiveBIO",
    "_flushSendBIO",
    "_lostTLSConnection",
    "_tlsShutdownFinished",
    "_write",
)


def _write_together(tls: Any) -> None:
    """
    What is written at once is encrypted, and then given to the socket, at once.

    What is written as a sequence, too, without being made one before.
    """
    write, write_sequence = tls._write, tls.writeSequence

    def encrypt(data: bytes) -> bool:
        """False if the connection is lost. What has to wait for the other side is kept for it."""
        connection = tls.getHandle()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[connection.send(rest) :]
        except SSL.WantReadError:
            tls._bufferedWrite(bytes(rest))
        except SSL.Error:
            tls._tlsShutdownFinished(Failure())
            return False
        return True

    def give() -> None:
        connection = tls.getHandle()
        with suppress(SSL.WantReadError):
            more = True
            while more:
                encrypted = connection.bio_read(WHOLE)
                tls.transport.write(encrypted)
                more = len(encrypted) == WHOLE

    def write_whole(data: bytes) -> None:
        if tls._appSendBuffer:
            # Nothing overtakes what waits
            tls._bufferedWrite(data)
        elif len(data) <= RECORD or tls.getHandle() is None or tls._lostTLSConnection:
            write(data)
        elif encrypt(data):
            give()

    def write_parts(parts: Iterable[bytes]) -> None:
        parts = list(parts)
        lost = tls.getHandle() is None or tls._lostTLSConnection or tls.disconnecting
        if lost or sum(map(len, parts)) <= RECORD:
            write_sequence(parts)
            return
        aggregator = getattr(tls, "_aggregator", None)
        if aggregator is not None:
            aggregator.flush()
        for part in parts:
            if tls._appSendBuffer:
                tls._bufferedWrite(part)
            elif not encrypt(part):
                return
        give()

    tls._write = write_whole
    tls.writeSequence = write_parts


def _read_together(tls: Any) -> None:
    """What the socket gave at once comes to the protocol at once."""
    flush = tls._flushReceiveBIO

    def read_whole() -> None:
        connection = tls.getHandle()
        if connection is None or tls._lostTLSConnection:
            flush()
            return
        try:
            data, ended = _reader(connection), False
        except SSL.Error:
            # A goodbye, or a failure: it is met again, by Twisted
            data, ended = _reader.taken(), True
        if data and not tls._aborted:
            tls.wrappedProtocol.dataReceived(data)
        if ended:
            flush()
        elif not data:
            # Only where TLS speaks for itself it may have to answer; with the next write is enough
            tls._flushSendBIO()

    tls._flushReceiveBIO = read_whole


class _Reader:
    """
    Reads all records that are there; one behind the other, without an object for each.

    One for all connections, since the reactor reads one after the other.
    """

    def __init__(self) -> None:
        self._room: Any = None
        self._size = 0
        self._at = 0

    def __call__(self, connection: SSL.Connection) -> bytes:
        """@raises SSL.Error: the connection has ended; L{taken} is what came before."""
        # Whatever went wrong before: what came for one connection is never another's
        self._at = 0
        ssl = connection._ssl
        while True:
            if self._size - self._at < RECORD:
                self._grow()
            count = _lib.SSL_read(ssl, self._room + self._at, RECORD)
            if count > 0:
                self._at += count
                continue
            try:
                connection._raise_ssl_error(ssl, count)
            except SSL.WantReadError:
                return self.taken()

    def _grow(self) -> None:
        size = 2 * (self._size or BUFFER)
        room = _ffi.new("char[]", size)
        if self._at:
            _ffi.memmove(room, self._room, self._at)
        self._room, self._size = room, size

    def taken(self) -> bytes:
        """What was read."""
        data: bytes = _ffi.buffer(self._room, self._at)[:] if self._at else b""
        self._at = 0
        return data


_reader = _Reader()


def _ask_for_errors_only(connection: SSL.Connection) -> None:
    """
    What has gone well is not asked for its error: C{SSL_get_error} says "none" if, and only if, the
    result is positive, and asking lets other threads have the interpreter.
    """
    ask = connection._raise_ssl_error

    def errors_only(ssl: Any, result: int) -> None:
        if result <= 0:
            ask(ssl, result)

    connection._raise_ssl_error = errors_only  # type: ignore[method-assign]
