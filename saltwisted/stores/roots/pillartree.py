"""
A generation of pillar roots as a directory, for the workers that compile pillars.

Nobody edits these directories, so unchanged files are hard links to the generation before. Files
are 0600 and directories 0700, whatever their modes in the working tree. The name C{current} is a
link that changes in one step. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress

from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.stores.files import make_dir
from saltwisted.stores.roots.objects import ContentStore

CURRENT = "current"
KEEP = 3


class PillarTree:
    """@param folder: a directory that only this tree uses."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.current = f"{folder}/{CURRENT}"
        self._last: tuple[str, Generation] | None = None
        self._count = 0

    def prepare(self) -> None:
        """Remove what an earlier process left, and begin with an empty tree."""
        make_dir(self.folder)
        with suppress(OSError):
            os.unlink(self.current)
        for name in os.listdir(self.folder):
            shutil.rmtree(f"{self.folder}/{name}", ignore_errors=True)
        empty = f"{self.folder}/0"
        make_dir(empty)
        os.symlink("0", self.current)

    def show(self, generation: Generation, store: ContentStore) -> None:
        """
        Make this generation the current one.

        @raises StoreError: the disk refuses; the one before stays.
        """
        self._count += 1
        name = f"{self._count}-{generation.name}"
        top = f"{self.folder}/{name}"
        try:
            os.mkdir(top, 0o700)
            for path, entry in generation.walk():
                self._put(os.fsencode(top) + b"/" + path, path, entry, store)
            temporary = f"{self.folder}/.tmp-{self._count}"
            os.symlink(name, temporary)
            os.rename(temporary, self.current)
        except OSError as error:
            shutil.rmtree(top, ignore_errors=True)
            raise StoreError(error.strerror or str(error), top) from error
        self._last = (top, generation)
        old = self._count - KEEP
        for each in os.listdir(self.folder):
            number = each.partition("-")[0]
            if number.isdigit() and int(number) <= old:
                shutil.rmtree(f"{self.folder}/{each}", ignore_errors=True)

    def _put(self, full: bytes, path: bytes, entry: TreeEntry, store: ContentStore) -> None:
        if entry.kind == DIR:
            os.mkdir(full, 0o700)
        elif entry.kind == LINK:
            os.symlink(entry.content, full)
        elif entry.kind == FILE:
            if self._last is not None:
                before = self._last[1].get(path)
                if before is not None and before == entry:
                    with suppress(OSError):
                        os.link(os.fsencode(self._last[0]) + b"/" + path, full)
                        return
            fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                at, whole = 0, hashlib.sha256()
                while at < entry.size:
                    piece = store.read(entry.content, at, 1 << 20)
                    os.write(fd, piece)
                    whole.update(piece)
                    at += len(piece)
                if whole.digest() != entry.content:
                    raise StoreError("is damaged on disk", os.fsdecode(path))
                os.utime(fd, ns=(entry.mtime, entry.mtime))
            finally:
                os.close(fd)
