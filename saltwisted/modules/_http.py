"""
An HTTP client for C{http.query}: one request, its redirects, and errors with Salt's texts.

It speaks to one server after the other over connections of its own, through a proxy if there is
one. Certificates are verified unless the caller forbids it, and a login stays with the server
that it was given for.
"""

from __future__ import annotations

import base64
import http.client
import http.cookiejar
import os
import socket
import ssl
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

_CHUNK = 1 << 16
_MOVED = (301, 302, 303, 307, 308)
_PLAIN = "%/:=&?~#+!$,;'@()*[]|"
_NO_ANSWER = 599
"""What Salt reports as status if no answer came."""

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/certs/ca-bundle.trust.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@frozen
class Request:
    """
    What to ask.

    @ivar login: user and password.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)


@frozen
class Answer:
    """
    What came back in the end.

    @ivar headers: each once, with C{Names-Like-This}; several values of one joined by commas.
    @ivar url: after redirects.
    """

    code: int
    reason: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    url: str = field(repr=False)


class HttpError(Exception):
    """
    No answer, or one that says no.

    @ivar code: its status; 599 if none came.
    @ivar answer: if one came.
    """

    def __init__(self, code: int, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason if code == _NO_ANSWER else f"HTTP {code}: {reason}")
        self.code = code
        self.answer = answer


def ca_bundle(opts: Mapping[str, Any]) -> str | None:
    """The file of certificate authorities that the options or the system name, if any."""
    own = opts.get("ca_bundle")
    if own is not None and os.path.exists(own):
        return str(own)
    if opts.get("use_os_truststore"):
        return None
    roots = (opts.get("file_roots") or {}).get("base") or ()
    files = [os.path.join(root, name) for root in roots for name in ("cacert.pem", "ca-bundle.crt")]
    return next((path for path in (*files, *_BUNDLES) if os.path.exists(path)), None)


def tls_context(verify: bool, bundle: str | None, cert: Any = None) -> ssl.SSLContext:
    """
    How to speak TLS.

    @param cert: the client's certificate with its key, or a list of the two files.
    @raises OSError: a file is wrong.
    """
    context = ssl.create_default_context(cafile=bundle if verify else None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    files = [cert] if isinstance(cert, str) else list(cert or ())[:2]
    if files and all(os.path.exists(path) for path in files):
        context.load_cert_chain(*files)
    return context


def basic(login: tuple[str, str]) -> str:
    """The value of an C{Authorization} header."""
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


@define
class Client:
    """
    Sends requests.

    @ivar context: makes the TLS settings, when they are needed.
    @ivar connect_timeout: seconds until there is a connection.
    @ivar timeout: seconds from there until the answer is complete.
    @ivar limit: bytes that an answer may have.
    @ivar proxy: address of one, with a login if it wants one.
    @ivar jar: cookies to send and to keep.
    @ivar on_header: called with each line of the last answer's head.
    @ivar on_chunk: called with the parts of its body, which is not kept then.
    """

    context: Callable[[], ssl.SSLContext]
    connect_timeout: float = 20.0
    timeout: float = 3600.0
    limit: int = 100 << 30
    proxy: str | None = field(default=None, repr=False)
    jar: http.cookiejar.CookieJar | None = field(default=None, repr=False)
    on_header: Callable[[str], Any] | None = None
    on_chunk: Callable[[bytes], Any] | None = None

    def send(self, request: Request, redirects: int = 5) -> Answer:
        """
        Ask, and follow the answer where it points.

        @raises HttpError: the server said no, or said nothing in time.
        @raises OSError: there is no connection, or none that can be trusted.
        @raises ValueError: the address is none for this.
        """
        while True:
            answer = self._exchange(request, redirects > 0)
            place = answer.headers.get("Location")
            if answer.code not in _MOVED or place is None or redirects <= 0:
                break
            request, redirects = self._moved(request, answer.code, place), redirects - 1
        if not 200 <= answer.code < 300:
            raise HttpError(answer.code, answer.reason, answer)
        return answer

    def _moved(self, request: Request, code: int, place: str) -> Request:
        """The same question to another address; as C{GET} where browsers do it so."""
        url = urllib.parse.urljoin(request.url, place)
        old, new = urllib.parse.urlsplit(request.url), urllib.parse.urlsplit(url)
        headers = {key: value for key, value in request.headers.items() if key.lower() != "host"}
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            request = evolve(request, login=None)
            url = urllib.parse.urlunsplit(new._replace(netloc=new.netloc.rpartition("@")[2]))
            for name in [key for key in headers if key.lower() in ("authorization", "cookie")]:
                del headers[name]
        if (code == 303 and request.method != "HEAD") or (
            code in (301, 302) and request.method == "POST"
        ):
            request = evolve(request, method="GET", body=None)
            for name in [key for key in headers if key.lower().startswith("content-")]:
                del headers[name]
        return evolve(request, url=url, headers=headers)

    def _exchange(self, request: Request, may_move: bool) -> Answer:
        parts = urllib.parse.urlsplit(request.url)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"Unsupported url scheme: {request.url}")
        if not parts.hostname:
            raise ValueError(f"No host in the address: {request.url}")
        connection = self._connect(parts)
        try:
            try:
                return self._talk(connection, request, parts, may_move)
            except TimeoutError:
                raise HttpError(_NO_ANSWER, "Timeout during request") from None
            except http.client.RemoteDisconnected:
                raise HttpError(_NO_ANSWER, "Stream closed") from None
            except http.client.InvalidURL as error:
                raise ValueError(str(error)) from None
            except http.client.HTTPException:
                raise HttpError(_NO_ANSWER, "Connection closed") from None
        finally:
            connection.close()

    def _connect(self, parts: urllib.parse.SplitResult) -> http.client.HTTPConnection:
        host, port = parts.hostname or "", parts.port
        proxy = urllib.parse.urlsplit(self.proxy) if self.proxy else None
        where, at = (proxy.hostname or "", proxy.port) if proxy else (host, port)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                where, at or 443, timeout=self.connect_timeout, context=self.context()
            )
            if proxy:
                connection.set_tunnel(host, port or 443, headers=_proxy_login(proxy))
        else:
            connection = http.client.HTTPConnection(where, at or 80, timeout=self.connect_timeout)
        try:
            connection.connect()
        except TimeoutError:
            raise HttpError(_NO_ANSWER, "Timeout while connecting") from None
        return connection

    def _talk(
        self,
        connection: http.client.HTTPConnection,
        request: Request,
        parts: urllib.parse.SplitResult,
        may_move: bool,
    ) -> Answer:
        end = time.monotonic() + self.timeout
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        path = urllib.parse.quote(path, safe=_PLAIN)
        headers = self._headers(request, parts)
        if self.proxy and parts.scheme == "http":
            path = f"http://{headers['Host']}{path}"
            headers.update(_proxy_login(urllib.parse.urlsplit(self.proxy)))
        connection.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
        for key, value in headers.items():
            connection.putheader(key, value.encode())
        # The connection lets go of its socket when the head has come.
        sock = connection.sock
        _wait(sock, end)
        connection.endheaders(request.body)
        response = connection.getresponse()
        found: dict[str, str] = {}
        for key, value in response.getheaders():
            name = "-".join(word.capitalize() for word in key.split("-"))
            found[name] = f"{found[name]},{value}" if name in found else value
        if self.jar is not None:
            carrier = urllib.request.Request(request.url)
            self.jar.extract_cookies(response, carrier)
        passing = may_move and response.status in _MOVED and "Location" in found
        if self.on_header is not None and not passing:
            for line in (
                f"HTTP/1.{response.version % 10} {response.status} {response.reason}\r\n",
                *(f"{key}: {value}\r\n" for key, value in response.getheaders()),
                "\r\n",
            ):
                self.on_header(line)
        body = b"" if passing else self._body(sock, response, end)
        reason = response.reason or http.client.responses.get(response.status, "Unknown")
        return Answer(response.status, reason, found, body, request.url)

    def _headers(self, request: Request, parts: urllib.parse.SplitResult) -> dict[str, str]:
        headers = dict(request.headers)
        names = {key.lower() for key in headers}
        if "host" not in names:
            headers["Host"] = parts.netloc.rpartition("@")[2]
        if "connection" not in names:
            headers["Connection"] = "close"
        login = request.login
        if login is None and parts.username is not None:
            login = (
                urllib.parse.unquote(parts.username),
                urllib.parse.unquote(parts.password or ""),
            )
        if login is not None:
            headers["Authorization"] = basic(login)
        if "content-length" not in names and (
            request.body is not None or request.method in ("POST", "PUT", "PATCH")
        ):
            headers["Content-Length"] = str(len(request.body or b""))
        if request.method == "POST" and "content-type" not in names:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        if self.jar is not None and "cookie" not in names:
            carrier = urllib.request.Request(request.url)
            self.jar.add_cookie_header(carrier)
            cookies = carrier.get_header("Cookie")
            if cookies:
                headers["Cookie"] = cookies
        return headers

    def _body(self, sock: socket.socket, response: http.client.HTTPResponse, end: float) -> bytes:
        unpack = _unpacker(response.getheader("Content-Encoding", ""))
        kept: list[bytes] = []
        size = 0
        while True:
            _wait(sock, end)
            chunk = response.read1(_CHUNK)
            if not chunk:
                if response.length:
                    raise http.client.IncompleteRead(b"", response.length)
                return b"".join(kept)
            chunk = unpack(chunk, self.limit - size + 1)
            size += len(chunk)
            if size > self.limit:
                raise HttpError(_NO_ANSWER, f"The response is larger than {self.limit} bytes")
            if self.on_chunk is None:
                kept.append(chunk)
            else:
                self.on_chunk(chunk)


def _wait(sock: socket.socket, end: float) -> None:
    """Let the socket wait until then at most."""
    remaining = end - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    sock.settimeout(remaining)


def _proxy_login(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = urllib.parse.unquote(proxy.username), urllib.parse.unquote(proxy.password or "")
    return {"Proxy-Authorization": basic(pair)}


def _unpacker(coding: str) -> Callable[[bytes, int], bytes]:
    """
    Undoes a coding of the body, and stops at a size.

    @raises ValueError: nobody here can undo it.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return lambda chunk, size: chunk
    if coding in ("gzip", "x-gzip", "deflate"):
        # A deflated body has zlib's frame or, from some servers, none at all.
        stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        first = True

        def unpack(chunk: bytes, size: int) -> bytes:
            nonlocal stream, first
            try:
                data = stream.decompress(chunk, size)
            except zlib.error as error:
                if not first or coding != "deflate":
                    raise ValueError(str(error)) from error
                stream = zlib.decompressobj(-zlib.MAX_WBITS)
                data = stream.decompress(chunk, size)
            first = False
            return data

        return unpack
    names = {"br": "Brotli", "compress": "LZW", "sdch": "SDCH"}
    raise ValueError(f"{names.get(coding, coding)} compression is not currently supported")
