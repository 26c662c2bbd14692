"""
Seals and signs a job map, and sends the publication to every transport.

The publish key (Salt's main AES key) is kept here: one for all stock minions, as their protocol
requires. After a rotation, the next publication makes each stock minion sign in again. It still
finds the job then, because it decodes the same message with the new key (C{docs/wire.md}, section
14).

No C{serial} is sent: a counter would break as soon as a second master publishes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted.config.options import MasterConfig
from saltwisted.domain.secrecy import SecretJobs, is_secret
from saltwisted.interfaces import Entropy, IPublishServer
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.publication import BROADCAST, SYNDIC, seal_job, sign_blob, topic_of
from saltwisted.wire.rsa import PrivateKey

TOPIC_TYPES = frozenset(("glob", "pcre", "list"))
"""Target types which the master resolves itself; only these are sent by topic (zmq_filtering)."""

FORMER = 60.0
"""Seconds for which our own minions are told a publish key after another has taken its place: what
was published under it may still wait where they could not open it."""
MAX_FORMER = 16


class Publisher:
    """
    Seals jobs under the current publish key and sends them.

    @ivar secrets: which of the published jobs, of any node, are secret.
    """

    log = Logger()

    def __init__(
        self,
        config: MasterConfig,
        identity: PrivateKey,
        entropy: Entropy,
        key: SessionKey,
        seconds: Callable[[], float],
    ) -> None:
        """
        @param seconds: the time, on any clock that nobody sets.
        """
        self._seconds = seconds
        self._former: deque[tuple[SessionKey, float]] = deque(maxlen=MAX_FORMER)
        self._identity = identity
        self._entropy = entropy
        self._signing = config.publish_signing_algorithm if config.sign_pub_messages else ""
        # The tcp transport always sends to those alone who are meant, as in Salt
        self._filtering = bool(config.zmq_filtering) or config.transport == "tcp"
        self._order_masters = bool(config.order_masters)
        self._servers: list[IPublishServer] = []
        self.key = key
        self.next_key: SessionKey | None = None
        self.next_is_told = False
        self.under: tuple[SessionKey, ...] = ()
        self.published = 0
        self.on_publish: list[Callable[[], None]] = []
        self.secrets = SecretJobs()

    def add_server(self, server: IPublishServer) -> None:
        """From now on also publish on this transport."""
        self._servers.append(server)

    def prepare_rotation(self) -> SessionKey:
        """
        Make the key that the next L{rotate} switches to, so that it can be handed out before.

        A prepared key that was already handed out is replaced: its receiver may be the minion that
        is being revoked.
        """
        if self.next_key is None or self.next_is_told:
            self.next_key = SessionKey.generate(self._entropy)
            self.next_is_told = False
        return self.next_key

    def tell_next(self) -> SessionKey | None:
        """The key to come, for a minion that may know it."""
        self.next_is_told = self.next_key is not None
        return self.next_key

    def rotate(self) -> None:
        """Switch to a new publish key; no more publications can be made under the old one."""
        self.adopt(self.next_key or self.prepare_rotation())

    def adopt(self, key: SessionKey) -> None:
        """Publish under this key, which another master may have made, from now on."""
        self._former.appendleft((self.key, self._seconds() + FORMER))
        self.key = key
        self.next_key = None

    def expect(self, key: SessionKey | None) -> None:
        """The key that will follow, which another master may have made; if one will."""
        self.next_key = key

    def publish_under(self, keys: Sequence[SessionKey]) -> None:
        """While nodes hand out different keys, publish under each of these; or just under ours."""
        self.under = tuple(keys)

    def former(self) -> list[SessionKey]:
        """The keys that were in use until lately, newest first."""
        now = self._seconds()
        return [key for key, end in self._former if end > now and key != self.key]

    def readable(self) -> list[SessionKey]:
        """The keys that a minion may hold which has done nothing wrong, the likeliest first."""
        following = [] if self.next_key is None else [self.next_key]
        return [self.key, *following, *self.former()]

    def publish(self, job: Mapping[str, Any], minions: Sequence[str] | None) -> None:
        """
        Send one job; under several keys, the oldest first, while nodes hand out different ones.

        A minion that can read two of them drops the second by its jid.

        @param minions: the resolved ids, when the target is of a type that the master
            resolves; C{None} for all others, which each minion judges itself.
        """
        self.secrets.note(str(job["jid"]), is_secret(job))
        topics = None
        if self._filtering:
            topics = [BROADCAST]
            if minions is not None and job.get("tgt_type") in TOPIC_TYPES:
                topics = [topic_of(m) for m in minions]
                if self._order_masters:
                    topics.append(SYNDIC)
        for key in self.under or (self.key,):
            blob = seal_job(job, key, self._entropy(16))
            payload = sign_blob(blob, self._identity if self._signing else None, self._signing)
            for server in self._servers:
                server.publish(payload, topics)
        self.published += 1
        for hook in self.on_publish:
            hook()
