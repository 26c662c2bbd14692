"""
A new publish key for all nodes: all linked nodes store it before one hands it out.

The versions are facts (C{secret}, C{publish}). Each node tells the others (word C{publish-key})
which version it has and which it hands out. It switches when all linked nodes have the newest. From
the time when it has the new version until all hand it out, it publishes twice, under the old key
first: a minion may have signed in at a node that hands out another key than the one it listens to.
Minions drop a publication that they read twice, by its jid. This ends after a minute in any case,
because somebody who was just revoked may know the old key; and it ends at once when the old version
itself is revoked (the removal of a node).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from attrs import define
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.replica.secrets import Secret
from saltwisted.errors import WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "publish-key"
COALESCE = 1.0
"""Seconds in which further requests join one; also the time our own minions have to fetch it."""
PATIENCE = 60.0
"""Seconds after which a rotation no longer waits for sign-ins and for the one before, and after
which nothing is published under the old key any more."""
LAGGARDS = 5.0
"""Seconds that a linked node has to store the new version, and that our minions have that sign in,
before this node hands it out."""
SPACING = 5.0
"""Seconds between two new versions: a stock minion that hears of one by a job signs in for its key,
which takes seconds where the machine is busy, and could not read the job with the key after."""
RETRY = 0.5


class IKeyUser(Protocol):
    """The master's publisher."""

    @property
    def key(self) -> SessionKey:
        """The one that is handed out."""

    def adopt(self, key: SessionKey) -> None:
        """Hand this key out, and publish under it; none is expected to follow."""

    def expect(self, key: SessionKey | None) -> None:
        """The key that will follow, if one will."""

    def publish_under(self, keys: Sequence[SessionKey]) -> None:
        """Publish under each of these; with none, under the one that is handed out."""


@define
class _Other:
    """What another node has, and hands out: versions."""

    stored: int = 0
    used: int = 0


