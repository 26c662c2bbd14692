"""
A history: one line of JSON for each thing that was done, that was broken, or that was seen.

Kinds of lines (C{kind}):

- C{run}: seed, names of the nodes, and the like; the first line.
- C{op}: what a client asked (C{op}), of which node, of what (C{key}), from when (C{t}) to when
  (C{e}), and how it ended (C{result}): C{ok}, C{unknown}, or C{none} (nothing was done, so it
  said). C{late} names the members that do not have it yet, by the answer; C{alone} says that these
  are all others.
- C{fault}: what the nemesis did to which C{pairs} of nodes, that is who could not reach whom,
  from C{t} to C{e}, when all were seen to reach each other again.
- C{disk}: from C{t} on the disk of C{node} has nothing that is younger than C{back}.
- C{outside}: C{node} was no member from C{t} to C{e}.
- C{settled}: all nodes were seen to have all, at C{t}, of what was asked before C{asked}.
- C{bad}: what is a violation by itself.
- C{seen}: what a node has (C{what}, C{value}), after everything was healed.
- C{note}: for whoever reads it.

Times are seconds since the run began, by a clock that nobody sets.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any


class History:
    """Written by many threads; kept in memory and in a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 4)

    def add(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A line."""
        record = {"kind": kind, **fields}
        record.setdefault("t", self.now())
        with self._lock:
            self.records.append(record)
            self._file.write(json.dumps(record, default=str) + "\n")
            self._file.flush()
        return record

    def close(self) -> None:
        """No more lines."""
        self._file.close()


def read(path: str) -> list[dict[str, Any]]:
    """The lines of a history."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
