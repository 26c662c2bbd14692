"""
TLS between nodes: both sides show a certificate, and a judge checks the key in it.

One port serves several purposes, which ALPN tells apart. If the judge does not admit a peer, the
handshake fails: the application never reads a byte of it (T-PEER-1). Chains and host names prove
nothing here, except where L{Session.vouched_by} asks for them: a member is known by its public key.
Sessions are never resumed, because a resumed session would not be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL, crypto
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname
from twisted.internet.interfaces import (
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.domain.replica.certificates import NodeKey, key_id, signed_by
from saltwisted.errors import WireError
from saltwisted.transports.bulk import prefer_short_keys, write_wholly

AMP = b"sw-amp/1"
BULK = b"sw-bulk/1"
JOIN = b"sw-join/1"
HANDSHAKE_TIME = 10.0
"""Seconds for a handshake; who is slower is hung up on."""

Judge = Callable[[bytes, str], bool]
"""C{judge(purpose, key_id)}: whether the holder of this key may come for this purpose."""


def public_der(certificate: x509.Certificate) -> bytes:
    """The public key in a certificate, DER."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@frozen
class Badge:
    """What this node shows: its key, its certificate and the authority's (both PEM)."""

    key: NodeKey
    certificate: bytes
    authority: bytes = b""


@frozen
class Session:
    """
    The other side of a connection whose handshake is complete.

    @ivar purpose: the ALPN name.
    @ivar key: L{key_id} of its public key.
    @ivar public: that public key, DER.
    @ivar address: the address that it comes from.
    """

    purpose: bytes
    key: str
    public: bytes
    address: str
    connection: Any = field(repr=False)

    def exporter(self, label: str) -> bytes:
        """32 bytes that only the two ends of this very connection know (RFC 8446, 7.5)."""
        secret: bytes = self.connection.export_keying_material(
            b"EXPORTER-saltwisted-" + label.encode(), 32, b""
        )
        return secret

    def vouched_by(self, pin: str, host: str) -> bool:
        """
        Whether an authority whose L{key_id} is C{pin} signed this certificate, for this cluster.

        @param host: the name that the cluster's certificates carry.
        """
        chain = [each.to_cryptography() for each in self.connection.get_peer_cert_chain() or ()]
        if not chain or not any(
            key_id(public_der(each)) == pin and signed_by(chain[0], each) for each in chain[1:]
        ):
            return False
        try:
            verify_hostname(self.connection, host)
        except (VerificationError, CertificateError):
            return False
        return True


def _context(badge: Badge) -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    write_wholly(context)
    prefer_short_keys(context)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION)
    context.use_privatekey(crypto.PKey.from_cryptography_key(badge.key.private))
    context.use_certificate(_x509(badge.certificate))
    if badge.authority:
        context.add_extra_chain_cert(_x509(badge.authority))
    return context


def _x509(pem: bytes) -> crypto.X509:
    return crypto.X509.from_cryptography(x509.load_pem_x509_certificate(pem))


def _key_of(certificate: Any) -> str:
    try:
        return key_id(public_der(certificate.to_cryptography()))
    except (ValueError, WireError):
        return ""


_VERIFY = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT


@implementer(IOpenSSLServerConnectionCreator)
class Acceptor:
    """
    The accepting side.

    @param purposes: gets the ALPN names that a peer offers; returns those that are served at this
        moment.
    """

    def __init__(
        self, badge: Badge, judge: Judge, purposes: Callable[[Sequence[bytes]], Sequence[bytes]]
    ) -> None:
        self._judge = judge
        self._purposes = purposes
        self.wear(badge)

    def wear(self, badge: Badge) -> None:
        """Show another certificate from the next connection on."""
        self._context = _context(badge)
        self._context.set_alpn_select_callback(self._select)
        self._context.set_verify(_VERIFY, self._verify)

    def serverConnectionForTLS(self, protocol: Any) -> SSL.Connection:
        """A connection for one that has dialled us."""
        return SSL.Connection(self._context, None)

    def _select(self, connection: Any, offered: list[bytes]) -> Any:
        served = self._purposes(offered)
        for name in offered:
            if name in served:
                return name
        return SSL.NO_OVERLAPPING_PROTOCOLS

    def _verify(self, connection: Any, certificate: Any, code: int, depth: int, good: int) -> bool:
        if depth:
            return True
        purpose = connection.get_alpn_proto_negotiated()
        return bool(purpose) and self._judge(purpose, _key_of(certificate))


