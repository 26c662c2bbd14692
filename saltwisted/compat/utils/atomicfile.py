"""C{salt.utils.atomicfile}: files that are there whole or not at all."""

from __future__ import annotations

import os
from typing import Any

from saltwisted.utils import files


def atomic_rename(src: str, dst: str) -> None:
    """Give a file the name of another, in its place."""
    os.replace(src, dst)


def safe_atomic_write(dst: str, data: Any, backup_mode: str = "", cachedir: str = "") -> None:
    """
    Write a file by a temporary one that nobody else may read.

    @param backup_mode: C{minion}: what was there is kept below C{cachedir/file_backup}.
    """
    name = files.mkstemp(prefix=files.TEMPFILE_PREFIX)
    try:
        with open(name, "wb") as file:
            file.write(data if isinstance(data, bytes) else str(data).encode())
        files.copyfile(name, dst, backup_mode, cachedir)
    finally:
        files.safe_rm(name)
