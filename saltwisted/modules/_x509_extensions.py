"""
The extensions of certificates, requests and revocation lists: from the words of OpenSSL's
configuration, or lists and dictionaries, to what the library signs.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.x509.oid import (
    AuthorityInformationAccessOID,
    CRLEntryExtensionOID,
    ExtensionOID,
    ObjectIdentifier,
)

from saltwisted.modules._x509_names import (
    general_name,
    general_names,
    oid,
    pair,
    relative_name,
)
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

TIME = "%Y-%m-%d %H:%M:%S"

EXTENSIONS: dict[str, ObjectIdentifier | None] = {
    "basicConstraints": ExtensionOID.BASIC_CONSTRAINTS,
    "keyUsage": ExtensionOID.KEY_USAGE,
    "extendedKeyUsage": ExtensionOID.EXTENDED_KEY_USAGE,
    "subjectKeyIdentifier": ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    "authorityKeyIdentifier": ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    "issuerAltName": ExtensionOID.ISSUER_ALTERNATIVE_NAME,
    "authorityInfoAccess": ExtensionOID.AUTHORITY_INFORMATION_ACCESS,
    "subjectAltName": ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    "crlDistributionPoints": ExtensionOID.CRL_DISTRIBUTION_POINTS,
    "issuingDistributionPoint": ExtensionOID.ISSUING_DISTRIBUTION_POINT,
    "certificatePolicies": ExtensionOID.CERTIFICATE_POLICIES,
    "policyConstraints": ExtensionOID.POLICY_CONSTRAINTS,
    "inhibitAnyPolicy": ExtensionOID.INHIBIT_ANY_POLICY,
    "nameConstraints": ExtensionOID.NAME_CONSTRAINTS,
    "noCheck": ExtensionOID.OCSP_NO_CHECK,
    "tlsfeature": ExtensionOID.TLS_FEATURE,
    "nsComment": None,
    "nsCertType": None,
    "cRLNumber": ExtensionOID.CRL_NUMBER,
    "deltaCRLIndicator": ExtensionOID.DELTA_CRL_INDICATOR,
    "freshestCRL": ExtensionOID.FRESHEST_CRL,
}
"""Extensions by their names, in the order in which they are written."""
_OF_LISTS = ("issuingDistributionPoint", "cRLNumber", "deltaCRLIndicator", "freshestCRL")
OF_CERTIFICATES = tuple(name for name in EXTENSIONS if name not in _OF_LISTS)
OF_LISTS = (
    "authorityKeyIdentifier",
    "authorityInfoAccess",
    "issuerAltName",
    *_OF_LISTS,
)
NOT_IN_REQUESTS = (
    "authorityInfoAccess",
    "authorityKeyIdentifier",
    "issuerAltName",
    "crlDistributionPoints",
)
OF_ENTRIES = {
    "certificateIssuer": CRLEntryExtensionOID.CERTIFICATE_ISSUER,
    "CRLReason": CRLEntryExtensionOID.CRL_REASON,
    "invalidityDate": CRLEntryExtensionOID.INVALIDITY_DATE,
}
"""Extensions of one revocation."""

_USAGES = {
    "serverAuth": "1.3.6.1.5.5.7.3.1",
    "clientAuth": "1.3.6.1.5.5.7.3.2",
    "codeSigning": "1.3.6.1.5.5.7.3.3",
    "emailProtection": "1.3.6.1.5.5.7.3.4",
    "timeStamping": "1.3.6.1.5.5.7.3.8",
    "OCSPSigning": "1.3.6.1.5.5.7.3.9",
    "msSmartcardLogin": "1.3.6.1.4.1.311.20.2.2",
    "pkInitKDC": "1.3.6.1.5.2.3.5",
    "ipsecIKE": "1.3.6.1.5.5.7.3.17",
    "msCodeInd": "1.3.6.1.4.1.311.2.1.21",
    "msCodeCom": "1.3.6.1.4.1.311.2.1.22",
    "msCTLSign": "1.3.6.1.4.1.311.10.3.1",
    "msEFS": "1.3.6.1.4.1.311.10.3.4",
}
_ACCESS = {
    "OCSP": AuthorityInformationAccessOID.OCSP,
    "caIssuers": AuthorityInformationAccessOID.CA_ISSUERS,
    "caRepository": ObjectIdentifier("1.3.6.1.5.5.7.48.5"),
}
KEY_USAGE = {
    "digital_signature": "digitalSignature",
    "content_commitment": "nonRepudiation",
    "key_encipherment": "keyEncipherment",
    "data_encipherment": "dataEncipherment",
    "key_agreement": "keyAgreement",
    "key_cert_sign": "keyCertSign",
    "crl_sign": "cRLSign",
    "encipher_only": "encipherOnly",
    "decipher_only": "decipherOnly",
}


@frozen
class Signer:
    """
    Who signs for whom, as far as extensions say it.

    @ivar subject_key: the public key that is signed.
    @ivar cert: the signer's certificate.
    @ivar key: the signer's public key, if it has no certificate yet.
    """

    subject_key: Any = None
    cert: Any = None
    key: Any = None


def _flag(value: Any) -> bool:
    """Whether something is marked as critical, in any of the forms."""
    if isinstance(value, dict):
        return bool(value.get("critical", False))
    return not isinstance(value, int) and "critical" in value


def _words(text: str) -> list[tuple[str, str]]:
    """C{critical, a:1, b} as pairs."""
    if text.startswith("critical"):
        text = text[8:].strip(",").strip()
    parts = (part.strip().partition(":") for part in text.split(","))
    return [(key.strip(), value.strip() if colon else "__present__") for key, colon, value in parts]


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Kinds and values of names, in any of the forms."""
    if isinstance(value, str):
        return _words(value)
    found: list[tuple[str, Any]] = []
    for item in value.items() if isinstance(value, dict) else value:
        if isinstance(item, dict):
            found += [entry for entry in item.items() if entry[0] != "critical"]
        elif isinstance(item, tuple):
            found += [item] if item[0] != "critical" else []
        elif ":" in item:
            found.append(pair(item))
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _basic_constraints(value: Any, _signer: Signer) -> Any:
    if isinstance(value, list):
        value = dict(entry for part in value if isinstance(part, dict) for entry in part.items())
    if isinstance(value, str):
        words: dict[str, Any] = dict(_words(value.lower()))
        try:
            words["ca"] = words["ca"] == "true"
            if "pathlen" in words:
                words["pathlen"] = int(words["pathlen"])
        except (KeyError, ValueError) as error:
            raise SaltInvocationError(
                f"Invalid configuration for basicContraints: {error}"
            ) from error
        value = words
    try:
        return x509.BasicConstraints(value["ca"], value.get("pathlen"))
    except KeyError as error:
        raise SaltInvocationError(
            f"Undefined required key for basicConstraints: {error}"
        ) from error


