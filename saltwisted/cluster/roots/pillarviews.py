"""
Directories of committed pillar roots for the workers, recreated at each generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.errors import StoreError
from saltwisted.stores.roots.pillartree import PillarTree
from saltwisted.transports.deferreds import let_go


class PillarViews:
    """
    A part of the service. It starts before the shares, to be informed of their first generation.

    @param folder: the directory of the shares' indexes.
    @param run: runs a blocking call in a thread.
    """

    log = Logger()

    def __init__(self, sync: RootSync, folder: str, run: Callable[..., Deferred[Any]]) -> None:
        self._sync = sync
        self._run = run
        self._count = 0
        self._running: dict[str, bool] = {}
        self._trees = {
            name: PillarTree(f"{folder}/{name.replace('/', '-')}/served")
            for name in sync.shares
            if name.startswith("pillar/")
        }
        self._replaced = {
            sync.shares[name].root: tree.current for name, tree in self._trees.items()
        }
        sync.news.on_generation.append(self._changed)
        sync.report.waits.append(lambda: not self._running)

    def generation(self) -> int:
        """How often a tree was made."""
        return self._count

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """C{pillar_roots}, with a tree in the place of each directory that is shared."""
        return {
            env: [
                self._replaced.get(str(path).rstrip("/") or "/", path) for path in _as_list(paths)
            ]
            for env, paths in (configured or {}).items()
        }

    async def startService(self) -> None:
        """Begin with empty trees."""
        # The stop may come meanwhile, and clear them
        for tree in tuple(self._trees.values()):
            await self._run(tree.prepare)

    def stopService(self) -> None:
        """Nothing is open."""
        self._trees.clear()

    def _changed(self, name: str) -> None:
        if name not in self._trees:
            return
        if name in self._running:
            self._running[name] = True
            return
        self._running[name] = False
        let_go(Deferred.fromCoroutine(self._show(name)), self.log, "a pillar tree was not made")

    async def _show(self, name: str) -> None:
        try:
            while True:
                self._running[name] = False
                store = self._sync.shares[name].store
                tree = self._trees.get(name)
                if store is None or tree is None:
                    return
                try:
                    await self._run(tree.show, store.generation, store.objects)
                    self._count += 1
                except StoreError as error:
                    self.log.error("pillar roots: {error}", error=str(error))
                if not self._running[name]:
                    return
        finally:
            self._running.pop(name, None)


def _as_list(paths: Any) -> list[Any]:
    return [paths] if isinstance(paths, str) else list(paths or [])
