"""
The API's port and its certificate, on loopback.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
import stat
import time
from types import SimpleNamespace
from typing import Any

from cryptography import x509
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.cluster.life.vouching import Vouching
from saltwisted.config.api import ApiOptions
from saltwisted.domain.replica.certificates import NodeKey, key_id
from saltwisted.domain.replica.secrets import AUTHORITY
from saltwisted.errors import ConfigError, PortError
from saltwisted.master.seams import LoneVouching
from saltwisted.roles.api import _new
from saltwisted.transports.tls import public_der
from saltwisted.web.certificate import Certificate
from saltwisted.web.service import Api
from saltwisted.web.tls import context_of, self_signed
from tests.web.rig import ApiRig

NOW = 1_800_000_000.0


class CertificateTests(SynchronousTestCase):
    """Which certificate is shown."""

    def setUp(self) -> None:
        self.home = self.mktemp()
        os.makedirs(self.home)

    def write(self, name: str, content: bytes) -> str:
        """A file."""
        path = os.path.join(self.home, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def made(self, **block: Any) -> str:
        """The fingerprint of what is used."""
        options = ApiOptions("rest_twisted", block)
        return context_of(options, self.home, "node1", NOW, _new)[1]

    def test_T_FS_1_made_once(self) -> None:
        """T-FS-1: without files one is made, which is kept, and whose key nobody else can read."""
        first = self.made()
        self.assertRegex(first, "^([0-9A-F]{2}:){31}[0-9A-F]{2}$")
        self.assertEqual(self.made(), first)
        path = os.path.join(self.home, "saltwisted", "api.pem")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)

    def test_own_files(self) -> None:
        """With files of a site's own there is nothing to be told, and nothing is made."""
        pair = self.write("pair.pem", self_signed("a", NOW))
        self.assertEqual(self.made(ssl_crt=pair, ssl_key=pair), "")
        self.assertEqual(self.made(ssl_crt=pair, ssl_key=pair, ssl_chain=pair), "")
        self.assertFalse(os.path.exists(os.path.join(self.home, "saltwisted")))

    def test_wrong_files(self) -> None:
        """What cannot be used stops the start, with the file's name."""
        pair = self.write("pair.pem", self_signed("a", NOW))
        other = self.write("other.pem", self_signed("b", NOW))
        junk = self.write("junk.pem", b"junk")
        absent = os.path.join(self.home, "absent.pem")
        for crt, key, named in (
            (pair, other, pair),
            (junk, pair, junk),
            (pair, junk, pair),
            (absent, pair, absent),
            (pair, absent, absent),
            (pair, "", "ssl_key"),
            ("", pair, "ssl_crt"),
        ):
            with self.assertRaises(ConfigError) as caught:
                self.made(ssl_crt=crt, ssl_key=key)
            self.assertIn(named, str(caught.exception), (crt, key))


class Authority:
    """The secrets of a cluster, as far as they are asked for here."""

    def __init__(self) -> None:
        self.version = 0
        self.change()

    def change(self) -> None:
        """There is another authority."""
        self.version += 1
        self.key = NodeKey.generate()

    def current(self, what: str) -> Any:
        """The newest."""
        assert what == AUTHORITY
        return SimpleNamespace(version=self.version, value=self.key.pem)


