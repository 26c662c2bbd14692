"""
The library that unpacks msgpack, fed in pieces and kept within bounds.

A message comes from somebody who may mean harm, and three things about it cost more than its bytes
suggest. One call of the library holds the interpreter's lock until its end, so a long message is
fed in pieces (L{loading}), and others may have their turn between any two. An empty container is
one byte in the message and seventy in memory, so containers are counted (L{Bounds}). And whoever
chooses the keys of a map can choose them so that a dictionary finds each only after a long search:
for text and bytes Python's hashes are secret, but numbers and times have known ones. A few such
keys do no harm; a map of many is built only if they are found quickly, else its keys become text.

What the values mean (text or bytes, Salt's extensions) is decided in L{saltwisted.wire.msgpack}.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from attrs import frozen
from msgpack import OutOfData, Unpacker, unpackb
from msgpack.exceptions import UnpackException

from saltwisted.errors import WireError

__all__ = [
    "ACCEPTED",
    "PIECE",
    "QUICK",
    "STRANGER",
    "Bounds",
    "at_once",
    "counting",
    "load",
    "loading",
]

QUICK = 16 * 1024
"""Bytes of a message that is unpacked in one call: it takes three milliseconds at the worst."""

PIECE = 8 * 1024
"""Bytes that are unpacked between two turns of others; a single text may be longer."""

SLICE = 64 * 1024
"""Bytes that are looked at, and not unpacked, between two turns."""

PLAIN_ELEMENTS = 4096
"""Announced lengths up to here are believed; above, the whole message is walked first."""

KEYS = 512
"""Keys of a map that nobody looks at: the worst that they can cost is what empty maps cost."""

MOST_ODD = 65_536
"""Keys of a map that are neither text nor bytes; where there are more, all of them become text."""

MOST_ENTRIES = 1_000_000
"""Entries of a map in a message in which some large map has such keys."""

PROBES = 32
"""Places that a dictionary may look at for each key, on average: of ordinary keys two, of multiples
of a large power of two a dozen."""

_OPTIONS = {"timestamp": 3}
_NO_CONTAINER = bytes(b for b in range(256) if not (0x80 <= b <= 0x9F or 0xDC <= b <= 0xDF))


@frozen
class Bounds:
    """
    What a message may have, beside its bytes.

    @ivar containers: arrays and maps, empty ones too.
    @ivar many_keys: whether a map may have more than L{KEYS} keys some of which are neither text
        nor bytes.
    """

    containers: int
    many_keys: bool


STRANGER = Bounds(containers=16_384, many_keys=False)
"""Of whoever has proved nothing: some ten megabytes, together with 256 KiB of other values."""

ACCEPTED = Bounds(containers=2_000_000, many_keys=True)
"""Of accepted minions, members and local users: some two hundred megabytes, and hardly ever met."""

Steps = Generator[None, None, Any]


def at_once(steps: Steps) -> Any:
    """What steps return; for a thread, which others may interrupt between any two of them."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def load(data: bytes, bounds: Bounds = ACCEPTED, **options: Any) -> Any:
    """
    Unpack a message in one go.

    @param options: C{raw}, C{unicode_errors} and C{ext_hook} of the library.
    @raises Exception: what the library, or C{ext_hook}, raises; L{WireError} or C{ValueError}
        beyond the bounds.
    """
    if len(data) > QUICK:
        return at_once(loading(data, bounds, **options))
    try:
        return unpackb(
            data,
            strict_map_key=False,
            max_array_len=PLAIN_ELEMENTS,
            max_map_len=KEYS,
            **_OPTIONS,
            **options,
        )
    except ValueError as error:
        if "exceeds max" not in str(error):
            raise
    return at_once(loading(data, bounds, **options))


def loading(
    data: bytes,
    bounds: Bounds = ACCEPTED,
    entered: Callable[[], object] = lambda: None,
    **options: Any,
) -> Steps:
    """
    The steps that unpack a message; what they return is what L{load} returns.

    @param entered: called at the beginning of each step that unpacks.
    @raises WireError: it has more containers than the bounds allow.
    """
    yield from counting(data, bounds.containers)
    arrays = PLAIN_ELEMENTS
    # Maps of text alone need no care, so that is tried first; then maps of a few other keys
    ways: list[dict[str, Any]] = [
        {"strict_map_key": True, "max_map_len": len(data)},
        {"strict_map_key": False, "max_map_len": KEYS},
    ]
    if bounds.many_keys:
        looked_at = {"max_map_len": MOST_ENTRIES, "object_pairs_hook": careful}
        ways.append({"strict_map_key": False, **looked_at})
    while True:
        limits = {"max_array_len": arrays, "max_buffer_size": max(len(data), QUICK), **ways[0]}
        unpacker = Unpacker(read_size=QUICK, **limits, **_OPTIONS, **options)
        try:
            return (yield from _fed(unpacker, data, entered))
        except ValueError as error:
            text = str(error)
            if "max_array_len" in text and arrays == PLAIN_ELEMENTS:
                yield from walking(data)
                arrays = len(data)
            elif len(ways) > 1 and ("strict_map_key" in text or "max_map_len" in text):
                del ways[0]
            else:
                raise


def _fed(unpacker: Any, data: bytes, entered: Callable[[], object]) -> Steps:
    """
    Feed a message to the library, which goes on where it was when the last piece ended.

    @raises ValueError: it ends too early, or too late.
    """
    view = memoryview(data)
    for at in range(0, len(data), PIECE):
        unpacker.feed(view[at : at + PIECE])
        entered()
        try:
            value = unpacker.unpack()
        except OutOfData:
            yield
            continue
        if unpacker.tell() != len(data):
            raise ValueError("extra data")
        yield
        return value
    raise ValueError("incomplete")


