"""
C{salt.utils.x509}: certificates and keys, loaded and compared.

The names with an underscore are private in stock, too. The extension C{vault} uses these, since
stock has no others for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType, SimpleNamespace
from typing import Any

from cryptography import x509 as cx509  # noqa: F401 - read from here, as with stock
from cryptography.exceptions import InvalidSignature  # noqa: F401 - read from here, as with stock

from saltwisted.modules import _x509_compare as _compare
from saltwisted.modules import _x509_extensions as _extensions
from saltwisted.modules import _x509_load as _load
from saltwisted.modules import _x509_names as _names
from saltwisted.worker.exceptions import CommandExecutionError

NAME_ATTRS_OID = MappingProxyType(_names.NAMES)
"""The parts of a name that have words of their own, with their identifiers."""


def load_cert(
    cert: Any, passphrase: Any = None, load_chain: bool = False, get_encoding: bool = False
) -> Any:
    """
    A certificate, of a file, a text or bytes in any encoding that Salt knows.

    @param load_chain: with the other certificates there.
    @param get_encoding: with its encoding, the others, and the key of a PKCS#12 file.
    """
    found = _load.certificates(cert, passphrase)
    if get_encoding:
        return found
    return (found[0], found[2] or []) if load_chain else found[0]


def load_privkey(pk: Any, passphrase: Any = None, get_encoding: bool = False) -> Any:
    """
    A private key, of a file, a text or bytes.

    @param get_encoding: with its encoding.
    """
    if get_encoding:
        return _load.private_key_and_encoding(pk, passphrase)
    return _load.private_key(pk, passphrase)


def load_pubkey(pk: Any) -> Any:
    """A public key, of a file, a text or bytes."""
    return _load.public_key(pk)


def verify_signature(cert: Any, pubkey: Any) -> bool:
    """Whether a certificate is signed by the owner of a public key."""
    return _load.is_signed_by(cert, pubkey)


def is_pair(pubkey: Any, privkey: Any) -> bool:
    """Whether a public key is the one of a private key."""
    return _load.same_key(pubkey, privkey.public_key())


def match_pubkey(pubkey_a: Any, pubkey_b: Any) -> bool:
    """Whether two public keys are one."""
    return _load.same_key(pubkey_a, pubkey_b)


def to_pem(pub_or_cert: Any) -> bytes:
    """A public key, certificate, request or list of revocations as PEM."""
    return _load.to_pem(pub_or_cert)


def to_der(pub_or_cert: Any) -> bytes:
    """The same as DER."""
    return _load.to_der(pub_or_cert)


def _of_builder(builder: Any, name: str) -> Any:
    """What a builder of C{cryptography} was given: it shows that nowhere else."""
    try:
        return getattr(builder, name)
    except AttributeError as error:
        raise CommandExecutionError(
            f"Could not get attribute {name} from {type(builder).__name__}."
            " Did the internal API of cryptography change?"
        ) from error


def _compare_cert(
    current: Any,
    builder: Any,
    signing_cert: Any,
    serial_number: Any,
    not_before: Any,
    not_after: Any,
) -> dict[str, Any]:
    """
    In what a certificate differs from the one that a C{CertificateBuilder} would make.

    @param signing_cert: that of who has to have signed it; C{None}: anybody.
    @param serial_number: compared if it is given. The times are not compared, as with stock.
    """
    wanted: Any = SimpleNamespace(
        serial=_of_builder(builder, "_serial_number"),
        key=_of_builder(builder, "_public_key"),
        authority=signing_cert,
        subject=_of_builder(builder, "_subject_name"),
        issuer=_of_builder(builder, "_issuer_name"),
        extensions=_of_builder(builder, "_extensions"),
    )
    return _compare.certificate_changes(current, wanted, {"serial_number": serial_number})


def _parse_general_names(val: Iterable[tuple[str, Any]]) -> list[Any]:
    """Names from their kinds (C{dns}, C{ip} ...) and values."""
    return _names.general_names(val)


def _create(name: str, val: Any) -> tuple[Any, bool]:
    found = _extensions.extension(name, val)
    return found.value, found.critical


def _create_authority_info_access(val: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The extension from what a state says of it, and whether it is critical."""
    return _create("authorityInfoAccess", val)


def _create_crl_distribution_points(val: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The same."""
    return _create("crlDistributionPoints", val)


def _create_freshest_crl(val: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The same."""
    return _create("freshestCRL", val)
