"""
Signatures of texts and files by keys of any kind: RSA, EC, Ed25519 and Ed448.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlparse

from attrs import frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

from saltwisted.modules import _files, _x509_load
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__virtualname__ = "asymmetric"
__salt__: Any

_DIGEST = "sha256"


@frozen
class _Data:
    """
    What is signed: bytes, or a file.

    @ivar digest: by which hash.
    """

    content: bytes
    path: str
    digest: str

    def signed(self, key: Any) -> tuple[bytes, list[Any]]:
        """What C{sign} and C{verify} of a key take: the data or their hash, and how it is done."""
        kind = _x509_load.kind_of(key)
        if kind in ("ed25519", "ed448"):
            if not self.path:
                return self.content, []
            with open(self.path, "rb") as file:
                return file.read(), []
        plain = _x509_load.hash_of(self.digest)
        data, used = self.content, plain
        if self.path:
            data = bytes.fromhex(_files.digest(self.path, self.digest))
            used = utils.Prehashed(plain)
        if kind == "ec":
            return data, [ec.ECDSA(used)]
        length = padding.PSS.MAX_LENGTH if hasattr(key, "sign") else padding.PSS.AUTO
        return data, [padding.PSS(padding.MGF1(plain), length), used]


def _data(text: Any, filename: Any, digest: str | None, missing: str) -> _Data:
    """
    What was given.

    @param missing: what is said if nothing was.
    """
    if text:
        return _Data(text if isinstance(text, bytes) else str(text).encode(), "", digest or _DIGEST)
    if not filename:
        raise SaltInvocationError(missing)
    return _Data(b"", str(filename), digest or _DIGEST)


def sign(
    privkey: Any,
    passphrase: Any = None,
    text: Any = None,
    filename: Any = None,
    digest: str | None = None,
    raw: bool | None = None,
    path: str | None = None,
) -> Any:
    """
    Sign a text or a file.

    privkey
        A path, or the key itself in any encoding.
    digest
        By which hash; C{sha256} by default. Ed25519 and Ed448 have their own.
    raw
        Give bytes and not Base64; this is the default with C{path}.
    path
        Write the signature into this file.

    CLI Example::

        salt '*' asymmetric.sign /root/my_privkey.pem text='I like you'
    """
    if text is not None:
        data = _Data(text if isinstance(text, bytes) else str(text).encode(), "", digest or _DIGEST)
    else:
        data = _data(None, filename, digest, "Either `text` or `filename` is required")
    key = _x509_load.private_key(privkey, passphrase)
    content, how = data.signed(key)
    made = key.sign(content, *how)
    is_raw = bool(path) if raw is None else raw
    if path:
        with open(path, "wb") as file:
            file.write(made if is_raw else base64.b64encode(made))
        return f"Signature written to '{path}'"
    return made if is_raw else base64.b64encode(made).decode()


def verify(
    text: Any = None,
    filename: Any = None,
    pubkey: Any = None,
    signature: Any = None,
    digest: str | None = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Verify signatures.

    pubkey
        The key that has signed.
    signature
        The signature: a path, an address or Base64. With C{signed_by_any} and C{signed_by_all} it
        may be a list.
    signed_by_any
        Keys, one of which must have signed.
    signed_by_all
        Keys, all of which must have signed.

    CLI Example::

        salt '*' asymmetric.verify pubkey=/root/my.pem text='I like you' signature=/root/like.sig
    """
    some, every = _listed(signed_by_any), _listed(signed_by_all)
    if text and filename:
        raise SaltInvocationError("`text` and `filename` arguments are mutually exclusive")
    if not signature:
        raise SaltInvocationError("Missing `signature` parameter")
    if (some or every) and pubkey:
        raise SaltInvocationError("Either specify pubkey + signature or signed_by_(any|all)")
    if not (some or every):
        if not pubkey:
            raise SaltInvocationError("Missing pubkey(s) to check against")
        if not isinstance(signature, str | bytes):
            raise SaltInvocationError(
                "`signature` must be a string or bytes when verifying a single signing `pubkey`"
            )
        every = [pubkey]
    missing = "Missing data to verify. Either specify `text` or `filename`"
    data = _data(text, filename, digest, missing)
    if data.path and not os.path.exists(data.path):
        raise CommandExecutionError(f"Path '{filename}' does not exist")
    signatures = []
    for one in _listed(signature):
        try:
            signatures.append(_fetch(one))
        except CommandExecutionError as error:
            if pubkey:
                return {"res": False, "message": str(error)}
            log.error("%s", error)
    if not signatures:
        raise CommandExecutionError("Unable to locate any of the provided signatures")
    if some and not any(_has_signed(key, signatures, data) for key in some):
        said = "None of the public keys listed in signed_by_any provided a valid signature"
        return {"res": False, "message": said}
    rest = signatures
    for key in every:
        try:
            by_it = _signed_by(key, rest, data)
        except Exception as error:
            log.error("%s", error)
            said = "checking signature" if pubkey else "while checking `signed_by_all`"
            return {"res": False, "message": f"Failed {said}: {error}"}
        rest = [one for one in rest if one not in by_it]
    said = "The signature is valid" if pubkey else "All required keys have provided a signature"
    return {"res": True, "message": said}


def _listed(given: Any) -> list[Any]:
    if not given:
        return []
    return given if isinstance(given, list) else [given]


def _has_signed(key: Any, signatures: Sequence[Any], data: _Data) -> bool:
    """Whether one of the signatures is by this key; a key that cannot be read has not signed."""
    try:
        return bool(_signed_by(key, signatures, data))
    except Exception as error:
        log.info("%s", error)
        return False


def _signed_by(source: Any, signatures: Sequence[Any], data: _Data) -> list[Any]:
    """
    The signatures that are by this key.

    @raise CommandExecutionError: none is.
    """
    key = _x509_load.public_key(_fetch(source))
    content, how = data.signed(key)
    found = []
    for one in signatures:
        try:
            key.verify(_loaded(one), content, *how)
        except InvalidSignature:
            continue
        found.append(one)
    if not found:
        print_ = hashlib.sha256(_x509_load.to_der(key)).hexdigest()
        raise CommandExecutionError(f"Invalid signature for key {print_}")
    return found


def _loaded(source: Any) -> bytes:
    """The bytes of a signature."""
    found = source
    if _x509_load.is_file(source):
        with open(source, "rb") as file:
            found = file.read()
    try:
        found = found.encode("ascii") if isinstance(found, str) else found
        decoded = base64.b64decode(found)
        if base64.b64encode(decoded) == found.replace(b"\n", b""):
            return decoded
    except (binascii.Error, ValueError):
        pass
    if isinstance(found, bytes):
        return found
    raise CommandExecutionError(f"Failed loading signature '{source}' as file and/or base64 string")


def _fetch(source: Any) -> Any:
    """Where something is on this machine; what is no address stays as it is."""
    if not isinstance(source, str):
        return source
    try:
        parts = urlparse(source)
    except ValueError:
        return source
    if not parts.scheme:
        return source
    place = parts.path if parts.scheme == "file" else __salt__["cp.cache_file"](source)
    if not place or not os.path.exists(place):
        raise CommandExecutionError(f"Failed fetching '{source}'")
    return place
