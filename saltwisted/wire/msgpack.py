"""
Salt's serialisation: plain values to msgpack bytes and back.

Salt speaks two dialects. On the network it is the old specification: text and
bytes are the same C{raw} type, and the receiver guesses: what is valid UTF-8
becomes text, anything else stays bytes (L{pack}, L{unpack}; L{unpack_raw} for
the few places that must not guess). On event buses, in cache files and on
local sockets text and bytes are told apart (L{pack_bin}, L{unpack_bin}).
Framing of streams is in L{saltwisted.wire.frames}.

Every decoder here raises L{WireError} and nothing else, whatever the bytes
are, and needs memory and time in proportion to their number
(L{saltwisted.wire.decoding}). Each has a second form (C{unpacking} and its
kin) that goes in steps of a few milliseconds at most: for long messages, in a
thread or in turns of the reactor.
"""

from __future__ import annotations

import datetime
import re
import threading
from _thread import allocate_lock
from codecs import register_error
from collections.abc import Generator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from attrs import frozen
from msgpack import ExtType, Packer, packb, unpackb
from msgpack.exceptions import UnpackException

from saltwisted.errors import WireError
from saltwisted.wire.decoding import ACCEPTED, QUICK, Bounds, Steps, at_once, load, loading
from saltwisted.wire.text import ESCAPE

__all__ = [
    "Constant",
    "guess",
    "guessing",
    "pack",
    "pack_bin",
    "unpack",
    "unpack_bin",
    "unpack_raw",
    "unpacking",
    "unpacking_bin",
    "unpacking_raw",
]

EXT_DATETIME = 78
EXT_CONSTANT = 79
STAMP = "%Y%m%dT%H:%M:%S.%f"

MAX_DEPTH = 256
"""Containers within containers; Salt's own data stays below twenty."""

SMALL = 600
"""Below this many bytes guessing in Python is as fast as the detour around it."""

LARGE = 64 * 1024
"""Bytes from which on copies are worth avoiding."""

LONG = 256 * 1024
"""Bytes from which on it is worth while to look at a few elements before all bytes."""

FEW = 1000
"""Elements of a long message that are looked at before all its bytes are."""

LONGEST_CONSTANT = 1024
"""Bytes; Salt's own have some twenty."""

SOME = 256
"""Containers that are looked at between two turns of others, if they are short."""

RUN = 2000
"""Elements that are looked at, or changed, between two turns of others."""

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


def text_errors(use_bin_type: bool) -> str:
    """
    What becomes of text that UTF-8 cannot carry, as an error handler of Python's codecs: on the
    network the bytes that it came from, and elsewhere, where those could not be read, other text.
    """
    return ESCAPE if use_bin_type else "surrogateescape"


