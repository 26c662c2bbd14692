"""
Whether a remote has anything new, asked before a fetch begins.

Most fetches bring nothing. Asking a remote for its refs takes half of the time of a git fetch that
brings nothing, because git also searches the existing objects, in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from saltwisted.domain.git.refspecs import is_narrow, tracked
from saltwisted.wire.text import is_text
from saltwisted.worker.git import program

MOST_TOLD = 32 * 1024 * 1024
"""Bytes of names of refs that are looked at here; with more a fetch says what is wrong."""
MOST_MARK = 64 * 1024
"""
Bytes of a mark that is kept as it is: a thousand refs. Digests take OpenSSL, which a process needs
as long to load as it needs to hear that there is nothing new.
"""
_PACK, _INDEX = b"PACK\0\0\0\2", b"\377tOc\0\0\0\2"


def heard(
    repo: str, request: Mapping[str, Any], environ: Mapping[str, str], seconds: float
) -> bytes | None:
    """
    What a remote says of its refs, as it says it; C{None} if that is too much.

    @param repo: the repository that it is fetched into; nothing is written to it.
    @param request: C{url} and C{refspecs}.
    @raises GitError: the remote cannot be asked.
    """
    kinds = ["--heads", "--tags"] if is_narrow(request["refspecs"]) else []
    args = ["--git-dir", repo, "ls-remote", "--quiet", "--refs", *kinds]
    pieces: list[bytes] = []
    left = MOST_TOLD

    def sink(data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left > 0:
            pieces.append(data)

    program.run([*args, "--", request["url"]], environ, seconds=seconds, sink=sink)
    return b"".join(pieces) if left > 0 else None


def after_fetch(said: bytes, refspecs: Iterable[str]) -> dict[str, str] | None:
    """The refs that there would be after a fetch; C{None} where only a fetch can say."""
    told = {}
    for line in said.decode(errors="surrogateescape").split("\n"):
        oid, _, ref = line.partition("\t")
        # As a fetch leaves it out
        if ref and is_text(ref):
            told[ref] = oid
    return tracked(told, refspecs)


def on_disk(folder: str, state: str, repo: str) -> list[Any]:
    """
    What tells the files of a remote from what they were: none of them was written since, if this is
    the same.

    @param folder: of the remote.
    @param state: the name of the file that says what counts.
    @param repo: the name of the repository.
    """
    packs = os.path.join(folder, repo, "objects/pack")
    found: list[Any] = []
    with suppress(OSError), os.scandir(packs) as entries:
        info = os.stat(os.path.join(folder, state))
        found = [repo, info.st_ino, info.st_size, info.st_mtime_ns]
        for entry in sorted(entries, key=lambda entry: entry.name):
            info = entry.stat()
            found += [entry.name, info.st_ino, info.st_size, info.st_mtime_ns]
    return found


def mark_of(request: Mapping[str, Any], said: bytes | None, disk: Sequence[Any]) -> bytes:
    """
    What a fetch was asked, what it heard and what was on disk, or a digest of that if it is long;
    C{b""} where that is not all known.

    @param said: as of L{heard}.
    @param disk: as of L{on_disk}.
    """
    if said is None or not disk:
        return b""
    asked = [request.get(name) for name in ("url", "refspecs", "pins")]
    found = repr([asked, disk]).encode() + said
    if len(found) <= MOST_MARK:
        return found
    import hashlib

    return hashlib.sha256(found).digest()


def is_whole(repo: str, oids: Iterable[str]) -> bool:
    """
    Whether each pack of a repository is as long as it was, and has its index, and whether some
    objects are in them. It takes less than a millisecond, and so does not read everything.
    """
    folder = os.path.join(repo, "objects/pack")
    wanted = {bytes.fromhex(oid) for oid in oids}
    with suppress(OSError):
        names = os.listdir(folder)
        for name in names:
            if not name.endswith(".pack"):
                continue
            index = _index(os.path.join(folder, name))
            if index is None:
                return False
            wanted = {oid for oid in wanted if not _has(index, oid)}
        return not wanted
    return False


def _index(pack: str) -> bytes | None:
    """The index of a pack, if the two belong together."""
    with open(pack, "rb") as file:
        head = file.read(len(_PACK))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 32, 0))
        tail = file.read()
    with open(pack.removesuffix("pack") + "idx", "rb") as file:
        index = file.read()
    if head != _PACK or index[: len(_INDEX)] != _INDEX:
        return None
    # Both end with the digest of the pack, the index with one of its own after it
    return index if any(tail[-n:] == index[-2 * n : -n] for n in (20, 32)) else None


def _has(index: bytes, oid: bytes) -> bool:
    """Whether an index names an object."""
    table, names = len(_INDEX), len(_INDEX) + 4 * 256

    def count(byte: int) -> int:
        at = table + 4 * byte
        return int.from_bytes(index[at : at + 4], "big") if byte >= 0 else 0

    low, high, width = count(oid[0] - 1), count(oid[0]), len(oid)
    while low < high:
        middle = (low + high) // 2
        name = index[names + middle * width : names + (middle + 1) * width]
        if name == oid:
            return True
        low, high = (middle + 1, high) if name < oid else (low, middle)
    return False
