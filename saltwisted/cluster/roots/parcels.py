"""
Objects in transit: packs of small ones, slices and deltas of large ones.

They are made from the contents of one store, and become contents of another. All of this blocks,
and is called in the pool. L{saltwisted.cluster.roots.fetching} decides what is requested when, and
L{saltwisted.cluster.roots.sending} what is sent when.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.delta import (
    apply_delta,
    literal_bytes,
    make_delta,
    pack_delta,
    unpack_delta,
)
from saltwisted.domain.roots.frames import DATA
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.stores.roots.ranges import common_ends, map_whole, read_pieces

SLICE = 512 * 1024
SLICES = 4
"""Slices that are read, or written, in one go: each go is a way to the pool and back."""
SLICE_HEAD = struct.Struct(">c32sQI")
"""Plain or packed, the object, where it begins, and how long it is unpacked."""
RAW, PACKED = b"s", b"t"
DELTA_TIME = 1.0
_SAMPLE = 64 * 1024

Slice = tuple[int, bytes, int, list[bytes | memoryview]]
"""Offset, plain or packed, length when unpacked, bytes as they came."""
Frame = tuple[bytes, bytes]
"""The head and the body of a frame, not joined: that would only copy the body."""


@define
class Want:
    """
    An object that this node lacks.

    @ivar base: the digest of an earlier version that is here; empty if there is none.
    @ivar offset: how much of it is here.
    """

    digest: bytes
    size: int
    base: bytes = b""
    offset: int = 0

    @property
    def is_large(self) -> bool:
        """Whether it comes in slices, or as a delta."""
        return self.size > SMALL


@define
class Outgoing:
    """
    An object that a peer has requested.

    @ivar size: -1 if it is not here.
    @ivar base: the digest of an earlier version that the peer has; empty if it has none.
    @ivar offset: how much of it the peer has.
    @ivar squeezable: whether compression is worthwhile, once that was tried.
    @ivar slices: those that were read ahead, as frames.
    @ivar coming: those that are being read.
    """

    share: str
    digest: bytes
    size: int
    base: bytes = b""
    offset: int = 0
    squeezable: bool | None = None
    slices: deque[Frame] | None = None
    coming: Deferred[list[Frame]] | None = None


@define
class Growing:
    """
    A large object that arrives in slices; it is hashed as they arrive.

    @ivar at: where the next slice begins.
    @ivar slices: those that have arrived and are not being written yet.
    @ivar waiting: bytes of these.
    """

    size: int
    at: int
    hash: Any = None
    slices: list[Slice] = field(factory=list)
    waiting: int = 0


def make_pack(store: ContentStore, wants: Sequence[Outgoing]) -> bytes:
    """
    Small objects as one message. If one cannot be read, the message only says that it is missing.
    """
    digests = [want.digest for want in wants]
    try:
        items = list(zip(digests, store.read_all(digests), strict=True))
    except StoreError:
        lost = next((d for d in digests if not _is_readable(store, d)), digests[0])
        return codec.squeeze(codec.pack(["n", lost]))
    return codec.squeeze(codec.pack(["p", items]), 1)


def _is_readable(store: ContentStore, digest: bytes) -> bool:
    try:
        store.read(digest)
    except StoreError:
        return False
    return True


def make_slices(store: ContentStore, want: Outgoing, number: int, at: int) -> list[Frame]:
    """The next slices of a large object: heads and bodies of their frames."""
    most = min(SLICES * SLICE, want.size - at)
    found = []
    for data in read_pieces(store, want.digest, at, most, SLICE):
        if want.squeezable is None:
            sample = data[:_SAMPLE]
            want.squeezable = len(zlib.compress(sample, 1)) < len(sample) * 0.95
        form, body = RAW, data
        if want.squeezable and len(packed := zlib.compress(data, 1)) < len(data):
            form, body = PACKED, packed
        head = SLICE_HEAD.pack(form, want.digest, at, len(data))
        found.append((frames.pack_head(DATA, number, len(head) + len(body)) + head, body))
        at += len(data)
    return found


def open_data(body: bytes) -> list[Any]:
    """
    What a message with objects says; small objects have been compared with their digests.

    @raises Forbidden: it is against the rules.
    """
    value = codec.unpack(codec.expand(body, 4 * 1024 * 1024))
    if not isinstance(value, list) or len(value) < 2:
        raise Forbidden("data")
    if value[0] != "p":
        return value
    if len(value) != 2 or not isinstance(value[1], list):
        raise Forbidden("data")
    for item in value[1]:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], bytes):
            raise Forbidden("data")
        if hashlib.sha256(item[1]).digest() != item[0]:
            raise Forbidden("object-digest")
    return value


def find_delta(store: ContentStore, want: Outgoing) -> list[Any] | None:
    """How an object comes from the base that the peer has; nothing if that saves too little."""
    old = map_whole(store, want.base)
    new = map_whole(store, want.digest)
    limit = time.monotonic() + DELTA_TIME

    def drop() -> None:
        # The mapped pages stay in the kernel's cache, and count as ours no longer
        for mapped in (old, new):
            if not isinstance(mapped, bytes):
                mapped.madvise(mmap.MADV_DONTNEED)

    try:
        alike = common_ends(store, want.base, want.digest)
        operations = make_delta(
            old,  # type: ignore[arg-type]
            new,  # type: ignore[arg-type]
            lambda: time.monotonic() > limit,
            drop,
            alike,
        )
        if literal_bytes(operations) > want.size * 0.6:
            return None
        return pack_delta(operations)
    except (StoreError, OSError):
        return None
    finally:
        for mapped in (old, new):
            if not isinstance(mapped, bytes):
                mapped.close()


def cut(operations: list[Any]) -> Iterator[Any]:
    """The parts of a delta, none longer than a slice."""
    for one in operations:
        if isinstance(one, bytes) and len(one) > SLICE:
            for at in range(0, len(one), SLICE):
                yield one[at : at + SLICE]
        else:
            yield one


def store_slices(
    store: ContentStore, want: Want, growing: Growing, slices: list[Slice], last: bool
) -> bool:
    """
    Append slices to the part of a large object that is here.

    @return: false if the object was complete, and does not match its digest.
    @raises StoreError: the disk refuses.
    @raises Forbidden: a packed slice is damaged.
    """
    path = store.large.part_path(want.digest)
    start = slices[0][0]
    try:
        if growing.hash is None:
            growing.hash = hashlib.sha256()
            if start:
                with open(path, "rb") as part:
                    left = start
                    while left and (piece := part.read(min(left, 1 << 20))):
                        growing.hash.update(piece)
                        left -= len(piece)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags if start else flags | os.O_TRUNC, 0o600)
        try:
            os.lseek(fd, start, os.SEEK_SET)
            for _, form, length, data in slices:
                for plain in data if form == RAW else [_unpacked(data, length)]:
                    growing.hash.update(plain)
                    _write_all(fd, plain)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error
    if not last:
        return True
    if growing.hash.digest() != want.digest:
        with suppress(OSError):
            os.unlink(path)
        return False
    store.adopt(want.digest, want.size, path)
    return True


def _unpacked(data: frames.Pieces, length: int) -> bytes:
    """@raises Forbidden: it is not that long, or damaged."""
    plain = codec.expand(b"".join((b"z", *data)), length)
    if len(plain) != length:
        raise Forbidden("object-size")
    return plain


def store_delta(store: ContentStore, want: Want, parts: list[Any]) -> bool:
    """
    Make an object from a base that is here.

    @return: false if the result does not match its digest.
    @raises StoreError: the disk refuses, or the base is missing.
    """
    try:
        operations = unpack_delta(parts, want.size, store.size(want.base))
    except ValueError:
        return False
    if want.size <= SMALL:
        data = apply_delta(store.read(want.base), operations)
        if hashlib.sha256(data).digest() != want.digest:
            return False
        store.put_known(want.digest, data)
        return True
    path = store.large.temporary()
    whole = hashlib.sha256()
    base_path, base_offset, _ = store.locate(want.base)
    try:
        source = os.open(base_path, os.O_RDONLY | os.O_CLOEXEC)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for one in operations:
                if isinstance(one, bytes):
                    whole.update(one)
                    _write_all(fd, one)
                    continue
                at, left = base_offset + one.start, one.length
                while left:
                    piece = os.pread(source, min(left, 1 << 20), at)
                    if not piece:
                        return False
                    whole.update(piece)
                    _write_all(fd, piece)
                    at += len(piece)
                    left -= len(piece)
        finally:
            os.close(fd)
            os.close(source)
        if whole.digest() != want.digest:
            return False
        store.adopt(want.digest, want.size, path)
        return True
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error
    finally:
        with suppress(OSError):
            os.unlink(path)


def _write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
