"""
Private keys, certificates, requests for them, and lists of revoked ones.

Whatever takes a key, a certificate, a request or a list takes the path of a file, a PEM text,
hexadecimal digits or Base64. With C{ca_server} another minion signs, by the policies in its
C{x509_signing_policies} (pillar or configuration); the master's C{peer} option has to allow
C{x509.sign_remote_certificate}.
"""

from __future__ import annotations

import copy
import glob
import logging
import os
from typing import Any

from saltwisted.modules import _files, _x509_build, _x509_load, _x509_look, _x509_render
from saltwisted.modules._x509_names import NAMES, shortened
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__virtualname__ = "x509"
__parts__ = (_x509_look,)

__salt__: Any
__opts__: Any
__context__: Any

_ENCODINGS = ("der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12")
_PRIVATE_KEY = "(?:(RSA|ENCRYPTED) )?PRIVATE KEY"
_NOT_FROM_AFAR = (
    "ca_server",
    "copypath",
    "prepend_cn",
    "private_key",
    "private_key_passphrase",
    "signing_cert",
    "signing_private_key",
    "signing_private_key_passphrase",
)
"""What only the signing policy says when another machine asks: they name files of this one."""


def __virtual__() -> str:
    return __virtualname__


def _only_known(words: dict[str, Any], *ignored: str) -> None:
    """
    @raises SaltInvocationError: there is an argument that means nothing.
    """
    unknown = [word for word in words if not word.startswith("_") and word not in ignored]
    if unknown:
        raise SaltInvocationError(f"Unrecognized keyword arguments: {unknown}")


def _write(path: str, data: bytes, is_private: bool = False) -> None:
    """A file that is no PEM; one that is new is its owner's alone if it holds a private key."""
    if is_private or os.path.exists(path):
        _files.write_atomically(path, data)
        return
    with open(path, "wb") as file:
        file.write(data)


