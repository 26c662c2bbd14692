"""C{salt.utils.gzip_util}: bytes and files, compressed."""

from __future__ import annotations

import builtins
import gzip
from collections.abc import Iterator
from typing import Any

GzipFile = gzip.GzipFile
open = gzip.open


def open_fileobj(fileobj: Any, mode: str = "rb", compresslevel: int = 9) -> gzip.GzipFile:
    """A file that is open already."""
    return gzip.GzipFile("", mode, compresslevel, fileobj)


def compress(data: str | bytes, compresslevel: int = 9) -> bytes:
    """Compressed bytes."""
    return gzip.compress(data.encode() if isinstance(data, str) else data, compresslevel)


def uncompress(data: bytes) -> bytes:
    """What they were before."""
    return gzip.decompress(data)


def compress_file(fh_: Any, compresslevel: int = 9, chunk_size: int = 1048576) -> Iterator[bytes]:
    """
    Each C{chunk_size} bytes of a file, or of what lies at a path, compressed by themselves.

    @raises ValueError: the size is no whole number.
    """
    if int(chunk_size) != chunk_size:
        raise ValueError("chunk_size must be an integer")
    with fh_ if hasattr(fh_, "read") else builtins.open(fh_, "rb") as file:
        while True:
            data = file.read(chunk_size)
            yield compress(data, compresslevel)
            if len(data) < chunk_size:
                return
