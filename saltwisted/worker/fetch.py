"""
Files from C{http}, C{https} and C{ftp}: written completely or not at all.

TLS certificates are verified against the system's authorities (or C{ca_bundle}) unless the caller
sets C{verify_ssl=False}. Credentials in a URL go into a header, and never into a file name, a log
line or an error.
"""

from __future__ import annotations

import base64
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from typing import Any, NamedTuple

from saltwisted.worker.exceptions import MinionError

_SECRET = re.compile(r"([a-zA-Z][\w+.-]*)://[^/@\s]*@")
_CHUNK = 1 << 20


class Fetched(NamedTuple):
    """
    The result.

    @ivar unchanged: the server still has the version that C{etag} names; nothing was written.
    @ivar etag: for the next time, or C{""}.
    @ivar charset: of a text, or C{None} for anything else.
    """

    unchanged: bool
    etag: str
    charset: str | None


def redact(url: str) -> str:
    """An address without its user and password."""
    return _SECRET.sub(r"\1://<redacted>@", url)


class _HttpOnly(urllib.request.HTTPRedirectHandler):
    """Redirects stay on the web, and a password stays with the host that it was given for."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise MinionError(f"Error: {redact(req.full_url)} redirects to {redact(newurl)}")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and new.host != req.host:
            new.headers.pop("Authorization", None)
        return new


def fetch(
    url: str,
    write: Callable[[bytes], Any],
    opts: Mapping[str, Any],
    *,
    verify_ssl: bool = True,
    etag: str = "",
) -> Fetched:
    """
    Fetch an address and hand on its bytes as they come.

    @param etag: of the copy at hand, if there is one.
    @raises MinionError: in stock's words; some bytes may have been written then.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "ftp":
        _ftp(url, parts, write, float(opts.get("fileserver_ftp_timeout", 30)))
        return Fetched(False, "", None)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(  # noqa: S310 - get_url lets http and https through alone
        urllib.parse.urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    )
    request.add_header("User-Agent", str(opts.get("user_agent") or "Salt"))
    if parts.username is not None:
        pair = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        token = base64.b64encode(pair.encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    if etag:
        request.add_header("If-None-Match", etag)
    timeout = float(opts.get("http_request_timeout") or 3600)
    try:
        with _opener(opts, verify_ssl, host).open(request, timeout=timeout) as answer:
            while chunk := answer.read(_CHUNK):
                write(chunk)
            kind = answer.headers.get_content_maintype()
            declared = "Content-Type" in answer.headers and kind == "text"
            charset = (answer.headers.get_content_charset() or "utf-8") if declared else None
            return Fetched(False, answer.headers.get("ETag", ""), charset)
    except urllib.error.HTTPError as error:
        if error.code == 304 and etag:
            return Fetched(True, etag, None)
        raise MinionError(
            f"Error: HTTP {error.code}: {error.reason} reading {parts.path}"
        ) from None
    except urllib.error.URLError as error:
        raise MinionError(f"Error: {error.reason} reading {parts.path}") from None
    except (OSError, ValueError) as error:
        raise MinionError(f"Error: {error} reading {parts.path}") from None


def _opener(opts: Mapping[str, Any], verify_ssl: bool, host: str) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [_HttpOnly()]
    if verify_ssl:
        context = ssl.create_default_context(cafile=opts.get("ca_bundle") or None)
    else:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    handlers.append(urllib.request.HTTPSHandler(context=context))
    proxy, port = opts.get("proxy_host"), opts.get("proxy_port")
    if proxy and port and host.rpartition(":")[0] not in (opts.get("no_proxy") or ()):
        user = ""
        if opts.get("proxy_username"):
            quoted = [
                urllib.parse.quote(str(opts.get(key) or ""), safe="")
                for key in ("proxy_username", "proxy_password")
            ]
            user = ":".join(quoted) + "@"
        address = f"http://{user}{proxy}:{port}"
        handlers.append(urllib.request.ProxyHandler({"http": address, "https": address}))
    return urllib.request.build_opener(*handlers)


def _ftp(
    url: str, parts: urllib.parse.SplitResult, write: Callable[[bytes], Any], timeout: float
) -> None:
    import ftplib

    try:
        with ftplib.FTP() as server:  # noqa: S321 - what the address asks for
            server.connect(parts.hostname or "", parts.port or 21, timeout=timeout)
            server.login(
                urllib.parse.unquote(parts.username or ""),
                urllib.parse.unquote(parts.password or ""),
            )
            server.retrbinary(f"RETR {parts.path.lstrip('/')}", write)
    except (OSError, EOFError, ftplib.Error) as error:
        raise MinionError(
            f"Could not retrieve {redact(url)} from FTP server. Exception: {error}"
        ) from None
