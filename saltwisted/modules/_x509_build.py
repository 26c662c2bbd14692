"""
Certificates, requests and revocation lists that are to be: what is in them, before it is signed.

What is wished is written down first. A state compares that with what is there, and only what
differs is signed.
"""

from __future__ import annotations

import copy
import datetime
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from saltwisted.modules import _x509_load as load
from saltwisted.modules._x509_extensions import (
    EXTENSIONS,
    NOT_IN_REQUESTS,
    OF_CERTIFICATES,
    OF_ENTRIES,
    OF_LISTS,
    TIME,
    Signer,
    extension,
)
from saltwisted.modules._x509_names import NAMES, distinguished_name, shortened
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

_UTC = datetime.UTC
Extensions = tuple[x509.Extension[Any], ...]


def now() -> datetime.datetime:
    """The time, as certificates have it."""
    return datetime.datetime.now(tz=_UTC)


def moment(text: Any) -> datetime.datetime:
    """
    A time that a user wrote, in UTC.

    @raises SaltInvocationError: not written as it should be.
    """
    try:
        return datetime.datetime.strptime(str(text), TIME).replace(tzinfo=_UTC)
    except ValueError as error:
        raise SaltInvocationError(str(error)) from error


def at(thing: Any, name: str) -> datetime.datetime:
    """A time of a certificate or list, in UTC, with older and newer libraries."""
    found = getattr(thing, f"{name}_utc", None)
    if found is None:
        found = getattr(thing, name).replace(tzinfo=_UTC)
    return found  # type: ignore[no-any-return]


def serial_number(given: Any) -> int:
    """A serial number: a number, hexadecimal digits, or any if there is none."""
    if given is None:
        return x509.random_serial_number()
    if isinstance(given, int):
        return given
    try:
        given = bytes.fromhex(given.replace(":", ""))
    except (AttributeError, TypeError, ValueError):
        pass
    if isinstance(given, bytes):
        return int.from_bytes(given, "big")
    raise CommandExecutionError(f"Could not parse serial number {given}")


def _signed(builder: Any, extensions: Extensions, key: Any, digest: str) -> Any:
    try:
        for part in extensions:
            builder = builder.add_extension(part.value, critical=part.critical)
        return builder.sign(key, load.signing_hash(key, digest))
    except UnsupportedAlgorithm as error:
        raise CommandExecutionError(str(error)) from error
    except ValueError as error:
        raise SaltInvocationError(str(error)) from error


@frozen
class Certificate:
    """
    A certificate that is to be.

    @ivar signer: the private key that signs; none if another machine does.
    @ivar own_key: the private key that the certificate is for, if it is known.
    @ivar authority: the signer's certificate; none if it signs itself.
    """

    subject: x509.Name
    issuer: x509.Name
    key: Any
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    extensions: Extensions
    signer: Any
    own_key: Any
    authority: Any

    def sign(self, digest: str) -> x509.Certificate:
        """The certificate."""
        try:
            builder = x509.CertificateBuilder(
                issuer_name=self.issuer,
                subject_name=self.subject,
                public_key=self.key,
            )
            builder = builder.serial_number(self.serial)
            builder = builder.not_valid_before(self.not_before).not_valid_after(self.not_after)
        except (ValueError, TypeError) as error:
            raise SaltInvocationError(str(error)) from error
        return _signed(builder, self.extensions, self.signer, digest)  # type: ignore[no-any-return]


@frozen
class Request:
    """A request that is to be."""

    subject: x509.Name
    extensions: Extensions
    signer: Any

    def sign(self, digest: str) -> Any:
        """The request."""
        builder = x509.CertificateSigningRequestBuilder(subject_name=self.subject)
        return _signed(builder, self.extensions, self.signer, digest)


