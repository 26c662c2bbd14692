"""
The set of links: one for each member. The node with the lower name dials, keeps the link up, and
reports changes.

The membership (L{saltwisted.domain.replica.membership}) says to which nodes there are links; a node
that is removed loses its link in the same turn. A node never dials an address that a stranger
named: all addresses come from the membership, which only members write (T-PEER-5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from saltwisted.cluster.links.attached import (
    FIRST_DELAY,
    MOST_DELAY,
    Attach,
    Attachments,
)
from saltwisted.cluster.links.link import Answer, Link
from saltwisted.domain.replica.membership import Member, Membership
from saltwisted.interfaces import Entropy, IPeers
from saltwisted.transports.reasons import why
from saltwisted.transports.tls import AMP, BULK, Badge, Dialler, Doorway, Session

PATIENCE = 10.0
"""Seconds without a link after which the higher name dials, too: the lower may be unable to."""
CONNECT_TIME = 5.0
_PORT = re.compile("[0-9]{1,5}")
REPLACED = "there is another connection"
"""Why one of two links to the same member ends: nothing is lost by it."""

Receiver = Callable[[Link, bool], None]


def split_address(address: str, default: int) -> tuple[str, int]:
    """C{host}, C{host:port}, C{[v6]:port} or a bare v6 address."""
    text = address.strip()
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.lstrip(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    return host, int(port) if _PORT.fullmatch(port) and 0 < int(port) < 65536 else default


def join_address(host: str, port: int) -> str:
    """The reverse of L{split_address}."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Single(Factory):
    """Builds the one protocol of a connection that we dial."""

    noisy = False

    def __init__(self, build: Callable[[], Protocol]) -> None:
        self._build = build

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._build()


@define
class Contact:
    """
    A member to which there should be a link.

    @ivar problem: why there is no link, for C{members}.
    @ivar since: since when there is no link.
    @ivar is_away: whether the log has a line that the member is away.
    """

    member: Member
    since: float = 0.0
    is_away: bool = False
    link: Link | None = None
    tries: int = 0
    timer: IDelayedCall | None = None
    problem: str = ""
    seen: float = 0.0
    doors: set[Doorway] = field(factory=set)


