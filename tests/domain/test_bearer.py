"""
Bearer tokens: which are believed, and what is done with all others.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.bearer import (
    AGAIN,
    FRESH,
    BearerError,
    Holder,
    Key,
    Terms,
    judge,
    judge_identity,
    keys_of,
    must_fetch,
    parse,
)
from tests.provider import Private, ec_key, encoded, jwk, rsa_key, signed

NOW = 1_800_000_000.0
ISSUER = "https://login.example.com"
TERMS = Terms(issuer=ISSUER, audience=("salt",))
CLAIMS = {"iss": ISSUER, "aud": "salt", "sub": "fred", "exp": NOW + 300, "groups": ["ops"]}
RSA, EC = {"alg": "RS256", "kid": "r"}, {"alg": "ES256", "kid": "e"}


def the_keys() -> tuple[Key, ...]:
    """One of each kind."""
    return keys_of({"keys": [jwk("r", rsa_key()), jwk("e", ec_key())]})


class BearerTests(SynchronousTestCase):
    """One token each."""

    def judged(
        self, claims: Any, header: Any = RSA, key: Private | None = None, **terms: Any
    ) -> Holder:
        """What a token is worth."""
        own = key or (ec_key() if header.get("alg") == "ES256" else rsa_key())
        asked = Terms(**{"issuer": ISSUER, "audience": ("salt",), **terms})
        return judge(parse(signed(header, claims, own)), the_keys(), asked, NOW)

    def refused(self, words: str, claims: Any = CLAIMS, header: Any = RSA, **more: Any) -> None:
        """It is worth nothing, for this reason."""
        with self.assertRaisesRegex(BearerError, words):
            self.judged(claims, header, **more)

    def test_good(self) -> None:
        """Both algorithms prove the name, the groups, and until when."""
        for header in (RSA, EC, {**RSA, "typ": "JWT"}, {**EC, "typ": "at+jwt"}, {"alg": "RS256"}):
            found = self.judged(CLAIMS, header)
            self.assertEqual(found, Holder(name="fred", groups=("ops",), until=NOW + 360))

    def test_T_EAUTH_9_algorithms(self) -> None:
        """
        T-EAUTH-9: an algorithm that is none, or that takes the public key for a secret, is not
        believed, nor one key with the algorithm of another.
        """
        for name in (
            "none",
            "None",
            "HS256",
            "RS384",
            "PS256",
            "ES384",
            "EdDSA",
            None,
            5,
            ["RS256"],
        ):
            self.refused("no key of the provider", header={"alg": name, "kid": "r"})
        text = signed({"alg": "none"}, CLAIMS, None)
        with self.assertRaises(BearerError):
            judge(parse(text), the_keys(), TERMS, NOW)
        public = (
            rsa_key()
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        for name in ("HS256", "RS256"):
            head = ".".join(
                encoded(json.dumps(part).encode()) for part in ({"alg": name, "kid": "r"}, CLAIMS)
            )
            forged = f"{head}.{encoded(hmac.digest(public, head.encode(), 'sha256'))}"
            with self.assertRaises(BearerError):
                judge(parse(forged), the_keys(), TERMS, NOW)
        self.refused("no key of the provider", header={"alg": "ES256", "kid": "r"}, key=ec_key())

    def test_T_EAUTH_9_other_keys(self) -> None:
        """T-EAUTH-9: other keys sign for nobody, also when the token brings them along."""
        mine = jwk("r", rsa_key(2048, 1))
        for more in ({}, {"jwk": mine}, {"jku": "https://evil"}, {"x5u": "https://evil"}):
            self.refused("signature", header={**RSA, **more}, key=rsa_key(2048, 1))
        self.refused("signature", header=EC, key=ec_key(1))
        self.refused("no key", header={**RSA, "kid": "x"})
        self.refused("crit", header={**RSA, "crit": ["b64"]})
        self.refused("another kind", header={**RSA, "typ": "logout+jwt"})

    def test_T_EAUTH_9_changed(self) -> None:
        """T-EAUTH-9: a token of which a part was changed is not believed."""
        head, body, sign = signed(RSA, CLAIMS, rsa_key()).split(".")
        other = signed(RSA, {**CLAIMS, "sub": "root"}, rsa_key()).split(".")[1]
        for text in (
            f"{head}.{other}.{sign}",
            f"{head}.{body}.{sign[:-4]}AAAA",
            f"{head}.{body}.AA",
        ):
            with self.assertRaisesRegex(BearerError, "signature"):
                judge(parse(text), the_keys(), TERMS, NOW)

    def test_T_EAUTH_9_claims(self) -> None:
        """T-EAUTH-9: of another issuer, for somebody else, ended, not begun, without an end."""
        for changes, words in (
            ({"iss": "https://login.example.com/"}, "another issuer"),
            ({"iss": None}, "another issuer"),
            ({"aud": "other"}, "somebody else"),
            ({"aud": ["other", 5, None]}, "somebody else"),
            ({"aud": {"salt": 1}}, "somebody else"),
            ({"aud": None}, "somebody else"),
            ({"exp": NOW - 60}, "ended"),
            ({"exp": None}, "no end"),
            ({"exp": float("inf")}, "no time"),
            ({"exp": float("nan")}, "no time"),
            ({"exp": 10**400}, "no time"),
            ({"exp": True}, "no time"),
            ({"exp": "9999999999"}, "no time"),
            ({"nbf": NOW + 61}, "begins"),
            ({"iat": NOW + 61}, "begins"),
            ({"sub": ""}, "no name"),
            ({"sub": 5}, "no name"),
        ):
            self.refused(words, {**CLAIMS, **changes})
        self.refused("verified", {**CLAIMS, "email": "a@b", "email_verified": False},
                     username_claim="email")  # fmt: skip

    def test_T_EAUTH_9_identity(self) -> None:
        """
        T-EAUTH-9: an identity for a browser is made for this client alone, for this very login,
        and is no token of another kind.
        """
        good = {**CLAIMS, "aud": "me", "nonce": "n"}

        def judged(claims: Any, **header: Any) -> Holder:
            token = parse(signed({**EC, **header}, claims, ec_key()))
            return judge_identity(token, the_keys(), TERMS, "me", "n", NOW)

        for fine in ({}, {"aud": ["me"]}, {"azp": "me"}, {"aud": ["me", "other"], "azp": "me"}):
            self.assertEqual(judged({**good, **fine}, typ="JWT").name, "fred")
        for changes, words in (
            ({"aud": "salt"}, "somebody else"),
            ({"aud": ["me", "other"]}, "several clients"),
            ({"azp": "other"}, "several clients"),
            ({"aud": ["me", "other"], "azp": "other"}, "several clients"),
            ({"nonce": "m"}, "another login"),
            ({"nonce": None}, "another login"),
            ({"nonce": ["n"]}, "another login"),
        ):
            with self.assertRaisesRegex(BearerError, words):
                judged({**good, **changes})
        for kind in ("at+jwt", "application/at+jwt"):
            with self.assertRaisesRegex(BearerError, "another kind"):
                judged(good, typ=kind)

    def test_T_TEXT_1_maps(self) -> None:
        """T-TEXT-1: what is no map, or has text that is none, is no token."""
        for part in (b"[]", b"5", b'"x"', b"null", b'{"sub": "\\ud800"}', b'{"\\udcff": 1}'):
            for parts in ((part, b"{}"), (b"{}", part)):
                text = ".".join(encoded(each) for each in (*parts, b"x"))
                self.assertRaises(BearerError, parse, text)

    def test_skew(self) -> None:
        """Clocks may differ by the leeway, in both directions, and by no more."""
        for changes in ({"exp": NOW - 59}, {"nbf": NOW + 60}, {"iat": NOW + 60}):
            self.assertEqual(self.judged({**CLAIMS, **changes}).name, "fred")
        self.refused("ended", {**CLAIMS, "exp": NOW - 1}, leeway=0)

    def test_claims(self) -> None:
        """Names and groups come from the claims that the site says, also from inside of one."""
        claims = {
            **CLAIMS,
            "aud": ["other", "salt"],
            "email": "fred@b",
            "realm_access": {"roles": ["web", 5, "", "web"]},
            "https://x.example/g": "one",
        }
        found = self.judged(claims, username_claim="email", groups_claim="realm_access.roles")
        self.assertEqual((found.name, found.groups), ("fred@b", ("web",)))
        self.assertEqual(self.judged(claims, groups_claim="https://x.example/g").groups, ("one",))
        for odd in ("nothing", "realm_access", "sub.x", "exp"):
            self.assertEqual(self.judged(claims, groups_claim=odd).groups, ())

    def test_keys(self) -> None:
        """Weak keys, those for other uses, and what is no key are left out; the rest is used."""
        good = jwk("r", rsa_key())
        rows = [
            None, 5, {}, {"kty": "oct", "k": "AAAA"}, {**good, "use": "enc"},
            {**good, "key_ops": ["sign"]}, {**good, "alg": "RS512"}, {**good, "e": "Aw"},
            {**good, "n": 5}, {**good, "n": "!"}, {"kty": "RSA"}, jwk("w", rsa_key(1024)),
            {**jwk("e", ec_key()), "x": "AAAA"}, {**jwk("e", ec_key()), "crv": "P-521"},
        ]  # fmt: skip
        self.assertEqual(keys_of({"keys": rows}), ())
        self.assertEqual([key.kid for key in keys_of({"keys": [*rows, good]})], ["r"])
        for odd in (None, [], {"keys": {}}, {"keys": None}):
            self.assertEqual(keys_of(odd), ())
        self.assertIsInstance(the_keys()[1].public, ec.EllipticCurvePublicKey)

    def test_fetching(self) -> None:
        """Keys are fetched when they are old or one is missing, and not again and again."""
        keys, never = the_keys(), float("-inf")
        self.assertTrue(must_fetch((), never, never, "r", NOW))
        self.assertFalse(must_fetch(keys, NOW - FRESH + 1, NOW - FRESH + 1, "r", NOW))
        self.assertTrue(must_fetch(keys, NOW - FRESH, NOW - FRESH, "r", NOW))
        self.assertFalse(must_fetch(keys, NOW - FRESH, NOW - AGAIN + 1, "r", NOW))
        self.assertTrue(must_fetch(keys, NOW - AGAIN, NOW - AGAIN, "new", NOW))
        self.assertFalse(must_fetch(keys, NOW - AGAIN + 1, NOW - AGAIN + 1, "new", NOW))
        self.assertTrue(must_fetch(keys, NOW + 50, NOW + 50, "r", NOW))  # the clock was set back

    @given(
        st.text() | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,9}")
    )
    def test_T_EAUTH_9_junk(self, text: str) -> None:
        """T-EAUTH-9: whatever somebody sends is one kind of error."""
        with self.assertRaises(BearerError):
            judge(parse(text), the_keys(), TERMS, NOW)

    @given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(),
                        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
           st.sampled_from(["iss", "aud", "exp", "nbf", "sub", "groups"]))  # fmt: skip
    def test_T_EAUTH_9_junk_signed(self, value: Any, claim: str) -> None:
        """T-EAUTH-9: so is whatever a provider signs, if it is not good."""
        try:
            found = self.judged({**CLAIMS, claim: value}, EC)
        except BearerError:
            return
        self.assertTrue(found.name)
        self.assertTrue(all(isinstance(group, str) for group in found.groups))
