"""
Logins by a web server of the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS, problems
from saltwisted.domain.eauth import Proof
from saltwisted.worker.process.rest import Rest
from saltwisted.worker.process.web import LARGEST
from tests.certificates import Authority
from tests.harness import scratch
from tests.webserver import WebServer


class RestTests(SynchronousTestCase):
    """One login each."""

    def ask(self, *answer: Any, password: str = "word", **settings: Any) -> Proof:
        """Fred, whom the server answers so."""
        self.forms: list[Mapping[str, str]] = []

        def judge(path: str, form: Mapping[str, str]) -> Any:
            self.forms.append(form)
            return answer

        server = WebServer(self, judge, settings.pop("certificate", {}))
        given = {"^url": f"{server.url}/login", **{f"^{k}": v for k, v in settings.items()}}
        found = Rest().prove(OPTIONS.take("rest").settings(given, {}), "fred", password)
        self.asked = server.asked
        return found

    def test_rules(self) -> None:
        """200 lets in, with the rules in the answer, or none; the form is stock's."""
        for body, rules in (
            (b'["test.*", {"web*": ["state.apply"]}]', ("test.*", {"web*": ["state.apply"]})),
            (b"[]", ()),
            (b"null", ()),
            (b"", ()),
        ):
            found = self.ask(200, body)
            self.assertEqual((found.ok, found.rules, found.problem), (True, rules, ""))
        self.assertEqual(self.forms, [{"username": "fred", "password": "word"}])
        self.assertEqual(self.asked, ["/login"])

    def test_no(self) -> None:
        """Servers say no by 400 to 403; anything else is said to be wrong, and lets nobody in."""
        for status in (400, 401, 403):
            found = self.ask(status, b"[]")
            self.assertEqual((found.ok, found.problem), (False, ""))
        for status in (201, 204, 404, 500):
            found = self.ask(status, b"")
            self.assertFalse(found.ok)
            self.assertIn(f"status {status}", found.problem)

    def test_T_EAUTH_5_redirected(self) -> None:
        """
        T-EAUTH-5: a redirection to a page that answers with 200 lets nobody in, and takes no
        password there.
        """
        for status in (301, 302, 303, 307, 308):
            found = self.ask(status, b"", {"Location": "/page"})
            self.assertFalse(found.ok)
            self.assertEqual(self.asked, ["/login"])

    def test_T_EAUTH_5_other_answers(self) -> None:
        """T-EAUTH-5: 200 with what is no list of rules, such as a page, lets nobody in."""
        for body in (
            b"<html>", b"true", b'{"a": 1}', b"[1]", b"[null]", b'["a"', b"[" * 100_000,
            b"[" + b'"a",' * 5000 + b'"a"]', b" " * (LARGEST + 1),
        ):  # fmt: skip
            found = self.ask(200, body)
            self.assertFalse(found.ok, body[:20])
            self.assertIn("no list of rules", found.problem)

    def test_T_TLS_1_certificate(self) -> None:
        """T-TLS-1: the server's certificate is verified; a wrong one sees no password."""
        folder = scratch(self)
        authority = Authority(folder)
        good = authority.issue("localhost")
        found = self.ask(200, b"", certificate=good, ca_file=authority.ca)
        self.assertEqual((found.ok, found.problem), (True, ""))
        for certificate, file in ((good, ""), (authority.issue("other.example"), authority.ca)):
            found = self.ask(200, b"", certificate=certificate, ca_file=file)
            self.assertFalse(found.ok)
            self.assertIn("CERTIFICATE_VERIFY_FAILED", found.problem)
            self.assertEqual(self.forms, [])

    def test_T_LOG_1_away(self) -> None:
        """T-LOG-1: a server that is away is said, and no password with it."""
        settings = OPTIONS.take("rest").settings({"^url": "http://localhost:1/x"}, {})
        found = Rest().prove(settings, "fred", "s3cret")

        self.assertFalse(found.ok)
        self.assertIn("refused", found.problem)
        self.assertNotIn("s3cret", repr(found))

    def test_options(self) -> None:
        """What of the option cannot work, or is read on its way, is said at the start."""
        self.assertEqual(problems({"rest": {"^url": "https://a/b", "fred": ["x.y"]}}), [])
        self.assertEqual(problems({"rest": {"^url": "http://localhost:80/b"}}), [])
        for given, words in (
            ({}, "^url is needed"),
            ({"^url": "http://localhost.example/b"}, "unencrypted"),
            ({"^url": "https://a", "^uri": "x"}, "did you mean '^url'?"),
        ):
            (found,) = problems({"rest": given})
            self.assertIn(words, found)
