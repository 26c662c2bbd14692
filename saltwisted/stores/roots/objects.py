"""
The content store of one share: objects by their SHA-256, small ones in packs.

Objects up to 64 KiB are appended to pack files, one C{fsync} for many; larger ones are
files of their own, written under a temporary name. Where an object lies is told by the
index database, in the same transaction that refers to it: what a crash leaves beyond that is cut
off at the next start. Everything here blocks; reads may come from any thread, writes are
serialised by a lock of this store.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from saltwisted.errors import StoreError
from saltwisted.stores.files import make_dir, store_error, sync_dir

SMALL = 64 * 1024
PACK_SIZE = 64 * 1024 * 1024
PIECE = 1024 * 1024
AHEAD = 256 * 1024
"""Bytes of a pack that are read at once for who reads its objects in their order."""
OWN_FILE = -1
_MOST_OPEN = 32

Step = Callable[[str], None]
"""Called before each act that a crash may prevent; tests count them and crash at each."""


def no_step(_what: str) -> None:
    """In service nothing happens between two acts."""


class Place(NamedTuple):
    """Where an object lies: C{pack} is -1 for a file of its own."""

    size: int
    pack: int
    offset: int


class ContentStore:
    """
    @param folder: a directory of this store alone.
    @param places: what the database knows.
    """

    def __init__(self, folder: str, places: dict[bytes, Place], step: Step = no_step) -> None:
        self._folder = folder
        self._places = places
        self._step = step
        self._lock = threading.RLock()
        self._files: OrderedDict[int, int] = OrderedDict()
        self._writing = -1
        self._pack = 0
        self._end = 0
        self._unsynced = False
        self._buffer = bytearray()
        self._ahead = (-1, 0, b"")
        self._next = (-1, 0)
        self._new_dirs: set[str] = set()
        self._fresh: dict[bytes, Place] = {}
        self._lent: set[int] = set()
        self._unsynced_lent: set[int] = set()
        for name in ("packs", "objects", "part"):
            make_dir(f"{folder}/{name}")
        self._recover()

    def _recover(self) -> None:
        """Cut off what no transaction refers to; refuse a store that lost what one does."""
        ends: dict[int, int] = {}
        for place in self._places.values():
            if place.pack != OWN_FILE:
                ends[place.pack] = max(ends.get(place.pack, 0), place.offset + place.size)
        self._damaged: set[int] = set()
        for name in os.listdir(f"{self._folder}/packs"):
            number = int(name[5:]) if name[5:].isdigit() else 0
            path = f"{self._folder}/packs/{name}"
            wanted = ends.pop(number, 0)
            if not wanted:
                os.unlink(path)
                continue
            size = os.stat(path).st_size
            if size > wanted:
                os.truncate(path, wanted)
            elif size < wanted:
                self._damaged.add(number)
            self._pack = max(self._pack, number)
        self._damaged |= set(ends)
        # A new pack for each start: an old one may be damaged, and none is written twice
        self._pack += 1
        for folder in os.scandir(f"{self._folder}/objects"):
            for entry in os.scandir(folder):
                known = self._places.get(_digest_of(folder.name + entry.name))
                if known is None or known.pack != OWN_FILE:
                    os.unlink(entry)

    def check(self) -> list[bytes]:
        """Objects that the database knows and the disk has not."""
        lost = []
        for digest, place in self._places.items():
            if place.pack == OWN_FILE:
                try:
                    if os.stat(self.path(digest)).st_size == place.size:
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
        return digest in self._places

    def is_new(self, digest: bytes) -> bool:
        """Whether the object was added since the last transaction."""
        return digest in self._fresh

    def sizes(self) -> list[tuple[bytes, int]]:
        """All objects, and how large each is."""
        with self._lock:
            return [(digest, place.size) for digest, place in self._places.items()]

    def total(self) -> int:
        """Bytes of all objects."""
        with self._lock:
            return sum(place.size for place in self._places.values())

    def size(self, digest: bytes) -> int:
        """Its size; -1 if it is not here."""
        place = self._places.get(digest)
        return -1 if place is None else place.size

    def path(self, digest: bytes) -> str:
        """The file of a large object."""
        name = digest.hex()
        return f"{self._folder}/objects/{name[:2]}/{name[2:]}"

    def part_path(self, digest: bytes) -> str:
        """Where a large object grows that has not arrived whole."""
        return f"{self._folder}/part/{digest.hex()}"

    def locate(self, digest: bytes) -> tuple[str, int, int]:
        """
        File, offset and size of an object, for a reader of its own.

        @raises StoreError: it is not here.
        """
        place = self._places.get(digest)
        if place is None:
            raise StoreError("no such object", digest.hex())
        if place.pack == OWN_FILE:
            return self.path(digest), 0, place.size
        with self._lock:
            if self._buffer and place.pack == self._pack:
                self._write_buffer()
        return self._pack_path(place.pack), place.offset, place.size

    def read(self, digest: bytes, start: int = 0, length: int = -1) -> bytes:
        """
        A range of an object, by default all.

        @raises StoreError: it is not here, or shorter than it should be.
        """
        place = self._places.get(digest)
        if place is None:
            raise StoreError("no such object", digest.hex())
        length = place.size - start if length < 0 else min(length, place.size - start)
        if length <= 0:
            return b""
        fd = -1
        try:
            if place.pack == OWN_FILE:
                fd = os.open(self.path(digest), os.O_RDONLY | os.O_CLOEXEC)
                data = os.pread(fd, length, start)
            else:
                with self._lock:
                    data = self._read_packed(place.pack, place.offset + start, length)
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

        @raises StoreError: one of them is not here, or shorter than it should be.
        """
        found: list[bytes] = []
        ahead, number, start = b"", -1, 0
        for digest in digests:
            place = self._places.get(digest)
            if place is None or place.pack == OWN_FILE:
                found.append(self.read(digest))
                continue
            size, pack, offset = place
            at = offset - start
            if pack != number or at < 0 or at + size > len(ahead):
                try:
                    with self._lock:
                        if self._buffer and pack == self._pack:
                            self._write_buffer()
                        ahead = os.pread(self._opened(pack), max(AHEAD, size), offset)
                except OSError as error:
                    raise store_error(error, digest.hex()) from error
                number, start, at = pack, offset, 0
            data = ahead[at : at + size]
            if len(data) != size:
                raise StoreError("is shorter than it was", digest.hex())
            found.append(data)
        return found

    def _read_packed(self, pack: int, at: int, length: int) -> bytes:
        """Of a pack; who reads one object after the other is served from what was read ahead."""
        number, start, ahead = self._ahead
        if number == pack and start <= at and at + length <= start + len(ahead):
            self._next = pack, at + length
            return ahead[at - start : at - start + length]
        if self._buffer and pack == self._pack:
            self._write_buffer()
        fd = self._opened(pack)
        in_order, self._next = self._next == (pack, at), (pack, at + length)
        if not in_order or length > AHEAD:
            return os.pread(fd, length, at)
        ahead = os.pread(fd, AHEAD, at)
        self._ahead = pack, at, ahead
        return ahead[:length]

    def read_pieces(self, digest: bytes, start: int, length: int, piece: int) -> Iterator[bytes]:
        """
        A range of a large object, piece by piece.

        @raises StoreError: it is not here, or shorter than it should be.
        """
        path, offset, size = self.locate(digest)
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

    def common_ends(self, one: bytes, other: bytes) -> tuple[int, int]:
        """
        How many bytes two objects have in common at their beginnings and at their ends, in whole
        pieces; the two do not overlap.

        @raises StoreError: one of them is not here, or cannot be read.
        """
        (path, base, size), (other_path, other_base, other_size) = map(self.locate, (one, other))
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

    def map(self, digest: bytes) -> mmap.mmap | bytes:
        """The whole object without copying a large one; close what has a C{close}."""
        place = self._places.get(digest)
        if place is None or place.pack != OWN_FILE or not place.size:
            return self.read(digest)
        try:
            fd = os.open(self.path(digest), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return mmap.mmap(fd, place.size, prot=mmap.PROT_READ)
            finally:
                os.close(fd)
        except (OSError, ValueError) as error:
            raise StoreError(str(error), digest.hex()) from error

    def _pack_path(self, number: int) -> str:
        return f"{self._folder}/packs/pack-{number}"

    def _opened(self, number: int) -> int:
        fd = self._files.get(number)
        if fd is None:
            fd = os.open(self._pack_path(number), os.O_RDONLY | os.O_CLOEXEC)
            self._files[number] = fd
            if len(self._files) > _MOST_OPEN:
                os.close(self._files.popitem(last=False)[1])
        else:
            self._files.move_to_end(number)
        return fd

    # -- writing

    def put(self, data: bytes) -> bytes:
        """Add a small object; it counts once L{flush} and the transaction are done."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._places:
            self.put_known(digest, data)
        return digest

    def put_known(self, digest: bytes, data: bytes) -> None:
        """Add an object whose digest the caller has checked."""
        if len(data) > SMALL:
            self._put_large(digest, data)
            return
        with self._lock:
            try:
                self._append([(digest, data)])
            except OSError as error:
                self._abandon_pack()
                raise store_error(error, self._folder) from error

    def put_all(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Add small objects whose digests the caller has checked."""
        with self._lock:
            try:
                self._append(pairs)
            except OSError as error:
                self._abandon_pack()
                raise store_error(error, self._folder) from error

    # -- packs that another process writes

    def lend(self) -> tuple[int, str]:
        """
        A new pack for another process to append to: its number and its path. What it has
        appended is told by L{keep}, and counts like everything once L{flush} is done.

        @raises StoreError: the disk refused.
        """
        with self._lock:
            number = max([self._pack, *self._lent]) + 1
            self._step("pack-create")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            while True:
                try:
                    os.close(os.open(self._pack_path(number), flags, 0o600))
                    break
                except FileExistsError:
                    number += 1
                except OSError as error:
                    raise store_error(error, self._folder) from error
            self._lent.add(number)
            self._new_dirs.add(f"{self._folder}/packs")
            return number, self._pack_path(number)

    def keep(self, number: int, objects: Iterable[tuple[bytes, int, int]]) -> None:
        """What was appended to a pack that was lent: digest, size and offset of each object."""
        with self._lock:
            for digest, size, offset in objects:
                if digest not in self._places:
                    self._places[digest] = self._fresh[digest] = Place(size, number, offset)
                    self._unsynced_lent.add(number)

    def take_back(self, number: int) -> None:
        """Nothing more is appended to a pack that was lent."""
        with self._lock:
            self._lent.discard(number)
            self._drop_unused({number})

    def packed(self, digest: bytes) -> Place | None:
        """Where a small object lies; C{None} if it is not here, or has a file of its own."""
        place = self._places.get(digest)
        return None if place is None or place.pack == OWN_FILE else place

    def show_packs(self, numbers: Iterable[int]) -> dict[int, str]:
        """
        The paths of packs, for a reader of its own that shall find in them what was added.

        @raises StoreError: the disk refused.
        """
        with self._lock:
            try:
                self._write_buffer()
            except OSError as error:
                self._abandon_pack()
                raise store_error(error, self._folder) from error
        return {number: self._pack_path(number) for number in numbers}

    def _sync_lent(self) -> None:
        for number in sorted(self._unsynced_lent):
            self._step("pack-fsync")
            fd = os.open(self._pack_path(number), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
            self._unsynced_lent.discard(number)

    def _append(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        places, fresh = self._places, self._fresh
        for digest, data in pairs:
            if digest in places:
                continue
            size = len(data)
            if self._writing < 0 or self._end + size > PACK_SIZE:
                self._next_pack()
            self._buffer += data
            places[digest] = fresh[digest] = Place(size, self._pack, self._end)
            self._end += size
            self._unsynced = True
            if len(self._buffer) >= PIECE:
                self._write_buffer()

    def _write_buffer(self) -> None:
        if not self._buffer:
            return
        self._step("pack-write")
        data, self._buffer = self._buffer, bytearray()
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._writing, rest) :]

    def _next_pack(self) -> None:
        if self._writing >= 0:
            self._sync_pack()
            os.close(self._writing)
            self._writing = -1
            self._pack += 1
        self._step("pack-create")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            try:
                self._writing = os.open(self._pack_path(self._pack), flags, 0o600)
                break
            except FileExistsError:
                self._pack += 1
        self._end = 0
        self._new_dirs.add(f"{self._folder}/packs")

    def _sync_pack(self) -> None:
        if self._unsynced:
            self._write_buffer()
            self._step("pack-fsync")
            os.fdatasync(self._writing)
            self._unsynced = False

    def _abandon_pack(self) -> None:
        """After a failed write nobody knows what the file holds: go on in another."""
        self._buffer.clear()
        if self._writing >= 0:
            with suppress(OSError):
                os.close(self._writing)
            self._writing = -1
        self._lose({self._pack})
        self._unsynced = False
        self._pack += 1

    def _lose(self, packs: Container[int]) -> None:
        for digest, place in list(self._fresh.items()):
            if place.pack in packs:
                del self._fresh[digest]
                self._places.pop(digest, None)

    def _put_large(self, digest: bytes, data: bytes) -> None:
        if digest in self._places:
            return
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
            raise store_error(error, self._folder) from error
        self.adopt(digest, len(data), path)

    def temporary(self) -> str:
        """A fresh name in this store."""
        return f"{self._folder}/part/.tmp-{os.urandom(8).hex()}"

    def adopt(self, digest: bytes, size: int, path: str) -> None:
        """
        Take over a file in this store whose digest the caller has checked.

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
            raise store_error(error, self._folder) from error
        with self._lock:
            self._new_dirs |= {folder, f"{self._folder}/objects"}
            self._places[digest] = self._fresh[digest] = Place(size, OWN_FILE, 0)

    def flush(self) -> dict[bytes, Place]:
        """
        Make everything durable that was added, and say where it lies.

        The caller stores that in the transaction which refers to it, and then calls L{stored}.
        """
        with self._lock:
            try:
                self._sync_pack()
            except OSError as error:
                self._abandon_pack()
                raise store_error(error, self._folder) from error
            try:
                self._sync_lent()
            except OSError as error:
                self._lose(self._unsynced_lent)
                self._unsynced_lent.clear()
                raise store_error(error, self._folder) from error
            for folder in self._new_dirs:
                self._step("dir-fsync")
                sync_dir(folder)
            self._new_dirs.clear()
            return dict(self._fresh)

    def stored(self, places: Iterable[bytes]) -> None:
        """These are in the database now."""
        with self._lock:
            for digest in places:
                self._fresh.pop(digest, None)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Objects that no row in the database refers to any more: free their room."""
        with self._lock:
            packs: set[int] = set()
            for digest in digests:
                place = self._places.pop(digest, None)
                if place is None:
                    continue
                if place.pack == OWN_FILE:
                    with suppress(OSError):
                        os.unlink(self.path(digest))
                else:
                    packs.add(place.pack)
            self._drop_unused(packs)

    def _drop_unused(self, packs: set[int]) -> None:
        """Remove those of these packs in which nothing is kept, and nothing is being written."""
        packs = packs - {place.pack for place in self._places.values()} - self._lent
        for number in packs - ({self._pack} if self._writing >= 0 else set()):
            fd = self._files.pop(number, None)
            if fd is not None:
                os.close(fd)
            with suppress(OSError):
                os.unlink(self._pack_path(number))

    def wasteful(self) -> list[bytes]:
        """Objects of packs that are more than half dead, to be added again."""
        with self._lock:
            living: dict[int, int] = {}
            for place in self._places.values():
                living[place.pack] = living.get(place.pack, 0) + place.size
            poor = set()
            for number, size in living.items():
                if number in (OWN_FILE, self._pack):
                    continue
                with suppress(OSError):
                    if os.stat(self._pack_path(number)).st_size > 2 * size:
                        poor.add(number)
            return [digest for digest, place in self._places.items() if place.pack in poor]

    def rewrite(self, digest: bytes) -> None:
        """Move a small object into the present pack."""
        data = self.read(digest)
        with self._lock:
            old = self._places.pop(digest)
            try:
                self._append([(digest, data)])
            except OSError as error:
                self._places[digest] = old
                self._abandon_pack()
                raise store_error(error, self._folder) from error

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._buffer.clear()
            if self._writing >= 0:
                os.close(self._writing)
                self._writing = -1
            for fd in self._files.values():
                os.close(fd)
            self._files.clear()


def _digest_of(name: str) -> bytes:
    """What a file of a large object is named after; nothing's, for another name."""
    try:
        return bytes.fromhex(name)
    except ValueError:
        return b""


def _alike(fds: Sequence[int], at: int, by: int) -> bool:
    """Bytes are compared many times faster than what is mapped."""
    return os.pread(fds[0], AHEAD, at) == os.pread(fds[1], AHEAD, by)
