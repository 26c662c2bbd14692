"""
The proofs of logins keep their contract: those that are here, and the fake.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.eauth import Proof
from saltwisted.errors import ConfigError
from saltwisted.kinds import LOGINS
from saltwisted.parts import ILoginProof
from saltwisted.testing.logins import FakeProof
from saltwisted.worker.process import pam, proofs
from saltwisted.worker.process.proofs import PROOFS
from tests.contracts.logins import PASSWORD, USER, LoginProofContract
from tests.provider import Provider
from tests.slapd import Slapd, needs_slapd
from tests.webserver import WebServer


class FakeTests(LoginProofContract, SynchronousTestCase):
    """The one for tests."""

    def proof(self) -> ILoginProof:
        """A fake."""
        return FakeProof({USER: PASSWORD, "eve": "x"})

    def settings(self) -> Mapping[str, Any]:
        """It needs none."""
        return {}

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """One that was told to be."""
        return FakeProof({USER: PASSWORD}, problem="the directory is away"), {}

    def test_told(self) -> None:
        """It has groups and closed accounts as it was told, and says who asked."""
        fake = FakeProof({USER: PASSWORD, "eve": "x"}, {USER: ["ops"]}, closed=["eve"])

        self.assertEqual(fake.prove({}, USER, PASSWORD), Proof(ok=True, groups=("ops",)))
        self.assertEqual(fake.prove({}, "eve", "x"), Proof(closed=True))
        self.assertEqual(fake.prove({}, "eve", "y"), Proof())
        self.assertEqual(fake.asked, [USER, "eve", "eve"])


class AutoTests(LoginProofContract, SynchronousTestCase):
    """C{auto} believes everybody."""

    knows = names = False

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("auto")

    def settings(self) -> Mapping[str, Any]:
        """It needs none."""
        return OPTIONS.take("auto").settings({USER: ["test.*"]}, {})


class SecretTests(LoginProofContract, SynchronousTestCase):
    """C{sharedsecret} asks for no name."""

    names = False

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("sharedsecret")

    def settings(self) -> Mapping[str, Any]:
        """With the option."""
        return OPTIONS.take("sharedsecret").settings({}, {"sharedsecret": PASSWORD})

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """Without it."""
        return self.proof(), OPTIONS.take("sharedsecret").settings({}, {})


class FileTests(LoginProofContract, SynchronousTestCase):
    """C{file}, its fields apart by a sign that no password has."""

    def setUp(self) -> None:
        """A file of two users."""
        self.path = Path(self.mktemp())
        self.path.write_text(f"eve;x\n{USER};{PASSWORD}\n")

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("file")

    def settings(self) -> Mapping[str, Any]:
        """As a site writes it."""
        given = {"^filename": str(self.path), "^field_separator": ";", USER: ["test.*"]}
        return OPTIONS.take("file").settings(given, {})

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """A file that is not there."""
        return self.proof(), {**self.settings(), "filename": f"{self.path}.gone"}


class PamTests(LoginProofContract, SynchronousTestCase):
    """C{pam} by the system's libpam, with a stack of its own that asks a script."""

    def setUp(self) -> None:
        """C{pam_exec} in a directory of our own, in place of C{/etc/pam.d}."""
        try:
            real = pam._library("pam", "libpam.so.0")
            start = real.pam_start_confdir
        except (pam.PamMissing, AttributeError):
            raise SkipTest("no libpam that reads another directory than /etc/pam.d") from None
        top = Path(self.mktemp()).resolve()
        top.mkdir()
        script = top / "judge"
        script.write_text(
            "#!/bin/sh\nword=$(tr -d '\\000'; echo .)\n"
            f'[ "$PAM_USER" = "{USER}" ] && [ "$word" = "{PASSWORD}." ]\n'
        )
        script.chmod(0o755)
        (top / "login").write_text(
            f"auth required pam_exec.so quiet expose_authtok {script}\n"
            "account required pam_permit.so\n"
        )

        class Library:
            """libpam, which looks for its services here."""

            pam_authenticate, pam_acct_mgmt, pam_end = (
                real.pam_authenticate,
                real.pam_acct_mgmt,
                real.pam_end,
            )

            @staticmethod
            def pam_start(service: Any, user: Any, conversation: Any, handle: Any) -> Any:
                """As the real one."""
                return start(service, user, conversation, os.fsencode(top), handle)

        self.patch(pam, "_library", lambda name, file: Library if name == "pam" else ctypes)
        self.patch(os, "geteuid", lambda: 0)

        def account(name: str) -> Any:
            if name != USER:
                raise KeyError(name)
            return pwd.getpwuid(0)

        self.patch(proofs, "pwd", SimpleNamespace(getpwnam=account))

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("pam")

    def settings(self) -> Mapping[str, Any]:
        """The service that PAM has by default."""
        return OPTIONS.take("pam").settings({USER: ["test.*"]}, {})

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """Without libpam."""

        def missing(name: str, file: str) -> Any:
            raise pam.PamMissing("libpam is not installed")

        self.patch(pam, "_library", missing)
        return self.proof(), self.settings()


