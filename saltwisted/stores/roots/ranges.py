"""
Reads large objects by ranges: in pieces, mapped, and compared in pairs.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.packs import AHEAD


def read_pieces(
    store: ContentStore, digest: bytes, start: int, length: int, piece: int
) -> Iterator[bytes]:
    """
    A range of a large object, piece by piece.

    @raises StoreError: it is missing, or too short.
    """
    path, offset, size = store.locate(digest)
    start, end = offset + start, offset + min(start + length, size)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                data = os.pread(fd, min(piece, end - start), start)
                if not data:
                    raise StoreError("is shorter than it was", digest.hex())
                start += len(data)
                yield data
        finally:
            os.close(fd)
    except OSError as error:
        raise store_error(error, digest.hex()) from error


def common_ends(store: ContentStore, one: bytes, other: bytes) -> tuple[int, int]:
    """
    How many bytes two objects have in common at their beginnings and at their ends, in whole
    pieces; the two do not overlap.

    @raises StoreError: one of them is missing, or cannot be read.
    """
    (path, base, size), (other_path, other_base, other_size) = map(store.locate, (one, other))
    flags = os.O_RDONLY | os.O_CLOEXEC
    fds: list[int] = []
    try:
        fds = [os.open(path, flags)]
        fds.append(os.open(other_path, flags))
        most = min(size, other_size) // AHEAD
        head = tail = 0
        while head < most and _alike(fds, base + head * AHEAD, other_base + head * AHEAD):
            head += 1
        end, other_end = base + size, other_base + other_size
        while tail < most - head and _alike(
            fds, end - (tail + 1) * AHEAD, other_end - (tail + 1) * AHEAD
        ):
            tail += 1
        return head * AHEAD, tail * AHEAD
    except OSError as error:
        raise store_error(error, one.hex()) from error
    finally:
        for fd in fds:
            os.close(fd)


def map_whole(store: ContentStore, digest: bytes) -> mmap.mmap | bytes:
    """
    A whole object without copying a large one; close the result if it has a C{close}.

    @raises StoreError: it is missing, or cannot be read.
    """
    if store.size(digest) <= 0 or store.packed(digest) is not None:
        return store.read(digest)
    path, _, size = store.locate(digest)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return mmap.mmap(fd, size, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        raise StoreError(str(error), digest.hex()) from error


def _alike(fds: Sequence[int], at: int, by: int) -> bool:
    """Bytes are compared many times faster than what is mapped."""
    return os.pread(fds[0], AHEAD, at) == os.pread(fds[1], AHEAD, by)
