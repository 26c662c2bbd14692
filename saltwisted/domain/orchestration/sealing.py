"""
The chunks of secret steps, as they are on disks.

A node that continues a run needs the arguments of its steps, so these cannot be replaced by stars.
Of a step with C{no_log: True}, everything but a few words is sealed, by a key that only the masters
of this cluster can derive: it comes from their identity.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.wire.crypticle import (
    AES_BYTES,
    IV_BYTES,
    MAC_BYTES,
    SessionKey,
    open_packed,
    seal_packed,
)
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.wire.rsa import PrivateKey

SEALED = "__sealed__"
"""In a call: all that it has, sealed."""
OPEN = (
    "state",
    "fun",
    "order",
    "no_log",
    "batch",
    "subset",
    "expect_minions",
    "allow_fail",
    "retry_on_takeover",
    "__id__",
    "__sls__",
    "__env__",
)
"""What a takeover is judged by, and what a run shows of its steps: it stays as it is."""


def sealing_key(identity: PrivateKey) -> SessionKey:
    """The key of the holder of this identity."""
    size = AES_BYTES + MAC_BYTES
    made = HKDF(SHA256(), size, salt=None, info=b"saltwisted orchestrations")
    return SessionKey(b64encode(made.derive(identity.pem().encode("ascii"))).decode("ascii"))


class Seals:
    """
    The seals of one node.

    @param identity: the master's present identity.
    """

    def __init__(self, identity: Callable[[], PrivateKey], entropy: Entropy) -> None:
        self._identity, self._entropy = identity, entropy

    def sealed(self, low: Mapping[str, Any]) -> Mapping[str, Any]:
        """A call as it is written down."""
        if not low.get("no_log") or SEALED in low:
            return low
        key = sealing_key(self._identity())
        told = {word: low[word] for word in OPEN if word in low}
        return {**told, SEALED: seal_packed(key, pack_bin(dict(low)), self._entropy(IV_BYTES))}

    def opened(self, chunks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """
        Calls as they were before.

        @raises StoreError: the identity was another one then.
        """
        found: list[Mapping[str, Any]] = []
        for low in chunks:
            if SEALED in low:
                try:
                    packed = open_packed(sealing_key(self._identity()), low[SEALED])
                except WireError as error:
                    said = f"step {low.get('__id__', '')} is sealed by another key of the master"
                    raise StoreError(said) from error
                low = unpack_bin(packed)
            found.append(low)
        return found