def _key_usage(value: Any, _signer: Signer) -> Any:
    return x509.KeyUsage(**{name: word in value for name, word in KEY_USAGE.items()})


def _extended_key_usage(value: Any, _signer: Signer) -> Any:
    if isinstance(value, str):
        value = [key for key, _ in _words(value)]
    usages = [word for word in _listed(value) if word != "critical"]
    return x509.ExtendedKeyUsage([oid(_USAGES.get(word, word)) for word in usages])


def _subject_key_identifier(value: Any, signer: Signer) -> Any:
    if not isinstance(value, bytes) and "critical" in value:
        raise SaltInvocationError("subjectKeyIdentifier must be marked as non-critical")
    if value == "hash":
        if signer.subject_key is None:
            raise CommandExecutionError(
                "Cannot calculate digest for subjectKeyIdentifier: missing pubkey"
            )
        return x509.SubjectKeyIdentifier.from_public_key(signer.subject_key)
    if isinstance(value, str):
        try:
            value = bytes.fromhex(value.replace(":", ""))
        except ValueError as error:
            raise SaltInvocationError("Value must be precomputed hash") from error
    if not isinstance(value, bytes):
        raise SaltInvocationError("Value must be a (hex-)digest or pubkey")
    return x509.SubjectKeyIdentifier(value)


