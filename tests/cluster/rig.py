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
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from saltwisted.cluster.peers import Peers
from saltwisted.cluster.port import PeerPort
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.entry import Dot
from saltwisted.domain.replica.membership import Membership
from saltwisted.transports.tls import AMP, BULK, Badge

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
            node.membership.apply(body, 1 + number, Dot("test", "0" * 16, number + 1))
    for node in nodes:
        node.peers.membership_changed()


def remove(node: PeerNode, gone: PeerNode) -> None:
    """A node learns that another is no member any more."""
    node.membership.apply(
        {"op": "remove", "key": gone.key.id, "by": "test", "left": False},
        99,
        Dot("test", "0" * 16, 99),
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
