"""
What it takes to read the objects of a pack.

A pack may have an object as a difference to another one, and that as a difference to a third. Who
reads ten bytes may so have to unpack a gigabyte first. Whoever pushes chooses the differences, and
servers hand them on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from saltwisted.worker.git import program

LARGE = 64 * 1024
"""Bytes above which a blob is no longer read by whoever wants it at once."""
FAR = 2 * 1024 * 1024
"""Bytes that are unpacked at once for one object: some 50 differences of 40 KiB."""
STEP = 1024
"""Bytes that could be unpacked in the time that it takes to find one more object of a chain."""
WIDTH = 20
_TABLE = 8
_NAMES = _TABLE + 4 * 256
_NO_BASE = b"0" * 2 * WIDTH
_FORM = "--batch-check=%(objecttype) %(objectsize) %(deltabase)"


def large(repo: str, index: bytes, seconds: float) -> dict[str, int]:
    """
    The objects of a pack that are not read at once: blobs with their sizes, and others with the
    number of bytes that have to be unpacked, if these are many, or else their sizes.

    @param repo: a repository that has this pack and no other.
    @param index: the content of the pack's index.
    @raises GitError: git fails.
    """
    count = int.from_bytes(index[_NAMES - 4 : _NAMES], "big")
    names = index[_NAMES : _NAMES + count * WIDTH]
    hexed = [names[at : at + WIDTH].hex() for at in range(0, len(names), WIDTH)]
    asked = "\n".join([*hexed, ""]).encode()
    args = ["--git-dir", repo, "cat-file", _FORM, "--buffer"]
    told = program.run(args, program.environment({}), seconds=seconds, stdin=asked)
    sizes, bases, kinds = array("Q"), array("q"), bytearray()
    for line in told.splitlines():
        kind, text, base = line.split()
        kinds.append(kind[0])
        sizes.append(int(text))
        oid = bytes.fromhex(base.decode()) if base != _NO_BASE else b""
        bases.append(_number(index, names, oid) if oid else -1)
    if len(sizes) != count:
        raise program.GitError("git does not tell of all objects of a pack")
    taken = _taken(sizes, bases)
    found = {}
    for number, size in enumerate(sizes):
        is_far = taken[number] > FAR
        if size > LARGE or is_far:
            blob = kinds[number] == ord("b")
            found[hexed[number]] = taken[number] if is_far and not blob else size
    return found


def _number(index: bytes, names: bytes, oid: bytes) -> int:
    """The place of an object in a pack's index; -1 if it has none."""

    def count(byte: int) -> int:
        at = _TABLE + 4 * byte
        return int.from_bytes(index[at : at + 4], "big") if byte >= 0 else 0

    low, high = count(oid[0] - 1), count(oid[0])
    while low < high:
        middle = (low + high) // 2
        name = names[middle * WIDTH : (middle + 1) * WIDTH]
        if name == oid:
            return middle
        low, high = (middle + 1, high) if name < oid else (low, middle)
    return -1


def _taken(sizes: array[int], bases: array[int]) -> array[int]:
    """The bytes of each object together with those of all that it is a difference to."""
    taken = array("Q", bytes(8 * len(sizes)))
    for start in range(len(sizes)):
        chain = list(_untold(start, bases, taken))
        for number in reversed(chain):
            base = bases[number]
            taken[number] = sizes[number] + STEP + (taken[base] if base >= 0 else 0)
    return taken


def _untold(start: int, bases: array[int], taken: array[int]) -> Iterator[int]:
    number = start
    while number >= 0 and not taken[number]:
        yield number
        number = bases[number]
