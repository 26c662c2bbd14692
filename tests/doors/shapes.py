"""
Input of every shape that a decoder knows, generated from the format's own rules.

Each generator gives pairs of a name and a function from a size in bytes to an input of about that
size. What fills a container is taken from all that the format can say, not from a list of known
attacks; keys that collide in Python's tables are computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache

Make = Callable[[int], bytes]

MODULUS = (1 << 61) - 1
"""Python's hash of an integer is its rest by this."""


@cache
def crowded(count: int) -> tuple[int, ...]:
    """
    Integers below 2^32 that Python's dictionaries find only after long searches.

    The first half lies on one chain of places, each at its own first place. The search for each of
    the others leaves the perturbed part of its way early on that chain, and walks it to its end.
    """
    bits = max(3, (count * 3 // 2 - 1).bit_length())
    mask = (1 << bits) - 1
    place = 0
    position: dict[int, int] = {}
    while len(position) < count // 2:
        position[place] = len(position)
        place = (5 * place + 1) & mask
    found = list(position)
    value = mask
    while len(found) < count:
        value += 1
        at, rest = value & mask, value
        while rest and at in position:
            rest >>= 5
            at = (5 * at + rest + 1) & mask
        if not rest and position.get(at, count) < count // 4:
            found.append(value)
            # It comes to lie behind the end of the chain
            position[place] = len(position)
            place = (5 * place + 1) & mask
    return tuple(found)


MOST_CROWDED = 6000
"""To find more takes seconds; larger inputs have several maps."""


def integer(value: int) -> bytes:
    """An integer as msgpack has it."""
    return b"\xcf" + value.to_bytes(8, "big")


def array(parts: list[bytes]) -> bytes:
    """An array of these."""
    return b"\xdd" + len(parts).to_bytes(4, "big") + b"".join(parts)


def mapping(keys: list[bytes], value: bytes = b"\xc0") -> bytes:
    """A map from these to the same value."""
    return b"\xdf" + len(keys).to_bytes(4, "big") + b"".join(key + value for key in keys)


def atom(first: int) -> bytes:
    """The shortest value that begins with this byte; containers are empty or hold nothing."""
    head = bytes((first,))
    if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
        return head
    if first <= 0x8F:
        keys = [bytes((n,)) for n in range(first - 0x80)]
        return head + b"".join(key + b"\xc0" for key in keys)
    if first <= 0x9F:
        return head + b"\xc0" * (first - 0x90)
    if first <= 0xBF:
        return head + b"a" * (first - 0xA0)
    width = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4}.get(first)
    if width:
        return head + bytes(width) + (b"\x05" if first >= 0xC7 else b"")
    width = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(first)
    if width:
        return head + b"\x3f" + b"\x01" * (width - 1)
    width = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}.get(first)
    if width:
        return head + b"\x81" * width
    width = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}.get(first)
    if width:
        # -1 is msgpack's own type of a time
        return head + (b"\xff" if first in (0xD6, 0xD7) else b"\x05") + b"\x01" * width
    width = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}.get(first)
    return head + bytes(width or 0)


def times(count: int) -> list[bytes]:
    """Times of msgpack that differ and have equal hashes, the sums of seconds and nanoseconds."""
    return [
        b"\xc7\x0c\xff" + n.to_bytes(4, "big") + ((1 << 33) - n).to_bytes(8, "big")
        for n in range(count)
    ]


def floats(count: int) -> list[bytes]:
    """Floats whose hashes are all alike in their low bits."""
    import struct

    return [b"\xcb" + struct.pack(">d", float(n) * 2.0**40) for n in range(1, count + 1)]


HEADS = (
    *(0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91, 0x9F, 0xA0, 0xA1, 0xA2, 0xBF),
    *(first for first in range(0xC0, 0xE0) if first != 0xC1),
    *(0xE0, 0xFF),
)
"""First bytes of values; those between two of one range mean the same, with more elements."""


