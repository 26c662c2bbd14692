"""
Keys, certificates, requests and revocation lists: read from what users hand over, and written.

Everything may be a file, a PEM text, hexadecimal digits, Base64 or bytes, as in Salt.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs7, pkcs12

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

_BEGIN = b"-----BEGIN"
_RSA_PSS = "1.2.840.113549.1.1.10"

DIGESTS = (
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
)
KINDS: dict[str, tuple[Any, Any]] = {
    "rsa": (rsa.RSAPrivateKey, rsa.RSAPublicKey),
    "ec": (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey),
    "ed25519": (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey),
    "ed448": (ed448.Ed448PrivateKey, ed448.Ed448PublicKey),
}
"""The kinds of keys, by Salt's names: the private one, the public one."""


class DeserializationError(SaltInvocationError):
    """Something is not what it should be."""


class CertDeserializationError(DeserializationError):
    """This is no certificate."""


class PrivDeserializationError(DeserializationError):
    """This is no private key."""


class PubDeserializationError(DeserializationError):
    """This is no public key."""


class CRLDeserializationError(DeserializationError):
    """This is no revocation list."""


class CSRDeserializationError(DeserializationError):
    """This is no request."""


class PasswordError(SaltInvocationError):
    """A passphrase does not fit, or there is one too many or too few."""


class InvalidPassword(PasswordError):
    """The passphrase is another one."""

    def __init__(self) -> None:
        super().__init__("Bad decrypt - is the password correct?")


class MissingPassword(PasswordError):
    """A passphrase is needed."""

    def __init__(self) -> None:
        super().__init__("Private key is encrypted. Please provide a password.")


class SuperfluousPassword(PasswordError):
    """A passphrase was given for what is not encrypted."""

    def __init__(self) -> None:
        super().__init__("Private key is unencrypted. Please remove the password.")


def is_file(path: Any) -> bool:
    """Whether this is the path of a file, and not a text or an object."""
    try:
        return os.path.isfile(path)
    except (TypeError, ValueError):
        return False


def content(source: Any) -> bytes:
    """The bytes of a file, or of what was given in one of the texts' forms."""
    if is_file(source):
        with open(source, "rb") as file:
            source = file.read()
    if isinstance(source, str):
        source = _decoded(source)
    if not isinstance(source, bytes):
        raise SaltInvocationError(
            "Could not load provided source. You need to pass an existing file, "
            "(PEM|hex|base64)-encoded string or raw bytes."
        )
    return source


def _decoded(text: str) -> bytes | str:
    if text.startswith("b64:"):
        return base64.b64decode(text[4:])
    if _BEGIN.decode() in text:
        return text.encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text)
    except ValueError:
        return text


def _secret(passphrase: Any) -> bytes | None:
    if passphrase is None or isinstance(passphrase, bytes):
        return passphrase
    return str(passphrase).encode()


def kind_of(key: Any) -> str | None:
    """Which kind of key this is, private or public, if it is one that Salt knows."""
    for kind, classes in KINDS.items():
        if isinstance(key, classes):
            return kind
    return None


def same_key(one: Any, other: Any) -> bool:
    """Whether two public keys are one."""
    if kind_of(one) is None or kind_of(other) is None:
        raise SaltInvocationError("Did not recognize key type")
    return to_der(one) == to_der(other)


def hash_of(digest: str) -> Any:
    """The hash algorithm of this name."""
    try:
        return getattr(hashes, digest.upper())()
    except AttributeError as error:
        raise CommandExecutionError(
            "The selected hashing algorithm does not exist in the cryptography python library"
        ) from error


def signing_hash(key: Any, digest: str) -> Any:
    """With which hash a key signs; none for the kinds that bring their own."""
    return None if kind_of(key) in ("ed25519", "ed448") else hash_of(digest)


def check_digest(digest: str) -> None:
    """
    @raises CommandExecutionError: not a name of a digest that signs.
    """
    if digest.lower() not in DIGESTS:
        valid = ", ".join(DIGESTS)
        raise CommandExecutionError(f"Invalid value '{digest}' for digest. Valid: {valid}")


def check_encoding(encoding: str, *valid: str) -> None:
    """
    @raises CommandExecutionError: not one of the encodings.
    """
    if encoding not in valid:
        raise CommandExecutionError(
            f"Invalid value '{encoding}' for encoding. Valid: {', '.join(valid)}"
        )


# What is made -----------------------------------------------------------------


