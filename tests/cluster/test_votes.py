"""
The votes of a member: what is read at its start.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.claims.votes import Votes
from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.claims.voter import Memory, Vote, Write
from saltwisted.transports import turns
from saltwisted.transports.deferreds import as_deferred
from tests.cluster.memory import MemoryPeers
from tests.master.test_automation_turns import one_turn


class Store:
    """A disk with the votes of an earlier life."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def load(self) -> Deferred[Memory]:
        """At once."""
        return succeed(self.memory)

    def write(self, writes: list[Write]) -> Deferred[None]:
        """At once."""
        return succeed(None)

    def close(self) -> Deferred[None]:
        """Nothing is open."""
        return succeed(None)


class StartTests(SynchronousTestCase):
    """A member with thousands of votes."""

    def test_in_turns(self) -> None:
        """They are read in turns; before all are read it votes for nothing."""
        self.patch(turns, "PORTION", -1.0)
        clock = Clock()
        cast = [Vote(number=n, key=f"act/{n}", term=n, holder="b#1", ended=1.0) for n in range(40)]
        memory = Memory(cast, found([Seat("a", "a")]), 0, False)
        nobody: Any = None
        votes = Votes(
            clock, "a", "a", MemoryPeers("a", clock), lambda: [Seat("a", "a")], set,
            lambda link: link.node, Store(memory), "2", clock.seconds,
        )  # fmt: skip
        started = as_deferred(votes.startService())
        for _ in range(39):
            one_turn(clock)
            self.assertIs(votes.voter, nobody)
        clock.pump([0.0] * 3)

        self.successResultOf(started)
        assert votes.voter is not None
        self.assertEqual((len(list(votes.voter.votes())), votes.voter.highest), (40, 39))
        self.successResultOf(as_deferred(votes.stopService()))
