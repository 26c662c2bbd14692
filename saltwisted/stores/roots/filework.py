"""
A separate process reads or writes thousands of small files.

Each file takes five system calls. In a process with threads, each call hands the interpreter to
another thread, and the first one has to wait to get it back: 10 000 files take three times as long,
and the rest of the process is slower, too. So a helper process does this work for large scans and
large new directories. If there is no helper, or it fails, they continue without it. The helper
leaves every unusual file to the code that can handle it (L{saltwisted.stores.roots.worktree}).

A request and its answer are plain data for a socket.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from saltwisted.stores.roots.treefs import CREATE, Identity, TreeFs, complete, read_small

Helper = Callable[[Mapping[str, Any]], "Future[list[Any]]"]
"""
Has a request answered by another process; from any thread but the reactor's. The future fails if it
cannot be.
"""
FEW = 1000
"""Files up to which no process is asked."""
AT_ONCE = 1000
"""Files in one request."""
PATIENCE = 60.0
"""Seconds that a request may take."""
AHEAD = 256 * 1024


def serve(request: Mapping[str, Any], daemon: Any = None, facts: Any = None) -> list[Any]:
    """
    Answer a request: C{"do"} says which, C{"root"} is the tree with its device and inode.

    The entry of a pooled worker process (L{saltwisted.worker.process.warm}).

    @raises OSError: the tree, or a pack, cannot be used.
    @raises StoreError: the tree cannot be opened.
    """
    path, device, inode = request["root"]
    fs = TreeFs(path)
    try:
        if (fs.device, fs.inode) != (device, inode):
            raise OSError(f"{path} is now a different directory")
        if request["do"] == "read":
            return _read(fs, request["pack"], request["files"])
        return _make(fs, request["packs"], request["files"])
    finally:
        fs.close()


def read_request(
    root: tuple[str, int, int], pack: str, files: Sequence[tuple[bytes, int]]
) -> dict[str, Any]:
    """
    Append contents to a pack.

    The answer has a row for each file: digest, offset in the pack, and the six numbers of
    C{Identity}. It is C{None} if the file could not be read, or does not have this size.

    @param files: path and size.
    """
    return {"do": "read", "root": root, "pack": pack, "files": files}


def make_request(
    root: tuple[str, int, int], packs: Mapping[int, str], files: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """
    Make new files out of packs. The answer has a row for each: the six numbers of C{Identity}, or
    C{None} if it could not be made.

    @param files: path, mode, time, and the place of the content: pack, offset, size.
    """
    return {"do": "make", "root": root, "packs": dict(packs), "files": files}


def _read(fs: TreeFs, pack: str, files: Sequence[Sequence[Any]]) -> list[Any]:
    rows: list[Any] = []
    found: dict[bytes, int] = {}
    buffer = bytearray()
    last: bytes | None = None
    folder = -1
    target = os.open(pack, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        end = os.fstat(target).st_size
        for path, size in files:
            head, _, name = path.rpartition(b"/")
            try:
                if head != last:
                    folder, last = fs.folder(head), head
                data, info = read_small(folder, name, size)
            except OSError:
                last = None
                rows.append(None)
                continue
            if len(data) != size:
                rows.append(None)
                continue
            digest = hashlib.sha256(data).digest()
            offset = found.get(digest)
            if offset is None:
                offset = found[digest] = end + len(buffer)
                buffer += data
            rows.append([digest, offset, *Identity.of(info)])
        _write_all(target, buffer)
    finally:
        os.close(target)
    return rows


def _make(fs: TreeFs, packs: Mapping[int, str], files: Sequence[Sequence[Any]]) -> list[Any]:
    rows: list[Any] = []
    opened: dict[int, int] = {}
    last: bytes | None = None
    folder = -1
    ahead, ahead_pack, ahead_at = b"", -1, 0
    try:
        for path, mode, mtime, pack, offset, size in files:
            at = offset - ahead_at
            if pack != ahead_pack or at < 0 or at + size > len(ahead):
                if pack not in opened:
                    opened[pack] = os.open(packs[pack], os.O_RDONLY | os.O_CLOEXEC)
                ahead = os.pread(opened[pack], max(AHEAD, size), offset)
                ahead_pack, ahead_at, at = pack, offset, 0
            data = ahead[at : at + size]
            head, _, name = path.rpartition(b"/")
            try:
                if len(data) != size:
                    raise OSError("the pack is shorter than it was")
                if head != last:
                    folder, last = fs.folder(head), head
                rows.append(_make_one(folder, name, mode, mtime, data))
            except OSError:
                last = None
                rows.append(None)
    finally:
        for fd in opened.values():
            os.close(fd)
    return rows


def _make_one(folder: int, name: bytes, mode: int, mtime: int, data: bytes) -> Identity:
    fd = os.open(name, CREATE, mode, dir_fd=folder)
    try:
        _write_all(fd, data)
        return Identity.of(complete(fd, mode, mtime))
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes | bytearray) -> None:
    written = os.write(fd, data) if data else 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
