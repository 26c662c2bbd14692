"""
A git server for tests that speaks http or https and wants a login, by git's own program.
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class GitWeb:
    """
    It serves the repositories of a directory, on loopback.

    @ivar url: where they are; the name of a repository comes after a slash.
    @ivar paths: what was asked for, with a login and without.
    """

    def __init__(
        self, test: Any, top: str, login: str, certificate: Mapping[str, str] = {}
    ) -> None:
        """
        @param login: user and password, with a colon between.
        @param certificate: C{certfile} and C{keyfile}; without it there is no encryption.
        """
        self._top, self.paths = top, list[str]()
        self._wanted = "Basic " + base64.b64encode(login.encode()).decode()
        web = self

        class Handler(BaseHTTPRequestHandler):
            """C{git http-backend}."""

            def do_POST(self) -> None:
                web._answer(self)

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(**certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        test.addCleanup(thread.join)
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.url = f"http{'s' if certificate else ''}://localhost:{server.server_address[1]}"

    def _answer(self, request: Any) -> None:
        """One request."""
        self.paths.append(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if request.headers.get("Authorization", "") != self._wanted:
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="git"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        path, _, query = request.path.partition("?")
        if "://" in path:
            path = "/" + path.split("/", 3)[3]
        done = subprocess.run(
            ["git", "http-backend"],
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": self._top,
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": request.command,
                "CONTENT_TYPE": request.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            },
            input=body,
            capture_output=True,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        request.send_response(200)
        for line in head.decode().split("\r\n"):
            name, _, text = line.partition(": ")
            if name != "Status":
                request.send_header(name, text)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
