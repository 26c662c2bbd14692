"""TLS between nodes: a connection for bulk encrypts what is written at once, at once."""

from __future__ import annotations

import os
from typing import Any

from OpenSSL import SSL
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports.bulk import RECORD, widen
from saltwisted.transports.tls import BULK, Acceptor, Dialler
from tests.cluster.rig import joiner


class Counted(StringTransport):
    """Counts how often it is written to."""

    writes = 0

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.writes += 1
        super().write(data)


class Kept(Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.got = b""

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.got += data


class WidenTests(SynchronousTestCase):
    """Both ends in one process."""

    def setUp(self) -> None:
        """A connection whose handshake is done."""
        badge = joiner().badge
        self.clock = Clock()
        self.ends = []
        for creator, client in (
            (Dialler(badge, lambda purpose, key: True, BULK), True),
            (Acceptor(badge, lambda purpose, key: True, lambda offered: [BULK]), False),
        ):
            inner = Kept()
            factory = Factory()
            factory.buildProtocol = lambda addr, inner=inner: inner  # type: ignore
            outer = TLSMemoryBIOFactory(creator, client, factory)
            outer._clock = self.clock  # of those Twisteds that gather small writes
            protocol = outer.buildProtocol(None)
            transport = Counted()
            protocol.makeConnection(transport)
            self.ends.append((protocol, transport, inner))
        self.pump()

    def pump(self) -> None:
        """Carry bytes until none is left."""
        self.clock.advance(1)
        moved = True
        while moved:
            moved = False
            for number, (_, transport, _) in enumerate(self.ends):
                data = transport.value()
                transport.clear()
                if data:
                    moved = True
                    self.ends[1 - number][0].dataReceived(data)

    def test_in_order_and_together(self) -> None:
        """Small and large writes come as they were written; a large one is one for the socket."""
        (one, transport, _), (_, _, other) = self.ends
        widen(one)
        large = [os.urandom(40 * RECORD + 1), os.urandom(RECORD), os.urandom(7 * RECORD)]
        transport.writes = 0
        one.write(large[0])
        self.assertLessEqual(transport.writes, 7)
        for data in (b"small", large[1], b"", large[2], b"last"):
            one.write(data)
        self.pump()
        self.assertEqual(other.got, large[0] + b"small" + large[1] + large[2] + b"last")

    def test_sequence(self) -> None:
        """A sequence is one for the socket, behind what was written before."""
        (one, transport, _), (_, _, other) = self.ends
        widen(one)
        body = os.urandom(32 * RECORD)
        one.write(b"before")
        transport.writes = 0
        one.writeSequence([b"head", body])
        self.assertLessEqual(transport.writes, 2)
        one.writeSequence([b"small", b"one"])
        one.writeSequence([])
        one.write(b"after")
        self.pump()
        self.assertEqual(other.got, b"before" + b"head" + body + b"smallone" + b"after")

    def test_sequence_while_it_waits(self) -> None:
        """While TLS wants to hear something first, nothing overtakes what waits for that."""
        (one, _, _), (_, _, other) = self.ends
        widen(one)
        send = one.getHandle().send
        left = [2]

        def waits(data: Any) -> int:
            left[0] -= 1
            if left[0] == 0:
                raise SSL.WantReadError
            return int(send(data))

        one.getHandle().send = waits
        first, second = os.urandom(3 * RECORD), os.urandom(3 * RECORD)
        one.writeSequence([b"head", first, b"middle"])
        one.writeSequence([second, b"tail"])
        # Whatever the other says lets what waits go out
        self.ends[1][0].write(b"go on")
        self.pump()
        self.assertEqual(other.got, b"head" + first + b"middle" + second + b"tail")

    def test_failure_while_reading(self) -> None:
        """What one connection had read when something broke is never given to another."""
        (one, transport, _), (two, _, other) = self.ends
        widen(one)
        widen(two)
        one.write(b"first" * 10_000)
        self.clock.advance(1)
        ask = two.getHandle()._raise_ssl_error

        def broken(ssl: Any, result: int) -> None:
            raise RuntimeError("broken")

        two.getHandle()._raise_ssl_error = broken
        data = transport.value()
        transport.clear()
        self.assertRaises(RuntimeError, two.dataReceived, data)
        two.getHandle()._raise_ssl_error = ask
        one.write(b"second")
        self.pump()
        self.assertEqual(other.got, b"second")

    def test_goodbye_behind_data(self) -> None:
        """What was sent before the end still comes."""
        (one, _, inner), (two, _, other) = self.ends
        widen(one)
        widen(two)
        one.write(bytes(3 * RECORD))
        one.loseConnection()
        self.pump()
        self.assertEqual(len(other.got), 3 * RECORD)
        self.assertTrue(two.disconnecting or two._lostTLSConnection)
        self.assertEqual(inner.got, b"")

    def test_after_the_end(self) -> None:
        """A write to a connection that is gone does nothing."""
        (one, _, inner), _ = self.ends
        widen(one)
        one.loseConnection()
        one.write(bytes(4 * RECORD))
        self.pump()
        one.write(bytes(4 * RECORD))
        one.writeSequence([b"head", bytes(4 * RECORD)])
        self.assertEqual(inner.got, b"")

    def test_another_transport(self) -> None:
        """Whatever is not TLS stays as it is."""
        transport = StringTransport()
        widen(transport)
        transport.write(b"x" * 100_000)
        self.assertEqual(len(transport.value()), 100_000)
