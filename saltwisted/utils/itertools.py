"""Texts and files in pieces, with the names of C{salt.utils.itertools}."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import IO, Any


def split(orig: str, sep: str | None = None) -> Iterator[str]:
    """As C{str.split}, one part at a time."""
    if sep is None:
        for found in re.finditer(r"\S+", orig):
            yield found[0]
        return
    start = 0
    while True:
        end = orig.find(sep, start)
        if end < 0:
            yield orig[start:]
            return
        yield orig[start:end]
        start = end + len(sep)


def read_file(fh_: IO[Any], chunk_size: int = 1048576) -> Iterator[Any]:
    """An open file in pieces; it is closed after the last."""
    try:
        while piece := fh_.read(chunk_size):
            yield piece
    finally:
        fh_.close()


def fnmatch_multiple(candidates: Iterable[str], pattern: str) -> str | None:
    """The first of several texts that fits a glob."""
    for each in candidates:
        if isinstance(each, str) and fnmatch.fnmatch(each, pattern):
            return each
    return None
