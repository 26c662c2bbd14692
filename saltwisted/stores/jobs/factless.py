"""
The questions that every log must answer, for a log without facts.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.errors import StoreError


class FactlessLog:
    """
    A log whose entries are rows: it has no facts, and so no tombstones and no digests.
    """

    def forgotten(self) -> Mapping[Stream, int]:
        """There are no tombstones."""
        return {}

    def aged(self) -> Mapping[Stream, int]:
        """There are no tombstones."""
        return {}

    def forget(self, ignored: Mapping[Stream, int]) -> None:
        """There are no tombstones."""

    def append(self, kind: str, body: Mapping[str, Any]) -> Deferred[Entry]:
        """Refused: jobs and returns are added by the store's own methods."""
        return fail(StoreError(f"{kind}: the job cache stores only jobs and returns"))

    def digests(self) -> Mapping[str, bytes]:
        """None: equal knowledge is all there is to compare."""
        return {}

    def buckets(self, kind: str) -> bytes:
        """None."""
        return b""

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Any]:
        """None."""
        return ()

    def merge_facts(self, facts: Sequence[tuple[str, Any]]) -> Deferred[None]:
        """There are none."""
        return succeed(None)
