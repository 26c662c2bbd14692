"""
The certificate of the API: the site's own files, a certificate of the cluster's authority, or a
self-signed one.

A certificate of the authority lasts for weeks. It is replaced in time, when this machine has
another address, and at once when there is another authority. Existing connections continue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen
from cryptography import x509
from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from saltwisted.config.api import ApiOptions
from saltwisted.domain.replica.certificates import (
    NodeKey,
    key_id,
    name_of,
    names_in,
    signed_by,
)
from saltwisted.errors import SaltwistedError
from saltwisted.interfaces import IVouching
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.transports.tls import public_der
from saltwisted.web.tls import FOLDER, context_of, each_of, loaded, read

DAYS = 90
RENEW = 30
"""Days before its end at which there is another one."""
LOOK = 3600.0
"""Seconds between two looks."""
FILE, AUTHORITY = "api-node.pem", "api-ca.pem"
_HERE = ("localhost", "127.0.0.1", "::1")
_ANY = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_DAY = 86_400.0


@frozen
class Pair:
    """A certificate, and that of its signer."""

    own: x509.Certificate
    authority: x509.Certificate

    @property
    def ends(self) -> float:
        """Seconds since 1970."""
        after: datetime | None = getattr(self.own, "not_valid_after_utc", None)
        if after is None:
            # Debian's library has the time without its zone
            after = self.own.not_valid_after.replace(tzinfo=UTC)
        return after.timestamp()

    def is_good(self, pin: str, names: Sequence[str], now: float) -> bool:
        """
        Whether it may still be shown.

        @param pin: of the present authority.
        @param names: the present names of this machine.
        """
        return (
            key_id(public_der(self.authority)) == pin
            and signed_by(self.own, self.authority)
            and names_in(self.own).issuperset(names)
            and self.ends - (DAYS + 2) * _DAY <= now < self.ends - RENEW * _DAY
        )


@implementer(IOpenSSLServerConnectionCreator)
class Certificate:
    """
    The certificate of one API.

    @ivar pair: what is shown, if the cluster's authority signs it.
    @ivar fingerprint: the fingerprint of the certificate, if nobody signs it.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        options: ApiOptions,
        pki_dir: str,
        name: str,
        vouching: IVouching,
        now: Callable[[], float],
        write: Callable[[str, bytes, int], None],
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        """
        @param name: this master's, for a certificate that it signs itself.
        @param write: C{write(path, content, mode)}: a new file.
        @param in_thread: runs a function with its arguments.
        @raises ConfigError: the files of the site are not there, or do not fit together.
        """
        self._options, self._pki_dir, self._name = options, pki_dir, name
        self._vouching, self._now = vouching, now
        self._write, self._in_thread = write, in_thread
        self._ticker = LoopingCall(self._look)
        self._ticker.clock = reactor
        self._running = False
        self._context: Any = None
        self.pair: Pair | None = None
        self.fingerprint = ""
        if self._of_site:
            self._context = context_of(options, pki_dir, name, now(), write)[0].getContext()
        vouching.on_change(self._changed)

    @property
    def _of_site(self) -> bool:
        return bool(self._options.ssl_crt or self._options.ssl_key)

    def _path(self, name: str) -> str:
        return os.path.join(self._pki_dir, FOLDER, name)

    # -- service

    def startService(self) -> None:
        """
        Prepare the certificate.

        @raises ConfigError: the files cannot be read.
        """
        self._running = True
        if self._of_site:
            return
        if not self._vouching.pin:
            made, self.fingerprint = context_of(
                self._options, self._pki_dir, self._name, self._now(), self._write
            )
            self._context = made.getContext()
            self.log.info(
                "the certificate of the HTTP API is self-signed; its SHA-256 is {fingerprint}",
                fingerprint=self.fingerprint,
                always=True,
            )
            return
        self._take_up()
        if self.pair is None:
            for name, content, mode in self._issue():
                self._write(self._path(name), content, mode)
        self.log.info(
            "the HTTP API has a certificate of the cluster's authority. Clients verify it with "
            "{path}; the SHA-256 of the authority's key is {pin}",
            path=self._path(AUTHORITY),
            pin=self._vouching.pin,
            always=True,
        )
        let_go(start_on_ticks(self._ticker, LOOK), self.log, "certificates are not renewed")

    def stopService(self) -> None:
        """Look no more."""
        self._running = False
        if self._ticker.running:
            self._ticker.stop()

    def serverConnectionForTLS(self, protocol: Any) -> SSL.Connection:
        """A connection for a client."""
        return SSL.Connection(self._context, None)

    def status(self) -> dict[str, Any]:
        """Who signed the certificate, and until when it is valid."""
        if self.pair is not None:
            return {
                "authority": key_id(public_der(self.pair.authority)),
                "authority_file": self._path(AUTHORITY),
                "ends": self.pair.ends,
                "names": sorted(names_in(self.pair.own)),
            }
        return {"fingerprint": self.fingerprint} if self.fingerprint else {}

    # -- certificates of the authority

    def names(self) -> list[str]:
        """What clients may call this machine."""
        options = self._options
        found = [*self._vouching.names(), *_HERE]
        more = [] if options.host in _ANY else [options.host]
        for text in [*more, *map(str, options.ssl_names)]:
            name = name_of(text)
            if name:
                found.append(name)
            else:
                self.log.warn(
                    "{block}: ssl_names: {name} is no name of a host",
                    block=options.block,
                    name=text[:200],
                )
        return list(dict.fromkeys(found))

    def _take_up(self) -> None:
        """Go on with the certificate on disk, if it may go on being shown."""
        path = self._path(FILE)
        if not os.path.exists(path) or not os.path.exists(self._path(AUTHORITY)):
            return
        content = read(self._options, path)
        try:
            own, authority = [x509.load_pem_x509_certificate(each) for each in each_of(content)]
            pair = Pair(own, authority)
            if pair.is_good(self._vouching.pin, self.names(), self._now()):
                self._show(content, pair)
        except (ValueError, SaltwistedError) as error:
            self.log.warn("{path} cannot be used: {error}", path=path, error=str(error))

    def _show(self, content: bytes, pair: Pair) -> None:
        self._context = loaded(self._options, content, content, b"", "").getContext()
        self.pair = pair

    def _issue(self) -> list[tuple[str, bytes, int]]:
        """Show another one from now on; the files to be written."""
        key = NodeKey.generate()
        own, authority = self._vouching.issue(key.public, self.names(), DAYS)
        content = key.pem + own + authority
        pair = [x509.load_pem_x509_certificate(each) for each in (own, authority)]
        self._show(content, Pair(*pair))
        return [(FILE, content, 0o600), (AUTHORITY, authority, 0o644)]

    def _changed(self) -> None:
        """There may be another authority."""
        before = self.pair
        if not self._running or self._of_site or before is None or not self._vouching.pin:
            return
        if key_id(public_der(before.authority)) == self._vouching.pin:
            return
        self.log.warn(
            "the HTTP API has a certificate of a new authority. Clients need {path}; the "
            "SHA-256 of the authority's key is {pin}",
            path=self._path(AUTHORITY),
            pin=self._vouching.pin,
        )
        self._renew()

    def _look(self) -> None:
        pair = self.pair
        if pair is None or not pair.is_good(self._vouching.pin, self.names(), self._now()):
            self._renew()

    def _renew(self) -> None:
        try:
            files = self._issue()
        except SaltwistedError:
            self.log.failure("the HTTP API has no new certificate")
            return
        let_go(
            Deferred.fromCoroutine(self._keep(files)),
            self.log,
            "the new certificate of the HTTP API could not be written",
        )

    async def _keep(self, files: Sequence[tuple[str, bytes, int]]) -> None:
        for name, content, mode in files:
            await self._in_thread(self._write, self._path(name), content, mode)
