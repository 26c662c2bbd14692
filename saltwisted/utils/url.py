"""C{salt://} and other URLs, with the names of C{salt.utils.url}."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_SALT = "salt://"


def parse(url: str) -> tuple[str, str | None]:
    """The path and environment of a C{salt://} URL; of any other text, itself and C{None}."""
    if not url.startswith(_SALT):
        return url, None
    path, _, query = url[len(_SALT) :].partition("?")
    if path.startswith("|"):
        # After a bar the rest is a path, question marks and all.
        return url[len(_SALT) :], None
    saltenv = None
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if equals and name == "saltenv":
            saltenv = value
    return path, saltenv


def create(path: str, saltenv: str | None = None) -> str:
    """The C{salt://} URL of a path, in an environment."""
    query = f"saltenv={saltenv}" if saltenv else ""
    return _SALT + urlunsplit(("", "", path.replace("\\", "/").lstrip("/"), query, ""))


def is_escaped(url: str) -> bool:
    """Whether a bar keeps signs in it from having a meaning."""
    return url.startswith((_SALT + "|", "|"))


def escape(url: str) -> str:
    """With a bar before the path."""
    if is_escaped(url) or (not url.startswith(_SALT) and urlsplit(url).scheme):
        return url
    return _SALT + "|" + url[len(_SALT) :] if url.startswith(_SALT) else "|" + url


def unescape(url: str) -> str:
    """Without its bar."""
    if not is_escaped(url):
        return url
    return _SALT + url[len(_SALT) + 1 :] if url.startswith(_SALT) else url[1:]


def add_env(url: str, saltenv: str) -> str:
    """The URL in another environment; what is no C{salt://} URL stays."""
    return create(parse(url)[0], saltenv) if url.startswith(_SALT) else url


def split_env(url: str) -> tuple[str, str | None]:
    """The URL without its environment, and that."""
    if not url.startswith(_SALT):
        return url, None
    path, saltenv = parse(url)
    return create(path), saltenv


def validate(url: str, protos: Iterable[str]) -> bool:
    """Whether it is a URL with one of these schemes."""
    return urlsplit(url).scheme in protos


def strip_proto(url: str) -> str:
    """Without what stands before C{://}."""
    return re.sub("^[^:/]+://", "", url)


def add_http_basic_auth(
    url: str, user: str | None = None, password: str | None = None, https_only: bool = False
) -> str:
    """
    With a name and password in it.

    @raises ValueError: C{https_only}, and it is not.
    """
    if user is None and password is None:
        return url
    parts = urlsplit(url)
    if https_only and parts.scheme != "https":
        raise ValueError("Basic Auth only supported for HTTPS")
    if password is not None:
        return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc}"))


def redact_http_basic_auth(output: Any) -> Any:
    """A text without the names and passwords of the URLs in it."""
    if output is None:
        return None
    return re.sub("(https?)://.*@", r"\1://<redacted>@", output)
