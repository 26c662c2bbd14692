"""
Members join and leave while an orchestration goes on: on whose disks its lines count then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.electorate import Seat
from saltwisted.domain.orchestration.copies import Record
from saltwisted.domain.orchestration.seats import seats_of
from saltwisted.domain.orchestration.words import (
    begun_line,
    pack_line,
    read_run,
    result_line,
    step_line,
)
from saltwisted.errors import StoreError, TakenOver
from saltwisted.master.orchestration.keepers import Electors, alone
from saltwisted.master.orchestration.protocols import IRunWriter
from saltwisted.master.orchestration.records import RunRecords
from saltwisted.transports.deferreds import as_deferred
from tests.cluster.memory import MemoryPeers
from tests.master.test_run_records import ABOUT, MemoryStore

JID = "20261123100000000000"
LINES = (step_line(0, "20261123100000000001", "a", 101.0), result_line(0, {}, "a", 102.0))


class SeatsTests(SynchronousTestCase):
    """
    Nodes in memory.

    @ivar members: whom each takes for members.
    @ivar gone: who was removed, as all have heard.
    """

    def setUp(self) -> None:
        """Three members, all linked; two more that are none yet."""
        self.clock = Clock()
        self.gone: set[str] = set()
        self.members: dict[str, set[str]] = {}
        self.peers: dict[str, MemoryPeers] = {}
        self.records: dict[str, RunRecords] = {}
        for name in "abcde":
            self.make(name)
        self.meet("abc")

    def make(self, name: str, *records: Record, electors: Electors | None = None) -> None:
        """One that runs, with these on its disk."""
        self.members[name] = {name}
        self.peers[name] = MemoryPeers(name, self.clock)
        made = self.records[name] = RunRecords(
            self.clock,
            name,
            self.peers[name],
            electors
            or Electors(
                key=f"key of {name}",
                members=lambda: [Seat(each, f"key of {each}") for each in self.members[name]],
                gone=lambda: {f"key of {each}" for each in self.gone},
                key_of=lambda link: f"key of {link.node}",
            ),
            MemoryStore(records),
        )
        self.wait(made.startService())
        self.addCleanup(self.stop, made)

    def stop(self, made: RunRecords) -> None:
        """No timer is left."""
        self.wait(made.stopService())

    def meet(self, names: str) -> None:
        """These are members, and linked to each other, but for those that are linked already."""
        for name in names:
            self.members[name] |= set(names)
            for other in names:
                if other < name and self.peers[name].link(other) is None:
                    self.peers[name].join(self.peers[other])

    def cut(self, names: str) -> None:
        """These are linked to nobody any more."""
        for name in names:
            for link in list(self.peers[name].links()):
                self.peers[name].cut(link.node)

    def wait(self, waiting: Any, seconds: int = 3) -> Any:
        """What it comes to."""
        return self.successResultOf(self.later(waiting, seconds))

    def later(self, waiting: Any, seconds: int = 3) -> Deferred[Any]:
        """Time passes for it."""
        d = as_deferred(waiting)
        self.clock.pump([0.01] * 100 * seconds)
        return d

    def begin(self, node: str = "a") -> IRunWriter:
        """A run."""
        line = begun_line(node, 100.0, ABOUT)
        writer: IRunWriter = self.wait(self.records[node].begin(JID, 1, line, lambda: True))
        return writer

    def write(self, writer: IRunWriter, lines: Iterable[Mapping[str, Any]] = LINES) -> None:
        """These count."""
        for line in lines:
            self.wait(writer.add(line))

    def take(self, node: str) -> Deferred[IRunWriter]:
        """Go on with it elsewhere."""
        return self.later(self.records[node].take(JID, 1, 2, lambda: True, 1.0), 8)

    def known(self, node: str) -> int:
        """How many lines of steps a node finds when it takes the run over; 0: it cannot."""
        writer = self.successResultOf(self.take(node))
        run = read_run(JID, writer.lines)
        writer.close()
        return sum(1 for step in run.steps if step.is_over)

    def seats(self, writer: IRunWriter) -> list[str]:
        """Who has one; a comma is between the old and the new ones."""
        found, _ = seats_of(writer.lines)
        assert found is not None
        return ["".join(seat.node for seat in each) for each in found.sets]

    def test_missed_by_a_new_majority(self) -> None:
        """
        A node that lacks the latest lines cannot go on with the help of newcomers that lack them as
        well, though the three are a majority of the members; it says who is missing, and can when
        one of these is back.
        """
        writer = self.begin()
        self.cut("c")
        self.write(writer)
        writer.close()
        self.meet("cde")
        self.members["c"] |= set("abcde")

        error = self.failureResultOf(self.take("c"), TakenOver).getErrorMessage()
        self.assertIn("on a majority of a, b, c, and a, b cannot be asked", error)

        self.peers["c"].join(self.peers["b"])
        self.assertEqual(self.known("c"), 1)

    def test_newcomers_get_seats(self) -> None:
        """Who joins in the middle of a run has its lines, and those before can be away then."""
        writer = self.begin()
        self.meet("abcde")
        self.clock.pump([0.1] * 30)
        self.assertEqual(self.seats(writer), ["abcde"])
        self.write(writer)
        writer.close()
        self.cut("ab")

        self.assertEqual(self.known("d"), 1)

    def test_newcomers_that_are_away(self) -> None:
        """Who joins and is not there keeps nobody from a majority: it has no seat yet."""
        writer = self.begin()
        self.members["a"] |= set("de")
        self.write(writer)
        self.assertEqual(self.seats(writer), ["abc"])

        self.meet("ad")
        self.clock.pump([0.1] * 30)

        self.assertEqual(self.seats(writer), ["abcd"])

    def test_both_majorities(self) -> None:
        """Behind a cut from the others, newcomers alone do not make lines count."""
        writer = self.begin()
        self.cut("a")
        self.meet("ade")
        self.members["a"] |= set("bc")
        done = self.later(writer.add(LINES[0]))
        self.assertNoResult(done)

        self.meet("ab")
        self.clock.pump([0.1] * 30)

        self.successResultOf(done)
        self.assertEqual(self.seats(writer), ["abcde"])

    def test_who_leaves(self) -> None:
        """Who was removed has no seat any more, and what is left goes by the rule for two."""
        writer = self.begin()
        self.cut("c")
        self.gone = {"c"}
        for name in "ab":
            self.members[name].discard("c")
        self.clock.pump([0.1] * 30)
        self.assertEqual(self.seats(writer), ["ab"])
        self.cut("b")

        self.write(writer)

    def test_read_with_a_full_disk(self) -> None:
        """What another node has is shown, though it cannot be written here; that is no failure."""
        self.cut("c")
        writer = self.begin()
        self.write(writer)
        self.patch(MemoryStore, "write", lambda *args: fail(StoreError("no space left")))
        self.meet("bc")

        found = self.wait(self.records["c"].read(JID))

        self.assertEqual(tuple(found), tuple(writer.lines))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_namesake(self) -> None:
        """A node that was made anew has nothing, and does not count for its namesake's seat."""
        writer = self.begin()
        self.cut("c")
        self.write(writer)
        writer.close()
        self.cut("ab")
        members, names = self.members, "abc"
        self.make(
            "b",
            electors=Electors(
                key="new key of b",
                members=lambda: [Seat(each, f"key of {each}") for each in names],
                key_of=lambda link: f"key of {link.node}",
            ),
        )
        of_c = self.records["c"].keepers
        self.patch(
            of_c,
            "_electors",
            Electors(
                key="key of c",
                members=lambda: [Seat(each, f"key of {each}") for each in sorted(members["c"])],
                key_of=lambda link: f"new key of {link.node}",
            ),
        )
        self.peers["c"].join(self.peers["b"])

        self.failureResultOf(self.take("c"), TakenOver)

    def test_all_are_gone(self) -> None:
        """
        Where nobody is left of those that had seats, a run is taken over by the members there are,
        and it is said that lines may be missing; not so where a majority is left.
        """
        writer = self.begin()
        self.meet("abcde")
        self.clock.pump([0.1] * 30)
        writer.close()
        self.cut("ab")
        lines = tuple(writer.lines)
        self.make("f", Record(jid=JID, promised=(1, 1), term=(1, 1), lines=lines))
        for node, gone, doubtful in (("d", "ab", False), ("d", "abc", True), ("f", "abcde", True)):
            self.gone = set(gone)
            taken = self.successResultOf(self.take(node))
            self.assertIs(taken.doubtful, doubtful, gone)
            taken.close()

    def test_alone_before(self) -> None:
        """What a node began as a master alone, it finds again as a member of a cluster."""
        self.make("f", electors=alone("f"))
        writer = self.begin("f")
        self.write(writer)
        lines = tuple(writer.lines)
        writer.close()
        self.make("f", Record(jid=JID, promised=(1, 1), term=(1, 1), lines=lines))
        self.meet("abf")

        taken = self.successResultOf(self.take("f"))
        self.clock.pump([0.1] * 30)

        self.assertEqual(self.seats(taken), ["abf"])

    def test_of_an_earlier_release(self) -> None:
        """A run whose lines name no seats is gone on with by the members, which are named then."""
        lines = tuple(map(pack_line, (begun_line("x", 100.0, ABOUT), *LINES)))
        self.make("f", Record(jid=JID, promised=(1, 1), term=(1, 1), lines=lines))
        self.meet("abf")

        self.assertEqual(self.seats(self.successResultOf(self.take("f"))), ["abf"])
