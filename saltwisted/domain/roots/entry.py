"""
The nouns of replicated roots: entries, dots, versions, knowledge and batches.

A path is C{bytes} below its root, without leading slash. A version of a path is named by
a dot: the replica that wrote it, and that replica's counter. What a replica has
seen is a knowledge vector: for each replica, all dots up to a counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from attrs import field, frozen

from saltwisted.domain.causality.knowledge import Dot

FILE, DIR, LINK, ABSENT = "f", "d", "l", "-"
KINDS = FILE + DIR + LINK + ABSENT


class ReplicaId(NamedTuple):
    """
    Who writes: a master, and the life of its index.

    The incarnation is 64 random bits, new when the index is created, restored from a copy, or
    found behind what a peer says of it. Its lowest bit names the lane: 0 is the main
    one, 1 the one of large batches, which later small ones need not wait for.
    """

    master: str
    incarnation: bytes


def lanes(master: str, random: bytes) -> tuple[ReplicaId, ReplicaId]:
    """The main and the bulk lane of an incarnation made of these 8 bytes."""
    head, last = random[:-1], random[-1]
    return (
        ReplicaId(master, head + bytes([last & 0xFE])),
        ReplicaId(master, head + bytes([last | 1])),
    )


Knowledge = Mapping[ReplicaId, int]
"""Replica to counter: all its dots up to there are known."""


class TreeEntry(NamedTuple):
    """
    What is at a path; a tuple, since tens of thousands are made and compared at a time.

    @ivar kind: C{f}, C{d}, C{l} or C{-} (absent).
    @ivar mode: permission bits, of files and directories.
    @ivar size: bytes, of files.
    @ivar mtime: nanoseconds since 1970, of files and links.
    @ivar content: a file's SHA-256, a link's target.
    """

    kind: str
    mode: int = 0
    size: int = 0
    mtime: int = 0
    content: bytes = b""

    def same_content(self, other: TreeEntry) -> bool:
        """Whether nothing is lost when one stands for the other."""
        return self.kind == other.kind and self.content == other.content


GONE = TreeEntry(ABSENT)
IMPLIED = TreeEntry(DIR, 0o755)
"""A directory that is there because something in it is, though its own row says otherwise."""


class Version(NamedTuple):
    """One version of a path; the stamp is a hybrid logical clock's, for order and display."""

    dot: Dot[ReplicaId]
    stamp: int
    entry: TreeEntry


class Conflict(NamedTuple):
    """A version that is not visible though nobody replaced it knowingly."""

    path: bytes
    version: Version


class Move(NamedTuple):
    """A directory that moved whole: the digest is that of its subtree, to expand it safely."""

    old: bytes
    new: bytes
    digest: bytes


Coded = tuple[list[int], list[int], bytes]
"""Sorted paths: how many bytes each has in common with the one before, how many more, and those."""


@frozen(kw_only=True)
class Batch:
    """
    Changes that one replica made together: all become visible together, or none.

    TreeEntry number C{i} has the counter C{lo + i}; entries are sorted by path.

    @ivar deps: what the writer had seen; a version whose dot is inside it is replaced.
    @ivar settled: conflicts that an operator has closed.
    @ivar approved: who said that deletions beyond the brake are meant; C{""} for nobody.
    @ivar moves: directories among the entries that moved whole.
    @ivar coded: its paths as they came, see L{saltwisted.domain.roots.codec}; no part of it.
    """

    replica: ReplicaId
    lo: int
    stamp: int
    deps: Knowledge = field(repr=False)
    entries: tuple[tuple[bytes, TreeEntry], ...]
    settled: tuple[tuple[bytes, Dot[ReplicaId]], ...] = ()
    approved: str = ""
    moves: tuple[Move, ...] = ()
    coded: Coded | None = field(default=None, eq=False, repr=False)

    @property
    def hi(self) -> int:
        """The last counter. A batch that only settles takes one all the same."""
        return self.lo + max(len(self.entries), 1) - 1

    @property
    def name(self) -> tuple[ReplicaId, int]:
        """What distinguishes it from every other batch."""
        return self.replica, self.lo


# -- paths


def split(path: bytes) -> tuple[bytes, bytes]:
    """Directory and name; the directory of a top-level name is C{b""}."""
    head, _, tail = path.rpartition(b"/")
    return head, tail


def ancestors(path: bytes) -> Iterable[bytes]:
    """The directories above, nearest first, without the root."""
    head = path.rpartition(b"/")[0]
    while head:
        yield head
        head = head.rpartition(b"/")[0]
