"""
Bearer tokens of OpenID Connect: whether one belongs to the user whose name it has, and until when.

These are signed JWTs (RFC 7519) in the compact form, only RS256 and ES256, checked by the keys that
the provider publishes (RFC 7517). What a token says about its own keys is ignored.
L{saltwisted.worker.process.oidc} fetches the keys; this module decides how old they may be. No
clock: time is an argument.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from hmac import compare_digest
from math import isfinite
from typing import Any

from attrs import evolve, field, frozen
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from saltwisted.wire.text import json_has_halves

FRESH, AGAIN, STALE = 600.0, 30.0, 86400.0
"""
Seconds after which keys are fetched again; for which they are not though a key is missing; and for
which they count while the provider is away.
"""
LEAST_BITS, MOST_BITS = 2048, 8192
MOST_KEYS = 64
KEY_FIELDS = ("kty", "use", "key_ops", "alg", "kid", "n", "e", "crv", "x", "y")
MAX_GROUPS = 4096
TYPES = ("", "jwt", "at+jwt", "application/at+jwt")
"""Kinds of tokens that log in; others, such as one that logs out, are signed by the same keys."""
_PART = re.compile(r"[A-Za-z0-9_-]+")


class BearerError(Exception):
    """
    The token logs nobody in; the text says why, and contains nothing of the token but its claims.
    """


@frozen(kw_only=True)
class Terms:
    """
    The site's requirements for a token.

    @ivar leeway: seconds by which clocks may differ.
    """

    issuer: str
    audience: tuple[str, ...]
    username_claim: str = "sub"
    groups_claim: str = "groups"
    leeway: float = 60.0


@frozen(kw_only=True)
class Bearer:
    """A parsed token; nothing of it is proven."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@frozen(kw_only=True)
class Holder:
    """
    The user whose identity a token has proven.

    @ivar until: when the proof expires.
    """

    name: str
    groups: tuple[str, ...]
    until: float


@frozen(kw_only=True)
class Key:
    """A provider's key, and the one algorithm that it is for."""

    kid: str
    algorithm: str
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey


def parse(text: str) -> Bearer:
    """
    Take a token apart.

    @raises BearerError: it is none.
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise BearerError("it is no signed token")
    signature = _decoded(parts[2])
    header, claims = _map(_decoded(parts[0])), _map(_decoded(parts[1]))
    signed = f"{parts[0]}.{parts[1]}".encode()
    return Bearer(header=header, claims=claims, signed=signed, signature=signature)


def keys_of(jwks: Any) -> tuple[Key, ...]:
    """The keys of a set that tokens may be signed with; what cannot be used is left out."""
    rows = jwks.get("keys") if isinstance(jwks, Mapping) else None
    found = (_key(row) for row in (rows if isinstance(rows, list) else [])[:MOST_KEYS])
    return tuple(key for key in found if key is not None)


def must_fetch(keys: Sequence[Key], at: float, tried: float, kid: str, now: float) -> bool:
    """
    Whether keys must be fetched before a token is checked.

    @param at: when these were fetched.
    @param tried: when the last attempt was.
    @param kid: the key by which the token claims to be signed.
    """
    if 0 <= now - tried < AGAIN:
        return False
    known = any(key.kid == kid for key in keys) if kid else bool(keys)
    return not known or not 0 <= now - at < FRESH


def claimed_name(token: Bearer, terms: Terms) -> str:
    """
    The name that a token has, true or not.

    @raises BearerError: it has none.
    """
    return _name(token.claims, terms.username_claim)


def terms_of(settings: Mapping[str, Any]) -> Terms:
    """What the options of C{oidc} ask of a token."""
    audience = settings["audience"]
    return Terms(
        issuer=str(settings["issuer"]),
        audience=tuple(map(str, audience if isinstance(audience, list) else [audience])),
        username_claim=str(settings["username_claim"]),
        groups_claim=str(settings["groups_claim"]),
        leeway=float(settings["leeway"]),
    )


def source_of(settings: Mapping[str, Any]) -> list[Any]:
    """Where keys are from: those that were kept for other options are not used."""
    return [settings["issuer"], settings["jwks_uri"], bool(settings["client_id"])]


def kept_document(
    settings: Mapping[str, Any], kept: Mapping[str, Any], now: float, longest: float = FRESH
) -> Mapping[str, Any] | None:
    """The provider's metadata, if it was stored and is not too old."""
    found, at = kept.get("document"), kept.get("at")
    if kept.get("source") != source_of(settings) or not isinstance(at, (int, float)):
        return None
    return found if isinstance(found, Mapping) and found and 0 <= now - at < longest else None


