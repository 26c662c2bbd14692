"""
What operators tell a share to do: approve, restore, accept, roll back, resolve.
"""

from __future__ import annotations

from typing import Any

from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.edits import RootEdits
from saltwisted.cluster.roots.inbox import RootInbox
from saltwisted.cluster.roots.look import RootLook
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.manifest import name_of
from saltwisted.errors import StoreError
from saltwisted.stores.roots.newfiles import Seen


class RootOrders:
    """Reactor thread only."""

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        commits: RootCommit,
        writes: RootWrite,
        edits: RootEdits,
        look: RootLook,
        inbox: RootInbox,
    ) -> None:
        self._core = core
        self._watch = watch
        self._commits = commits
        self._writes = writes
        self._edits = edits
        self._look = look
        self._inbox = inbox

    async def approve(self, user: str) -> int:
        """Let the held deletions through; how many."""
        count = len(self._core.held)
        self._commits.approved = user
        try:
            self._core.held.clear()
            self._edits.brake.clear()
            # At once, not only when the look begins: who asks sees that something is to be done
            self._watch.everything = True
            failures = self._commits.failures
            await self._core.locked(self._look.take)
            if self._commits.failures != failures:
                raise StoreError(f"not done: {self._core.last_error}", self._core.name)
        finally:
            self._commits.approved = ""
        return count + self._inbox.approve()

    async def restore(self) -> int:
        """Refill the root from the store: the answer to held deletions and to a lost disk."""
        return int(await self._core.locked(self._restore))

    async def _restore(self) -> int:
        core, store = self._core, self._core.db
        gone = dict.fromkeys(core.held)
        core.held.clear()
        if core.suspended:
            await self._look.trust_root()
            seen: Seen = await core.pool(core.tree.reader.scan, store.tree.known, store.objects)
            gone.update({path: None for path, known in seen.changed.items() if known is None})
        await core.pool(store.tree.remember, dict(gone))
        await self._writes.write()
        self._watch.look_everywhere()
        return len(gone)

    async def accept(self, user: str) -> None:
        """Take the root as it stands now, deletions included."""
        await self._core.locked(self._look.trust_root)
        await self.approve(user)

    async def rollback(self, name: str, user: str) -> dict[str, Any]:
        """
        Make the tree of an earlier generation visible again, as a new generation.

        @raises StoreError: the generation does not exist, or its contents are gone.
        """
        return dict(await self._core.locked(self._rollback, name, user))

    async def plan_rollback(self, name: str) -> dict[str, Any]:
        """
        What L{rollback} will answer.

        @raises StoreError: as for L{rollback}.
        """
        return dict((await self._core.locked(self._way_back, name))[1])

    async def _way_back(self, name: str) -> tuple[dict[bytes, TreeEntry], dict[str, Any]]:
        """What has to change, and what is said of it."""
        core, store = self._core, self._core.db
        change = await core.pool(store.history.find, name)
        wanted = await core.pool(store.history.way_back, change.number)
        told = {"share": core.name, "to": name_of(change.digest), "changed": len(wanted)}
        return wanted, told

    async def _rollback(self, name: str, user: str) -> dict[str, Any]:
        wanted, told = await self._way_back(name)
        if wanted:
            note = f"rollback to {told['to']}"
            self._sure(await self._commits.commit(wanted, approved=user, note=note))
            await self._writes.write()
        return told

    async def resolve(self, path: bytes, take: Dot[ReplicaId] | None, user: str) -> int:
        """Close the conflicts of a path, and make one of the lost versions visible if asked to."""
        return int(await self._core.locked(self._resolve, path, take, user))

    async def _resolve(self, path: bytes, take: Dot[ReplicaId] | None, user: str) -> int:
        found = [
            one for one in self._core.db.conflicts.all() if one[0] == path and one[3] != "settled"
        ]
        wanted: dict[bytes, TreeEntry] = {}
        for _, version, _, _ in found:
            if version.dot == take:
                wanted[path] = version.entry
        if found:
            batch = await self._commits.commit(
                wanted,
                settled=[(path, version.dot) for _, version, _, _ in found],
                note=f"resolved by {user}",
            )
            self._sure(batch)
        await self._writes.write()
        return len(found)

    def _sure(self, batch: Batch | None) -> None:
        """
        An order is done when its batch is on the disk. Nobody tries it again.

        @raises StoreError: there was something to be said, and nothing was.
        """
        if batch is None:
            core = self._core
            why = "this node has no right to write" if core.is_read_only else core.last_error
            raise StoreError(f"not done: {why or 'nothing was committed'}", core.name)
