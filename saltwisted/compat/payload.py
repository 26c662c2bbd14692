"""
C{salt.payload}: values as bytes and back, as Salt packs them.
"""

from __future__ import annotations

from typing import IO, Any

from saltwisted.compat import exceptions
from saltwisted.errors import WireError
from saltwisted.wire import msgpack


def dumps(msg: Any, use_bin_type: bool = False) -> bytes:
    """A value as bytes. A set becomes a list, a number that is too long a text."""
    return msgpack.pack_bin(msg) if use_bin_type else msgpack.pack(msg)


def loads(msg: bytes, encoding: str | None = None, raw: bool = False) -> Any:
    """
    Bytes as a value.

    @raises SaltDeserializationError: they are none.
    """
    try:
        if encoding is None:
            return msgpack.unpack_raw(msg) if raw else msgpack.unpack(msg)
        try:
            return msgpack.unpack_bin(msg)
        except WireError:
            return msgpack.unpack(msg)
    except WireError as error:
        kind: Any = vars(exceptions)["SaltDeserializationError"]
        raise kind("Could not deserialize msgpack message. See log for more info.") from error


def dump(msg: Any, fn_: IO[bytes]) -> None:
    """Write a value into an open file, and close it."""
    fn_.write(dumps(msg, use_bin_type=True))
    fn_.close()


def load(fn_: IO[bytes]) -> Any:
    """Read a value from an open file, and close it."""
    data = fn_.read()
    fn_.close()
    return loads(data, encoding="utf-8") if data else None
