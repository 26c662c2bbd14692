"""
Files of ssh, line by line, and the fingerprints of the keys in them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable

from saltwisted.worker.exceptions import CommandExecutionError


def fingerprint(key: str, hash_type: str | None) -> str | None:
    """The hash of a key as pairs of digits; C{None} if it is not a key."""
    name = (hash_type or "sha256").lower()
    function = getattr(hashlib, name, None)
    if function is None:
        raise CommandExecutionError(f"The fingerprint_hash_type {name} is not supported.")
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    return ":".join(f"{byte:02x}" for byte in function(raw).digest())


def lines_of(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return [line.strip() for line in file]


def write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)