def _signer_identifier(signer: Signer) -> bytes | None:
    """By what the signer's key is known."""
    make = x509.AuthorityKeyIdentifier.from_issuer_public_key
    if signer.cert is not None:
        try:
            found = signer.cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
            return bytes(found.value.digest)
        except x509.ExtensionNotFound:
            return make(signer.cert.public_key()).key_identifier
    return make(signer.key).key_identifier


def _authority_key_identifier(value: Any, signer: Signer) -> Any:
    if "critical" in value:
        raise SaltInvocationError("authorityKeyIdentifier must be marked as non-critical")
    if signer.cert is None and signer.key is None:
        raise CommandExecutionError(
            "Need CA certificate or CA pubkey to calculate authorityKeyIdentifier"
        )
    if isinstance(value, list):
        value = ",".join(
            item if isinstance(item, str) else ",".join(f"{k}:{v}" for k, v in item.items())
            for item in value
        )
    words = dict(_words(value)) if isinstance(value, str) else value
    key_identifier = _signer_identifier(signer) if "keyid" in words else None
    issuer = serial = None
    if words.get("issuer") == "always" or ("issuer" in words and key_identifier is None):
        if signer.cert is not None:
            issuer = [x509.DirectoryName(signer.cert.issuer)]
            serial = signer.cert.serial_number
        elif words["issuer"] == "always":
            raise CommandExecutionError(
                "Could not add authority_cert_issuer and authority_cert_serial_number, "
                "but was set to always."
            )
    return x509.AuthorityKeyIdentifier(key_identifier, issuer, serial)


def _issuer_names(value: Any, signer: Signer) -> list[Any]:
    """Names, among them those of the signer if C{issuer:copy} is."""
    pairs = _pairs(value)
    copied: list[Any] = []
    if ("issuer", "copy") in pairs:
        if signer.cert is None:
            raise CommandExecutionError("Need CA certificate to copy to issuerAltName")
        pairs = [entry for entry in pairs if entry[0] != "issuer"]
        try:
            names = signer.cert.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound as error:
            raise CommandExecutionError(str(error)) from error
        copied = list(names.value)
    return copied + general_names(pairs)


def _issuer_alt_name(value: Any, signer: Signer) -> Any:
    return x509.IssuerAlternativeName(_issuer_names(value, signer))


def _certificate_issuer(value: Any, signer: Signer) -> Any:
    return x509.CertificateIssuer(_issuer_names(value, signer))


def _subject_alt_name(value: Any, _signer: Signer) -> Any:
    return x509.SubjectAlternativeName(general_names(_pairs(value)))


def _authority_info_access(value: Any, _signer: Signer) -> Any:
    entries: list[Any]
    if isinstance(value, str):
        parts = (part.strip() for part in value.split(","))
        entries = [part.split(";", 1) for part in parts if part != "critical"]
    else:
        entries = _pairs(value)
    found = []
    for entry in entries:
        if len(entry) != 2:
            raise SaltInvocationError(f"Need a method and a location: {entry[0]}")
        try:
            method = _ACCESS.get(entry[0]) or oid(entry[0])
        except CommandExecutionError as error:
            raise CommandExecutionError(f"Unknown access OID: {entry[0]}") from error
        found.append(x509.AccessDescription(method, general_name(*pair(entry[1]))))
    return x509.AuthorityInformationAccess(found)


def _reasons(names: Any) -> frozenset[Any] | None:
    return frozenset(x509.ReasonFlags(name) for name in names) if names else None


def _full_name(names: Any) -> list[Any] | None:
    return general_names(pair(name) for name in _listed(names)) if names else None


