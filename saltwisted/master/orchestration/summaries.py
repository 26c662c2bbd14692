"""
Descriptions of orchestrations: one in full, or thousands in one line each.

Everything is read in short turns, and a run that has not changed is read only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.domain.orchestration.copies import NONE, Rank
from saltwisted.domain.orchestration.words import Run, unpack_line
from saltwisted.master.orchestration.protocols import IRunRecords
from saltwisted.transports.turns import in_turns


class Summaries:
    """The summaries of one node. Reactor thread only."""

    def __init__(self, clock: Any, records: IRunRecords) -> None:
        self._clock, self._records = clock, records
        self._known: dict[str, tuple[Rank, Mapping[str, Any]]] = {}

    async def read(self, jid: str, enough: Rank = (NONE, 0)) -> Run:
        """What is known of a run; C{enough} as for L{IRunRecords.read}."""
        run = Run(jid)
        async for packed in in_turns(self._clock, await self._records.read(jid, enough)):
            run.read(unpack_line(packed))
        return run

    async def listed(self, most: int) -> Sequence[Mapping[str, Any]]:
        """
        The newest runs, oldest first, without their steps.

        @param most: how many; 0 for all.
        """
        heads = await self._records.heads()
        self._known = {jid: one for jid, one in self._known.items() if jid in heads}
        found = []
        async for jid in in_turns(self._clock, sorted(heads)[-max(0, most) :]):
            known = self._known.get(jid)
            if known is None or known[0] < heads[jid]:
                run = await self.read(jid, heads[jid])
                known = self._known[jid] = heads[jid], run.shown(steps=False)
            found.append(known[1])
        return found
