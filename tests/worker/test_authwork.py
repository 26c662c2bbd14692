"""
Judging passwords as the worker processes do.
"""

from __future__ import annotations

import os
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.eauth import Proof
from saltwisted.worker.process import pam
from saltwisted.worker.process.authwork import serve
from saltwisted.worker.process.proofs import groups_of

SHA512 = (
    "$6$saltsalt$6HmnG.ehEMzgYMK0TCxOBULoMaNQNXyzFOT2qYch1YHPdYIj"
    "3P.88UVgCUtiy.ZlNcL02CwzdM1b.zOdo6qf30"
)


class BackendTests(SynchronousTestCase):
    """One call each."""

    def judge(self, eauth: str, password: str = "word", **settings: Any) -> dict[str, Any]:
        """Judge fred."""
        payload = {"eauth": eauth, "settings": settings, "username": "fred", "password": password}
        return serve(payload, None, {})

    def test_auto(self) -> None:
        """Anybody."""
        self.assertTrue(self.judge("auto")["ok"])

    def test_unknown(self) -> None:
        """A backend that is not here lets nobody in."""
        self.assertFalse(self.judge("yubico")["ok"])

    def test_sharedsecret(self) -> None:
        """The secret, and never an empty or missing one."""
        self.assertTrue(self.judge("sharedsecret", sharedsecret="word")["ok"])
        self.assertTrue(self.judge("sharedsecret", "12", sharedsecret=12)["ok"])
        self.assertFalse(self.judge("sharedsecret", "x", sharedsecret="word")["ok"])
        for nothing in ("", None, [], {}):
            answer = self.judge("sharedsecret", "", sharedsecret=nothing)
            self.assertFalse(answer["ok"])
            self.assertIn("needs the option", answer["problem"])

    def test_file(self) -> None:
        """A file as it is now; what is wrong with it goes to the log, without its content."""
        path = self.mktemp()
        settings = OPTIONS.take("file").settings({"^filename": path}, {})
        answer = self.judge("file", **settings)
        self.assertFalse(answer["ok"])
        self.assertIn("No such file", answer["problem"])
        with open(path, "w", encoding="utf-8") as file:
            file.write("fred:word\n")
        self.assertEqual(self.judge("file", **settings), Proof(ok=True).plain())
        with open(path, "w", encoding="utf-8") as file:
            file.write("s3cret\nfred:word\n")
        answer = self.judge("file", **settings)
        self.assertFalse(answer["ok"])
        self.assertIn("line 1", answer["problem"])
        self.assertNotIn("s3cret", answer["problem"])
        self.assertIn("^filename", self.judge("file")["problem"])

    def test_system_crypt(self) -> None:
        """htpasswd with a hash that the system's library knows."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            # openssl passwd -6 -salt saltsalt word
            file.write(f"fred:{SHA512}\n")
        given = {"^filename": path, "^filetype": "htpasswd"}
        settings = OPTIONS.take("file").settings(given, {})

        self.assertTrue(self.judge("file", **settings)["ok"])
        self.assertFalse(self.judge("file", "wordy", **settings)["ok"])

    def test_no_pam(self) -> None:
        """Without libpam nobody is let in, and the log is told."""

        def missing(name: str, file: str) -> Any:
            raise pam.PamMissing("libpam is not installed")

        self.patch(pam, "_library", missing)

        answer = self.judge("pam")

        self.assertFalse(answer["ok"])
        self.assertIn("libpam is not installed", answer["problem"])

    def test_pam_asked(self) -> None:
        """libpam itself, about a user who is not there."""
        try:
            pam._library("pam", "libpam.so.0")
        except pam.PamMissing:
            raise SkipTest("no libpam") from None

        self.assertEqual(pam.ask("no-such-user-swt", "x", "no-such-service-swt"), (False, False))

    def test_closed(self) -> None:
        """A right password of a closed account."""
        self.patch(pam, "ask", lambda user, word, service: (False, True))

        self.assertEqual(self.judge("pam")["closed"], True)

    def test_groups(self) -> None:
        """Groups have names; a user who is not here has none."""
        self.assertIn("root", groups_of("root"))
        self.assertEqual(groups_of("no-such-user-swt"), [])

    def test_shadow(self) -> None:
        """A master that cannot read C{/etc/shadow} is told what to do."""
        self.patch(os, "geteuid", lambda: 1234)
        self.patch(os, "access", lambda path, mode: False)
        self.patch(pam, "_library", lambda name, file: None)

        self.assertIn("group 'shadow'", pam.why_not())
