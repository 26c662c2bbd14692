"""
Batches that peers have sent to a share, until they are applied.

A batch waits here until everything that it depends on and needs has arrived, and until nothing
holds it (the brake, the limits). Then it is committed (minions see it), acknowledged to all peers,
and written to the working tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import GRACE, ShareCore
from saltwisted.cluster.roots.join import RootJoin
from saltwisted.cluster.roots.link import TURN, RootLink
from saltwisted.cluster.roots.look import RootLook
from saltwisted.cluster.roots.parcels import Want
from saltwisted.cluster.roots.work import prepare, store_inline, wants_of, weigh_batch
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import FILE, Batch, Knowledge, ReplicaId
from saltwisted.domain.roots.guards import Brake, Forbidden
from saltwisted.domain.roots.index import NotYet, Outcome
from saltwisted.domain.roots.moves import unfold
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.transports.deferreds import let_go
from saltwisted.words import counted

INLINE_UNPACK = 8 * 1024
INLINE_PLAIN = 64 * 1024
"""Bytes of a batch, packed and plain, that are unpacked in the reactor thread; more goes to the
pool."""
MANY_ENTRIES = 500
"""Entries of a batch from which on what is to be done for it is found out in the pool."""
MOST_PENDING = 2000
PENDING_BYTES = 64 * 1024 * 1024
MOST_INLINE = 10_000
"""Contents that ride in one batch."""
GIVE_UP = 60.0
"""Seconds for which a batch is kept that cannot be applied, while nobody is linked who knows it."""


@define(eq=False)
class Pending:
    """
    A batch that has arrived and is not applied yet.

    @ivar lacks: whether contents were missing at the last check.
    @ivar expects: one of them that was on its way then.
    """

    batch: Batch
    hi: int
    link: RootLink
    size: int
    packed: bytes = field(repr=False)
    inline: dict[bytes, bytes] = field(factory=dict)
    alone_since: float | None = None
    fetching: bool = False
    lacks: bool = False
    expects: bytes = b""
    preparing: bool = False
    rehearsed: bool = False
    refused: str = ""


class RootInbox:
    """
    Reactor thread only.

    @ivar held_remote: members whose changes are held here, and why.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        commits: RootCommit,
        writes: RootWrite,
        look: RootLook,
        join: RootJoin,
    ) -> None:
        self._core = core
        self._commits = commits
        self._writes = writes
        self._look = look
        self._join = join
        self._brake = Brake(core.limits)
        self._pending: dict[tuple[ReplicaId, int], Pending] = {}
        self._bytes = 0
        self._working = False
        self._due: dict[tuple[ReplicaId, int], None] = {}
        self._replicas: Counter[ReplicaId] = Counter()
        self._prepared = False
        self.held_remote: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def known(self) -> Knowledge:
        """What is known here once all is applied that follows on one another."""
        known: dict[ReplicaId, int] = dict(self._core.db.knowledge)
        for pending in sorted(self._pending.values(), key=lambda p: p.batch.lo):
            replica = pending.batch.replica
            if pending.batch.lo == known.get(replica, 0) + 1:
                known[replica] = pending.hi
        return known

    # -- coming in

    def batch_came(self, link: RootLink, body: bytes) -> None:
        """
        A packed batch of a peer, with contents that ride along.

        @raises Forbidden: it is against the rules.
        """
        value = codec.unpack(body, MOST_INLINE + 2)
        if (
            not isinstance(value, list)
            or len(value) != 2
            or not isinstance(value[0], bytes)
            or not isinstance(value[1], list)
            or len(value[1]) > MOST_INLINE
        ):
            raise Forbidden("batch")
        core = self._core
        is_short = len(value[0]) <= INLINE_UNPACK and codec.is_short(value[0], INLINE_PLAIN)
        if not is_short:
            d = core.owner.host.pool(codec.unpack_batch, value[0], core.limits)
            self.unpacked(link, d, lambda got: self.batch_here(link, len(body), value, *got))
        else:
            self.batch_here(link, len(body), value, *codec.unpack_batch(value[0], core.limits))

    def unpacked(self, link: RootLink, d: Deferred[Any], then: Callable[[Any], None]) -> None:
        """Continue with what was unpacked in the pool; a violation of the rules ends the stream."""

        def refused(failure: Any) -> None:
            error = failure.trap(Forbidden) and failure.value
            self._core.owner.streams.flagged(link, error)
            link.close(error.reason, error.path)

        let_go(
            d.addCallback(then).addErrback(refused),
            self.log,
            "roots: a message for {share} failed",
            share=self._core.name,
        )

    def batch_here(
        self, link: RootLink, size: int, value: list[Any], batch: Batch, hi: int
    ) -> None:
        """
        Keep a batch until it can be applied.

        @raises Forbidden: what rides along is against the rules.
        """
        packed, inline = value
        theirs = link.peer.knowledge[self._core.name]
        theirs[batch.replica] = max(hi, theirs.get(batch.replica, 0))
        if hi <= self._core.db.knowledge.get(batch.replica, 0):
            return
        key = batch.replica, batch.lo
        if key in self._pending and not (self._pending[key].batch.moves and not batch.moves):
            return
        pending = Pending(batch, hi, link, size, packed)
        if len(self._pending) >= MOST_PENDING or self._bytes + size > PENDING_BYTES:
            # It is asked for again when there is room
            return
        for item in inline:
            if (
                not isinstance(item, list)
                or len(item) != 3
                or not isinstance(item[0], bytes)
                or len(item[0]) != 32
                or not isinstance(item[1], bytes)
            ):
                raise Forbidden("inline")
            if not isinstance(item[2], bytes | list):
                raise Forbidden("inline")
            pending.inline[item[0]] = codec.pack([item[1], item[2]])
        self._drop(key)
        self._pending[key] = pending
        self._bytes += pending.size
        self._replicas[batch.replica] += 1
        self._try_soon([key])

    def _drop(self, key: tuple[ReplicaId, int]) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            self._bytes -= pending.size
            self._replicas[key[0]] -= 1
            if not self._replicas[key[0]]:
                del self._replicas[key[0]]

    def disown(self, origin: str, theirs: Knowledge) -> None:
        """
        Forget batches of a node that knows nothing of them itself: its disk was set back. Who has
        applied them has them still, and is asked.
        """
        for key, pending in list(self._pending.items()):
            replica = pending.batch.replica
            if replica.master == origin and pending.hi > theirs.get(replica, 0):
                self._drop(key)

    # -- what can be applied

    def work(self) -> None:
        """Apply what can be applied, and fetch what is missing."""
        self._try_soon(list(self._pending))

    def _try_soon(self, keys: Iterable[tuple[ReplicaId, int]]) -> None:
        """
        Try these.

        Thousands may wait for one another, so each is tried when it comes, when contents have
        come that it lacked, and when what is before it has been applied; all only on request.
        """
        self._due.update(dict.fromkeys(keys))
        if self._core.stopped or not self._due or self._working:
            return
        self._working = True
        d = Deferred.fromCoroutine(self._work())
        let_go(d, self.log, "roots: applying to {share} failed", share=self._core.name)

    async def _work(self) -> None:
        core = self._core
        end = core.reactor.seconds() + TURN
        try:
            while self._due and not core.stopped:
                if core.reactor.seconds() > end:
                    await core.timers.pause(0)
                    end = core.reactor.seconds() + TURN
                key = next(iter(self._due))
                del self._due[key]
                pending = self._pending.get(key)
                if pending is None:
                    continue
                if pending.hi <= core.db.knowledge.get(pending.batch.replica, 0):
                    self._drop(key)
                elif await self._try_alone(key, pending):
                    known = core.db.knowledge
                    self._due.update({(r, known.get(r, 0) + 1): None for r in self._replicas})
        finally:
            self._working = False
        if not core.stopped:
            self._end_preparing()
            core.consider_after(GRACE)

    async def _try_alone(self, key: tuple[ReplicaId, int], pending: Pending) -> bool:
        """One that fails is tried again with the next look; the others do not wait for it."""
        try:
            return await self._try(key, pending)
        except Exception:
            self.log.failure("roots: applying to {share} failed", share=self._core.name)
            return False

    def _applicable(self, batch: Batch) -> bool:
        known = self._core.db.knowledge
        return batch.lo == known.get(batch.replica, 0) + 1 and covers(known, batch.deps)

    async def _try(self, key: tuple[ReplicaId, int], pending: Pending) -> bool:
        core = self._core
        if pending.inline:
            inline, pending.inline = pending.inline, {}
            entries = {e.content: e for _, e in pending.batch.entries if e.kind == FILE}
            good = await core.pool(store_inline, core.db, entries, inline)
            if not good:
                self._drop(key)
                error = Forbidden("object-digest")
                core.owner.streams.flagged(pending.link, error)
                pending.link.close(error.reason)
                return False
        if pending.expects in core.coming and not core.db.objects.has(pending.expects):
            self._prepare(pending)
            return False
        finding = core.db, pending.batch, frozenset(core.coming)
        if len(pending.batch.entries) > MANY_ENTRIES:
            complete, wants, pending.expects = await core.pool(wants_of, *finding)
        else:
            complete, wants, pending.expects = wants_of(*finding)
        pending.lacks = not complete
        if not complete:
            self._fetch(pending, wants)
            self._prepare(pending)
            if pending.preparing and not pending.rehearsed and not pending.batch.moves:
                pending.rehearsed = True
                core.go(core.pool, core.db.rehearse, pending.batch)
            return False
        if pending.fetching or not self._applicable(pending.batch):
            return False
        if self._prepared:
            # What came last is written aside while the batch is committed
            self._prepare(pending)
        return bool(await core.locked(self._apply, key, pending))

    def _fetch(self, pending: Pending, wants: list[Want]) -> None:
        core = self._core
        has = core.db.objects.has
        wants = [w for w in wants if w.digest not in core.coming and not has(w.digest)]
        if pending.fetching or not wants:
            return
        if core.no_room(sum(want.size for want in wants)):
            return
        link = pending.link
        if link.closed:
            others = [
                other
                for other in core.links()
                if other.peer.knowledge[core.name].get(pending.batch.replica, 0) >= pending.hi
            ]
            if not others:
                return
            link = pending.link = others[0]
        pending.fetching = True

        def done(error: SaltwistedError | None) -> None:
            pending.fetching = False
            if error is not None:
                core.last_error = str(error)
                core.consider_after(GRACE)
            else:
                lacking = [key for key, other in self._pending.items() if other.lacks]
                self._try_soon(lacking)

        let_go(
            core.fetch(link, wants).addCallback(done),
            self.log,
            "roots: fetching for {share} failed",
            share=core.name,
        )

    # -- applying, under the lock

    def _prepare(self, pending: Pending) -> None:
        """While contents of a large batch are on their way, what is here is written aside."""
        core, batch = self._core, pending.batch
        if (
            pending.preparing
            or len(batch.entries) <= MANY_ENTRIES
            or not core.ready
            or core.suspended
            or not self._applicable(batch)
        ):
            return
        pending.preparing = self._prepared = True

        def over(result: Any) -> Any:
            pending.preparing = False
            return result

        d = core.aside.run(core.owner.host.pool, prepare, core.db, core.tree, batch)
        let_go(d.addBoth(over), self.log, "roots: {share}: preparing failed", share=core.name)

    def _end_preparing(self) -> None:
        """What was prepared for batches that are gone is taken away."""
        if self._prepared and not any(
            len(pending.batch.entries) > MANY_ENTRIES for pending in self._pending.values()
        ):
            self._prepared = False
            let_go(
                self._core.aside.run(
                    self._core.owner.host.pool, self._core.tree.writer.drop_prepared
                ),
                self.log,
                "roots: {share}: prepared files were not removed",
                share=self._core.name,
            )

    async def _apply(self, key: tuple[ReplicaId, int], pending: Pending) -> bool:
        """One batch: commit, acknowledge, write to the tree."""
        core, store = self._core, self._core.db
        if self._pending.get(key) is not pending or not self._applicable(pending.batch):
            return False
        batch = pending.batch
        if batch.moves:
            more = await core.pool(unfold, store.index.folders, batch.moves)
            entries = dict(batch.entries) | (more or {})
            # The moves stay: they are a hint for the working tree, and save room in our log
            whole = evolve(batch, entries=tuple(sorted(entries.items())))
            if more is None or whole.hi != pending.hi:
                self._drop(key)
                pending.link.ask_plain(core.name, batch.replica, batch.lo)
                return False
            batch = whole
        if not await self._may_apply(batch, pending):
            return False
        if core.ready and not core.suspended:
            await self._look.take_before(batch)
        try:
            outcome: Outcome | None = await core.pool(store.apply, batch, "", pending.packed)
        except NotYet:
            return False
        except StoreError as error:
            self._commits.failed_to_store(error)
            return False
        self._drop(key)
        core.last_error = ""
        if outcome is not None:
            await self.applied(batch, outcome)
        return True

    async def applied(self, batch: Batch | None, outcome: Outcome) -> None:
        """What peers have made is committed here: tell it, and write it to the tree."""
        core = self._core
        core.acknowledge()
        core.owner.committed(core.name, batch, outcome, False)
        self._commits.write_rows_soon()
        if not core.ready:
            # Earlier trees of the cluster come first: they are not for minions, nor for this disk
            await self._join.advanced()
            return
        await self._writes.write(outcome.shown, batch)
        await self._writes.keep_both(outcome)

    async def _may_apply(self, batch: Batch, pending: Pending) -> bool:
        """The brake of the receiver, and its limits."""
        core, brake = self._core, self._brake
        generation = core.db.generation
        if len(core.db.index.rows) + len(batch.entries) > 2 * core.limits.max_entries:
            self._refuse(pending, "too-many-entries")
            return False
        if batch.approved:
            return True
        if (core.name, batch.replica.master, batch.hi) in core.owner.approvals:
            return True
        # What a move stands for is all there still, only elsewhere; two might end in one place
        entries = pending.batch.entries if len(batch.moves) == 1 else batch.entries
        files, size = await core.pool(weigh_batch, brake, entries, generation)
        all_files, all_bytes = generation.counts()
        now = core.reactor.seconds()
        if brake.holds(now, files, size, all_files, all_bytes):
            self._refuse(pending, f"409: {counted(files, 'deletion')} without an approval")
            return False
        brake.passed(now, files, size)
        return True

    def _refuse(self, pending: Pending, reason: str) -> None:
        if pending.refused == reason:
            return
        pending.refused = reason
        core, origin = self._core, pending.batch.replica.master
        self.held_remote[origin] = reason
        self.log.warn(
            "roots: {share}: changes of {origin} are held: {reason}",
            share=core.name,
            origin=origin,
            reason=reason,
        )
        core.owner.news.event(
            "held", {"share": core.name, "where": "receiver", "origin": origin, "reason": reason}
        )

    def approve(self) -> int:
        """Approve what is held here; returns how many batches."""
        core, count = self._core, 0
        for pending in self._pending.values():
            if pending.refused:
                pending.refused = ""
                core.owner.approvals.add((core.name, pending.batch.replica.master, pending.hi))
                self.held_remote.pop(pending.batch.replica.master, None)
                count += 1
        self.work()
        return count

    def forget_orphans(self) -> None:
        """
        Forget batches that will never be applied: their origin has lost them before all of their
        dependencies were here, or for long no linked node has had them. If a node has them after
        all, they are requested again.
        """
        core = self._core
        now = core.reactor.seconds()
        links = core.writing_links()
        for key, pending in list(self._pending.items()):
            replica = pending.batch.replica
            if any(link.peer.knowledge[core.name].get(replica, 0) >= pending.hi for link in links):
                pending.alone_since = None
                continue
            origin_is_here = any(link.node == replica.master for link in links)
            if pending.alone_since is None:
                pending.alone_since = now
            waits = GRACE if origin_is_here else GIVE_UP
            if not pending.link.closed or now - pending.alone_since < waits:
                core.timers.later("orphans", waits, core.consider)
            elif origin_is_here or not pending.refused:
                self._drop(key)
                self.held_remote.pop(replica.master, None)
        self._end_preparing()
