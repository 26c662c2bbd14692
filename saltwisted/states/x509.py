"""
Private keys, certificates, requests for them, and lists of revoked ones, in files.

Each state looks at what is in the file, and makes it anew only if that differs from what is wished,
or is about to expire. C{file.managed} sees to owner, mode and directories, with its arguments.
"""

from __future__ import annotations

import datetime
import logging
from typing import Any

from cryptography import x509

from saltwisted.modules import _x509_build, _x509_compare, _x509_load
from saltwisted.modules._x509_names import shortened
from saltwisted.states._x509_work import Managed, only_files, split_words, without_internal
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__virtualname__ = "x509"

__salt__: Any
__opts__: Any
__low__: Any


def __virtual__() -> Any:
    if not (__opts__.get("features") or {}).get("x509_v2", True):
        return (False, "x509_v2 modules were explicitly disabled in `features:x509_v2`")
    return __virtualname__


def _ends_within(thing: Any, name: str, days: Any) -> bool:
    return _x509_build.at(thing, name) < _x509_build.now() + datetime.timedelta(days=days)


# Private keys -----------------------------------------------------------------


class _Key:
    """A private key in a file, and the one that is wished."""

    def __init__(self, managed: Managed, words: dict[str, Any]) -> None:
        self.managed = managed
        self.words = words

    def check(self, path: str, exists: bool) -> dict[str, Any]:
        """What differs."""
        words = self.words
        changes: dict[str, Any] = {}
        self.managed.was_there = exists
        found = encoding = None
        if exists and not words["new"]:
            found, encoding = self._read(path, changes)
        self.managed.current = found
        if found is None:
            is_replaced = exists and words["new"]
            changes["replaced" if is_replaced else "created"] = self.managed.name
            return changes
        if _x509_load.kind_of(found) != words["algo"]:
            changes["algo"] = words["algo"]
        elif words["algo"] in ("rsa", "ec"):
            size = words["keysize"] or (2048 if words["algo"] == "rsa" else 256)
            if found.key_size != size:
                changes["keysize"] = size
        if encoding != self.managed.encoding:
            changes["encoding"] = self.managed.encoding
        return changes

    def _read(self, path: str, changes: dict[str, Any]) -> tuple[Any, str | None]:
        """The key of the file; none if it may be replaced by another."""
        try:
            return _x509_load.private_key_and_encoding(path, self.words["passphrase"])
        except _x509_load.SuperfluousPassword:
            changes["passphrase"] = True
            return _x509_load.private_key_and_encoding(path)
        except _x509_load.InvalidPassword as error:
            changes["passphrase"] = True
            self._may_replace("The provided passphrase cannot decrypt the private key", "", error)
        except _x509_load.MissingPassword as error:
            changes["passphrase"] = True
            self._may_replace("The existing file is encrypted", " without passphrase", error)
        except _x509_load.PrivDeserializationError as error:
            self._may_replace(
                "The existing file does not seem to be a private key formatted as DER, PEM or "
                "embedded in PKCS12",
                "",
                error,
            )
        return None, None

    def _may_replace(self, why: str, how: str, error: Exception) -> None:
        if not self.words["overwrite"]:
            raise CommandExecutionError(
                f"{why}. Pass overwrite: true to force regeneration{how}"
            ) from error

    def make(self, changes: dict[str, Any]) -> str:
        """The key: the old one, if only its wrapping is another."""
        words, encoding = self.words, self.managed.encoding
        compat = words["pkcs12_encryption_compat"]
        if not set(changes) - {"encoding", "passphrase"}:
            made = __salt__["x509.encode_private_key"](
                self.managed.current,
                passphrase=words["passphrase"],
                encoding=encoding,
                pkcs12_encryption_compat=compat,
            )
        else:
            made = __salt__["x509.create_private_key"](
                algo=words["algo"],
                keysize=words["keysize"],
                passphrase=words["passphrase"],
                encoding=encoding,
                pkcs12_encryption_compat=compat,
            )
        return str(made)


