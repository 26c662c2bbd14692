"""
Certificates, requests and revocation lists as dictionaries, for people and programs to read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from saltwisted.modules import _x509_load as load
from saltwisted.modules._x509_build import at
from saltwisted.modules._x509_extensions import EXTENSIONS, KEY_USAGE, OF_ENTRIES, TIME
from saltwisted.modules._x509_names import oid_name, pretty_hex, shown, words_of_name


def _relative(value: Any) -> str | None:
    return value.relative_name.rfc4514_string() if value.relative_name else None


def _sorted_reasons(reasons: Any) -> list[str]:
    return sorted(reason.value for reason in reasons or ())


def _names(names: Any) -> list[str]:
    return [shown(name) for name in names or ()]


def _key_usage(value: Any) -> dict[str, Any]:
    agrees = value.key_agreement
    return {
        word: agrees and getattr(value, name) if name.endswith("_only") else getattr(value, name)
        for name, word in KEY_USAGE.items()
    }


def _authority_key_identifier(value: Any) -> dict[str, Any]:
    number = value.authority_cert_serial_number
    return {
        "keyid": pretty_hex(value.key_identifier) if value.key_identifier else None,
        "issuer": _names(value.authority_cert_issuer) or None,
        "issuer_sn": pretty_hex(number) if number else None,
    }


def _general_names(value: Any) -> dict[str, Any]:
    return {"value": _names(value)}


def _access(value: Any) -> dict[str, Any]:
    return {
        "value": [{oid_name(one.access_method): str(one.access_location.value)} for one in value]
    }


def _distribution_points(value: Any) -> dict[str, Any]:
    return {
        "value": [
            {
                "crlissuer": _names(point.crl_issuer),
                "fullname": _names(point.full_name),
                "reasons": _sorted_reasons(point.reasons),
                "relativename": _relative(point),
            }
            for point in value
        ]
    }


def _issuing_distribution_point(value: Any) -> dict[str, Any]:
    return {
        "fullname": _names(value.full_name),
        # Salt's spelling.
        "onysomereasons": _sorted_reasons(value.only_some_reasons),
        "relativename": _relative(value),
        "onlyuser": value.only_contains_user_certs,
        "onlyCA": value.only_contains_ca_certs,
        "onlyAA": value.only_contains_attribute_certs,
        "indirectCRL": value.indirect_crl,
    }


def _qualifier(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"practice_statement": given}
    notice = given.notice_reference
    return {
        # Salt's spelling.
        "organizataion": notice.organization if notice else None,
        "notice_numbers": notice.notice_numbers if notice else None,
        "explicit_text": given.explicit_text,
    }


def _certificate_policies(value: Any) -> dict[str, Any]:
    return {
        "value": [
            {
                oid_name(policy.policy_identifier): [
                    _qualifier(one) for one in policy.policy_qualifiers or ()
                ]
            }
            for policy in value
        ]
    }


_RENDERERS: dict[Any, Callable[[Any], dict[str, Any]]] = {
    x509.BasicConstraints: lambda value: {"ca": value.ca, "pathlen": value.path_length},
    x509.KeyUsage: _key_usage,
    x509.ExtendedKeyUsage: lambda value: {"value": [oid_name(usage) for usage in value]},
    x509.SubjectKeyIdentifier: lambda value: {"value": pretty_hex(value.digest)},
    x509.AuthorityKeyIdentifier: _authority_key_identifier,
    x509.IssuerAlternativeName: _general_names,
    x509.CertificateIssuer: _general_names,
    x509.AuthorityInformationAccess: _access,
    x509.SubjectAlternativeName: _general_names,
    x509.CRLDistributionPoints: _distribution_points,
    x509.FreshestCRL: _distribution_points,
    x509.IssuingDistributionPoint: _issuing_distribution_point,
    x509.CertificatePolicies: _certificate_policies,
    x509.PolicyConstraints: lambda value: {
        "inhibitPolicyMapping": value.inhibit_policy_mapping,
        "requireExplicitPolicy": value.require_explicit_policy,
    },
    x509.InhibitAnyPolicy: lambda value: {"value": value.skip_certs},
    x509.NameConstraints: lambda value: {
        "excluded": _names(value.excluded_subtrees),
        "permitted": _names(value.permitted_subtrees),
    },
    x509.OCSPNoCheck: lambda value: {"value": True},
    x509.TLSFeature: lambda value: {"value": [feature.name for feature in value]},
    x509.CRLNumber: lambda value: {"value": value.crl_number},
    x509.DeltaCRLIndicator: lambda value: {"value": value.crl_number},
    x509.CRLReason: lambda value: {"value": value.reason.value},
    x509.InvalidityDate: lambda value: {"value": value.invalidity_date.strftime(TIME)},
}


def extensions_of(extensions: Any, known: Mapping[str, Any] = EXTENSIONS) -> dict[str, Any]:
    """Extensions by their names; those that have no name here are not shown."""
    found = {}
    for name, identifier in known.items():
        if identifier is None:
            continue
        try:
            part = extensions.get_extension_for_oid(identifier)
        except x509.ExtensionNotFound:
            continue
        render = _RENDERERS.get(type(part.value), lambda value: {"value": str(value)})
        found[name] = {"critical": part.critical, **render(part.value)}
    return found


def _name_hash(name: x509.Name) -> str:
    """The short hash that OpenSSL names files after."""
    digest = hashes.Hash(hashes.SHA1())
    digest.update(name.public_bytes())
    start = digest.finalize()[:4]
    return pretty_hex(start[::-1] if sys.byteorder == "little" else start)


def _key(key: Any) -> dict[str, Any]:
    kind = load.kind_of(key)
    return {"key_size": key.key_size if kind in ("ec", "rsa") else None, "key_type": kind}


def certificate(cert: x509.Certificate, has_md5: bool) -> dict[str, Any]:
    """
    A certificate.

    @param has_md5: also its fingerprint by a hash that some machines forbid.
    """
    kinds: dict[str, Any] = {"sha1": hashes.SHA1(), "sha256": hashes.SHA256()}
    if has_md5:
        kinds["md5"] = hashes.MD5()
    return {
        "version": cert.version.value + 1,
        **_key(cert.public_key()),
        "serial_number": pretty_hex(cert.serial_number),
        "fingerprints": {name: pretty_hex(cert.fingerprint(kind)) for name, kind in kinds.items()},
        "subject": words_of_name(cert.subject),
        "subject_hash": _name_hash(cert.subject),
        "subject_str": cert.subject.rfc4514_string(),
        "issuer": words_of_name(cert.issuer),
        "issuer_hash": _name_hash(cert.issuer),
        "issuer_str": cert.issuer.rfc4514_string(),
        "not_before": at(cert, "not_valid_before").strftime(TIME),
        "not_after": at(cert, "not_valid_after").strftime(TIME),
        "public_key": load.to_pem(cert.public_key()).decode(),
        "extensions": extensions_of(cert.extensions),
        "signature_algorithm": oid_name(cert.signature_algorithm_oid),
    }


def request(csr: Any) -> dict[str, Any]:
    """A request."""
    key = csr.public_key()
    return {
        **_key(key),
        "subject": words_of_name(csr.subject),
        "subject_hash": _name_hash(csr.subject),
        "subject_str": csr.subject.rfc4514_string(),
        "public_key_hash": pretty_hex(x509.SubjectKeyIdentifier.from_public_key(key).digest),
        "extensions": extensions_of(csr.extensions),
    }


def revocation_list(crl: Any) -> dict[str, Any]:
    """A list of revocations."""
    revoked = {}
    for entry in crl:
        revoked[pretty_hex(entry.serial_number).replace(":", "")] = {
            "revocation_date": at(entry, "revocation_date").strftime(TIME),
            "extensions": extensions_of(entry.extensions, OF_ENTRIES),
        }
    return {
        "issuer": words_of_name(crl.issuer),
        "last_update": at(crl, "last_update").strftime(TIME),
        "next_update": at(crl, "next_update").strftime(TIME),
        "revoked_certificates": revoked,
        "extensions": extensions_of(crl.extensions),
        "signature_algorithm": oid_name(crl.signature_algorithm_oid),
    }
