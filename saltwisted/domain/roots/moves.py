"""
Directories that moved whole, found when a batch is made and unfolded where it arrives.

A moved directory is thousands of deletions and as many additions that say nothing new:
on the wire one record stands for them, with the digest of the subtree. Where the
subtree is another, the receiver asks for the plain entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from saltwisted.domain.roots.entry import ABSENT, DIR, GONE, Move, TreeEntry, ancestors
from saltwisted.domain.roots.manifest import Folder, subtree, subtree_digest

WORTH = 3
"""Entries below which a move is not worth a record."""


def find_moves(
    folders: Mapping[bytes, Folder], changed: Mapping[bytes, TreeEntry]
) -> tuple[Move, ...]:
    """
    The directories that the changes move whole.

    @param folders: the tree before the changes.
    """
    gone: dict[bytes, bytes] = {}
    for path, entry in changed.items():
        if entry.kind != ABSENT or path not in folders or _inside(path, changed, ABSENT):
            continue
        below = subtree(folders, path)
        head, _, tail = path.rpartition(b"/")
        top = folders.get(head, {}).get(tail)
        if top is None or len(below) < WORTH:
            continue
        if all(changed.get(path + b"/" + rel) == GONE for rel, _ in below):
            gone.setdefault(subtree_digest(top, below), path)
    if not gone:
        return ()
    fresh: dict[bytes, list[tuple[bytes, TreeEntry]]] = {}
    tops: dict[bytes, list[bytes]] = {}
    for path, entry in changed.items():
        if entry.kind == ABSENT:
            continue
        head = path.rpartition(b"/")[0]
        if head not in tops:
            tops[head] = [
                above
                for above in (head, *ancestors(head))
                if (top := changed.get(above)) is not None
                and top.kind == DIR
                and above not in folders
            ]
        for above in tops[head]:
            fresh.setdefault(above, []).append((path[len(above) + 1 :], entry))
    moves: list[Move] = []
    for new, below in sorted(fresh.items()):
        if any(new.startswith(move.new + b"/") for move in moves):
            continue
        below.sort()
        digest = subtree_digest(changed[new], below)
        old = gone.pop(digest, None)
        if old is not None:
            moves.append(Move(old, new, digest))
    return tuple(moves)


def _inside(path: bytes, changed: Mapping[bytes, TreeEntry], kind: str) -> bool:
    head = path.rpartition(b"/")[0]
    return head in changed and changed[head].kind == kind


def unfolded(
    entries: Iterable[tuple[bytes, TreeEntry]], moves: tuple[Move, ...]
) -> list[tuple[bytes, TreeEntry]]:
    """The entries that no move stands for."""
    tops = {top for move in moves for top in (move.old, move.new)}
    inside = tuple(top + b"/" for top in tops)
    return [pair for pair in entries if pair[0] not in tops and not pair[0].startswith(inside)]


def unfold(
    folders: Mapping[bytes, Folder], moves: tuple[Move, ...]
) -> dict[bytes, TreeEntry] | None:
    """
    The changes that moves stand for; C{None} where the subtree here is another.

    @param folders: the visible tree that the batch is about to change.
    """
    found: dict[bytes, TreeEntry] = {}
    for move in moves:
        head, _, tail = move.old.rpartition(b"/")
        top = folders.get(head, {}).get(tail)
        if top is None or top.kind != DIR:
            return None
        below = subtree(folders, move.old)
        if subtree_digest(top, below) != move.digest:
            return None
        found[move.old] = GONE
        found[move.new] = top
        for rel, entry in below:
            found[move.old + b"/" + rel] = GONE
            found[move.new + b"/" + rel] = entry
    return found
