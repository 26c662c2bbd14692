"""
What two nodes say to each other about one log: the messages of L{saltwisted.domain.replica.ship}.

A message is a packed map with a word under C{w}. A reader ignores fields that it does not know; a
map with an unknown word is not a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve, frozen

from saltwisted.domain.replica.digest import BUCKETS
from saltwisted.domain.replica.entry import (
    MAX_KIND,
    Entry,
    decode_entries,
    encode_entries,
    is_number,
)
from saltwisted.domain.replica.fold import Fact, decode_fact, encode_fact
from saltwisted.domain.replica.knowledge import Knowledge, decode_knowledge, encode_knowledge
from saltwisted.errors import WireError
from saltwisted.wire.longpack import LARGE
from saltwisted.wire.msgpack import pack_bin, unpack_bin

Facts = Sequence[tuple[str, Fact]]
Parts = tuple[bytes, bytes | memoryview]
"""A message, and what follows it."""
NOTHING: Parts = (b"", b"")
LONGEST_HEAD = 1024
"""Bytes before the body of a single entry, at most."""
_NO_BODY = pack_bin(b"")
_LONG = b"\xc6"
"""How a long body begins; four bytes of its length follow."""


@frozen
class Hello:
    """The first message of each side, and again when the floor has risen above the other's head."""

    knowledge: Knowledge
    floor: Knowledge
    forgotten: Knowledge


@frozen
class Entries:
    """Entries, in order within each stream."""

    entries: Sequence[Entry]


@frozen
class Known:
    """What is on the sender's disk: the streams that have changed since its last message."""

    knowledge: Knowledge


@frozen
class Want:
    """Please send these streams, from these numbers on, although they are not your own."""

    after: Knowledge


@frozen
class Again:
    """Something is missing in between: begin again from here."""

    knowledge: Knowledge


@frozen
class WantState:
    """Please send everything: the missing entries are no longer kept."""


@frozen
class StatePart:
    """
    A part of the whole state.

    @ivar index: from 0, without gaps.
    @ivar knowledge: in the last part: the knowledge that it gives.
    """

    index: int
    facts: Facts
    knowledge: Knowledge | None = None


@frozen
class Digest:
    """What the sender knows and may have forgotten, and the digest of each kind of fact in it."""

    knowledge: Knowledge
    forgotten: Knowledge
    digests: Mapping[str, bytes]


@frozen
class BucketSums:
    """The digests of the parts of one kind, because the whole differs."""

    kind: str
    sums: bytes


@frozen
class BucketFacts:
    """
    The facts of some parts of a kind.

    @ivar answer: whether the receiver's own facts of these parts are wanted.
    """

    kind: str
    facts: Sequence[Fact]
    buckets: Sequence[int] = ()
    answer: bool = False


@frozen
class TooOld:
    """You were away for longer than deletions are remembered: join as a new node."""


Message = (
    Hello
    | Entries
    | Known
    | Want
    | Again
    | WantState
    | StatePart
    | Digest
    | BucketSums
    | BucketFacts
    | TooOld
)


def _facts(facts: Facts) -> list[Any]:
    return [[kind, *encode_fact(fact)] for kind, fact in facts]


def _read_facts(rows: Any) -> list[tuple[str, Fact]]:
    if not isinstance(rows, list):
        raise WireError("facts")
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 6:
            raise WireError("facts")
        found.append((_kind(row[0]), decode_fact(row[1:])))
    return found


