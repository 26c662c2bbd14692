"""
Contents that are compared with their digests whenever they are served.

A disk may silently return other data than was written. A small content is hashed at each read. A
large one is hashed completely before it is served for the first time. From then on each of its
pieces is compared with its checksum, which costs less than encrypting it.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections import OrderedDict

from saltwisted.errors import StoreError
from saltwisted.stores.roots.objects import SMALL, ContentStore

PIECE = 64 * 1024
READ = 16 * PIECE
MOST = 10_000
"""Large contents whose checksums are kept in memory: sixty-four bytes for each megabyte."""


class Damaged(StoreError):
    """A content does not match its digest."""

    def __init__(self, digest: bytes) -> None:
        super().__init__("is damaged on disk", digest.hex())


class Sound:
    """The checksums that are known. Reactor thread only."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, array[int]] = OrderedDict()

    def needs(self, digest: bytes, size: int) -> bool:
        """Whether L{learn} has to be called first, in the pool."""
        return size > SMALL and digest not in self._known

    def of(self, digest: bytes) -> array[int]:
        """The checksums of a content; none for a small one."""
        return self._known.get(digest, array("L"))

    def keep(self, digest: bytes, sums: array[int]) -> None:
        """What L{learn} found."""
        self._known[digest] = sums
        if len(self._known) > MOST:
            self._known.popitem(last=False)


def learn(store: ContentStore, digest: bytes, size: int) -> array[int]:
    """
    Read a large content completely. Blocks.

    @raises Damaged: it does not match its digest.
    @raises StoreError: it cannot be read.
    """
    whole, sums = hashlib.sha256(), array("L")
    for at in range(0, size, READ):
        data = store.read(digest, at, READ)
        whole.update(data)
        sums.extend(zlib.crc32(data[each : each + PIECE]) for each in range(0, len(data), PIECE))
    if whole.digest() != digest:
        raise Damaged(digest)
    return sums


def span(size: int, start: int, length: int) -> tuple[int, int]:
    """Where to read, and how much, so that all of a range can be checked."""
    if size <= SMALL:
        return 0, size
    low = start - start % PIECE
    return low, min(-(-(start + length) // PIECE) * PIECE, size) - low


def check(digest: bytes, size: int, low: int, data: bytes, sums: array[int]) -> None:
    """
    Compare data of a L{span} with its checksums.

    @param sums: of all pieces; a small content needs none.
    @raises Damaged: it does not match.
    """
    if size <= SMALL:
        good = hashlib.sha256(data).digest() == digest
    else:
        first = low // PIECE
        wanted = sums[first : first - (-len(data) // PIECE)]
        found = (zlib.crc32(data[at : at + PIECE]) for at in range(0, len(data), PIECE))
        good = list(found) == list(wanted)
    if not good:
        raise Damaged(digest)


def read(
    store: ContentStore, digest: bytes, size: int, start: int, length: int, sums: array[int]
) -> bytes:
    """
    A range of a content. Blocks.

    @raises Damaged: it does not match its checksum.
    @raises StoreError: it cannot be read.
    """
    low, most = span(size, start, length)
    data = store.read(digest, low, most)
    check(digest, size, low, data, sums)
    return data[start - low : start - low + length]
