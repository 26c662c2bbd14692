"""
The checksum of an archive as it was last extracted, kept beside the minion's cache.

The files are those of Salt: C{archive_hash/PATH.hash} in the cache directory, a line
C{kind:sum} each.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _files

log = logging.getLogger(__name__)


def sum_file(opts: Mapping[str, Any], path: str) -> str:
    """Where the checksum of an archive is kept; archives outside of the cache are in C{local}."""
    relative = os.path.relpath(path, opts["cachedir"]) + ".hash"
    if relative.startswith("../"):
        relative = os.path.join("local", path.lstrip("/"))
    return os.path.join(opts["cachedir"], "archive_hash", relative)


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as stream:
            pairs = [line.rstrip("\n").partition(":") for line in stream]
    except (OSError, UnicodeDecodeError):
        return {}
    return {kind: value for kind, mark, value in pairs if mark}


def remembered(
    opts: Mapping[str, Any], path: str, kind: str | None = None
) -> dict[str, str] | None:
    """C{hash_type} and C{hsum} of an archive when it was last extracted, if that is known."""
    kind = kind or opts["hash_type"]
    value = _read(sum_file(opts, path)).get(kind)
    return None if value is None else {"hash_type": kind, "hsum": value}


def remember(opts: Mapping[str, Any], path: str) -> None:
    """Keep the checksum of an archive."""
    target = sum_file(opts, path)
    kind = opts["hash_type"]
    sums = {**_read(target), kind: _files.digest(path, kind)}
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        text = "".join(f"{one}:{value}\n" for one, value in sums.items())
        _files.write_atomically(target, text.encode())
    except OSError as error:
        log.warning("Failed to update checksum for %s: %s", path, error)
