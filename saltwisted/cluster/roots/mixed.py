"""
Jobs whose minions were served other trees than the job's own. Each such case is a mark, which all
nodes have (word C{roots-mixed}), also on their disks.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.roots.pins import KEPT
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.roots.marks import Mark, RootMarks
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MIXED = "roots-mixed"
MOST_MARKS = 20_000
MARKS_KEPT = 30 * 24 * 3600.0
TOGETHER = 2000
"""Marks in one message."""


class RootMixed:
    """
    Reactor thread only.

    @param marks: the file of marks.
    """

    log = Logger()

    def __init__(
        self, sync: RootSync, peers: IPeers, counters: Counter[str], marks: RootMarks
    ) -> None:
        self._sync, self._peers, self._counters, self._store = sync, peers, counters, marks
        self._marks: OrderedDict[str, dict[str, dict[str, float]]] = OrderedDict()
        peers.answer(MIXED, self._told)
        peers.on_link(self._linked)

    async def begin(self) -> None:
        """Read the marks of the last weeks."""
        try:
            marks = await self._sync.host.pool(self._store.open, self._sync.host.now() - MARKS_KEPT)
        except StoreError as error:
            self.log.error(
                "roots: the marks of mixed jobs cannot be stored: {error}", error=str(error)
            )
            return
        self._remember(marks)

    async def end(self) -> None:
        """Close the file."""
        await self._sync.host.pool(self._store.close)

    def of(self, jid: str) -> Mapping[str, Any]:
        """Minion of this job to the generations that it was served in addition to the job's own."""
        found = self._marks.get(jid, {})
        return {minion: sorted(names) for minion, names in sorted(found.items())}

    def mark(self, jid: str, minion: str, name: str) -> None:
        """A minion is served another generation."""
        mark = Mark(jid, minion, name, self._sync.host.now())
        if not self._remember([mark]):
            return
        self._counters["roots:mixed"] += 1
        self._sync.news.event("mixed", {"jid": jid, "minion": minion, "generation": name})
        body = pack_bin([list(mark)])
        for link in self._peers.links():
            link.tell(MIXED, body)
        self._keep([mark])

    def _remember(self, marks: Iterable[Mark]) -> list[Mark]:
        fresh = []
        for mark in marks:
            names = self._marks.setdefault(mark.jid, {}).setdefault(mark.minion, {})
            if mark.name not in names:
                names[mark.name] = mark.at
                fresh.append(mark)
        while len(self._marks) > MOST_MARKS:
            self._marks.popitem(last=False)
        return fresh

    def _keep(self, marks: list[Mark]) -> None:
        if marks:
            d = self._sync.host.pool(self._store.add, marks)
            let_go(d, self.log, "roots: a mark of a mixed job was not kept")

    def _linked(self, link: IPeerLink, up: bool) -> None:
        """A node that was away hears of what was mixed."""
        if not up:
            return
        oldest = self._sync.host.now() - KEPT
        marks = [
            [jid, minion, name, at]
            for jid, minions in self._marks.items()
            for minion, names in minions.items()
            for name, at in names.items()
            if at > oldest
        ]
        for start in range(0, len(marks), TOGETHER):
            link.tell(MIXED, pack_bin(marks[start : start + TOGETHER]))

    def _told(self, node: str, body: bytes) -> None:
        try:
            marks = [
                Mark(str(jid)[:64], str(minion)[:255], str(name)[:64], float(at))
                for jid, minion, name, at in unpack_bin(body)
            ]
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-mixed"] += 1
            return
        self._keep(self._remember(marks[:TOGETHER]))
