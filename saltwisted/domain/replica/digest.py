"""
Digests of a fold: whether two nodes have the same contents, and if not, where they differ.

Every register has a 128-bit hash. Registers are divided into 256 buckets by the hash of their key,
and a bucket's digest is the exclusive or of its registers, so that one change costs one hash. Equal
knowledge must mean equal digests. If not, a disk or a program is at fault: the differing buckets
are exchanged and joined (L{saltwisted.domain.replica.ship}).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from saltwisted.errors import WireError

BUCKETS = 256
WIDTH = 16


def bucket_of(key: str) -> int:
    """Which bucket a register belongs to."""
    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=2).digest()[0]


def hash_of(parts: Iterable[bytes]) -> int:
    """The hash of one register."""
    digest = blake2b(digest_size=WIDTH)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


class Buckets:
    """The digests of one fold, kept up to date one register at a time."""

    def __init__(self) -> None:
        self._sums = [0] * BUCKETS
        self._hashes: dict[str, int] = {}
        self._whole = b""

    def put(self, key: str, value: int) -> None:
        """Replace the hash of a register; 0 takes it out."""
        old = self._hashes.pop(key, 0)
        if value:
            self._hashes[key] = value
        if old != value:
            self._sums[bucket_of(key)] ^= old ^ value
            self._whole = b""

    def whole(self) -> bytes:
        """One digest for all."""
        if not self._whole:
            self._whole = hash_of([self.each()]).to_bytes(WIDTH, "big")
        return self._whole

    def each(self) -> bytes:
        """All buckets' digests, one after another."""
        return b"".join(value.to_bytes(WIDTH, "big") for value in self._sums)


def differing(one: bytes, other: bytes) -> Sequence[int]:
    """
    The buckets that differ.

    @raises WireError: one of them is not a row of digests.
    """
    if len(one) != BUCKETS * WIDTH or len(other) != BUCKETS * WIDTH:
        raise WireError("digests")
    return [
        index
        for index in range(BUCKETS)
        if one[index * WIDTH : (index + 1) * WIDTH] != other[index * WIDTH : (index + 1) * WIDTH]
    ]
