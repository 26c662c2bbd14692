"""
What all nodes know of the master's schedule besides its configuration: changes, pauses, runs.

There is a register for each key of L{saltwisted.domain.masterschedule}; the last statement counts.
A dropped key is kept as such until no member can have an older statement, by days of running time,
as with deleted tokens. It does not count in digests, so that nodes may forget it at different
moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.causality.knowledge import Dot, knows
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

KIND = "schedule"
KINDS = ("job", "ran", "pause", "automation")
LONGEST_KEY = 512
LARGEST = 1 << 18
"""Bytes of one register."""

Place = tuple[int, Dot[Stream]]


@frozen
class Known:
    """
    What is known under one key.

    @ivar data: C{None} once it was dropped.
    @ivar place: when and where that was stated.
    """

    data: Mapping[str, Any] | None
    place: Place


class ScheduleFacts(Registers[Known]):
    """The fold of kind C{schedule}. A body has C{key}, and C{data} (a map, or C{None})."""

    kind = KIND

    def key_of(self, body: Mapping[str, Any]) -> str:
        """The key, if it is of a kind that there is."""
        key = body["key"]
        if not isinstance(key, str) or len(key) > LONGEST_KEY:
            raise WireError("schedule-key")
        if key.partition("/")[0] not in KINDS:
            raise WireError("schedule-kind")
        return key

    def join(
        self, state: Known | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Known:
        """The later word counts."""
        data = body["data"]
        if data is not None and not isinstance(data, Mapping):
            raise WireError("schedule-data")
        if data is not None and len(pack_bin(dict(data))) > LARGEST:
            raise WireError("schedule-size")
        if state is not None and state.place >= (stamp, origin):
            return state
        return Known(None if data is None else dict(data), (stamp, origin))

    def newest(self, body: Mapping[str, Any]) -> int:
        """That of the statement before."""
        state = self.registers.get(self.key_of(body))
        return 0 if state is None else state.place[0]

    def facts(self, key: str, state: Known) -> Iterable[Fact]:
        """One fact: the last statement."""
        return [Fact({"key": key, "data": state.data}, *state.place)]

    def counts(self, state: Known) -> bool:
        """What was dropped is forgotten in time."""
        return state.data is not None

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """Forget dropped keys when everybody has known that for long."""
        old = [
            key
            for key, state in self.registers.items()
            if state.data is None and knows(dropped, state.place[1])
        ]
        for key in old:
            self.forget(key)
        return len(old)
