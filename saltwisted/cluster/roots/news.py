"""
What the roots of a node report on the node: events on the bus, lines of the log, and calls to
listeners.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted import advice
from saltwisted.domain.roots.entry import Batch, Conflict
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import Generation
from saltwisted.words import counted

MOST_LINES = 20
"""Conflicts of one commit that get a line of the log each."""

Listeners = list[Callable[[str], None]]


class RootNews:
    """
    Reactor thread only.

    @param fire: C{fire(tag, data)} on the bus.
    @ivar on_generation: called with the name of a share that has a new generation.
    @ivar on_stranded: called with a share that has to start again, with everything that uses it.
    @ivar on_damaged: called with a share whose index is moved aside when it is opened again.
    @ivar on_left_out: called with the directory of a share that could not be opened.
    """

    log = Logger()

    def __init__(self, node: str, fire: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.on_generation: Listeners = []
        self.on_stranded: Listeners = []
        self.on_damaged: Listeners = []
        self.on_left_out: Listeners = []
        self._node = node
        self._fire = fire

    def event(self, what: str, data: Mapping[str, Any]) -> None:
        """On the bus, as C{salt/roots/<what>}."""
        self._fire(f"salt/roots/{what}", {"node": self._node, **data})

    def loaded(self, share: str) -> None:
        """A generation was committed before this process began."""
        _tell(self.on_generation, share)

    def stranded(self, share: str) -> None:
        """A share has to start again, with all that uses it."""
        _tell(self.on_stranded, share)

    def damaged(self, share: str) -> None:
        """The index of a share is damaged: it is put aside when it is opened again."""
        _tell(self.on_damaged, share)

    def left_out(self, root: str) -> None:
        """A directory that is not replicated, though it should be."""
        _tell(self.on_left_out, root)

    def committed(
        self,
        share: str,
        generation: Generation,
        batch: Batch | None,
        outcome: Outcome,
        local: bool,
    ) -> None:
        """A generation is committed."""
        if outcome.shown:
            _tell(self.on_generation, share)
            self.event(
                "committed" if local else "applied",
                {
                    "share": share,
                    "generation": generation.name,
                    "number": generation.number,
                    "origin": batch.replica.master if batch is not None else "",
                    "changed": len(outcome.shown),
                },
            )
        if outcome.conflicts:
            self._log_conflicts(share, outcome.conflicts)
            self.event(
                "conflict",
                {
                    "share": share,
                    "paths": sorted({os.fsdecode(one.path) for one in outcome.conflicts})[:100],
                },
            )

    def _log_conflicts(self, share: str, conflicts: Sequence[Conflict]) -> None:
        """A line for each path, and a count where there are very many."""
        for path, version in conflicts[:MOST_LINES]:
            self.log.warn(
                "roots: {share}: {path}: changed on two masters at once; the change of {master} "
                "is kept, but not served. {advice}",
                share=share,
                advice=advice.of("roots.conflicts", share=share),
                path=os.fsdecode(path),
                master=version.dot.source.master,
            )
        if len(conflicts) > MOST_LINES:
            self.log.warn(
                "roots: {share}: {more}",
                share=share,
                more=counted(len(conflicts) - MOST_LINES, "more conflict"),
            )


def _tell(listeners: Listeners, what: str) -> None:
    for listener in listeners:
        listener(what)
