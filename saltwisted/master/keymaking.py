"""
Key pairs, and the signature over the master's public key, as files for wheel functions.

All of it blocks: it is for the thread pool. Nothing that is there is written over.
"""

from __future__ import annotations

import base64
import os

from saltwisted.errors import StoreError
from saltwisted.stores.files import read_file, write_atomic
from saltwisted.wire.rsa import PrivateKey, PublicKey, clean_pem, fingerprint

_MOST = 64 * 1024


def pair(folder: str, name: str, bits: int, passphrase: str | None = None) -> PublicKey:
    """
    The public half of C{name.pem}, C{name.pub} in a folder; both are made if they are not there.

    @raises StoreError: the name is none, or the folder cannot be written.
    """
    if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name:
        raise StoreError("not a plain file name", name)
    private, public = (os.path.join(folder, name + end) for end in (".pem", ".pub"))
    if os.path.lexists(private):
        return PublicKey.from_pem(_text(public))
    key = PrivateKey.generate(bits)
    write_atomic(private, key.pem(passphrase).encode(), 0o400)
    write_atomic(public, key.public.pem.encode() + b"\n", 0o400)
    return key.public


def generate(folder: str, name: str, bits: int, hash_type: str) -> str:
    """The fingerprint of a pair, made if it is not there; see L{pair}."""
    return fingerprint(pair(folder, name, bits).pem, hash_type)


def sign(private: str, passphrase: str | None, public: str, goal: str) -> bool:
    """
    Write the signature over a public key, as it travels; false if there is one.

    @raises StoreError: a key is missing or none, or the disk refuses.
    @raises WireError: the private key is none.
    """
    if os.path.lexists(goal):
        return False
    key = PrivateKey.from_pem(_text(private), passphrase)
    signature = key.sign(clean_pem(_text(public)).encode("ascii"))
    write_atomic(goal, base64.b64encode(signature) + b"\n", 0o400)
    return True


def _text(path: str) -> str:
    content = read_file(path, _MOST)
    if content is None:
        raise StoreError("does not exist", path)
    return content.decode("ascii", "replace")