def _distribution_points(value: Any) -> list[Any]:
    items: list[Any]
    if isinstance(value, str):
        items = [{"fullname": f"{kind}:{place}"} for kind, place in _words(value)]
    else:
        items = [value] if isinstance(value, dict) else [x for x in value if x != "critical"]
    found = []
    for item in items:
        point = item if isinstance(item, dict) else {"fullname": item}
        relative = point.get("relativename")
        found.append(
            x509.DistributionPoint(
                full_name=_full_name(point.get("fullname")),
                relative_name=relative_name(relative) if relative else None,
                reasons=_reasons(point.get("reasons")),
                crl_issuer=_full_name(point.get("crlissuer")),
            )
        )
    return found


def _crl_distribution_points(value: Any, _signer: Signer) -> Any:
    return x509.CRLDistributionPoints(_distribution_points(value))


def _freshest_crl(value: Any, _signer: Signer) -> Any:
    return x509.FreshestCRL(_distribution_points(value))


def _issuing_distribution_point(value: Any, _signer: Signer) -> Any:
    if not isinstance(value, dict):
        raise SaltInvocationError("issuingDistributionPoint must be a dictionary")
    relative = value.get("relativename")
    return x509.IssuingDistributionPoint(
        full_name=_full_name(value.get("fullname")),
        relative_name=relative_name(relative) if relative else None,
        only_contains_user_certs=value.get("onlyuser", False),
        only_contains_ca_certs=value.get("onlyCA", False),
        only_some_reasons=_reasons(value.get("onlysomereasons")),
        indirect_crl=value.get("indirectCRL", False),
        only_contains_attribute_certs=value.get("onlyAA", False),
    )


def _qualifier(given: Any) -> Any:
    if isinstance(given, str):
        return given
    notice = None
    if given.get("noticeNumbers"):
        notice = x509.NoticeReference(given.get("organization"), given["noticeNumbers"])
    return x509.UserNotice(notice, given.get("text"))


def _certificate_policies(value: Any, _signer: Signer) -> Any:
    if isinstance(value, str):
        try:
            found = [oid(x.strip()) for x in value.split(",") if x.strip() != "critical"]
        except CommandExecutionError as error:
            raise SaltInvocationError(
                "certificatePolicies defined as string must be a comma-separated list of OID."
            ) from error
        return x509.CertificatePolicies([x509.PolicyInformation(one, None) for one in found])
    if isinstance(value, list):
        value = {str(one): [] for one in value}
    return x509.CertificatePolicies(
        [
            x509.PolicyInformation(
                oid(policy), [_qualifier(x) for x in _listed(qualifiers)] or None
            )
            for policy, qualifiers in value.items()
            if policy != "critical"
        ]
    )


def _policy_constraints(value: Any, _signer: Signer) -> Any:
    words = dict(_words(value)) if isinstance(value, str) else value
    explicit, mapping = (words.get(x) for x in ("requireExplicitPolicy", "inhibitPolicyMapping"))
    return x509.PolicyConstraints(
        None if explicit is None else int(explicit), None if mapping is None else int(mapping)
    )


def _inhibit_any_policy(value: Any, _signer: Signer) -> Any:
    if isinstance(value, str):
        value = int(_words(value)[0][0])
    if isinstance(value, dict) and "value" not in value:
        raise SaltInvocationError("Undefined required key for inhibitAnyPolicy: 'value'")
    return x509.InhibitAnyPolicy(value if isinstance(value, int) else value["value"])


def _name_constraints(value: Any, _signer: Signer) -> Any:
    if isinstance(value, str):
        scopes: dict[str, Any] = {}
        for part in value.split(","):
            scope, _, name = part.strip().partition(";")
            if scope in ("permitted", "excluded"):
                scopes.setdefault(scope, []).append(name)
        value = scopes
    permitted, excluded = (
        general_names(_pairs(value[scope])) if scope in value else None
        for scope in ("permitted", "excluded")
    )
    if not permitted and not excluded:
        raise SaltInvocationError("nameConstraints needs at least one definition")
    return x509.NameConstraints(permitted or None, excluded or None)


def _no_check(_value: Any, _signer: Signer) -> Any:
    return x509.OCSPNoCheck()


