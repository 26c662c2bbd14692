"""
The certificate of the API: the site's own files, or one that is made here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto
from twisted.internet.ssl import CertificateOptions, TLSVersion

from saltwisted.config.api import ApiOptions
from saltwisted.errors import ConfigError

YEARS = 20
FOLDER = "saltwisted"
FILE = "api.pem"
_PEM = serialization.Encoding.PEM


def context_of(
    options: ApiOptions,
    pki_dir: str,
    name: str,
    now: float,
    write: Callable[[str, bytes, int], None],
) -> tuple[Any, str]:
    """
    The TLS context, and the SHA-256 of the certificate if it is one of ours.

    @param name: this master's, for a certificate that is created.
    @param write: C{write(path, content, mode)}: a new file.
    @raises ConfigError: the files do not exist, or do not belong together.
    """
    fingerprint = ""
    if options.ssl_crt or options.ssl_key:
        for each in ("ssl_crt", "ssl_key"):
            if not getattr(options, each):
                raise ConfigError(f"{options.block}: {each} is needed beside the other of the two")
        certificates = read(options, options.ssl_crt)
        key = read(options, options.ssl_key)
    else:
        place = os.path.join(pki_dir, FOLDER, FILE)
        if not os.path.exists(place):
            write(place, self_signed(name, now), 0o600)
        certificates = key = read(options, place)
        fingerprint = fingerprint_of(certificates)
    chain = read(options, options.ssl_chain) if options.ssl_chain else b""
    made = loaded(options, certificates, key, chain, options.ssl_crt or place)
    return made, fingerprint


def check_certificate(options: ApiOptions) -> None:
    """
    Whether the certificate of the site can be used, if it names one. Nothing is written.

    @raises ConfigError: the files do not exist, or do not belong together.
    """
    if options.ssl_crt or options.ssl_key:
        context_of(options, "", "", 0.0, lambda path, content, mode: None)
    elif options.ssl_chain:
        read(options, options.ssl_chain)


def loaded(options: ApiOptions, certificates: bytes, key: bytes, chain: bytes, place: str) -> Any:
    """
    The TLS context from PEM.

    @param place: where it comes from.
    @raises ConfigError: key and certificate do not belong together.
    """
    try:
        own, *more = [
            crypto.X509.from_cryptography(x509.load_pem_x509_certificate(each))
            for each in each_of(certificates) + each_of(chain)
        ]
        loaded = crypto.PKey.from_cryptography_key(
            serialization.load_pem_private_key(key, None)  # type: ignore[arg-type]
        )
        made = CertificateOptions(
            privateKey=loaded,
            certificate=own,
            extraCertChain=more,
            raiseMinimumTo=TLSVersion.TLSv1_2,
            # Without a name of ours a client that offers one is hung up on
            acceptableProtocols=[b"http/1.1"],
        )
        made.getContext().check_privatekey()
    except (ValueError, TypeError, SSL.Error, crypto.Error) as error:
        raise ConfigError(f"{options.block}: {place} and its key cannot be used: {error}") from None
    return made


def read(options: ApiOptions, path: str) -> bytes:
    """
    A file.

    @raises ConfigError: it does not exist.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"{options.block}: Could not find a certificate: {path} ({error.strerror})"
        ) from None


def each_of(text: bytes) -> list[bytes]:
    """The certificates in a file of them."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    return [begin + part.partition(end)[0] + end + b"\n" for part in text.split(begin)[1:]]


def fingerprint_of(text: bytes) -> str:
    """SHA-256 of the first certificate, as browsers show it."""
    der = x509.load_pem_x509_certificate(each_of(text)[0]).public_bytes(serialization.Encoding.DER)
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def self_signed(name: str, now: float) -> bytes:
    """A key and its certificate, which nobody else vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (name or "saltwisted")[:64])])
    began = datetime.fromtimestamp(now, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(began - timedelta(days=1))
        .not_valid_after(began + timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(_PEM)
