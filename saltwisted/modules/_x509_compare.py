"""
What is there, beside what is to be: the changes that states of C{x509} tell of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from saltwisted.modules import _x509_build as build
from saltwisted.modules import _x509_load as load
from saltwisted.modules._x509_names import oid_name, pretty_hex


def digest_differs(current: Any, digest: str) -> bool:
    """Whether something was signed with another hash than this one."""
    wanted = load.hash_of(digest)
    try:
        used = current.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return False
    return used is not None and used.name != wanted.name


def extension_changes(current: Any, wanted: Iterable[Any]) -> dict[str, Any]:
    """Which extensions came, went or are others; nothing if all are as they should be."""
    new = {part.value.oid: part for part in wanted}
    old = {part.value.oid: part for part in current.extensions}
    changes = {
        "added": [oid_name(key) for key in new if key not in old],
        "changed": [
            oid_name(key)
            for key, part in new.items()
            if key in old and (old[key].critical != part.critical or old[key].value != part.value)
        ],
        "removed": [oid_name(key) for key in old if key not in new],
    }
    return {"extensions": changes} if any(changes.values()) else {}


def certificate_changes(
    current: x509.Certificate, wanted: build.Certificate, given: dict[str, Any]
) -> dict[str, Any]:
    """
    What makes a new certificate necessary.

    @param given: the arguments, of which some are only compared if they were given.
    """
    changes: dict[str, Any] = {}
    if given.get("serial_number") is not None and wanted.serial != current.serial_number:
        changes["serial_number"] = given["serial_number"]
    if not load.same_key(wanted.key, current.public_key()):
        changes["private_key"] = True
    authority = wanted.authority
    if authority is not None and not load.is_signed_by(current, authority.public_key()):
        changes["signing_private_key"] = True
    if wanted.subject != current.subject:
        changes["subject_name"] = wanted.subject.rfc4514_string()
    if wanted.issuer != current.issuer:
        changes["issuer_name"] = wanted.issuer.rfc4514_string()
    return {**changes, **extension_changes(current, wanted.extensions)}


def request_changes(current: Any, wanted: build.Request) -> dict[str, Any]:
    """What makes a new request necessary."""
    changes: dict[str, Any] = {}
    if not load.same_key(current.public_key(), wanted.signer.public_key()):
        changes["private_key"] = True
    if current.subject != wanted.subject:
        changes["subject_name"] = wanted.subject.rfc4514_string()
    return {**changes, **extension_changes(current, wanted.extensions)}


def _entries(revoked: Iterable[Any]) -> dict[int, dict[Any, tuple[bool, Any]]]:
    return {
        entry.serial_number: {
            part.value.oid: (part.critical, part.value) for part in entry.extensions
        }
        for entry in revoked
    }


def list_changes(
    current: Any, wanted: build.RevocationList, counts: bool = False
) -> dict[str, Any]:
    """
    What makes a new list of revocations necessary.

    @param counts: the lists are numbered, so that the number that is there is no change.
    """
    changes: dict[str, Any] = {}
    if wanted.issuer != current.issuer:
        changes["issuer_name"] = wanted.issuer.rfc4514_string() if wanted.issuer else None
    if not load.is_signed_by(current, wanted.signer.public_key()):
        changes["public_key"] = True
    old, new = _entries(current), _entries(wanted.revoked)
    revocations = {
        "added": [pretty_hex(number) for number in new if number not in old],
        "changed": [
            pretty_hex(number)
            for number, parts in new.items()
            if number in old and old[number] != parts
        ],
        "removed": [pretty_hex(number) for number in old if number not in new],
    }
    if any(revocations.values()):
        changes["revocations"] = revocations
    found = extension_changes(current, wanted.extensions)
    if counts and found:
        parts = found["extensions"]
        parts["removed"] = [name for name in parts["removed"] if name != "cRLNumber"]
        found = found if any(parts.values()) else {}
    return {**changes, **found}
