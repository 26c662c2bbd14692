"""
Batches, states and their parts as bytes.

Entries are encoded by column: kinds, front-coded paths, modes, sizes, times and contents each
together, which makes them small once compressed. A decoder raises only L{Forbidden}, checks every
count before it allocates, and masks modes to 0777.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgpack

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import (
    ABSENT,
    DIR,
    FILE,
    LINK,
    Batch,
    Coded,
    Knowledge,
    Move,
    ReplicaId,
    TreeEntry,
    Version,
)
from saltwisted.domain.roots.guards import MAX_ENTRIES, MAX_PATH, Forbidden, Limits, check_batch
from saltwisted.domain.roots.guards import check_entry as check_one
from saltwisted.domain.roots.moves import unfolded
from saltwisted.errors import WireError
from saltwisted.wire.decoding import Bounds, load
from saltwisted.wire.msgpack import WRONG

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one decoded body."""
MAX_REPLICAS = 4096
FEW_CONTAINERS = 32_768
"""Lists in what is unpacked in the reactor's thread: what several shares know, at the most."""
MOST_CONTAINERS = 2 * MAX_ENTRIES + 2 * MAX_REPLICAS
"""Lists in a batch or a state: one for each settled path is the most that an honest one has."""
MOST_PATHS = 256 * 1024 * 1024
"""Bytes of all paths of one list of entries: each may repeat the one before for a few bytes."""
LONG = 128 * 1024
"""Bytes from which a batch is compressed quickly rather than well."""

Pair = tuple[bytes, TreeEntry]


def squeeze(data: bytes, level: int = 6) -> bytes:
    """Compressed if that helps; the first byte says which."""
    if len(data) > 96:
        packed = zlib.compress(data, level)
        if len(packed) < len(data):
            return b"z" + packed
    return b"-" + data


def expand(data: bytes, most: int) -> bytes:
    """
    The opposite of L{squeeze}, never more than C{most} bytes.

    @raises Forbidden: it would be larger, or is damaged.
    """
    form = data[:1]
    if form == b"-":
        if len(data) > most + 1:
            raise Forbidden("too-large")
        return data[1:]
    if form != b"z":
        raise Forbidden("encoding")
    machine = zlib.decompressobj()
    try:
        plain = machine.decompress(memoryview(data)[1:], most)
        if machine.unconsumed_tail or not machine.eof:
            raise Forbidden("too-large" if machine.unconsumed_tail else "truncated")
    except zlib.error as error:
        raise Forbidden("encoding") from error
    return plain


def pack(value: Any) -> bytes:
    """Plain data as bytes."""
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def is_short(data: bytes, most: int) -> bool:
    """
    Whether L{expand} gives no more than so many bytes: a thousand can stand in one.

    What is damaged is short: L{expand} refuses it soon.
    """
    if data[:1] != b"z":
        return len(data) <= most + 1
    machine = zlib.decompressobj()
    try:
        return len(machine.decompress(memoryview(data)[1:], most + 1)) <= most
    except zlib.error:
        return True


def unpack(data: bytes, containers: int = MOST_CONTAINERS) -> Any:
    """
    Plain data that L{pack} packed. For the reactor's thread only where both are few.

    @param containers: lists that there may be, as a message of this kind has them.
    @raises Forbidden: this is not plain data, or it has more than allowed.
    """
    try:
        return load(data, Bounds(containers, many_keys=False), raw=False, ext_hook=_no_extension)
    except (WireError, *WRONG) as error:
        raise Forbidden("encoding") from error


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError("an extension")


# -- small parts


def pack_knowledge(knowledge: Knowledge) -> list[list[Any]]:
    """As plain data, in one order."""
    return [[r.master, r.incarnation, counter] for r, counter in sorted(knowledge.items())]


def unpack_replica(master: object, incarnation: object) -> ReplicaId:
    """@raises Forbidden: this names no replica."""
    if (
        not isinstance(master, str)
        or not isinstance(incarnation, bytes)
        or len(incarnation) != 8
        or not 0 < len(master) <= 255
    ):
        raise Forbidden("replica")
    return ReplicaId(master, incarnation)