def generate(algo: str = "rsa", keysize: int | None = None) -> Any:
    """A new private key."""
    if algo == "rsa":
        size = keysize or 2048
        if size not in (2048, 3072, 4096):
            raise SaltInvocationError("RSA key size must be either 2048, 3072 or 4096 bits.")
        return rsa.generate_private_key(public_exponent=65537, key_size=size)
    if algo == "ec":
        size = keysize or 256
        if size not in (256, 384, 521):
            raise SaltInvocationError("EC key size must be either 256, 384, 521 bits.")
        return ec.generate_private_key(getattr(ec, f"SECP{size}R1")())
    if algo == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    if algo == "ed448":
        return ed448.Ed448PrivateKey.generate()
    raise SaltInvocationError(
        f"Invalid algorithm specified for generating private key: {algo}. "
        "Valid: rsa, ec, ed25519, ed448"
    )


def _public_bytes(thing: Any, encoding: Any) -> bytes:
    if kind_of(thing) is not None:
        shape = serialization.PublicFormat.SubjectPublicKeyInfo
        return bytes(thing.public_bytes(encoding, shape))
    return bytes(thing.public_bytes(encoding))


def to_pem(thing: Any) -> bytes:
    """A public key, certificate, request or list as PEM."""
    return _public_bytes(thing, serialization.Encoding.PEM)


def to_der(thing: Any) -> bytes:
    """A public key, certificate, request or list as DER."""
    return _public_bytes(thing, serialization.Encoding.DER)


def encoded(data: bytes, encoding: str, raw: bool) -> Any:
    """What a function returns: bytes, text, or Base64 of what is no text."""
    if raw:
        return data
    if encoding in ("pem", "pkcs7_pem"):
        return data.decode()
    return base64.b64encode(data).decode()


def cipher(passphrase: Any, is_old: bool) -> Any:
    """
    How private keys are encrypted, if at all.

    @param is_old: as programs before OpenSSL 3 can read it in PKCS#12.
    """
    secret = _secret(passphrase)
    if secret is None:
        return serialization.NoEncryption()
    if not is_old:
        return serialization.BestAvailableEncryption(secret)
    builder = serialization.PrivateFormat.PKCS12.encryption_builder()
    builder = builder.kdf_rounds(50000).hmac_hash(hashes.SHA1())
    builder = builder.key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
    return builder.build(secret)


def key_bytes(key: Any, encoding: str, passphrase: Any, is_old: bool) -> bytes:
    """A private key in an encoding."""
    if encoding == "pkcs12":
        locked = cipher(passphrase, is_old)
        return bytes(pkcs12.serialize_key_and_certificates(None, key, None, None, locked))
    form = getattr(serialization.Encoding, encoding.upper())
    shape = serialization.PrivateFormat.PKCS8
    return bytes(key.private_bytes(form, shape, cipher(passphrase, False)))


def certificate_bytes(cert: Any, encoding: str, chain: list[Any]) -> bytes:
    """Certificates as PEM, DER or PKCS#7."""
    if encoding.startswith("pkcs7"):
        form = getattr(serialization.Encoding, encoding[6:].upper())
        return bytes(pkcs7.serialize_certificates([cert, *chain], form))
    if encoding == "der":
        return to_der(cert)
    return b"\n".join(to_pem(one) for one in (cert, *chain))


def pkcs12_bytes(cert: Any, chain: list[Any], key: Any, name: Any, locked: Any) -> bytes:
    """A certificate together with its private key, as PKCS#12."""
    label = _secret(name) if name else None
    return bytes(pkcs12.serialize_key_and_certificates(label, key, cert, chain, locked))


# What is read -----------------------------------------------------------------


def private_key(source: Any, passphrase: Any = None) -> Any:
    """A private key."""
    return private_key_and_encoding(source, passphrase)[0]


def private_key_and_encoding(source: Any, passphrase: Any = None) -> tuple[Any, str | None]:
    """
    A private key and how it was encoded.

    @raises PasswordError: another passphrase is needed, or none.
    @raises PrivDeserializationError: this is no private key.
    """
    if hasattr(source, "private_bytes"):
        if kind_of(source) is None:
            raise SaltInvocationError(
                f"Passed object is not a known private key, but {type(source).__name__}"
            )
        return source, None
    data, secret = content(source), _secret(passphrase)
    if _BEGIN in data:
        try:
            return serialization.load_pem_private_key(data, secret), "pem"
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            _blame_passphrase(error)
            raise PrivDeserializationError("Could not load PEM-encoded private key") from error
    try:
        loaded = pkcs12.load_pkcs12(data, secret)
        if not loaded.key:
            raise CommandExecutionError("PKCS12-encoded blob does not contain a private key.")
        return loaded.key, "pkcs12"
    except (ValueError, TypeError) as error:
        _blame_passphrase(error, superfluous=False)
    try:
        return serialization.load_der_private_key(data, secret), "der"
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        _blame_passphrase(error)
    raise PrivDeserializationError("Could not deserialize binary data, neither as DER nor PKCS#12.")


