"""
The key that minions know, when the cluster changes it.

Without a change every node has it from its join, and the fact log knows nothing of it. A change
(C{saltwisted rotate-identity}) makes it a secret of its own kind, C{identity}: the new pair, and
the statements by which each key vouches for the next. So our minions follow, even those that were
away during several changes.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

KEPT = 8
"""Statements that are kept: minions that were away for more changes are cut off."""


@frozen
class Identity:
    """
    One version.

    @ivar private: PEM, under C{key_pass} if there is one.
    @ivar public: PEM.
    @ivar handovers: public keys (PEM) with the signatures of those before them, oldest first; the
        last is C{public}.
    """

    private: bytes = field(repr=False)
    public: bytes
    handovers: tuple[tuple[str, bytes], ...] = ()

    def encode(self) -> bytes:
        """The value of the secret."""
        rows = [[pem, signature] for pem, signature in self.handovers]
        return pack_bin([self.private, self.public, rows])

    def followed_by(self, private: bytes, public: bytes, signature: bytes) -> Identity:
        """The next version, vouched for by this one's key."""
        chain = (*self.handovers, (public.decode("ascii"), signature))
        return Identity(private, public, chain[-KEPT:])


def decode(value: bytes) -> Identity:
    """
    Read the value of the secret.

    @raises WireError: it is none.
    """
    try:
        private, public, rows = unpack_bin(value)
        chain = tuple((_text(pem), _bytes(signature)) for pem, signature in rows)
    except (TypeError, ValueError) as error:
        raise WireError("identity") from error
    return Identity(_bytes(private), _bytes(public), chain)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise WireError("identity")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WireError("identity")
    return value