@needs_slapd
class LdapTests(LoginProofContract, SynchronousTestCase):
    """C{ldap} by a real server."""

    def setUp(self) -> None:
        """With two users."""
        self.server = Slapd(self, {USER: PASSWORD, "eve": "x"}, {"ops": (USER,)}).start()

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("ldap")

    def settings(self) -> Mapping[str, Any]:
        """Of a site that searches by an account of its own."""
        return OPTIONS.take("ldap").settings({USER: ["test.*"]}, self.server.options())

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """Options that cannot be."""
        return self.proof(), {**self.settings(), "filter": ""}


class RestTests(LoginProofContract, SynchronousTestCase):
    """C{rest} by a server that knows one user."""

    looks = False

    def setUp(self) -> None:
        """Start it."""

        def judge(path: str, form: Mapping[str, str]) -> tuple[int, bytes]:
            known = form == {"username": USER, "password": PASSWORD}
            return (200, b"[]") if known else (401, b"no")

        self.server = WebServer(self, judge)

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("rest")

    def settings(self) -> Mapping[str, Any]:
        """As a site writes it."""
        return OPTIONS.take("rest").settings({"^url": self.server.url, USER: ["test.*"]}, {})

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """Without an address."""
        return self.proof(), OPTIONS.take("rest").settings({}, {})


class OidcTests(LoginProofContract, SynchronousTestCase):
    """C{oidc} by a provider whose token is the password."""

    looks = False

    def setUp(self) -> None:
        """A provider."""
        self.provider = Provider(self)
        self.password = self.provider.token(sub=USER)

    def proof(self) -> ILoginProof:
        """The real one."""
        return PROOFS.take("oidc")

    def settings(self) -> Mapping[str, Any]:
        """As a site writes it."""
        return OPTIONS.take("oidc").settings({**self.provider.options(), USER: ["test.*"]}, {})

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]]:
        """Without a provider."""
        return self.proof(), OPTIONS.take("oidc").settings({}, {})


class RegistryTests(SynchronousTestCase):
    """The names that C{external_auth} knows."""

    def test_unknown(self) -> None:
        """A name that is not there is an error with the right one; one of Salt's says what is."""
        with self.assertRaisesRegex(ConfigError, "external_auth: .*did you mean 'pam'"):
            PROOFS.take("pan")
        with self.assertRaisesRegex(ConfigError, "'yubico' is not available here: there is auto"):
            PROOFS.take("yubico")

    def test_nothing_too_early(self) -> None:
        """A worker that has judged a password of a file has imported nothing for other proofs."""
        code = (
            "import sys; from saltwisted.worker.process.authwork import serve\n"
            "call = {'eauth': 'file', 'settings': {}, 'username': 'a', 'password': 'b'}\n"
            "serve(call, None, {}); early = {'ssl', 'cryptography', 'jinja2', 'ldap3'}\n"
            "print(*early & {*sys.modules})"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        self.assertEqual(said.stdout.strip(), b"")

    def test_all_are_tried(self) -> None:
        """Each name has a proof, options, and a test case of the contract here."""
        tried = {
            name
            for name in LOGINS.here
            for case in (
                AutoTests,
                SecretTests,
                FileTests,
                LdapTests,
                OidcTests,
                PamTests,
                RestTests,
            )
            if PROOFS.take(name) is case("test_right").proof()  # type: ignore[attr-defined]
        }

        self.assertEqual(tried, set(LOGINS.here))
        self.assertEqual(list(PROOFS), list(OPTIONS))
