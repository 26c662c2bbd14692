"""
Salt's serialisation: plain values to msgpack bytes and back.

Salt speaks two dialects. On the network it is the old specification: text and
bytes are the same C{raw} type, and the receiver guesses: what is valid UTF-8
becomes text, anything else stays bytes (L{pack}, L{unpack}; L{unpack_raw} for
the few places that must not guess). On event buses, in cache files and on
local sockets text and bytes are told apart (L{pack_bin}, L{unpack_bin}).
Framing of streams is in L{saltwisted.wire.frames}.

Every decoder here raises L{WireError} and nothing else, whatever the bytes
are, and needs memory and time in proportion to their number: a header that
announces more elements than there are bytes is refused before anything is
allocated for it.
"""

from __future__ import annotations

import datetime
import threading
from _thread import allocate_lock
from codecs import register_error
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from msgpack import ExtType, Packer, Unpacker, packb, unpackb
from msgpack.exceptions import UnpackException

from saltwisted.errors import WireError

__all__ = ["Constant", "guess", "pack", "pack_bin", "unpack", "unpack_bin", "unpack_raw"]

EXT_DATETIME = 78
EXT_CONSTANT = 79
STAMP = "%Y%m%dT%H:%M:%S.%f"

MAX_DEPTH = 256
"""Containers within containers; Salt's own data stays below twenty."""

PLAIN_ELEMENTS = 4096
"""Announced sizes up to here are believed; above, the whole message is walked first."""

SMALL = 600
"""Below this many bytes guessing in Python is as fast as the detour around it."""

LARGE = 64 * 1024
"""Bytes from which on it is worth while not to look at all of them at once."""

FEW = 1000
"""Elements of a large message that are looked at before all its bytes are."""

_NOT_A_HEADER = bytes(b for b in range(256) if not (0x80 <= b <= 0x9F or 0xDC <= b <= 0xDF))
WRONG = (
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
    BufferError,
    UnpackException,
)


@frozen
class Constant:
    """
    One of Salt's named constants, such as C{NOT_SET}.

    @ivar value: what stands for it where constants are unknown; usually C{None}.
    """

    name: str
    value: Any = None


# -- packing ---------------------------------------------------------------


def _encode_other(value: Any) -> Any:
    """What msgpack does not know, as Salt sends it."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return ExtType(EXT_DATETIME, value.strftime(STAMP).encode())
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Constant):
        pair = packb((value.name, value.value), use_bin_type=True)
        return ExtType(EXT_CONSTANT, pair)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot be sent: {type(value).__name__}")


def _packer(use_bin_type: bool) -> Packer:
    return Packer(
        default=_encode_other, use_bin_type=use_bin_type, unicode_errors="surrogateescape"
    )


# A Packer owns a buffer; making one per message costs as much as packing a
# short one. It is neither re-entrant nor thread-safe, hence the lock, which is
# never waited for.
_old, _old_lock = _packer(False), allocate_lock()
_new, _new_lock = _packer(True), allocate_lock()


def _pack(packer: Packer, lock: Any, use_bin_type: bool, value: Any) -> bytes:
    if not lock.acquire(False):
        packer = _packer(use_bin_type)
        lock = None
    try:
        data: bytes = packer.pack(value)
        return data
    except (ValueError, OverflowError, RecursionError) as error:
        raise TypeError(f"cannot be sent: {error}") from error
    finally:
        if lock is not None:
            lock.release()


def pack(value: Any) -> bytes:
    """
    Serialise for the network (no bin types, as every Salt since 2011 reads it).

    Sets become lists, integers of 2^64 and more decimal text. Text that came
    from bytes by C{surrogateescape} goes out as those bytes.

    @raises TypeError: the value is not plain data, or nested too deeply.
    """
    return _pack(_old, _old_lock, False, value)


def pack_bin(value: Any) -> bytes:
    """
    Serialise with text and bytes told apart: events, cache files, local sockets.

    @raises TypeError: the value is not plain data, or nested too deeply.
    """
    return _pack(_new, _new_lock, True, value)


# -- unpacking -------------------------------------------------------------


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _ext_raw(code: int, data: bytes) -> Any:
    if code == EXT_DATETIME:
        return datetime.datetime.strptime(data.decode(), STAMP)  # noqa: DTZ007 - naive on the wire
    if code == EXT_CONSTANT:
        name, value = unpackb(data, raw=False, strict_map_key=False)
        if not isinstance(name, str) or not isinstance(value, (str, bytes, int, float, type(None))):
            raise ValueError("constant")
        return Constant(name, value)
    return data


def _ext_guess(code: int, data: bytes) -> Any:
    value = _ext_raw(code, data)
    return _text_or_bytes(value) if value.__class__ is bytes else value


def _load(data: bytes, **options: Any) -> Any:
    """
    The library call, with sizes bounded.

    A container header allocates before its elements are read, so that a few
    nested headers could claim gigabytes. Announcements above
    L{PLAIN_ELEMENTS} are believed only after the message was skipped through
    once: then every announced element is really there.
    """
    size = len(data)
    if size <= PLAIN_ELEMENTS:
        return unpackb(data, strict_map_key=False, timestamp=3, **options)
    try:
        return unpackb(
            data,
            strict_map_key=False,
            timestamp=3,
            max_array_len=PLAIN_ELEMENTS,
            max_map_len=PLAIN_ELEMENTS,
            **options,
        )
    except ValueError as error:
        if "exceeds max" not in str(error):
            raise
    walker = Unpacker(max_buffer_size=size)
    walker.feed(data)
    walker.skip()
    return unpackb(data, strict_map_key=False, timestamp=3, **options)


def _check_depth(data: bytes, value: Any) -> None:
    """
    @raises WireError: nested too deeply.
    """
    size = len(data)
    if size <= LARGE:
        if size > MAX_DEPTH and len(data.translate(None, _NOT_A_HEADER)) > MAX_DEPTH:
            _measure(value)
    elif not _is_shallow(value) and _has_many_headers(data):
        _measure(value)


def _has_many_headers(data: bytes) -> bool:
    """Whether there are enough container headers in the bytes to nest too deeply."""
    found = 0
    for start in range(0, len(data), LARGE):
        found += len(data[start : start + LARGE].translate(None, _NOT_A_HEADER))
        if found > MAX_DEPTH:
            return True
    return False


def _is_shallow(value: Any) -> bool:
    """Whether a look at its first few elements shows all that there are, and nothing too deep."""
    level, room = [value], FEW
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            kind = one.__class__
            if kind is list or kind is dict:
                room -= len(one)
                if room < 0:
                    return False
                inside = one if kind is list else one.values()
                below += [x for x in inside if x.__class__ is list or x.__class__ is dict]
        if not below:
            return True
        level = below
    return False


def _measure(value: Any) -> None:
    """
    @raises WireError: nested too deeply.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            kind = one.__class__
            if kind is list:
                below += [x for x in one if x.__class__ is list or x.__class__ is dict]
            elif kind is dict:
                below += [x for x in one.values() if x.__class__ is list or x.__class__ is dict]
        if not below:
            return
        level = below
    raise WireError("depth")


