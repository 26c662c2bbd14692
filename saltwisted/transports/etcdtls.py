"""
TLS to an etcd: whom this node trusts, which certificate it shows, and errors that name the option
to check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from cryptography import x509
from OpenSSL import SSL
from service_identity import CertificateError, VerificationError
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.python.failure import Failure
from twisted.web.iweb import IPolicyForHTTPS
from zope.interface import implementer

from saltwisted.domain.claims.etcd import OPTION, Settings
from saltwisted.errors import ConfigError
from saltwisted.transports.reasons import MOST, why
from saltwisted.transports.ssl_options import ClientTLS, named_client

VERIFY = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
TIMES: Mapping[int, str] = {
    9: "a certificate that it shows is not valid yet",
    10: "a certificate that it shows has run out",
}
STRANGERS = (2, 7, 18, 19, 20, 21)
"""OpenSSL's numbers for a chain that leads to nobody whom we trust."""

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.S)
_REFUSAL = re.compile(r"alert.*(certificate|unknown ca|decrypt error|access denied)", re.I)
_NO_TLS = re.compile(r"wrong version number|packet length too long|record layer failure", re.I)


@define
class _Door:
    """
    One address, and what came of the last handshake with it.

    @ivar shown: its certificate.
    @ivar code: OpenSSL's number of what is wrong with its chain; 0: nothing.
    """

    client: ClientTLS | None = None
    shown: Any = None
    code: int = 0

    def look(self, connection: Any, shown: Any, code: int, depth: int, good: int) -> bool:
        """Nothing is forgiven here; it is only remembered."""
        if not depth:
            self.shown = shown
        self.code = 0 if good else code
        return bool(good)

    def names(self) -> str:
        """For whom its certificate is."""
        try:
            found = self.shown.to_cryptography().extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            )
        except (AttributeError, ValueError, x509.ExtensionNotFound):
            return "nobody"
        return ", ".join(str(each.value) for each in found.value)[:MOST]


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname).lower(), int(parts.port or 443)


@implementer(IPolicyForHTTPS)
@define
class TlsPolicy:
    """
    Whom to trust, and which certificate to show. Reactor thread only.

    @ivar shown: certificate, chain and key, as Twisted's C{CertificateOptions} wants them.
    """

    settings: Settings
    trust: Any
    shown: Mapping[str, Any] = field(factory=dict, repr=False)
    _doors: dict[tuple[str, int], _Door] = field(factory=dict, init=False)

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        """
        Made once for each address: whom the system trusts is a long list.
        """
        name = hostname.decode("ascii").lower()
        door = self._doors.setdefault((name, port), _Door())
        if door.client is None:
            options = CertificateOptions(
                trustRoot=self.trust, raiseMinimumTo=TLSVersion.TLSv1_2, **self.shown
            )
            context = options.getContext()
            context.set_verify(VERIFY, door.look)
            door.client = named_client(context, [name])
        return door.client

    def reason(self, url: str, problem: Failure, is_met: bool) -> str:
        """
        Why this address could not be spoken to.

        @param is_met: whether it has ever answered; if not, the configuration may be wrong.
        """
        place, error = _place(url), problem.value
        door = self._doors.get(place, _Door())
        if isinstance(error, VerificationError | CertificateError):
            return (
                f"its certificate is for {door.names()}, not for {place[0]}: write a name that it "
                f"is for into {OPTION}, or give it another certificate"
            )
        said = why(problem)
        if isinstance(error, SSL.Error) and door.code and "verify failed" in said:
            return self._distrust(door.code)
        if isinstance(error, SSL.Error) and _REFUSAL.search(said):
            return self._refused(said)
        if isinstance(error, SSL.Error) and _NO_TLS.search(said):
            return f"it speaks no TLS: write http:// into {OPTION}, or give it a certificate"
        is_hung_up = isinstance(error, SSL.Error | ConnectionDone | ConnectionLost)
        if is_hung_up and not is_met:
            about = f"refuse {OPTION}_cert" if self.shown else f"want {OPTION}_cert"
            return f"{said}: it may {about}, or speak no TLS"
        return said

    def _distrust(self, code: int) -> str:
        if code in TIMES:
            return TIMES[code]
        if code not in STRANGERS:
            return f"its certificate does not hold (OpenSSL's error {code})"
        if self.settings.ca:
            return f"no authority in {self.settings.ca} ({OPTION}_ca) has signed its certificate"
        return f"this system trusts nobody who signed its certificate: set {OPTION}_ca"

    def _refused(self, said: str) -> str:
        if not self.shown:
            return f"it wants a certificate of this node: set {OPTION}_cert and {OPTION}_key"
        return f"it refuses the certificate in {self.settings.cert} ({OPTION}_cert): {said}"


def plain_reason(problem: Failure, is_met: bool) -> str:
    """The same without TLS."""
    said = why(problem)
    if not is_met and problem.check(ConnectionDone, ConnectionLost):
        return f"{said}: if it speaks TLS, write https:// into {OPTION}"
    return said


def tls_policy(settings: Settings, read: Callable[[str], bytes]) -> TlsPolicy:
    """
    Out of the files that the options name.

    @param read: the bytes of a file.
    @raises ConfigError: with the option whose file cannot be used.
    """
    trust, shown = platformTrust(), {}
    if settings.ca:
        blocks = _PEM.findall(_read(f"{OPTION}_ca", settings.ca, read))
        try:
            trust = trustRootFromCertificates([Certificate.loadPEM(each) for each in blocks])
            if not blocks:
                raise ValueError("there is no certificate in it")
        except Exception as error:  # whatever OpenSSL says of a file
            raise _unusable(f"{OPTION}_ca", settings.ca, error) from None
    if settings.cert:
        shown = _shown(settings, read)
    policy = TlsPolicy(settings, trust, shown)
    for url in settings.endpoints:
        if not url.startswith("https:"):
            continue
        host, port = _place(url)
        try:
            policy.creatorForNetloc(host.encode("ascii"), port)
        except SSL.Error as error:
            # A key that is too short, for one
            raise _unusable(f"{OPTION}_cert", settings.cert, error) from None
    return policy


def _shown(settings: Settings, read: Callable[[str], bytes]) -> dict[str, Any]:
    certificates = _read(f"{OPTION}_cert", settings.cert, read)
    key = _read(f"{OPTION}_key", settings.key, read)
    try:
        # A key of another certificate is found here
        own = PrivateCertificate.loadPEM(certificates + b"\n" + key)
        chain = [Certificate.loadPEM(each).original for each in _PEM.findall(certificates)[1:]]
    except Exception as error:  # whatever OpenSSL says of a file
        raise _unusable(f"{OPTION}_cert", settings.cert, error) from None
    return {
        "privateKey": own.privateKey.original,
        "certificate": own.original,
        "extraCertChain": chain,
    }


def _read(option: str, path: str, read: Callable[[str], bytes]) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from None


def _unusable(option: str, path: str, error: Exception) -> ConfigError:
    said = why(error)
    return ConfigError(f"{option}: {path} is no PEM file that can be used: {said}")
