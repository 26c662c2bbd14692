"""
Whether a password matches a text: plain and digested fields, C{htpasswd}, C{htdigest}.

The formats are those of Salt's backend C{file}. What only the system's C{libcrypt} can do is an
argument. Nothing here says why a password is wrong; C{PasswordFileError} describes an error of the
file.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Crypt = Callable[[str, str], "str | None"]
"""C{crypt(password, setting)} of the system."""
DIGESTS = ("md5", "sha256", "sha512")
_ITOA = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BLOCK = 16


class PasswordFileError(Exception):
    """The file, or its description, cannot be used; the text says what to fix."""


def right(
    text: str, settings: Mapping[str, Any], username: str, password: str, crypt: Crypt
) -> bool:
    """
    Whether a file's text has this password for this user.

    @param settings: C{filetype}, C{hashtype} and so on, see L{saltwisted.domain.eauth}.
    @raises PasswordFileError: the file cannot be used.
    """
    filetype = str(settings["filetype"]).lower()
    if filetype == "text":
        return _text(text, settings, username, password)
    if filetype == "htpasswd":
        return any(
            _htpasswd(fields[1], password, crypt)
            for fields in _rows(text, ":", 2)
            if _same(fields[0], username)
        )
    if filetype == "htdigest":
        realm = str(settings["realm"] or "")
        if not realm:
            raise PasswordFileError("filetype htdigest needs ^realm")
        wanted = hashlib.md5(f"{username}:{realm}:{password}".encode()).hexdigest()  # noqa: S324
        return any(
            _same(fields[2].lower(), wanted)
            for fields in _rows(text, ":", 3)
            if _same(fields[0], username) and fields[1] == realm
        )
    raise PasswordFileError(f"^filetype {filetype!r} is not one of text, htpasswd and htdigest")


def has_name(text: str, settings: Mapping[str, Any], username: str) -> bool:
    """
    Whether a file's text has this user.

    @raises PasswordFileError: the file cannot be used.
    """
    if str(settings["filetype"]).lower() == "text":
        (name_at, _), separator = _fields(settings), str(settings["field_separator"])
        return any(
            _same(fields[name_at - 1], username) for fields in _rows(text, separator, name_at)
        )
    return any(_same(fields[0], username) for fields in _rows(text, ":", 2))


def _fields(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Where names and passwords stand, from 1."""
    try:
        name_at, word_at = int(settings["username_field"]), int(settings["password_field"])
    except (TypeError, ValueError):
        raise PasswordFileError("^username_field and ^password_field must be numbers") from None
    if name_at < 1 or word_at < 1:
        raise PasswordFileError("^username_field and ^password_field count from 1")
    if not str(settings["field_separator"]):
        raise PasswordFileError("^field_separator is empty")
    return name_at, word_at


def _text(text: str, settings: Mapping[str, Any], username: str, password: str) -> bool:
    name_at, word_at = _fields(settings)
    separator = str(settings["field_separator"])
    hashtype = str(settings["hashtype"])
    given = password
    if hashtype in DIGESTS:
        given = hashlib.new(hashtype, password.encode()).hexdigest()
    elif hashtype != "plaintext":
        raise PasswordFileError(
            f"^hashtype {hashtype!r} is not one of plaintext, {', '.join(DIGESTS)}"
        )
    for fields in _rows(text, separator, max(name_at, word_at)):
        if _same(fields[name_at - 1], username):
            # The first line of a user counts, as in Salt
            return _same(fields[word_at - 1], given)
    return False


def _rows(text: str, separator: str, fields: int) -> Iterator[list[str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or (line.startswith("#") and separator not in line):
            continue
        row = line.strip().split(separator)
        if len(row) < fields:
            raise PasswordFileError(f"line {number} has {len(row)} fields, but needs {fields}")
        yield row


def _same(one: str, other: str) -> bool:
    # A line of a file need not be UTF-8; it must not keep those after it from being read
    first, second = (text.encode("utf-8", "surrogateescape") for text in (one, other))
    return hmac.compare_digest(first, second)


def _htpasswd(kept: str, password: str, crypt: Crypt) -> bool:
    if kept.startswith("{SHA}"):
        digest = hashlib.sha1(password.encode()).digest()  # noqa: S324 - Apache's format
        return _same(kept[5:], b64encode(digest).decode())
    if kept.startswith("$apr1$"):
        return _same(kept, apr1(password, kept.split("$")[2]))
    if not kept:
        return False
    made = crypt(password, kept)
    if made is not None and not made.startswith("*") and _same(kept, made):
        return True
    # Without a prefix Apache on some systems keeps plain texts, and passlib reads them
    return not kept.startswith("$") and len(kept) != 13 and _same(kept, password)


def apr1(password: str, salt: str) -> str:
    """Apache's variant of MD5-crypt, with its prefix and salt."""
    word, grain = password.encode(), salt[:8].encode()
    inner = hashlib.md5(word + grain + word).digest()  # noqa: S324 - Apache's format
    start = hashlib.md5(word + b"$apr1$" + grain)  # noqa: S324
    start.update((inner * (len(word) // _BLOCK + 1))[: len(word)])
    bits = len(word)
    while bits:
        start.update(b"\0" if bits & 1 else word[:1])
        bits >>= 1
    final = start.digest()
    for number in range(1000):
        part = hashlib.md5(word if number & 1 else final)  # noqa: S324
        if number % 3:
            part.update(grain)
        if number % 7:
            part.update(word)
        part.update(final if number & 1 else word)
        final = part.digest()
    groups = ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5))
    letters = [_letters(final[a] << 16 | final[b] << 8 | final[c], 4) for a, b, c in groups]
    return f"$apr1${grain.decode()}${''.join(letters)}{_letters(final[11], 2)}"


def _letters(value: int, count: int) -> str:
    found = ""
    for _ in range(count):
        found += _ITOA[value & 63]
        value >>= 6
    return found