class AuthorityTests(SynchronousTestCase):
    """The certificate of a node of a cluster (T-API-8)."""

    def setUp(self) -> None:
        self.home = self.mktemp()
        os.makedirs(self.home)
        self.clock = Clock()
        self.clock.advance(NOW)
        self.authority: Any = Authority()
        self.hosts = ["192.0.2.7", "2001:DB8:0::7"]
        self.wait: list[Deferred[None]] = []

    def certificate(self, **block: Any) -> Certificate:
        """Another start of the node."""
        self.vouching = Vouching("node1", self.authority, lambda: self.hosts, self.clock.seconds)
        self.vouching.changed()
        made = Certificate(
            self.clock,
            ApiOptions("rest_twisted", block),
            self.home,
            "node1",
            self.vouching,
            self.clock.seconds,
            _new,
            maybeDeferred,
        )
        made.startService()
        self.addCleanup(made.stopService)
        return made

    def serial(self, certificate: Certificate) -> int:
        """Of what is shown."""
        assert certificate.pair is not None
        return certificate.pair.own.serial_number

    def path(self, name: str) -> str:
        """A file of it."""
        return os.path.join(self.home, "saltwisted", name)

    def test_names(self) -> None:
        """It has the node's names and addresses, those of the options, and no sign of others."""
        made = self.certificate(ssl_names=["Salt.example.com", "not a name", "*.example.org"])

        names = made.status()["names"]
        wanted = {"node1", "192.0.2.7", "2001:db8::7", "localhost", "127.0.0.1", "::1"}
        self.assertTrue(wanted | {"salt.example.com", "*.example.org"} <= set(names), names)
        self.assertNotIn("not a name", names)
        self.assertEqual(made.fingerprint, "")

    def test_T_FS_1_files(self) -> None:
        """T-FS-1: nobody else can read its key; who has to trust it can read the authority's."""
        made = self.certificate()

        self.assertEqual(stat.S_IMODE(os.stat(self.path("api-node.pem")).st_mode), 0o600)
        with open(self.path("api-ca.pem"), "rb") as file:
            told = file.read()
        self.assertNotIn(b"PRIVATE", told)
        self.assertEqual(made.status()["authority"], self.authority.key.id)
        self.assertEqual(made.status()["authority"], self.vouching.pin)

    def test_kept(self) -> None:
        """A start goes on with it, unless it is of another authority, damaged, or has no name."""
        first = self.serial(self.certificate())

        self.assertEqual(self.serial(self.certificate()), first)
        self.hosts.append("192.0.2.8")
        second = self.serial(self.certificate())
        self.assertNotEqual(second, first)
        self.authority.change()
        third = self.serial(self.certificate())
        self.assertNotEqual(third, second)
        with open(self.path("api-node.pem"), "wb") as file:
            file.write(b"junk")
        self.assertNotEqual(self.serial(self.certificate()), third)

    def test_renewed(self) -> None:
        """It is made anew a month before its end, in a running node, and the next start has it."""
        made = self.certificate()
        first, ends = self.serial(made), made.status()["ends"]
        self.clock.pump([3600.0] * 24 * 59)
        self.assertEqual(self.serial(made), first)

        self.clock.pump([3600.0] * 24 * 3)

        self.assertNotEqual(self.serial(made), first)
        self.assertGreater(made.status()["ends"], ends + 59 * 86400)
        self.assertEqual(self.serial(self.certificate()), self.serial(made))

    def test_another_address(self) -> None:
        """Within an hour it has the new address of its machine."""
        made = self.certificate()
        self.hosts[:] = ["198.51.100.1"]

        self.clock.pump([3600.0] * 2)

        self.assertIn("198.51.100.1", made.status()["names"])

    def test_T_API_8_another_authority(self) -> None:
        """T-API-8: when the authority changes, what is shown is of the new one at once."""
        made = self.certificate()
        old = made.status()["authority"]
        self.authority.change()

        self.vouching.changed()

        self.assertNotEqual(made.status()["authority"], old)
        self.assertEqual(made.status()["authority"], self.authority.key.id)
        with open(self.path("api-ca.pem"), "rb") as file:
            written = x509.load_pem_x509_certificate(file.read())
        self.assertEqual(key_id(public_der(written)), self.authority.key.id)

    def test_own_files(self) -> None:
        """Files of the site are shown in a cluster as anywhere."""
        pair = os.path.join(self.home, "pair.pem")
        with open(pair, "wb") as file:
            file.write(self_signed("a", NOW))

        made = self.certificate(ssl_crt=pair, ssl_key=pair)
        self.authority.change()
        self.vouching.changed()

        self.assertEqual(made.status(), {})
        self.assertIsNone(made.pair)
        self.assertFalse(os.path.exists(self.path("api-node.pem")))


