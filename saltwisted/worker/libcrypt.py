"""
Password hashes for C{/etc/shadow}, made by the system's own C{libcrypt}.

Python's C{crypt} module, which Salt uses, is gone from newer Pythons; the library is what it
called, and what C{login} will ask.
"""

from __future__ import annotations

import secrets
import string

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

_LETTERS = string.ascii_letters + string.digits + "./"

METHODS = {
    "sha512": ("$6$", 16),
    "sha256": ("$5$", 16),
    "blowfish": ("$2b$12$", 22),
    "md5": ("$1$", 8),
    "crypt": ("", 2),
}
"""Algorithm to prefix and length of the salt, strongest first."""


def gen_hash(
    crypt_salt: str | None = None, password: str | None = None, algorithm: str | None = None
) -> str | None:
    """
    The hash of a password.

    @param crypt_salt: without the prefix; random by default.
    @param password: random by default.
    @param algorithm: a key of L{METHODS}; the strongest by default.
    @raises SaltInvocationError: unknown algorithm.
    """
    name = next(iter(METHODS)) if algorithm is None else algorithm
    if name not in METHODS:
        raise SaltInvocationError(
            f"Cannot hash using '{name}' hash algorithm. Natively supported algorithms are:"
            f" {list(METHODS)}. If passlib is installed (False), the supported algorithms are:"
            f" {list(METHODS)}."
        )
    if password is None:
        password = secure_password()
    prefix, length = METHODS[name]
    if crypt_salt is None:
        crypt_salt = "".join(secrets.choice(_LETTERS) for _ in range(length))
    elif name == "blowfish":
        prefix = "$2b$"
    return crypt(password, f"{prefix}{crypt_salt}")


def crypt(word: str, setting: str) -> str | None:
    """
    The hash of a word by a setting, which names the algorithm and holds the salt.

    @return: C{None} for a setting that the library does not know.
    @raises CommandExecutionError: the library is not there.
    """
    import ctypes

    for name in ("libcrypt.so.1", "libcrypt.so.2"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise CommandExecutionError("Cannot hash passwords: libcrypt is not installed")
    library.crypt.restype = ctypes.c_char_p
    library.crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    result: bytes | None = library.crypt(word.encode(), setting.encode())
    return None if result is None else result.decode("ascii", "replace")


def secure_password(length: int = 20) -> str:
    """A random password of letters, digits and punctuation."""
    letters = string.ascii_letters + string.digits + string.punctuation
    return "".join(secrets.choice(letters) for _ in range(length))
