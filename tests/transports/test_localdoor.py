"""
One control socket for a daemon's whole life, while the tables behind it come and go.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import Counter
from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from saltwisted.domain.operations.table import ACCOUNT, Call, Operation, Operations
from saltwisted.errors import TransportClosed
from saltwisted.transports.localdoor import Behind, Doorway
from saltwisted.worker.control import ControlClient
from tests.harness import scratch


class DoorwayTests(TestCase):
    """A table that says who it is, and one that never answers."""

    def setUp(self) -> None:
        """A doorway that listens."""
        self.path = os.path.join(scratch(self), "socket")
        self.asked: defer.Deferred[None] = defer.Deferred()
        self.doorway = Doorway(reactor, self.path, self.table("between"))
        self.doorway.startService()
        self.addCleanup(self.doorway.stopService)

    def table(self, name: str) -> Operations:
        """A table whose C{who} is this name."""

        async def who(call: Call) -> Any:
            """Say who answers."""
            return name

        async def never(call: Call) -> Any:
            """Never answer."""
            self.asked.callback(None)
            await defer.Deferred()

        return Operations(
            name,
            [
                Operation(name="who", right=ACCOUNT, handler=who),
                Operation(name="never", right=ACCOUNT, handler=never),
            ],
        )

    def ask(self, op: str) -> Any:
        """One question by a connection of its own."""

        def blocking() -> Any:
            client = ControlClient(path=self.path, timeout=30.0)
            try:
                return client.call(op)
            finally:
                client.close()

        return deferToThread(blocking)

    @defer.inlineCallbacks
    def test_tables(self) -> Any:
        """Each table answers from its start to its stop, and the other one in between."""
        behind = Behind(self.doorway, self.table("a member"), Counter())
        told = [(yield self.ask("who"))]
        for act in (behind.startService, behind.stopService, behind.startService):
            yield defer.maybeDeferred(act)
            told.append((yield self.ask("who")))
        self.assertEqual(told, ["between", "a member", "between", "a member"])

    @defer.inlineCallbacks
    def test_unanswered(self) -> Any:
        """Who waits for an answer of a table that stops is hung up on, and does not wait on."""
        behind = Behind(self.doorway, self.table("a member"), Counter())
        behind.startService()
        waiting = self.ask("never")
        yield self.asked
        yield behind.stopService()
        yield self.assertFailure(waiting, TransportClosed)
        self.assertEqual((yield self.ask("who")), "between")

    @defer.inlineCallbacks
    def test_counted(self) -> Any:
        """What a client does wrong is counted where the table's master shows it."""
        counters: Counter[str] = Counter()
        Behind(self.doorway, self.table("a member"), counters).startService()

        def nonsense() -> None:
            with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(ConnectionError):
                sock.connect(self.path)
                sock.sendall(b"\xff\xff\xff\xff")
                sock.recv(1)

        yield deferToThread(nonsense)
        self.assertEqual(counters["ipc_dropped_oversized"], 1)
