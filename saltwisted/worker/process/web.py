"""
One request to a web server, for login backends. Blocks.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from saltwisted.config.secrets import shown_text

ANSWER = 20
"""Seconds for an answer."""
LARGEST = 1 << 20


def ask(
    url: str,
    ca_file: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, bytes]:
    """
    The status of an answer, and up to one byte more than L{LARGEST} of a body with the status 200.

    The certificate is verified. A redirection is an answer as it is: what it leads to may be a page
    that asks for a password, and has judged nothing. Proxies of the environment are not used, since
    they would read passwords that are not theirs.

    @param ca_file: authorities; C{""}: those of the system.
    @param form: what is posted; without it nothing is.
    @param headers: what is said beside it.
    @raises OSError: there is no answer.
    @raises ValueError: that is no address.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.parse import urlencode
    from urllib.request import (
        HTTPRedirectHandler,
        HTTPSHandler,
        ProxyHandler,
        Request,
        build_opener,
    )

    class Staying(HTTPRedirectHandler):
        """It goes nowhere."""

        def redirect_request(self, *given: Any, **more: Any) -> None:
            """No."""

    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{shown_text(url)} is not an http or https address")
    context = ssl.create_default_context(cafile=ca_file or None)
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context), Staying)
    data = None if form is None else urlencode(form).encode()
    request = Request(url, data, {"Accept": "application/json", **headers})  # noqa: S310
    try:
        with opener.open(request, timeout=ANSWER) as answer:
            return int(answer.status), answer.read(LARGEST + 1)
    except HTTPError as error:
        error.close()
        return error.code, b""
    except HTTPException as error:
        raise OSError(f"{shown_text(url)} does not speak http: {type(error).__name__}") from None


def said(error: BaseException) -> str:
    """An error's words on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
