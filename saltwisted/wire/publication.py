"""
Publications: a job map, sealed with the publish key, then signed by the master.

The signature covers the sealed blob, so anybody who knows the publish key (every
accepted minion of the master does) still cannot publish. Stock minions check it
only when told to; ours always does.

Also here: the topics of C{zmq_filtering}, and what a job map must contain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import field, frozen

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.crypticle import SessionKey, open_sealed, seal
from saltwisted.wire.msgpack import pack, unpack_raw
from saltwisted.wire.rsa import PKCS1V15_SHA1, PrivateKey, PublicKey

BROADCAST = b"broadcast"
SYNDIC = b"syndic"
ALL = b""

MAX_JID = 64


@lru_cache(maxsize=16384)
def topic_of(minion_id: str) -> bytes:
    """The topic that a minion subscribes to under C{zmq_filtering}, beside L{BROADCAST}."""
    return hashlib.sha1(minion_id.encode("utf-8", "surrogateescape")).hexdigest().encode()  # noqa: S324


def seal_job(job: Mapping[str, Any], key: SessionKey, iv: bytes) -> bytes:
    """The blob of a job; see L{sign_blob}."""
    return seal(key, job, iv)


def sign_blob(blob: bytes, signer: PrivateKey | None, algorithm: str = PKCS1V15_SHA1) -> bytes:
    """
    The payload that goes to subscribers. One private RSA operation: run it in a thread.

    @param signer: the master's key, or C{None} with C{sign_pub_messages: false}.
    @raises WireError: unknown algorithm.
    """
    envelope: dict[str, Any] = {"enc": "aes", "load": blob}
    if signer is not None:
        envelope["sig_algo"] = algorithm
        envelope["sig"] = signer.sign(blob, algorithm)
    return pack(envelope)


@frozen
class Publication:
    """
    A publication whose blob is still closed.

    @ivar signature: C{b""} when it is not signed.
    """

    blob: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    algorithm: str


def decode_publication(payload: bytes | dict[Any, Any]) -> Publication:
    """
    Read the outer map.

    @param payload: msgpack bytes, or the raw map that a 3006 master sends over TCP.
    @raises WireError: not a publication. Clear ones are none (CVE-2016-1866).
    """
    value = payload if isinstance(payload, dict) else unpack_raw(payload)
    if value.__class__ is not dict or value.get(b"enc") != b"aes":
        raise WireError("publication")
    blob, signature = value.get(b"load"), value.get(b"sig", b"")
    algorithm = value.get(b"sig_algo", b"PKCS1v15-SHA1")
    if not (
        isinstance(blob, bytes) and isinstance(signature, bytes) and isinstance(algorithm, bytes)
    ):
        raise WireError("publication")
    return Publication(blob, signature, algorithm.decode("ascii", "replace")[:64])


def verify_publication(publication: Publication, master_key: PublicKey) -> None:
    """
    Insist on the master's signature.

    @raises AuthenticationError: missing, of another key, or by an algorithm nobody knows.
    """
    if not publication.signature:
        raise AuthenticationError("unsigned")
    try:
        good = master_key.verify(publication.blob, publication.signature, publication.algorithm)
    except WireError as error:
        raise AuthenticationError("publication algorithm") from error
    if not good:
        raise AuthenticationError("publication signature")


@frozen
class Job:
    """
    One published job.

    @ivar fun: a function name, or several for a compound job.
    @ivar arg: the arguments; for several functions a list per function.
    @ivar serial: the master's counter, or C{None}.
    @ivar load: the whole map as published, for the fields that are not named here.
    """

    jid: str
    fun: str | list[str]
    arg: list[Any] = field(repr=False)
    tgt: Any = field(repr=False)
    tgt_type: str
    ret: str
    user: str
    serial: int | None
    load: dict[str, Any] = field(repr=False)


def parse_job(value: Any) -> Job:
    """
    Check a job map.

    @raises WireError: what a minion needs (C{fun}, C{arg}, C{tgt}, C{jid}) is missing,
        or of a wrong type.
    """
    if value.__class__ is not dict:
        raise WireError("job")
    jid, fun, arg = value.get("jid"), value.get("fun"), value.get("arg")
    if jid.__class__ is int:
        jid = str(jid)
    if not isinstance(jid, str) or not 0 < len(jid) <= MAX_JID:
        raise WireError("jid")
    if isinstance(fun, list):
        if not fun or not all(isinstance(one, str) for one in fun):
            raise WireError("fun")
    elif not isinstance(fun, str) or not fun:
        raise WireError("fun")
    if not isinstance(arg, list):
        raise WireError("arg")
    if "tgt" not in value:
        raise WireError("tgt")
    tgt_type = value.get("tgt_type", "glob")
    ret = value.get("ret") or ""
    user = value.get("user") or ""
    serial = value.get("serial")
    if not isinstance(tgt_type, str) or not isinstance(ret, str) or not isinstance(user, str):
        raise WireError("job")
    if serial is not None and serial.__class__ is not int:
        raise WireError("serial")
    return Job(jid, fun, arg, value["tgt"], tgt_type, ret, user, serial, value)


def open_job(publication: Publication, key: SessionKey) -> Job:
    """
    Open the blob and check the job.

    @raises AuthenticationError: sealed with another key.
    @raises WireError: malformed.
    """
    return parse_job(open_sealed(key, publication.blob))