class PortTests(TestCase):
    """A real port, so the real reactor."""

    timeout = 60

    def setUp(self) -> None:
        self.rig = ApiRig(self)
        self.options = ApiOptions("rest_twisted", {"host": "127.0.0.1", "port": 0})

    def at_once(self, function: Any, *args: Any) -> Deferred[Any]:
        """As a thread does it."""
        return maybeDeferred(function, *args)

    def api(self, **how: Any) -> Api:
        """One that is stopped after the test."""
        rig = self.rig
        made = Api(reactor, self.options, rig.api.site, rig.rig.counters, **how)
        self.addCleanup(made.stopService)
        return made

    def test_tls(self) -> Deferred[None]:
        """What is shown on the port is the certificate whose SHA-256 is told."""
        home = self.mktemp()
        os.makedirs(home)
        certificate = Certificate(
            reactor, self.options, home, "node1", LoneVouching(), lambda: NOW, _new, self.at_once
        )
        api = self.api(certificate=certificate)
        api.startService()
        port, fingerprint = api.port, certificate.fingerprint

        def look() -> tuple[str, int, bytes]:
            trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trust.check_hostname = False
            trust.verify_mode = ssl.CERT_NONE
            # As curl and browsers do
            trust.set_alpn_protocols(["h2", "http/1.1"])
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=30)
            connection.request("GET", "/")
            shown = connection.sock.getpeercert(True) or b""
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return hashlib.sha256(shown).hexdigest(), answer.status, content

        def judge(seen: tuple[str, int, bytes]) -> None:
            digest, status, content = seen
            self.assertEqual(digest.upper(), fingerprint.replace(":", ""))
            self.assertEqual(status, 200)
            self.assertIn(b"Welcome", content)

        return deferToThread(look).addCallback(judge)

    def test_T_API_8_authority(self) -> Deferred[None]:
        """
        T-API-8: who has the authority's certificate verifies what is shown, by name and address;
        who has another one's, or asks for another name, does not.
        """
        home = self.mktemp()
        os.makedirs(home)
        authority: Any = Authority()
        vouching = Vouching("node1", authority, list, time.time)
        certificate = Certificate(
            reactor, self.options, home, "node1", vouching, time.time, _new, self.at_once
        )
        api = self.api(certificate=certificate)
        api.startService()
        port = api.port
        trusted = os.path.join(home, "saltwisted", "api-ca.pem")
        older = os.path.join(home, "older.pem")
        os.link(trusted, older)

        def verified(name: str, file: str) -> bool:
            trust = ssl.create_default_context(cafile=file)
            trust.verify_flags |= getattr(ssl, "VERIFY_X509_STRICT", 0)
            with socket.create_connection(("127.0.0.1", port), 30) as plain:
                try:
                    with trust.wrap_socket(plain, server_hostname=name):
                        return True
                except ssl.SSLCertVerificationError:
                    return False

        def look() -> list[bool]:
            return [verified(name, trusted) for name in ("node1", "127.0.0.1", "elsewhere")]

        def judge(seen: list[bool]) -> Deferred[None]:
            self.assertEqual(seen, [True, True, False])
            authority.change()
            vouching.changed()
            later = deferToThread(lambda: [verified("node1", each) for each in (trusted, older)])
            return later.addCallback(self.assertEqual, [True, False])

        return deferToThread(look).addCallback(judge)

    def test_taken(self) -> None:
        """A port that is taken is named."""
        first = self.api()
        first.startService()
        self.options = ApiOptions("rest_twisted", {"host": "127.0.0.1", "port": first.port})
        error = self.assertRaises(PortError, self.api().startService)
        self.assertIn(f"127.0.0.1:{first.port}", str(error))
