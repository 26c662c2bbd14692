"""
Names in certificates: of people and machines, of hosts, addresses and object identifiers.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

NAMES = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
    "MAIL": NameOID.EMAIL_ADDRESS,
    "SN": NameOID.SURNAME,
    "GN": NameOID.GIVEN_NAME,
    "UID": NameOID.USER_ID,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
}
"""The parts of a name that have words of their own, in the order in which they are written."""

_LONG_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationUnitName": "OU",
    "givenName": "GN",
    "surname": "SN",
    "Email": "MAIL",
    "emailAddress": "MAIL",
    "serialNumber": "SERIALNUMBER",
    "X509v3 Basic Constraints": "basicConstraints",
    "X509v3 Key Usage": "keyUsage",
    "X509v3 Extended Key Usage": "extendedKeyUsage",
    "X509v3 Subject Key Identifier": "subjectKeyIdentifier",
    "X509v3 Authority Key Identifier": "authorityKeyIdentifier",
    "X509v3 Issuer Alternative Name": "issuerAltName",
    "issuserAltName": "issuerAltName",
    "Authority Information Access": "authorityInfoAccess",
    "X509v3 Subject Alternative Name": "subjectAltName",
    "X509v3 CRL Distribution Points": "crlDistributionPoints",
    "X509v3 Issuing Distribution Point": "issuingDistributionPoint",
    "X509v3 Certificate Policies": "certificatePolicies",
    "X509v3 Policy Constraints": "policyConstraints",
    "X509v3 Inhibit Any Policy": "inhibitAnyPolicy",
    "X509v3 Name Constraints": "nameConstraints",
    "OCSP No Check": "noCheck",
    "TLS Feature": "tlsfeature",
    "Netscape Comment": "nsComment",
    "Netscape Certificate Type": "nsCertType",
    "X509v3 CRLNumber": "cRLNumber",
    "X509v3 Delta CRL Indicator": "deltaCRLIndicator",
    "x509v3 Freshest CRL": "freshestCRL",
}
"""What the module of before 3006 called names and extensions."""


def shortened(words: dict[str, Any]) -> dict[str, Any]:
    """Arguments with today's names for those of the older module."""
    return {_LONG_NAMES.get(key, key): value for key, value in words.items()}


def oid(text: Any) -> ObjectIdentifier:
    """An object identifier from its numbers."""
    text = str(text)
    if not text.startswith(("0", "1", "2")) or text.strip("0123456789."):
        raise CommandExecutionError(f"Invalid oid: {text}")
    return ObjectIdentifier(text)


def oid_name(found: ObjectIdentifier) -> str:
    """What the library calls an identifier; its numbers if it does not know it."""
    name = getattr(found, "_name", "Unknown OID")
    return found.dotted_string if name == "Unknown OID" else str(name)


def relative_name(text: Any) -> x509.RelativeDistinguishedName:
    """One part of a name."""
    try:
        (found, *others) = x509.Name.from_rfc4514_string(text).rdns
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandExecutionError(f"Failed parsing rdn string: {text}") from error
    if others:
        raise SaltInvocationError(
            "Specified string is not a Relative Distinguished Name, but a Distinguished Name."
        )
    return found


def distinguished_name(given: Any) -> x509.Name:
    """A name from a text of RFC 4514, a list of such parts, or a dictionary."""
    if isinstance(given, str):
        try:
            return x509.Name.from_rfc4514_string(given)
        except ValueError as error:
            raise CommandExecutionError("Failed parsing rfc4514 dirName string") from error
    if isinstance(given, list):
        return x509.Name([relative_name(part) for part in given])
    if isinstance(given, dict):
        parts = []
        for name, identifier in NAMES.items():
            if name in given:
                try:
                    parts.append(x509.NameAttribute(identifier, given[name]))
                except (ValueError, TypeError) as error:
                    raise SaltInvocationError(f"{name}: {error}") from error
        return x509.Name(parts)
    raise SaltInvocationError("Need string, list or dict to parse distinguished names")


def words_of_name(name: x509.Name) -> dict[str, Any]:
    """The parts of a name that have words of their own."""
    found: dict[str, Any] = {}
    for word, identifier in NAMES.items():
        values = name.get_attributes_for_oid(identifier)
        if values:
            found[word] = values[0].value
    return found


# Hosts, addresses and the like ------------------------------------------------


def _check_label(label: str, domain: str) -> None:
    if not label:
        raise CommandExecutionError("Empty Label")
    if label[2:4] == "--" and not label.lower().startswith("xn--"):
        raise CommandExecutionError("Label has disallowed hyphens in 3rd and 4th position")
    if label.startswith("-") or label.endswith("-"):
        raise CommandExecutionError("Label must not start or end with a hyphen")
    for place, sign in enumerate(label, 1):
        if not _may_stand(sign):
            raise CommandExecutionError(
                f"Codepoint U+{ord(sign):04X} at position {place} of {label!r} not allowed"
            )


