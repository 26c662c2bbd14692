"""
The API's port and its certificate, on loopback.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import stat
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.config.api import ApiOptions
from saltwisted.errors import ConfigError, PortError
from saltwisted.roles.api import _new
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


class PortTests(TestCase):
    """A real port, so the real reactor."""

    timeout = 60

    def setUp(self) -> None:
        self.rig = ApiRig(self)
        self.options = ApiOptions("rest_twisted", {"host": "127.0.0.1", "port": 0})

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
        context, fingerprint = context_of(self.options, home, "node1", NOW, _new)
        api = self.api(context=context, fingerprint=fingerprint)
        api.startService()
        port = api.port

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

    def test_taken(self) -> None:
        """A port that is taken is named."""
        first = self.api()
        first.startService()
        self.options = ApiOptions("rest_twisted", {"host": "127.0.0.1", "port": first.port})
        error = self.assertRaises(PortError, self.api().startService)
        self.assertIn(f"127.0.0.1:{first.port}", str(error))