def msgpack_values() -> Iterator[tuple[str, Make]]:
    """Single values of every shape: of each range of first bytes both ends, and what is special."""
    for first in HEADS:
        one = atom(first)

        def filled(size: int, one: bytes = one) -> bytes:
            return array([one] * max(1, size // len(one)))

        yield f"an array of {first:#04x}", filled

        def keyed(size: int, one: bytes = one) -> bytes:
            return mapping([one] * max(1, size // (len(one) + 1)))

        yield f"a map whose keys are all {first:#04x}", keyed

    for name, head in (("arrays", b"\x91"), ("maps", b"\x81\xa1a"), ("maps in keys", b"\x81")):
        for depth in (100, 250, 1 << 30):

            def nested(size: int, head: bytes = head, depth: int = depth) -> bytes:
                one = head * min(depth, size // len(head)) + b"\xc0"
                return array([one] * max(1, size // len(one)))

            yield f"{name} within each other, {depth} deep", nested

    for most in (500, MOST_CROWDED):

        def ints(size: int, most: int = most) -> bytes:
            count = max(2, min(most, size // 10))
            one = mapping([integer(value) for value in crowded(count)])
            return array([one] * max(1, size // len(one)))

        yield f"maps of {most} integers that follow one chain", ints

    def equal(size: int) -> bytes:
        count = size // 10
        keys = [n * MODULUS + 7 for n in range(8)] * (count // 8 + 1)
        return mapping([integer(key % (1 << 64)) for key in keys[:count]])

    yield "a map of integers of equal hashes", equal
    yield "a map of times", lambda size: mapping(times(size // 16))
    yield "a map of floats", lambda size: mapping(floats(size // 10))

    def text(size: int) -> bytes:
        return mapping([b"\xa8%08x" % n for n in range(size // 10)])

    yield "a map of texts", text

    yield "one text", lambda size: b"\xdb" + size.to_bytes(4, "big") + b"a" * size
    yield "one binary", lambda size: b"\xc6" + size.to_bytes(4, "big") + b"\xff" * size
    yield (
        "one text of one letter that is no ASCII",
        lambda size: b"\xdb" + (size // 2 * 2).to_bytes(4, "big") + b"\xc3\xa4" * (size // 2),
    )
    yield "texts that are no UTF-8", lambda size: array([b"\xa2\xff\xfe"] * (size // 3))
    yield (
        "one text that is no UTF-8 at its end",
        lambda size: b"\xdb" + size.to_bytes(4, "big") + b"a" * (size - 1) + b"\xff",
    )


def json_texts() -> Iterator[tuple[str, Make]]:
    """JSON of every shape."""
    for one in ("{}", "[]", "1", "1.5", "-0", "1e300", '""', '"a"', '"\\u00e4"', '"\\ud800"',
                "null", "true", '{"a":1}', "[[]]", "NaN", "Infinity"):  # fmt: skip

        def filled(size: int, one: str = one) -> bytes:
            return ("[" + ",".join([one] * max(1, size // (len(one) + 1))) + "]").encode()

        yield f"an array of {one}", filled
    for head, tail in (("[", "]"), ('{"a":', "}")):
        for depth in (100, 1 << 30):

            def nested(size: int, head: str = head, tail: str = tail, depth: int = depth) -> bytes:
                width = len(head) + len(tail)
                levels = min(depth, size // width)
                one = head * levels + "1" + tail * levels
                return ("[" + ",".join([one] * max(1, size // len(one))) + "]").encode()

            yield f"{head}…{tail}, {depth} deep", nested
            yield (
                f"{head} that is not closed",
                lambda size, head=head: (head * size)[:size].encode(),
            )
    yield (
        "an object of many keys",
        lambda size: json.dumps({f"{n:08x}": 1 for n in range(size // 14)}).encode(),
    )
    yield (
        "an object of one key many times",
        lambda size: ("{" + ",".join(['"a":1'] * (size // 6)) + "}").encode(),
    )
    yield "one long integer", lambda size: b"1" * size
    yield "one long fraction", lambda size: b"0." + b"1" * size
    yield "one text", lambda size: b'"' + b"a" * size + b'"'
    yield "one text of escapes", lambda size: b'"' + b"\\u0061" * (size // 6) + b'"'
    yield "spaces", lambda size: b" " * size
    yield "a text without an end", lambda size: b'"' + b"a" * size
    yield "backslashes", lambda size: b'"' + b"\\" * size


def words_of(separators: str) -> Iterator[tuple[str, Make]]:
    """
    Text of every shape that a format of separated words knows: paths, queries, forms, cookies,
    headers, targets, tags.

    @param separators: the characters that mean something in it.
    """
    letters = dict.fromkeys(separators + 'a= "\\%')
    for first in letters:
        yield f"{first!r} alone", lambda size, one=first: (one * size).encode()
        for second in letters:
            if first != second:
                one = first + second
                yield f"{one!r} again and again", lambda size, one=one: (one * (size // 2)).encode()
        yield (
            f"words between {first!r}",
            lambda size, one=first: (("word" + one) * (size // 5)).encode(),
        )
        yield (
            f"a long word before {first!r}",
            lambda size, one=first: b"a" * (size - 1) + one.encode(),
        )
        yield (
            f"numbered words between {first!r}",
            lambda size, one=first: one.join(f"w{n:05x}" for n in range(size // 7)).encode(),
        )
    yield "escapes", lambda size: b"%41" * (size // 3)
    yield "half escapes", lambda size: b"%4" * (size // 2)
    yield "bytes that are no UTF-8", lambda size: b"\xff" * size
    yield "one letter that is no ASCII", lambda size: b"\xc3\xa4" * (size // 2)
