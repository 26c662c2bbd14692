"""
Renderers that decrypt values inside data: C{gpg} and C{nacl}.

Both walk maps and lists in place and change only texts that carry their mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from saltwisted.domain.render.host import RenderHost

_ARMOUR = re.compile(rb"-----BEGIN PGP MESSAGE-----.*?-----END PGP MESSAGE-----", re.DOTALL)
_NACL = re.compile(r"^NACL\[(.*)\]$")


def walk(data: Any, change: Callable[[Any], Any]) -> Any:
    """Apply to every text in nested data; containers are changed in place."""
    if isinstance(data, (str, bytes)):
        return change(data)
    if isinstance(data, dict):
        for key, value in data.items():
            data[key] = walk(value, change)
    elif isinstance(data, list):
        for at, value in enumerate(data):
            data[at] = walk(value, change)
    return data


def gpg(data: Any, host: RenderHost, translate_newlines: bool = False) -> Any:
    """
    Decrypt every armoured message.

    @param translate_newlines: read C{\\n} in two characters as a newline, for messages
        that came in on a command line.
    @raises RenderError: gpg is missing or failed, and the options say that this is an error.
    """

    def decrypt(match: re.Match[bytes]) -> bytes:
        return host.gpg(match.group().replace(b"\\n", b"\n"))

    def change(text: Any) -> Any:
        raw = text.encode() if isinstance(text, str) else bytes(text)
        if translate_newlines:
            raw = raw.replace(b"\\n", b"\n")
        plain, count = _ARMOUR.subn(decrypt, raw)
        if count:
            plain = plain.rstrip(b"\n")
        elif isinstance(text, str) and not translate_newlines:
            return text
        try:
            return plain.decode()
        except UnicodeDecodeError:
            return plain

    return walk(data, change)


def nacl(data: Any, decrypt: Callable[..., Any], **options: Any) -> Any:
    """Decrypt every C{NACL[...]} text by the C{nacl.dec} function."""

    def change(text: Any) -> Any:
        match = _NACL.search(text) if isinstance(text, str) else None
        return decrypt(match.group(1), **options) if match else text

    return walk(data, change)
