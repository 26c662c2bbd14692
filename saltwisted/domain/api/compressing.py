"""
Which answers are compressed: texts and pages, for a client that asks for gzip. Like stock's, by
CherryPy's tool with its own settings.
"""

from __future__ import annotations

import zlib
from typing import Any

from saltwisted.domain.api.accept import qualities
from saltwisted.domain.api.problems import Problem

KINDS = ("text/html", "text/plain")
"""Types of such answers; JSON, YAML, styles and scripts are not among them."""
LEVEL = 5
GZIP = 16 + zlib.MAX_WBITS
"""Of zlib: the format of gzip, in which it writes no time."""


def is_compressed(content_type: str) -> bool:
    """Whether answers of a type are compressed for those who ask for it."""
    return content_type.partition(";")[0].strip() in KINDS


def takes_gzip(header: str | None) -> bool:
    """
    Whether a client wants its answer compressed, rather than as it is.

    @param header: the C{Accept-Encoding} of the request, C{None} if it has none.
    """
    try:
        wanted = qualities(header or "")
    except Problem:
        return False
    for quality, name in wanted:
        if name == "identity" and quality:
            return False
        if name in ("gzip", "x-gzip"):
            return quality > 0
    return False


def compressing() -> Any:
    """What compresses part by part."""
    return zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)


def compressed(content: bytes) -> bytes:
    """In the format of gzip; up to 40 ms a megabyte."""
    packing = compressing()
    return bytes(packing.compress(content) + packing.flush())
