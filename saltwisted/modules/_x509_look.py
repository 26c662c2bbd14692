"""
Functions of C{x509} that look at keys, certificates, requests and lists, and change nothing.
"""

from __future__ import annotations

import datetime
import glob
import os
from collections.abc import Callable
from typing import Any

from saltwisted.modules import _x509_build as _build
from saltwisted.modules import _x509_load as _load
from saltwisted.modules import _x509_render as _render
from saltwisted.modules._x509_names import NAMES as _NAMES


def expires(certificate: Any, days: int = 0) -> bool:
    """
    Whether a certificate is not valid any more in so many days.

    CLI Example::

        salt '*' x509.expires /etc/pki/my.crt days=7
    """
    cert = _load.certificate(certificate)
    end = _build.now() + datetime.timedelta(days=days)
    return _build.at(cert, "not_valid_after") <= end


def _named(certificate: Any) -> dict[str, Any]:
    """The path and the common name of a certificate."""
    found = {"path": certificate} if _load.is_file(certificate) else {}
    names = _load.certificate(certificate).subject.get_attributes_for_oid(_NAMES["CN"])
    return {**found, **({"cn": names[0].value} if names else {})}


def expired(certificate: Any) -> dict[str, Any]:
    """
    Whether a certificate is not valid any more, with its name.

    CLI Example::

        salt '*' x509.expired /etc/pki/mycert.crt
    """
    return {**_named(certificate), "expired": expires(certificate)}


def will_expire(certificate: Any, days: int) -> dict[str, Any]:
    """
    Whether a certificate is not valid any more in so many days, with its name.

    CLI Example::

        salt '*' x509.will_expire "/etc/pki/mycert.crt" days=30
    """
    named = _named(certificate)
    return {"check_days": days, **named, "will_expire": expires(certificate, days)}


def get_pem_entry(text: Any, pem_type: str | None = None) -> bytes:
    """
    The first PEM entry of a text or file, tidily written.

    pem_type
        A pattern for the kind of entry.

    CLI Example::

        salt '*' x509.get_pem_entry "-----BEGIN CERTIFICATE REQUEST-----MIICyzCC..."
    """
    return _load.pem_entry(text, pem_type)


def _each(pattern: str, look: Callable[[str], Any]) -> dict[str, Any]:
    """What files of a pattern hold, without those that hold something else."""
    found = {}
    for path in glob.glob(pattern):
        if os.path.isfile(path):
            try:
                found[path] = look(path)
            except ValueError:
                continue
    return found


def get_pem_entries(glob_path: str) -> dict[str, Any]:
    """
    The first PEM entry of each file.

    CLI Example::

        salt '*' x509.get_pem_entries "/etc/pki/*.crt"
    """
    return _each(glob_path, _load.pem_entry)


def get_private_key_size(private_key: Any, passphrase: Any = None) -> int | None:
    """
    How many bits a private key has; nothing for kinds of one size.

    CLI Example::

        salt '*' x509.get_private_key_size /etc/pki/mycert.key
    """
    return getattr(_load.private_key(private_key, passphrase), "key_size", None)


def get_public_key(key: Any, passphrase: Any = None, asObj: Any = None) -> str:
    """
    The public key of a certificate, a request, a private or a public key, as PEM.

    CLI Example::

        salt '*' x509.get_public_key /etc/pki/mycert.cer
    """
    return _load.to_pem(_load.any_public_key(key, passphrase)).decode()


def read_crl(crl: Any) -> dict[str, Any]:
    """
    What is in a list of revocations.

    CLI Example::

        salt '*' x509.read_crl /etc/pki/my.crl
    """
    return _render.revocation_list(_load.revocations(crl)[0])


def read_csr(csr: Any) -> dict[str, Any]:
    """
    What is in a request.

    CLI Example::

        salt '*' x509.read_csr /etc/pki/mycert.csr
    """
    return _render.request(_load.request(csr)[0])


def verify_crl(crl: Any, cert: Any) -> bool:
    """
    Whether the owner of a certificate or key signed a list of revocations.

    CLI Example::

        salt '*' x509.verify_crl /etc/pki/my.crl /etc/pki/my.crt
    """
    return _load.is_signed_by(_load.revocations(crl)[0], _load.any_public_key(cert))


def verify_private_key(private_key: Any, public_key: Any, passphrase: Any = None) -> bool:
    """
    Whether a private key belongs to a public key, a certificate or a request.

    CLI Example::

        salt '*' x509.verify_private_key /etc/pki/myca.key /etc/pki/myca.crt
    """
    key = _load.private_key(private_key, passphrase)
    return _load.same_key(_load.any_public_key(public_key), key.public_key())


def verify_signature(
    certificate: Any, signing_pub_key: Any = None, signing_pub_key_passphrase: Any = None
) -> bool:
    """
    Whether a key signed a certificate; its own if none is given.

    CLI Example::

        salt '*' x509.verify_signature /etc/pki/mycert.pem signing_pub_key=/etc/pki/myca.crt
    """
    cert = _load.certificate(certificate)
    key = _load.any_public_key(signing_pub_key or certificate, signing_pub_key_passphrase)
    return _load.is_signed_by(cert, key)


def encode_crl(crl: Any, encoding: str = "pem", raw: bool = False) -> Any:
    """
    A list of revocations in another encoding: C{pem} or C{der}.

    CLI Example::

        salt '*' x509.encode_crl /etc/pki/my.crl der
    """
    _load.check_encoding(encoding, "der", "pem")
    found = _load.revocations(crl)[0]
    data = _load.to_pem(found) if encoding == "pem" else _load.to_der(found)
    return _load.encoded(data, encoding, raw)


def encode_csr(csr: Any, encoding: str = "pem", raw: bool = False) -> Any:
    """
    A request in another encoding: C{pem} or C{der}.

    CLI Example::

        salt '*' x509.encode_csr /etc/pki/my.csr der
    """
    _load.check_encoding(encoding, "der", "pem")
    found = _load.request(csr)[0]
    data = _load.to_pem(found) if encoding == "pem" else _load.to_der(found)
    return _load.encoded(data, encoding, raw)
