"""
What the cluster knows about minions: grains, pillar and mine, the newest of each.

There is a register for each (bank, minion id). A node that writes one increments the version that
it has seen, so a newer value wins whatever the clocks say; stamps decide only between values that
did not know of each other. The values themselves are large and not kept here: they are passed to
the holder of the cache (C{taker}) when they arrive, and requested from it (C{load}) when they are
to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from attrs import frozen

from saltwisted.domain.causality.knowledge import Dot, knows
from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.replica.entry import Stream, counted, is_number
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError

KIND = "minion"
BANKS = ("grains", "mine", "pillar")
MAX_DATA = 4 * 1024 * 1024
"""Bytes of a value; a larger one stays on the node where it came in."""


@frozen
class Value:
    """
    Which value is the newest.

    @ivar digest: the digest of the value's bytes; empty if it was deleted.
    """

    version: int
    stamp: int
    origin: Dot[Stream]
    digest: bytes

    @property
    def rank(self) -> tuple[int, int, Dot[Stream], bytes]:
        """The greatest wins."""
        return self.version, self.stamp, self.origin, self.digest


def digest_of(data: bytes | None) -> bytes:
    """What stands for a value."""
    return b"" if data is None else blake2b(data, digest_size=16).digest()


def key_for(bank: str, minion_id: str) -> str:
    """The key of a register."""
    return f"{bank}/{minion_id}"


class Minions(Registers[Value]):
    """
    The fold of minion data.

    @ivar taker: C{taker(bank, minion_id, data)} gets each value that wins here, C{None} for one
        that is deleted. While it is not set, the log is being read.
    @ivar load: C{load(bank, minion_id)}: the bytes of a value, or C{None}.
    """

    kind = KIND

    def __init__(self) -> None:
        super().__init__()
        self.taker: Callable[[str, str, bytes | None], None] | None = None
        self.load: Callable[[str, str], bytes | None] = lambda bank, minion_id: None

    def key_of(self, body: Mapping[str, Any]) -> str:
        """By bank and id."""
        bank, minion_id = body["b"], body["i"]
        if bank not in BANKS or not valid_minion_id(minion_id):
            raise WireError("minion-data")
        return key_for(bank, minion_id)

    def join(
        self, state: Value | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Value | None:
        """The newer one."""
        if not is_number(body["v"]):
            raise WireError("minion-version")
        counted(body["v"], state.version if state is not None else 0)
        if "h" in body:
            # A snapshot of this node's own; nobody else may say a digest without the value
            if self.taker is not None or not isinstance(body["h"], bytes):
                raise WireError("minion-value")
            digest = body["h"]
        else:
            data = body["d"]
            if data is not None and (not isinstance(data, bytes) or len(data) > MAX_DATA):
                raise WireError("minion-value")
            digest = digest_of(data)
        new = Value(body["v"], stamp, origin, digest)
        return new if state is None or new.rank > state.rank else state

    def apply(self, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]) -> Sequence[str]:
        """Join a value in; the cache gets it if it is the newest."""
        changed = super().apply(body, stamp, origin)
        if changed and self.taker is not None:
            self.taker(body["b"], body["i"], body["d"])
        return changed

    def facts(self, key: str, state: Value) -> Iterable[Fact]:
        """The value, if it still exists."""
        bank, _, minion_id = key.partition("/")
        data = self.load(bank, minion_id) if state.digest else None
        if digest_of(data) != state.digest:
            return []
        body = {"b": bank, "i": minion_id, "v": state.version, "d": data}
        return [Fact(body, state.stamp, state.origin)]

    def snapshot(self) -> Iterator[Fact]:
        """Digests only: the values are in this node's cache."""
        for key, state in list(self.registers.items()):
            bank, _, minion_id = key.partition("/")
            body = {"b": bank, "i": minion_id, "v": state.version, "h": state.digest}
            yield Fact(body, state.stamp, state.origin)

    def signature(self, key: str, state: Value) -> Iterable[bytes]:
        """
        By digest: the values need not be read for it. Pillars are not compared: a node that
        may not hold them cannot hand them on, and a lost one comes with its next refresh.
        """
        if key.startswith("pillar/"):
            return []
        return [key.encode(), str(state.version).encode(), state.digest]

    def counts(self, state: Value) -> bool:
        """What is deleted is forgotten in time."""
        return bool(state.digest)

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """Forget values that were deleted long ago."""
        old = [
            key
            for key, state in self.registers.items()
            if not state.digest and knows(dropped, state.origin)
        ]
        for key in old:
            self.forget(key)
        return len(old)

    def body(self, bank: str, minion_id: str, data: bytes | None) -> dict[str, Any] | None:
        """The body of a new value of this node, or C{None} if it is already the newest."""
        state = self.registers.get(key_for(bank, minion_id))
        if state is None:
            if data is None:
                return None
        elif state.digest == digest_of(data):
            return None
        version = state.version + 1 if state is not None else 1
        return {"b": bank, "i": minion_id, "v": version, "d": data}