def _tlsfeature(value: Any, _signer: Signer) -> Any:
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    try:
        features = [x509.TLSFeatureType[word] for word in words if word != "critical"]
    except KeyError as error:
        raise SaltInvocationError(f"Unknown TLS feature: {error}") from error
    return x509.TLSFeature(features)


def _ns_comment(_value: Any, _signer: Signer) -> Any:
    raise SaltInvocationError("nsComment is currently not implemented.")


def _ns_cert_type(_value: Any, _signer: Signer) -> Any:
    raise SaltInvocationError("nsCertType is currently not implemented.")


def _crl_number(value: Any, _signer: Signer) -> Any:
    try:
        return x509.CRLNumber(int(value))
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(
            "cRLNumber must be an integer and must be marked as non-critical"
        ) from error


def _delta_crl_indicator(value: Any, _signer: Signer) -> Any:
    numbers = re.findall(r"\d+", str(value))
    if len(numbers) != 1:
        raise SaltInvocationError(
            "deltaCRLIndicator must contain a single integer pointing to a cRLNumber"
        )
    return x509.DeltaCRLIndicator(int(numbers[0]))


def _crl_reason(value: Any, _signer: Signer) -> Any:
    words = [key for key, _ in _words(value)] if isinstance(value, str) else value
    return x509.CRLReason(x509.ReasonFlags(next(x for x in words if x != "critical")))


def _invalidity_date(value: Any, _signer: Signer) -> Any:
    if not isinstance(value, str):
        raise SaltInvocationError("invalidityDate must be a string")
    if value.startswith("critical"):
        value = value.partition(" ")[2]
    return x509.InvalidityDate(datetime.datetime.strptime(value, TIME))


_BUILDERS: dict[str, Callable[[Any, Signer], Any]] = {
    "basicConstraints": _basic_constraints,
    "keyUsage": _key_usage,
    "extendedKeyUsage": _extended_key_usage,
    "subjectKeyIdentifier": _subject_key_identifier,
    "authorityKeyIdentifier": _authority_key_identifier,
    "issuerAltName": _issuer_alt_name,
    "certificateIssuer": _certificate_issuer,
    "authorityInfoAccess": _authority_info_access,
    "subjectAltName": _subject_alt_name,
    "crlDistributionPoints": _crl_distribution_points,
    "freshestCRL": _freshest_crl,
    "issuingDistributionPoint": _issuing_distribution_point,
    "certificatePolicies": _certificate_policies,
    "policyConstraints": _policy_constraints,
    "inhibitAnyPolicy": _inhibit_any_policy,
    "nameConstraints": _name_constraints,
    "noCheck": _no_check,
    "tlsfeature": _tlsfeature,
    "nsComment": _ns_comment,
    "nsCertType": _ns_cert_type,
    "cRLNumber": _crl_number,
    "deltaCRLIndicator": _delta_crl_indicator,
    "CRLReason": _crl_reason,
    "invalidityDate": _invalidity_date,
}
_NEVER_CRITICAL = frozenset(
    (
        "subjectKeyIdentifier",
        "authorityKeyIdentifier",
        "authorityInfoAccess",
        "freshestCRL",
        "cRLNumber",
    )
)


def extension(name: str, value: Any, signer: Signer = Signer()) -> x509.Extension[Any]:  # noqa: B008
    """
    An extension from its name and what a user wrote.

    @raises SaltInvocationError: what was written makes no sense.
    @raises CommandExecutionError: no such extension, or a bad name in it.
    """
    if name not in _BUILDERS:
        raise CommandExecutionError(f"Unknown extension {name}")
    try:
        built = _BUILDERS[name](value, signer)
        is_critical = name not in _NEVER_CRITICAL and _flag(
            str(value) if name in ("noCheck", "deltaCRLIndicator") else value
        )
    except (CommandExecutionError, SaltInvocationError):
        raise
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(str(error)) from error
    except (AttributeError, KeyError, StopIteration) as error:
        raise SaltInvocationError(f"Cannot understand {name}: {error}") from error
    return x509.Extension(built.oid, is_critical, built)