@frozen
class RevocationList:
    """A list of revoked certificates that is to be."""

    issuer: x509.Name | None
    last_update: datetime.datetime
    next_update: datetime.datetime
    revoked: tuple[Any, ...]
    extensions: Extensions
    signer: Any

    def sign(self, digest: str) -> Any:
        """The list."""
        builder = x509.CertificateRevocationListBuilder(
            issuer_name=self.issuer, revoked_certificates=list(self.revoked)
        )
        builder = builder.last_update(self.last_update).next_update(self.next_update)
        return _signed(builder, self.extensions, self.signer, digest)


def _must_match(cert: Any, key: Any) -> None:
    if not load.same_key(cert.public_key(), key.public_key()):
        raise SaltInvocationError("Signing private key does not match the certificate's public key")


def _subject_key(words: Mapping[str, Any], own_key: Any, request: Any) -> Any:
    """The public key that is signed, by whatever was given for it."""
    if own_key is not None:
        return own_key.public_key()
    if words.get("public_key"):
        return load.public_key(words["public_key"])
    if request is not None:
        return request.public_key()
    raise SaltInvocationError(
        "This certificate is not self-signed (signing_cert is set) and thus needs "
        "public_key, private_key or csr to derive public key to sign"
    )


def _certificate_extensions(words: Mapping[str, Any], signer: Signer, request: Any) -> Extensions:
    """Those that were given, and those of the request that may be taken from it."""
    found = {
        name: extension(name, words[name], signer)
        for name in OF_CERTIFICATES
        if words.get(name) is not None
    }
    for name in OF_CERTIFICATES if request is not None else ():
        identifier = EXTENSIONS[name]
        if name in found or name in NOT_IN_REQUESTS or identifier is None:
            continue
        try:
            found[name] = request.extensions.get_extension_for_oid(identifier)
        except x509.ExtensionNotFound:
            continue
    return tuple(found.values())


def certificate(words: Mapping[str, Any], is_remote: bool = False) -> Certificate:
    """
    What a certificate will hold.

    @param words: the arguments of C{x509.create_certificate}, signing policy and all.
    @param is_remote: another machine signs, so that the key for it is not here.
    """
    signer = None
    if not is_remote:
        if words.get("signing_private_key") is None:
            raise SaltInvocationError(
                "Creating a certificate locally at least requires a signing private key."
            )
        signer = load.private_key(
            words["signing_private_key"], words.get("signing_private_key_passphrase")
        )
    request = load.request(words["csr"])[0] if words.get("csr") else None
    authority = load.certificate(words["signing_cert"]) if words.get("signing_cert") else None
    if authority is None:
        if signer is None:
            raise SaltInvocationError("The signing policy of ca_server names no signing_cert")
        own_key, key = signer, signer.public_key()
    else:
        own_key = None
        if words.get("private_key"):
            own_key = load.private_key(words["private_key"], words.get("private_key_passphrase"))
        key = _subject_key(words, own_key, request)
        if signer is not None:
            _must_match(authority, signer)
    subject = distinguished_name(words.get("subject") or dict(words))
    today = now()
    days = words.get("days_valid")
    begin, end = words.get("not_before"), words.get("not_after")
    return Certificate(
        subject=subject,
        issuer=subject if authority is None else authority.subject,
        key=key,
        serial=serial_number(words.get("serial_number")),
        not_before=moment(begin) if begin else today,
        not_after=moment(end) if end else today + _days(30 if days is None else days),
        extensions=_certificate_extensions(
            words, Signer(key, authority, key if authority is None else None), request
        ),
        signer=signer,
        own_key=own_key,
        authority=authority,
    )


def _days(number: Any) -> datetime.timedelta:
    try:
        return datetime.timedelta(days=number)
    except (TypeError, OverflowError) as error:
        raise SaltInvocationError(f"Not a number of days: {number}") from error


def request(private_key: Any, passphrase: Any, subject: Any, words: Mapping[str, Any]) -> Request:
    """What a request will hold."""
    key = load.private_key(private_key, passphrase)
    signer = Signer(key.public_key())
    return Request(
        subject=distinguished_name(subject or dict(words)),
        extensions=tuple(
            extension(name, words[name], signer)
            for name in OF_CERTIFICATES
            if name not in NOT_IN_REQUESTS and words.get(name) is not None
        ),
        signer=key,
    )


