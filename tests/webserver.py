"""
A small web server for tests, in a thread of its own: what asks it may block.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

Judge = Callable[[str, Mapping[str, str]], tuple[Any, ...]]
"""C{judge(path, form)}: status, body, and headers if there are any."""


class WebServer:
    """
    It answers what C{judge} says.

    @ivar url: where it is.
    @ivar asked: the paths that were asked for.
    @ivar sent: what was said in C{Authorization} with each.
    """

    def __init__(self, test: Any, judge: Judge, certificate: Mapping[str, str] = {}) -> None:
        """
        @param certificate: C{certfile} and C{keyfile}; without it there is no encryption.
        """
        asked: list[str] = []
        sent: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                asked.append(self.path)
                sent.append(self.headers.get("Authorization", ""))
                form = dict(parse_qsl(self.rfile.read(size).decode(), keep_blank_values=True))
                status, body, *headers = judge(self.path, form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in dict(*headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.asked = asked
        self.sent = sent
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(**certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://localhost:{self._server.server_address[1]}"
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        test.addCleanup(thread.join)
        test.addCleanup(self._server.server_close)
        test.addCleanup(self._server.shutdown)
