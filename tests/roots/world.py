"""
Several replicas of one share in memory, and what must hold of them.

The world keeps its own history of everything that was ever written, and judges the replicas by it:
an event counts if at least one surviving replica knows it.
"""

from __future__ import annotations

from random import Random

from saltwisted.domain.causality.knowledge import Dot, covers, joined, knows
from saltwisted.domain.roots.entry import (
    ABSENT,
    DIR,
    FILE,
    GONE,
    Batch,
    Conflict,
    ReplicaId,
    TreeEntry,
    Version,
    ancestors,
    lanes,
)
from saltwisted.domain.roots.index import Index, NotYet, Outcome, Policy
from saltwisted.domain.roots.manifest import Generation

NAMES = ("A", "B", "C", "D", "E")
PATHS = (b"a", b"b", b"a/x", b"a/y", b"b/x", b"a/x/deep")


class Violation(Exception):
    """Something that must hold does not."""


def file(content: bytes, mode: int = 0o644) -> TreeEntry:
    """A file whose digest is this text."""
    return TreeEntry(FILE, mode, len(content), 1, content)


class Replica:
    """One master: its index, its log, its conflict store."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.conflicts: dict[tuple[bytes, Dot[ReplicaId]], Version] = {}
        self.log: list[Batch] = []
        self.floor: dict[ReplicaId, int] = {}
        self.acked: dict[ReplicaId, int] = {}
        self.index = self._fresh()

    def _fresh(self) -> Index:
        kind = self.world.kind
        return kind(*lanes(self.name, self.world.incarnation()), policy=self.world.policy)

    def take(self, outcome: Outcome | None) -> None:
        """Keep what lost."""
        if outcome is None:
            return
        for conflict in outcome.conflicts:
            self.keep(conflict)

    def keep(self, conflict: Conflict) -> None:
        """Put one version into the conflict store."""
        self.conflicts[conflict.path, conflict.version.dot] = conflict.version

    def lose_index(self) -> None:
        """The index file is gone: start again under a new incarnation."""
        self.index = self._fresh()
        self.log, self.floor, self.conflicts, self.acked = [], {}, {}, {}

    def copy(self) -> tuple[object, ...]:
        """What a backup of the index file holds."""
        return (
            self.index.main,
            self.index.bulk,
            dict(self.index.rows),
            dict(self.index.knowledge),
            list(self.log),
            dict(self.floor),
            dict(self.conflicts),
            dict(self.acked),
        )

    def restore(self, copy: tuple[object, ...]) -> None:
        """Put an old copy of the index file in place; that it is one shows by its inode."""
        _, _, rows, knowledge, log, floor, conflicts, acked = copy
        main, bulk = lanes(self.name, self.world.incarnation())
        self.index = self.world.kind(main, bulk, policy=self.world.policy)
        self.index.load(rows, knowledge)  # type: ignore[arg-type]
        self.log, self.floor = list(log), dict(floor)  # type: ignore[call-overload]
        self.conflicts, self.acked = dict(conflicts), dict(acked)  # type: ignore[call-overload]


class World:
    """
    @param kind: the index; a broken variant must be caught.
    """

    def __init__(
        self, count: int = 3, kind: type[Index] = Index, policy: Policy | None = None
    ) -> None:
        self.kind = kind
        self.policy = policy or Policy()
        self._incarnations = 0
        self.stamp = 1000
        self.history: dict[Dot[ReplicaId], tuple[bytes, TreeEntry, Batch]] = {}
        self.replicas = [Replica(self, name) for name in NAMES[:count]]
        self.written = 0

    def incarnation(self) -> bytes:
        """Eight bytes that were never used."""
        self._incarnations += 2
        return self._incarnations.to_bytes(8, "big")

    # -- operations

    def commit(
        self, replica: Replica, wanted: dict[bytes, TreeEntry], skew: int = 0, **more: object
    ) -> Batch | None:
        """A user changes the tree of one master."""
        self.stamp += 1
        index = replica.index
        made = index.commit(wanted, self.stamp + skew, **more)  # type: ignore[arg-type]
        if made is None:
            return None
        batch, outcome = made
        for number, (path, entry) in enumerate(batch.entries):
            dot = Dot(batch.replica, batch.lo + number)
            if dot in self.history:
                raise Violation(f"{dot} was used twice")
            self.history[dot] = (path, entry, batch)
        replica.log.append(batch)
        replica.take(outcome)
        if "seen" not in more:
            for path, entry in wanted.items():
                shown = index.visible(path) or GONE
                if shown != entry and not (shown.kind == DIR and index.folders.get(path)):
                    raise Violation(f"{replica.name} wrote {path!r} and sees {shown}")
        self.structure(replica.index.generation())
        return batch

    def write(self, replica: Replica, path: bytes, content: bytes, **more: object) -> None:
        """Write a file, making directories above it and clearing what is in the way."""
        generation = replica.index.generation()
        wanted = {path: file(content)}
        for above in ancestors(path):
            there = generation.get(above)
            if there is None or there.kind != DIR:
                wanted[above] = TreeEntry(DIR, 0o755)
        for below, _ in generation.walk():
            if below.startswith(path + b"/"):
                wanted[below] = GONE
        self.commit(replica, wanted, **more)  # type: ignore[arg-type]

    def mkdir(self, replica: Replica, path: bytes) -> None:
        """Make a directory, in place of a file if there is one."""
        generation = replica.index.generation()
        wanted = {path: TreeEntry(DIR, 0o755)}
        for above in ancestors(path):
            there = generation.get(above)
            if there is None or there.kind != DIR:
                wanted[above] = TreeEntry(DIR, 0o755)
        self.commit(replica, wanted)

    def remove(self, replica: Replica, path: bytes) -> None:
        """C{rm -rf}."""
        generation = replica.index.generation()
        wanted = {
            each: GONE
            for each, _ in generation.walk()
            if each == path or each.startswith(path + b"/")
        }
        self.commit(replica, wanted)

    def rename(self, replica: Replica, old: bytes, new: bytes) -> None:
        """C{mv} of a directory to a name at the top that is free."""
        generation = replica.index.generation()
        if generation.get(new) is not None or generation.get(old) is None:
            return
        wanted: dict[bytes, TreeEntry] = {}
        for each, entry in generation.walk():
            if each == old or each.startswith(old + b"/"):
                wanted[each] = GONE
                wanted[new + each[len(old) :]] = entry
        self.commit(replica, wanted)

    def chmod(self, replica: Replica, path: bytes, mode: int) -> None:
        """C{chmod}."""
        there = replica.index.visible(path)
        if there is not None:
            self.commit(replica, {path: there._replace(mode=mode)})

    def send(self, source: Replica, target: Replica, most: int = 1000) -> int:
        """Batches, or the whole state when the log does not reach back; how much arrived."""
        self.found_behind(target, source)
        self.found_behind(source, target)
        theirs = target.index.knowledge
        if any(theirs.get(each, 0) < low for each, low in source.floor.items()):
            before = dict(target.index.knowledge)
            outcome = target.index.merge(source.index.rows, source.index.knowledge)
            target.take(outcome)
            for (path, _), version in source.conflicts.items():
                target.keep(Conflict(path, version))
            for each, counter in source.index.knowledge.items():
                # What came as state is in no log here
                if counter > before.get(each, 0):
                    target.floor[each] = max(counter, target.floor.get(each, 0))
            target.log = [b for b in target.log if b.hi > target.floor.get(b.replica, 0)]
            self._acknowledge(target, source)
            self.structure(target.index.generation())
            return 1
        count = 0
        for batch in list(source.log):
            if count >= most:
                break
            if batch.hi <= target.index.knowledge.get(batch.replica, 0):
                continue
            outcome = target.index.apply(batch)
            if outcome is not None:
                target.log.append(batch)
                target.take(outcome)
                self.structure(target.index.generation())
            count += 1
        self._acknowledge(target, source)
        return count

    def deliver_early(self, target: Replica, dice: Random) -> None:
        """Some batch of another's log, perhaps before what it depends on: then it is refused."""
        source = dice.choice([r for r in self.replicas if r is not target])
        if not source.log:
            return
        batch = dice.choice(source.log)
        before = dict(target.index.knowledge)
        try:
            outcome = target.index.apply(batch)
        except NotYet:
            return
        if outcome is not None:
            if not covers(before, batch.deps):
                raise Violation(f"{batch.name} came before what it depends on")
            target.log.append(batch)
            target.take(outcome)

    def _acknowledge(self, target: Replica, source: Replica) -> None:
        for lane in (source.index.main, source.index.bulk):
            known = target.index.knowledge.get(lane, 0)
            source.acked[lane] = max(source.acked.get(lane, 0), known)

    def found_behind(self, one: Replica, other: Replica) -> None:
        """What a peer says about us shows that our index is an old copy."""
        index, theirs = one.index, other.index.knowledge
        lanes_now = (index.main, index.bulk)
        if all(theirs.get(lane, 0) <= index.knowledge.get(lane, 0) for lane in lanes_now):
            return
        again = index.reincarnate(*lanes(one.name, self.incarnation()), one.acked)
        for lane in lanes_now:
            sure = index.knowledge.get(lane, 0)
            one.log = [b for b in one.log if b.replica != lane or b.hi <= sure]
        # What those dots meant is written again under new ones
        if again:
            self.commit(one, again, seen=dict(index.knowledge))

    def truncate(self, replica: Replica, keep: int) -> None:
        """Drop the older part of the log."""
        dropped = replica.log[: max(len(replica.log) - keep, 0)]
        replica.log = replica.log[len(dropped) :]
        for batch in dropped:
            old = replica.floor.get(batch.replica, 0)
            replica.floor[batch.replica] = max(old, batch.hi)

    def purge(self, replica: Replica) -> None:
        """Forget every deletion at once: far earlier than a master does."""
        replica.index.purge(list(replica.index.rows))

    def heal(self) -> None:
        """Everybody talks with everybody until nothing is new."""
        for _ in range(20):
            moved = 0
            for source in self.replicas:
                for target in self.replicas:
                    if source is not target and not covers(
                        target.index.knowledge, source.index.knowledge
                    ):
                        moved += self.send(source, target)
            if not moved:
                return
        raise Violation("they never stop talking")

    # -- what must hold

    def structure(self, generation: Generation) -> None:
        """Whatever is visible is in visible directories, and the digest is a fresh one's."""
        for path, _ in generation.walk():
            for above in ancestors(path):
                there = generation.get(above)
                if there is None or there.kind != DIR:
                    raise Violation(f"{path!r} is below {above!r}, which is {there}")

    def judge(self) -> None:
        """All that must hold after healing."""
        generations = [replica.index.generation() for replica in self.replicas]
        if len({generation.digest for generation in generations}) != 1:
            raise Violation(f"trees differ: {[dict(g.walk()) for g in generations]}")
        if any(g.knowledge != generations[0].knowledge for g in generations):
            raise Violation("knowledge differs")
        known = generations[0].knowledge
        events: dict[bytes, list[tuple[Dot[ReplicaId], TreeEntry, Batch]]] = {}
        for dot, (path, entry, batch) in self.history.items():
            if knows(known, dot):
                events.setdefault(path, []).append((dot, entry, batch))
        for path, those in events.items():
            living = [
                (dot, entry, batch)
                for dot, entry, batch in those
                if not any(knows(later.deps, dot) and later is not batch for _, _, later in those)
            ]
            self._judge_path(path, living, generations[0])

    def _judge_path(
        self,
        path: bytes,
        living: list[tuple[Dot[ReplicaId], TreeEntry, Batch]],
        generation: Generation,
    ) -> None:
        best = max(
            (Version(dot, batch.stamp, entry) for dot, entry, batch in living),
            key=self.policy.rank,
        )
        shown = generation.get(path)
        wanted = None if best.entry.kind == ABSENT else best.entry
        shadowed = bool(generation.folders.get(path)) and (wanted is None or wanted.kind != DIR)
        if not shadowed and shown != wanted:
            raise Violation(f"{path!r} shows {shown}, not {wanted}")
        for _, entry, _ in living:
            if entry.kind == ABSENT or (shown is not None and entry.same_content(shown)):
                continue
            for replica in self.replicas:
                kept = [v for (p, _), v in replica.conflicts.items() if p == path]
                if not any(version.entry.same_content(entry) for version in kept):
                    raise Violation(f"{entry} of {path!r} is lost on {replica.name}")

    def knowledge_of_all(self) -> dict[ReplicaId, int]:
        """What anybody knows."""
        whole: dict[ReplicaId, int] = {}
        for replica in self.replicas:
            whole = joined(whole, replica.index.knowledge)
        return whole


