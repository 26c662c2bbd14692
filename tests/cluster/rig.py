"""
Nodes with real peer ports on loopback, in one process, for tests of links and joins.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater

from saltwisted.cluster.life.join import Admission, Joiner
from saltwisted.cluster.links.peers import Peers
from saltwisted.cluster.links.port import PeerPort
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.membership import Membership
from saltwisted.domain.replica.secrets import Secrets
from saltwisted.domain.replica.tokens import Token, Tokens, new_token
from saltwisted.transports.tls import AMP, BULK, JOIN, Badge
from saltwisted.wire.rsa import PrivateKey, fingerprint

CLUSTER = "00112233aabb"


class PeerNode:
    """One node: its key, its port, its links. Its membership is filled by L{introduce}."""

    def __init__(self, name: str, authority: NodeKey, cluster: str = CLUSTER) -> None:
        self.name = name
        self.key = NodeKey.generate()
        self.membership = Membership()
        self.counters: Counter[str] = Counter()
        certificate = issue(authority, self.key.public, name, cluster, time.time())
        self.badge = Badge(self.key, certificate)
        self.port = PeerPort(reactor, "127.0.0.1", 0, self.badge, self.counters)
        self.peers = Peers(
            reactor,
            name,
            cluster,
            self.badge,
            self.membership,
            random.Random(1).random,
            os.urandom,
            0,
            self.counters,
            time.time,
        )
        self.port.gate = self
        self.events: list[tuple[str, bool]] = []
        self.peers.on_link(lambda link, up: self.events.append((link.node, up)))

    def purposes(self) -> list[bytes]:
        """Links alone."""
        return [AMP, BULK]

    def judge(self, purpose: bytes, key: str) -> bool:
        """Members alone."""
        return self.peers.judge(purpose, key)

    def enter(self, session: Any) -> Any:
        """To the links."""
        return self.peers.enter(session)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port.port}"

    def start(self) -> None:
        """Listen and dial."""
        self.port.startService()
        self.peers.startService()

    def stop(self) -> Any:
        """Close everything."""
        self.peers.stopService()
        return self.port.stopService()

    def link(self, name: str) -> Any:
        """The link to a node, or C{None}."""
        return next((link for link in self.peers.links() if link.node == name), None)


def introduce(*nodes: PeerNode) -> None:
    """Every node learns of every other."""
    for number, known in enumerate(nodes):
        body = {
            "op": "add",
            "key": known.key.id,
            "node": known.name,
            "public": known.key.public.hex(),
            "by": "test",
            "token": "",
            "wait": False,
            "about": {"addresses": [known.address], "slot": number, "version": "1"},
        }
        for node in nodes:
            node.membership.apply(body, 1 + number, Dot(Stream("test", "0" * 16), number + 1))
    for node in nodes:
        node.peers.membership_changed()


def remove(node: PeerNode, gone: PeerNode) -> None:
    """A node learns that another is no longer a member."""
    node.membership.apply(
        {"op": "remove", "key": gone.key.id, "by": "test", "left": False},
        99,
        Dot(Stream("test", "0" * 16), 99),
    )
    node.peers.membership_changed()


async def until(condition: Any, what: str, seconds: float = 10.0) -> Any:
    """Wait for something that can be observed."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        await deferLater(reactor, 0.01)


def run(coroutine: Any) -> Deferred[Any]:
    """A test's coroutine as what trial waits for."""
    return Deferred.fromCoroutine(coroutine)


class Admitter(PeerNode):
    """A member that admits by token: its facts are in folds alone, without a log."""

    def __init__(self, name: str = "a", cluster_secret: str = "") -> None:
        self.authority = NodeKey.generate()
        super().__init__(name, self.authority)
        self.badge = Badge(
            self.key,
            self.badge.certificate,
            issue(self.authority, self.authority.public, "ca", CLUSTER, time.time(), is_ca=True),
        )
        self.port.wear(self.badge)
        self.tokens, self.secrets = Tokens(), Secrets()
        self.alarms: list[tuple[str, dict[str, Any]]] = []
        self.time = 1_700_000_000.0
        self._number = 0
        private = PrivateKey.generate(2048)
        self.pair = private.pem().encode(), private.public.pem.encode()
        self.admission = Admission(
            node=name,
            cluster=CLUSTER,
            key=self.key.id,
            clock=reactor,
            now=lambda: self.time,
            entropy=os.urandom,
            membership=self.membership,
            tokens=self.tokens,
            secrets=self.secrets,
            log_append=self.append,
            identity=lambda: self.pair,
            fingerprint=lambda: fingerprint(self.pair[1]),
            minions=lambda: 0,
            cluster_secret=cluster_secret,
            alarm=lambda tag, data: self.alarms.append((tag, data)),
            ask_peers=self.ask_peers,
            census=self.census,
        )
        body = self.secrets.next_body("authority", self.authority.pem, self.time)
        self.append("secret", body)

    def census(self) -> Deferred[Any]:
        """What it has."""
        return succeed({"keys": {}, "files": {}, "options": {"peer": "{}"}, "cut": False})

    def append(self, kind: str, body: Any) -> Deferred[None]:
        """Into the folds at once."""
        self._number += 1
        dot = Dot(Stream(self.name, "0" * 16), self._number)
        folds = {"member": self.membership, "token": self.tokens, "secret": self.secrets}
        folds[kind].apply(body, int(self.time * 1000) << 16 | self._number, dot)
        self.peers.membership_changed()
        return succeed(None)

    def ask_peers(self, word: str, body: bytes, seconds: float) -> Deferred[list[bytes]]:
        """There are no others."""
        return succeed([])

    def purposes(self) -> list[bytes]:
        """Links and joins."""
        return [AMP, BULK, JOIN] if self.admission.open() else [AMP, BULK]

    def judge(self, purpose: bytes, key: str) -> bool:
        """Anybody for a join."""
        return self.admission.open() if purpose == JOIN else self.peers.judge(purpose, key)

    def enter(self, session: Any) -> Any:
        """To the links, or to the admission."""
        if session.purpose == JOIN:
            return self.admission.reader(session)
        return self.peers.enter(session)

    def token(self, *, wait: bool = False, **terms: Any) -> Token:
        """A live token; C{wait}: whoever joins by it waits for an operator."""
        values: dict[str, Any] = {
            "pin": self.authority.id,
            "expiry": self.time + 60,
            "cluster": CLUSTER,
            "peers": (self.address,),
            **terms,
        }
        token = new_token(os.urandom, **values)
        self.append("token", self.tokens.create_body(token, "test", wait=wait))
        return token


def joiner(token: Token | None = None, **more: Any) -> Joiner:
    """A node that asks, with a key of its own."""
    key = NodeKey.generate()
    badge = Badge(key, issue(key, key.public, "x", "none", time.time()))
    return Joiner(reactor=reactor, badge=badge, entropy=os.urandom, token=token, **more)


def enter_as(node: str, **more: Any) -> dict[str, Any]:
    """What a joiner says."""
    return {"do": "join", "node": node, "port": 4520, "version": "1", **more}
