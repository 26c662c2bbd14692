"""
Access to the recorded bytes in C{tests/vectors}.
"""

from __future__ import annotations

import json
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_der_private_key

from saltwisted.wire.rsa import PrivateKey

FOLDER = Path(__file__).parent.parent / "vectors"
VERSIONS = ("3006", "3008")


@cache
def recorded(name: str) -> dict[str, Any]:
    """One file."""
    value: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return value


@cache
def _private(der: str) -> PrivateKey:
    return PrivateKey(load_der_private_key(b64decode(der), None))  # type: ignore[arg-type]


def private(entry: dict[str, str]) -> PrivateKey:
    """A key pair of a file."""
    return _private(entry["private_der_b64"])


def key(name: str) -> PrivateKey:
    """C{master}, C{minion}, C{minion2} or C{master_sign}."""
    return private(recorded("keys")["keys"][name])


def plain(value: Any) -> Any:
    """A decoded value in the form of the expectations."""
    if isinstance(value, dict):
        return {(k if isinstance(k, str) else k.hex()): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return {"$hex": value.hex()}
    return value


class Dice:
    """Entropy that is no chance at all: 0, 1, 2, ... and never the same run twice."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def __call__(self, count: int) -> bytes:
        self._next += 1
        return (self._next.to_bytes(4, "big") * (count // 4 + 1))[:count]