def _blame_passphrase(error: Exception, superfluous: bool = True) -> None:
    """
    @raises PasswordError: if that is what the library means.
    """
    if isinstance(error, SaltInvocationError):
        raise error
    text = str(error)
    if any(words in text for words in ("Bad decrypt", "Incorrect password", "Invalid password")):
        raise InvalidPassword() from error
    if "private key is encrypted" in text:
        raise MissingPassword() from error
    if superfluous and "private key is not encrypted" in text:
        raise SuperfluousPassword() from error


def public_key(source: Any) -> Any:
    """A public key."""
    if hasattr(source, "public_bytes"):
        if kind_of(source) is None:
            raise SaltInvocationError(
                f"Passed object is not a public key, but {type(source).__name__}"
            )
        return source
    data = content(source)
    is_pem = _BEGIN in data
    load = serialization.load_pem_public_key if is_pem else serialization.load_der_public_key
    try:
        return load(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        form = "PEM" if is_pem else "DER"
        raise PubDeserializationError(f"Could not load {form}-encoded public key.") from error


def certificate(source: Any, passphrase: Any = None) -> x509.Certificate:
    """A certificate; the first if there are several."""
    return certificates(source, passphrase)[0]


def certificates(
    source: Any, passphrase: Any = None
) -> tuple[x509.Certificate, str | None, list[x509.Certificate], bytes | None]:
    """
    A certificate, its encoding, those that came with it, and the name that PKCS#12 gives it.

    @raises CertDeserializationError: this is no certificate.
    @raises InvalidPassword: PKCS#12 with another passphrase.
    """
    if isinstance(source, x509.Certificate):
        return source, None, [], None
    data = content(source)
    if _BEGIN in data:
        return _pem_certificates(data)
    try:
        return x509.load_der_x509_certificate(data), "der", [], None
    except ValueError:
        pass
    try:
        box = pkcs12.load_pkcs12(data, _secret(passphrase))
    except ValueError as error:
        if "Bad decrypt" in str(error) or "Invalid password" in str(error):
            raise InvalidPassword() from error
    else:
        if box.cert is not None:
            chain = [one.certificate for one in box.additional_certs]
            return box.cert.certificate, "pkcs12", chain, box.cert.friendly_name
    try:
        first, *chain = pkcs7.load_der_pkcs7_certificates(data)
        return first, "pkcs7_der", chain, None
    except (ValueError, UnsupportedAlgorithm):
        pass
    raise CertDeserializationError(
        "Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12."
    )


def _pem_certificates(
    data: bytes,
) -> tuple[x509.Certificate, str | None, list[x509.Certificate], bytes | None]:
    pems = re.findall(rb"(?ms)^-----BEGIN (?:(?!^-----BEGIN ).)*?^-----END [^\n]*", data)
    if pems and pems[0].startswith(b"-----BEGIN PKCS7"):
        try:
            first, *chain = pkcs7.load_pem_pkcs7_certificates(pems[0])
        except ValueError as error:
            raise CertDeserializationError("Could not load PEM-encoded PKCS#7 blob") from error
        return first, "pkcs7_pem", chain, None
    try:
        first = x509.load_pem_x509_certificate(pems[0] + b"\n")
    except (ValueError, IndexError) as error:
        raise CertDeserializationError("Could not load PEM-encoded certificate.") from error
    chain = []
    for pem in pems[1:]:
        try:
            chain.append(x509.load_pem_x509_certificate(pem + b"\n"))
        except ValueError:
            # A private key, for example, may be in the same file.
            continue
    return first, "pem", chain, None


def request(source: Any) -> tuple[Any, str | None]:
    """A request for a certificate, and its encoding."""
    if isinstance(source, x509.CertificateSigningRequest):
        return source, None
    data = content(source)
    is_pem = _BEGIN in data
    try:
        load = x509.load_pem_x509_csr if is_pem else x509.load_der_x509_csr
        return load(data), "pem" if is_pem else "der"
    except ValueError as error:
        form = "PEM" if is_pem else "DER"
        raise CSRDeserializationError(
            f"Could not load {form}-encoded certificate signing request."
        ) from error


def revocations(source: Any) -> tuple[Any, str | None]:
    """A list of revoked certificates, and its encoding."""
    if isinstance(source, x509.CertificateRevocationList):
        return source, None
    data = content(source)
    is_pem = _BEGIN in data
    try:
        load = x509.load_pem_x509_crl if is_pem else x509.load_der_x509_crl
        return load(data), "pem" if is_pem else "der"
    except ValueError as error:
        form = "PEM" if is_pem else "DER"
        raise CRLDeserializationError(
            f"Could not load {form}-encoded certificate revocation list."
        ) from error


def any_public_key(key: Any, passphrase: Any = None) -> Any:
    """The public key of a public or private key, a certificate or a request."""
    try:
        return public_key(key)
    except (CommandExecutionError, SaltInvocationError):
        pass
    for load in (certificate, private_key):
        try:
            return load(key, passphrase).public_key()
        except PasswordError as error:
            raise CommandExecutionError(str(error)) from error
        except (CommandExecutionError, SaltInvocationError):
            pass
    try:
        return request(key)[0].public_key()
    except SaltInvocationError:
        pass
    raise CommandExecutionError("Could not load key as certificate, public key, private key or CSR")


def is_signed_by(thing: Any, key: Any) -> bool:
    """
    Whether this public key's owner signed a certificate or a list of revocations.

    The library of Debian 12 does not verify lists by the newer kinds of keys.
    """
    is_list = isinstance(thing, x509.CertificateRevocationList)
    data = thing.tbs_certlist_bytes if is_list else thing.tbs_certificate_bytes
    kind = kind_of(key)
    if kind is None:
        raise SaltInvocationError(
            "Invalid public key type, can only process rsa, ec, ed25519, ed448"
        )
    try:
        if kind in ("ed25519", "ed448"):
            key.verify(thing.signature, data)
            return True
        digest = thing.signature_hash_algorithm
        if digest is None:
            return False
        if kind == "ec":
            key.verify(thing.signature, data, ec.ECDSA(digest))
        elif thing.signature_algorithm_oid.dotted_string == _RSA_PSS:
            pss = padding.PSS(padding.MGF1(digest), padding.PSS.AUTO)
            key.verify(thing.signature, data, pss, digest)
        else:
            key.verify(thing.signature, data, padding.PKCS1v15(), digest)
        return True
    except InvalidSignature:
        return False


# PEM texts --------------------------------------------------------------------


def _pem_pattern(kind: str) -> re.Pattern[str]:
    return re.compile(
        rf"\s*(?P<header>-----BEGIN {kind}-----)\s+"
        r"(?:(?P<proc>Proc-Type: 4,ENCRYPTED)\s*)?"
        r"(?:(?P<dek>DEK-Info: (?:DES-[3A-Z\-]+,[0-9A-F]{16}|[0-9A-Z\-]+,[0-9A-F]{32}))\s*)?"
        rf"(?P<body>.+?)\s+(?P<footer>-----END {kind}-----)\s*",
        re.DOTALL,
    )


def _unfolded(text: str) -> str:
    """A PEM that lost its line ends, with line ends."""
    words = re.sub(r"(-----(?:BEGIN|END) [^-]*-----)", r"\n\1\n", text)
    return words.strip("\n")


def pem_entry(source: Any, kind: str | None = None) -> bytes:
    """
    The first entry of a PEM text or file, tidily written.

    @param kind: a pattern; any kind if there is none.
    @raises SaltInvocationError: there is none. The message shows the text, unless that may be
        a private key.
    """
    text = content(source).decode().replace("\\n", "\n")
    if len(text.splitlines()) == 1 and text.startswith("-----") and text.endswith("-----"):
        text = _unfolded(text)
    found = _pem_pattern("[0-9A-Z ]+" if kind is None else kind).search(text)
    if found is None:
        shown = "" if "PRIVATE KEY" in text else f"\n{text}"
        if kind:
            message = f"PEM does not contain a single entry of type {kind}:{shown}"
        else:
            message = f"PEM text not valid:{shown}"
        raise SaltInvocationError(message)
    lines = [found["header"]]
    if found["proc"]:
        lines.append(found["proc"])
    if found["dek"]:
        lines += [found["dek"], ""]
    body = "".join(found["body"].split())
    lines += [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join((*lines, found["footer"], "")).encode("ascii")


def decoded_base64(text: Any) -> bytes:
    """
    @raises CommandExecutionError: not Base64.
    """
    try:
        return base64.b64decode(text)
    except (binascii.Error, TypeError) as error:
        raise CommandExecutionError(f"This is not Base64: {error}") from error
