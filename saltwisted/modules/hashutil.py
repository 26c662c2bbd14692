"""
Hashes, signatures and Base64, of texts and small files.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, (bytes, bytearray)) else str(value).encode()


def _text(data: bytes) -> Any:
    """As text if it is one, else the bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def digest(instr: Any, checksum: str = "md5") -> str:
    """
    The hash of a text: C{md5}, C{sha256} or C{sha512}.

    CLI Example::

        salt '*' hashutil.digest 'get salted'
    """
    if checksum not in ("md5", "sha256", "sha512"):
        raise CommandExecutionError(f"Hash func '{checksum}' is not supported.")
    return hashlib.new(checksum, _bytes(instr)).hexdigest()


def digest_file(infile: str, checksum: str = "md5") -> str:
    """
    The hash of a file's content: C{md5}, C{sha256} or C{sha512}.

    CLI Example::

        salt '*' hashutil.digest_file /path/to/file
    """
    if not __salt__["file.file_exists"](infile):
        raise CommandExecutionError(f"File path '{infile}' not found.")
    with open(infile, "rb") as file:
        return digest(file.read(), checksum)


def base64_b64encode(instr: Any) -> str:
    """
    Base64 without line ends.

    CLI Example::

        salt '*' hashutil.base64_b64encode 'get salted'
    """
    return base64.b64encode(_bytes(instr)).decode()


def base64_b64decode(instr: Any) -> Any:
    """
    What Base64 without line ends means.

    CLI Example::

        salt '*' hashutil.base64_b64decode 'Z2V0IHNhbHRlZA=='
    """
    return _text(base64.b64decode(_bytes(instr)))


def base64_encodestring(instr: Any) -> str:
    """
    Base64 with a line end after 76 characters and at the end.

    CLI Example::

        salt '*' hashutil.base64_encodestring 'get salted'
    """
    return base64.encodebytes(_bytes(instr)).decode()


def base64_encodefile(fname: str) -> str:
    """
    A file's content in Base64 with line ends.

    CLI Example::

        salt '*' hashutil.base64_encodefile /path/to/binary_file
    """
    with open(fname, "rb") as file:
        return base64.encodebytes(file.read()).decode()


def base64_decodestring(instr: Any) -> Any:
    """
    What Base64 with line ends means.

    CLI Example::

        salt '*' hashutil.base64_decodestring instr='Z2V0IHNhbHRlZAo='
    """
    return _text(base64.decodebytes(_bytes(instr)))


def base64_decodefile(instr: Any, outfile: str) -> bool:
    """
    Write what Base64 means into a file.

    CLI Example::

        salt '*' hashutil.base64_decodefile instr='Z2V0IHNhbHRlZAo=' outfile='/path/to/binary_file'
    """
    data = base64.decodebytes(_bytes(instr))
    with open(outfile, "wb") as file:
        file.write(data)
    return True


def md5_digest(instr: Any) -> str:
    """
    The MD5 hash of a text.

    CLI Example::

        salt '*' hashutil.md5_digest 'get salted'
    """
    return digest(instr, "md5")


def sha256_digest(instr: Any) -> str:
    """
    The SHA-256 hash of a text.

    CLI Example::

        salt '*' hashutil.sha256_digest 'get salted'
    """
    return digest(instr, "sha256")


def sha512_digest(instr: Any) -> str:
    """
    The SHA-512 hash of a text.

    CLI Example::

        salt '*' hashutil.sha512_digest 'get salted'
    """
    return digest(instr, "sha512")


def hmac_signature(string: Any, shared_secret: Any, challenge_hmac: Any) -> bool:
    """
    Whether a text has this HMAC-SHA-256 (in Base64) under a secret.

    CLI Example::

        salt '*' hashutil.hmac_signature 'get salted' 'shared secret' 'eBWf9bstXg+NiP5AOwppB5HM='
    """
    made = hmac.new(_bytes(shared_secret), _bytes(string), hashlib.sha256).digest()
    return hmac.compare_digest(base64.b64encode(made), _bytes(challenge_hmac))


def hmac_compute(string: Any, shared_secret: Any) -> str:
    """
    The HMAC-SHA-256 of a text under a secret, in hexadecimal.

    CLI Example::

        salt '*' hashutil.hmac_compute 'get salted' 'shared secret'
    """
    return hmac.new(_bytes(shared_secret), _bytes(string), hashlib.sha256).hexdigest()


def github_signature(string: Any, shared_secret: Any, challenge_hmac: str) -> bool:
    """
    Whether a text has this signature as GitHub sends it: C{sha1=...}.

    CLI Example::

        salt '*' hashutil.github_signature '{"ref":....} ' 'shared secret' 'sha1=bc6550fc290acf5b42'
    """
    kind, challenge = challenge_hmac.split("=")
    made = hmac.new(_bytes(shared_secret), _bytes(string), kind).hexdigest()
    return hmac.compare_digest(made, challenge)
