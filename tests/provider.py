"""
An OpenID Connect provider for tests: it publishes its keys, and signs what it is told to.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from tests.webserver import WebServer

AUDIENCE = "salt"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def encoded(data: bytes) -> str:
    """As JWTs write bytes."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """One of this length; the same for the same number."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    """One of P-256; the same for the same number."""
    return ec.generate_private_key(ec.SECP256R1())


def jwk(kid: str, key: Private, **more: Any) -> dict[str, Any]:
    """The public half as providers publish it."""
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        return {
            "kid": kid, "kty": "RSA", "use": "sig",
            "n": encoded(numbers.n.to_bytes(size, "big")),
            "e": encoded(numbers.e.to_bytes(3, "big")), **more,
        }  # fmt: skip
    point = key.public_key().public_numbers()
    return {
        "kid": kid, "kty": "EC", "crv": "P-256",
        "x": encoded(point.x.to_bytes(32, "big")), "y": encoded(point.y.to_bytes(32, "big")),
        **more,
    }  # fmt: skip


def signed(header: Mapping[str, Any], claims: Any, key: Private | None) -> str:
    """A token."""
    text = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    if key is None:
        return f"{text}."
    if isinstance(key, rsa.RSAPrivateKey):
        return f"{text}.{encoded(key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(SHA256())))
    return f"{text}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


class Provider:
    """
    One provider.

    @ivar keys: what it signs with, by C{kid}; what it publishes follows.
    @ivar away: whether it answers with 503.
    @ivar user: who sits in front of each browser that comes, or C{""}: he says no.
    @ivar claims: of the tokens that it gives for codes, beside the usual ones.
    @ivar secret: of the client; C{""}: it has none.
    @ivar asked_last: with what the last browser came.
    @ivar codes: that were given, each with what it was asked for.
    """

    def __init__(self, test: Any) -> None:
        self.keys: dict[str, Private] = {"r1": rsa_key(), "e1": ec_key()}
        self.away = False
        self.changes: dict[str, Any] = {}
        self.user, self.secret = "fred", ""
        self.claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked_last: dict[str, str] = {}
        self.server = WebServer(test, self._answer)
        self.issuer = f"{self.server.url}/realm"

    def _answer(self, path: str, form: Mapping[str, str]) -> tuple[Any, ...]:
        if self.away:
            return 503, b""
        if path == "/realm/.well-known/openid-configuration":
            found = {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "code_challenge_methods_supported": ["S256"],
                **self.changes,
            }
            return 200, json.dumps(found).encode()
        if path == "/realm/keys":
            rows = [jwk(kid, key) for kid, key in self.keys.items()]
            return 200, json.dumps({"keys": rows}).encode()
        if path.startswith("/realm/authorize?"):
            return self._authorize(dict(parse_qsl(urlsplit(path).query)))
        if path == "/realm/token":
            return self._give(form, self.server.sent[-1])
        return 404, b""

    def _authorize(self, asked: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        """The user is logged in already, and sent back."""
        self.asked_last = asked
        told = {"state": asked["state"], "iss": self.issuer}
        if self.user:
            code = told["code"] = f"code-{len(self.codes)}"
            self.codes[code] = {**asked, "user": self.user}
        else:
            told["error"] = "access_denied"
        return 302, b"", {"Location": f"{asked['redirect_uri']}?{urlencode(told)}"}

    def _give(self, form: Mapping[str, str], sent: str) -> tuple[int, bytes]:
        """A token for a code, once."""
        if self.secret:
            both = b64encode(f"{form['client_id']}:{self.secret}".encode()).decode()
            if sent != f"Basic {both}" and form.get("client_secret") != self.secret:
                return 401, b""
        asked = self.codes.pop(form["code"], None)
        challenge = encoded(sha256(form["code_verifier"].encode()).digest())
        if (
            asked is None
            or asked["code_challenge_method"] != "S256"
            or challenge != asked["code_challenge"]
            or any(form[name] != asked[name] for name in ("client_id", "redirect_uri"))
        ):
            return 400, b'{"error": "invalid_grant"}'
        claims = {"sub": asked["user"], "aud": asked["client_id"], "nonce": asked["nonce"]}
        found = {"id_token": self.token(**{**claims, **self.claims}), "token_type": "Bearer"}
        return 200, json.dumps(found).encode()

    def options(self, **more: Any) -> dict[str, Any]:
        """What C{external_auth} says of it."""
        usual = {"issuer": self.issuer, "audience": AUDIENCE, **more}
        return {f"^{name}": value for name, value in usual.items()}

    def token(self, kid: str = "r1", **claims: Any) -> str:
        """A good one, but for what is said."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "fred", "exp": now + 300, "iat": now}
        key = self.keys[kid]
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        header = {"alg": algorithm, "kid": kid, "typ": "JWT"}
        return signed(header, {**usual, **claims}, key)