def unpack_counter(value: object) -> int:
    """@raises Forbidden: this is not a counter."""
    if type(value) is not int or not 0 < value < 1 << 62:
        raise Forbidden("counter")
    return value


def unpack_knowledge(data: object) -> dict[ReplicaId, int]:
    """@raises Forbidden: this is not a knowledge vector."""
    if not isinstance(data, list) or len(data) > MAX_REPLICAS:
        raise Forbidden("knowledge")
    found = {}
    for item in data:
        if not isinstance(item, list) or len(item) != 3:
            raise Forbidden("knowledge")
        found[unpack_replica(item[0], item[1])] = unpack_counter(item[2])
    return found


def front_code(paths: Iterable[bytes]) -> Coded:
    """Paths in order: how much each shares with the one before, and the rest of it."""
    shared: list[int] = []
    lengths: list[int] = []
    rest: list[bytes] = []
    last = last_head = last_name = b""
    for path in paths:
        head, _, name = path.rpartition(b"/")
        # Neighbours are mostly in one directory
        if head and head == last_head:
            common, ours, theirs = len(head) + 1, name, last_name
        else:
            common, ours, theirs = 0, path, last
        most = min(len(ours), len(theirs))
        ours, theirs = ours[:most], theirs[:most]
        if ours != theirs:
            # The first byte that differs is where the highest bit of the difference is
            odd = int.from_bytes(ours, "big") ^ int.from_bytes(theirs, "big")
            most -= (odd.bit_length() + 7) // 8
        common += most
        shared.append(common)
        lengths.append(len(path) - common)
        rest.append(path[common:])
        last, last_head, last_name = path, head, name
    return shared, lengths, b"".join(rest)


def _front_decode(shared: object, lengths: object, rest: object, count: int) -> list[bytes]:
    if (
        not isinstance(shared, list)
        or not isinstance(lengths, list)
        or not isinstance(rest, bytes)
        or len(shared) != count
        or len(lengths) != count
    ):
        raise Forbidden("columns")
    paths = []
    last = b""
    at = whole = 0
    for common, length in zip(shared, lengths, strict=True):
        if (
            type(common) is not int
            or type(length) is not int
            or not 0 <= common <= len(last)
            or not 0 <= length <= MAX_PATH
            or common + length > MAX_PATH
        ):
            raise Forbidden("path-length")
        last = last[:common] + rest[at : at + length]
        at += length
        whole += len(last)
        if whole > MOST_PATHS:
            raise Forbidden("too-large")
        paths.append(last)
    if at != len(rest):
        raise Forbidden("columns")
    return paths


def _differences(numbers: Sequence[int]) -> list[int]:
    last = 0
    found = []
    for number in numbers:
        found.append(number - last)
        last = number
    return found


def pack_entries(entries: Sequence[Pair], coded: Coded | None = None) -> list[Any]:
    """
    Entries by column.

    @param coded: their paths, where those were coded before.
    """
    files = [entry for _, entry in entries if entry.kind == FILE]
    return [
        "".join(entry.kind for _, entry in entries),
        *(coded or front_code(path for path, _ in entries)),
        [entry.mode for _, entry in entries if entry.kind in (FILE, DIR)],
        [entry.size for entry in files],
        _differences([entry.mtime for _, entry in entries if entry.kind in (FILE, LINK)]),
        b"".join(entry.content for entry in files),
        [entry.content for _, entry in entries if entry.kind == LINK],
    ]