def _revocation(given: Mapping[str, Any], include_expired: bool, log: logging.Logger) -> Any:
    """One entry of a list; none if the certificate would not be accepted any more anyway."""
    not_after = moment(given["not_after"]) if "not_after" in given else None
    number = given.get("serial_number")
    if "certificate" in given:
        cert = load.certificate(given["certificate"])
        number, not_after = cert.serial_number, at(cert, "not_valid_after")
    if not number:
        raise SaltInvocationError("Need serial_number or certificate")
    if not_after and not include_expired and now() > not_after:
        return None
    date = given.get("revocation_date")
    try:
        builder = x509.RevokedCertificateBuilder(
            serial_number=serial_number(number),
            revocation_date=moment(date).replace(tzinfo=None) if date else _naive_now(),
        )
        for name, value in (given.get("extensions") or {}).items():
            if name not in OF_ENTRIES:
                log.warning("Ignoring invalid CRL entry extension: %s", name)
                continue
            part = extension(name, value)
            builder = builder.add_extension(part.value, critical=part.critical)
    except ValueError as error:
        raise SaltInvocationError(str(error)) from error
    return builder.build()


def _naive_now() -> datetime.datetime:
    return now().replace(tzinfo=None)


def revocation_list(
    signing_private_key: Any,
    revoked: Iterable[Mapping[str, Any]],
    words: Mapping[str, Any],
    log: logging.Logger,
) -> RevocationList:
    """
    What a list of revocations will hold.

    @param words: the other arguments of C{x509.create_crl}.
    @param log: whoever calls; it hears of extensions that there are not.
    """
    authority = load.certificate(words["signing_cert"]) if words.get("signing_cert") else None
    key = load.private_key(signing_private_key, words.get("signing_private_key_passphrase"))
    if authority is not None:
        _must_match(authority, key)
    parts = []
    for name, value in (words.get("extensions") or {}).items():
        if name not in OF_LISTS:
            log.warning("Ignoring invalid CRL extension: %s", name)
            continue
        parts.append(extension(name, value, Signer(cert=authority)))
    entries = (_revocation(one, words.get("include_expired", False), log) for one in revoked)
    today = now()
    return RevocationList(
        issuer=None if authority is None else authority.subject,
        last_update=today,
        next_update=today + _days(words.get("days_valid", 100)),
        revoked=tuple(entry for entry in entries if entry is not None),
        extensions=tuple(parts),
        signer=key,
    )


def tidied_revocations(revoked: list[Any]) -> list[dict[str, Any]]:
    """Revocations in today's form; the older module took nested lists, and C{reason}."""
    found = []
    for given in revoked:
        entry = dict(given)
        if len(entry) == 1 and isinstance(next(iter(entry.values())), list):
            (parts,) = entry.values()
            entry = {key: value for part in parts for key, value in part.items()}
        if "reason" in entry:
            reason = entry.pop("reason")
            entry["extensions"] = {**(entry.get("extensions") or {}), "CRLReason": reason}
        found.append(entry)
    return found


def with_policy(policy: Mapping[str, Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """
    Arguments under a signing policy: what it says cannot be said otherwise.

    A subject is the exception: parts of it that the policy does not name are added.
    """
    if not policy:
        return dict(words)
    merged, wished = copy.deepcopy(dict(policy)), shortened(dict(words))
    if "subject" in wished:
        theirs, ours = merged.get("subject"), wished["subject"]
        if any(name in merged for name in NAMES):
            wished.pop("subject")
        elif isinstance(theirs, dict) and isinstance(ours, dict):
            merged["subject"] = {**ours, **theirs}
        elif isinstance(theirs, list) and isinstance(ours, list):
            merged["subject"] = theirs + ours
    return {**wished, **merged}
