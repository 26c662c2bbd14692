"""
SQL of PostgreSQL: how names and values are quoted, and how passwords are stored.

Nothing here asks a server. Names and values come from pillars and from people: each is quoted so
that the server takes it for what it is, whatever characters it has.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import secrets
import stringprep
import unicodedata
from typing import Any

from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

MD5, SCRAM = "md5", "scram-sha-256"
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d+):([^$]+)\$")
_ITERATIONS = 4096
_PROHIBITED = (
    *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3),
    *(stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6),
    *(stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9),
)


def _text(value: Any) -> str:
    """
    @raises SaltInvocationError: no server takes this text.
    """
    text = str(value)
    if "\0" in text:
        raise SaltInvocationError("A name or value for PostgreSQL has a NUL character")
    return text


def name(value: Any) -> str:
    """A name, quoted: capitals, dashes and quotes in it are kept."""
    return '"' + _text(value).replace('"', '""') + '"'


def value(value: Any) -> str:
    """A text, quoted, whether or not the server takes backslashes for escapes."""
    text = _text(value).replace("'", "''")
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\") + "'"
    return f"'{text}'"


def without(mark: str, text: Any) -> Any:
    """
    A text, or C{None}.

    @raises SaltInvocationError: the mark is in it; in Salt's words.
    """
    if text is not None and mark in str(text):
        raise SaltInvocationError(f"Unsupported character {mark} in value: {text}")
    return text


def bare(text: Any) -> str:
    """A text that somebody may have quoted for SQL already, without those quotes."""
    found = str(text)
    if len(found) > 1 and found[0] == found[-1] and found[0] in "'\"":
        return found[1:-1]
    return found


def stored_password(role: str, password: Any, method: Any = MD5) -> str | None:
    """
    A password as the server is told it: its verifier, unless it is one already.

    @param method: C{md5} (or C{True}), C{scram-sha-256}, or C{False} for the password itself.
    @raises ValueError: there is no such method.
    """
    if password is None:
        return None
    text = str(password)
    if method is True:
        method = MD5
    if method not in (False, MD5, SCRAM):
        raise ValueError("Unknown password algorithm: " + str(method))
    if method == SCRAM and not text.startswith("SCRAM-SHA-256"):
        return scram(text)
    if method == MD5 and not text.startswith("md5"):
        log.warning("The md5 password algorithm was deprecated in PostgreSQL 10")
        return _md5(role, text)
    if method is False:
        log.warning("Unencrypted passwords were removed in PostgreSQL 10")
    return text


def is_stored(role: str, password: Any, stored: Any, method: Any) -> bool:
    """Whether what a server has stored is this password, by this method."""
    text, stored = str(password), str(stored or "")
    expected: str | None = None
    if method is False:
        expected = text
    elif method in (True, MD5):
        expected = text if text.startswith("md5") else _md5(role, text)
    elif method == SCRAM and text.startswith("SCRAM-SHA-256"):
        expected = text
    elif method == SCRAM and (parts := _VERIFIER.match(stored)):
        expected = scram(text, base64.b64decode(parts[2]), int(parts[1]))
    return expected is not None and hmac.compare_digest(expected.encode(), stored.encode())


def _md5(role: str, password: str) -> str:
    # What the server keeps for this method; the role's name is its salt.
    return "md5" + hashlib.md5(f"{password}{role}".encode(), usedforsecurity=False).hexdigest()


def scram(password: str, salt: bytes | None = None, iterations: int = _ITERATIONS) -> str:
    """
    A verifier of SCRAM-SHA-256, as PostgreSQL keeps them (RFC 5802, RFC 7677).

    @param salt: random if not given.
    """
    if salt is None:
        salt = secrets.token_bytes(16)
    key = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)
    client = hashlib.sha256(hmac.digest(key, b"Client Key", "sha256")).digest()
    server = hmac.digest(key, b"Server Key", "sha256")
    shown = [base64.b64encode(each).decode() for each in (salt, client, server)]
    return f"SCRAM-SHA-256${iterations}:{shown[0]}${shown[1]}:{shown[2]}"


def prepared(password: str) -> str:
    """
    A password by SASLprep (RFC 4013); one that may not be prepared stays as it is.

    The server does the same when somebody logs in.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each
        for each in password
        if not stringprep.in_table_b1(each)
    )
    text = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not text or any(test(each) for each in text for test in _PROHIBITED):
        return password
    if any(stringprep.in_table_a1(each) for each in text):
        return password
    if any(stringprep.in_table_d1(each) for each in text):
        ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
        if not ends or any(stringprep.in_table_d2(each) for each in text):
            return password
    return text
