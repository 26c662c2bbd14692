"""
Cookies: that of a session, and others of ours.
"""

from __future__ import annotations

from email.utils import formatdate
from http.cookies import CookieError, SimpleCookie

SESSION = "session_id"


def cookie_of(header: str, name: str = SESSION) -> str:
    """What a C{Cookie} header has by this name; C{""} if nothing."""
    if name not in header or len(header) > 8192:
        return ""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def cookie(name: str, word: str, expire: float, now: float, secure: bool) -> str:
    """A value of C{Set-Cookie}, for pages of this server alone and out of reach of scripts."""
    seconds = max(0, int(expire - now))
    return (
        f"{name}={word}; expires={formatdate(expire, usegmt=True)}; HttpOnly;"
        f" Max-Age={seconds}; Path=/; SameSite=Lax{'; Secure' if secure else ''}"
    )
