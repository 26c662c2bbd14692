"""Sums and base64 for custom modules, with the names of C{salt.utils.hashutils}."""

from __future__ import annotations

import hashlib
from typing import Any

from saltwisted.modules import hashutil as _sums
from saltwisted.utils._own import own
from saltwisted.utils.stringutils import to_bytes as _bytes
from saltwisted.worker import renderfilters

base64_b64decode = own(__name__, _sums.base64_b64decode)
base64_b64encode = own(__name__, _sums.base64_b64encode)
base64_decodestring = own(__name__, _sums.base64_decodestring)
base64_encodestring = own(__name__, _sums.base64_encodestring)
get_hash = own(__name__, renderfilters.file_hashsum)
hmac_compute = own(__name__, _sums.hmac_compute)
hmac_signature = own(__name__, _sums.hmac_signature)
md5_digest = own(__name__, _sums.md5_digest)
random_hash = own(__name__, renderfilters.random_hash)
sha256_digest = own(__name__, _sums.sha256_digest)
sha512_digest = own(__name__, _sums.sha512_digest)


def sha1_digest(instr: Any) -> str:
    """The SHA-1 sum of a text, in hexadecimal digits."""
    return hashlib.sha1(_bytes(instr)).hexdigest()  # noqa: S324 - asked for by name


class DigestCollector:
    """
    One sum over several files and texts.

    @raises ValueError: no such sum.
    """

    def __init__(self, form: str = "sha256", buff: int = 0x10000) -> None:
        make = getattr(hashlib, form, None)
        if make is None:
            raise ValueError(f"Invalid hash type: {form}")
        self._sum = make()
        self._size = buff

    def add(self, path: str) -> None:
        """Count a file in."""
        with open(path, "rb") as file:
            while data := file.read(self._size):
                self._sum.update(data)

    def add_data(self, data: Any) -> None:
        """Count a text or bytes in."""
        self._sum.update(data.encode() if isinstance(data, str) else data)

    def digest(self) -> str:
        """The sum so far, in hexadecimal digits."""
        return str(self._sum.hexdigest())
