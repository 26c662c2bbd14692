"""
Laws of replicated roots: convergence, nothing lost, no resurrection, causal order.

The replicas run in memory; broken variants of the index, listed here, must be caught by the same
judge. C{SALTWISTED_ROOTS_RUNS=N} runs N random stories instead of the usual few.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import covers, joined
from saltwisted.domain.roots.entry import (
    ABSENT,
    Batch,
    Knowledge,
    ReplicaId,
    TreeEntry,
    Version,
    lanes,
)
from saltwisted.domain.roots.index import Index, NotYet, Outcome, Policy, Rows
from tests.roots.world import PATHS, Replica, Violation, World, file, random_run

RUNS = int(os.environ.get("SALTWISTED_ROOTS_RUNS", "300"))
WITHIN = 400
"""Random stories within which each broken variant must be caught."""


class Replicas(RuleBasedStateMachine):
    """Two to five replicas, any order of events; every run ends healed and judged."""

    @initialize(count=st.integers(2, 5), primary=st.sampled_from(["", "B"]))
    def begin(self, count: int, primary: str) -> None:
        self.world = World(count, policy=Policy(primary))
        self.copies: dict[str, tuple[object, ...]] = {}

    def _one(self, number: int) -> Replica:
        return self.world.replicas[number % len(self.world.replicas)]

    who = st.integers(0, 4)
    path = st.sampled_from(PATHS)

    @rule(who=who, path=path, content=st.binary(max_size=2), skew=st.integers(-50, 50))
    def write(self, who: int, path: bytes, content: bytes, skew: int) -> None:
        self.world.write(self._one(who), path, content, skew=skew)

    @rule(who=who, path=path, content=st.binary(max_size=2), part=st.floats(0, 1))
    def write_small_after_large(self, who: int, path: bytes, content: bytes, part: float) -> None:
        one = self._one(who)
        self.world.write(one, PATHS[0], b"large", bulk=True)
        floor = int(one.index.knowledge.get(one.index.bulk, 0) * part)
        self.world.write(one, path, content, unacked=floor)

    @rule(who=who, path=path, content=st.binary(max_size=2))
    def write_unseen(self, who: int, path: bytes, content: bytes) -> None:
        one = self._one(who)
        self.world.commit(one, {path: file(content)}, seen=one.index.beside(path))

    @rule(who=who, path=path)
    def remove(self, who: int, path: bytes) -> None:
        self.world.remove(self._one(who), path)

    @rule(who=who, path=path)
    def mkdir(self, who: int, path: bytes) -> None:
        self.world.mkdir(self._one(who), path)

    @rule(who=who, new=st.sampled_from([b"a", b"b", b"c"]))
    def rename(self, who: int, new: bytes) -> None:
        self.world.rename(self._one(who), b"a", new)

    @rule(who=who, path=path, mode=st.sampled_from([0o600, 0o755]))
    def chmod(self, who: int, path: bytes, mode: int) -> None:
        self.world.chmod(self._one(who), path, mode)

    @rule(who=who, other=who, most=st.integers(1, 5))
    def send(self, who: int, other: int, most: int) -> None:
        source, target = self._one(who), self._one(other)
        if source is not target:
            self.world.send(source, target, most)

    @rule(who=who)
    def repeat_and_reorder(self, who: int) -> None:
        """Every batch of the log again, backwards: nothing may change."""
        target = self._one(who)
        before = target.index.generation()
        for batch in reversed(target.log):
            assert target.index.apply(batch) is None
        assert target.index.generation() == before

    @rule(who=who, other=who)
    def deliver_too_early(self, who: int, other: int) -> None:
        """Batches backwards: what depends on something missing is refused whole."""
        source, target = self._one(who), self._one(other)
        if source is target:
            return
        for batch in reversed(source.log):
            before = dict(target.index.knowledge)
            try:
                outcome = target.index.apply(batch)
            except NotYet:
                assert target.index.knowledge == before
                continue
            if outcome is not None:
                assert covers(before, batch.deps)
                target.log.append(batch)
                target.take(outcome)

    @rule(who=who, keep=st.integers(0, 2))
    def truncate(self, who: int, keep: int) -> None:
        self.world.truncate(self._one(who), keep)

    @rule(who=who)
    def purge(self, who: int) -> None:
        self.world.purge(self._one(who))

    @rule(who=who)
    def lose_index(self, who: int) -> None:
        self._one(who).lose_index()

    @rule(who=who)
    def back_up(self, who: int) -> None:
        one = self._one(who)
        self.copies[one.name] = one.copy()

    @rule(who=who)
    def restore(self, who: int) -> None:
        one = self._one(who)
        if one.name in self.copies:
            one.restore(self.copies.pop(one.name))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heal()
            self.world.judge()


# -- broken on purpose


class LocalWins(Index):
    """What is here stays visible, whatever comes."""

    def _ordered(self, versions: list[Version]) -> tuple[Version, ...]:
        return tuple(versions)


class LastDeliveryWins(Index):
    """What came last is visible."""

    def _ordered(self, versions: list[Version]) -> tuple[Version, ...]:
        return tuple(reversed(versions))


class ClockOnly(Index):
    """Stamps decide, not what the writer had seen."""

    def _integrate(self, path: bytes, version: Version, batch: Batch) -> None:
        self.rows[path] = self._ordered([*self.rows.get(path, ()), version])[:1]


class NoConflictStore(Index):
    """Losers are forgotten."""

    def _lost(self, path: bytes, outcome: Outcome) -> None:
        outcome.conflicts.clear()


class NoShadow(Index):
    """A file that gives way to a directory is forgotten."""

    def _show(self, path: bytes, outcome: Outcome) -> None:
        before = list(outcome.conflicts)
        super()._show(path, outcome)
        outcome.conflicts[:] = before


class UnionMerge(Index):
    """A whole state is added to what is here: deletions are forgotten."""

    def merge(self, rows: Rows, knowledge: Knowledge) -> Outcome:
        mine = self.knowledge
        self.knowledge = {}
        outcome = super().merge(rows, {})
        self.knowledge = joined(mine, knowledge)
        return outcome


class NoCausalOrder(Index):
    """Batches are applied as they come, gaps or not."""

    def apply(self, batch: Batch) -> Outcome | None:
        if batch.hi <= self.knowledge.get(batch.replica, 0):
            return None
        return self._take(batch)


class ForgetsKnowledge(Index):
    """After a whole state it still claims to know only what it knew."""

    def merge(self, rows: Rows, knowledge: Knowledge) -> Outcome:
        mine = dict(self.knowledge)
        outcome = super().merge(rows, knowledge)
        self.knowledge = mine
        return outcome


class OneIncarnation(Index):
    """An index that was lost starts to count again under its old name."""

    def __init__(
        self, main: ReplicaId, bulk: ReplicaId | None = None, policy: Policy | None = None
    ) -> None:
        super().__init__(*lanes(main.master, b"\0" * 8), policy)


class NothingImplied(Index):
    """A deleted directory is gone though something in it was kept."""

    def _show(self, path: bytes, outcome: Outcome) -> None:
        row = self.rows.get(path)
        after = row[0].entry if row and row[0].entry.kind != ABSENT else None
        head, _, tail = path.rpartition(b"/")
        before = self.visible(path)
        if before != after:
            self._set(head, tail, after)
            outcome.shown[path] = (before, after)


class ClaimsTooLittle(Index):
    """A small batch never claims to have seen a large one, not even at its own path."""

    def _needed(self, paths: Iterable[bytes], lane: ReplicaId, at_least: int) -> int:
        return at_least


BROKEN: tuple[type[Index], ...] = (
    LocalWins,
    LastDeliveryWins,
    ClockOnly,
    NoConflictStore,
    NoShadow,
    UnionMerge,
    NoCausalOrder,
    ForgetsKnowledge,
    OneIncarnation,
    NothingImplied,
    ClaimsTooLittle,
)


class RootsLaws(SynchronousTestCase):
    """The index under every order of events that can be had in the time."""

    def test_any_story(self) -> None:
        """Whatever two to five replicas do, they end equal, nothing lost, nothing back."""
        case = Replicas.TestCase
        case.settings = settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        case("runTest").runTest()

    def test_random_stories(self) -> None:
        """Long random stories with losses of the index, old copies and truncated logs."""
        for seed in range(RUNS):
            try:
                random_run(seed)
                random_run(seed, count=2 + seed % 4, steps=60, policy=Policy("C"))
            except Violation as error:
                self.fail(f"seed {seed}: {error}")

    def test_every_short_story(self) -> None:
        """Two replicas, one path, every sequence of five events."""
        depth = int(os.environ.get("SALTWISTED_ROOTS_DEPTH", "5"))
        for story in product(range(7), repeat=depth):
            world = World(2)
            one, other = world.replicas
            for number, event in enumerate(story):
                if event == 0:
                    world.write(one, b"a", b"%d" % number)
                elif event == 1:
                    world.write(other, b"a", b"%d" % number, skew=-3)
                elif event == 2:
                    world.remove(one, b"a")
                elif event == 3:
                    world.remove(other, b"a")
                elif event == 4:
                    world.send(one, other)
                elif event == 5:
                    world.send(other, one)
                else:
                    for each in world.replicas:
                        world.purge(each)
                        world.truncate(each, 0)
            try:
                world.heal()
                world.judge()
            except Violation as error:
                self.fail(f"{story}: {error}")

    def test_broken_variants_are_caught(self) -> None:
        """The judge finds each of these faults."""
        missed = []
        for kind in BROKEN:
            for seed in range(WITHIN):
                try:
                    random_run(seed, kind)
                except (Violation, KeyError, NotYet):
                    break
            else:
                missed.append(kind.__name__)

        self.assertEqual(missed, [])

    def test_unseen_edit_is_a_conflict(self) -> None:
        """An edit beside a version that was not in the tree yet does not replace it silently."""
        world = World(2)
        one, other = world.replicas
        world.write(one, b"a", b"first")
        world.send(one, other)
        world.write(one, b"a", b"second")
        world.send(one, other)
        unseen = other.index.beside(b"a")

        world.commit(other, {b"a": file(b"mine")}, seen=unseen)

        kept = {version.entry.content for version in other.conflicts.values()}
        self.assertEqual(kept, {b"second"})
        world.heal()
        world.judge()

    def test_old_copy_found_behind(self) -> None:
        """An index found to be an old copy writes again, under a new name, what it wrote since."""
        world = World(2)
        one, other = world.replicas
        world.write(one, b"a", b"1")
        world.send(one, other)
        old = one.copy()
        world.write(one, b"a", b"2")
        world.write(one, b"b", b"3")
        world.send(one, other)
        one.restore(old)
        main, bulk = old[:2]
        one.index.main, one.index.bulk = main, bulk  # type: ignore[assignment]
        unnoticed = one.index.commit({b"c": file(b"4")}, world.stamp)
        assert unnoticed is not None

        one.log.append(unnoticed[0])
        world.heal()

        self.assertNotEqual(one.index.main, main)
        contents = {p: e.content for p, e in other.index.generation().walk()}
        self.assertEqual(contents, {b"a": b"2", b"b": b"3", b"c": b"4"})
        world.judge()

    def test_T_REPLAY_5_old_state(self) -> None:
        """
        T-REPLAY-5: the whole state of an older generation, from anybody, brings nothing back: no
        content that was replaced, no path that was removed.
        """
        world = World(2)
        one, other = world.replicas
        for path, content in ((PATHS[0], b"old"), (PATHS[1], b"gone")):
            world.write(one, path, content)
        world.send(one, other)
        states = [other.index.copy()]
        world.write(one, PATHS[0], b"new")
        states.append(one.index.copy())
        world.remove(one, PATHS[1])
        before = (one.index.generation(), dict(one.index.rows), dict(one.index.knowledge))

        for old in (*states, *reversed(states)):
            outcome = one.index.merge(old.rows, old.knowledge)
            self.assertEqual(outcome.rows, set())
        for batch in (*one.log, *reversed(one.log)):
            self.assertIsNone(one.index.apply(batch))

        after = (one.index.generation(), dict(one.index.rows), dict(one.index.knowledge))
        self.assertEqual(after[1:], before[1:])
        self.assertEqual(after[0].digest, before[0].digest)

    def test_a_year_away(self) -> None:
        """A master that comes back after every deletion was forgotten brings nothing back."""
        world = World(3)
        one, two, away = world.replicas
        for path in (b"a/x", b"b"):
            world.write(one, path, b"1")
        world.heal()
        world.remove(one, b"a")
        world.write(two, b"c", b"2")
        for each in (one, two):
            other = two if each is one else one
            world.send(each, other)
        for each in (one, two):
            world.purge(each)
            world.truncate(each, 0)
        world.write(away, b"d", b"3")

        world.heal()

        names = [path for path, _ in away.index.generation().walk()]
        self.assertEqual(sorted(names), [b"b", b"c", b"d"])
        world.judge()

    def test_nothing_changed(self) -> None:
        """A commit of what is there already makes no batch."""
        world = World(2)
        one = world.replicas[0]
        world.write(one, b"a/x", b"1")

        again = one.index.commit({b"a/x": file(b"1"), b"b": TreeEntry(ABSENT)}, 5)

        self.assertIsNone(again)
