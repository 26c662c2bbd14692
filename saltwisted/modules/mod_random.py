"""
Random values, and hashes of passwords for C{/etc/shadow}.

What may be a secret (C{get_str}, C{shadow_hash}'s salt) comes from the system's source of
randomness; the functions that take a seed give the same numbers for the same seed.
"""

from __future__ import annotations

import base64
import hashlib
import random
import secrets
import string
from typing import Any

from saltwisted.worker import libcrypt
from saltwisted.worker.exceptions import CommandExecutionError, SaltException, SaltInvocationError

__virtualname__ = "random"

__grains__: Any


def __virtual__() -> str:
    return __virtualname__


def hash(value: Any, algorithm: str = "sha512") -> str:
    """
    The hash of a text by any algorithm of Python's.

    CLI Example::

        salt '*' random.hash 'I am a string' md5
    """
    if algorithm not in hashlib.algorithms_guaranteed and not hasattr(hashlib, algorithm):
        raise SaltException("You must specify a valid algorithm.")
    data = value.encode() if isinstance(value, str) else value
    return hashlib.new(algorithm, data).hexdigest()


def str_encode(value: Any, encoder: str = "base64") -> Any:
    """
    A text in Base64, or in another encoding of Python's.

    CLI Example::

        salt '*' random.str_encode 'I am a new string' base64
    """
    data: Any = value.encode() if isinstance(value, str) else value
    if encoder == "base64":
        try:
            return base64.b64encode(data).decode()
        except TypeError as error:
            raise SaltInvocationError("Value must be an encode-able string") from error
    try:
        return data.encode(encoder)
    except LookupError as error:
        raise SaltInvocationError("You must specify a valid encoder") from error
    except AttributeError as error:
        raise SaltInvocationError("Value must be an encode-able string") from error


def get_str(
    length: Any = 20,
    chars: str | None = None,
    lowercase: bool = True,
    uppercase: bool = True,
    digits: bool = True,
    punctuation: bool = True,
    whitespace: bool = False,
    printable: bool = False,
) -> str:
    """
    A random text of some length, from these characters or these kinds of them.

    CLI Example::

        salt '*' random.get_str 128
        salt '*' random.get_str 16 chars='abc123.!()'
        salt '*' random.get_str 10 lowercase=False whitespace=True
    """
    pool = string.printable if printable else chars or ""
    if not pool:
        for wanted, kind in (
            (lowercase, string.ascii_lowercase),
            (uppercase, string.ascii_uppercase),
            (digits, string.digits),
            (punctuation, string.punctuation),
            (whitespace, string.whitespace),
        ):
            pool += kind if wanted else ""
    try:
        count = int(length)
    except (TypeError, ValueError) as error:
        raise CommandExecutionError(str(error)) from error
    if not pool:
        raise CommandExecutionError("There are no characters to choose from")
    return "".join(secrets.choice(pool) for _ in range(count))


_CRYPT = {"sha512": "6", "sha256": "5", "blowfish": "2b", "md5": "1", "crypt": ""}
_SALT_CHARS = string.ascii_letters + string.digits + "./"


def shadow_hash(
    crypt_salt: str | None = None, password: str | None = None, algorithm: str = "sha512"
) -> str | None:
    """
    The hash of a password (of a random one if not given) for C{/etc/shadow}.

    crypt_salt
        Instead of a random one.
    algorithm
        C{sha512 sha256 blowfish md5 crypt}.

    CLI Example::

        salt '*' random.shadow_hash 'My5alT' 'MyP@asswd' md5
    """
    if algorithm not in _CRYPT:
        raise SaltInvocationError(
            f"Cannot hash using '{algorithm}' hash algorithm. Natively supported algorithms "
            f"are: {list(_CRYPT)}. If passlib is installed (False), the supported algorithms "
            f"are: {list(_CRYPT)}."
        )
    if password is None:
        password = get_str()
    if crypt_salt is None:
        size = {"crypt": 2, "md5": 8, "blowfish": 22}.get(algorithm, 16)
        crypt_salt = "".join(secrets.choice(_SALT_CHARS) for _ in range(size))
        if algorithm == "blowfish":
            crypt_salt = "12$" + crypt_salt
    ident = _CRYPT[algorithm]
    made = libcrypt.crypt(password, f"${ident}${crypt_salt}" if ident else crypt_salt)
    return None if not made or made.startswith("*") else made


def rand_int(start: Any = 1, end: Any = 10, seed: Any = None) -> int:
    """
    A random whole number between two, both included.

    CLI Example::

        salt '*' random.rand_int 1 10
    """
    if seed is not None:
        return random.Random(seed).randint(start, end)
    return random.randint(start, end)


def seed(range: Any = 10, hash: Any = None) -> int:
    """
    A number below C{range} that is always the same for one minion (or text).

    CLI Example::

        salt '*' random.seed 10 hash=None
    """
    return random.Random(__grains__["id"] if hash is None else hash).randrange(range)


def sample(value: Any, size: Any, seed: Any = None) -> list[Any]:
    """
    Some members of a list, in random order.

    CLI Example::

        salt '*' random.sample '["one", "two"]' 1 seed="something"
    """
    if seed is None:
        return random.sample(value, size)
    return random.Random(hash(seed)).sample(value, size)


def shuffle(value: Any, seed: Any = None) -> list[Any]:
    """
    A list in random order.

    CLI Example::

        salt '*' random.shuffle '["one", "two"]' seed="something"
    """
    return sample(value, len(value), seed=seed)