def _kind(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_KIND:
        raise WireError("kind")
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise WireError("message")
    return value


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    k = encode_knowledge
    fields: dict[str, Any]
    match message:
        case Hello(knowledge, floor, forgotten):
            fields = {"w": "hello", "k": k(knowledge), "f": k(floor), "o": k(forgotten)}
        case Entries(entries):
            fields = {"w": "entries", "e": encode_entries(entries)}
        case Known(knowledge):
            fields = {"w": "known", "k": k(knowledge)}
        case Want(after):
            rows = [[s.node, s.incarnation, n] for s, n in sorted(after.items())]
            fields = {"w": "want", "k": rows}
        case Again(knowledge):
            fields = {"w": "again", "k": k(knowledge)}
        case WantState():
            fields = {"w": "want_state"}
        case StatePart(index, facts, last):
            fields = {"w": "state", "i": index, "x": _facts(facts)}
            if last is not None:
                fields["k"] = k(last)
        case Digest(knowledge, forgotten, digests):
            digest = dict(digests)
            fields = {"w": "digest", "k": k(knowledge), "o": k(forgotten), "d": digest}
        case BucketSums(kind, sums):
            fields = {"w": "buckets", "n": kind, "b": sums}
        case BucketFacts(kind, some, buckets, answer):
            rows = [encode_fact(fact) for fact in some]
            fields = {"w": "facts", "n": kind, "x": rows, "b": list(buckets), "a": answer}
        case TooOld():
            fields = {"w": "too_old"}
    return pack_bin(fields)


def in_parts(entries: Sequence[Entry]) -> Parts:
    """
    The bytes of L{Entries}. The body of a single long entry is at their end, and is not copied;
    several are never long together.
    """
    if len(entries) != 1 or len(entries[0].body) <= LARGE:
        return encode(Entries(entries)), b""
    (entry,) = entries
    head = encode(Entries([evolve(entry, body=b"")]))
    return head[: -len(_NO_BODY)] + _LONG + len(entry.body).to_bytes(4, "big"), entry.body


def decode(data: bytes) -> Message:
    """
    The message in these bytes.

    @raises WireError: there is none.
    """
    return _of_parts(data) or _decode(data)


def _of_parts(data: bytes) -> Entries | None:
    """A single long entry, whose body is left where it is: to copy it takes milliseconds."""
    if len(data) <= LARGE:
        return None
    start = data[:LONGEST_HEAD]
    at = start.find(_LONG)
    while at >= 0:
        body = at + 5
        if int.from_bytes(data[at + 1 : body], "big") == len(data) - body:
            head = start[:at] + _NO_BODY
            with suppress(WireError):
                match _decode(head):
                    # What was made of one entry, and of nothing else, ends with its body
                    case Entries([entry]) as found if encode(found) == head:
                        return Entries([evolve(entry, body=memoryview(data)[body:])])
        at = start.find(_LONG, at + 1)
    return None


def _decode(data: bytes) -> Message:
    fields = unpack_bin(data)
    if not isinstance(fields, dict):
        raise WireError("message")
    word = fields.get("w")
    reader = _READERS.get(word) if isinstance(word, str) else None
    if reader is None:
        raise WireError("message-word")
    try:
        message: Message = reader(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise WireError("message") from error
    return message


def _read_state(fields: Mapping[str, Any]) -> StatePart:
    if not is_number(fields["i"]):
        raise WireError("state")
    last = decode_knowledge(fields["k"]) if "k" in fields else None
    return StatePart(fields["i"], _read_facts(fields["x"]), last)


def _read_digest(fields: Mapping[str, Any]) -> Digest:
    if not isinstance(fields["d"], dict):
        raise WireError("digests")
    digests = {_kind(kind): _bytes(value) for kind, value in fields["d"].items()}
    return Digest(decode_knowledge(fields["k"]), decode_knowledge(fields["o"]), digests)


def _read_bucket_facts(fields: Mapping[str, Any]) -> BucketFacts:
    rows, buckets = fields["x"], fields["b"]
    if not isinstance(rows, list) or not isinstance(buckets, list):
        raise WireError("facts")
    # They come back with each part of the answer
    if len(buckets) > BUCKETS or not all(
        isinstance(index, int) and 0 <= index < BUCKETS for index in buckets
    ):
        raise WireError("facts")
    facts = [decode_fact(row) for row in rows]
    return BucketFacts(_kind(fields["n"]), facts, buckets, fields["a"] is True)


_READERS: Mapping[str, Any] = {
    "hello": lambda m: Hello(
        decode_knowledge(m["k"]), decode_knowledge(m["f"]), decode_knowledge(m["o"])
    ),
    "entries": lambda m: Entries(decode_entries(m["e"])),
    "known": lambda m: Known(decode_knowledge(m["k"])),
    "want": lambda m: Want(decode_knowledge(m["k"])),
    "again": lambda m: Again(decode_knowledge(m["k"])),
    "want_state": lambda m: WantState(),
    "state": _read_state,
    "digest": _read_digest,
    "buckets": lambda m: BucketSums(_kind(m["n"]), _bytes(m["b"])),
    "facts": _read_bucket_facts,
    "too_old": lambda m: TooOld(),
}


def state_parts(
    facts: Iterable[tuple[str, Fact]], limit: int
) -> Iterable[Sequence[tuple[str, Fact]]]:
    """Cut facts into pieces of about C{limit} bytes, at least one piece; lazily."""
    part: list[tuple[str, Fact]] = []
    size = 0
    for kind, fact in facts:
        part.append((kind, fact))
        size += 64 + len(pack_bin(dict(fact.body)))
        if size >= limit:
            yield part
            part, size = [], 0
    yield part
