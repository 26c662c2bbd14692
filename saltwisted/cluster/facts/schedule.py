"""
The schedule of a cluster: all nodes know what was changed on one node, and what has run there.

This replaces the file of a lone master (L{saltwisted.stores.schedule}), and takes the changes in it
into the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.facts.ondisk import refuse
from saltwisted.domain.masterschedule import IScheduleFacts
from saltwisted.domain.replica.schedule import KIND, ScheduleFacts
from saltwisted.transports.deferreds import let_go


class Held(Mapping[str, Mapping[str, Any]]):
    """
    The present contents of a fold, read on demand: a schedule's entries are requested one by one,
    and there may be thousands.
    """

    def __init__(self, fold: ScheduleFacts) -> None:
        self._fold = fold

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        state = self._fold.registers.get(key)
        if state is None or state.data is None:
            raise KeyError(key)
        return state.data

    def __iter__(self) -> Iterator[str]:
        return (key for key, state in self._fold.registers.items() if state.data is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ClusterSchedule:
    """A part of the service, started after the log and the file."""

    log = Logger()
    alone = False

    def __init__(
        self,
        fold: ScheduleFacts,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        listen: Callable[[str, Callable[[Sequence[Any]], None]], None],
        settled: Callable[[], Awaitable[Sequence[str]]],
        problem: Callable[[], str],
        file: IScheduleFacts,
    ) -> None:
        """
        @param append: C{append(kind, body)} of the fact log; on this node's disk when it returns.
        @param listen: tells of changes of a kind.
        @param settled: waits until the members that can be reached have what was appended.
        @param problem: why this node's disk does not take what is appended, or C{""}.
        @param file: what this master knew before it was a member.
        """
        self._fold = fold
        self._items = Held(fold)
        self._append = append
        self._settled = settled
        self._problem = problem
        self._file = file
        self._ours = False
        self._receivers: list[Callable[[Sequence[str]], None]] = []
        listen(KIND, self._changed)

    def startService(self) -> None:
        """Take over changes from before this master was a member."""
        let_go(self._take_along(), self.log, "changes of before the cluster stay in their file")

    def stopService(self) -> None:
        """Nothing waits here."""

    async def _take_along(self) -> None:
        for key, body in list(self._file.items().items()):
            if key not in self._fold.registers:
                await self.put(key, body)
            await self._file.put(key, None)

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """What holds."""
        return self._items

    def put(self, key: str, body: Mapping[str, Any] | None) -> Deferred[None]:
        """Into the log; fires when it is on this node's disk."""
        return Deferred.fromCoroutine(self._put(key, body))

    async def _put(self, key: str, body: Mapping[str, Any] | None) -> None:
        refuse(self._problem())
        self._ours = True
        try:
            # It is in the fold when this returns, and the others hear of it later
            writing = Deferred.fromCoroutine(self._written(key, body))
        finally:
            self._ours = False
        await writing

    async def _written(self, key: str, body: Mapping[str, Any] | None) -> None:
        await self._append(KIND, {"key": key, "data": None if body is None else dict(body)})

    async def settled(self) -> Sequence[str]:
        """The members that have not confirmed, after some seconds, what was put last."""
        return await self._settled()

    def listen(self, receiver: Callable[[Sequence[str]], None]) -> None:
        """Call C{receiver(keys)} when another node has changed something."""
        self._receivers.append(receiver)

    def _changed(self, keys: Sequence[str]) -> None:
        if not self._ours:
            for receiver in self._receivers:
                receiver(keys)


_ClusterSchedule: type[IScheduleFacts] = ClusterSchedule
