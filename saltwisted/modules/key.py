"""
Fingerprints of this minion's key and of its master's.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

__opts__: Any


def _finger(name: str, hash_type: str | None) -> str:
    """The hash of what stands between a PEM file's first and last line, in pairs."""
    path = os.path.join(__opts__["pki_dir"], name)
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        lines = [line for line in file if line.strip()]
    body = b"".join(lines[1:-1]).replace(b"\r\n", b"\n")
    text = hashlib.new(hash_type or __opts__["hash_type"], body).hexdigest()
    return ":".join(text[index : index + 2] for index in range(0, len(text), 2))


def finger(hash_type: str | None = None) -> str:
    """
    The fingerprint of this minion's public key; empty if there is none.

    CLI Example::

        salt '*' key.finger
    """
    return _finger("minion.pub", hash_type)


def finger_master(hash_type: str | None = None) -> str:
    """
    The fingerprint of the master's public key as this minion knows it.

    CLI Example::

        salt '*' key.finger_master
    """
    return _finger("minion_master.pub", hash_type)
