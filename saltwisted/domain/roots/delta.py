"""
How one content becomes another: copies from a base that both sides have, and literal bytes.

The sender has both contents, so it needs no signatures from the receiver. It finds common ends by
comparing slices, then searches short anchors of the new content in the old one near the expected
place with C{bytes.find}, and extends each hit in both directions. The work is bounded: after too
many misses, or out of time, the rest is literal. The receiver checks the result's digest before it
is used, so nothing here needs to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

ANCHOR = 32
WINDOW = 5 * 1024 * 1024
MOST_MISSES = 2048
WIDE_AFTER = (8, 64, 512)
MOST_OPERATIONS = 20_000
STEP = 1 << 22
"""Bytes that are compared at a time, at most."""


class Copy(NamedTuple):
    """Take C{length} bytes of the base from C{start}."""

    start: int
    length: int


Operation = Copy | bytes
"""A copy, or literal bytes."""

Buffer = bytes | memoryview


def nothing() -> None:
    """Nothing is to be done after a step."""


def common_prefix(
    one: Buffer,
    other: Buffer,
    at: int,
    by: int,
    most: int,
    stepped: Callable[[], None] = nothing,
) -> int:
    """How many bytes are equal from C{one[at]} and C{other[by]} on, at most C{most}."""
    length = 0
    step = 4096
    while length < most:
        step = min(step, most - length)
        if one[at + length : at + length + step] == other[by + length : by + length + step]:
            length += step
            if step == STEP:
                stepped()
            step = min(step * 2, STEP)
        elif step == 1:
            return length
        else:
            step = max(step // 8, 1)
            # Narrow down: the difference lies within the last step
            while step > 1 and (
                one[at + length : at + length + step] != other[by + length : by + length + step]
            ):
                step = max(step // 8, 1)
    return length


def common_suffix(
    one: Buffer,
    other: Buffer,
    end: int,
    finish: int,
    most: int,
    stepped: Callable[[], None] = nothing,
) -> int:
    """How many bytes are equal before C{one[end]} and C{other[finish]}, at most C{most}."""
    length = 0
    step = 4096
    while length < most:
        step = min(step, most - length)
        if (
            one[end - length - step : end - length]
            == other[finish - length - step : finish - length]
        ):
            length += step
            if step == STEP:
                stepped()
            step = min(step * 2, STEP)
        elif step == 1:
            return length
        else:
            step = max(step // 8, 1)
            while step > 1 and (
                one[end - length - step : end - length]
                != other[finish - length - step : finish - length]
            ):
                step = max(step // 8, 1)
    return length


def make_delta(
    old: bytes,
    new: bytes,
    expired: Callable[[], bool] = lambda: False,
    stepped: Callable[[], None] = nothing,
    alike: tuple[int, int] = (0, 0),
) -> list[Operation]:
    """
    Operations that turn C{old} into C{new}.

    @param old: needs C{find}: bytes or an mmap.
    @param alike: bytes at both ends that are known to be equal, and are not compared again.
    @param expired: called from time to time; true ends the search, and the rest is literal.
    @param stepped: called after each L{STEP} bytes that were compared: what was read may be dropped
        from memory.
    """
    most = min(len(old), len(new))
    view_old, view_new = memoryview(old), memoryview(new)
    try:
        head, tail = alike
        head += common_prefix(view_old, view_new, head, head, most - head - tail, stepped)
        tail += common_suffix(
            view_old, view_new, len(old) - tail, len(new) - tail, most - head - tail, stepped
        )
        out: list[Operation] = []
        if head:
            out.append(Copy(0, head))
        _middle(old, new, view_old, view_new, head, tail, out, expired)
        if tail:
            out.append(Copy(len(old) - tail, tail))
        return out
    finally:
        view_old.release()
        view_new.release()


def _middle(
    old: bytes,
    new: bytes,
    view_old: memoryview,
    view_new: memoryview,
    head: int,
    tail: int,
    out: list[Operation],
    expired: Callable[[], bool],
) -> None:
    end = len(new) - tail
    position = literal = head
    shift = 0
    misses = 0
    # Small contents: look everywhere, closely
    small = len(new) <= 1 << 16
    stride = 16 if small else 512
    anchor = 16 if small else ANCHOR
    while position + anchor <= end and len(old) > head + tail:
        if misses > MOST_MISSES or len(out) > MOST_OPERATIONS or (misses % 64 == 63 and expired()):
            break
        sought = new[position : position + anchor]
        expected = position + shift
        low = max(expected - WINDOW // 2, 0)
        hit = old.find(sought, max(expected, 0), expected + WINDOW // 2 + anchor)
        if hit < 0:
            hit = old.find(sought, low, max(expected, 0) + anchor)
        if hit < 0 and misses in WIDE_AFTER:
            hit = old.find(sought)
        if hit < 0:
            misses += 1
            position += stride
            continue
        misses = 0
        back = common_suffix(view_old, view_new, hit, position, min(hit, position - literal))
        ahead = common_prefix(
            view_old, view_new, hit, position, min(len(old) - hit, end - position)
        )
        if position - back > literal:
            out.append(bytes(new[literal : position - back]))
        out.append(Copy(hit - back, back + ahead))
        position += ahead
        literal = position
        shift = hit + ahead - position
    if literal < end:
        out.append(bytes(new[literal:end]))


def literal_bytes(operations: Sequence[Operation]) -> int:
    """How many bytes have to travel."""
    return sum(len(one) for one in operations if isinstance(one, bytes))


def apply_delta(old: Buffer, operations: Sequence[Operation]) -> bytes:
    """
    The new content.

    @raises ValueError: a copy reaches beyond the end of the base.
    """
    pieces: list[Buffer] = []
    for one in operations:
        if isinstance(one, bytes):
            pieces.append(one)
            continue
        if one.start < 0 or one.length < 0 or one.start + one.length > len(old):
            raise ValueError("a copy reaches beyond the end of the base")
        pieces.append(old[one.start : one.start + one.length])
    return b"".join(pieces)


def pack_delta(operations: Sequence[Operation]) -> list[object]:
    """As plain data: a copy is a pair, a literal is bytes."""
    return [one if isinstance(one, bytes) else [one.start, one.length] for one in operations]


def unpack_delta(data: object, size: int, base_size: int) -> list[Operation]:
    """
    From plain data; every bound is checked here.

    @param size: bytes that the result must have.
    @raises ValueError: this is not a delta for contents of these sizes.
    """
    if not isinstance(data, list) or len(data) > 2 * MOST_OPERATIONS + 4:
        raise ValueError("not a delta")
    found: list[Operation] = []
    total = 0
    for one in data:
        if isinstance(one, bytes):
            total += len(one)
            found.append(one)
        elif (
            isinstance(one, list)
            and len(one) == 2
            and all(type(number) is int for number in one)
            and one[0] >= 0
            and one[1] > 0
            and one[0] + one[1] <= base_size
        ):
            total += one[1]
            found.append(Copy(one[0], one[1]))
        else:
            raise ValueError("not an operation")
        if total > size:
            raise ValueError("larger than announced")
    if total != size:
        raise ValueError("smaller than announced")
    return found
