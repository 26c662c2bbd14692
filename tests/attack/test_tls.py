"""
T-TLS-1: whatever we connect to by TLS must show a certificate that is trusted, for its own name.

The doors that lead out by HTTPS are tried against real servers on loopback. The TCP transport is
tried in L{tests.loopback.test_tcp}, the links of a cluster in L{tests.attack.test_peers}.
"""

from __future__ import annotations

import http.server
import os
import pathlib
import re
import ssl
import threading
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.modules import _file_source
from saltwisted.worker.exceptions import MinionError
from saltwisted.worker.fetch import fetch
from saltwisted.worker.git import program
from tests.certificates import Authority
from tests.modules.harness import load

CARELESS = re.compile(
    r"CERT_NONE|VERIFY_NONE|check_hostname\s*=\s*False|_create_unverified|GIT_SSL_NO_VERIFY"
    r"|sslVerify|--insecure|--no-check-certificate|StrictHostKeyChecking=no"
)
KNOWN = {
    "modules/_http.py": "where the caller says verify_ssl=False",
    "worker/fetch.py": "where the caller says verify_ssl=False",
    "worker/process/ldap.py": "where the configuration says auth.ldap.no_verify",
    "worker/git/program.py": "where the configuration says gitfs_ssl_verify: False",
    "transports/ssl_options.py": "where the configuration says cert_reqs: CERT_NONE",
}
"""Where a check can be left out, and who asks for it."""


class Quiet(http.server.BaseHTTPRequestHandler):
    """Gives everybody the same, and tells nobody."""

    def do_GET(self) -> None:
        """The content, or somewhere else."""
        server: Any = self.server
        server.seen.append(self.path)
        self.send_response(302 if server.leads_to else 200)
        if server.leads_to:
            self.send_header("Location", server.leads_to)
        self.send_header("Content-Length", "7")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"content")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Silent(http.server.ThreadingHTTPServer):
    """A server that is refused, and says nothing of it."""

    daemon_threads = True
    leads_to = ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle of the handshake."""


class TlsTests(SynchronousTestCase):
    """Servers with good and bad certificates."""

    def setUp(self) -> None:
        """The one authority that is trusted, and one that is not."""
        self.folders = [self.mktemp(), self.mktemp()]
        for folder in self.folders:
            os.mkdir(folder)
        self.trusted, self.stranger = (Authority(folder) for folder in self.folders)
        empty = self.mktemp()
        os.mkdir(empty)
        # OpenSSL reads these from the process itself, so they must not only be in a copy
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(SSL_CERT_FILE=self.trusted.ca, SSL_CERT_DIR=empty)
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            os.environ.pop(name, None)
        self.servers: list[Silent] = []

    def serve(self, pair: dict[str, str], leads_to: str = "") -> str:
        """A server with this certificate; its address."""
        server = Silent(("127.0.0.1", 0), Quiet)
        server.seen = []  # type: ignore[attr-defined]
        server.leads_to = leads_to
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair["certfile"], pair["keyfile"])
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.servers.append(server)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self.addCleanup(stop)
        return f"https://127.0.0.1:{server.server_address[1]}/"

    def doors(self) -> dict[str, Callable[[str], bool]]:
        """All that lead out by HTTPS: whether they got what is there."""

        def fetched(url: str) -> bool:
            pieces: list[bytes] = []
            try:
                fetch(url, pieces.append, {"http_request_timeout": 10})
            except MinionError:
                return False
            return pieces == [b"content"]

        def git(url: str) -> bool:
            """Whether git has asked; what it is told is no repository."""
            home = pathlib.Path(self.folders[0], "home").absolute()
            home.mkdir(exist_ok=True)
            (home / ".gitconfig").write_text(
                f"[http]\n sslCAInfo = {os.path.abspath(self.trusted.ca)}\n"
            )
            environ = {**program.environment({}), "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
            try:
                program.run(["ls-remote", url], environ, seconds=30)
            except program.GitError as error:
                return "certificate" not in error.text
            return True

        opts = {"cachedir": self.folders[0], "file_roots": {}, "renderer": "jinja|yaml"}
        opts["ca_bundle"] = self.trusted.ca
        asked = load("http", salt={"config.get": lambda name, default: default}, opts=opts)
        return {
            "fetch": fetched,
            "git": git,
            "http.query": lambda url: asked.query(url).get("body") == "content",
            "file.source_list": lambda url: bool(_file_source._reachable(url)),
        }

    def test_T_TLS_1(self) -> None:
        """T-TLS-1: self-signed, of a stranger, for another name or address: nothing is asked."""
        bad = {
            "a stranger's": self.stranger.issue("one", "127.0.0.1", "localhost"),
            "for another address": self.trusted.issue("two", "127.0.0.2"),
            "for another name": self.trusted.issue("three", "elsewhere.example"),
            "by its common name alone": self.trusted.issue("127.0.0.1", "elsewhere.example"),
        }
        good = self.serve(self.trusted.issue("good", "127.0.0.1"))
        for door, ask in self.doors().items():
            self.assertTrue(ask(good), door)
        for what, pair in bad.items():
            url = self.serve(pair)
            for door, ask in self.doors().items():
                self.assertFalse(ask(url), f"{door}: {what}")
            self.assertEqual(self.servers[-1].seen, [], what)  # type: ignore[attr-defined]

    def test_T_TLS_1_led_astray(self) -> None:
        """T-TLS-1: who is led on from a good server looks at the next certificate as well."""
        bad = self.serve(self.stranger.issue("one", "127.0.0.1"))
        leading = self.serve(self.trusted.issue("good", "127.0.0.1"), leads_to=bad)

        for door, ask in self.doors().items():
            self.assertFalse(ask(leading), door)
        self.assertEqual(self.servers[0].seen, [])  # type: ignore[attr-defined]
        self.assertGreaterEqual(len(self.servers[1].seen), 3)  # type: ignore[attr-defined]

    def test_T_TLS_1_law(self) -> None:
        """T-TLS-1: no other place in the source leaves a check out."""
        root = pathlib.Path(saltwisted.__file__).parent
        found = {
            path.relative_to(root).as_posix()
            for path in root.rglob("*.py")
            if CARELESS.search(path.read_text(encoding="utf-8"))
        }

        self.assertEqual(found, set(KNOWN))