def unpack_entries(data: object, most: int = MAX_ENTRIES) -> list[Pair]:
    """@raises Forbidden: these are not columns of entries; paths are not judged here."""
    if not isinstance(data, list) or len(data) != 9:
        raise Forbidden("columns")
    kinds, shared, lengths, rest, modes, sizes, times, contents, targets = data
    if not isinstance(kinds, str) or not isinstance(contents, bytes):
        raise Forbidden("columns")
    count = len(kinds)
    if count > most:
        raise Forbidden("too-many-entries")
    paths = _front_decode(shared, lengths, rest, count)
    files, links = kinds.count(FILE), kinds.count(LINK)
    numbered = files + kinds.count(DIR)
    if files + links + kinds.count(DIR) + kinds.count(ABSENT) != count:
        raise Forbidden("kind")
    timed = files + links
    for column, wanted in ((modes, numbered), (sizes, files), (times, timed), (targets, links)):
        if not isinstance(column, list) or len(column) != wanted:
            raise Forbidden("columns")
    if len(contents) != 32 * files:
        raise Forbidden("digest-length")
    if any(type(number) is not int for column in (modes, sizes, times) for number in column):
        raise Forbidden("columns")
    found: list[Pair] = []
    mode_of, size_of, time_of, target_of = map(iter, (modes, sizes, times, targets))
    mtime = at = 0
    for path, kind in zip(paths, kinds, strict=True):
        if kind == FILE:
            mtime += next(time_of)
            entry = TreeEntry(
                FILE, next(mode_of) & 0o777, next(size_of), mtime, contents[at : at + 32]
            )
            at += 32
        elif kind == DIR:
            entry = TreeEntry(DIR, next(mode_of) & 0o777)
        elif kind == LINK:
            target = next(target_of)
            if not isinstance(target, bytes):
                raise Forbidden("link-target", path)
            mtime += next(time_of)
            entry = TreeEntry(LINK, 0, 0, mtime, target)
        else:
            entry = TreeEntry(ABSENT)
        found.append((path, entry))
    return found


# -- a batch


def pack_batch(batch: Batch, folded: bool = False, coded: Coded | None = None) -> bytes:
    """
    A batch as bytes.

    @param folded: let moves stand for the entries that they mean.
    @param coded: all its paths, where those were coded before.
    """
    moves = batch.moves if folded else ()
    entries = unfolded(batch.entries, moves) if moves else batch.entries
    own = batch.deps.get(batch.replica, 0)
    deps = {replica: counter for replica, counter in batch.deps.items() if replica != batch.replica}
    if own != batch.lo - 1:
        raise ValueError("a batch must directly follow the one before it")
    body = pack(
        [
            batch.replica.master,
            batch.replica.incarnation,
            batch.lo,
            batch.hi,
            batch.stamp,
            pack_knowledge(deps),
            pack_entries(entries, None if moves else coded),
            [
                [path, dot.source.master, dot.source.incarnation, dot.number]
                for path, dot in batch.settled
            ],
            batch.approved,
            [list(move) for move in moves],
        ]
    )
    return squeeze(body, 6 if len(body) < LONG else 1)


def unpack_batch(data: bytes, limits: Limits) -> tuple[Batch, int]:
    """
    A batch, judged by the rules, and its last counter; with moves, the entries that
    these mean are still missing (see L{saltwisted.domain.roots.moves.unfold}).

    @raises Forbidden: damaged, too large, or against the rules.
    """
    body = unpack(expand(data, MAX_BODY))
    if not isinstance(body, list) or len(body) != 10:
        raise Forbidden("batch")
    master, incarnation, lo, hi, stamp, deps, columns, settled, approved, moves = body
    replica = unpack_replica(master, incarnation)
    lo, hi = unpack_counter(lo), unpack_counter(hi)
    if type(stamp) is not int or not 0 <= stamp < 1 << 63:
        raise Forbidden("stamp")
    if not isinstance(approved, str) or len(approved) > 255:
        raise Forbidden("batch")
    seen = unpack_knowledge(deps)
    if lo > 1:
        seen[replica] = lo - 1
    batch = Batch(
        replica=replica,
        lo=lo,
        stamp=stamp,
        deps=seen,
        entries=tuple(unpack_entries(columns, limits.max_entries)),
        settled=tuple(_unpack_settled(settled)),
        approved=approved,
        moves=tuple(_unpack_moves(moves)),
        coded=None if moves else (columns[1], columns[2], columns[3]),
    )
    if hi < lo or hi - lo > limits.max_entries or (not batch.moves and batch.hi != hi):
        raise Forbidden("counter")
    check_batch(batch, limits)
    return batch, hi