def random_run(
    seed: int,
    kind: type[Index] = Index,
    steps: int = 40,
    count: int = 3,
    losses: bool = True,
    policy: Policy | None = None,
) -> World:
    """A random story, healed and judged."""
    dice = Random(seed)
    world = World(count, kind, policy)
    copies: dict[str, tuple[object, ...]] = {}
    for step in range(steps):
        one = dice.choice(world.replicas)
        path = dice.choice(PATHS)
        roll = dice.random()
        if roll < 0.28:
            world.write(one, path, b"%d" % dice.randrange(step + 1), skew=dice.randint(-30, 30))
        elif roll < 0.33:
            floor = dice.randint(0, one.index.knowledge.get(one.index.bulk, 0))
            bulk = dice.random() < 0.5
            world.write(one, path, b"bulk%d" % step, bulk=bulk, unacked=None if bulk else floor)
        elif roll < 0.36 and one.index.rows.get(path):
            seen = one.index.beside(path)
            world.commit(one, {path: file(b"beside%d" % step)}, seen=seen)
        elif roll < 0.46:
            world.remove(one, path)
        elif roll < 0.50:
            world.mkdir(one, path)
        elif roll < 0.54:
            world.rename(one, dice.choice(PATHS[:2]), dice.choice((b"a", b"b", b"c")))
        elif roll < 0.57:
            world.chmod(one, path, dice.choice((0o600, 0o755)))
        elif roll < 0.85:
            other = dice.choice([r for r in world.replicas if r is not one])
            world.send(one, other, dice.choice((1, 1, 2, 100)))
        elif roll < 0.90:
            world.truncate(one, dice.randrange(3))
        elif roll < 0.94:
            world.purge(one)
        elif losses and roll < 0.96:
            one.lose_index()
        elif losses and roll < 0.98:
            if one.name not in copies:
                copies[one.name] = one.copy()
            else:
                one.restore(copies.pop(one.name))
        elif roll < 0.99:
            world.deliver_early(one, dice)
    world.heal()
    world.judge()
    return world
