"""
What somebody has sent, in a line of a log or an answer: its beginning, however much there is.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.api.pieces import room_after

VALUES = 200
"""Values that are written out; of more only the kind and the number are told."""


def brief(value: Any, most: int = 200) -> str:
    """At most so many characters, which cost no more to make than they are."""
    if isinstance(value, (str, bytes)):
        return str(value[:most])[:most]
    if room_after(value, VALUES) >= 0:
        return str(value)[:most]
    return f"a {type(value).__name__} of {len(value)}"


def quoted(value: Any, most: int = 200) -> str:
    """The same as Python writes it, text in quotation marks."""
    return repr(value[:most]) if isinstance(value, (str, bytes)) else brief(value, most)