def _unpack_settled(data: object) -> Iterable[tuple[bytes, Dot[ReplicaId]]]:
    if not isinstance(data, list) or len(data) > MAX_ENTRIES:
        raise Forbidden("batch")
    for item in data:
        if not isinstance(item, list) or len(item) != 4 or not isinstance(item[0], bytes):
            raise Forbidden("batch")
        yield item[0], Dot(unpack_replica(item[1], item[2]), unpack_counter(item[3]))


def _unpack_moves(data: object) -> Iterable[Move]:
    if not isinstance(data, list) or len(data) > 1000:
        raise Forbidden("batch")
    for item in data:
        if (
            not isinstance(item, list)
            or len(item) != 3
            or not all(isinstance(part, bytes) for part in item)
            or len(item[2]) != 32
        ):
            raise Forbidden("batch")
        yield Move(*item)


# -- a whole state


def pack_state(
    rows: Mapping[bytes, Sequence[Version]],
    conflicts: Iterable[tuple[bytes, Version]],
    knowledge: Knowledge,
) -> bytes:
    """All versions, all conflicts and what is known, as bytes."""
    replicas = sorted(
        {v.dot.source for row in rows.values() for v in row} | {v.dot.source for _, v in conflicts}
    )
    number = {replica: at for at, replica in enumerate(replicas)}

    def table(pairs: list[tuple[bytes, Version]]) -> list[Any]:
        return [
            pack_entries([(path, version.entry) for path, version in pairs]),
            [number[version.dot.source] for _, version in pairs],
            _differences([version.dot.number for _, version in pairs]),
            _differences([version.stamp for _, version in pairs]),
        ]

    visible = [(path, version) for path, row in sorted(rows.items()) for version in row]
    return squeeze(
        pack(
            [
                [list(replica) for replica in replicas],
                table(visible),
                table(sorted(conflicts)),
                pack_knowledge(knowledge),
            ]
        ),
        1,
    )


def unpack_state(
    data: bytes, limits: Limits
) -> tuple[dict[bytes, tuple[Version, ...]], list[tuple[bytes, Version]], dict[ReplicaId, int]]:
    """@raises Forbidden: damaged, too large, or against the rules."""
    body = unpack(expand(data, MAX_BODY))
    if not isinstance(body, list) or len(body) != 4 or not isinstance(body[0], list):
        raise Forbidden("state")
    if len(body[0]) > MAX_REPLICAS:
        raise Forbidden("state")
    replicas = []
    for item in body[0]:
        if not isinstance(item, list) or len(item) != 2:
            raise Forbidden("state")
        replicas.append(unpack_replica(item[0], item[1]))
    visible = _unpack_table(body[1], replicas, limits)
    lost = _unpack_table(body[2], replicas, limits)
    rows: dict[bytes, tuple[Version, ...]] = {}
    for path, version in visible:
        rows[path] = (*rows.get(path, ()), version)
    return rows, lost, unpack_knowledge(body[3])


def _unpack_table(
    data: object, replicas: list[ReplicaId], limits: Limits
) -> list[tuple[bytes, Version]]:
    if not isinstance(data, list) or len(data) != 4:
        raise Forbidden("state")
    entries = unpack_entries(data[0], 2 * limits.max_entries)
    numbers, counters, stamps = data[1:]
    for column in (numbers, counters, stamps):
        if (
            not isinstance(column, list)
            or len(column) != len(entries)
            or any(type(number) is not int for number in column)
        ):
            raise Forbidden("state")
    found = []
    counter = stamp = 0
    for (path, entry), number, more, later in zip(entries, numbers, counters, stamps, strict=True):
        counter += more
        stamp += later
        if not 0 <= number < len(replicas) or not 0 <= stamp < 1 << 63:
            raise Forbidden("state")
        check_one(path, entry, limits)
        dot = Dot(replicas[number], unpack_counter(counter))
        found.append((path, Version(dot, stamp, entry)))
    return found
