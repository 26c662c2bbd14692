"""
Keys and certificates of nodes, and boxes that only one node can open.

A node is its public key: the membership records the SHA-256 of it, and a certificate only carries
the key into TLS. The cluster's authority (CA) issues certificates at a join, so that a joining
node, which knows nobody yet, can recognise a member by the one key that its token pins. Keys are on
curve P-256: TLS, signatures and key agreement with one key.

C{now} is seconds since 1970; key generation takes its entropy from the library, as RSA does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from attrs import field, frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from saltwisted.errors import WireError

YEARS = 20
"""A certificate ends with the membership, not with the calendar."""
_PEM = serialization.Encoding.PEM
_DER = serialization.Encoding.DER
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
_NONE = serialization.NoEncryption()
_NONCE = bytes(12)  # each key made here seals one box
_POINT = 65


def host_name(cluster: str) -> str:
    """The name that every certificate of a cluster carries, for C{service_identity}."""
    return f"{cluster}.saltwisted.internal"


def key_id(public: ec.EllipticCurvePublicKey | bytes) -> str:
    """SHA-256 of a public key (or of its DER form), in hexadecimal digits."""
    der = public if isinstance(public, bytes) else public.public_bytes(_DER, _SPKI)
    return hashlib.sha256(der).hexdigest()


@frozen
class NodeKey:
    """A private key of a node, or of the cluster's authority."""

    private: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> NodeKey:
        """A new key."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_pem(cls, pem: bytes) -> NodeKey:
        """
        A key that was stored.

        @raises WireError: it is none.
        """
        try:
            key = serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError) as error:
            raise WireError("node key") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise WireError("node key")
        return cls(key)

    @property
    def pem(self) -> bytes:
        """To be stored, mode 0600."""
        return self.private.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _NONE)

    @property
    def public(self) -> bytes:
        """The public key, DER."""
        return self.private.public_key().public_bytes(_DER, _SPKI)

    @property
    def id(self) -> str:
        """Its L{key_id}."""
        return key_id(self.public)

    def open(self, box: bytes, purpose: bytes) -> bytes:
        """
        What L{seal} put into a box for this key.

        @raises WireError: the box is for another key, another purpose, or was changed.
        """
        try:
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), box[:_POINT])
            shared = self.private.exchange(ec.ECDH(), point)
            return AESGCM(_derive(shared, box[:_POINT], purpose)).decrypt(
                _NONCE, box[_POINT:], purpose
            )
        except (ValueError, InvalidTag) as error:
            raise WireError("sealed box") from error


def seal(data: bytes, public: bytes, purpose: bytes) -> bytes:
    """
    A box that only the holder of a key opens (ephemeral ECDH, HKDF-SHA-256, AES-256-GCM).

    @param public: the receiver's public key, DER.
    @raises WireError: that is not a P-256 key.
    """
    once = ec.generate_private_key(ec.SECP256R1())
    point = once.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    shared = once.exchange(ec.ECDH(), load_public(public))
    return point + AESGCM(_derive(shared, point, purpose)).encrypt(_NONCE, data, purpose)


def _derive(shared: bytes, point: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, point, b"saltwisted box " + purpose).derive(shared)


def load_public(der: bytes) -> ec.EllipticCurvePublicKey:
    """
    A node's public key from DER.

    @raises WireError: it is not a P-256 key.
    """
    try:
        key = serialization.load_der_public_key(der)
    except ValueError as error:
        raise WireError("public key") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise WireError("public key")
    return key


def issue(
    authority: NodeKey, public: bytes, node: str, cluster: str, now: float, is_ca: bool = False
) -> bytes:
    """
    A certificate (PEM) for a public key (DER), signed by the authority.

    @param node: the node's name, for people who read the certificate; it proves nothing.
    """
    subject = authority.id[:16] if is_ca else node[:64]
    born = datetime.fromtimestamp(now, UTC) - timedelta(days=1)
    names = [x509.DNSName(host_name(cluster))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject or "node")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, authority.id[:16])]))
        .public_key(load_public(public))
        .serial_number(x509.random_serial_number())
        .not_valid_before(born.replace(tzinfo=None))
        .not_valid_after((born + timedelta(days=365 * YEARS)).replace(tzinfo=None))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(authority.private, hashes.SHA256()).public_bytes(_PEM)


def _common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _from_to(now: float, days: int) -> tuple[datetime, datetime]:
    born = (datetime.fromtimestamp(now, UTC) - timedelta(days=1)).replace(tzinfo=None)
    return born, born + timedelta(days=days + 1)


def _uses(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def trusted(authority: NodeKey, now: float) -> bytes:
    """
    The authority's certificate (PEM) as browsers and C{curl --cacert} want one. Each that is made
    of one key is as good as another: they have the name and the key in common.
    """
    began, ends = _from_to(now, 365 * YEARS)
    key, name = authority.private.public_key(), _common(f"saltwisted {authority.id[:16]}")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_uses(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    return builder.sign(authority.private, hashes.SHA256()).public_bytes(_PEM)


def serving(
    authority: NodeKey, public: bytes, names: Sequence[str], now: float, days: int
) -> bytes:
    """
    A certificate (PEM) for a web server, signed by the authority whose L{trusted} one clients have.

    @param public: the server's public key, DER.
    @param names: its names and addresses, as clients write them; the first is for people.
    @raises WireError: that is not a key.
    """
    began, ends = _from_to(now, days)
    key, issuer = load_public(public), authority.private.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_common(names[0]))
        .issuer_name(_common(f"saltwisted {authority.id[:16]}"))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_uses(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        )
    )
    return builder.sign(authority.private, hashes.SHA256()).public_bytes(_PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def name_of(text: str) -> str:
    """An address or a name of a host in the form of certificates; C{""} if it is neither."""
    try:
        return str(ip_address(text))
    except ValueError:
        labels = text.removeprefix("*.").split(".")
    good = len(text) <= 253 and all(
        0 < len(label) < 64
        and label.isascii()
        and label.replace("-", "a").replace("_", "a").isalnum()
        for label in labels
    )
    return text.lower() if good else ""


def names_in(certificate: x509.Certificate) -> set[str]:
    """The names and addresses in a certificate, as passed to L{serving}."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {str(each.value) for each in found}


def signed_by(leaf: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether one certificate's signature was made with the other's key."""
    key, digest = issuer.public_key(), leaf.signature_hash_algorithm
    if not isinstance(key, ec.EllipticCurvePublicKey) or digest is None:
        return False
    try:
        key.verify(leaf.signature, leaf.tbs_certificate_bytes, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True
