"""
The cluster's secrets: created with the cluster, renewed in time, and all replaced when a node is
removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from attrs import define, field
from twisted.logger import Logger

from saltwisted.cluster.life.lifecycle import MemberCard
from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.secrets import AUTHORITY, PUBLISH, SESSION, Secrets
from saltwisted.errors import SaltwistedError
from saltwisted.interfaces import Entropy
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.tls import Badge
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.sessionkey import SECRET_BYTES


class Wearer(Protocol):
    """What shows a certificate: the peer port."""

    def wear(self, badge: Badge) -> None:
        """Show this one from now on."""


@define(kw_only=True)
class SecretsCare:
    """
    Makes the versions of the cluster's secrets, and applies them on this node.

    @ivar append: C{append(kind, body)} of the fact log.
    @ivar port: the peer port.
    @ivar end_sessions: called when session secrets are revoked that were valid until now.
    @ivar session_period: seconds after which there is a new session secret.
    """

    log = Logger()

    card: MemberCard
    secrets: Secrets
    peers: Peers
    port: Wearer
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    end_sessions: Callable[[], None]
    session_period: float
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    _floor: int = 0

    def begin(self) -> None:
        """The log is open: secrets that are revoked now were revoked before."""
        self._floor = self.secrets.floor(SESSION)

    async def found(self) -> None:
        """Write the first versions, if there are none."""
        now = self.now()
        if self.secrets.current(AUTHORITY) is None:
            await self.append(
                "secret", self.secrets.next_body(AUTHORITY, NodeKey.generate().pem, now)
            )
        if self.secrets.current(SESSION) is None:
            value = self.entropy(SECRET_BYTES)
            await self.append("secret", self.secrets.next_body(SESSION, value, now))

    def changed(self) -> None:
        """There are other versions, wherever they come from."""
        floor = self.secrets.floor(SESSION)
        if floor > self._floor:
            self._floor = floor
            self.end_sessions()
        self.wear()

    def wear(self) -> None:
        """Show a certificate of the current authority."""
        authority = self.secrets.current(AUTHORITY)
        if authority is None:
            return
        try:
            issuer = NodeKey.from_pem(authority.value)
            cluster, node, now = self.card.state.cluster, self.card.state.node, self.now()
            own = self.card.badge.key
            badge = Badge(
                own,
                issue(issuer, own.public, node, cluster, now),
                issue(issuer, issuer.public, cluster, cluster, now, is_ca=True),
            )
        except SaltwistedError:
            self.log.failure("the key of the certificate authority cannot be used")
            return
        self.port.wear(badge)
        self.peers.wear(badge)

    @property
    def pin(self) -> str:
        """What a token pins: the authority's key."""
        authority = self.secrets.current(AUTHORITY)
        return NodeKey.from_pem(authority.value).id if authority is not None else ""

    def renew_in_time(self) -> None:
        """One node, the lowest of those that see each other, makes new versions in time."""
        current = self.secrets.current(SESSION)
        linked = [link.node for link in self.peers.links()]
        lowest = all(self.card.state.node < node for node in linked)
        age = self.now() - current.born if current is not None else self.session_period
        if lowest and not -self.session_period < age < self.session_period:
            body = self.secrets.next_body(SESSION, self.entropy(SECRET_BYTES), self.now())
            let_go(as_deferred(self.append("secret", body)), self.log, "no new session secret")

    async def renew(self) -> None:
        """All secrets again; the versions before are refused at once. After a removal."""
        now = self.now()
        publish = SessionKey.generate(self.entropy).text.encode()
        for what, value in (
            (AUTHORITY, NodeKey.generate().pem),
            (SESSION, self.entropy(SECRET_BYTES)),
            (PUBLISH, publish),
        ):
            await self.append("secret", self.secrets.next_body(what, value, now, refuse_old=True))
