"""
Progress reports of a run: as each step begins, and as it ends.

They go to the caller who waits for the run, and to all who listen to events, on every node: C{step}
and C{result} under C{saltwisted/orchestrate/JID/}. Stock reports nothing when a step begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

TAG = "saltwisted/orchestrate"
LONGEST = 400
"""Characters of a comment that are told: the result itself is written down."""


class Progress:
    """
    The progress of one run on this node. Reactor thread only.

    @param chunks: its chunks, in order.
    @param fire: fires an event on the bus.
    @param tell: sends an item to the caller who waits.
    """

    def __init__(
        self,
        jid: str,
        node: str,
        chunks: Sequence[Mapping[str, Any]],
        now: Callable[[], float],
        fire: Callable[[str, dict[str, Any]], Any],
        tell: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._jid, self._node, self._now = jid, node, now
        self._fire, self._tell = fire, tell
        self._names = dict(enumerate(map(name_of, chunks)))
        self._count = len(chunks)
        self._began: dict[int, float] = {}
        self._known: set[int] = set()

    def begins(self, number: int, low: Mapping[str, Any], job: str) -> None:
        """A step is about to act, under this jid if it is a job."""
        self._names[number] = name_of(low)
        self._began[number] = self._now()
        self._known.discard(number)
        self._say("step", {**self._of(number), "job": job})

    def knows(self, number: int) -> None:
        """A step does not act: it has its result from before."""
        self._known.add(number)

    def ended(self, number: int, result: Mapping[str, Any]) -> None:
        """A step has its result, or is not run because another one failed."""
        if number in self._known:
            return
        now = self._now()
        self._say(
            "result",
            {
                **self._of(number),
                "result": result.get("result"),
                "seconds": round(max(0.0, now - self._began.pop(number, now)), 3),
                "comment": str(result.get("comment", ""))[:LONGEST],
            },
        )

    def _of(self, number: int) -> dict[str, Any]:
        id_, function = self._names.get(number, ("", ""))
        return {
            "jid": self._jid,
            "node": self._node,
            "step": number + 1,
            "steps": max(self._count, number + 1),
            "id": id_,
            "function": function,
        }

    def _say(self, what: str, data: dict[str, Any]) -> None:
        self._fire(f"{TAG}/{self._jid}/{what}", data)
        self._tell({"step": {"what": what, **data}})


def name_of(low: Mapping[str, Any]) -> tuple[str, str]:
    """The id of a step, and its function."""
    return str(low.get("__id__", "")), f"{low.get('state', '')}.{low.get('fun', '')}"
