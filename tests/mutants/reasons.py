"""
Mutations that survive, and why nobody could notice them.

A key is a name, or the beginning of one: then the reason holds for all that begin so. "There is no
test yet" is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "wire.handshake.MinionHandshake._open: let token.__class__ is not bytes": (
        "What is no bytes cannot be decrypted, which is refused in the next line."
    ),
    "wire.handshake.MinionHandshake._key: let sealed.__class__ is not bytes": (
        "What is no bytes cannot be decrypted, which is refused in the next line."
    ),
    "wire.decoding.walking: let skip.passed != len(data)": (
        "The library is fed the same bytes afterwards, and refuses what is behind the value."
    ),
    "wire.envelope._span: let raise LookupError": (
        "Nothing is returned then, and its caller cannot take that apart: the same outcome."
    ),
}


def reason_of(name: str) -> str:
    """Why this one may survive; C{""} if nobody has said."""
    return next((reason for key, reason in REASONS.items() if name.startswith(key)), "")
