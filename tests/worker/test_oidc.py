"""
Logins by tokens of a provider, whose keys are fetched and kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import CALLBACK, OPTIONS, problems
from saltwisted.domain.bearer import AGAIN, FRESH, STALE
from saltwisted.domain.eauth import Proof, credentials
from saltwisted.wire.msgpack import pack_bin
from saltwisted.worker.process import oidc
from saltwisted.worker.process.oidc import DISCOVERY, Oidc
from saltwisted.worker.process.web import LARGEST
from tests.certificates import Authority
from tests.harness import scratch
from tests.provider import Provider, rsa_key
from tests.webserver import WebServer

BACK = f"https://salt.example{CALLBACK}"


class OidcTests(SynchronousTestCase):
    """One provider, and a master that keeps what it is told to."""

    def setUp(self) -> None:
        self.provider = Provider(self)
        self.kept: Mapping[str, Any] = {}
        self.now = time.time()

    def ask(self, token: str, username: str = "fred", **more: Any) -> Proof:
        """One login."""
        settings = OPTIONS.take("oidc").settings(self.provider.options(**more), {})
        proof = Oidc(lambda: self.now)
        found = proof.prove({**settings, "kept": self.kept}, username, token)
        self.kept = found.keep or self.kept
        return found

    def fetched(self) -> int:
        """How often the keys were asked for."""
        return self.provider.server.asked.count("/realm/keys")

    def test_login(self) -> None:
        """A token proves its user, with groups and an end; both algorithms do."""
        for kid in ("r1", "e1"):
            found = self.ask(self.provider.token(kid, groups=["web", "ops"]))
            self.assertEqual((found.ok, found.problem), (True, ""), found.steps)
            self.assertEqual(found.groups, ("ops", "web"))
            self.assertTrue(self.now + 300 < found.until < self.now + 400)
        self.assertEqual(self.fetched(), 1)

    def test_T_EAUTH_9_other_name(self) -> None:
        """T-EAUTH-9: a good token proves nobody but its user, letter by letter."""
        for name in ("root", "Fred", "fred ", "*"):
            found = self.ask(self.provider.token(), name)
            self.assertEqual((found.ok, found.problem), (False, ""))

    def test_T_EAUTH_9_no_keys_of_others(self) -> None:
        """T-EAUTH-9: another issuer's document, or one with keys in the clear, gives none."""
        for changes in (
            {"issuer": "https://other"},
            {"issuer": self.provider.issuer + "/"},
            {"jwks_uri": "http://other.example/keys"},
            {"jwks_uri": "file:///etc/passwd"},
            {"jwks_uri": None},
        ):
            self.provider.changes = changes
            self.kept = {}
            found = self.ask(self.provider.token())
            self.assertFalse(found.ok)
            self.assertIn("could not be fetched", found.problem)
        self.assertEqual(self.fetched(), 0)

    def test_rotation(self) -> None:
        """A new key counts from its first token on; one that is withdrawn ends within minutes."""
        self.assertTrue(self.ask(self.provider.token()).ok)
        old = self.provider.token(exp=self.now + 10 * FRESH)
        self.provider.keys = {"r2": rsa_key(2048, 2)}
        self.now += AGAIN
        self.assertTrue(self.ask(self.provider.token("r2")).ok)
        self.assertFalse(self.ask(old).ok)

        self.provider.keys = {"r3": rsa_key(2048, 1)}
        late = self.provider.token("r3", exp=self.now + 10 * FRESH)
        self.now += FRESH
        self.assertTrue(self.ask(late).ok)
        self.assertEqual(self.fetched(), 3)

    def test_unknown_keys(self) -> None:
        """Who sends tokens of keys that nobody has does not make the master ask each time."""
        self.provider.keys["x"] = rsa_key(2048, 1)
        token = self.provider.token("x")
        del self.provider.keys["x"]
        for _ in range(5):
            self.assertFalse(self.ask(token).ok)
            self.now += AGAIN / 4
        self.assertEqual(self.fetched(), 2)

    def test_away(self) -> None:
        """While the provider is away its keys count, for a day; then the log says why not."""
        token = self.provider.token(exp=self.now + 2 * STALE)
        self.assertTrue(self.ask(token).ok)
        self.provider.away = True
        self.now += FRESH
        found = self.ask(token)
        self.assertTrue(found.ok, found.steps)
        self.assertIn("503", found.steps[0])

        self.now += STALE
        found = self.ask(token)
        self.assertFalse(found.ok)
        self.assertIn("503", found.problem)
        self.provider.away = False
        self.now += AGAIN
        self.assertTrue(self.ask(token).ok)

    def test_T_TLS_1_certificate(self) -> None:
        """T-TLS-1: the provider's certificate is verified, for the document and for the keys."""
        authority = Authority(scratch(self))
        for name, file, good in (
            ("localhost", authority.ca, True),
            ("localhost", "", False),
            ("other.example", authority.ca, False),
        ):
            server = WebServer(self, self.provider._answer, authority.issue(name))
            self.provider.issuer, self.kept = f"{server.url}/realm", {}
            found = self.ask(self.provider.token(), ca_file=file)
            self.assertEqual(found.ok, good, found.problem)
            self.assertEqual("CERTIFICATE_VERIFY_FAILED" in found.problem, not good)

    def test_T_LOG_1_told(self) -> None:
        """T-LOG-1: what is told of a token says whose it is and what is wrong, and is not it."""
        token = self.provider.token(exp=self.now - 500)
        found = self.ask(token)

        self.assertFalse(found.ok)
        self.assertIn("token: it has ended", found.steps[-1])
        for part in token.split("."):
            self.assertNotIn(part, repr(found))

    def test_long(self) -> None:
        """A token with many groups is not too long for a login; other passwords stay bounded."""
        token = self.provider.token(groups=[f"group-{number}" for number in range(400)])
        self.assertGreater(len(token), 4096)
        given = {"username": "fred", "password": token}
        self.assertIsNotNone(credentials({**given, "eauth": "oidc"}))
        self.assertIsNone(credentials({**given, "eauth": "pam"}))
        self.assertEqual(len(self.ask(token).groups), 400)

    def test_options(self) -> None:
        """What of the option cannot work, or is not to be trusted, is said at the start."""
        good = {"^issuer": "https://a", "^audience": ["x"], "ops%": ["test.*"]}
        self.assertEqual(problems({"oidc": good}), [])
        browsers = {
            **good,
            "^client_id": "x",
            "^redirect_uri": ["http://localhost:8000" + CALLBACK],
        }
        self.assertEqual(problems({"oidc": browsers}), [])
        for changes, words in (
            ({"^issuer": ""}, "^issuer is needed"),
            ({"^audience": ""}, "^audience is needed"),
            ({"^issuer": "http://a"}, "not an https address"),
            ({"^jwks_uri": "ftp://a"}, "not an https address"),
            ({"^audience": [5]}, "text"),
            ({"^leeway": "long"}, "^leeway"),
            ({"^leeway": 5000}, "^leeway"),
            ({"^isuer": "x"}, "did you mean '^issuer'?"),
            ({"^client_secret": "x"}, "did you mean '^client_secret_file'?"),
            ({"^client_id": "x"}, "^redirect_uri is needed"),
            ({"^redirect_uri": BACK}, "^client_id is needed"),
            ({"^client_id": "x", "^redirect_uri": [BACK, 5]}, "a list of texts"),
            ({"^client_id": "x", "^redirect_uri": BACK.replace("s:", ":")}, "not an https address"),
            ({"^client_id": "x", "^redirect_uri": f"{BACK}/more"}, "does not end with"),
            ({"^client_id": "x", "^redirect_uri": BACK, "^scope": "email"}, "'openid'"),
        ):
            (found,) = problems({"oidc": {**good, **changes}})
            self.assertIn(words, found)