def _packer(use_bin_type: bool) -> Packer:
    return Packer(
        default=_encode_other,
        use_bin_type=use_bin_type,
        unicode_errors=text_errors(use_bin_type),
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

    @raises TypeError: the value is not plain data, is nested too deeply, or
        has a half of a character that came from no byte.
    """
    return _pack(_old, _old_lock, False, value)


def pack_bin(value: Any) -> bytes:
    """
    Serialise with text and bytes told apart: events, cache files, local sockets.

    Halves of characters are written with a backslash (T-TEXT-1): what is packed
    can be unpacked, whatever the text, and one text spoils no others.

    @raises TypeError: the value is not plain data, or nested too deeply.
    """
    return _pack(_new, _new_lock, True, value)


# -- unpacking -------------------------------------------------------------


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


_TIME = re.compile(
    rb"(\d{4})(1[0-2]|0[1-9]|[1-9])(3[01]|[12]\d|0[1-9]|[1-9])"
    rb"T(2[0-3]|[01]\d|\d):([0-5]\d|\d):([0-5]\d|\d)\.(\d{1,6})"
)
"""What C{strptime} reads by L{STAMP}, which takes four times as long."""


def _ext_raw(code: int, data: bytes) -> Any:
    if code == EXT_DATETIME:
        found = _TIME.fullmatch(data)
        if found is None:
            raise ValueError("time")
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        fraction = int(found[7].ljust(6, b"0"))
        return datetime.datetime(  # noqa: DTZ001 - naive on the wire
            year, month, day, hour, minute, second, fraction
        )
    if code == EXT_CONSTANT:
        if len(data) > LONGEST_CONSTANT:
            raise ValueError("constant")
        name, value = unpackb(data, raw=False, strict_map_key=False)
        if not isinstance(name, str) or not isinstance(value, (str, bytes, int, float, type(None))):
            raise ValueError("constant")
        return Constant(name, value)
    return data


def _ext_guess(code: int, data: bytes) -> Any:
    value = _ext_raw(code, data)
    return _text_or_bytes(value) if value.__class__ is bytes else value


# How deep a message is: a list of containers after the other, level by level.


def _check_depth(data: bytes, value: Any) -> None:
    """
    @raises WireError: nested too deeply.
    """
    if len(data) > MAX_DEPTH and len(data.translate(None, _NOT_A_HEADER)) > MAX_DEPTH:
        at_once(_measuring(value))


def _checking_depth(data: bytes, value: Any) -> Steps:
    """
    The steps that L{_check_depth} takes for a long message.

    @raises WireError: nested too deeply.
    """
    if len(data) > LONG and _is_shallow(value):
        return
    if (yield from _has_many_headers(data)):
        yield from _measuring(value)


def _has_many_headers(data: bytes) -> Generator[None, None, bool]:
    """Whether there are enough container headers in the bytes to nest too deeply."""
    found = 0
    for start in range(0, len(data), QUICK):
        found += len(data[start : start + QUICK].translate(None, _NOT_A_HEADER))
        if found > MAX_DEPTH:
            return True
        yield
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


def _measuring(value: Any) -> Steps:
    """
    @raises WireError: nested too deeply.
    """
    level: list[Any] = [value] if value.__class__ is list or value.__class__ is dict else []
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for start in range(0, len(level), SOME):
            some = level[start : start + SOME]
            if sum(map(len, some)) <= 2 * RUN:
                below += [
                    x
                    for one in some
                    for x in (one if one.__class__ is list else one.values())
                    if x.__class__ is dict or x.__class__ is list
                ]
                yield
                continue
            for one in some:
                inside = iter(one if one.__class__ is list else one.values())
                while run := [*islice(inside, RUN)]:
                    below += [x for x in run if x.__class__ is dict or x.__class__ is list]
                    yield
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


def guessing(value: Any) -> Steps:
    """The steps that do what L{guess} does; containers that are lists are changed in place."""
    whole = [value]
    ahead: list[Any] = [whole]
    room = RUN

    def guessed(value: Any) -> Any:
        kind = value.__class__
        if kind is bytes:
            return _text_or_bytes(value)
        if kind is list:
            ahead.append(value)
        elif kind is dict:
            made: dict[Any, Any] = {}
            ahead.append((value, made))
            return made
        return value

    while ahead:
        one = ahead.pop()
        if one.__class__ is list:
            for at in range(0, len(one), RUN):
                one[at : at + RUN] = run = [guessed(each) for each in one[at : at + RUN]]
                room -= len(run)
                if room < 0:
                    room = RUN
                    yield
        else:
            old, made = one
            pairs = iter(old.items())
            while some := [*islice(pairs, RUN)]:
                for key, each in some:
                    made[_text_or_bytes(key) if key.__class__ is bytes else key] = guessed(each)
                room -= len(some)
                if room < 0:
                    room = RUN
                    yield
        room -= 1
    return whole[0]


_RAW: dict[str, Any] = {"raw": True, "ext_hook": _ext_raw}
_BIN_TYPES: dict[str, Any] = {"raw": False, "ext_hook": _ext_raw}
_TO_GUESS: dict[str, Any] = {"raw": True, "ext_hook": _ext_guess}


def unpack_raw(data: bytes) -> Any:
    """
    Decode network bytes without the guess: all text and keys stay bytes.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    if len(data) > QUICK:
        return at_once(unpacking_raw(data))
    try:
        value = load(data, **_RAW)
    except WRONG as error:
        raise WireError("msgpack") from error
    _check_depth(data, value)
    return value


def unpacking_raw(data: bytes, bounds: Bounds = ACCEPTED) -> Steps:
    """
    The steps of L{unpack_raw}; what they return is what it returns.

    @raises WireError: not exactly one msgpack value, too deep, or beyond the bounds.
    """
    return (yield from _in_steps(data, bounds, _RAW))


def unpack_bin(data: bytes) -> Any:
    """
    Decode bytes made with L{pack_bin}: text is text, bytes are bytes.

    Raw that is not UTF-8 (old-dialect binary) is refused.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    if len(data) > QUICK:
        return at_once(unpacking_bin(data))
    try:
        value = load(data, **_BIN_TYPES)
    except WRONG as error:
        raise WireError("msgpack") from error
    _check_depth(data, value)
    return value


def unpacking_bin(data: bytes, bounds: Bounds = ACCEPTED) -> Steps:
    """
    The steps of L{unpack_bin}; what they return is what it returns.

    @raises WireError: not exactly one msgpack value, too deep, or beyond the bounds.
    """
    return (yield from _in_steps(data, bounds, _BIN_TYPES))


def _in_steps(data: bytes, bounds: Bounds, options: dict[str, Any]) -> Steps:
    try:
        value = yield from loading(data, bounds, **options)
    except WRONG as error:
        raise WireError("msgpack") from error
    yield from _checking_depth(data, value)
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


def _noting(found: list[bytes]) -> None:
    _noted.found = found


register_error("saltwisted.note", _note)

_FAST: dict[str, Any] = {
    "raw": False,
    "unicode_errors": "saltwisted.note",
    "ext_hook": _ext_guess,
}


def _put_back(value: Any, found: list[bytes]) -> None:
    """
    Replace the marks in the outermost map by the bytes that they stand for.

    @raises LookupError: there are marks elsewhere.
    """
    if not found:
        return
    if value.__class__ is not dict:
        raise LookupError
    missing = len(found)
    for key, text in value.items():
        if text.__class__ is str and text and 0 <= (n := ord(text[-1]) - _MARK) < _MARKS:
            # The handler saw the whole string; a mark is its last character.
            value[key] = found[n]
            missing -= 1
    if missing:
        raise LookupError


_BIN = (b"\xc4", b"\xc5", b"\xc6")


def _may_have_bytes(data: bytes, found: list[bytes]) -> bool:
    """Whether headers of binary may be among the bytes, outside of the strings that were noted."""
    for noted in found:
        data = data.replace(noted, b"", 1)
    return any(head in data for head in _BIN)


def _may_have_many_bytes(
    data: bytes, value: Any, found: list[bytes]
) -> Generator[None, None, bool]:
    """The steps of L{_may_have_bytes} for a long message, of which no copies are made."""
    if len(data) <= LONG:
        return _may_have_bytes(data, found)
    if _is_shallow(value):
        return True
    for head in _BIN:
        count = -sum(noted.count(head) for noted in found)
        for start in range(0, len(data), LONG):
            count += data.count(head, start, start + LONG)
            yield
        if count > 0:
            return True
    return False


def _fast(data: bytes) -> Any:
    """
    @raises LookupError: this message needs the slow way.
    """
    found: list[bytes] = []
    _noting(found)
    value = load(data, **_FAST)
    _put_back(value, found)
    if _may_have_bytes(data, found) and at_once(_has_bytes(value, len(found))):
        # A peer that uses bin types: those have to be guessed too.
        raise LookupError
    return value


def _fast_steps(data: bytes, bounds: Bounds) -> Steps:
    """
    The steps of L{_fast}.

    @raises LookupError: this message needs the slow way.
    """
    found: list[bytes] = []
    # Others may unpack in this thread between two steps
    value = yield from loading(data, bounds, partial(_noting, found), **_FAST)
    _put_back(value, found)
    may = yield from _may_have_many_bytes(data, value, found)
    if may and (yield from _has_bytes(value, len(found))):
        raise LookupError
    return value


def _has_bytes(value: Any, known: int) -> Generator[None, None, bool]:
    """Whether there are bytes in it, other than so many among the values of the outermost map."""
    waiting: list[Any] = [(value,)]
    if known:
        inside = value.values()
        if sum(1 for each in inside if each.__class__ is bytes) != known:
            return True
        waiting = [value, [each for each in inside if each.__class__ is not bytes]]
    room = RUN
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
            room -= 1
            if room < 0:
                room = RUN
                yield
    return False


def unpack(data: bytes) -> Any:
    """
    Decode network bytes as Salt does: raw that is valid UTF-8 becomes text,
    keys included; other raw stays bytes.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    size = len(data)
    if size > QUICK:
        return at_once(unpacking(data))
    try:
        if size > SMALL:
            try:
                value = _fast(data)
                _check_depth(data, value)
                return value
            except (LookupError, UnicodeDecodeError):
                pass
            finally:
                _noted.found = []
        value = load(data, **_TO_GUESS)
        _check_depth(data, value)
        return guess(value)
    except WRONG as error:
        raise WireError("msgpack") from error


def unpacking(data: bytes, bounds: Bounds = ACCEPTED) -> Steps:
    """
    The steps of L{unpack}; what they return is what it returns.

    @raises WireError: not exactly one msgpack value, too deep, or beyond the bounds.
    """
    try:
        try:
            value = yield from _fast_steps(data, bounds)
            yield from _checking_depth(data, value)
            return value
        except (LookupError, UnicodeDecodeError):
            pass
        value = yield from loading(data, bounds, **_TO_GUESS)
        yield from _checking_depth(data, value)
        return (yield from guessing(value))
    except WRONG as error:
        raise WireError("msgpack") from error