def judge(token: Bearer, keys: Sequence[Key], terms: Terms, now: float) -> Holder:
    """
    Whom a token proves.

    @raises BearerError: nobody.
    """
    _verify(token, keys)
    claims = token.claims
    if claims.get("iss") != terms.issuer:
        raise BearerError(f"it is of another issuer: {_shown(claims.get('iss'))}")
    audience = claims.get("aud")
    meant = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in terms.audience for one in meant):
        raise BearerError(f"it is for somebody else: {_shown(audience)}")
    until = _time(claims, "exp")
    if until is None:
        raise BearerError("it has no end (exp)")
    if now >= until + terms.leeway:
        raise BearerError(f"it has ended {now - until:.0f} seconds ago")
    for name in ("nbf", "iat"):
        start = _time(claims, name)
        if start is not None and now < start - terms.leeway:
            raise BearerError(f"it begins in {start - now:.0f} seconds ({name})")
    return Holder(
        name=_name(claims, terms.username_claim),
        groups=_groups(claims, terms.groups_claim),
        until=until + terms.leeway,
    )


def judge_identity(
    token: Bearer, keys: Sequence[Key], terms: Terms, client: str, nonce: str, now: float
) -> Holder:
    """
    The user of an ID token that the provider gave for a code.

    @param client: for whom it must be made, and nobody else.
    @param nonce: that of the login for which it was requested.
    @raises BearerError: the token is invalid.
    """
    found = judge(token, keys, evolve(terms, audience=(client,)), now)
    claims = token.claims
    audience, party = claims.get("aud"), claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if (several or party is not None) and party != client:
        raise BearerError(f"it is for several clients, and was made for {_shown(party)}")
    if str(token.header.get("typ", "")).lower() not in ("", "jwt"):
        raise BearerError(f"it is of another kind: {_shown(token.header.get('typ'))}")
    said = claims.get("nonce")
    if not isinstance(said, str) or not compare_digest(said.encode(), nonce.encode()):
        raise BearerError("it is of another login (nonce)")
    return found


def _verify(token: Bearer, keys: Sequence[Key]) -> None:
    header = token.header
    algorithm, kid = header.get("alg"), header.get("kid")
    if "crit" in header:
        raise BearerError("it has unknown extensions (crit)")
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower() not in TYPES:
        raise BearerError(f"it is of another kind: {_shown(kind)}")
    tried = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
    if not tried:
        raise BearerError(
            f"no key of the provider is for it: algorithm {_shown(algorithm)}, key {_shown(kid)}"
        )
    if not any(_signed_by(token, key) for key in tried):
        raise BearerError("its signature is wrong")


def _signed_by(token: Bearer, key: Key) -> bool:
    signature = token.signature
    try:
        if isinstance(key.public, rsa.RSAPublicKey):
            key.public.verify(signature, token.signed, padding.PKCS1v15(), SHA256())
            return True
        if len(signature) != 64:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
        key.public.verify(encode_dss_signature(r, s), token.signed, ec.ECDSA(SHA256()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _key(row: Any) -> Key | None:
    if not isinstance(row, Mapping) or row.get("use", "sig") != "sig":
        return None
    operations = row.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    try:
        if row.get("kty") == "RSA":
            n, e = _number(row["n"]), _number(row["e"])
            if not LEAST_BITS <= n.bit_length() <= MOST_BITS or not 65537 <= e < 1 << 64:
                return None
            algorithm, public = "RS256", rsa.RSAPublicNumbers(e, n).public_key()
        elif row.get("kty") == "EC" and row.get("crv") == "P-256":
            numbers = ec.EllipticCurvePublicNumbers(
                _number(row["x"]), _number(row["y"]), ec.SECP256R1()
            )
            algorithm, public = "ES256", numbers.public_key()
        else:
            return None
    except (KeyError, ValueError, BearerError, UnsupportedAlgorithm):
        return None
    if row.get("alg", algorithm) != algorithm:
        return None
    return Key(kid=str(row.get("kid", "")), algorithm=algorithm, public=public)


def _number(value: Any) -> int:
    if not isinstance(value, str):
        raise BearerError("a number of a key is none")
    return int.from_bytes(_decoded(value), "big")


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name:
        raise BearerError(f"it has no name ({claim})")
    if claim == "email" and claims.get("email_verified") is False:
        raise BearerError("the provider has not verified its address (email_verified)")
    return name


def _groups(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    found = next((value for value in _at(claims, claim) if value is not None), None)
    rows = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(sorted({row for row in rows if isinstance(row, str) and row}))[:MAX_GROUPS]


def _at(claims: Mapping[str, Any], claim: str) -> Iterator[Any]:
    """A claim by its name, or else by a path such as C{realm_access.roles}."""
    yield claims.get(claim)
    value: Any = claims
    for part in claim.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    yield value


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BearerError(f"its {name} is no time")
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if not isfinite(found):
        raise BearerError(f"its {name} is no time")
    return found


def _decoded(part: str) -> bytes:
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise BearerError("it is no signed token")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _map(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BearerError("it is no signed token") from None
    if not isinstance(found, dict) or json_has_halves(data, found):
        raise BearerError("it is no signed token")
    return found


def _shown(value: Any) -> str:
    return repr(value)[:100]
