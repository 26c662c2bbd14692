"""
Salt's C{ssl} option, for C{transport: tcp}: a map with C{certfile}, C{keyfile}, C{ca_certs},
C{cert_reqs}, C{ssl_version}, C{ciphers}, C{verify_locations} and C{verify_flags}.

It works as in Salt 3008: a server requires client certificates, and a client checks chain and name,
unless C{cert_reqs} says otherwise. A certificate for the master's address is as good as one for its
name, because stock Salt only knows the address. The minimum is TLS 1.2. The TLS between nodes of a
cluster is separate (L{saltwisted.transports.tls}).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from OpenSSL import SSL, crypto
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.errors import ConfigError

VERIFY: Mapping[str, int] = {
    "CERT_NONE": SSL.VERIFY_NONE,
    "CERT_OPTIONAL": SSL.VERIFY_PEER,
    "CERT_REQUIRED": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}
"""Salt's words, which are those of Python's C{ssl}; that gives them numbers too: 0, 1, 2."""

ANY_VERSION = ("", "PROTOCOL_TLS", "PROTOCOL_TLS_CLIENT", "PROTOCOL_TLS_SERVER", "PROTOCOL_SSLV23")

STRICT = "VERIFY_X509_STRICT"
FLAGS: Mapping[str, int] = {
    "VERIFY_DEFAULT": 0,
    "VERIFY_CRL_CHECK_LEAF": 0x4,
    "VERIFY_CRL_CHECK_CHAIN": 0xC,
    STRICT: 0x20,
    "VERIFY_ALLOW_PROXY_CERTS": 0x40,
    "VERIFY_X509_TRUSTED_FIRST": 0x8000,
    "VERIFY_X509_PARTIAL_CHAIN": 0x80000,
}
"""C{verify_flags} by the names of Python's C{ssl}, as OpenSSL's numbers."""


def _context(options: Mapping[str, Any], server: bool) -> SSL.Context:
    """
    @raises ConfigError: an option that cannot be used; a file that cannot be read.
    """
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_SINGLE_ECDH_USE)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    if server:
        # Nobody resumes a session whose certificate was not looked at
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    version = str(options.get("ssl_version") or "").upper()
    if version == "PROTOCOL_TLSV1_2":
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
    elif version not in ANY_VERSION:
        raise ConfigError(f"ssl: ssl_version {version} is too old or unknown: use PROTOCOL_TLS")
    _files(context, options, server)
    verify = _verify(options, server)
    context.set_verify(verify, lambda connection, cert, error, depth, good: bool(good))
    ciphers = options.get("ciphers")
    if ciphers:
        try:
            context.set_cipher_list(str(ciphers).encode())
        except SSL.Error as error:
            raise ConfigError(f"ssl: ciphers: {_words(error)}") from error
    return context


def _verify(options: Mapping[str, Any], server: bool) -> int:
    said = options.get("cert_reqs")
    if said is None:
        return VERIFY["CERT_REQUIRED"]
    word = ("CERT_NONE", "CERT_OPTIONAL", "CERT_REQUIRED")[said] if said in (0, 1, 2) else said
    try:
        verify = VERIFY[str(word).upper()]
    except KeyError:
        raise ConfigError(f"ssl: cert_reqs {said!r}: use one of {', '.join(VERIFY)}") from None
    return verify


def _files(context: SSL.Context, options: Mapping[str, Any], server: bool) -> None:
    what = ""
    try:
        certfile = options.get("certfile")
        if certfile:
            what = "certfile"
            context.use_certificate_chain_file(str(certfile))
            what = "keyfile"
            context.use_privatekey_file(str(options.get("keyfile") or certfile))
            context.check_privatekey()
        elif server:
            raise ConfigError("ssl: a master needs a certfile")
        known = False
        places = options.get("verify_locations") or ()
        for place in [options.get("ca_certs"), *([places] if isinstance(places, str) else places)]:
            if place:
                what, known = "ca_certs", True
                _trust(context, place)
        if not known:
            context.set_default_verify_paths()
        flags = options.get("verify_flags") or ()
        store = context.get_cert_store()
        for flag in [flags] if isinstance(flags, str) else flags:
            if str(flag).upper() not in FLAGS:
                raise ConfigError(f"ssl: verify_flags: {flag!r} is not known")
            if store is not None:
                store.set_flags(FLAGS[str(flag).upper()])
    except (SSL.Error, crypto.Error) as error:
        raise ConfigError(f"ssl: {what} {options.get(what)!r}: {_words(error)}") from error


def _trust(context: SSL.Context, place: Any) -> None:
    if not isinstance(place, Mapping):
        context.load_verify_locations(str(place))
        return
    for kind, value in place.items():
        if kind.lower() == "cafile":
            context.load_verify_locations(str(value))
        elif kind.lower() == "capath":
            context.load_verify_locations(None, str(value))
        elif kind.lower() == "cadata":
            store = context.get_cert_store()
            data = value.encode() if isinstance(value, str) else value
            if store is not None:
                store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, data))
        else:
            raise ConfigError(f"ssl: verify_locations: {kind!r} is not known")


def _words(error: Exception) -> str:
    """OpenSSL's own words for what is wrong."""
    parts = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(str(part[-1]) for part in parts) or "it cannot be read"


@implementer(IOpenSSLServerConnectionCreator)
class ServerTLS:
    """A master's side."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """
        @raises ConfigError: the options do not work.
        """
        self._context = _context(options, server=True)

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """One connection."""
        return SSL.Connection(self._context, None)


@implementer(IOpenSSLClientConnectionCreator)
class ClientTLS:
    """
    A minion's side, for one master.

    @param names: host name and address of the master; its certificate must be for one of them.
    """

    def __init__(self, context: SSL.Context, verify: bool, names: Sequence[str]) -> None:
        self._context = context
        self._verify = verify
        self._names = list(dict.fromkeys(name for name in names if name))

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """One connection."""
        connection = SSL.Connection(self._context, None)
        for name in self._names:
            if not isIPAddress(name) and not isIPv6Address(name):
                connection.set_tlsext_host_name(name.encode("idna"))
                break
        if self._verify:
            connection.set_app_data(tlsProtocol)
        return connection

    def check(self, connection: SSL.Connection) -> None:
        """
        @raises VerificationError: the certificate is for somebody else.
        """
        problem: Exception = CertificateError("no name")
        for name in self._names:
            try:
                if isIPAddress(name) or isIPv6Address(name):
                    verify_ip_address(connection, name)
                else:
                    verify_hostname(connection, name)
                return
            except (VerificationError, CertificateError) as error:
                problem = error
        raise problem


def named_client(context: SSL.Context, names: Sequence[str], verify: bool = True) -> ClientTLS:
    """
    Connections of this context end in the handshake if the certificate is for none of these names.
    """
    creator = ClientTLS(context, verify, names)

    def info(connection: SSL.Connection, where: int, ret: int) -> None:
        # Before one byte of the application is sent or read, as Twisted does it
        if where & SSL.SSL_CB_HANDSHAKE_DONE and verify:
            try:
                creator.check(connection)
            except Exception:
                connection.get_app_data().failVerification(Failure())

    context.set_info_callback(info)
    return creator


class ClientContexts:
    """Creates L{ClientTLS} for masters by name; the files are read once."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """
        @raises ConfigError: the options do not work.
        """
        self._options = options
        self._verify = _verify(options, server=False) != SSL.VERIFY_NONE
        _context(options, server=False)

    def to(self, *names: str) -> ClientTLS:
        """For the master of this name and address."""
        context = _context(self._options, server=False)
        return named_client(context, names, self._verify)
