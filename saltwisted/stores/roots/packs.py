"""
Packs: files to which small objects are appended, with one C{fsync} for many.

A pack has one writer, this process or another that it was lent to, and nobody writes to it again
after a start. All of this is called under the lock of its store; L{LentPacks} takes the lock
itself.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress

from saltwisted.stores.files import store_error
from saltwisted.stores.roots.places import Place, Places, Step

PACK_SIZE = 64 * 1024 * 1024
PIECE = 1024 * 1024
AHEAD = 256 * 1024
"""Bytes of a pack that are read at once for who reads its objects in their order."""
_MOST_OPEN = 32


class PackFolder:
    """
    The pack files of a store, by their numbers.

    @param store: the directory of the store.
    @param new_dirs: directories that contain new names and are not durable yet.
    """

    def __init__(self, store: str, new_dirs: set[str], step: Step) -> None:
        self.store = store
        self._path = f"{store}/packs"
        self._new_dirs = new_dirs
        self._step = step
        self._open: OrderedDict[int, int] = OrderedDict()

    def path(self, number: int) -> str:
        """The file of a pack."""
        return f"{self._path}/pack-{number}"

    def create(self, number: int, flags: int = 0) -> tuple[int, int]:
        """
        A new pack of this number, or of the next that is free: number and descriptor.

        @raises OSError: the disk refused.
        """
        self._step("pack-create")
        flags |= os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        while True:
            try:
                fd = os.open(self.path(number), flags, 0o600)
                break
            except FileExistsError:
                number += 1
        self._new_dirs.add(self._path)
        return number, fd

    def recover(self, ends: dict[int, int]) -> tuple[int, set[int]]:
        """
        Cut off what no transaction refers to.

        @param ends: how long each pack is at least.
        @return: the highest number, and the packs that are shorter, or gone.
        """
        highest = 0
        damaged: set[int] = set()
        for name in os.listdir(self._path):
            number = int(name[5:]) if name[5:].isdigit() else 0
            path = f"{self._path}/{name}"
            wanted = ends.pop(number, 0)
            if not wanted:
                os.unlink(path)
                continue
            size = os.stat(path).st_size
            if size > wanted:
                os.truncate(path, wanted)
            elif size < wanted:
                damaged.add(number)
            highest = max(highest, number)
        return highest, damaged | set(ends)

    def opened(self, number: int) -> int:
        """A descriptor to read from; it stays open for some time."""
        fd = self._open.get(number)
        if fd is None:
            fd = os.open(self.path(number), os.O_RDONLY | os.O_CLOEXEC)
            self._open[number] = fd
            if len(self._open) > _MOST_OPEN:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(number)
        return fd

    def remove(self, number: int) -> None:
        """Nothing in this pack is kept."""
        fd = self._open.pop(number, None)
        if fd is not None:
            os.close(fd)
        with suppress(OSError):
            os.unlink(self.path(number))

    def size(self, number: int) -> int:
        """
        Bytes of a pack.

        @raises OSError: it is missing.
        """
        return os.stat(self.path(number)).st_size

    def close(self) -> None:
        """Close all files."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


class PackReader:
    """
    Ranges of packs. It reads ahead for callers that read one object after another.

    @param show: writes out what was appended to a pack, so that it can be read.
    """

    def __init__(self, folder: PackFolder, show: Callable[[int], None]) -> None:
        self._folder = folder
        self._show = show
        self._ahead = (-1, 0, b"")
        self._next = (-1, 0)

    def read(self, pack: int, at: int, length: int) -> bytes:
        """A range; shorter than asked for if the pack is."""
        number, start, ahead = self._ahead
        if number == pack and start <= at and at + length <= start + len(ahead):
            self._next = pack, at + length
            return ahead[at - start : at - start + length]
        in_order, self._next = self._next == (pack, at), (pack, at + length)
        if not in_order or length > AHEAD:
            return self.read_at(pack, at, length)
        ahead = self.read_at(pack, at, AHEAD)
        self._ahead = pack, at, ahead
        return ahead[:length]

    def read_at(self, pack: int, at: int, length: int) -> bytes:
        """A range, and nothing ahead of it."""
        self._show(pack)
        return os.pread(self._folder.opened(pack), length, at)