@implementer(IOpenSSLClientConnectionCreator)
class Dialler:
    """The dialling side, for one purpose."""

    def __init__(self, badge: Badge, judge: Judge, purpose: bytes) -> None:
        self._context = _context(badge)
        self._judge = judge
        self._purpose = purpose
        self._context.set_alpn_protos([purpose])
        self._context.set_verify(_VERIFY, self._verify)

    def clientConnectionForTLS(self, protocol: Any) -> SSL.Connection:
        """A connection to be made."""
        return SSL.Connection(self._context, None)

    def _verify(self, connection: Any, certificate: Any, code: int, depth: int, good: int) -> bool:
        return bool(depth) or self._judge(self._purpose, _key_of(certificate))


@implementer(IHandshakeListener)
class Doorway(Protocol):
    """
    Waits for the end of the handshake, then hands the connection to its protocol.

    @param enter: C{enter(session)} returns the protocol that takes over, or C{None} to hang up.
    """

    log = Logger()

    def __init__(
        self, clock: Any, enter: Callable[[Session], Any], gone: Callable[[Doorway], None]
    ) -> None:
        self._clock = clock
        self._enter = enter
        self._gone = gone
        self._timer: Any = None
        self.inner: Any = None

    def connectionMade(self) -> None:
        """TCP is up; TLS has a few seconds."""
        self._timer = self._clock.callLater(HANDSHAKE_TIME, self._late)

    def _late(self) -> None:
        self._timer = None
        self.transport.abortConnection()  # type: ignore[union-attr]

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def handshakeCompleted(self) -> None:
        """Both sides are who their keys say."""
        self._stop_timer()
        transport: Any = self.transport
        connection = transport.getHandle()
        certificate = connection.get_peer_certificate()
        purpose = connection.get_alpn_proto_negotiated()
        inner = None
        if certificate is not None and purpose:
            public = public_der(certificate.to_cryptography())
            address = str(getattr(transport.getPeer(), "host", ""))
            inner = self._enter(Session(purpose, key_id(public), public, address, connection))
        if inner is None:
            transport.abortConnection()
            return
        self.inner = inner
        inner.makeConnection(transport)

    def dataReceived(self, data: bytes) -> None:
        """Whatever comes is for the protocol behind the door; before there is one, nothing is."""
        if self.inner is not None:
            self.inner.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the protocol behind the door."""
        self._stop_timer()
        self._gone(self)
        if self.inner is not None:
            self.inner.connectionLost(reason)


class _Doors(Factory):
    noisy = False

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self._build = build

    def buildProtocol(self, addr: Any) -> Any:
        return self._build(addr)


class _Listener(TLSMemoryBIOFactory):
    """Asks before any of TLS is set up whether a connection is wanted at all."""

    refuses: Callable[[Any], bool]

    def buildProtocol(self, addr: Any) -> Any:
        """C{None} closes the connection."""
        return None if self.refuses(addr) else super().buildProtocol(addr)


def serve(
    acceptor: Acceptor, build: Callable[[Any], Doorway], refuses: Callable[[Any], bool]
) -> Any:
    """
    The factory to listen with.

    @param build: C{build(address)} gives a L{Doorway}.
    @param refuses: C{refuses(address)}: whether to hang up before a byte is read.
    """
    listener = _Listener(acceptor, False, _Doors(build))
    listener.refuses = refuses
    return listener
