"""
A login by a browser: OpenID Connect's code flow with PKCE (RFC 7636), as far as it can be decided
without asking anybody.

Everything that a login must remember is derived from one secret, which the browser keeps in a
cookie: state, nonce and verifier. So another node than the one that began a login can finish it,
and nothing is stored for logins that never end. L{saltwisted.worker.process.oidc} talks to the
provider; L{saltwisted.domain.bearer} checks the provider's tokens.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode, urlsplit

from attrs import field, frozen

from saltwisted.interfaces import Entropy

LASTS = 600.0
"""Seconds that a browser has between the beginning of a login and its end."""
LONGEST = 2048
"""Characters of a code, a state or a path."""
_COOKIE = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]*)")
_CODE = re.compile(r"[\x20-\x7e]+")


class FlowError(Exception):
    """The login ends here; the text is for the person in front of the browser."""


def encoded(data: bytes) -> str:
    """As these standards write bytes."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@frozen(kw_only=True)
class Flow:
    """
    One login.

    @ivar secret: what only the browser knows, as text.
    @ivar path: the path to which the browser wants to go.
    """

    secret: str = field(repr=False)
    path: str

    def _derived(self, what: str) -> str:
        text = f"saltwisted login {what}\0{self.path}"
        return encoded(hmac.new(self.secret.encode(), text.encode(), sha256).digest())

    @property
    def state(self) -> str:
        """What the provider hands back with the browser."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """What the provider's token has to say."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Proves to the provider that the code is for the client that requested it."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier in advance."""
        return encoded(sha256(self.verifier.encode()).digest())

    @property
    def cookie(self) -> str:
        """What the browser keeps."""
        return f"{self.secret}.{encoded(self.path.encode())}"


def begun(path: str, entropy: Entropy) -> Flow:
    """A new login."""
    return Flow(secret=encoded(entropy(32)), path=path)


def of_cookie(text: str) -> Flow | None:
    """The login that a browser has begun, by its cookie."""
    found = _COOKIE.fullmatch(text)
    if found is None or len(text) > 2 * LONGEST:
        return None
    try:
        packed = found[2] + "=" * (-len(found[2]) % 4)
        path = urlsafe_b64decode(packed).decode()
    except ValueError:
        return None
    return Flow(secret=found[1], path=path) if is_own_path(path) else None


def is_own_path(path: str) -> bool:
    """
    Whether a browser that is sent to this path stays on this server.

    Browsers read a backslash as a slash, drop tabs and ends of lines, and take what follows two
    slashes for another server.
    """
    if not path.startswith("/") or len(path) > LONGEST:
        return False
    if path[1:2] in ("/", "\\") or "\\" in path or not path.isprintable() or " " in path:
        return False
    try:
        parts = urlsplit(path)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc


def own_address(settings: Mapping[str, Any], host: str) -> str:
    """
    The URL to which the provider sends browsers back: the one of C{redirect_uri} on the requested
    host, or else the first. What a request says about its host is never part of it.
    """
    given = settings["redirect_uri"]
    addresses = [str(each) for each in (given if isinstance(given, list) else [given]) if each]
    for address in addresses:
        if urlsplit(address).netloc.casefold() == host.casefold():
            return address
    return addresses[0] if addresses else ""


def provider_address(
    document: Mapping[str, Any], settings: Mapping[str, Any], flow: Flow, back: str
) -> str:
    """
    The URL at which a browser logs in.

    @param document: the provider's metadata.
    @param back: the URL to which it must come back.
    """
    asked = {
        "response_type": "code",
        "client_id": str(settings["client_id"]),
        "redirect_uri": back,
        "scope": str(settings["scope"]),
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": flow.challenge,
        "code_challenge_method": "S256",
    }
    address = str(document["authorization_endpoint"])
    return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"


def came_back(
    query: Mapping[str, str], flow: Flow | None, issuer: str, names_issuer: bool
) -> tuple[Flow, str]:
    """
    The login that has come back from the provider, and its code.

    @param names_issuer: whether the provider says that it always names itself (RFC 9207).
    @raises FlowError: this browser has not begun it, or the provider refused.
    """
    state = query.get("state", "")
    if flow is None or not hmac.compare_digest(state.encode(), flow.state.encode()):
        raise FlowError(
            "This browser has not begun this login, or too long ago, or has begun another one since"
        )
    if query.get("iss", "" if names_issuer else issuer) != issuer:
        raise FlowError("The answer comes from another provider")
    if "error" in query:
        raise FlowError(f"The provider did not log you in: {query['error'][:100]}")
    code = query.get("code", "")
    if len(code) > LONGEST or _CODE.fullmatch(code) is None:
        raise FlowError("The provider's answer has no code")
    return flow, code
