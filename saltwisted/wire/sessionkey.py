"""
Session keys of minions, derived instead of stored.

Every master that knows the secret of a version derives the same key for the same
minion, so nothing per minion has to be kept or replicated, and a minion that moves
to another node of a cluster is served at once. The number of the key's acceptance goes in, so
that a key which is accepted again after a deletion gets another session (T-KEY-1). HKDF
is RFC 5869, with SHA-256.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode

from attrs import field, frozen
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from saltwisted.wire.crypticle import AES_BYTES, MAC_BYTES, SessionKey

SECRET_BYTES = 32


@frozen
class SessionSecret:
    """
    One version of the secret.

    @ivar born: seconds since 1970; sessions under this version end some time after it.
    """

    version: int
    value: bytes = field(repr=False)
    born: float


def derive_session(
    secret: SessionSecret, minion_id: str, pub: bytes, acceptance: int
) -> SessionKey:
    """
    The session key of one minion under one secret.

    @param pub: the accepted public key, in the form of C{clean_key}.
    @param acceptance: which acceptance of this key it is; equal on all nodes.
    """
    parts = (
        b"saltwisted session",
        str(secret.version).encode(),
        minion_id.encode("utf-8", "surrogateescape"),
        hashlib.sha256(pub).digest(),
        str(acceptance).encode(),
    )
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    raw = HKDF(SHA256(), AES_BYTES + MAC_BYTES, None, info).derive(secret.value)
    return SessionKey(b64encode(raw).decode("ascii"))
