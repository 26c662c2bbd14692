"""
Reads the web hook of a git server: which repository was pushed to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PLACES = ("repository", "project")
"""Where GitHub, Gitea and GitLab tell of the repository."""
MOST = 100
"""URLs of one hook that are looked at."""
_SCP = re.compile(r"(?:[^@/:\s]+@)?([^@/:\s]+):(?!//)(.+)")


def place_of(url: str) -> str:
    """
    Which repository a URL means, however it is reached: C{host/path}, without user, port and
    ending.
    """
    scheme, mark, rest = url.strip().partition("://")
    if mark:
        host, _, path = rest.partition("/")
        if scheme.lower() == "file":
            host = ""
    elif found := _SCP.fullmatch(url.strip()):
        host, path = found[1], found[2]
    else:
        host, path = "", url.strip()
    host = host.rpartition("@")[2].partition(":")[0].lower()
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(".git")
    return f"{host}/{path.strip('/').lower()}" if path else ""


def pushed_to(body: Any) -> set[str]:
    """The repositories that a body names, as L{place_of} names them."""
    if isinstance(body, Mapping) and isinstance(body.get("payload"), str):
        # GitHub's hooks as forms
        try:
            body = json.loads(body["payload"])
        except (ValueError, RecursionError):
            return set()
    if not isinstance(body, Mapping):
        return set()
    return {place for url in _urls(body) if (place := place_of(url))}


def _urls(body: Mapping[str, Any]) -> Iterator[str]:
    for name in PLACES:
        about = body.get(name)
        if not isinstance(about, Mapping):
            continue
        for key, value in list(about.items())[:MOST]:
            if isinstance(value, str) and (str(key).endswith("url") or key == "homepage"):
                yield value[:2048]