def walking(data: bytes) -> Steps:
    """
    Skip a message, without making anything of it: all that it announces is really there.

    A header allocates before its elements are read, so that a few that are nested could claim
    gigabytes; here nothing is allocated.

    @raises ValueError: it ends too early, or too late.
    """
    skip = Skipping(memoryview(data), 0)
    yield from skip.one()
    if skip.passed != len(data):
        raise ValueError("extra data")


class Skipping:
    """
    Skips values that follow one another in a message.

    @ivar passed: bytes that were skipped.
    """

    def __init__(self, view: memoryview, start: int) -> None:
        self._view = view
        self._fed = start
        self._unpacker = Unpacker(read_size=QUICK, max_buffer_size=max(len(view), QUICK))

    @property
    def passed(self) -> int:
        passed: int = self._unpacker.tell()
        return passed

    def one(self) -> Steps:
        """
        The steps that skip the next value.

        @raises ValueError: it is not whole.
        """
        while True:
            try:
                self._unpacker.skip()
                return
            except OutOfData:
                if self._fed >= len(self._view):
                    raise ValueError("incomplete") from None
                self._unpacker.feed(self._view[self._fed : self._fed + PIECE])
                self._fed += PIECE
                yield


def head_of(data: bytes | memoryview, at: int) -> tuple[bool, int, int] | None:
    """
    What begins at a place of a message.

    @return: whether it is a map, how many elements it has, and where the first one begins; C{None}
        if it is no container.
    """
    first = data[at]
    if 0x80 <= first <= 0x9F:
        return first < 0x90, first & 0x0F, at + 1
    if not 0xDC <= first <= 0xDF:
        return None
    after = at + (5 if first & 1 else 3)
    return first >= 0xDE, int.from_bytes(data[at + 1 : after], "big"), after


def counting(data: bytes, most: int) -> Steps:
    """
    The steps that judge how many lists and maps a message has, without building it. Most messages
    have few bytes that could begin one, and are not looked at further.

    What is no msgpack is not judged: whoever unpacks it comes to the same end.

    @raises WireError: there are more than C{most}.
    """
    if not (yield from _may_have_more(data, most)):
        return
    try:
        # All that it announces is there: then lengths may be believed
        yield from walking(data)
        try:
            yield from _counted(data, most, strict_map_key=True, object_hook=_Count)
        except ValueError as error:
            if "strict_map_key" not in str(error):
                raise
            limits = {"strict_map_key": False, "max_map_len": MOST_ENTRIES}
            yield from _counted(data, most, object_pairs_hook=_Count, **limits)
    except _TooMany:
        raise WireError("containers") from None
    except (ValueError, TypeError, OverflowError, MemoryError, BufferError, UnpackException):
        return


class _TooMany(Exception):
    """More containers than there may be."""


def _counted(data: bytes, most: int, **options: Any) -> Steps:
    """
    Unpack a message whose containers are let go as soon as they are whole.

    @param options: a hook for maps among them, whose value is replaced.
    @raises _TooMany: there are more containers than C{most}.
    """
    left = most

    def one_more(value: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooMany

    hooks = {name: one_more if hook is _Count else hook for name, hook in options.items()}
    unpacker = Unpacker(
        read_size=QUICK,
        max_buffer_size=max(len(data), QUICK),
        raw=True,
        list_hook=one_more,
        ext_hook=_nothing,
        **hooks,
    )
    yield from _fed(unpacker, data, lambda: None)


_Count = object()
"""Stands for the hook that counts."""


def _nothing(code: int, data: bytes) -> None:
    """What an extension means is of no interest here."""


def _may_have_more(data: bytes, containers: int) -> Generator[None, None, bool]:
    """Whether there are more bytes that may begin a container, texts included, than allowed."""
    found = 0
    if len(data) <= containers:
        return False
    for start in range(0, len(data), SLICE):
        found += len(data[start : start + SLICE].translate(None, _NO_CONTAINER))
        if found > containers:
            return True
        yield
    return False


def careful(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """
    A map of these entries; where its keys would be found only after long searches, or are times,
    those that are neither text nor bytes become text.
    """
    if len(pairs) <= KEYS:
        return dict(pairs)
    odd = [key for key, _ in pairs if key.__class__ is not str and key.__class__ is not bytes]
    if len(odd) <= KEYS:
        return dict(pairs)
    # Times are slow to hash, and nobody has so many of them as keys
    numbers = len(odd) <= MOST_ODD and all(key.__class__ in _NUMBERS for key in odd)
    if numbers and not is_crowded([hash(key) for key, _ in pairs]):
        return dict(pairs)
    return {
        key if key.__class__ is str or key.__class__ is bytes else str(key): value
        for key, value in pairs
    }


_NUMBERS = frozenset((int, float, bool, type(None)))


def is_crowded(hashes: Sequence[int]) -> bool:
    """
    Whether a dictionary that is filled with keys of these hashes looks at too many places.

    The search is CPython's (C{Objects/dictobject.c}): a table of a power of two, two thirds full
    before it doubles, and places that follow from all bits of the hash. It is played for each size
    that the table has on its way; equal hashes count as if their keys were different.
    """
    size = 2 * KEYS
    while True:
        mask, taken = size - 1, bytearray(size)
        count = min(len(hashes), size * 2 // 3)
        left = PROBES * count
        for number in hashes[:count]:
            rest = number & 0xFFFFFFFFFFFFFFFF
            place = rest & mask
            while taken[place]:
                left -= 1
                if left < 0:
                    return True
                rest >>= 5
                place = (5 * place + rest + 1) & mask
            taken[place] = 1
        if count == len(hashes):
            return False
        size *= 2
