"""
Hashes that were announced for a file: on the command line, or in a list of hashes.
"""

from __future__ import annotations

import os
import re
import string
import urllib.parse
from collections.abc import Iterable
from typing import Any

from saltwisted.modules._files import HASHES, HASHES_REVMAP, VALID_PROTOS, hidden_credentials
from saltwisted.worker.exceptions import CommandExecutionError

_SEPARATORS = string.whitespace + "\\/*"
"""What stands before a file's name in a list of hashes."""


def kinds_text() -> str:
    """The kinds of hashes with their lengths, as error texts list them."""
    return ", ".join(f"{HASHES_REVMAP[size]} ({size})" for size in sorted(HASHES_REVMAP))


def invalid(source_hash: Any) -> CommandExecutionError:
    """The error for a C{source_hash} that is neither a hash nor a place to find one."""
    return CommandExecutionError(
        f"Source hash {hidden_credentials(str(source_hash))} format is invalid. The supported "
        "formats are: 1) a hash, 2) an expression in the format <hash_type>=<hash>, or 3) "
        "either a path to a local file containing hashes, or a URI of a remote hash file. "
        f"Supported protocols for remote hash files are: {', '.join(VALID_PROTOS)}. The hash "
        "may also not be of a valid length, the following are supported hash types and "
        f"lengths: {kinds_text()}."
    )


def parse(source_hash: Any) -> dict[str, str]:
    """
    C{md5=...} or a bare hash as its kind and value.

    @raises CommandExecutionError: it is neither.
    """
    if not isinstance(source_hash, str):
        raise invalid(source_hash)
    kind, equals, value = (part.strip() for part in source_hash.partition("="))
    if not equals:
        value = source_hash
        if not value or value.strip(string.hexdigits) or len(value) not in HASHES_REVMAP:
            raise invalid(source_hash)
        kind = HASHES_REVMAP[len(value)]
    if kind not in HASHES:
        raise CommandExecutionError(
            f"Invalid hash type '{kind}'. Supported hash types are: {', '.join(HASHES)}. "
            f"Either remove the hash type and simply use '{value}' as the source_hash, or "
            "change the hash type to a supported type."
        )
    if len(value) not in HASHES_REVMAP:
        raise invalid(source_hash)
    if len(value) != HASHES[kind]:
        raise CommandExecutionError(
            f"Invalid length ({len(value)}) for hash type '{kind}'. Either remove the hash "
            f"type and simply use '{value}' as the source_hash, or change the hash type to "
            f"'{HASHES_REVMAP[len(value)]}'"
        )
    return {"hash_type": kind, "hsum": value.lower()}


def extract(
    lines: Iterable[str],
    hash_type: str = "",
    file_name: Any = "",
    source: Any = "",
    source_hash_name: Any = None,
) -> dict[str, str] | None:
    """
    Find the hash for a file in a list of hashes, whatever its layout.

    The line that names C{source_hash_name} wins, then the file's own name, then the
    source's; without any, the first hash of the list is taken.
    """
    size = HASHES.get(hash_type)
    length = str(size) if size else f"{min(HASHES_REVMAP)},{max(HASHES_REVMAP)}"
    pattern = re.compile(r"(?i)(?<![a-z0-9])([a-f0-9]{" + length + r"})(?![a-z0-9])")
    wanted: list[tuple[str, str, str]] = []
    if source_hash_name:
        wanted.append((str(source_hash_name), str(source_hash_name), string.whitespace))
    if file_name:
        wanted.append((str(file_name), os.path.basename(str(file_name)), _SEPARATORS))
    if source:
        parts = urllib.parse.urlparse(str(source))
        base = os.path.basename(parts.path or parts.netloc)
        wanted.append((str(source), base, _SEPARATORS))
    first: dict[str, str] | None = None
    found: dict[int, dict[str, str]] = {}
    for line in lines:
        line = line.strip()
        match = pattern.search(line)
        kind = HASHES_REVMAP.get(len(match.group(1))) if match else None
        if match is None or kind is None:
            continue
        here = {"hsum": match.group(1), "hash_type": kind}
        first = first or here
        for rank, (whole, name, separators) in enumerate(wanted):
            if line.endswith(name):
                before = line[: len(line) - len(name)]
                if before and before[-1] in separators:
                    found.setdefault(rank, here)
            elif re.match(re.escape(whole) + r"\s+", line):
                found.setdefault(rank, here)
    return found[min(found)] if found else first