class ClusterRotation:
    """
    The part of one node. Reactor thread only.

    @param versions: the valid versions of the key, newest first.
    @param make: C{make()} adds a version; fires when it is in the log.
    @param settled: whether no accepted minion waits here for the answer to its sign-in: it may have
        been made to sign in by a publication that only the present key opens.
    @param announce: tells our own minions that a next key is ready.
    @param rotated: called after each switch.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        peers: IPeers,
        publisher: IKeyUser,
        versions: Callable[[], Sequence[Secret]],
        make: Callable[[], Awaitable[Any]],
        settled: Callable[[], bool],
        announce: Callable[[], None],
        rotated: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._peers = peers
        self._publisher = publisher
        self._versions = versions
        self._make = make
        self._settled = settled
        self._announce = announce
        self._rotated = rotated
        self._others: dict[str, _Other] = {}
        self._stored = 0
        self._used = 0
        self._since = -PATIENCE
        self._asked: IDelayedCall | None = None
        self._asked_at = 0.0
        self._switching: IDelayedCall | None = None
        self._expiry: IDelayedCall | None = None
        self._running = False
        peers.answer(WORD, self._heard)
        peers.on_link(self._link)

    def startService(self) -> None:
        """Hand out the newest version at once: nobody was served before."""
        self._running = True
        versions = self._versions()
        if versions:
            self._use(versions[0])
        else:
            let_go(as_deferred(self._make()), self.log, "no publish key could be made")

    def stopService(self) -> None:
        """Stop."""
        self._running = False
        for call in (self._asked, self._switching, self._expiry):
            if call is not None and call.active():
                call.cancel()
        self._asked = self._switching = self._expiry = None

    @property
    def pending(self) -> bool:
        """Whether a new key was asked for, or made, that is not handed out here yet."""
        return self._asked is not None or self._switching is not None

    # -- asking for one

    def request(self, why: str) -> bool:
        """Ask for a new key; it is one for all that ask within the next moment."""
        if self._asked is None and self._running:
            self.log.info("the cluster rotates its publish key: {why}", why=why)
            self._asked_at = self._clock.seconds()
            self._asked = self._clock.callLater(COALESCE, self._begin)
        return True

    def _begin(self) -> None:
        now = self._clock.seconds()
        under_way = now - self._since < PATIENCE and not self._all_use()
        busy = now - self._asked_at < PATIENCE and not self._settled()
        if under_way or busy or now - self._since < SPACING:
            self._asked = self._clock.callLater(RETRY, self._begin)
            return
        self._asked = None
        let_go(as_deferred(self._make()), self.log, "no publish key could be made")

    def _all_use(self) -> bool:
        return all(each >= self._stored for each in (self._used, *self._used_by_linked()))

    # -- a new version is in the log, whoever made it

    def changed(self) -> None:
        """The versions have changed, or some are no longer valid."""
        versions = self._versions()
        if not versions or not self._running:
            return
        newest = versions[0]
        if not self._used or newest.version == self._used:
            # The first of all, or a rival of the one in use
            self._use(newest)
        elif newest.version > self._stored:
            self._stored = newest.version
            self._since = self._clock.seconds()
            self._publisher.expect(_key(newest))
            self._announce()
            self._tell_all()
            self._plan(COALESCE)
        elif newest.version == self._stored:
            # A rival of ours under the same number has won
            self._publisher.expect(_key(newest))
        self._both()

    def _plan(self, delay: float) -> None:
        if self._switching is None:
            self._switching = self._clock.callLater(delay, self._switch)

    def _switch(self) -> None:
        self._switching = None
        late = [node for node, each in self._linked() if each.stored < self._stored]
        if (late or not self._settled()) and self._clock.seconds() - self._since < LAGGARDS:
            self._plan(RETRY)
            return
        if late:
            self.log.warn("{nodes}: have not stored the new publish key in time", nodes=late)
        versions = self._versions()
        if versions:
            self._use(versions[0])

    def _use(self, secret: Secret) -> None:
        key = _key(secret)
        first, is_new = not self._used, key != self._publisher.key
        self._used = self._stored = secret.version
        if is_new:
            self._publisher.adopt(key)
        self._publisher.expect(None)
        self._tell_all()
        self._both()
        if is_new and not first:
            self._rotated()

    # -- publishing twice

    def _both(self) -> None:
        """Publish under both versions, as long as there is reason to."""
        keys = tuple(_key(each) for each in reversed(self._versions()))
        left = self._since + PATIENCE - self._clock.seconds()
        if left > 0 and not self._all_use():
            self._publisher.publish_under(keys if self._publisher.key in keys else ())
            if self._expiry is None:
                self._expiry = self._clock.callLater(left, self._expired)
        else:
            self._publisher.publish_under(())

    def _expired(self) -> None:
        self._expiry = None
        self._both()

    # -- the others

    def _linked(self) -> list[tuple[str, _Other]]:
        return [
            (link.node, self._others.setdefault(link.node, _Other()))
            for link in self._peers.links()
        ]

    def _used_by_linked(self) -> list[int]:
        return [each.used for _, each in self._linked()]

    def _body(self) -> bytes:
        return pack_bin([self._stored, self._used])

    def _tell_all(self) -> None:
        for link in self._peers.links():
            link.tell(WORD, self._body())

    def _link(self, link: IPeerLink, up: bool) -> None:
        self._others.pop(link.node, None)
        if not self._running:
            # Links go after this, and a timer that begins now would have no end
            return
        if up:
            link.tell(WORD, self._body())
        self._both()

    def _heard(self, node: str, body: bytes) -> None:
        try:
            stored, used = unpack_bin(body)
            self._others[node] = _Other(int(stored), int(used))
        except (WireError, TypeError, ValueError):
            self.log.error("{node} sent an invalid publish key: {error}", node=node)
            return
        if self._running:
            self._both()


def _key(secret: Secret) -> SessionKey:
    return SessionKey(secret.value.decode("ascii"))
