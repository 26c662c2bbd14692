"""
The content store of one share: objects by their SHA-256, small ones in packs.

Objects up to 64 KiB are appended to pack files (L{saltwisted.stores.roots.packs}), with one
C{fsync} for many; larger ones are files of their own (L{saltwisted.stores.roots.objectfiles}). The
index database records where an object is, in the same transaction that refers to the object; the
next start cuts off whatever a crash leaves beyond that. Everything here blocks. Any thread may
read; a lock of this store serialises writes.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from saltwisted.domain.roots.entry import FILE, TreeEntry
from saltwisted.errors import StoreError
from saltwisted.stores.files import make_dir, store_error, sync_dir
from saltwisted.stores.roots.objectfiles import ObjectFiles
from saltwisted.stores.roots.packs import AHEAD, LentPacks, PackFolder, PackReader, PackWriter
from saltwisted.stores.roots.places import OWN_FILE, Place, Places, Step, no_step

SMALL = 64 * 1024


class ContentStore:
    """
    The objects of a share by their digests, wherever they are.

    @param folder: a directory that only this store uses.
    @param places: what the database knows.
    @ivar large: the files of large objects.
    @ivar lent: packs that another process writes.
    """

    def __init__(self, folder: str, places: dict[bytes, Place], step: Step = no_step) -> None:
        self._folder = folder
        self._step = step
        self._lock = threading.RLock()
        self._places = Places(places)
        self._new_dirs: set[str] = set()
        for name in ("packs", "objects", "part"):
            make_dir(f"{folder}/{name}")
        self._packs = PackFolder(folder, self._new_dirs, step)
        highest, self._damaged = self._packs.recover(self._places.ends())
        # A new pack for each start: an old one may be damaged, and none is written twice
        self._writer = PackWriter(self._packs, self._places, highest + 1, step)
        self._reader = PackReader(self._packs, self._writer.show)
        self.lent = LentPacks(
            self._packs, self._places, self._writer, self._lock, step, self._drop_unused
        )
        self.large = ObjectFiles(folder, step)
        self.large.recover(self._places)

    def check(self) -> list[bytes]:
        """Objects that the database knows and the disk has not."""
        lost = []
        for digest, place in self._places.known.items():
            if place.pack == OWN_FILE:
                try:
                    if os.stat(self.large.path(digest)).st_size == place.size:
                        continue
                except OSError:
                    pass
                lost.append(digest)
            elif place.pack in self._damaged:
                try:
                    if hashlib.sha256(self.read(digest)).digest() == digest:
                        continue
                except StoreError:
                    pass
                lost.append(digest)
        return lost

    # -- reading

    def has(self, digest: bytes) -> bool:
        """Whether the object is here."""
        return digest in self._places.known

    def is_new(self, digest: bytes) -> bool:
        """Whether the object was added since the last transaction."""
        return digest in self._places.fresh

    def sizes(self) -> list[tuple[bytes, int]]:
        """All objects, and how large each is."""
        with self._lock:
            return [(digest, place.size) for digest, place in self._places.known.items()]

    def total(self) -> int:
        """Bytes of all objects."""
        with self._lock:
            return sum(place.size for place in self._places.known.values())

    def size(self, digest: bytes) -> int:
        """Its size; -1 if it is missing."""
        place = self._places.known.get(digest)
        return -1 if place is None else place.size

    def locate(self, digest: bytes) -> tuple[str, int, int]:
        """
        File, offset and size of an object, for a reader of its own.

        @raises StoreError: it is missing.
        """
        place = self._place(digest)
        if place.pack == OWN_FILE:
            return self.large.path(digest), 0, place.size
        with self._lock:
            self._writer.show(place.pack)
        return self._packs.path(place.pack), place.offset, place.size

    def _place(self, digest: bytes) -> Place:
        place = self._places.known.get(digest)
        if place is None:
            raise StoreError("no such object", digest.hex())
        return place

    def read(self, digest: bytes, start: int = 0, length: int = -1) -> bytes:
        """
        A range of an object, by default all.

        @raises StoreError: it is missing, or too short.
        """
        place = self._place(digest)
        length = place.size - start if length < 0 else min(length, place.size - start)
        if length <= 0:
            return b""
        fd = -1
        try:
            if place.pack == OWN_FILE:
                fd = os.open(self.large.path(digest), os.O_RDONLY | os.O_CLOEXEC)
                data = os.pread(fd, length, start)
            else:
                with self._lock:
                    data = self._reader.read(place.pack, place.offset + start, length)
        except OSError as error:
            raise store_error(error, digest.hex()) from error
        finally:
            if fd >= 0:
                os.close(fd)
        if len(data) != length:
            raise StoreError("is shorter than it was", digest.hex())
        return data

    def read_all(self, digests: Iterable[bytes]) -> list[bytes]:
        """
        Small objects, quickest in the order in which they were added.

        @raises StoreError: one of them is missing, or too short.
        """
        found: list[bytes] = []
        ahead, number, start = b"", -1, 0
        for digest in digests:
            place = self._places.known.get(digest)
            if place is None or place.pack == OWN_FILE:
                found.append(self.read(digest))
                continue
            size, pack, offset = place
            at = offset - start
            if pack != number or at < 0 or at + size > len(ahead):
                try:
                    with self._lock:
                        ahead = self._reader.read_at(pack, offset, max(AHEAD, size))
                except OSError as error:
                    raise store_error(error, digest.hex()) from error
                number, start, at = pack, offset, 0
            data = ahead[at : at + size]
            if len(data) != size:
                raise StoreError("is shorter than it was", digest.hex())
            found.append(data)
        return found

    def packed(self, digest: bytes) -> Place | None:
        """Where a small object is; C{None} if it is missing, or has a file of its own."""
        place = self._places.known.get(digest)
        return None if place is None or place.pack == OWN_FILE else place

    def show_packs(self, numbers: Iterable[int]) -> dict[int, str]:
        """
        The paths of packs, for a separate reader that must find added objects in them.

        @raises StoreError: the disk refused.
        """
        with self._appending() as writer:
            writer.write()
        return {number: self._packs.path(number) for number in numbers}

    # -- writing

    @contextmanager
    def _appending(self) -> Iterator[PackWriter]:
        """
        The writer of the present pack, under the lock.

        @raises StoreError: the disk refused; what was appended since the last time is lost.
        """
        with self._lock:
            try:
                yield self._writer
            except OSError as error:
                self._writer.abandon()
                raise store_error(error, self._folder) from error

    def put(self, data: bytes) -> bytes:
        """Add an object; it counts once L{flush} and the transaction are done."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._places.known:
            self.put_known(digest, data)
        return digest

    def put_known(self, digest: bytes, data: bytes) -> None:
        """Add an object whose digest the caller has checked."""
        if len(data) <= SMALL:
            self.put_all([(digest, data)])
        elif digest not in self._places.known:
            self.adopt(digest, len(data), self.large.write(data))

    def put_all(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Add small objects whose digests the caller has checked."""
        with self._appending() as writer:
            writer.append(pairs)

    def adopt(self, digest: bytes, size: int, path: str) -> None:
        """
        Take over a file in this store whose digest the caller has checked.

        @raises StoreError: the disk refused; the file is gone then.
        """
        folders = self.large.adopt(digest, path)
        with self._lock:
            self._new_dirs |= folders
            self._places.add(digest, Place(size, OWN_FILE, 0))

    def flush(self) -> dict[bytes, Place]:
        """
        Make all added objects durable, and return their places.

        The caller stores these in the transaction that refers to the objects, and then calls
        L{stored}.
        """
        with self._lock:
            with self._appending() as writer:
                writer.sync()
            self.lent.sync()
            for folder in self._new_dirs:
                self._step("dir-fsync")
                sync_dir(folder)
            self._new_dirs.clear()
            return dict(self._places.fresh)

    def stored(self, places: Iterable[bytes]) -> None:
        """These are in the database now."""
        with self._lock:
            self._places.stored(places)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Delete objects to which no row in the database refers any more."""
        with self._lock:
            packs: set[int] = set()
            for digest in digests:
                place = self._places.known.pop(digest, None)
                if place is None:
                    continue
                if place.pack == OWN_FILE:
                    self.large.remove(digest)
                else:
                    packs.add(place.pack)
            self._drop_unused(packs)

    def _drop_unused(self, packs: set[int]) -> None:
        """Remove those of these packs in which nothing is kept, and nothing is being written."""
        used = {place.pack for place in self._places.known.values()} | self.lent.numbers
        if self._writer.is_writing:
            used.add(self._writer.number)
        for number in packs - used:
            self._packs.remove(number)

    def wasteful(self) -> list[bytes]:
        """Objects of packs that are more than half dead, to be added again."""
        with self._lock:
            poor = set()
            for number, size in self._places.living().items():
                if number != self._writer.number:
                    with suppress(OSError):
                        if self._packs.size(number) > 2 * size:
                            poor.add(number)
            known = self._places.known
            return [digest for digest, place in known.items() if place.pack in poor]

    def rewrite(self, digest: bytes) -> None:
        """Move a small object into the present pack."""
        data = self.read(digest)
        with self._appending() as writer:
            old = self._places.known.pop(digest)
            try:
                writer.append([(digest, data)])
            except OSError:
                self._places.known[digest] = old
                raise

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._writer.close()
            self._packs.close()


def missing_from(objects: ContentStore, entries: Iterable[TreeEntry]) -> dict[bytes, int]:
    """Digest to size of the contents that are missing."""
    return {
        entry.content: entry.size
        for entry in entries
        if entry.kind == FILE and not objects.has(entry.content)
    }
