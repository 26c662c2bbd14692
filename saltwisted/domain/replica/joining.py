"""
The join: one fixed-length record from a stranger, one answer, and how often somebody may try.

The record proves a secret (a token's, or C{cluster_secret}) by an HMAC over the TLS channel's
exporter and both nodes' keys, and never contains it. Its bytes are the only ones that are ever read
from a non-member, and nothing in it is interpreted before the proof is verified (T-PEER-1,
T-PEER-3). The answer contains a proof of the same secret: a node that does not know it cannot
answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from math import log2
from struct import Struct
from typing import Any

from attrs import define, field, frozen

from saltwisted.domain.replica.tokens import ID_BYTES, prove
from saltwisted.doors import PEER_JOIN
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

_RECORD = Struct(">8s16s16s32s952s")
RECORD_BYTES = _RECORD.size
_MAGIC = b"SWJOIN1\n"
_LENGTH = Struct(">H")
_PAYLOAD = 952
NONCE_BYTES = 16
MAX_REPLY = PEER_JOIN.request
REPLY_HEAD = Struct(">I32s")
"""Before the answer: its length, its proof."""
BY_SECRET = bytes(ID_BYTES)
"""The token id that means C{cluster_secret}."""
SECRET_BITS = 128


@frozen
class Channel:
    """
    What only the two ends of one connection know.

    @ivar joiner: L{saltwisted.domain.replica.certificates.key_id} of the node that asks.
    @ivar acceptor: the same of the node that answers.
    """

    exporter: bytes = field(repr=False)
    joiner: str = ""
    acceptor: str = ""

    def proof(self, secret: bytes, role: bytes, *parts: bytes) -> bytes:
        """An HMAC that is worth nothing on any other connection."""
        return prove(
            secret, role, self.exporter, self.joiner.encode(), self.acceptor.encode(), *parts
        )


def secret_key(cluster_secret: str) -> bytes:
    """The HMAC key of a C{cluster_secret}."""
    return hashlib.sha256(b"saltwisted cluster_secret\0" + cluster_secret.encode()).digest()


def weak_secret(cluster_secret: str | None) -> str:
    """
    Why a C{cluster_secret} is refused, or C{""}.

    A false responder sees an HMAC made with it and could guess at leisure, hence 128 bits:
    judged by its length and its alphabet.
    """
    text = (cluster_secret or "").strip()
    if not text:
        return "cluster_secret is empty"
    different = len(set(text))
    if set(text) <= set("0123456789abcdefABCDEF"):
        alphabet = 16
    elif text.isascii() and text.isalnum():
        alphabet = 62
    else:
        alphabet = 90
    bits = len(text) * log2(min(alphabet, max(different * 3, 1)))
    if different < 8 or bits < SECRET_BITS:
        return f"cluster_secret is too short: about {bits:.0f} bits, and {SECRET_BITS} are needed"
    return ""


def make_record(
    channel: Channel, token_id: bytes, secret: bytes, nonce: bytes, fields: Mapping[str, Any]
) -> bytes:
    """
    The record.

    @raises WireError: the fields are too large.
    """
    body = pack_bin(dict(fields))
    if len(body) > _PAYLOAD - _LENGTH.size:
        raise WireError("the fields do not fit into a join record")
    payload = (_LENGTH.pack(len(body)) + body).ljust(_PAYLOAD, b"\0")
    mac = channel.proof(secret, b"join", token_id, nonce, payload)
    return bytes(_RECORD.pack(_MAGIC, token_id, nonce, mac, payload))


@frozen
class Record:
    """A record whose proof is not verified yet."""

    token_id: bytes
    nonce: bytes
    mac: bytes
    payload: bytes

    def proven(self, channel: Channel, secret: bytes) -> bool:
        """Whether its sender knows the secret, on this channel. Constant time."""
        mac = channel.proof(secret, b"join", self.token_id, self.nonce, self.payload)
        return compare_digest(mac, self.mac)

    def fields(self) -> dict[str, Any]:
        """
        What it says; only to be asked when the proof is right.

        @raises WireError: no map.
        """
        if len(self.payload) < _LENGTH.size:
            raise WireError("join record")
        (size,) = _LENGTH.unpack_from(self.payload)
        value = unpack_bin(self.payload[_LENGTH.size : _LENGTH.size + size])
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise WireError("join record")
        return value


def split_record(data: bytes) -> Record:
    """
    Cut a record by its lengths alone.

    @raises WireError: not one record.
    """
    if len(data) != RECORD_BYTES:
        raise WireError("join record")
    magic, token_id, nonce, mac, payload = _RECORD.unpack(data)
    if magic != _MAGIC:
        raise WireError("join record")
    return Record(token_id, nonce, mac, payload)


def make_reply(channel: Channel, secret: bytes, nonce: bytes, value: Mapping[str, Any]) -> bytes:
    """The answer, with the proof that its sender knows the secret and read this record."""
    body = pack_bin(dict(value))
    return REPLY_HEAD.pack(len(body), channel.proof(secret, b"reply", nonce, body)) + body


def open_reply(
    channel: Channel, secret: bytes, nonce: bytes, mac: bytes, body: bytes
) -> dict[str, Any]:
    """
    Check and read an answer.

    @raises WireError: its sender does not know the secret, or it is for another record.
    """
    if not compare_digest(channel.proof(secret, b"reply", nonce, body), mac):
        raise WireError("the answer to the join request was not made by the holder of the secret")
    value = unpack_bin(body)
    if not isinstance(value, dict):
        raise WireError("the answer to the join request is not a map")
    return value


# How often one may try


PER_SOURCE = 5
"""Failed tries per minute and source address."""
IN_ALL = 60
"""Failed tries per minute from all sources together; beyond it no join is heard for a minute."""
MINUTE = 60.0
MAX_SOURCES = 1024
"""Sources that are remembered; the table is as long as this however many come (T-PEER-5)."""


@define
class Attempts:
    """
    The limits on failed joins: per source and in total, with one alarm per lock.

    A flood costs a dictionary of at most L{MAX_SOURCES} numbers. Members are not counted: they use
    another purpose of the port.
    """

    per_source: int = PER_SOURCE
    in_all: int = IN_ALL
    _since: float = -1e18
    _failed: int = 0
    _sources: dict[str, int] = field(factory=dict)
    _locked_until: float = -1e18

    def allowed(self, source: str, now: float) -> bool:
        """Whether a join from this address is heard."""
        self._turn(now)
        return now >= self._locked_until and self._sources.get(source, 0) < self.per_source

    def failed(self, source: str, now: float) -> bool:
        """Count a wrong proof; true when this one locks the door, and an alarm is due."""
        self._turn(now)
        self._failed += 1
        if source in self._sources or len(self._sources) < MAX_SOURCES:
            self._sources[source] = self._sources.get(source, 0) + 1
        if self._failed >= self.in_all and now >= self._locked_until:
            self._locked_until = now + MINUTE
            return True
        return False

    def _turn(self, now: float) -> None:
        if not 0 <= now - self._since < MINUTE:
            self._since = now
            self._failed = 0
            self._sources.clear()


def is_pinned(pinned: str, fingerprint: str, sums: Sequence[str]) -> bool:
    """
    Whether a key is the one of C{cluster_pub_fingerprint}, in any way that it is written.

    @param fingerprint: as C{salt-key -F} shows it, with colons or without.
    @param sums: L{file_sums} of the key; what stock calls by that name.
    """
    wanted = pinned.strip().lower()
    return wanted in (fingerprint.lower(), fingerprint.replace(":", "").lower(), *sums)


def file_sums(public: bytes) -> list[str]:
    """
    The output of C{sha256sum} for the file of a public key, with and without a newline at its end.
    """
    text = public.strip()
    return [hashlib.sha256(text + end).hexdigest() for end in (b"\n", b"")]
