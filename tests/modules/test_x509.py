"""
C{x509}: who may have what signed, where keys stay, and what stock does not do.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from cryptography import x509
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.process.loader import Loaders
from tests.modules.certs import AUTHORITY, OWN, SPAN


def functions(**pillar: Any) -> Any:
    """The functions of a minion with this pillar."""
    opts = MinionConfig(id="ca", file_client="local").as_opts()
    return Loaders(opts, grains={}, pillar=pillar, stock=False).modules


class Signing(SynchronousTestCase):
    """C{x509.sign_remote_certificate}."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.key = self.folder / "ca.key"
        self.key.write_text(AUTHORITY)
        cert = functions()["x509.create_certificate"](
            signing_private_key=AUTHORITY, CN="CA", basicConstraints="CA:TRUE", **SPAN
        )
        self.policy = {
            "minions": "web*",
            "signing_private_key": str(self.key),
            "signing_cert": cert,
            "O": "Us",
            "basicConstraints": "critical, CA:FALSE",
        }

    def signed(self, words: dict[str, Any], asker: str = "web1", **policy: Any) -> Any:
        salt = functions(x509_signing_policies={"www": {**self.policy, **policy}})
        public = functions()["x509.get_public_key"](OWN)
        words = {"public_key": public, **SPAN, **words}
        return salt["x509.sign_remote_certificate"]("www", words, __pub_id=asker)

    def test_policyStands(self) -> None:
        """What the policy says cannot be said otherwise by the minion that asks."""
        answer = self.signed({"CN": "a", "O": "Them", "basicConstraints": "CA:TRUE"})

        self.assertEqual(answer["errors"], [])
        found = functions()["x509.read_certificate"](answer["data"])
        self.assertEqual(found["subject"], {"O": "Us", "CN": "a"})
        self.assertFalse(found["extensions"]["basicConstraints"]["ca"])
        self.assertEqual(found["issuer"], {"CN": "CA"})

    def test_strangers(self) -> None:
        """A minion that the policy does not name, or one without a name, gets nothing."""
        self.assertEqual(
            self.signed({}, "db1"),
            {
                "data": None,
                "errors": ["minion not permitted to use specified signing policy"],
            },
        )
        self.assertEqual(
            self.signed({}, ""),
            {"data": None, "errors": ["minion sending this request could not be identified"]},
        )

    def test_noFilesFromAfar(self) -> None:
        """Whoever asks names no key, no certificate and no directory of the signer."""
        mine = {"signing_private_key": str(self.key), "signing_cert": None}
        asked = {**mine, "copypath": str(self.folder), "prepend_cn": True, "CN": "../../x"}

        self.assertIsNone(self.signed(asked, signing_private_key=None)["data"])
        self.assertEqual(self.signed(asked)["errors"], [])
        self.assertEqual(os.listdir(self.folder), ["ca.key"])
        self.assertIsNone(self.signed({"public_key": str(self.key)})["data"])

    def test_publishedPolicy(self) -> None:
        """A policy is told without its private key and passphrase."""
        policy = {**self.policy, "signing_private_key_passphrase": "x"}
        salt = functions(x509_signing_policies={"www": policy})

        answer = salt["x509.sign_remote_certificate"]("www", {}, True, __pub_id="web1")

        self.assertEqual(sorted(answer["data"]), ["O", "basicConstraints", "signing_cert"])


class Keys(SynchronousTestCase):
    """Private keys stay private."""

    def test_modes(self) -> None:
        """T-FS-1: a new file with a private key is its owner's alone, however it is encoded."""
        self.addCleanup(os.umask, os.umask(0))
        for encoding in ("pem", "der", "pkcs12"):
            path = os.path.abspath(self.mktemp())
            functions()["x509.create_private_key"]("ed25519", encoding=encoding, path=path)

            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, encoding)

    def test_noKeyInMessages(self) -> None:
        """T-LOG-1: a private key that is no good PEM is not repeated in the refusal."""
        broken = OWN.replace("END", "ENDE")

        error = self.assertRaises(SaltInvocationError, functions()["x509.get_pem_entry"], broken)

        self.assertNotIn("MC4CAQ", str(error))

    def test_issuerCopy(self) -> None:
        """C{issuer:copy} takes the signer's names, with every release of the library."""
        salt = functions()
        authority = salt["x509.create_certificate"](
            signing_private_key=AUTHORITY, CN="CA", subjectAltName="DNS:ca.example", **SPAN
        )

        cert = salt["x509.create_certificate"](
            signing_private_key=AUTHORITY,
            signing_cert=authority,
            private_key=OWN,
            issuerAltName="issuer:copy",
            **SPAN,
        )

        found = x509.load_pem_x509_certificate(cert.encode()).extensions
        names = found.get_extension_for_class(x509.IssuerAlternativeName).value
        self.assertEqual(names.get_values_for_type(x509.DNSName), ["ca.example"])
