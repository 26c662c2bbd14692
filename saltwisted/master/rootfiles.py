"""
Files below the C{file_roots} and C{pillar_roots} of a master, as wheel functions list, read and
write them. Nothing outside of a root is read or written, whatever a path or a link says.

All of it blocks: it is for the thread pool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltwisted.errors import StoreError
from saltwisted.stores.files import read_file, store_error, write_atomic

MOST = 32 * 1024 * 1024
"""Bytes of a file that is read."""
_BEGIN = 512
"""Bytes by which text is told from other contents."""
_OF_TEXT = frozenset((*range(32, 256), *b"\n\r\t\f\b"))

Roots = Mapping[str, Sequence[str]]


def below(root: str, path: Any, never: str) -> str:
    """
    The place that a relative path means below a root, all links followed; C{""} if it is none:
    absolute, the root itself, or outside of it.

    @param never: a directory that is served to nobody, even if a root is above it.
    """
    if not isinstance(path, str) or not path or os.path.isabs(path) or "\0" in path:
        return ""
    top = os.path.realpath(root)
    place = os.path.realpath(os.path.join(top, path))
    inside = place.startswith(top.rstrip("/") + "/")
    kept = f"{place}/".startswith(os.path.realpath(never).rstrip("/") + "/")
    return place if inside and not kept else ""


def find(roots: Roots, path: Any, saltenv: str, never: str) -> list[dict[str, str]]:
    """Each root's file of this path, with C{txt} or C{bin}."""
    return [
        {shown: "txt" if text else "bin"} for shown, _, text in _found(roots, path, saltenv, never)
    ]


def read(roots: Roots, path: Any, saltenv: str, never: str) -> list[dict[str, str]]:
    """The contents of all text files of this path."""
    read: list[dict[str, str]] = []
    for shown, place, text in _found(roots, path, saltenv, never):
        content = read_file(place, MOST) if text else None
        if content is not None:
            read.append({shown: content.decode("utf-8", "replace")})
    return read


def _found(roots: Roots, path: Any, saltenv: str, never: str) -> Iterator[tuple[str, str, bool]]:
    for root in roots.get(saltenv, ()):
        place = below(root, path, never)
        if place and os.path.isfile(place):
            try:
                with open(place, "rb") as file:
                    text = _is_text(file.read(_BEGIN))
            except OSError as error:
                raise store_error(error, place) from None
            yield os.path.join(root, path), place, text


def _is_text(begin: bytes) -> bool:
    """As stock judges it: UTF-8, or few bytes that are no characters."""
    if b"\0" in begin:
        return False
    try:
        begin.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return sum(byte not in _OF_TEXT for byte in begin) <= 0.3 * len(begin)


def tree(roots: Roots, saltenv: str) -> dict[str, Any]:
    """All files of an environment: by root, directories as maps, and C{"f"} for a file."""
    found: dict[str, Any] = {}
    for root in roots.get(saltenv, ()):
        top: dict[str, Any] = {}
        maps = {root: top}
        for folder, folders, files in os.walk(root):
            here = maps.pop(folder)
            for name in folders:
                here[name] = maps[os.path.join(folder, name)] = {}
            here.update(dict.fromkeys(files, "f"))
        found[root] = top
    return found


def write(
    roots: Roots, data: Any, path: Any, saltenv: str, index: int, mode: int, never: str
) -> str:
    """
    Write a file, and the directories above it.

    @param index: which root of the environment.
    @param mode: of a new file; another keeps its own.
    @return: what was done, in stock's words.
    @raises StoreError: it is not below that root, or the disk refuses. Nothing is written then.
    """
    if not isinstance(data, (str, bytes)):
        raise StoreError("What is written is text")
    if saltenv not in roots:
        raise StoreError(f"Named environment {saltenv} is not present")
    if not 0 <= index < len(roots[saltenv]):
        raise StoreError(f"Specified index {index} in environment {saltenv} is not present")
    if isinstance(path, str) and os.path.isabs(path):
        raise StoreError(f"The path passed in {path} is not relative to the environment {saltenv}")
    root = roots[saltenv][index]
    place = below(root, path, never)
    if not place or path.endswith("/"):
        raise StoreError(f"Invalid path: {path}")
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.lexists(place):
            if not os.path.isfile(place):
                raise StoreError(f"Invalid path: {path}")
            mode = os.stat(place).st_mode & 0o7777
    except OSError as error:
        raise store_error(error, place) from None
    write_atomic(place, data.encode() if isinstance(data, str) else data, mode)
    return f"Wrote data to file {os.path.join(root, path)}"
