"""
Until when certificates are valid. Bytes in, moments out; nothing is trusted here.
"""

from __future__ import annotations

from datetime import UTC

from attrs import frozen
from cryptography import x509
from cryptography.x509.oid import NameOID

from saltwisted.errors import WireError

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"


@frozen
class Validity:
    """
    One certificate's time, in seconds since 1970.

    @ivar name: its common name, or all of its subject where that has none.
    """

    name: str
    since: float
    until: float


def validities(pem: bytes) -> list[Validity]:
    """
    Those of all certificates in a PEM file; other things in it, as keys, are passed over.

    @raises WireError: something that calls itself a certificate is none.
    """
    found = []
    for part in pem.split(_BEGIN)[1:]:
        text = _BEGIN + part.partition(_END)[0] + _END + b"\n"
        try:
            certificate = x509.load_pem_x509_certificate(text)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            name = str(names[0].value) if names else certificate.subject.rfc4514_string()
        except ValueError as error:
            raise WireError("certificate") from error
        since = _moment(certificate, "not_valid_before")
        found.append(Validity(name, since, _moment(certificate, "not_valid_after")))
    return found


def _moment(certificate: x509.Certificate, name: str) -> float:
    """Versions from 42 on have the moment with its zone, and complain about the one without."""
    exact = getattr(certificate, f"{name}_utc", None)
    if exact is None:
        exact = getattr(certificate, name).replace(tzinfo=UTC)
    return float(exact.timestamp())
