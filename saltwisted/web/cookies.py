"""
Cookies: that of a session, and others of ours.
"""

from __future__ import annotations

from email.utils import formatdate

SESSION = "session_id"


def cookie_of(header: str, name: str = SESSION) -> str:
    """
    What a C{Cookie} header has by this name; the last of several, and C{""} if nothing.

    Not by C{http.cookies}, which takes long for some headers. Ours have no character that would
    have to be quoted.
    """
    found = ""
    if name in header:
        for part in header.split(";"):
            key, _, value = part.partition("=")
            if key.strip() == name:
                found = value.strip()
    return found[1:-1] if len(found) > 1 and found[0] == found[-1] == '"' else found


def cookie(name: str, word: str, expire: float, now: float, secure: bool) -> str:
    """A value of C{Set-Cookie}, for pages of this server alone and out of reach of scripts."""
    seconds = max(0, int(expire - now))
    return (
        f"{name}={word}; expires={formatdate(expire, usegmt=True)}; HttpOnly;"
        f" Max-Age={seconds}; Path=/; SameSite=Lax{'; Secure' if secure else ''}"
    )
