"""
Large objects: each is a file of its own, named after its digest, and created under another name.
"""

from __future__ import annotations

import os
from contextlib import suppress

from saltwisted.stores.files import make_dir, store_error
from saltwisted.stores.roots.places import OWN_FILE, Places, Step


class ObjectFiles:
    """
    The files of the large objects of a store; any thread.

    @param store: the directory of the store.
    """

    def __init__(self, store: str, step: Step) -> None:
        self._store = store
        self._step = step

    def path(self, digest: bytes) -> str:
        """The file of an object."""
        name = digest.hex()
        return f"{self._store}/objects/{name[:2]}/{name[2:]}"

    def part_path(self, digest: bytes) -> str:
        """Where an object grows that has not arrived whole."""
        return f"{self._store}/part/{digest.hex()}"

    def temporary(self) -> str:
        """A fresh name in this store."""
        return f"{self._store}/part/.tmp-{os.urandom(8).hex()}"

    def recover(self, places: Places) -> None:
        """Remove what no transaction refers to."""
        for folder in os.scandir(f"{self._store}/objects"):
            for entry in os.scandir(folder):
                known = places.known.get(_digest_of(folder.name + entry.name))
                if known is None or known.pack != OWN_FILE:
                    os.unlink(entry)

    def write(self, data: bytes) -> str:
        """
        A file of these bytes under another name, for L{adopt}.

        @raises StoreError: the disk refused.
        """
        path = self.temporary()
        try:
            self._step("object-write")
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise store_error(error, self._store) from error
        return path

    def adopt(self, digest: bytes, path: str) -> set[str]:
        """
        Give a file in this store the name of the object that it is.

        @return: the directories that are to be made durable for it.
        @raises StoreError: the disk refused; the file is gone then.
        """
        try:
            self._step("object-fsync")
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fchmod(fd, 0o400)
                os.fsync(fd)
            finally:
                os.close(fd)
            target = self.path(digest)
            folder = os.path.dirname(target)
            make_dir(folder)
            self._step("object-rename")
            os.rename(path, target)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise store_error(error, self._store) from error
        return {folder, f"{self._store}/objects"}

    def remove(self, digest: bytes) -> None:
        """Delete the object."""
        with suppress(OSError):
            os.unlink(self.path(digest))


def _digest_of(name: str) -> bytes:
    """What a file of a large object is named after; nothing's, for another name."""
    try:
        return bytes.fromhex(name)
    except ValueError:
        return b""
