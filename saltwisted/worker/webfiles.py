"""
Web files for the file client: C{http}, C{https}, C{ftp}, and C{s3} through stock's utility.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from typing import Any

from saltwisted.worker.exceptions import MinionError
from saltwisted.worker.fetch import fetch
from saltwisted.worker.filecache import Replacement


def fetch_content(opts: Mapping[str, Any], url: str, verify_ssl: bool) -> Any:
    """What an address has: text if it says so in which characters, else bytes."""
    content = bytearray()
    found = fetch(url, content.extend, opts, verify_ssl=verify_ssl)
    return content.decode(found.charset, "replace") if found.charset else bytes(content)


def fetch_file(
    opts: Mapping[str, Any],
    url: str,
    target: str,
    private: bool,
    verify_ssl: bool,
    use_etag: bool,
) -> None:
    """
    Put what an address has in the place of a file.

    @param use_etag: leave the file if the server says that it is still the same.
    """
    note, known = f"{target}.etag", ""
    if use_etag and os.path.isfile(target):
        try:
            with open(note, encoding="utf-8") as stream:
                known = stream.read().strip()
        except OSError:
            pass
    with Replacement(target, private=private) as out:
        found = fetch(url, out.write, opts, verify_ssl=verify_ssl, etag=known)
        out.keep = not found.unchanged
    if use_etag and found.etag and not found.unchanged:
        with Replacement(note, private=private) as out:
            out.write(found.etag.encode())


def fetch_by_utility(
    opts: Mapping[str, Any],
    utils: Mapping[str, Any] | None,
    url: str,
    target: str | None,
) -> Any:
    """
    C{s3://}, by stock's utility module.

    @param utils: stock's utility functions.
    @raises MinionError: there is no such utility, or it failed.
    """
    parts = urllib.parse.urlsplit(url, allow_fragments=False)
    query = None if utils is None else utils.get("s3.query")
    if parts.scheme != "s3" or query is None:
        raise MinionError(f"Unsupported path: {url}: {parts.scheme}:// is not supported")
    if target is None:
        raise MinionError(f"Invalid path: {url}")
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    pillar = opts.get("pillar") or {}

    def option(name: str, default: Any = None) -> Any:
        if f"s3.{name}" in opts:
            return opts[f"s3.{name}"]
        return (pillar.get("s3") or {}).get(name, default)

    try:
        query(
            method="GET",
            bucket=parts.netloc,
            path=parts.path[1:],
            return_bin=False,
            local_file=target,
            action=None,
            key=option("key"),
            keyid=option("keyid"),
            service_url=option("service_url"),
            verify_ssl=option("verify_ssl", True),
            location=option("location"),
            path_style=option("path_style", False),
            https_enable=option("https_enable", True),
        )
    except Exception as error:
        raise MinionError(f"Could not fetch from {url}. Exception: {error}") from error
    return target
