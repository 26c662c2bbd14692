"""
Entries: what a replicated log contains, and their form on the wire.

An entry is one fact of one kind, in a stream. A stream is a node in one incarnation, and numbers
its entries from 1 without gaps. A node begins a new incarnation (64 random bits) whenever it cannot
be sure to continue its old numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from attrs import frozen

from saltwisted.domain.causality.clock import is_stamp
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.errors import WireError
from saltwisted.interfaces import Entropy
from saltwisted.wire.longpack import LARGE, in_place
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MAX_KIND = 32
MAX_NODE = 255
MAX_NUMBER = (1 << 62) - 1
MAX_STEP = 1 << 33
"""By how much one fact may raise a counter. No member misses more acts than that, and to reach
L{MAX_NUMBER} would take 2**29 facts."""
OVERHEAD = 48
"""Bytes that an entry costs beside its body, roughly."""


class Stream(NamedTuple):
    """A node (its id) in one incarnation (16 hexadecimal digits)."""

    node: str
    incarnation: str


@frozen
class Entry:
    """
    One entry of a log.

    @ivar stamp: hybrid logical clock of the node that created it.
    @ivar kind: the fold that it belongs to.
    @ivar body: a packed map; relays pass it on unchanged. A long one may be a view of the message
        that it came with.
    """

    stream: Stream
    number: int
    stamp: int
    kind: str
    body: bytes | memoryview

    @property
    def dot(self) -> Dot[Stream]:
        """Where it stands."""
        return Dot(Stream(self.stream.node, self.stream.incarnation), self.number)

    @property
    def size(self) -> int:
        """Bytes on the wire, roughly."""
        return len(self.body) + OVERHEAD

    def fields(self) -> Mapping[str, Any]:
        """
        The body as a map.

        @raises WireError: it is none.
        """
        return fields_of(bytes(self.body))

    def views(self) -> Mapping[str, Any]:
        """
        The body as a map, in which long bytes are views of it: to copy them takes milliseconds.

        @raises WireError: it is none.
        """
        found = in_place(self.body, unpack_bin) if len(self.body) > LARGE else None
        return _checked(found) or self.fields()


def fields_of(body: bytes) -> Mapping[str, Any]:
    """
    Unpack a body.

    @raises WireError: for anything but a map with text keys.
    """
    value = _checked(unpack_bin(body))
    if value is None:
        raise WireError("entry-body")
    return value


def _checked(value: Any) -> Mapping[str, Any] | None:
    is_map = isinstance(value, dict) and all(isinstance(key, str) for key in value)
    return value if is_map else None


def new_incarnation(entropy: Entropy) -> str:
    """64 random bits as 16 hexadecimal digits."""
    return entropy(8).hex()


def encode_entries(entries: Iterable[Entry]) -> list[Any]:
    """Runs of one stream: C{[node, incarnation, first number, [[stamp, kind, body], ...]]}."""
    runs: list[list[Any]] = []
    last: tuple[Stream, int] | None = None
    for entry in entries:
        if last != (entry.stream, entry.number - 1):
            runs.append([entry.stream.node, entry.stream.incarnation, entry.number, []])
        runs[-1][3].append([entry.stamp, entry.kind, entry.body])
        last = (entry.stream, entry.number)
    return runs


def decode_entries(runs: Any) -> list[Entry]:
    """
    The reverse of L{encode_entries}.

    @raises WireError: for anything else.
    """
    if not isinstance(runs, list):
        raise WireError("entries")
    found: list[Entry] = []
    for run in runs:
        if not isinstance(run, list) or len(run) != 4 or not isinstance(run[3], list):
            raise WireError("entries")
        stream, number = decode_stream(run[0], run[1]), run[2]
        if not is_number(number) or number < 1:
            raise WireError("entries")
        for item in run[3]:
            found.append(_decode_item(stream, number, item))
            number += 1
    return found


def _decode_item(stream: Stream, number: int, item: Any) -> Entry:
    if (
        not isinstance(item, list)
        or len(item) != 3
        or not is_stamp(item[0])
        or not isinstance(item[1], str)
        or not 0 < len(item[1]) <= MAX_KIND
        or not isinstance(item[2], bytes)
    ):
        raise WireError("entries")
    return Entry(stream, number, item[0], item[1], item[2])


def decode_stream(node: Any, incarnation: Any) -> Stream:
    """
    Check the name of a stream.

    @raises WireError: for anything else.
    """
    if (
        not isinstance(node, str)
        or not 0 < len(node) <= MAX_NODE
        or not isinstance(incarnation, str)
        or len(incarnation) != 16
        or set(incarnation) - set("0123456789abcdef")
    ):
        raise WireError("stream")
    return Stream(node, incarnation)


def is_number(value: Any) -> bool:
    """Whether a value from the wire can be an entry's number, or none yet (0)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def counted(value: int, known: int) -> int:
    """
    A counter from the wire, of which C{known} is the greatest known value. One act raises it by
    one, and a member may have missed many; but whoever raised it at once to the greatest number
    that there is would end all counting.

    @raises WireError: it is more than L{MAX_STEP} above that.
    """
    if value > known + MAX_STEP:
        raise WireError("counter")
    return value


def finite(value: Any) -> float:
    """
    A moment from the wire. What is infinite or no number at all is neither before nor after
    others, so that nodes would not agree.

    @raises WireError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise WireError("moment")
    return float(value)


def sized(entries: Sequence[Entry], limit: int) -> Sequence[Entry]:
    """The first entries that fit into so many bytes; at least one."""
    total = 0
    for index, entry in enumerate(entries):
        total += entry.size
        if total > limit and index:
            return entries[:index]
    return entries


def pack_fields(fields: Mapping[str, Any]) -> bytes:
    """
    A body from a map.

    @raises TypeError: it is not plain data.
    """
    return pack_bin(dict(fields))
