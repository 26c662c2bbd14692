"""
What is known of minions, in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import StoreError, WireError
from saltwisted.parts import IMinionCache
from saltwisted.wire.msgpack import pack_bin, unpack_bin


class MemoryCache:
    """
    A minion cache without a disk.

    @ivar kept: C{(bank, minion_id)} to packed bytes.
    @ivar problem: what a status says of it; for tests to set.
    """

    def __init__(self, kept: MutableMapping[tuple[str, str], bytes] | None = None) -> None:
        """
        @param kept: what another one has kept, as if this one were its next start.
        """
        self.kept = {} if kept is None else kept
        self.problem = ""
        self._receivers: list[Callable[[str, str, bytes | None], None]] = []

    def startService(self) -> None:
        """Nothing to learn."""

    def stopService(self) -> None:
        """Nothing to write."""

    def get(self, bank: str, minion_id: str) -> Mapping[str, Any] | None:
        """The value, or C{None}."""
        data = self.kept.get((bank, minion_id))
        if data is None:
            return None
        try:
            value = unpack_bin(data)
        except WireError:
            value = None
        if not isinstance(value, dict):
            self.delete(bank, minion_id)
            return None
        return value

    def part(self, bank: str, minion_id: str, keys: tuple[Any, ...]) -> Mapping[Any, Any] | None:
        """Some keys of a value, those that it has."""
        value = self.get(bank, minion_id)
        return None if value is None else {key: value[key] for key in keys if key in value}

    def packed(self, bank: str, minion_id: str) -> bytes | None:
        """The value, packed."""
        return self.kept.get((bank, minion_id))

    def has(self, bank: str, minion_id: str) -> bool:
        """Whether there is a value."""
        return (bank, minion_id) in self.kept

    def ids(self, bank: str) -> Sequence[str]:
        """Sorted ids of minions that have a value in the bank."""
        return tuple(sorted(minion_id for each, minion_id in self.kept if each == bank))

    def put(self, bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        """Replace a value."""
        if not valid_minion_id(minion_id):
            raise StoreError("not a minion id", repr(minion_id)[:200])
        data = pack_bin(value)
        if self.kept.get((bank, minion_id)) != data:
            self.kept[bank, minion_id] = data
            self._tell(bank, minion_id, data)

    def delete(self, bank: str, minion_id: str) -> None:
        """Forget a value."""
        if self.kept.pop((bank, minion_id), None) is not None:
            self._tell(bank, minion_id, None)

    def adopt(self, bank: str, minion_id: str, data: bytes | None) -> None:
        """Take over what another node has."""
        if data is None:
            self.kept.pop((bank, minion_id), None)
        else:
            self.kept[bank, minion_id] = data

    def on_change(self, receiver: Callable[[str, str, bytes | None], None]) -> None:
        """Have somebody told of what L{put} and L{delete} change."""
        self._receivers.append(receiver)

    def _tell(self, bank: str, minion_id: str, data: bytes | None) -> None:
        for receiver in self._receivers:
            receiver(bank, minion_id, data)

    def retry(self) -> None:
        """Nothing was refused."""


_MemoryCache: type[IMinionCache] = MemoryCache  # mypy compares them
