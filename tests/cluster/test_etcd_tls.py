"""
T-TLS-1: an etcd has to show a certificate that is trusted, for its own name; what is wrong is said
with the option.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from OpenSSL import SSL
from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import DefaultOpenSSLContextFactory
from twisted.trial.unittest import TestCase
from twisted.web.server import Site

from saltwisted.domain.claims.etcd import settings_of
from saltwisted.domain.claims.words import Claim, NoMajority
from saltwisted.errors import ConfigError
from saltwisted.transports.etcdtls import tls_policy
from tests.certificates import Authority
from tests.cluster.test_etcd import Node, Odd, waited_for
from tests.etcd import Etcd, needs_etcd, with_tls
from tests.harness import scratch


def options(authority: Authority, shown: dict[str, str] | None = None) -> dict[str, str]:
    """Of C{claims_etcd_...}."""
    found = {"ca": authority.ca}
    if shown:
        found |= {"cert": shown["certfile"], "key": shown["keyfile"]}
    return found


def append(path: str, more: str) -> None:
    """What is in one file, to another."""
    with open(path, "ab") as to, open(more, "rb") as handle:
        shutil.copyfileobj(handle, to)


@needs_etcd
class RealTests(TestCase):
    """An etcd that wants certificates. Needs the reactor: it is spoken to by HTTP."""

    timeout = 240

    @waited_for
    async def test_both_sides(self) -> None:
        """
        T-TLS-1: it decides for nodes that know its authority and show a certificate of it, also one
        of an authority between; who lacks either is refused, and told the option.
        """
        folder = scratch(self)
        good, bad = Authority(folder, "good"), Authority(folder, "bad")
        etcd = Etcd(self, *with_tls(good), scheme="https").start()
        own, foreign = good.issue("own", "127.0.0.1"), bad.issue("foreign", "127.0.0.1")
        between = Authority(folder, "between", good)
        chained = between.issue("chained", "127.0.0.1")
        append(chained["certfile"], between.ca)

        for number, shown in enumerate((own, chained)):
            node = await Node(self, f"n{number}", etcd.url, **options(good, shown)).start()
            self.assertIsInstance(await node.claims.begin(f"run/{number}", {}), Claim)
        elsewhere = etcd.url.replace("127.0.0.1", "localhost")
        plain = etcd.url.replace("https", "http")
        without = {"cert": own["certfile"], "key": own["keyfile"]}
        for url, given, words in (
            (etcd.url, options(bad, own), r"no authority in .*bad.crt \(claims_etcd_ca\) has sig"),
            (etcd.url, without, "trusts nobody who signed its certificate: set claims_etcd_ca"),
            (elsewhere, options(good, own), "is for 127.0.0.1, not for localhost.*claims_etcd"),
            (etcd.url, options(good), "want.*claims_etcd_cert"),
            (etcd.url, options(good, foreign), r"refuse.*claims_etcd_cert"),
            (plain, {}, "write https:// into claims_etcd"),
        ):
            node = await Node(self, "a", url, window=0.1, **given).start()
            refused = await node.claims.begin("run/x", {})
            self.assertIsInstance(refused, NoMajority)
            self.assertRegex(refused.why, f"^claims_etcd: {url}: .*{words}")
            self.assertFalse(node.claims.would_claim())
            await node.stop()


class Plain(Protocol):
    """Says one thing to everybody, and hangs up."""

    def dataReceived(self, data: bytes) -> None:
        """It is not understood."""
        self.transport.write(self.factory.reply)  # type: ignore[union-attr]
        self.transport.loseConnection()  # type: ignore[union-attr]


class SeemingTests(TestCase):
    """
    Servers that are not who they should be. Needs the reactor: what is tested is how TLS fails.
    """

    timeout = 120

    def server(self, shown: dict[str, str]) -> tuple[str, list[Any]]:
        """Its address, and what it is asked."""
        asked: list[Any] = []

        def answer(request: Any) -> bytes:
            asked.append(request)
            return b"{}"

        context = DefaultOpenSSLContextFactory(
            shown["keyfile"], shown["certfile"], sslmethod=SSL.TLS_METHOD
        )
        port = reactor.listenSSL(0, Site(Odd(answer)), context, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        return f"https://127.0.0.1:{port.getHost().port}", asked

    @waited_for
    async def test_nothing_is_asked(self) -> None:
        """
        T-TLS-1: of a stranger, for another name or address, run out: such a server is asked
        nothing, so it sees no password. The same server with a good certificate is asked.
        """
        folder = scratch(self)
        good, bad = Authority(folder, "good"), Authority(folder, "bad")
        for shown, words, is_asked in (
            (good.issue("fine", "127.0.0.1"), "without a token", True),
            (bad.issue("stranger", "127.0.0.1"), r"claims_etcd_ca\) has signed", False),
            (good.issue("name", "etcd1.example"), "is for etcd1.example, not for 127", False),
            (good.issue("address", "127.0.0.2"), "is for 127.0.0.2, not for 127.0.0.1", False),
            (good.issue("old", "127.0.0.1", days=-1), "has run out", False),
        ):
            url, asked = self.server(shown)
            given = {**options(good), "user": "u", "password": "s3cret"}
            node = await Node(self, "a", url, window=0.1, **given).start()
            self.assertRegex(node.claims.problem(), f"^claims_etcd: {url}: .*{words}")
            self.assertEqual(bool(asked), is_asked, words)
            await node.stop()

    @waited_for
    async def test_no_tls(self) -> None:
        """Servers that speak no TLS, and complain or hang up, are said to speak none."""
        good = Authority(scratch(self))
        for reply in (b"HTTP/1.0 400 Bad Request\r\n\r\n", b""):
            factory = Factory.forProtocol(Plain)
            factory.reply = reply  # type: ignore[attr-defined]
            port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
            self.addCleanup(port.stopListening)
            url = f"https://127.0.0.1:{port.getHost().port}"
            node = await Node(self, "a", url, window=0.1, **options(good)).start()
            self.assertRegex(node.claims.problem(), "^claims_etcd: .* speaks? no TLS")


class FileTests(TestCase):
    """Files of certificates, read at the start."""

    def test_files(self) -> None:
        """A file that cannot be used is named with its option, and so is a key of another."""
        folder = scratch(self)
        bad = os.path.join(folder, "bad")
        with open(bad, "w") as handle:
            handle.write("nonsense")
        authority = Authority(folder)
        one, other = authority.issue("one"), authority.issue("other")
        mixed = {"cert": one["certfile"], "key": other["keyfile"]}
        for given, words in (
            ({"ca": "/nowhere"}, "claims_etcd_ca: /nowhere: No such file"),
            ({"ca": bad}, "claims_etcd_ca: .*no certificate in it"),
            ({"cert": bad, "key": bad}, "claims_etcd_cert: .* is no PEM file"),
            ({"cert": one["certfile"], "key": "/nowhere"}, "claims_etcd_key: /nowhere: No such"),
            (mixed, "claims_etcd_cert: .*one.crt is no PEM file"),
        ):
            settings = settings_of(["https://a:1"], {"prefix": "p", **given})
            error = self.assertRaises(ConfigError, tls_policy, settings, _bytes)
            self.assertRegex(str(error), words)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as handle:
        return handle.read()
