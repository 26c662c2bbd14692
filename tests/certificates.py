"""
Certificates for tests: an authority and what it signs, made again each time.
"""

from __future__ import annotations

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """
    A certificate authority in a directory; C{ca} is its file.

    @param above: who signs its certificate, if not it itself.
    """

    def __init__(
        self, folder: str, name: str = "authority", above: Authority | None = None
    ) -> None:
        self.folder = folder
        signer = above or self
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = signer._build(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
        made = made.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.ca = self._write(f"{name}.crt", made.sign(signer._key, hashes.SHA256()))

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float = 30
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def _write(self, name: str, certificate: x509.Certificate) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "wb") as handle:
            handle.write(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, name: str, *alternatives: str, days: float = 30) -> dict[str, str]:
        """
        A certificate for these names and addresses: C{certfile} and C{keyfile}.

        @param days: how long it is valid from now on.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = []
        for one in alternatives or (name,):
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(one)))
            except ValueError:
                names.append(x509.DNSName(one))
        built = (
            self._build(subject, key.public_key(), days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        certfile = self._write(f"{name}.crt", built.sign(self._key, hashes.SHA256()))
        keyfile = os.path.join(self.folder, f"{name}.key")
        with open(keyfile, "wb") as handle:
            handle.write(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
        return {"certfile": certfile, "keyfile": keyfile}