def _may_stand(sign: str) -> bool:
    """
    Whether a sign may be in a label, by RFC 5892: letters and digits that no folding changes.

    The signs that need certain neighbours are refused.
    """
    if sign.isascii():
        return sign.isalnum() or sign == "-"
    if sign in "\u00df\u03c2":
        return True
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", sign).casefold())
    return unicodedata.category(sign) in ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd") and folded == sign


def _ascii_domain(domain: str) -> str:
    """A domain as the wire has it."""
    if not domain:
        raise CommandExecutionError("Empty domain")
    labels = domain.split(".")
    end = "." if labels[-1] == "" and len(labels) > 1 else ""
    written = []
    for label in labels[:-1] if end else labels:
        _check_label(label, domain)
        ascii_label = label
        if not label.isascii():
            if unicodedata.normalize("NFC", label) != label:
                raise CommandExecutionError("Label must be in Normalized Form C")
            ascii_label = f"xn--{label.encode('punycode').decode()}"
        if len(ascii_label) > 63:
            raise CommandExecutionError("Label too long")
        written.append(ascii_label)
    return ".".join(written) + end


def _domain(value: Any, dot: bool = False, wildcard: bool = False) -> str:
    if not isinstance(value, str):
        raise SaltInvocationError(f"Expected string value, got {type(value).__name__}: `{value}`")
    prefix = ""
    if value.startswith("."):
        if not dot:
            raise CommandExecutionError("Leading dots are not allowed in this context")
        prefix, value = ".", value.lstrip(".")
    if value.startswith("*."):
        if not wildcard:
            raise CommandExecutionError("Wildcards are not allowed in this context")
        if prefix:
            raise CommandExecutionError("Wildcards and leading dots cannot be present together")
        prefix, value = "*.", value[2:]
        if value.startswith("."):
            raise CommandExecutionError("Empty label")
    return prefix + _ascii_domain(value)


def _mail(value: Any) -> str:
    user, at, domain = str(value).rpartition("@")
    return f"{user}@{_domain(domain)}" if at else _domain(value, dot=True)


def _link(value: Any) -> str:
    """A URL; its host is written in ASCII, and a port stays as it is."""
    parts = urlsplit(str(value))
    if not parts.netloc or parts.netloc.startswith("["):
        return str(value)
    before, at, host = parts.netloc.rpartition("@")
    host, colon, port = host.partition(":")
    place = before + at + _domain(host) + colon + port
    return urlunsplit((parts.scheme, place, parts.path, parts.query, parts.fragment))


def _address(value: Any) -> Any:
    for kind in (ipaddress.ip_address, ipaddress.ip_network):
        try:
            return kind(value)
        except ValueError:
            continue
    raise CommandExecutionError(
        f"Provided value {value} does not seem to be an IP address or network range."
    )


_KINDS: dict[str, tuple[Any, Any]] = {
    "email": (_mail, x509.RFC822Name),
    "uri": (_link, x509.UniformResourceIdentifier),
    "dns": (lambda value: _domain(value, dot=True, wildcard=True), x509.DNSName),
    "rid": (oid, x509.RegisteredID),
    "ip": (_address, x509.IPAddress),
    "dirname": (distinguished_name, x509.DirectoryName),
}


def general_name(kind: str, value: Any) -> Any:
    """One name of a kind, in the words of OpenSSL."""
    kind = kind.lower()
    if kind == "othername":
        raise SaltInvocationError("otherName is currently not implemented")
    if kind not in _KINDS:
        raise CommandExecutionError(f"GeneralName type {kind} is invalid")
    read, make = _KINDS[kind]
    value = read(value)
    try:
        return make(value)
    except (ValueError, TypeError) as error:
        raise CommandExecutionError(str(error)) from error


def general_names(pairs: Iterable[tuple[str, Any]]) -> list[Any]:
    """Names from their kinds and values."""
    return [general_name(kind, value) for kind, value in pairs]


def pair(text: Any) -> tuple[str, str]:
    """C{DNS:example.org} taken apart."""
    kind, colon, value = str(text).partition(":")
    if not colon:
        raise SaltInvocationError(f"Need a type and a value with a colon between, not: {text}")
    return kind.strip(), value.strip()


def shown(name: Any) -> str:
    """A general name as a text."""
    if isinstance(name, x509.DNSName):
        return f"DNS:{name.value}"
    if isinstance(name, x509.DirectoryName):
        return f"dirName:{name.value.rfc4514_string()}"
    if isinstance(name, x509.IPAddress):
        return f"IP:{name.value.exploded}"
    if isinstance(name, x509.RFC822Name):
        return f"mail:{name.value}"
    if isinstance(name, x509.RegisteredID):
        return f"RID:{name.value.dotted_string}"
    if isinstance(name, x509.UniformResourceIdentifier):
        return f"URI:{name.value}"
    return str(name)


def pretty_hex(value: bytes | int) -> str:
    """C{0A:FF}."""
    text = value.hex() if isinstance(value, bytes) else f"{value:x}"
    text = text if len(text) % 2 == 0 else f"0{text}"
    return ":".join(text[at : at + 2] for at in range(0, len(text), 2)).upper()
