"""
One share of a node: from the working tree to the peers, and from the peers to the tree.

All that touches index or tree is done under one lock, the work itself in the pool. A batch from a
peer waits in the inbox until what it depends on and what it needs is here; then it is
committed (minions see it), acknowledged to all peers, and written to the working tree.
Rules are in C{domain.roots}, disks in C{stores}.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from saltwisted.cluster.rootahead import TOGETHER, RootAhead
from saltwisted.cluster.rootcare import RootCare
from saltwisted.cluster.rootdirty import Dirty
from saltwisted.cluster.rootlink import RootLink, Want
from saltwisted.cluster.roottrees import RootTrees
from saltwisted.cluster.rootwork import (
    Changes,
    add_seen,
    commit_and_pack,
    folders_of,
    keep_adopted,
    look_again,
    look_back,
    look_closely,
    may_look,
    overlay,
    same_content,
    set_anew,
    set_joining,
    sort_changes,
    store_inline,
    to_write,
    trust,
    wants_of,
    weigh,
    weigh_batch,
)
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import (
    DIR,
    FILE,
    GONE,
    LINK,
    Batch,
    Dot,
    Entry,
    Knowledge,
    ReplicaId,
    Version,
    covers,
    gap,
    join,
    split,
)
from saltwisted.domain.roots.frames import ACK, BATCH, OFFER, PLAIN, PULL, REPAIR, STATE, TREE
from saltwisted.domain.roots.guards import MAX_NAME, Brake, Forbidden, Limits
from saltwisted.domain.roots.index import NotYet, Outcome
from saltwisted.domain.roots.manifest import Generation, name_of
from saltwisted.domain.roots.moves import unfold
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.stores.rootindex import Known
from saltwisted.stores.rootstore import RootStore, discard
from saltwisted.stores.worktree import Seen, WorkTree, Written
from saltwisted.transports.inotify import TreeWatch
from saltwisted.transports.loose import let_go

if TYPE_CHECKING:
    from saltwisted.cluster.rootsync import RootSync

INLINE_UNPACK = 8 * 1024
"""Bytes of a packed batch that are unpacked in the reactor thread; more goes to the pool."""
MANY_ENTRIES = 500
"""Entries of a batch from which on what is to be done for it is found out in the pool."""
MOST_PENDING = 2000
PENDING_BYTES = 64 * 1024 * 1024
MOST_DIRTY = 20_000
WATCHES = 64
"""Directories that are put under watch in one turn of the reactor."""
MOST_HOT = 100
"""Paths of one commit that are counted for files which change all the time."""
AGAIN = 0.03
"""Seconds after which a file that was being written is looked at again."""
SURE = 1.0
"""Seconds after which a file that was too young to be sure of is looked at again."""
GIVE_UP = 60.0
"""Seconds for which a batch is kept that cannot be applied, while nobody is linked who knows it."""
STRANDED = 60.0
"""Seconds for which a node that may not write has to know more than all writers do."""
ROWS_AFTER = 2.0
"""Seconds of no large commit after which the rows of the last ones are written."""
GRACE = 1.0
"""Seconds for a batch to come by itself before it is asked for."""
RETRY = 5.0
REPLY_BYTES = 8 * 1024 * 1024
TRASH_TIME = 60.0
BUSY_WAIT = 60.0
SCAN_SHARE = 2000
"""A scan that takes a second is made every so many seconds."""


@frozen
class Settings:
    """Times of a share, in seconds; see C{cluster_roots}."""

    quiet: float = 0.05
    quiet_most: float = 2.0
    scan: float = 60.0
    rejoin: str = "adopt"
    keep_both: bool = False


@define(eq=False)
class Pending:
    """A batch that came and is not applied yet."""

    batch: Batch
    hi: int
    link: RootLink
    size: int
    packed: bytes = field(repr=False)
    inline: dict[bytes, bytes] = field(factory=dict)
    alone_since: float | None = None
    fetching: bool = False
    refused: str = ""


class RootShare:
    """
    @param name: the same on all masters, such as C{file/base/0}.
    @ivar suspended: why local changes are not taken; empty if they are.
    @ivar trees: the generations that jobs may still be pinned to.
    @ivar coming: contents that were asked for and are not here yet.
    @ivar held: deletions that wait for an approval: path to the entry that is gone.
    """

    log = Logger()

    def __init__(
        self,
        owner: RootSync,
        name: str,
        root: str,
        folder: str,
        reactor: Any,
        settings: Settings,
        make_store: Callable[[str], RootStore],
        tree: WorkTree,
    ) -> None:
        self.name = name
        self.root = root
        self.settings = settings
        self.suspended = "starting"
        self.held: dict[bytes, Entry] = {}
        self.held_remote: dict[str, str] = {}
        self.skipped: dict[bytes, str] = {}
        self.kept: set[bytes] = set()
        self.failed: dict[bytes, str] = {}
        self.store: RootStore | None = None
        self.scans = 0
        self.scan_seconds = 0.0
        self.last_error = ""
        self.ready = False
        self._folder = folder
        self._owner = owner
        self._reactor = reactor
        self._make_store = make_store
        self._tree = tree
        self._lock = DeferredLock()
        self._watch = TreeWatch(reactor, root, self._changed, self._lost_events)
        self._watching = False
        self._dirty = Dirty()
        self._young: set[bytes] = set()
        self._scan_all = False
        self._first_dirty: float | None = None
        self._busy_since: float | None = None
        self._timers: dict[str, Any] = {}
        self._inbox: dict[tuple[ReplicaId, int], Pending] = {}
        self._inbox_bytes = 0
        self.coming: set[bytes] = set()
        self._pulling: tuple[RootLink, float] | None = None
        self._working = False
        self._work_again = False
        self._stopped = False
        self._approved = ""
        self._brake: Brake | None = None
        self._remote_brake: Brake | None = None
        self._large: dict[bytes, int] = {}
        self._resting: set[bytes] = set()
        self._unlisted: set[bytes] = set()
        self._stranded_since: float | None = None
        self._all_now = False
        self._damaged: dict[bytes, int] = {}
        self.trees = RootTrees(self, owner, reactor)
        self.care = RootCare(self, owner, reactor)
        self.ahead = RootAhead(self, owner, reactor)

    def keep_recent(self, pinned: set[bytes]) -> None:
        """Remember the present generation for the jobs that are pinned to it."""
        generation = self.generation
        if generation is not None:
            self.trees.keep(generation, pinned)

    def pause(self, seconds: float) -> Deferred[None]:
        """Fires after that time."""
        d: Deferred[None] = Deferred()
        self._reactor.callLater(seconds, d.callback, None)
        return d

    # -- start and stop

    @property
    def tree(self) -> WorkTree:
        """The directory that people edit."""
        return self._tree

    @property
    def stopped(self) -> bool:
        """Whether it is being stopped, or was."""
        return self._stopped

    @property
    def limits(self) -> Limits:
        """What this share takes."""
        return self._tree.limits

    @property
    def generation(self) -> Generation | None:
        """The tree that is served."""
        return None if self.store is None else self.store.generation

    async def start(self) -> None:
        """
        Open the store, look at the root, and begin to watch.

        @raises StoreError: the store cannot be opened.
        """
        self._brake, self._remote_brake = Brake(self.limits), Brake(self.limits)
        self.store = await self._owner.pool(self._make_store, self._folder)
        await self._belong()
        self.keep_recent(set())
        self._damaged = await self._owner.pool(self.store.drop_damaged)
        if self._damaged:
            self.log.error(
                "roots: {share}: {count} contents are damaged; peers are asked for them",
                share=self.name,
                count=len(self._damaged),
            )
        await self._open_root()
        if self._is_blank() or self._db.database.get("joining"):
            # Peers may have a tree already: it comes first, ours joins it
            self._owner.blank(self)
            if self._has_whole():
                self._go(self._join_whole)
        else:
            self.ready = True
            self._owner.loaded(self)
            await self.locked(self._first_scan)
        self._later("scan", self.settings.scan * self._owner.jitter(), self._periodic)
        self.care.start()
        self._write_rows_soon()
        # Streams may have come up before: say what we know, and ask for what we do not
        for link in self._owner.links_of(self.name):
            link.acknowledge(self.name, *self._known_here())
        self.consider()

    async def _belong(self) -> None:
        """
        A node that joins another cluster leaves its history behind: the tree on its disk is
        compared with the cluster's as one that was never replicated.
        """
        store, cluster = self._db, self._owner.cluster
        before = store.database.get("cluster")
        if cluster and before not in (None, cluster):
            self.log.info(
                "roots: {share}: another cluster than before; its tree comes first", share=self.name
            )
            root = store.database.get("root")
            store.close()
            await self._owner.pool(discard, self._folder)
            self.store = store = await self._owner.pool(self._make_store, self._folder)
            if root:
                with store.database.transaction():
                    store.database.set("root", root)
        elif store.database.get("anew") or self._wrote_in_vain():
            self.log.warn(
                "roots: {share}: nobody who may write has all that is here; the cluster's tree "
                "comes first",
                share=self.name,
            )
            await self._owner.pool(store.begin_anew)
        if cluster and before != cluster:
            with store.database.transaction():
                store.database.set("cluster", cluster)

    def _wrote_in_vain(self) -> bool:
        """Whether this node may not write any more, and has changes that nobody took."""
        store, writers = self._db, self._writers()
        if self._owner.may(self._owner.node, WRITE) or not writers:
            # Where nobody may write, what is here may be all that there is
            return False
        taken = [store.peers[node] for node in writers if node in store.peers]
        own = {store.index.main.master, store.index.bulk.master}
        return any(
            counter > max((vector.get(replica, 0) for vector in taken), default=0)
            for replica, counter in store.index.knowledge.items()
            if replica.master in own
        )

    def _writers(self) -> list[str]:
        """The other members whose changes of this share count."""
        owner = self._owner
        return [
            node
            for node in owner.members()
            if owner.may(node, WRITE) and owner.may_have(node, self.name)
        ]

    def _watch_for_writers(self) -> None:
        """
        A node that may not write and knows what no writer knows (any more) cannot hand it on, and
        would never be like the others again: after a while it begins anew.
        """
        links = self._owner.writers_of(self.name)
        known: Knowledge = {}
        for link in links:
            known = join(known, link.knowledge[self.name])
        all_here = set(self._writers()) <= {link.node for link in links}
        if not links or not all_here or not self._is_read_only or covers(known, self._db.knowledge):
            self._stranded_since = None
            return
        now = self._reactor.seconds()
        if self._stranded_since is None:
            self._stranded_since = now
        if now - self._stranded_since < STRANDED:
            self._later("stranded", STRANDED, self.consider)
            return
        self._stranded_since = None
        d = self._owner.pool(set_anew, self._db).addCallback(lambda _: self._owner.stranded(self))
        let_go(d, self.log, "roots: {share} cannot begin anew", share=self.name)

    async def _open_root(self) -> None:
        remembered = self._remembered_root()
        problem = await self._owner.pool(self._tree.open, remembered)
        if problem:
            self._suspend(problem)
            return
        self.suspended = ""
        if remembered is None:
            self._remember_root()
        try:
            if not self._watching:
                self._watch.start()
                self._watching = True
        except OSError as error:
            self.log.error("inotify is not available, scanning: {error}", error=str(error))

    def _remembered_root(self) -> tuple[int, int] | None:
        value = self._db.database.get("root")
        if not value:
            return None
        device, inode = str(value).split()
        return int(device), int(inode)

    def _remember_root(self) -> None:
        device, inode = self._tree.root_identity
        with self._db.database.transaction():
            self._db.database.set("root", f"{device} {inode}")

    def _known_here(self) -> tuple[Knowledge, bytes]:
        """What we know and what the tree is then; they are from one moment."""
        generation = self._db.generation
        return generation.knowledge, generation.digest

    def _is_blank(self) -> bool:
        return not self._db.index.knowledge

    @property
    def _db(self) -> RootStore:
        if self.store is None:
            raise StoreError("the store is not open", self.name)
        return self.store

    async def stop(self) -> None:
        """Wait for what runs, and close."""
        self._stopped = True
        self.trees.stop()
        self.care.stop()
        self.ahead.stop()
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._timers.clear()
        if self._watching:
            self._watch.stop()
            self._watching = False
        await self._lock.acquire()
        self._lock.release()
        self._tree.close()
        if self.store is not None:
            self.store.close()

    def _later(self, name: str, delay: float, act: Callable[[], Any]) -> None:
        timer = self._timers.get(name)
        if timer is not None and timer.active():
            timer.cancel()
        if not self._stopped:
            self._timers[name] = self._reactor.callLater(delay, act)

    def _locked(self, act: Callable[..., Any], *args: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(act(*args))

    async def locked(self, act: Callable[..., Any], *args: Any) -> Any:
        """Run a coroutine function while nothing else touches index or tree."""
        return await self._alone(act, *args)

    def _alone(self, act: Callable[..., Any], *args: Any) -> Deferred[Any]:
        def done(result: Any) -> Any:
            self._owner.stir()
            return result

        return self._lock.run(self._locked, act, *args).addBoth(done)

    def _go(self, act: Callable[..., Any], *args: Any) -> None:
        """Run a coroutine function under the lock, soon."""
        if self._stopped:
            return
        d = self._alone(act, *args)
        let_go(d, self.log, "roots: {share} failed", share=self.name)

    # -- local changes

    def _changed(self, path: bytes, mask: int) -> None:
        if not path or self._tree.ignored(path, bool(mask & 0x40000000)):
            return
        if mask == 0x2:
            # Being written: it is looked at when it is closed; but it is not quiet
            if self._dirty:
                self._quiet()
            return
        if mask & 0x40000000 and mask & (0x100 | 0x80):
            self._watch.add([path])
        self._dirty.add(path, mask)
        if len(self._dirty) > MOST_DIRTY:
            self._scan_all = True
            self._dirty.clear()
        self._quiet()

    def _lost_events(self) -> None:
        self._scan_all = True
        self._quiet()

    def _quiet(self) -> None:
        now = self._reactor.seconds()
        if self._first_dirty is None:
            self._first_dirty = now
        rest = self._first_dirty + self.settings.quiet_most - now
        self._later("quiet", max(min(self.settings.quiet, rest), 0.0), self._settled)

    def _calm(self) -> None:
        """All that was said is being looked at, or is known: nothing has to become quiet."""
        self._first_dirty = None
        timer = self._timers.get("quiet")
        if timer is not None and timer.active():
            timer.cancel()

    def _settled(self) -> None:
        self._first_dirty = None
        if self.ready:
            self._go(self._take_changes)

    def _periodic(self) -> None:
        pause = self.settings.scan
        if self._sees_all:
            # Events tell the same: a look at a large tree may use no more than its share of a core
            pause = max(pause, self.scan_seconds * SCAN_SHARE)
        self._later("scan", pause * self._owner.jitter(), self._periodic)
        self._scan_all = True
        if self.ready:
            self._go(self._take_changes)
        self.consider()

    async def flush(self) -> None:
        """
        Take in what was changed until now: what the kernel has told, or everything where it
        cannot tell all.
        """
        if not self._sees_all or self.suspended:
            await self.rescan()
            return
        # Events are queued within the system call that they are about
        self._watch.doRead()
        self._dirty.update(self._resting)
        self._resting.clear()
        self._all_now = True
        try:
            await self.locked(self._take_changes)
            if self._dirty:
                await self.locked(self._take_changes)
        finally:
            self._all_now = False

    async def rescan(self) -> None:
        """Look at everything now."""
        self._scan_all = True
        await self.locked(self._take_changes)

    async def _take_changes(self) -> None:
        if self.suspended or not self.ready:
            return
        if not self._dirty and not self._scan_all and not self._unlisted:
            self._calm()
            return
        problem, busy = await self._owner.pool(may_look, self._tree)
        if problem:
            self._suspend(problem)
            return
        if busy:
            now = self._reactor.seconds()
            self._busy_since = self._busy_since or now
            if now - self._busy_since < BUSY_WAIT:
                self._later("quiet", self.settings.quiet, self._settled)
                return
        self._busy_since = None
        everything, self._scan_all = self._scan_all, False
        # What did not take part, and is gone, is not to be named any more
        dirty = self._dirty.take(ChainMap[bytes, Any](self._db.tree, self.skipped))
        self._calm()
        if not everything and not self._all_now:
            late, delay = self.care.held_off(dirty)
            if late:
                self._resting |= late
                dirty -= late
                self._later("rest", delay, self._rested)
        if not dirty and not everything and not self._unlisted:
            return
        if b".rootsignore" in dirty or everything:
            await self._owner.pool(self._tree.read_rules)
            everything = everything or b".rootsignore" in dirty
        began = self._reactor.seconds()
        seen = await self._gather(None if everything else dirty)
        if everything:
            self.scans += 1
            self.scan_seconds = self._reactor.seconds() - began
            problem = await self._owner.pool(self._tree.check)
            if problem:
                self._suspend(problem)
                return
        await self._commit_seen(seen)
        if await self._owner.pool(self._db.pending) and not self._stopped:
            await self._write_tree()

    async def _gather(self, paths: set[bytes] | None) -> Seen:
        """What is at these paths, or everywhere; large files are being read when it ends."""
        self.ahead.begin()
        try:
            return await self._look_at(paths)
        finally:
            self.ahead.end()

    def _rested(self) -> None:
        self._dirty.update(self._resting)
        self._resting.clear()
        self._settled()

    def _grown(self) -> None:
        """What was too young to be sure of is old enough now."""
        self._dirty.update(self._young)
        self._young.clear()
        self._settled()

    async def _look_at(self, paths: set[bytes] | None) -> Seen:
        store, tree, pool = self._db, self._tree, self._owner.pool
        known: Mapping[bytes, Known] = store.tree
        if paths is None:
            self._unlisted.clear()
            seen: Seen = await pool(tree.scan, known, store.objects)
            self.skipped = dict(seen.skipped)
        else:
            fresh: list[bytes]
            fresh, first = await pool(look_closely, tree, paths, known, store, self._watching)
            # What is in them is listed after they are watched: nothing falls between
            await self._watch_all(fresh)
            seen = first or await pool(tree.look, paths, known, store.objects)
            for path in paths:
                self.skipped.pop(path, None)
            self.skipped.update(seen.skipped)
            if self._unlisted:
                tops, self._unlisted = self._unlisted, set()
                add_seen(seen, await pool(tree.scan, known, store.objects, tops))
        for _ in range(8):
            folders: list[bytes] = []
            if self._watching and (paths is None or seen.changed):
                folders = await pool(folders_of, seen, known if paths is None else None)
            fresh = await self._watch_all(folders)
            if not fresh:
                break
            # What was made in them before they were watched has made no event
            both = await pool(overlay, known, seen)
            more: Seen = await pool(tree.scan, both, store.objects, fresh)
            add_seen(seen, more)
            self.skipped.update(more.skipped)
        if seen.again:
            self._dirty.update(seen.again)
            self._later("again", AGAIN if paths is not None else 1.0, self._settled)
        if seen.young:
            self._young |= seen.young
            self._later("young", SURE, self._grown)
        return seen

    async def _watch_all(self, folders: Sequence[bytes]) -> list[bytes]:
        """Watch these, some per turn of the reactor; those that were not watched before."""
        fresh: list[bytes] = []
        for start in range(0, len(folders), WATCHES):
            if start:
                await self.pause(0)
            fresh += self._watch.add(folders[start : start + WATCHES])
        return fresh

    def read_large(self, path: bytes) -> Deferred[Known | None]:
        """Take in a large file; C{None} if it is being written, or gone."""
        d: Deferred[Known | None] = self._owner.pool(self._tree.take_large, path, self._db.objects)
        return d

    async def _commit_seen(self, seen: Seen) -> None:
        changed = dict(seen.changed)
        apart: dict[bytes, int] = {}
        reading = self.ahead.reading()
        if seen.large:
            if sum(seen.large.values()) <= TOGETHER:
                for path in seen.large:
                    known = await (reading.pop(path, None) or self.read_large(path))
                    if known is None:
                        self._dirty.add(path)
                        self._quiet()
                    else:
                        changed[path] = known
            else:
                apart = dict(seen.large)
        for unused in reading.values():
            let_go(unused, self.log, "roots: a large file of {share} was not read", share=self.name)
        if changed:
            await self._commit_changes(changed)
        for path in apart:
            if path not in self._large:
                self._large[path] = apart[path]
                d = Deferred.fromCoroutine(self._take_large(path))
                let_go(d, self.log, "roots: a large file of {share} failed", share=self.name)

    async def _take_large(self, path: bytes) -> None:
        """A file that takes seconds to read: others are committed meanwhile."""
        try:
            known = await self._owner.pool(self._tree.take_large, path, self._db.objects)
        finally:
            self._large.pop(path, None)
        if known is None:
            self._dirty.add(path)
            self._later("again", 1.0, self._settled)
        else:
            await self.locked(self._commit_changes, {path: known})

    async def _commit_changes(self, changed: dict[bytes, Known | None]) -> None:
        """What the user did, as versions: one batch, but for what was not seen (see C{beside})."""
        store, pool = self._db, self._owner.pool
        if self._is_read_only:
            await self._keep_refused(changed)
            return
        found: Changes = await pool(sort_changes, changed, store.tree, store.generation)
        plain, still = await self._let_through(found)
        tree = changed
        if still:
            tree = {path: known for path, known in changed.items() if path not in still}
        for path, entry in found.beside.items():
            if path in still:
                continue
            await self._commit({path: entry}, beside=path)
        if plain:
            await self._commit(plain, tree=tree)
        elif tree:
            await pool(store.remember, tree)

    @property
    def _is_read_only(self) -> bool:
        return not self._owner.may(self._owner.node, WRITE)

    async def _keep_refused(self, changed: Mapping[bytes, Known | None]) -> None:
        """This node may not write: what its user did is kept as conflicts here, and undone."""
        generation = self._db.generation
        lost = [
            (path, known.entry)
            for path, known in changed.items()
            if known is not None
            and known.entry.kind != DIR
            and not same_content(generation.get(path), known.entry)
        ]
        await self._owner.pool(keep_adopted, self._db, changed, lost)
        undone = [p for p, one in changed.items() if (one and one.entry) != generation.get(p)]
        if undone:
            names = sorted(os.fsdecode(path) for path in undone)[:100]
            self.log.warn(
                "roots: {share}: this node is read-only: {count} changes are undone: {names}",
                share=self.name,
                count=len(undone),
                names=names[:5],
            )
            self.last_error = f"403: read-only: {len(undone)} changes were undone"
            data = {"share": self.name, "reason": "403: this node is read-only", "paths": names}
            self._owner.event("refused", data)
            if lost:
                self._owner.event("conflict", {"share": self.name, "paths": names})
        await self._write_tree()

    async def _let_through(self, found: Changes) -> tuple[dict[bytes, Entry], set[bytes]]:
        """Hold deletions that go too far; the rest goes on."""
        wanted, gone = found.plain, found.gone
        generation = self._db.generation
        was_held = set(self.held)
        for path in was_held:
            if path not in gone and path in wanted:
                self.held.pop(path)
        if not gone or self._approved:
            return wanted, set()
        brake = self._brake
        if brake is None:
            return wanted, set()
        files, size = await self._owner.pool(weigh, brake, wanted, generation)
        all_files, all_bytes = generation.counts()
        now = self._reactor.seconds()
        if not brake.holds(now, files, size, all_files, all_bytes):
            brake.passed(now, files, size)
            return wanted, set()
        fresh = gone - was_held
        self.held.update({path: generation.get(path) or GONE for path in gone})
        if fresh:
            self._owner.event(
                "held",
                {
                    "share": self.name,
                    "files": files,
                    "bytes": size,
                    "where": "origin",
                    "approve": f"saltwisted roots approve --share {self.name}",
                },
            )
            self.log.warn(
                "roots: {share}: {files} deletions are held: approve or restore them",
                share=self.name,
                files=files,
            )
        return {path: entry for path, entry in wanted.items() if path not in gone}, gone

    async def _commit(
        self,
        wanted: Mapping[bytes, Entry],
        *,
        tree: Mapping[bytes, Known | None] | None = None,
        beside: bytes | None = None,
        approved: str = "",
        settled: Iterable[tuple[bytes, Dot]] = (),
        note: str = "",
        founding: bool = False,
    ) -> Batch | None:
        if self._owner.clock_problem:
            self.last_error = self._owner.clock_problem
            self._scan_all = True
            self._later("clock", RETRY, self._settled)
            return None
        store = self._db
        if self._is_read_only:
            await self._owner.pool(
                keep_adopted,
                store,
                dict(tree or {}),
                [(path, entry) for path, entry in wanted.items() if entry.kind in (FILE, LINK)],
            )
            return None
        unacked = None
        links = self._owner.links_of(self.name)
        if links:
            lane = store.index.bulk
            unacked = min(link.knowledge[self.name].get(lane, 0) for link in links)
        try:
            made = await self._owner.pool(
                commit_and_pack,
                store,
                dict(wanted),
                dict(tree or {}),
                beside,
                unacked,
                approved or self._approved,
                tuple(settled),
                note,
                founding,
            )
        except StoreError as error:
            self._failed_to_store(error)
            return None
        if made is None:
            return None
        batch, outcome, body = made
        self.care.committed(path for path, _ in islice(batch.entries, MOST_HOT))
        for link in links:
            link.push(self.name, body)
        self._write_rows_soon()
        self._owner.committed(self, batch, outcome, True)
        if tree:
            # Not in the same transaction, so that peers need not wait for it: where a crash
            # prevents it, what is there is found to be what is committed
            moved = [(move.old, move.new) for move in batch.moves]
            try:
                await self._owner.pool(store.remember, dict(tree), moved)
            except StoreError as error:
                self._failed_to_store(error)
        await self._keep_both(outcome)
        return batch  # type: ignore[no-any-return]

    def _write_rows_soon(self) -> None:
        if self._db.is_behind_log:
            self._later("rows", ROWS_AFTER, lambda: self._go(self._write_rows))

    async def _write_rows(self) -> None:
        await self._owner.pool(self._db.write_behind)

    async def _keep_both(self, outcome: Outcome) -> None:
        """Under C{keep-both}, who wrote a version that lost writes it again under another name."""
        if not self.settings.keep_both or not self.ready or self._is_read_only:
            return
        store = self._db
        lanes = (store.index.main, store.index.bulk)
        copies: dict[bytes, Entry] = {}
        for path, version in outcome.conflicts:
            if version.dot.replica in lanes and version.entry.kind == FILE:
                name = conflict_name(path, version)
                if store.generation.get(name) is None:
                    copies[name] = version.entry
        if copies:
            await self._commit(copies, note="kept beside what won")
            await self._write_tree()

    def _failed_to_store(self, error: StoreError) -> None:
        self.last_error = str(error)
        self.log.error("roots: {share}: {error}", share=self.name, error=str(error))
        self._scan_all = True
        self._later("again", RETRY, self._settled)

    def _suspend(self, reason: str) -> None:
        if reason == self.suspended:
            return
        self.suspended = reason
        self.log.error(
            "roots: {share} is suspended: {reason}. What is committed is still served",
            share=self.name,
            reason=reason,
        )
        self._owner.event("suspended", {"share": self.name, "reason": reason})

    # -- the first time

    async def _first_scan(self) -> None:
        self._scan_all = True
        await self._take_changes()

    async def found(self) -> None:
        """No peer has a tree: ours is the first."""
        if not self.ready:
            self.ready = True
            await self.locked(self._first_scan)
            if self._is_blank():
                # An empty root: others have to learn that this is the tree
                await self.locked(self._commit_nothing)

    async def _commit_nothing(self) -> None:
        await self._commit({}, founding=True)

    async def _adopt(self) -> None:
        """
        A peer's tree is here, and there is one on this disk: equal files join, others are
        kept as conflicts of this node, and the tree becomes the cluster's.
        """
        store, tree = self._db, self._tree
        if self.suspended:
            return
        if self.settings.rejoin == "merge":
            return
        seen: Seen = await self._owner.pool(tree.scan, {}, store.objects)
        for path in seen.large:
            known = await self._owner.pool(tree.take_large, path, store.objects)
            if known is not None:
                seen.changed[path] = known
        generation = store.generation
        known_now: dict[bytes, Known | None] = {}
        kept: list[tuple[bytes, Entry]] = []
        for path, one in seen.changed.items():
            if one is None:
                continue
            shown = generation.get(path)
            known_now[path] = one
            if one.entry.kind != DIR and (shown is None or not one.entry.same_content(shown)):
                kept.append((path, one.entry))
        await self._owner.pool(keep_adopted, store, known_now, kept)
        if kept:
            self.log.warn(
                "roots: {share}: {count} files of this node differ from the cluster's; they are "
                "kept as conflicts (saltwisted roots conflicts)",
                share=self.name,
                count=len(kept),
            )
            self._owner.event("conflict", {"share": self.name, "adopted": len(kept)})

    # -- what peers send

    def received(self, link: RootLink, kind: int, body: bytes) -> None:
        """
        A message about this share.

        @raises Forbidden: it is against the rules.
        """
        if kind == BATCH:
            self._batch_came(link, body)
        elif kind == ACK:
            value = codec.unpack(body)
            if not isinstance(value, list) or len(value) != 2:
                raise Forbidden("ack")
            link.knows(self.name, codec.unpack_knowledge(value[0]), value[1])
            self._owner.heard(link, self.name)
        elif kind == PULL:
            theirs = codec.unpack_knowledge(codec.unpack(body))
            link.knowledge[self.name] = theirs
            d = Deferred.fromCoroutine(self._answer_pull(link, theirs))
            let_go(d, self.log, "roots: answering {node} failed", node=link.node)
        elif kind == PLAIN:
            value = codec.unpack(body)
            if not isinstance(value, list) or len(value) != 3:
                raise Forbidden("plain")
            replica = codec.unpack_replica(value[0], value[1])
            plain = self._db.database.body(replica, codec.unpack_counter(value[2]))
            if plain is not None:
                link.push(self.name, codec.pack([plain, []]))
        elif kind == REPAIR:
            d = Deferred.fromCoroutine(self._send_state(link))
            let_go(d, self.log, "roots: answering {node} failed", node=link.node)
        elif kind == OFFER:
            self.ahead.received(link, body)
        elif kind == TREE:
            self.trees.received(link, body)
        elif kind == STATE:
            d = self._owner.pool(codec.unpack_state, body, self.limits)
            self._unpacked(link, d, lambda state: self._go(self._state_came, link, state))
        else:
            raise Forbidden("frame-type")

    def heard(self, link: RootLink) -> None:
        """A peer said what it knows."""
        if self.store is None:
            return
        theirs = link.knowledge[self.name]
        d = self._owner.pool(self.store.acknowledged, link.node, theirs)
        let_go(d, self.log, "roots: an acknowledgement was not kept")
        if self.store.is_behind(theirs):
            self._go(self._new_life, link)
        generation = self.store.generation
        if theirs == generation.knowledge:
            digest = link.digests.get(self.name, b"")
            may_be_right = self._owner.may(link.node, WRITE)
            if may_be_right and digest and digest != generation.digest and not self._inbox:
                self.care.differs(link)
        self._later("consider", GRACE, self.consider)
        if not self.ready and self._has_whole():
            self._go(self._join_whole)

    async def _new_life(self, link: RootLink) -> None:
        if self._db.is_behind(link.knowledge[self.name]):
            self.log.warn(
                "roots: {share}: {node} knows more of us than we do: this index is an old copy; "
                "going on under a new incarnation",
                share=self.name,
                node=link.node,
            )
            await self._owner.pool(self._db.begin_new_life)
            self.consider()

    def _batch_came(self, link: RootLink, body: bytes) -> None:
        value = codec.unpack(body)
        if (
            not isinstance(value, list)
            or len(value) != 2
            or not isinstance(value[0], bytes)
            or not isinstance(value[1], list)
            or len(value[1]) > 10_000
        ):
            raise Forbidden("batch")
        if len(value[0]) > INLINE_UNPACK:
            d = self._owner.pool(codec.unpack_batch, value[0], self.limits)
            self._unpacked(link, d, lambda got: self._batch_here(link, len(body), value, *got))
        else:
            self._batch_here(link, len(body), value, *codec.unpack_batch(value[0], self.limits))

    def _unpacked(self, link: RootLink, d: Deferred[Any], then: Callable[[Any], None]) -> None:
        """Go on with what was unpacked in the pool; what is against the rules ends the stream."""

        def refused(failure: Any) -> None:
            error = failure.trap(Forbidden) and failure.value
            self._owner.flagged(link, error)
            link.close(error.reason, error.path)

        let_go(
            d.addCallback(then).addErrback(refused),
            self.log,
            "roots: a message for {share} failed",
            share=self.name,
        )

    def _batch_here(
        self, link: RootLink, size: int, value: list[Any], batch: Batch, hi: int
    ) -> None:
        packed, inline = value
        theirs = link.knowledge[self.name]
        theirs[batch.replica] = max(hi, theirs.get(batch.replica, 0))
        if hi <= self._db.knowledge.get(batch.replica, 0):
            return
        key = batch.replica, batch.lo
        if key in self._inbox and not (self._inbox[key].batch.moves and not batch.moves):
            return
        pending = Pending(batch, hi, link, size, packed)
        if len(self._inbox) >= MOST_PENDING or self._inbox_bytes + size > PENDING_BYTES:
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
        old = self._inbox.pop(key, None)
        if old is not None:
            self._inbox_bytes -= old.size
        self._inbox[key] = pending
        self._inbox_bytes += pending.size
        self.work()

    def work(self) -> None:
        """Apply what can be applied, fetch what is missing."""
        if self._stopped or not self._inbox:
            return
        if self._working:
            self._work_again = True
            return
        self._working = True
        d = Deferred.fromCoroutine(self._work())
        let_go(d, self.log, "roots: applying to {share} failed", share=self.name)

    async def _work(self) -> None:
        try:
            while not self._stopped:
                self._work_again = False
                progress = False
                for key, pending in list(self._inbox.items()):
                    if self._inbox.get(key) is not pending:
                        continue
                    if pending.hi <= self._db.knowledge.get(pending.batch.replica, 0):
                        self._drop(key)
                        continue
                    if await self._try(key, pending):
                        progress = True
                if not progress and not self._work_again:
                    break
        finally:
            self._working = False
        if not self._stopped:
            self._later("consider", GRACE, self.consider)

    def _drop(self, key: tuple[ReplicaId, int]) -> None:
        pending = self._inbox.pop(key, None)
        if pending is not None:
            self._inbox_bytes -= pending.size

    def _applicable(self, batch: Batch) -> bool:
        known = self._db.knowledge
        return batch.lo == known.get(batch.replica, 0) + 1 and covers(known, batch.deps)

    async def _try(self, key: tuple[ReplicaId, int], pending: Pending) -> bool:
        if pending.inline:
            inline, pending.inline = pending.inline, {}
            entries = {e.content: e for _, e in pending.batch.entries if e.kind == FILE}
            good = await self._owner.pool(store_inline, self._db, entries, inline)
            if not good:
                self._drop(key)
                error = Forbidden("object-digest")
                self._owner.flagged(pending.link, error)
                pending.link.close(error.reason)
                return False
        finding = self._db, pending.batch, frozenset(self.coming)
        if len(pending.batch.entries) > MANY_ENTRIES:
            complete, wants = await self._owner.pool(wants_of, *finding)
        else:
            complete, wants = wants_of(*finding)
        if not complete:
            self._fetch(pending, wants)
            return False
        if pending.fetching or not self._applicable(pending.batch):
            return False
        return bool(await self.locked(self._apply, key, pending))

    def _fetch(self, pending: Pending, wants: list[Want]) -> None:
        has = self._db.objects.has
        wants = [w for w in wants if w.digest not in self.coming and not has(w.digest)]
        if pending.fetching or not wants:
            return
        if self.no_room(sum(want.size for want in wants)):
            return
        link = pending.link
        if link.closed:
            others = [
                other
                for other in self._owner.links_of(self.name)
                if other.knowledge[self.name].get(pending.batch.replica, 0) >= pending.hi
            ]
            if not others:
                return
            link = pending.link = others[0]
        pending.fetching = True
        wanted = {want.digest for want in wants}
        self.coming |= wanted
        d = link.fetch(self.name, self._db.objects, wants)

        def done(result: Any) -> None:
            pending.fetching = False
            self.coming.difference_update(wanted)
            if isinstance(result, SaltwistedError):
                self.last_error = str(result)
                self._later("consider", GRACE, self.consider)
            else:
                self.work()

        let_go(
            d.addCallbacks(done, lambda failure: done(failure.value)),
            self.log,
            "roots: fetching for {share} failed",
            share=self.name,
        )

    def no_room(self, size: int) -> bool:
        """Whether this many bytes more do not fit; it is told, and tried again later."""
        problem = self._owner.room_problem(self, self._folder, size)
        if problem and problem != self.last_error:
            self.log.error("roots: {share}: {why}", share=self.name, why=problem)
            self._owner.event("held", {"share": self.name, "where": "receiver", "reason": problem})
        self.last_error = problem or self.last_error
        if problem:
            self._later("consider", RETRY, self.consider)
        return bool(problem)

    async def _apply(self, key: tuple[ReplicaId, int], pending: Pending) -> bool:
        """One batch, under the lock: commit, acknowledge, write to the tree."""
        store = self._db
        if self._inbox.get(key) is not pending or not self._applicable(pending.batch):
            return False
        batch = pending.batch
        if batch.moves:
            more = await self._owner.pool(unfold, store.index.folders, batch.moves)
            entries = dict(batch.entries) | (more or {})
            # The moves stay: they are a hint for the working tree, and save room in our log
            whole = evolve(batch, entries=tuple(sorted(entries.items())))
            if more is None or whole.hi != pending.hi:
                self._drop(key)
                pending.link.ask_plain(self.name, batch.replica, batch.lo)
                return False
            batch = whole
        if not await self._may_apply(batch, pending):
            return False
        if self.ready and not self.suspended:
            await self._look_before(batch)
        try:
            outcome: Outcome | None = await self._owner.pool(store.apply, batch, "", pending.packed)
        except NotYet:
            return False
        except StoreError as error:
            self._failed_to_store(error)
            return False
        self._drop(key)
        self.last_error = ""
        if outcome is not None:
            await self._applied(batch, outcome)
        return True

    async def _look_before(self, batch: Batch) -> None:
        """An edit that we have not seen yet did not see this batch either: it comes first."""
        seen: Seen = await self._owner.pool(look_again, self._tree, batch, self._db)
        if seen.changed:
            await self._commit_seen(seen)

    async def _applied(self, batch: Batch | None, outcome: Outcome) -> None:
        for link in self._owner.links_of(self.name):
            link.acknowledge(self.name, *self._known_here())
        self._owner.committed(self, batch, outcome, False)
        self._write_rows_soon()
        if not self.ready:
            # Earlier trees of the cluster come first: they are not for minions, nor for this disk
            if self._has_whole():
                await self._join_whole()
            else:
                await self._owner.pool(set_joining, self._db, True)
            return
        await self._write_tree(outcome.shown, batch)
        await self._keep_both(outcome)

    def _has_whole(self) -> bool:
        """
        Whether all is here that one of the peers knew when it was linked; or a part, and no member
        is left that could give the rest.
        """
        if not self._writers() and not self._is_read_only and not self._is_blank():
            return True
        # Who knows nothing yet joins as we do
        goals = [
            link.began.get(self.name) or link.knowledge[self.name]
            for link in self._owner.writers_of(self.name)
        ]
        return any(goal and covers(self._db.knowledge, goal) for goal in goals)

    async def _join_whole(self) -> None:
        """The cluster's tree is here: take it; under the lock."""
        if self.ready or not self._has_whole():
            return
        await self._adopt()
        await self._owner.pool(set_joining, self._db, False)
        self.ready = True
        self._owner.loaded(self)
        self._scan_all = True
        self._quiet()
        await self._write_tree()

    async def _may_apply(self, batch: Batch, pending: Pending) -> bool:
        """The brake of the receiver, and its limits."""
        generation = self._db.generation
        brake = self._remote_brake
        if len(self._db.index.rows) + len(batch.entries) > 2 * self.limits.max_entries:
            self._refuse(pending, "too-many-entries")
            return False
        if brake is None or batch.approved:
            return True
        approvals = self._owner.approvals
        if (self.name, batch.replica.master, batch.hi) in approvals:
            return True
        # What a move stands for is all there still, only elsewhere; two might end in one place
        entries = pending.batch.entries if len(batch.moves) == 1 else batch.entries
        files, size = await self._owner.pool(weigh_batch, brake, entries, generation)
        all_files, all_bytes = generation.counts()
        now = self._reactor.seconds()
        if brake.holds(now, files, size, all_files, all_bytes):
            self._refuse(pending, f"409: {files} deletions without an approval")
            return False
        brake.passed(now, files, size)
        return True

    def _refuse(self, pending: Pending, reason: str) -> None:
        if pending.refused == reason:
            return
        pending.refused = reason
        origin = pending.batch.replica.master
        self.held_remote[origin] = reason
        self.log.warn(
            "roots: {share}: changes of {origin} are held: {reason}",
            share=self.name,
            origin=origin,
            reason=reason,
        )
        self._owner.event(
            "held", {"share": self.name, "where": "receiver", "origin": origin, "reason": reason}
        )

    # -- catching up

    def consider(self) -> None:
        """Ask a peer for what it knows and we do not, unless that is on its way."""
        if self._stopped or self.store is None:
            return
        self.work()
        self._forget_orphans()
        self._watch_for_writers()
        self._repair()
        known: dict[ReplicaId, int] = dict(self.store.knowledge)
        for pending in sorted(self._inbox.values(), key=lambda p: p.batch.lo):
            replica = pending.batch.replica
            if pending.batch.lo == known.get(replica, 0) + 1:
                known[replica] = pending.hi
        now = self._reactor.seconds()
        if self._pulling is not None:
            link, since = self._pulling
            if not link.closed and now - since < RETRY:
                self._later("consider", RETRY, self.consider)
                return
        best: tuple[int, RootLink] | None = None
        for link in self._owner.writers_of(self.name):
            lack = gap(known, link.knowledge[self.name])
            if lack and (best is None or lack > best[0]):
                best = lack, link
        if best is None:
            self._pulling = None
            return
        self._pulling = best[1], now
        best[1].pull(self.name, known)
        self._later("consider", RETRY, self.consider)

    def _forget_orphans(self) -> None:
        """
        Forget batches that will never be applied: their origin has lost them before all of what
        they depend on was here, or nobody who is linked has known them for long. If somebody has
        them after all, they are asked for again.
        """
        now = self._reactor.seconds()
        links = self._owner.writers_of(self.name)
        for key, pending in list(self._inbox.items()):
            replica = pending.batch.replica
            if any(link.knowledge[self.name].get(replica, 0) >= pending.hi for link in links):
                pending.alone_since = None
                continue
            origin_is_here = any(link.node == replica.master for link in links)
            if pending.alone_since is None:
                pending.alone_since = now
            waits = GRACE if origin_is_here else GIVE_UP
            if not pending.link.closed or now - pending.alone_since < waits:
                self._later("orphans", waits, self.consider)
            elif origin_is_here or not pending.refused:
                self._drop(key)
                self.held_remote.pop(replica.master, None)

    def _repair(self) -> None:
        """Ask a peer for contents that the disk has lost."""
        links = self._owner.links_of(self.name)
        wanted = {d: s for d, s in self._damaged.items() if d not in self.coming}
        if not wanted or not links:
            return
        link = links[self.scans % len(links)]
        self.coming |= wanted.keys()
        wants = [Want(digest, size) for digest, size in wanted.items()]

        def done(result: Any) -> None:
            self.coming.difference_update(wanted)
            if isinstance(result, SaltwistedError):
                self.last_error = str(result)
            else:
                for digest in wanted:
                    self._damaged.pop(digest, None)
                self._go(self._keep_repaired)

        d = link.fetch(self.name, self._db.objects, wants)
        let_go(
            d.addCallbacks(done, lambda failure: done(failure.value)),
            self.log,
            "roots: repairing {share} failed",
            share=self.name,
        )

    async def lost(self, damaged: Mapping[bytes, int]) -> None:
        """
        Contents that the disk has lost: what the tree still has is read from there, the rest comes
        from a peer.
        """
        await self.locked(self._forget_damaged, damaged)
        await self.rescan()
        await self.locked(self._keep_repaired)
        store = self._db
        self._damaged.update({d: s for d, s in damaged.items() if not store.objects.has(d)})
        self._repair()

    async def _forget_damaged(self, damaged: Mapping[bytes, int]) -> None:
        store = self._db
        await self._owner.pool(store.lose, damaged)
        again = {
            path: Known(one.entry, None)
            for path, one in store.tree.items()
            if one.entry.content in damaged
        }
        await self._owner.pool(store.remember, again)

    async def _keep_repaired(self) -> None:
        await self._owner.pool(self._db.keep_objects)
        self._scan_all = True
        self._quiet()

    async def _answer_pull(self, link: RootLink, theirs: Knowledge) -> None:
        store = self._db
        if covers(theirs, store.knowledge):
            return
        missing = store.missing_for(theirs)
        if missing is None:
            await self._send_state(link)
            return
        sent = 0
        for replica, lo in missing:
            body = await self._owner.pool(store.database.body, replica, lo)
            if body is None or link.closed:
                return
            link.push(self.name, codec.pack([body, []]))
            sent += len(body)
            if sent > REPLY_BYTES:
                return

    async def _send_state(self, link: RootLink) -> None:
        body = await self.locked(self._state)
        link.tell(STATE, self.name, body)

    async def _state(self) -> bytes:
        return await self._owner.pool(self._db.state)  # type: ignore[no-any-return]

    async def _state_came(self, link: RootLink, state: tuple[Any, Any, Any]) -> None:
        rows, lost, knowledge = state
        store = self._db
        repairing = store.generation.knowledge == knowledge and self.care.expects(link)
        if not repairing and covers(store.knowledge, knowledge):
            return
        entries = [v.entry for row in rows.values() for v in row]
        lacking = store.lacking([*entries, *(v.entry for _, v in lost)])
        if lacking:
            if self.no_room(sum(lacking.values())):
                return
            wanted = {d: s for d, s in lacking.items() if d not in self.coming}
            bases = {
                row[0].entry.content: there.content
                for path, row in rows.items()
                if row[0].entry.content in wanted
                and (there := store.generation.get(path)) is not None
                and there.kind == FILE
            }
            wants = [Want(digest, size, bases.get(digest, b"")) for digest, size in wanted.items()]
            self.coming |= wanted.keys()
            d = link.fetch(self.name, store.objects, wants)

            def done(result: Any) -> None:
                self.coming.difference_update(wanted)
                if isinstance(result, SaltwistedError):
                    self.last_error = str(result)
                    self._later("consider", GRACE, self.consider)
                else:
                    self._go(self._state_came, link, state)

            let_go(
                d.addCallbacks(done, lambda failure: done(failure.value)),
                self.log,
                "roots: fetching for {share} failed",
                share=self.name,
            )
            return
        if self.ready and not self.suspended:
            self._scan_all = True
            await self._take_changes()
        try:
            if repairing:
                outcome = await self.care.repair(link, rows)
            else:
                outcome = await self._owner.pool(store.merge, rows, lost, knowledge, link.node)
        except StoreError as error:
            self._failed_to_store(error)
            return
        await self._applied(None, outcome)

    # -- to the working tree

    async def _write_tree(
        self,
        shown: Mapping[bytes, tuple[Entry | None, Entry | None]] | None = None,
        batch: Batch | None = None,
    ) -> None:
        """Make the working tree what the generation says, wherever it is not."""
        store = self._db
        if self.suspended:
            return
        if shown is None:
            wanted = await self._owner.pool(store.pending)
        else:
            wanted = await self._owner.pool(to_write, shown, store.tree)
        if self.held:
            wanted = {path: entry for path, entry in wanted.items() if path not in self.held}
        if not wanted:
            return
        problem = await self._owner.pool(self._tree.check)
        if problem:
            self._suspend(problem)
            return
        moves = batch.moves if batch is not None else ()
        done: Written = await self._owner.pool(
            self._tree.write, wanted, store.tree, store.objects, moves
        )
        self.failed = {**{p: w for p, w in self.failed.items() if p not in wanted}, **done.failed}
        self.kept = (self.kept - wanted.keys()) | done.kept
        try:
            await self._owner.pool(store.remember, done.known, done.moved)
        except StoreError as error:
            self._failed_to_store(error)
            return
        for path, known in done.edits.items():
            # Somebody wrote it between our look and our exchange: a version beside ours
            await self._commit({path: known.entry}, beside=path)
        if self._watching:
            await self._watch_written(wanted, done)
        again = done.again - done.failed.keys()
        if again:
            self._dirty.update(again)
            self._later("again", self.settings.quiet, self._settled)
        if done.edits:
            await self._write_tree()
        self._later("trash", TRASH_TIME, self._empty_trash)

    async def _watch_written(self, wanted: Mapping[bytes, Entry | None], done: Written) -> None:
        """Watch the new directories; the events of what we have written say nothing new."""
        store = self._db
        made = [p for p, e in wanted.items() if e is not None and e.kind == DIR]
        fresh = await self._watch_all(made)
        self._watch.doRead()
        for old, new in done.moved:
            self._dirty.follow(old, new)
        echo = self._dirty.take_echo(done.known, store.tree)
        if fresh or echo:
            # Who put something into them before they were watched has made no event
            touched, changed = await self._owner.pool(
                look_back, self._tree, fresh, echo, store.tree
            )
            self._unlisted |= touched
            self._dirty.update(changed)
        if self._unlisted or self._dirty:
            self._later("again", self.settings.quiet, self._settled)
        elif not self._scan_all:
            self._calm()

    def _empty_trash(self) -> None:
        self._go(self._clear_trash)

    async def _clear_trash(self) -> None:
        if self.suspended:
            return
        left, done = await self._owner.pool(self._tree.empty_trash, TRASH_TIME, self._db.objects)
        for path, known in done.edits.items():
            await self._commit({path: known.entry}, beside=path)
        if done.edits:
            await self._write_tree()
        if left:
            self._later("trash", TRASH_TIME, self._empty_trash)

    # -- what operators ask for

    async def approve(self, user: str) -> int:
        """Let the held deletions through; how many."""
        count = len(self.held)
        self._approved = user
        try:
            self.held.clear()
            if self._brake is not None:
                self._brake.clear()
            self._scan_all = True
            await self.locked(self._take_changes)
        finally:
            self._approved = ""
        for pending in self._inbox.values():
            if pending.refused:
                pending.refused = ""
                key = (self.name, pending.batch.replica.master, pending.hi)
                self._owner.approvals.add(key)
                self.held_remote.pop(pending.batch.replica.master, None)
                count += 1
        self.work()
        return count

    async def restore(self) -> int:
        """Refill the root from the store: the answer to held deletions and to a lost disk."""
        return int(await self.locked(self._restore))

    async def _restore(self) -> int:
        store = self._db
        gone = dict.fromkeys(self.held)
        self.held.clear()
        if self.suspended:
            await self._trust_root()
            seen: Seen = await self._owner.pool(self._tree.scan, store.tree, store.objects)
            gone.update({path: None for path, known in seen.changed.items() if known is None})
        await self._owner.pool(store.remember, dict(gone))
        await self._write_tree()
        self._scan_all = True
        self._quiet()
        return len(gone)

    async def _trust_root(self) -> None:
        """This directory is the root from now on."""
        await self._owner.pool(trust, self._tree)
        self._remember_root()
        self.suspended = ""
        if self._watching:
            self._watch.stop()
            self._watching = False
        await self._open_root()

    async def accept(self, user: str) -> None:
        """Take the root as it stands now, deletions included."""
        await self.locked(self._trust_root)
        await self.approve(user)

    async def rollback(self, name: str, user: str) -> dict[str, Any]:
        """
        Make the tree of an earlier generation visible again, as a new generation.

        @raises StoreError: there is no such generation, or its contents are gone.
        """
        return dict(await self.locked(self._rollback, name, user))

    async def _rollback(self, name: str, user: str) -> dict[str, Any]:
        store = self._db
        change = await self._owner.pool(store.find, name)
        wanted = await self._owner.pool(store.way_back, change.number)
        if wanted:
            await self._commit(wanted, approved=user, note=f"rollback to {name_of(change.digest)}")
            await self._write_tree()
        return {"share": self.name, "to": name_of(change.digest), "changed": len(wanted)}

    async def resolve(self, path: bytes, take: Dot | None, user: str) -> int:
        """Close the conflicts of a path, and make one of the lost versions visible if asked to."""
        return int(await self.locked(self._resolve, path, take, user))

    async def _resolve(self, path: bytes, take: Dot | None, user: str) -> int:
        store = self._db
        found = [
            one for one in store.database.conflicts() if one[0] == path and one[3] != "settled"
        ]
        wanted: dict[bytes, Entry] = {}
        for _, version, _, _ in found:
            if version.dot == take:
                wanted[path] = version.entry
        await self._commit(
            wanted,
            settled=[(path, version.dot) for _, version, _, _ in found],
            note=f"resolved by {user}",
        )
        await self._write_tree()
        return len(found)

    @property
    def _sees_all(self) -> bool:
        """Whether the kernel tells of every change."""
        return self._watching and self._watch.complete

    @property
    def overflows(self) -> int:
        """How often the kernel lost events."""
        return self._watch.overflows

    async def preview(self) -> list[tuple[bytes, Entry | None, Entry | None]]:
        """What a scan would commit: path, before, after. Nothing is committed."""
        return list(await self.locked(self._preview))

    async def _preview(self) -> list[tuple[bytes, Entry | None, Entry | None]]:
        store = self._db
        if self.suspended:
            raise StoreError(f"is suspended: {self.suspended}", self.name)
        seen: Seen = await self._owner.pool(self._tree.scan, store.tree, store.objects)
        found = []
        for path, known in sorted(seen.changed.items()):
            before = store.generation.get(path)
            after = known.entry if known is not None else None
            if before != after:
                found.append((path, before, after))
        return found

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits: no local change, no batch, no file to be written."""
        return not (
            self._dirty
            or self._scan_all
            or self._unlisted
            or (self._young and not self._sees_all)
            or self._inbox
            or self._large
            or self._lock.locked
            or self._first_dirty is not None
        )


def conflict_name(path: bytes, version: Version) -> bytes:
    """Where a lost version is kept: behind the extension, so that no module is loaded twice."""
    tail = b".conflict-%x-%s-%s" % (
        version.stamp,
        version.dot.replica.master.encode("utf-8", "replace").replace(b"/", b"_"),
        version.entry.content.hex()[:8].encode(),
    )
    head, name = split(path)
    name = name[: MAX_NAME - len(tail)] + tail
    return head + b"/" + name if head else name
