"""
Manifests: the visible tree of one moment, and the digest that names it.

A manifest is a map of directories, each a map of names. Maps are shared between
generations and copied when they are written to, so a generation costs what changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from saltwisted.domain.roots.entry import DIR, FILE, Knowledge, TreeEntry, split

Folder = Mapping[bytes, TreeEntry]


def folder_digest(folder: Folder) -> bytes:
    """The digest of the entries of one directory: names, kinds, modes and contents."""
    parts = []
    for name in sorted(folder):
        kind, mode, _, _, content = folder[name]
        parts.append(
            b"%d:%s%s%o:%d:%s" % (len(name), name, kind.encode(), mode, len(content), content)
        )
    return hashlib.sha256(b"".join(parts)).digest()


def root_digest(folders: Mapping[bytes, bytes]) -> bytes:
    """The digest of a tree, of the digests of its directories that are not empty."""
    whole = hashlib.sha256()
    for path in sorted(folders):
        whole.update(b"%d:%s%s" % (len(path), path, folders[path]))
    return whole.digest()


def name_of(digest: bytes) -> str:
    """How a generation is called outside the index: twelve hex digits."""
    return digest.hex()[:12]


def name_of_all(digests: Mapping[str, bytes]) -> str:
    """The name of several shares' trees together; of one share, that of its own tree."""
    if len(digests) == 1:
        return name_of(next(iter(digests.values())))
    whole = hashlib.sha256()
    for name in sorted(digests):
        whole.update(name.encode() + b"\0" + digests[name])
    return name_of(whole.digest())


@frozen
class Generation:
    """
    One committed tree; never changes.

    @ivar number: counts the commits of this node.
    @ivar folders: directory to its entries; an empty directory is only in its parent.
    @ivar digests: directory to the digest of its entries.
    @ivar at: seconds since 1970.
    @ivar files: how many files there are, and
    @ivar size: their bytes.
    """

    number: int
    digest: bytes
    folders: Mapping[bytes, Folder] = field(repr=False)
    digests: Mapping[bytes, bytes] = field(repr=False)
    knowledge: Knowledge = field(repr=False)
    at: float = 0.0
    files: int = 0
    size: int = 0

    @property
    def name(self) -> str:
        """Twelve hex digits."""
        return name_of(self.digest)

    def get(self, path: bytes) -> TreeEntry | None:
        """What is at a path."""
        head, tail = split(path)
        folder = self.folders.get(head)
        return None if folder is None else folder.get(tail)

    def walk(self) -> Iterator[tuple[bytes, TreeEntry]]:
        """Every path, parents before what is in them."""
        for head in sorted(self.folders):
            for name, entry in self.folders[head].items():
                yield (head + b"/" + name if head else name), entry

    def counts(self) -> tuple[int, int]:
        """Files, and their bytes."""
        return self.files, self.size


def generation_of(tree: Mapping[bytes, TreeEntry], like: Generation, at: float) -> Generation:
    """
    A generation of these entries, which shares equal parts with another one; it has no number.
    """
    folders: dict[bytes, dict[bytes, TreeEntry]] = {}
    for path, entry in tree.items():
        head, tail = split(path)
        folders.setdefault(head, {})[tail] = entry
    digests = {head: folder_digest(folder) for head, folder in folders.items()}
    shared: dict[bytes, Folder] = {
        head: like.folders[head] if like.digests.get(head) == digests[head] else folder
        for head, folder in folders.items()
    }
    sizes = [entry.size for entry in tree.values() if entry.kind == FILE]
    return Generation(0, root_digest(digests), shared, digests, {}, at, len(sizes), sum(sizes))


def subtree(folders: Mapping[bytes, Folder], top: bytes) -> list[tuple[bytes, TreeEntry]]:
    """What is below a directory, by path relative to it; nothing if it does not exist."""
    found: list[tuple[bytes, TreeEntry]] = []
    waiting = [b""]
    while waiting:
        rel = waiting.pop()
        folder = folders.get(top + b"/" + rel if rel else top)
        for name, entry in (folder or {}).items():
            path = rel + b"/" + name if rel else name
            found.append((path, entry))
            if entry.kind == DIR:
                waiting.append(path)
    found.sort()
    return found


def subtree_digest(top: TreeEntry, below: list[tuple[bytes, TreeEntry]]) -> bytes:
    """The digest of a subtree with times: what a moved directory must equal to the last bit."""
    whole = hashlib.sha256(b"%s%o" % (top.kind.encode(), top.mode))
    for path, entry in below:
        whole.update(
            b"%d:%s%s%o:%d:%d:%s"
            % (
                len(path),
                path,
                entry.kind.encode(),
                entry.mode,
                entry.mtime,
                len(entry.content),
                entry.content,
            )
        )
    return whole.digest()


def changes(
    old: Generation, new: Generation
) -> dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]:
    """Path to (before, after), for what differs; directories with one digest are not looked at."""
    found: dict[bytes, tuple[TreeEntry | None, TreeEntry | None]] = {}
    for head in sorted(old.folders.keys() | new.folders.keys()):
        was, now = old.folders.get(head, {}), new.folders.get(head, {})
        if was is now:
            continue
        for name in was.keys() | now.keys():
            before, after = was.get(name), now.get(name)
            if before != after:
                found[head + b"/" + name if head else name] = (before, after)
    return found
