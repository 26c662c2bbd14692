"""
Reads everything again, a little at a time, to find what a disk has lost silently.

Each week, each content in the store is hashed once, and so is each file of the working tree whose
times say that nobody wrote it. A damaged content is fetched from a peer. A file that has changed
although nobody seems to have written it is reported, and never sent to anybody. Everything here
blocks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from attrs import define, field

from saltwisted.domain.roots.entry import FILE
from saltwisted.errors import StoreError
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.packs import PIECE
from saltwisted.stores.roots.treefs import Identity, TreeFs

PARTS = 168
"""A week has so many hours."""


@define
class Found:
    """
    What a part of the weekly check found.

    @ivar read: how many contents and files were read.
    @ivar damaged: contents that do not match their digests, with their sizes.
    @ivar rotten: files that differ from what was committed, although their times have not changed.
    @ivar sound: files that were read and are correct.
    """

    read: int = 0
    damaged: dict[bytes, int] = field(factory=dict)
    rotten: set[bytes] = field(factory=set)
    sound: set[bytes] = field(factory=set)


def look(root: str, known: Mapping[bytes, Known], store: ContentStore, part: int) -> Found:
    """
    Read one part of all; which it is depends on the digest of each.

    @param part: counts up; modulo L{PARTS}.
    @raises StoreError: the root cannot be opened.
    """
    found = Found()
    part %= PARTS
    for digest, size in store.sizes():
        if int.from_bytes(digest[:4], "big") % PARTS == part:
            found.read += 1
            if not _is_sound(store, digest, size):
                found.damaged[digest] = size
    fs = TreeFs(root)
    try:
        for path, one in list(known.items()):
            entry, identity = one
            if entry.kind != FILE or identity is None:
                continue
            if int.from_bytes(entry.content[:4], "big") % PARTS != part:
                continue
            found.read += 1
            rotten = _differs(fs, path, entry.content, identity)
            if rotten is not None:
                (found.rotten if rotten else found.sound).add(path)
    finally:
        fs.close()
    return found


def _is_sound(store: ContentStore, digest: bytes, size: int) -> bool:
    whole = hashlib.sha256()
    try:
        for at in range(0, size, PIECE):
            whole.update(store.read(digest, at, PIECE))
    except StoreError:
        # Forgotten meanwhile is not damaged
        return not store.has(digest)
    return whole.digest() == digest


def _differs(fs: TreeFs, path: bytes, digest: bytes, identity: Identity) -> bool | None:
    """Whether a file is another than was committed; C{None} if it was written, or not read."""
    try:
        fd = fs.open(path)
    except OSError:
        return None
    try:
        if Identity.of(os.fstat(fd)) != identity:
            return None
        whole = hashlib.sha256()
        while piece := os.read(fd, PIECE):
            whole.update(piece)
        if Identity.of(os.fstat(fd)) != identity:
            return None
        return whole.digest() != digest
    except OSError:
        return None
    finally:
        os.close(fd)