ODD: list[Any] = [
    None, True, 0, -1, 1e308, float("inf"), float("nan"), 10**400, "", "x", "\0",
    "http://x", "https://x/\n", "file:///etc/passwd", "https://other.example/", [], [None], [[]],
    ["S256", {}], {}, {"x": []}, {"keys": [5]}, [{}], [{"kty": "RSA"}] * 70, "S" * 300_000,
]  # fmt: skip
BODIES = (b"", b"\xff", b"null", b"5", b'"x"', b"[" * 100_000, b'{"a":' * 50_000, b"x" * (2 << 20))


class LiesTests(SynchronousTestCase):
    """A provider that answers with anything, to somebody who comes back from it with a code."""

    def setUp(self) -> None:
        self.provider = Provider(self)
        self.document = json.loads(self.provider._answer("/realm" + DISCOVERY, {})[1])
        self.keys = json.loads(self.provider._answer("/realm/keys", {})[1])
        self.patch(oidc, "ask", self.answer)
        self.bodies: dict[str, bytes] = {}
        self.settings = OPTIONS.take("oidc").settings(
            self.provider.options(client_id="salt", redirect_uri=BACK), {}
        )

    def answer(self, url: str, *more: Any) -> tuple[int, bytes]:
        """What is asked for, or what the test has in its place."""
        for path in ("configuration", "/keys", "/token"):
            if url.endswith(path):
                return 200, self.bodies[path][: LARGEST + 1]
        return 404, b""

    def told(self, document: Any, keys: Any, token: Any) -> None:
        """What the provider answers next, as values or as bytes."""
        for path, value in (("configuration", document), ("/keys", keys), ("/token", token)):
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.bodies[path] = data

    def exchanged(self) -> Proof:
        """A login with a code; what comes of it is sent to the master."""
        code = {"code": "c", "verifier": "v", "nonce": "n", "back": BACK}
        found = Oidc(time.time).exchange(self.settings, code)
        pack_bin(found.plain())
        return found

    def test_T_EAUTH_9_lies(self) -> None:
        """
        T-EAUTH-9: whatever a provider answers, in place of each of its answers and of each of
        their values: nobody is logged in by it, and nothing but a refusal comes of it.
        """
        good = {"aud": "salt", "nonce": "n"}
        token = {"id_token": self.provider.token(**good)}
        self.told(self.document, self.keys, token)
        self.assertTrue(self.exchanged().ok)
        names = {odd for odd in ODD if isinstance(odd, str)}
        for odd in (*ODD, *BODIES):
            lies = [(odd, self.keys, token), (self.document, odd, token)]
            lies.append((self.document, self.keys, odd))
            if not isinstance(odd, bytes):
                lies += [({**self.document, name: odd}, self.keys, token) for name in self.document]
                rows = [{**row, name: odd} for row in self.keys["keys"] for name in row]
                lies += [(self.document, {"keys": [row]}, token) for row in rows]
                lies.append((self.document, self.keys, {"id_token": odd}))
            for lie in lies:
                self.told(*lie)
                found = self.exchanged()
                self.assertIn(found.name, ("fred", ""))
                self.assertEqual(bool(found.name), found.ok)
            for name in ("iss", "aud", "sub", "exp", "nonce", "azp", "nbf", "groups"):
                if isinstance(odd, bytes):
                    continue
                signed = {"id_token": self.provider.token(**{**good, name: odd})}
                self.told(self.document, self.keys, signed)
                found = self.exchanged()
                if name in ("iss", "aud", "nonce"):
                    self.assertFalse(found.ok, (name, odd))
                self.assertIn(found.name, {"", "fred", *(names if name == "sub" else ())})
