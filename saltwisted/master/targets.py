"""
Which minions a target matches, computed without blocking the reactor.

Most targets are evaluated here, a few milliseconds at a time. Regular expressions that may take for
ever are tried in a worker process, no matter who wrote them. If one takes too long, the process is
killed; then the target matches nobody, and the log says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any

from attrs import evolve
from twisted.logger import Logger

from saltwisted.domain.acl import Decision, Judging
from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.brief import brief
from saltwisted.domain.targeting.selection import (
    Risky,
    Selection,
    Universe,
    exact_form,
    first_keys,
    selecting,
)
from saltwisted.errors import SaltwistedError
from saltwisted.master.workers import WorkerPool
from saltwisted.transports import turns
from saltwisted.transports.turns import in_turns, pause

ENTRY = "saltwisted.worker.process.targetwork:serve"
TOGETHER = 250
"""Minions per call of a worker."""
VALUES_TOGETHER = 50_000
"""Values in the data of those minions, about."""
IDS_TOGETHER = 5000
"""The same where their ids are all that it needs."""
PATIENCE = 5.0
"""Seconds that one regular expression may take over all minions."""


class Targets:
    """Looks targets up for a master."""

    log = Logger()

    def __init__(
        self, clock: Any, universe: Callable[[], Universe], workers: WorkerPool | None = None
    ) -> None:
        self._clock = clock
        self._universe = universe
        self.workers = workers

    async def find(
        self,
        tgt: Any,
        tgt_type: str,
        delimiter: str = ":",
        greedy: bool = True,
        only: str | None = None,
        exact: bool = False,
    ) -> Selection:
        """
        The accepted minions that a target means, by what the master knows of them.

        @param exact: read pillar values without wildcards: for every target that a minion names
            and that is not about itself.
        @param only: ask of this one minion alone.
        """
        universe = self._universe()
        if only is not None:
            universe = evolve(universe, accepted=[m for m in universe.accepted if m == only])
        # A runner that a minion calls hands on whatever it was given
        tgt_type = exact_form(str(tgt_type)) if exact else str(tgt_type)
        steps = selecting(tgt, tgt_type, universe, delimiter, greedy)
        answer: Sequence[str] | None = None
        until = thread_time() + turns.PORTION
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                selection: Selection = end.value
                self._report(tgt, selection)
                return selection
            answer = await self._try(asked, universe) if asked is not None else None
            if thread_time() > until:
                await pause(self._clock)
                until = thread_time() + turns.PORTION

    def _report(self, tgt: Any, selection: Selection) -> None:
        for problem in selection.problems:
            self.log.warn("target {tgt!r}: {problem}", tgt=brief(tgt), problem=problem[:200])

    async def _try(self, risky: Risky, universe: Universe) -> list[str] | None:
        """Have a worker try it; C{None} when it took too long, or there is no worker."""
        if self.workers is None:
            return None
        found: list[str] = []
        until = self._clock.seconds() + PATIENCE
        rest = list(risky.ids)
        while rest:
            ids = rest[:IDS_TOGETHER]
            data: list[Any] = []
            if risky.bank:
                ids, data = await self._data(risky, universe, rest[:TOGETHER])
            rest = rest[len(ids) :]
            left = until - self._clock.seconds()
            if left <= 0:
                return None
            payload = {
                "tgt": risky.tgt,
                "type": risky.tgt_type,
                "delimiter": risky.delimiter,
                "ids": ids,
                "bank": risky.bank,
                "data": data,
            }
            try:
                found += await self.workers.call(ENTRY, payload, left)
            except SaltwistedError as error:
                self.log.warn("gave up a regular expression: {error}", error=error)
                return None
        return found

    async def _data(
        self, risky: Risky, universe: Universe, ids: list[str]
    ) -> tuple[list[str], list[Any]]:
        """
        Of each minion's data what the target can ask for: what its first key names.

        @return: as many of the minions as are packed in a short time, but at least one; their data.
        """
        keys = first_keys(risky.tgt, risky.delimiter)
        taken: list[Any] = []
        room = VALUES_TOGETHER
        async for minion in in_turns(self._clock, ids):
            data = universe.fetch(risky.bank, minion) or {}
            taken.append({key: data[key] for key in keys if key in data} if keys else dict(data))
            room = room_after(taken[-1], room)
            if room < 0:
                break
        return ids[: len(taken)], taken

    async def judged(self, judging: Judging[Decision]) -> Decision:
        """
        Make a decision that depends on what targets match, a few milliseconds at a time.

        @param judging: the decision; each target is looked up once, however often it asks.
        """
        known: dict[tuple[str, str, str], Selection] = {}
        until = thread_time() + turns.PORTION
        try:
            asked = next(judging)
            while True:
                if thread_time() > until:
                    await pause(self._clock)
                    until = thread_time() + turns.PORTION
                if asked is None:
                    asked = next(judging)
                    continue
                key = (repr(asked[0]), *asked[1:])
                if key not in known:
                    known[key] = await self.find(*asked)
                asked = judging.send(known[key])
        except StopIteration as end:
            decision: Decision = end.value
            return decision
