"""
The parts of a member, each without the others: its gate, and what is kept beside the log.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life import keptmembership
from saltwisted.cluster.life.gate import LINGER, Farewell, MemberGate
from saltwisted.cluster.life.keptmembership import KEEP_FACTS, KeptMembership
from saltwisted.transports.tls import AMP, BULK, JOIN


class Wire(StringTransport):
    """A transport that can be aborted."""

    aborted = False

    def abortConnection(self) -> None:
        """Note it."""
        self.aborted = True


class Members:
    """A membership of one live and one removed node."""

    def __init__(self) -> None:
        self.rows = {
            "live": SimpleNamespace(key="live", removed=None, added=None, wait=False),
            "gone": SimpleNamespace(key="gone", removed=(1, "a"), added=None, wait=False),
        }

    def find(self, key: str) -> Any:
        """One of them."""
        return self.rows.get(key)

    def live(self) -> list[Any]:
        """Those that are members."""
        return [row for row in self.rows.values() if row.removed is None]


class GateTests(SynchronousTestCase):
    """Who may come in at the peer port."""

    def setUp(self) -> None:
        """A gate with nothing to join by."""
        self.is_open = False
        members: Any = Members()
        peers: Any = SimpleNamespace(
            judge=lambda purpose, key: key == "live",
            enter=lambda session: "link",
            links=lambda: [],
        )
        self.clock = Clock()
        admission: Any = SimpleNamespace(
            open=lambda: self.is_open, reader=lambda session: "reader", clock=self.clock
        )
        self.gate = MemberGate(
            key="own", membership=members, peers=peers, admission=admission, now=lambda: 1e6
        )

    def test_members(self) -> None:
        """A member gets a link, a removed one a farewell and no more, a stranger nothing."""
        may = {key: self.gate.judge(AMP, key) for key in ("live", "gone", "stranger")}
        self.assertEqual(may, {"live": True, "gone": True, "stranger": False})
        self.assertFalse(self.gate.judge(BULK, "gone"))
        entered: dict[str, Any] = {
            key: self.gate.enter(SimpleNamespace(purpose=AMP, key=key))  # type: ignore[arg-type]
            for key in ("live", "gone")
        }
        self.assertEqual(entered["live"], "link")
        self.assertIsInstance(entered["gone"], Farewell)

    def test_T_MEM_1_farewell(self) -> None:
        """T-MEM-1: a removed node that does not take its farewell is hung up on."""
        farewell, wire = Farewell(self.clock), Wire()
        farewell.makeConnection(wire)
        farewell.dataReceived(b"x" * 100)
        self.clock.advance(LINGER)

        self.assertTrue(wire.aborted)
        self.assertIn(b"farewell", wire.value())
        polite = Farewell(self.clock)
        polite.makeConnection(Wire())
        polite.connectionLost()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_joins(self) -> None:
        """A stranger's record is read only while there is something to join by."""
        self.assertEqual(list(self.gate.purposes()), [AMP, BULK])
        self.assertFalse(self.gate.judge(JOIN, "stranger"))
        self.is_open = True
        self.assertEqual(list(self.gate.purposes()), [AMP, BULK, JOIN])
        self.assertTrue(self.gate.judge(JOIN, "stranger"))


class KeptTests(SynchronousTestCase):
    """The membership beside the log."""

    def setUp(self) -> None:
        """One whose facts are a number."""
        self.clock, self.written, self.threads = Clock(), [], 0
        self.number = b"1"
        self.patch(keptmembership, "pack_facts", lambda *folds: self.number)
        folds: Any = None
        self.kept = KeptMembership(
            reactor=self.clock,
            membership=folds,
            secrets=folds,
            tokens=folds,
            files=SimpleNamespace(keep_facts=self.written.append),  # type: ignore[arg-type]
            in_thread=self.in_thread,
        )

    def in_thread(self, write: Any) -> None:
        """At once."""
        self.threads += 1
        write()

    def test_once(self) -> None:
        """Many changes are one write, of how things are then, in a thread."""
        for _ in range(3):
            self.kept.keep_soon()
        self.number = b"2"
        self.clock.advance(KEEP_FACTS)
        self.assertEqual((self.written, self.threads), ([b"2"], 1))

    def test_at_the_end(self) -> None:
        """A change that waits is written before the end; without one nothing is."""
        self.kept.stop()
        self.assertEqual(self.written, [])
        self.kept.keep_soon()
        self.kept.stop()
        self.assertEqual((self.written, self.threads), ([b"1"], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])
