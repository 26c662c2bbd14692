from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.catchup import CatchUp
from saltwisted.cluster.life.standstill import Standstill
from saltwisted.domain.replica import keyset
from saltwisted.domain.replica.asking import Asking
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.giving import Giving
from saltwisted.domain.replica.setback import SetBack
from saltwisted.stores.facts.log import ReplicaLog
from tests.sim.cluster import Broken, SimLog, World
from tests.sim.play import count

SEEDS = count(20, 200, 10_000)


class ClusterSimTests(SynchronousTestCase):
    def test_seeds(self) -> None:
        """However nodes, disks, clocks and network fail, all keys are the same when all is well."""
        for seed in range(SEEDS):
            World(seed).run()

    def test_same_seed_same_world(self) -> None:
        """A seed says everything: two runs of it are the same."""
        first, second = World(3), World(3)
        first.run()
        second.run()

        self.assertEqual(first.story, second.story)
        self.assertEqual(first.messages, second.messages)


class FoundTests(SynchronousTestCase):
    """What the simulation has found once; each seed was one of many that showed it."""

    def play(self, *seeds: int) -> None:
        for seed in seeds:
            World(seed).run()

    def test_deletions_dropped_at_different_times(self) -> None:
        """A key signs in again while some nodes have dropped its deletion and others have not."""
        self.play(46, 54)

    def test_clock_a_year_ahead(self) -> None:
        """A clock that jumps by a year does not end the life of all tombstones at once."""
        self.play(1584, 1705)

    def test_restart_after_forgetting(self) -> None:
        """A restart folds no old act again over what was forgotten since."""
        self.play(2427)

    def test_state_ahead_of_the_disk(self) -> None:
        """A whole state that is sent holds nothing that a crash of the sender could undo."""
        self.play(10530)

    def test_all_call_one_too_old(self) -> None:
        """A node that was set back by days is refused by all, joins as new, and is like them."""
        self.play(1419)

    def test_stopped_while_it_catches_up(self) -> None:
        """A node that is frozen before it serves hears the others again before it does."""
        self.play(30039)

    def test_seen_through_another(self) -> None:
        """Who accepts having seen a revocation has seen what that had seen."""
        self.play(41058)

    def test_numbers_used_again(self) -> None:
        """A node that was set back numbers nothing again by which a silent member knows another."""
        self.play(700950)


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out: else the simulation proves nothing."""

    def caught(self, *, first: int = 0, most: int = 120) -> None:
        for seed in range(first, first + most):
            try:
                World(seed).run()
            except Broken:
                # It was noticed inside Deferreds, too, which nobody reads any more
                gc.collect()
                self.flushLoggedErrors(Broken)
                return
        self.fail(f"not found out in {most} seeds")

    def test_an_acceptance_that_saw_nothing_wins(self) -> None:
        """An acceptance that had not seen a revocation outlives it."""

        def joined(one: Any, other: Any, seen: Any) -> dict[str, Any]:
            return {**other.grants, **one.grants}

        self.patch(keyset, "_joined_grants", joined)
        self.caught()

    def test_sent_before_it_is_on_disk(self) -> None:
        """Others hear of an entry before it is on disk here."""
        kept: Callable[..., Any] = ReplicaLog._write_own

        def hasty(log: ReplicaLog, entries: Sequence[Entry]) -> Any:
            log._book.written(entries)
            log._tell(entries, "")
            return kept(log, entries)

        self.patch(SimLog, "_write_own", hasty)
        self.caught()

    def test_no_new_incarnation(self) -> None:
        """A node whose disk was set back goes on under its old numbers."""
        self.patch(SetBack, "check", lambda set_back, peer: [])
        self.caught(first=72)

    def test_numbers_used_again(self) -> None:
        """A node goes on under its old numbers before all have said what they know of them."""
        self.patch(SimLog, "_use", lambda log: None)
        self.caught(first=700950, most=1)

    def test_no_push(self) -> None:
        """News travel with the digests alone."""
        self.patch(Giving, "push", lambda giving, peer, entries: [])
        self.caught()

    def test_nobody_relays(self) -> None:
        """What its origin cannot give any more is asked of nobody else."""
        self.patch(Giving, "wanted", lambda giving, peer, message: [])
        self.caught(first=20)

    def test_forgotten_at_once(self) -> None:
        """A deletion is dropped as soon as it is on disk, and who did not know it is believed."""
        kept = SimLog.mark
        self.patch(SimLog, "mark", lambda log, life, margin: kept(log, 1, 0))
        self.caught(first=24)

    def test_floor_is_forgotten(self) -> None:
        """A node that lacks what is no longer kept asks nobody for the whole state."""
        self.patch(Asking, "_ask_state", lambda asking, ready, now: [])
        self.caught()

    def test_no_gate_when_a_link_returns(self) -> None:
        """A node that was cut off answers with what it knew, until the news arrive."""
        self.patch(Standstill, "_link", lambda gap, link, up: None)
        self.caught()

    def test_no_gate_after_a_pause(self) -> None:
        """A node that was frozen answers with what it knew."""
        self.patch(Standstill, "_look", lambda gap: None)
        self.caught(first=16)

    def test_serves_at_once(self) -> None:
        """A node that was started serves before it has heard the others."""

        async def at_once(gate: CatchUp) -> None:
            """No wait."""

        self.patch(CatchUp, "_wait", at_once)
        self.caught()
