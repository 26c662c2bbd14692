"""
Renders SLS files in a worker process, for several events at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.master.automation.telling import Waiting
from saltwisted.master.workers import WorkerPool

ENTRY = "saltwisted.worker.automation.work:serve"
TIMEOUT = 30.0
"""Seconds for a call; then the process is killed, and each event is tried alone."""

Answer = Mapping[str, Any]
"""C{{"chunks", "problems"}}: see L{saltwisted.worker.automation.work}."""


class Rendering:
    """Asks the worker."""

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers

    async def rendered(self, batch: Sequence[Waiting]) -> list[tuple[Waiting, Answer]]:
        """Each event with its answer; one that fails has its reason as a problem."""
        events = [
            {
                "tag": one.tag,
                "data": dict(one.data),
                "sender": one.sender,
                "sls": [[sls, entry.saltenv] for entry in one.entries for sls in entry.sls],
            }
            for one in batch
        ]
        try:
            payload = {"do": "react", "events": events}
            answers = await self._workers.call(ENTRY, payload, TIMEOUT)
        except Exception as error:
            # It may be one event that no worker survives: the others shall not suffer from it
            if len(batch) == 1:
                names = ", ".join(sls for entry in batch[0].entries for sls in entry.sls)
                why = str(error) or type(error).__name__
                return [(batch[0], {"chunks": [], "problems": [[names, why]]})]
        else:
            return list(zip(batch, answers, strict=True))
        found: list[tuple[Waiting, Answer]] = []
        for one in batch:
            found += await self.rendered([one])
        return found