def guess(value: Any) -> Any:
    """Bytes that are UTF-8 become text, at any depth, keys and values."""
    kind = value.__class__
    if kind is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if kind is dict:
        return {
            (_text_or_bytes(k) if k.__class__ is bytes else k): (
                _text_or_bytes(v)
                if (c := v.__class__) is bytes
                else guess(v)
                if c is dict or c is list
                else v
            )
            for k, v in value.items()
        }
    if kind is list:
        return [guess(v) for v in value]
    return value


def unpack_raw(data: bytes) -> Any:
    """
    Decode network bytes without the guess: all text and keys stay bytes.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    try:
        value = _load(data, raw=True, ext_hook=_ext_raw)
    except WRONG as error:
        raise WireError("msgpack") from error
    _check_depth(data, value)
    return value


def unpack_bin(data: bytes) -> Any:
    """
    Decode bytes made with L{pack_bin}: text is text, bytes are bytes.

    Raw that is not UTF-8 (old-dialect binary) is refused.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    try:
        value = _load(data, raw=False, ext_hook=_ext_raw)
    except WRONG as error:
        raise WireError("msgpack") from error
    _check_depth(data, value)
    return value


# Letting the library decode text is four times as fast as guessing in Python,
# but one binary field (every request carries the minion's token) would make it
# fail. So decoding errors go to a handler of ours, which notes the bytes and
# leaves a mark in their place: a lone surrogate, which valid UTF-8 cannot
# contain. Marks among the values of the outermost map are then replaced by the
# bytes; if one is anywhere else, we guess in Python after all.

_MARK = 0xDC80
_MARKS = 64


class _Noted(threading.local):
    found: list[bytes]

    def __init__(self) -> None:
        self.found = []


_noted = _Noted()


def _note(error: UnicodeError) -> tuple[str, int]:
    found = _noted.found
    if not isinstance(error, UnicodeDecodeError) or len(found) >= _MARKS:
        raise error
    found.append(error.object)
    return chr(_MARK + len(found) - 1), len(error.object)


register_error("saltwisted.note", _note)

_BIN = bytes((0xC4, 0xC5, 0xC6))
_NOT_BIN = bytes(b for b in range(256) if b not in _BIN)


def _fast(data: bytes) -> Any:
    """
    @raises LookupError: this message needs the slow way.
    """
    found = _noted.found
    found.clear()
    value = _load(data, raw=False, unicode_errors="saltwisted.note", ext_hook=_ext_guess)
    rest = data
    if found:
        if value.__class__ is not dict:
            raise LookupError
        missing = len(found)
        for key, text in value.items():
            if text.__class__ is str and text and 0 <= (n := ord(text[-1]) - _MARK) < _MARKS:
                # The handler saw the whole string; a mark is its last character.
                value[key] = binary = found[n]
                rest = rest.replace(binary, b"", 1)
                missing -= 1
        if missing:
            raise LookupError
    if (b"\xc4" in rest or b"\xc5" in rest or b"\xc6" in rest) and _has_bytes(value, len(found)):
        # A peer that uses bin types: those have to be guessed too.
        raise LookupError
    return value


def _has_bytes(value: Any, known: int) -> bool:
    """Whether there are bytes in it, other than so many among the values of the outermost map."""
    waiting: list[Any] = [(value,)]
    if known:
        inside = value.values()
        if sum(1 for each in inside if each.__class__ is bytes) != known:
            return True
        waiting = [value, [each for each in inside if each.__class__ is not bytes]]
    while waiting:
        for each in waiting.pop():
            kind = each.__class__
            if kind is dict:
                waiting.append(each)
                waiting.append(each.values())
            elif kind is list:
                waiting.append(each)
            elif kind is bytes:
                return True
    return False


def unpack(data: bytes) -> Any:
    """
    Decode network bytes as Salt does: raw that is valid UTF-8 becomes text,
    keys included; other raw stays bytes.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    try:
        if len(data) > SMALL:
            try:
                value = _fast(data)
                _check_depth(data, value)
                return value
            except (LookupError, UnicodeDecodeError):
                pass
            finally:
                _noted.found.clear()
        value = _load(data, raw=True, ext_hook=_ext_guess)
        _check_depth(data, value)
        return guess(value)
    except WRONG as error:
        raise WireError("msgpack") from error