class Peers:
    """
    All links of this node.

    @param reactor: sockets and timers.
    @param node: this node's id.
    @param key: its L{key_id}.
    @param cluster: the cluster's id, which both sides of a link must share.
    @param dice: C{dice()} in [0, 1), for jitter.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        node: str,
        cluster: str,
        badge: Badge,
        membership: Membership,
        dice: Callable[[], float],
        entropy: Entropy,
        default_port: int,
        counters: Counter[str],
        now: Callable[[], float],
    ) -> None:
        self.node = node
        self.cluster = cluster
        self._reactor = reactor
        self._key = badge.key.id
        self._membership = membership
        self._dice = dice
        self._entropy = entropy
        self._default_port = default_port
        self._counters = counters
        self._now = now
        self._contacts: dict[str, Contact] = {}
        self._answers: dict[str, Answer] = {}
        self._receivers: list[Receiver] = []
        self._dialling: set[Deferred[Any]] = set()
        self._running = False
        self._attached = Attachments(
            reactor,
            dice,
            lambda address, build: self._connect(address, self._bulk, build),
            lambda: self._running,
        )
        self.wear(badge)

    def wear(self, badge: Badge) -> None:
        """Show another certificate from now on."""
        self._amp = Dialler(badge, self.judge, AMP)
        self._bulk = Dialler(badge, self.judge, BULK)

    # IPeers

    def links(self) -> Sequence[Link]:
        """Those that are up, by node."""
        found = [c.link for c in self._contacts.values() if c.link is not None]
        return sorted(found, key=lambda link: link.node)

    def on_link(self, receiver: Receiver) -> None:
        """Tell C{receiver(link, up)} from now on."""
        self._receivers.append(receiver)

    def answer(self, word: str, handler: Answer) -> None:
        """One handler for each word."""
        self._answers[word] = handler

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """A connection of its own for each link; dialled again as long as the link lives."""
        name = self._attached.add(purpose, factory)
        for link in self.links():
            if link.dialled:
                self._attached.open_stream(link, name)

    # Service

    def startService(self) -> None:
        """Begin to dial."""
        self._running = True
        self.membership_changed()

    def stopService(self) -> None:
        """Close all links, and dial no more."""
        self._running = False
        for key in list(self._contacts):
            self._drop(key, "this node stops")
        for dialling in list(self._dialling):
            dialling.cancel()

    # Membership

    def judge(self, purpose: bytes, key: str) -> bool:
        """Whether the holder of a key may link to us."""
        return key != self._key and self._membership.is_member(key)

    def membership_changed(self, changes: Sequence[Any] = ()) -> None:
        """Dial new members, and close the links of nodes that are no longer members."""
        if not self._running:
            return
        current = {m.key: m for m in self._membership.members() if m.key != self._key}
        for key in [key for key in self._contacts if key not in current]:
            self._drop(key, "it is no longer a member")
        for key, member in current.items():
            contact = self._contacts.get(key)
            if contact is None:
                contact = self._contacts[key] = Contact(member, self._now())
                self._plan(contact, 0.0 if self.node < member.node else PATIENCE)
            elif contact.member != member:
                moved = contact.member.addresses != member.addresses
                contact.member = member
                if moved and contact.link is None:
                    contact.tries = 0
                    self._plan(contact, 0.0 if self.node < member.node else PATIENCE)

    def contacts(self) -> dict[str, Contact]:
        """By node key: the members that are linked or being dialled, for C{members}."""
        return self._contacts

    def _drop(self, key: str, reason: str) -> None:
        contact = self._contacts.pop(key)
        _cancel(contact)
        for door in list(contact.doors):
            if door.inner is None:
                _hang_up(door)
        if contact.link is not None:
            contact.link.close(reason)

    # Dialling

    def _plan(self, contact: Contact, delay: float) -> None:
        _cancel(contact)
        if self._running:
            contact.timer = self._reactor.callLater(delay, self._dial, contact)

    def _retry(self, contact: Contact, problem: str) -> None:
        """A connection that we dialled came to nothing, or a link was lost."""
        if self._contacts.get(contact.member.key) is not contact or contact.link is not None:
            return
        contact.problem = problem[:200]
        contact.tries += 1
        if not contact.is_away and self._now() - contact.since >= PATIENCE:
            # Never here since this node began: of a link that is lost link_down has told
            contact.is_away = True
            self.log.warn(
                "{node} cannot be reached: {reason}",
                node=contact.member.node,
                reason=contact.problem,
            )
        delay = min(MOST_DELAY, FIRST_DELAY * 1.6 ** min(contact.tries, 12))
        delay *= 0.5 + self._dice()
        if self.node > contact.member.node and self._now() - contact.since < PATIENCE:
            # The other one dials, but for one that has lost its disk: it knows nobody, and has
            # to hear soon that it is known (L{saltwisted.cluster.life.lifecycle})
            delay += PATIENCE
        self._plan(contact, delay)

    def _dial(self, contact: Contact) -> None:
        contact.timer = None
        if contact.link is not None:
            return
        addresses = contact.member.addresses
        if not addresses:
            self._retry(contact, "no address is known")
            return
        address = addresses[contact.tries % len(addresses)]

        def enter(session: Session) -> Any:
            if session.key != contact.member.key:
                return None
            return self._begin(session, True, address)

        def gone(door: Doorway) -> None:
            contact.doors.discard(door)
            if door.inner is None:
                self._retry(contact, f"{address}: TLS failed; is this node removed there?")

        def build() -> Doorway:
            door = Doorway(self._reactor, enter, gone)
            contact.doors.add(door)
            return door

        d = self._connect(address, self._amp, build)
        d.addErrback(lambda failure: self._retry(contact, f"{address}: {why(failure)}"))

    def _connect(self, address: str, dialler: Dialler, build: Callable[[], Protocol]) -> Any:
        host, port = split_address(address, self._default_port)
        endpoint = HostnameEndpoint(self._reactor, host, port, timeout=CONNECT_TIME)
        d = wrapClientTLS(dialler, endpoint).connect(_Single(build))
        self._dialling.add(d)

        def settled(value: Any) -> Any:
            self._dialling.discard(d)
            return value

        return d.addBoth(settled)

    # Links

    def enter(self, session: Session) -> Any:
        """A member has come in by our port."""
        if session.purpose == AMP:
            return self._begin(session, False, "")
        if session.purpose == BULK:
            return Attach(
                self._reactor, lambda purpose, name: self._attached.find(session, purpose, name)
            )
        return None

    def _begin(self, session: Session, dialled: bool, address: str) -> Any:
        # Asked again: the membership may have changed since the handshake began
        contact = self._contacts.get(session.key)
        if contact is None or not self._running or not self.judge(session.purpose, session.key):
            return None
        name = b"" if dialled else self._entropy(16)
        link = Link(self._reactor, contact.member.node, session, dialled, self._answers, self, name)
        link.address = address
        return link.wire

    def link_up(self, link: Link) -> None:
        """Its greeting is done. Of two links to one member, that of the lower name stays."""
        contact = self._contacts.get(link.session.key)
        if contact is None:
            link.close("it is no longer a member")
            return
        old = contact.link
        if old is not None:
            if self._is_regular(old) and not self._is_regular(link):
                link.close(REPLACED)
                return
            contact.link = None
            old.close(REPLACED)
        contact.link = link
        contact.problem = ""
        contact.tries = 0
        contact.seen = self._now()
        _cancel(contact)
        self._attached.up(link)
        if contact.is_away:
            contact.is_away = False
            self.log.warn("{node} is connected again", node=link.node)
        else:
            self.log.info("{node} is connected", node=link.node)
        self._tell(link, True)

    def _is_regular(self, link: Link) -> bool:
        return link.dialled == (self.node < link.node)

    def link_down(self, link: Link, reason: str, was_up: bool) -> None:
        """It has ended; dial again if that is ours to do."""
        self._attached.down(link)
        contact = self._contacts.get(link.session.key)
        if contact is not None and contact.link is link:
            contact.link = None
            contact.since = self._now()
            contact.seen = contact.since - link.silence
        if was_up:
            self._counters["peer_links_lost"] += 1
            is_gone = contact is not None and contact.link is None and reason != REPLACED
            if contact is not None and is_gone and self._running:
                contact.is_away = True
                self.log.warn(
                    "{node} is no longer connected: {reason}", node=link.node, reason=reason
                )
            self._tell(link, False)
        if contact is not None and contact.link is None and contact.timer is None:
            self._retry(contact, reason)

    def _tell(self, link: Link, up: bool) -> None:
        for receiver in list(self._receivers):
            try:
                receiver(link, up)
            except Exception:
                self.log.failure("a receiver of link changes failed")

    def open_bulk(self, link: Link) -> None:
        """The side that dialled a link dials its other connections, too."""
        self._attached.open_all(link)


_Peers: type[IPeers] = Peers  # mypy compares them


def _cancel(contact: Contact) -> None:
    timer, contact.timer = contact.timer, None
    if timer is not None and timer.active():
        timer.cancel()


def _hang_up(door: Doorway) -> None:
    transport: Any = door.transport
    if transport is not None:
        transport.abortConnection()