def create_private_key(
    algo: str = "rsa",
    keysize: int | None = None,
    passphrase: Any = None,
    encoding: str = "pem",
    pkcs12_encryption_compat: bool = False,
    path: str | None = None,
    raw: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Make a private key, and return it or write it to a file.

    algo
        C{rsa}, C{ec}, C{ed25519} or C{ed448}.
    keysize
        2048, 3072 or 4096 bits for C{rsa}; 256, 384 or 521 for C{ec}.
    passphrase
        The key is encrypted with it.
    encoding
        C{pem}, C{der} or C{pkcs12}.
    pkcs12_encryption_compat
        The encryption of PKCS#12 that programs before OpenSSL 3 can read.
    path
        Write the key to this file. A new file is its owner's alone.
    raw
        Return bytes, not a text.

    CLI Example::

        salt '*' x509.create_private_key algo=ec keysize=384
    """
    keysize = kwargs.pop("bits", keysize)
    _only_known(kwargs, "cipher", "verbose", "text")
    _x509_load.check_encoding(encoding, "der", "pem", "pkcs12")
    key = _x509_load.generate(algo, keysize)
    data = _x509_load.key_bytes(key, encoding, passphrase, pkcs12_encryption_compat)
    if path is None:
        return _x509_load.encoded(data, encoding, raw)
    if encoding == "pem":
        return write_pem(data.decode(), path, pem_type=_PRIVATE_KEY)
    _write(path, data, is_private=True)
    return None


def encode_private_key(
    private_key: Any,
    encoding: str = "pem",
    passphrase: Any = None,
    private_key_passphrase: Any = None,
    pkcs12_encryption_compat: bool = False,
    raw: bool = False,
) -> Any:
    """
    A private key in another encoding or with another passphrase.

    CLI Example::

        salt '*' x509.encode_private_key /etc/pki/my.key der
    """
    _x509_load.check_encoding(encoding, "der", "pem", "pkcs12")
    key = _x509_load.private_key(private_key, private_key_passphrase)
    data = _x509_load.key_bytes(key, encoding, passphrase, pkcs12_encryption_compat)
    return _x509_load.encoded(data, encoding, raw)


def create_csr(
    private_key: Any,
    private_key_passphrase: Any = None,
    digest: str = "sha256",
    encoding: str = "pem",
    path: str | None = None,
    raw: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Make a request for a certificate.

    The subject is C{subject}, or C{CN}, C{O} and the like; extensions are given by their names.

    CLI Example::

        salt '*' x509.create_csr private_key='/etc/pki/myca.key' CN='My Cert'
    """
    digest = kwargs.pop("algorithm", digest)
    words = shortened(kwargs)
    _x509_load.check_encoding(encoding, "der", "pem")
    _x509_load.check_digest(digest)
    subject = words.pop("subject", None)
    wanted = _x509_build.request(private_key, private_key_passphrase, subject, words)
    out = _x509_look.encode_csr(wanted.sign(digest), encoding, raw=bool(path) or raw)
    if path is None:
        return out
    if encoding == "pem":
        return write_pem(out.decode(), path, pem_type="CERTIFICATE REQUEST")
    _write(path, out)
    return f"CSR written to {path}"


def create_crl(
    signing_private_key: Any,
    revoked: list[Any],
    signing_cert: Any = None,
    signing_private_key_passphrase: Any = None,
    include_expired: bool = False,
    days_valid: int | None = None,
    digest: str = "sha256",
    encoding: str = "pem",
    extensions: dict[str, Any] | None = None,
    path: str | None = None,
    raw: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Make a list of revoked certificates.

    revoked
        Dictionaries with C{certificate} or C{serial_number}, and perhaps C{revocation_date},
        C{not_after} and C{extensions} (C{certificateIssuer}, C{CRLReason}, C{invalidityDate}).
    include_expired
        Also certificates that are not valid any more anyway.
    days_valid
        For how many days the list is valid: 100 if nothing is said.

    CLI Example::

        salt '*' x509.create_crl /etc/pki/ca.key "[{'serial_number': 'D2:1F'}]" /etc/pki/ca.crt
    """
    _only_known(kwargs, "text")
    _x509_load.check_encoding(encoding, "der", "pem")
    _x509_load.check_digest(digest)
    words = {
        "signing_cert": signing_cert,
        "signing_private_key_passphrase": signing_private_key_passphrase,
        "include_expired": include_expired,
        "days_valid": 100 if days_valid is None else days_valid,
        "extensions": extensions,
    }
    entries = _x509_build.tidied_revocations(revoked)
    wanted = _x509_build.revocation_list(signing_private_key, entries, words, log)
    out = _x509_look.encode_crl(wanted.sign(digest), encoding, raw=bool(path) or raw)
    if path is None:
        return out
    if encoding == "pem":
        return write_pem(out.decode(), path, pem_type="X509 CRL")
    _write(path, out)
    return f"CRL written to {path}"


def create_certificate(
    ca_server: str | None = None,
    signing_policy: str | None = None,
    encoding: str = "pem",
    append_certs: Any = None,
    pkcs12_passphrase: Any = None,
    pkcs12_encryption_compat: bool = False,
    pkcs12_friendlyname: str | None = None,
    path: str | None = None,
    overwrite: bool = True,
    raw: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Make a certificate, and return it or write it to a file.

    ca_server
        The minion that signs; C{signing_policy} names a policy of that minion then.
    encoding
        C{pem}, C{der}, C{pkcs7_pem}, C{pkcs7_der} or C{pkcs12}.
    append_certs
        Certificates to write behind it.

    Further arguments: C{signing_private_key}, C{signing_cert} (without one it signs itself),
    C{private_key}, C{public_key} or C{csr}, C{subject} or C{CN}, C{O} and the like,
    C{serial_number}, C{not_before}, C{not_after}, C{days_valid} (365 if nothing is said),
    C{digest}, C{copypath}, C{prepend_cn}, and extensions by their names.

    CLI Example::

        salt '*' x509.create_certificate signing_private_key=/etc/pki/ca.key CN=example.org
    """
    words = shortened({key: kwargs[key] for key in kwargs if not key.startswith("__pub_")})
    if "algorithm" in words:
        words["digest"] = words.pop("algorithm")
    if "days_valid" not in words and "not_after" not in words:
        words["days_valid"] = 365
    _x509_load.check_encoding(encoding, *_ENCODINGS)
    _x509_load.check_digest(words.get("digest", "sha256"))
    if encoding == "der" and append_certs:
        raise SaltInvocationError("Cannot encode a certificate chain in DER")
    if "signing_private_key" not in words and not ca_server:
        raise SaltInvocationError(
            "Creating a certificate locally at least requires a signing private key."
        )
    if path and not overwrite and __salt__["file.file_exists"](path):
        return f"The file at {path} exists and overwrite was set to false"
    if ca_server:
        cert, key = _from_server(ca_server, signing_policy, words)
    else:
        words = _x509_build.with_policy(_policy(signing_policy), words)
        if encoding == "pkcs12" and "private_key" not in words and "signing_cert" in words:
            raise SaltInvocationError(_NEEDS_KEY)
        cert, key = _from_here(words)
    out = encode_certificate(
        cert,
        encoding,
        append_certs,
        private_key=key if encoding == "pkcs12" else None,
        pkcs12_passphrase=pkcs12_passphrase,
        pkcs12_encryption_compat=pkcs12_encryption_compat,
        pkcs12_friendlyname=pkcs12_friendlyname,
        raw=bool(path) or raw,
    )
    if path is None:
        return out
    if encoding == "pem":
        return write_pem(out.decode(), path, overwrite=overwrite, pem_type="CERTIFICATE")
    _write(path, out, is_private=encoding == "pkcs12")
    return f"Certificate written to {path}"


_NEEDS_KEY = "Creating a PKCS12-encoded certificate without embedded private key is unsupported"


def _from_here(words: dict[str, Any]) -> tuple[Any, Any]:
    """A certificate that this machine signs, and the private key that it is for, if known."""
    wanted = _x509_build.certificate(words)
    cert = wanted.sign(words.get("digest", "sha256"))
    if words.get("copypath"):
        names = cert.subject.get_attributes_for_oid(NAMES["CN"])
        # A name with slashes is no name of a file.
        name = str(names[0].value).replace("/", "_") if names else ""
        prefix = f"{name}-" if name and words.get("prepend_cn") else ""
        copy_path = os.path.join(words["copypath"], f"{prefix}{cert.serial_number:x}.crt")
        write_pem(_x509_load.to_pem(cert), copy_path, pem_type="CERTIFICATE")
    return cert, wanted.own_key


def _from_server(server: str, policy: str | None, words: dict[str, Any]) -> tuple[Any, Any]:
    """A certificate that another minion signs, and the private key that it is for, if known."""
    if policy is None:
        raise SaltInvocationError(
            "signing_policy must be specified to request a certificate from a remote ca_server"
        )
    words, key = dict(words), None
    own, passphrase = (words.pop(name, None) for name in ("private_key", "private_key_passphrase"))
    if own:
        key = _x509_load.private_key(own, passphrase)
        words["public_key"] = _x509_load.to_der(key.public_key())
    elif words.get("public_key"):
        words["public_key"] = _x509_load.to_der(_x509_load.public_key(words["public_key"]))
    if words.get("csr"):
        words["csr"] = _x509_load.to_der(_x509_load.request(words["csr"])[0])
    result = _ask(server, policy, words)
    try:
        return _x509_load.certificate(result), key
    except (CommandExecutionError, SaltInvocationError) as error:
        raise CommandExecutionError(f"ca_server did not return a certificate: {result}") from error


def _ask(server: str, policy: str, words: dict[str, Any], only_policy: bool = False) -> Any:
    """What the minion that signs answers."""
    answer = __salt__["publish.publish"](
        server, "x509.sign_remote_certificate", arg=[policy, words, only_policy], timeout=60
    )
    if not answer:
        raise SaltInvocationError(
            "ca_server did not respond. Salt master must permit peers to call the "
            "sign_remote_certificate function."
        )
    result = next(iter(answer.values()))
    if not isinstance(result, dict) or "data" not in result:
        log.error("Received invalid return value from ca_server: %s", result)
        raise CommandExecutionError(
            "Received invalid return value from ca_server. See minion log for details"
        )
    if result.get("errors"):
        raise CommandExecutionError("ca_server reported errors:\n" + "\n".join(result["errors"]))
    return result["data"]


def encode_certificate(
    certificate: Any,
    encoding: str = "pem",
    append_certs: Any = None,
    private_key: Any = None,
    private_key_passphrase: Any = None,
    pkcs12_passphrase: Any = None,
    pkcs12_encryption_compat: bool = False,
    pkcs12_friendlyname: str | None = None,
    raw: bool = False,
) -> Any:
    """
    A certificate in another encoding, with further certificates, or (C{pkcs12}) with its key.

    CLI Example::

        salt '*' x509.encode_certificate /etc/pki/my.crt pem /etc/pki/ca.crt
    """
    _x509_load.check_encoding(encoding, *_ENCODINGS)
    if encoding == "der" and append_certs:
        raise SaltInvocationError("Cannot encode a certificate chain in DER")
    if encoding != "pkcs12" and private_key:
        raise SaltInvocationError("Embedding private keys is only supported for pkcs12 encoding")
    if encoding == "pkcs12" and not private_key:
        raise SaltInvocationError(_NEEDS_KEY)
    chain = append_certs if isinstance(append_certs, list) else [append_certs]
    others = [_x509_load.certificate(one) for one in chain if one]
    cert = _x509_load.certificate(certificate)
    if encoding == "pkcs12":
        key = _x509_load.private_key(private_key, private_key_passphrase)
        locked = _x509_load.cipher(pkcs12_passphrase, pkcs12_encryption_compat)
        data = _x509_load.pkcs12_bytes(cert, others, key, pkcs12_friendlyname, locked)
    else:
        data = _x509_load.certificate_bytes(cert, encoding, others)
    return _x509_load.encoded(data, encoding, raw)


def read_certificate(certificate: Any) -> dict[str, Any]:
    """
    What is in a certificate.

    CLI Example::

        salt '*' x509.read_certificate /etc/pki/mycert.crt
    """
    has_md5 = __opts__.get("fips_mode") is False
    return _x509_render.certificate(_x509_load.certificate(certificate), has_md5)


def read_certificates(glob_path: str) -> dict[str, Any]:
    """
    What is in the certificates of files.

    CLI Example::

        salt '*' x509.read_certificates "/etc/pki/*.crt"
    """
    return {path: read_certificate(path) for path in glob.glob(glob_path) if os.path.isfile(path)}


def write_pem(text: Any, path: str, overwrite: bool = True, pem_type: str | None = None) -> str:
    """
    Write the first PEM entry of a text to a file.

    A new file is its owner's alone. With C{overwrite=False} a file of a certificate keeps the
    private key and the C{DH PARAMETERS} that are in it.

    CLI Example::

        salt '*' x509.write_pem "-----BEGIN CERTIFICATE-----MIIGMz..." /etc/pki/mycert.crt
    """
    data = _x509_load.pem_entry(text, pem_type)
    if pem_type == "CERTIFICATE" and not overwrite and os.path.isfile(path):
        kept = []
        for kind in ("(?:RSA )?PRIVATE KEY", "DH PARAMETERS"):
            try:
                kept.append(_x509_load.pem_entry(path, kind))
            except SaltInvocationError:
                kept.append(b"")
        data = kept[0] + data + kept[1]
    _files.write_atomically(path, data)
    return f"PEM written to {path}"


# Policies, and signing for others ---------------------------------------------


def _policy(name: str | None) -> dict[str, Any]:
    """A signing policy of this minion; nothing if there is none of that name."""
    if name is None:
        return {}
    # The policy itself, and not the stars that a person sees: stars match any minion.
    found = __salt__["pillar.get"]("x509_signing_policies", {}, unmask=True).get(name)
    found = found or __salt__["config.get"]("x509_signing_policies", {}).get(name)
    if isinstance(found, list):
        found = {key: value for part in found for key, value in part.items()}
    return dict(found or {})


def get_signing_policy(signing_policy: str | None, ca_server: str | None = None) -> dict[str, Any]:
    """
    A signing policy of this minion, or of another one.

    CLI Example::

        salt '*' x509.get_signing_policy www
    """
    if ca_server is None:
        return shortened(_policy(signing_policy))
    if signing_policy is None:
        raise SaltInvocationError("signing_policy must be specified to ask a remote ca_server")
    known = __context__.setdefault("_x509_policies", {}).setdefault(ca_server, {})
    if signing_policy not in known:
        found = _ask(ca_server, signing_policy, {}, only_policy=True)
        if "signing_cert" in found:
            cert = _x509_load.certificate(found["signing_cert"])
            found["signing_cert"] = _x509_load.to_pem(cert).decode()
        known[signing_policy] = found
    return shortened(copy.deepcopy(known[signing_policy]))


def _may_ask(test: str, minion: str) -> bool:
    """Whether a policy's C{minions} are meant for this one."""
    if "@" not in test:
        return bool(__salt__["match.glob"](test, minion))
    match = __salt__["publish.runner"]("match.compound_matches", arg=[test, minion])
    if match is None:
        raise CommandExecutionError(
            "Could not check minion match for compound expression. Is this minion allowed to "
            "run `match.compound_matches` on the master?"
        )
    try:
        return bool(match["res"] == minion)
    except (KeyError, TypeError) as error:
        raise CommandExecutionError("Invalid return value of match.compound_matches.") from error


def _refusal(policy: dict[str, Any], asker: Any) -> str | None:
    """Why a minion may not use a policy, if it may not."""
    if not policy:
        return "signing_policy must be specified and defined on signing minion"
    if "minions" not in policy:
        return None
    if not asker:
        return "minion sending this request could not be identified"
    if not _may_ask(policy.pop("minions"), asker):
        return "minion not permitted to use specified signing policy"
    return None


def _from_afar(policy: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What another minion asks for, under a policy; it can name no files of this machine."""
    words = {key: value for key, value in given.items() if key not in _NOT_FROM_AFAR}
    for name in ("public_key", "csr"):
        if _x509_load.is_file(words.get(name)):
            raise SaltInvocationError(f"{name} must be sent itself, not a path on the ca_server")
    return _x509_build.with_policy(policy, words)


def _published(policy: dict[str, Any]) -> dict[str, Any]:
    """A policy for other minions: without the key, and with the certificate instead of a path."""
    shown = {key: policy[key] for key in policy if not key.startswith("signing_private_key")}
    if "signing_cert" in shown:
        cert = _x509_load.certificate(shown["signing_cert"])
        shown["signing_cert"] = _x509_load.to_der(cert)
    return shown


def sign_remote_certificate(
    signing_policy: str,
    kwargs: dict[str, Any],
    get_signing_policy_only: bool = False,
    **more_kwargs: Any,
) -> dict[str, Any]:
    """
    Sign a certificate for another minion, which asks by peer publish.

    The key, the certificate that signs, and where copies are kept are the policy's alone.

    CLI Example::

        salt '*' x509.sign_remote_certificate www "{'public_key': '/etc/pki/www.key'}"
    """
    try:
        policy = _policy(signing_policy)
        refusal = _refusal(policy, more_kwargs.get("__pub_id"))
    except Exception as error:
        log.error("Signing policy '%s': %s", signing_policy, error)
        text = "Failed building the signing policy. See CA server log for details."
        return {"data": None, "errors": [text]}
    if refusal is not None:
        return {"data": None, "errors": [refusal]}
    try:
        if get_signing_policy_only:
            return {"data": _published(policy), "errors": []}
        cert, _ = _from_here(_from_afar(policy, kwargs))
        return {"data": _x509_load.to_der(cert), "errors": []}
    except Exception as error:
        return {"data": None, "errors": [str(error)]}