def private_key_managed(
    name: str,
    algo: str = "rsa",
    keysize: int | None = None,
    passphrase: Any = None,
    encoding: str = "pem",
    new: bool = False,
    overwrite: bool = False,
    pkcs12_encryption_compat: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The file holds a private key of this kind. Its mode is 0400 if no other is given.

    algo
        C{rsa}, C{ec}, C{ed25519} or C{ed448}.
    keysize
        2048, 3072 or 4096 bits for C{rsa}; 256, 384 or 521 for C{ec}.
    new
        Make another key each time.
    overwrite
        Replace a file that cannot be read: another passphrase, or no key at all.
    """
    keysize = kwargs.pop("bits", keysize)
    file_words = only_files(without_internal(kwargs, "cipher", "verbose", "text"))
    if not file_words.get("mode"):
        file_words["mode"] = "0400"
    managed = Managed(globals(), name, "private key", encoding, file_words)
    key = _Key(
        managed,
        {
            "algo": algo,
            "keysize": keysize,
            "passphrase": passphrase,
            "new": new,
            "overwrite": overwrite,
            "pkcs12_encryption_compat": pkcs12_encryption_compat,
        },
    )
    if keysize and algo in ("ed25519", "ed448"):
        comment = f"keysize is an invalid parameter for {algo}"
        return {**managed.ret, "result": False, "comment": comment}
    return managed.run(key.check, key.make)


# Requests ---------------------------------------------------------------------


def csr_managed(
    name: str,
    private_key: Any,
    private_key_passphrase: Any = None,
    digest: str = "sha256",
    encoding: str = "pem",
    subject: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The file holds a request for a certificate with this subject and these extensions.

    The arguments are those of C{x509.create_csr}.
    """
    digest = kwargs.pop("algorithm", digest)
    file_words, words = split_words(shortened(kwargs))
    managed = Managed(globals(), name, "certificate signing request", encoding, file_words)

    def check(path: str, exists: bool) -> dict[str, Any]:
        if not exists:
            return {"created": name}
        try:
            managed.current, found_encoding = _x509_load.request(path)
        except _x509_load.CSRDeserializationError:
            return {"replaced": name}
        except x509.InvalidVersion:
            return {"invalid_version": True, "replaced": name}
        changes: dict[str, Any] = {}
        if _x509_compare.digest_differs(managed.current, digest):
            changes["digest"] = digest
        if encoding != found_encoding:
            changes["encoding"] = encoding
        wanted = _x509_build.request(private_key, private_key_passphrase, subject, words)
        return {**changes, **_x509_compare.request_changes(managed.current, wanted)}

    def make(changes: dict[str, Any]) -> str:
        if set(changes) == {"encoding"}:
            return str(__salt__["x509.encode_csr"](managed.current, encoding=encoding))
        return str(
            __salt__["x509.create_csr"](
                private_key,
                private_key_passphrase=private_key_passphrase,
                digest=digest,
                encoding=encoding,
                subject=subject,
                **words,
            )
        )

    return managed.run(check, make)


# Certificates -----------------------------------------------------------------


class _Certificate:
    """A certificate in a file, and the one that is wished."""

    def __init__(
        self,
        managed: Managed,
        server: str | None,
        policy: str | None,
        days_remaining: Any,
        wrapping: dict[str, Any],
        words: dict[str, Any],
    ) -> None:
        self.managed = managed
        self.server = server
        self.policy = policy
        self.days_remaining = days_remaining
        self.wrapping = wrapping
        self.words = words
        self.own_key: Any = None

    def check(self, path: str, exists: bool) -> dict[str, Any]:
        """What differs."""
        managed, wrapping = self.managed, self.wrapping
        if not exists:
            return {"created": managed.name}
        try:
            current, encoding, chain, label = _x509_load.certificates(
                path, wrapping["pkcs12_passphrase"]
            )
        except _x509_load.InvalidPassword:
            return {"pkcs12_passphrase": True}
        except _x509_load.CertDeserializationError:
            return {"replaced": managed.name}
        managed.current = current
        changes: dict[str, Any] = {}
        wanted_label = wrapping["pkcs12_friendlyname"]
        if encoding != managed.encoding:
            changes["encoding"] = managed.encoding
        elif encoding == "pkcs12" and label != (wanted_label and wanted_label.encode()):
            changes["pkcs12_friendlyname"] = wanted_label
        if _ends_within(current, "not_valid_after", self.days_remaining):
            changes["expiration"] = True
        if chain != [_x509_load.certificate(one) for one in wrapping["append_certs"]]:
            changes["additional_certs"] = True
        return {**changes, **self._differences(current)}

    def _differences(self, current: x509.Certificate) -> dict[str, Any]:
        """What is in the certificate, beside what the policy and the arguments make of it."""
        policy = __salt__["x509.get_signing_policy"](self.policy, ca_server=self.server)
        words = _x509_build.with_policy(policy, self.words)
        wanted = _x509_build.certificate(words, is_remote=self.server is not None)
        self.own_key = wanted.own_key
        changes: dict[str, Any] = {}
        if _x509_compare.digest_differs(current, words["digest"]):
            changes["digest"] = self.words["digest"]
        return {**changes, **_x509_compare.certificate_changes(current, wanted, self.words)}

    def make(self, changes: dict[str, Any]) -> str:
        """The certificate: the old one, if only its wrapping is another."""
        managed, wrapping = self.managed, self.wrapping
        if set(changes) - {"additional_certs", "encoding", "pkcs12_friendlyname"}:
            return str(
                __salt__["x509.create_certificate"](
                    ca_server=self.server,
                    signing_policy=self.policy,
                    encoding=managed.encoding,
                    **wrapping,
                    **self.words,
                )
            )
        words = {"append_certs": wrapping["append_certs"]}
        if managed.encoding == "pkcs12":
            words = {**wrapping, "private_key": self.own_key}
        return str(
            __salt__["x509.encode_certificate"](managed.current, encoding=managed.encoding, **words)
        )


def certificate_managed(
    name: str,
    days_remaining: int | None = None,
    ca_server: str | None = None,
    signing_policy: str | None = None,
    encoding: str = "pem",
    append_certs: Any = None,
    digest: str = "sha256",
    signing_private_key: Any = None,
    signing_private_key_passphrase: Any = None,
    signing_cert: Any = None,
    public_key: Any = None,
    private_key: Any = None,
    private_key_passphrase: Any = None,
    csr: Any = None,
    subject: Any = None,
    serial_number: Any = None,
    not_before: Any = None,
    not_after: Any = None,
    days_valid: int | None = None,
    pkcs12_passphrase: Any = None,
    pkcs12_encryption_compat: bool = False,
    pkcs12_friendlyname: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The file holds a certificate with this subject, key, signer and these extensions.

    days_remaining
        It is made anew when it is valid for fewer days: 90 if nothing is said.
    days_valid
        For how many days a new one is valid: 365 if nothing is said.

    The other arguments are those of C{x509.create_certificate}.
    """
    if days_valid is None and not_after is None:
        days_valid = 365
    file_words, others = split_words(shortened(kwargs))
    words = {
        "digest": others.pop("algorithm", digest),
        "signing_private_key": signing_private_key,
        "signing_private_key_passphrase": signing_private_key_passphrase,
        "signing_cert": signing_cert,
        "public_key": public_key,
        "private_key": private_key,
        "private_key_passphrase": private_key_passphrase,
        "csr": csr,
        "subject": subject,
        "serial_number": serial_number,
        "not_before": not_before,
        "not_after": not_after,
        "days_valid": days_valid,
        **others,
    }
    chain = append_certs or []
    wrapping = {
        "append_certs": chain if isinstance(chain, list) else [chain],
        "pkcs12_passphrase": pkcs12_passphrase,
        "pkcs12_encryption_compat": pkcs12_encryption_compat,
        "pkcs12_friendlyname": pkcs12_friendlyname,
    }
    managed = Managed(globals(), name, "certificate", encoding, file_words)
    days = 90 if days_remaining is None else days_remaining
    wished = _Certificate(managed, ca_server, signing_policy, days, wrapping, words)
    return managed.run(wished.check, wished.make)


# Lists of revocations ---------------------------------------------------------


class _List:
    """A list of revocations in a file, and the one that is wished."""

    def __init__(
        self, managed: Managed, key: Any, revoked: Any, days: Any, words: dict[str, Any]
    ) -> None:
        self.managed = managed
        self.key = key
        self.revoked = revoked
        self.days = days
        self.words = words
        self.counts = words["extensions"].get("cRLNumber") == "auto"

    def check(self, path: str, exists: bool) -> dict[str, Any]:
        """What differs."""
        managed, words = self.managed, self.words
        if not exists:
            return {"created": managed.name}
        try:
            managed.current, encoding = _x509_load.revocations(path)
        except _x509_load.CRLDeserializationError:
            return {"replaced": managed.name}
        current = managed.current
        changes: dict[str, Any] = {}
        if _x509_compare.digest_differs(current, words["digest"]):
            changes["digest"] = words["digest"]
        if encoding != managed.encoding:
            changes["encoding"] = managed.encoding
        if self.days and _ends_within(current, "next_update", self.days):
            changes["expiration"] = True
        extensions = dict(words["extensions"])
        if self.counts:
            extensions.pop("cRLNumber")
        wanted = _x509_build.revocation_list(
            self.key, self.revoked, {**words, "extensions": extensions}, log
        )
        return {**changes, **_x509_compare.list_changes(current, wanted, self.counts)}

    def make(self, changes: dict[str, Any]) -> str:
        """The list: the old one, if only its wrapping is another."""
        managed, words = self.managed, dict(self.words)
        if set(changes) == {"encoding"}:
            return str(__salt__["x509.encode_crl"](managed.current, encoding=managed.encoding))
        if self.counts:
            words["extensions"] = {**words["extensions"], "cRLNumber": self._next()}
        return str(
            __salt__["x509.create_crl"](self.key, self.revoked, encoding=managed.encoding, **words)
        )

    def _next(self) -> int:
        """The number of the next list."""
        if self.managed.current is None:
            return 1
        try:
            found = self.managed.current.extensions.get_extension_for_class(x509.CRLNumber)
        except x509.ExtensionNotFound:
            return 1
        return int(found.value.crl_number) + 1


def crl_managed(
    name: str,
    signing_private_key: Any,
    revoked: list[Any],
    days_remaining: int | None = None,
    signing_cert: Any = None,
    signing_private_key_passphrase: Any = None,
    include_expired: bool = False,
    days_valid: int | None = None,
    digest: str = "sha256",
    encoding: str = "pem",
    extensions: dict[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The file holds a list of these revoked certificates.

    days_remaining
        It is made anew when it is valid for fewer days: 30 if nothing is said. 0: never for that.
    days_valid
        For how many days a new one is valid: 100 if nothing is said.
    extensions
        C{cRLNumber: auto} counts the lists.

    The other arguments are those of C{x509.create_crl}.
    """
    words = {
        "signing_cert": signing_cert,
        "signing_private_key_passphrase": signing_private_key_passphrase,
        "include_expired": include_expired,
        "days_valid": 100 if days_valid is None else days_valid,
        "digest": digest,
        "extensions": extensions or {},
    }
    file_words = only_files(without_internal(kwargs, "text"))
    managed = Managed(globals(), name, "certificate revocation list", encoding, file_words)
    days = 30 if days_remaining is None else days_remaining
    entries = _x509_build.tidied_revocations(revoked)
    wished = _List(managed, signing_private_key, entries, days, words)
    return managed.run(wished.check, wished.make)


# Any PEM ----------------------------------------------------------------------


def pem_managed(name: str, text: str, **kwargs: Any) -> dict[str, Any]:
    """
    The file holds this PEM entry, tidily written.

    The other arguments are those of C{file.managed}.
    """
    managed = Managed(globals(), name, "PEM", "pem", only_files(kwargs))
    try:
        contents = __salt__["x509.get_pem_entry"](text=text)
    except (CommandExecutionError, SaltInvocationError) as error:
        return {"name": name, "result": False, "comment": str(error), "changes": {}}
    return managed.file(contents=contents)