class PackWriter:
    """
    Appends to one pack after another.

    @ivar number: the number of the pack that is being written, or will be begun.
    """

    def __init__(self, folder: PackFolder, places: Places, number: int, step: Step) -> None:
        self.number = number
        self._folder = folder
        self._places = places
        self._step = step
        self._fd = -1
        self._end = 0
        self._unsynced = False
        self._buffer = bytearray()

    @property
    def is_writing(self) -> bool:
        """Whether the pack of that number is begun."""
        return self._fd >= 0

    def append(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """
        Add objects whose digests the caller has checked; they are durable after L{sync}.

        @raises OSError: the disk refused; nobody knows what the pack holds: L{abandon} it.
        """
        known, fresh = self._places.known, self._places.fresh
        for digest, data in pairs:
            if digest in known:
                continue
            size = len(data)
            if self._fd < 0 or self._end + size > PACK_SIZE:
                self._next()
            self._buffer += data
            known[digest] = fresh[digest] = Place(size, self.number, self._end)
            self._end += size
            self._unsynced = True
            if len(self._buffer) >= PIECE:
                self.write()

    def write(self) -> None:
        """Write appended data to the file, where others see it."""
        if not self._buffer:
            return
        self._step("pack-write")
        data, self._buffer = self._buffer, bytearray()
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def show(self, number: int) -> None:
        """Somebody reads from a pack: if it is this one, all that was appended is to be there."""
        if self._buffer and number == self.number:
            self.write()

    def _next(self) -> None:
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1
            self.number += 1
        self.number, self._fd = self._folder.create(self.number, os.O_APPEND)
        self._end = 0

    def sync(self) -> None:
        """
        Make appended data durable.

        @raises OSError: as L{append}.
        """
        if self._unsynced:
            self.write()
            self._step("pack-fsync")
            os.fdatasync(self._fd)
            self._unsynced = False

    def abandon(self) -> None:
        """After a failed write nobody knows what the file holds: go on in another."""
        self._buffer.clear()
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1
        self._places.lose({self.number})
        self._unsynced = False
        self.number += 1

    def close(self) -> None:
        """Close the file; data that is not durable counts as never added."""
        self._buffer.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LentPacks:
    """
    Packs that another process appends to.

    @param writer: has the numbers before theirs.
    @param unused: called when nothing more is appended to a pack.
    @ivar numbers: those of the packs that are lent now.
    """

    def __init__(
        self,
        folder: PackFolder,
        places: Places,
        writer: PackWriter,
        lock: threading.RLock,
        step: Step,
        unused: Callable[[set[int]], None],
    ) -> None:
        self.numbers: set[int] = set()
        self._folder = folder
        self._places = places
        self._writer = writer
        self._lock = lock
        self._step = step
        self._unused = unused
        self._unsynced: set[int] = set()

    def lend(self) -> tuple[int, str]:
        """
        A new pack for another process to append to: its number and its path. L{keep} reports what
        the process has appended, which counts like everything else once the store is flushed.

        @raises StoreError: the disk refused.
        """
        with self._lock:
            number = max([self._writer.number, *self.numbers]) + 1
            try:
                number, fd = self._folder.create(number)
                os.close(fd)
            except OSError as error:
                raise store_error(error, self._folder.store) from error
            self.numbers.add(number)
            return number, self._folder.path(number)

    def keep(self, number: int, objects: Iterable[tuple[bytes, int, int]]) -> None:
        """What was appended to a pack that was lent: digest, size and offset of each object."""
        with self._lock:
            for digest, size, offset in objects:
                if digest not in self._places.known:
                    self._places.add(digest, Place(size, number, offset))
                    self._unsynced.add(number)

    def take_back(self, number: int) -> None:
        """Nothing more is appended to a pack that was lent."""
        with self._lock:
            self.numbers.discard(number)
            self._unused({number})

    def sync(self) -> None:
        """
        Make appended data durable; under the lock.

        @raises StoreError: the disk refused; data that was appended since the last call is lost.
        """
        try:
            for number in sorted(self._unsynced):
                self._step("pack-fsync")
                fd = os.open(self._folder.path(number), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fdatasync(fd)
                finally:
                    os.close(fd)
                self._unsynced.discard(number)
        except OSError as error:
            self._places.lose(self._unsynced)
            self._unsynced.clear()
            raise store_error(error, self._folder.store) from error
