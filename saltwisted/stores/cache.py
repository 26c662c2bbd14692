"""
What a master knows about its minions: grains, pillar and mine, one file each.

The layout is that of Salt 3008 (C{<bank>/<id>.p}, msgpack with bin types), so Salt's tools can read
it. A bounded part of it is in memory: values that were requested are kept as objects, which share
their text (two thousand minions have the text C{Debian}); values that were just written are kept as
bytes. The rest is on disk. The keys that targets ask of all minions, one grain or one pillar key,
are cached separately, so that ten thousand values need not be unpacked each time. Callers must not
change a value that they read.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from sys import intern
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from saltwisted.domain.events import weight
from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import StoreError, WireError
from saltwisted.kinds import MINION_CACHE, Parts
from saltwisted.parts import IMinionCache
from saltwisted.stores import files
from saltwisted.stores.writebehind import Background, WriteBehind
from saltwisted.wire.msgpack import pack_bin, unpack_bin

BANKS = ("grains", "pillar", "mine")
_LARGEST = 64 * 1024 * 1024
_SLICE = 20
_PAUSE = 0.02
_COLUMNS = 4
_PART = 1024
_SHARED = 64 * 1024

_Key = tuple[str, str]
Receiver = Callable[[str, str, bytes | None], None]


class MinionCache:
    """
    Reactor thread only. A value that is in neither memory is read inline: a few kilobytes.

    @param cachedir: the banks are directories in it.
    @param objects: packed bytes of the values that are kept as objects, which take two
        or three times as much.
    @param packed: bytes of values that are kept packed.
    @param clock: creates objects of the grains after the start, a few per turn, so that the first
        target by grains need not.
    """

    log = Logger()

    def __init__(
        self,
        cachedir: str,
        background: Background | None = None,
        objects: int = 16 * 1024 * 1024,
        packed: int = 8 * 1024 * 1024,
        clock: IReactorTime | None = None,
    ) -> None:
        self._cachedir = cachedir
        self._behind = WriteBehind(background)
        self._objects: OrderedDict[_Key, tuple[Any, int]] = OrderedDict()
        self._packed: OrderedDict[_Key, bytes] = OrderedDict()
        self._digests: dict[_Key, bytes] = {}
        self._columns: OrderedDict[tuple[str, tuple[Any, ...]], dict[str, Mapping[Any, Any]]]
        self._columns = OrderedDict()
        self._clock = clock
        self._receivers: list[Receiver] = []
        self._warming: Any = None
        self._object_bytes = 0
        self._packed_bytes = 0
        self._most_objects = objects
        self._most_packed = packed
        self._ids: dict[str, set[str]] = {bank: set() for bank in BANKS}
        self._sorted: dict[str, tuple[str, ...] | None] = dict.fromkeys(BANKS)

    def startService(self) -> None:
        """Make the directories (0700) and learn whose values are there."""
        for bank in BANKS:
            folder = f"{self._cachedir}/{bank}"
            files.make_dir(folder)
            files.sweep_temporary(folder)
            try:
                names = os.listdir(folder)
            except OSError as error:
                raise files.store_error(error, folder) from error
            self._ids[bank] = {
                name[:-2] for name in names if name.endswith(".p") and valid_minion_id(name[:-2])
            }
            self._sorted[bank] = None
        if self._clock is not None:
            self._warm(iter(self.ids("grains")))

    def _warm(self, rest: Iterator[str]) -> None:
        self._warming = None
        some = list(islice(rest, _SLICE))
        for minion_id in some:
            self.get("grains", minion_id)
        room = self._object_bytes * 2 < self._most_objects
        if some and room and self._clock is not None:
            self._warming = self._clock.callLater(_PAUSE, self._warm, rest)

    def get(self, bank: str, minion_id: str) -> Mapping[str, Any] | None:
        """The value, or C{None}. It is shared: do not change it."""
        key = (bank, minion_id)
        found = self._objects.get(key)
        if found is not None:
            self._objects.move_to_end(key)
            return found[0]  # type: ignore[no-any-return]
        if minion_id not in self._ids[bank]:
            return None
        data = self._packed.get(key)
        if data is None:
            data = self._load(bank, minion_id)
            if data is None:
                return None
        try:
            # Long ones are of few minions, and not alike; everybody waits for this
            value = unpack_bin(data)
            value = _shared(value) if len(data) <= _SHARED else value
        except WireError:
            value = None
        if not isinstance(value, dict):
            self.log.warn("{path} is damaged, and is ignored", path=self._path(bank, minion_id))
            self.delete(bank, minion_id)
            return None
        self._drop(key)
        self._keep_object(key, value, len(data))
        if key not in self._digests:
            self._digests[key] = _digest(data)
        return value

    def part(self, bank: str, minion_id: str, keys: tuple[Any, ...]) -> Mapping[Any, Any] | None:
        """
        The requested keys of a value, as far as it has them; C{None} if there is no value.

        The last few sets of requested keys are cached for all minions for which they were
        requested.
        """
        column = self._columns.get((bank, keys))
        if column is None:
            column = self._columns[bank, keys] = {}
            if len(self._columns) > _COLUMNS:
                self._columns.popitem(last=False)
        found = column.get(minion_id)
        if found is None:
            value = self.get(bank, minion_id)
            if value is None:
                return None
            found = {key: value[key] for key in keys if key in value}
            if weight(found) <= _PART:
                column[minion_id] = found
        return found

    def _outdate(self, key: _Key) -> None:
        self._drop(key)
        bank, minion_id = key
        for (other, _), column in self._columns.items():
            if other == bank:
                column.pop(minion_id, None)

    def put(self, bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        """Replace a value; on disk a little later. One that is equal costs no write."""
        key = (bank, minion_id)
        if not valid_minion_id(minion_id):
            raise StoreError("not a minion id", repr(minion_id)[:200])
        data = pack_bin(value)
        if self._replace(key, data):
            for receiver in self._receivers:
                receiver(bank, minion_id, data)

    def adopt(self, bank: str, minion_id: str, data: bytes | None) -> None:
        """Take over what another node has: packed bytes, or C{None} to forget. Tells nobody."""
        if data is None:
            self._remove(bank, minion_id)
        else:
            self._replace((bank, minion_id), data)

    def packed(self, bank: str, minion_id: str) -> bytes | None:
        """The bytes of a value as they are on disk."""
        if minion_id not in self._ids[bank]:
            return None
        data = self._packed.get((bank, minion_id))
        return data if data is not None else self._load(bank, minion_id)

    def on_change(self, receiver: Receiver) -> None:
        """Call this function at each change by L{put} and L{delete}."""
        self._receivers.append(receiver)

    def _replace(self, key: _Key, data: bytes) -> bool:
        """Whether that was news."""
        bank, minion_id = key
        digest = _digest(data)
        if self._digests.get(key) == digest:
            return False
        self._digests[key] = digest
        if minion_id not in self._ids[bank]:
            self._ids[bank].add(minion_id)
            self._sorted[bank] = None
        self._outdate(key)
        self._keep_packed(key, data)
        self._behind.put(self._path(bank, minion_id), data)
        return True

    def delete(self, bank: str, minion_id: str) -> None:
        """Forget a value, also on disk, before returning."""
        if self._remove(bank, minion_id):
            for receiver in self._receivers:
                receiver(bank, minion_id, None)

    def _remove(self, bank: str, minion_id: str) -> bool:
        """Whether there was one."""
        there = minion_id in self._ids[bank]
        self._outdate((bank, minion_id))
        self._digests.pop((bank, minion_id), None)
        if minion_id in self._ids[bank]:
            self._ids[bank].discard(minion_id)
            self._sorted[bank] = None
            try:
                self._behind.delete(self._path(bank, minion_id))
            except StoreError as error:
                self.log.error("a cached value cannot be removed: {error}", error=error)
        return there

    def forget(self, minion_id: str) -> None:
        """Forget everything about a minion."""
        for bank in BANKS:
            self.delete(bank, minion_id)

    def ids(self, bank: str) -> Sequence[str]:
        """Sorted ids of minions that have a value in the bank."""
        known = self._sorted[bank]
        if known is None:
            known = self._sorted[bank] = tuple(sorted(self._ids[bank]))
        return known

    def has(self, bank: str, minion_id: str) -> bool:
        """Whether there is a value, without reading it."""
        return minion_id in self._ids[bank]

    def stopService(self) -> None:
        """Write what is still waiting."""
        if self._warming is not None and self._warming.active():
            self._warming.cancel()
        self._warming = None
        self.flush()

    def retry(self) -> None:
        """Try again to write what the disk refused."""
        self._behind.retry()

    @property
    def problem(self) -> str:
        """Why the last write failed, or C{""}."""
        return self._behind.problem

    def flush(self) -> None:
        """Block until everything is written."""
        self._behind.flush()

    def _path(self, bank: str, minion_id: str) -> str:
        return f"{self._cachedir}/{bank}/{minion_id}.p"

    def _load(self, bank: str, minion_id: str) -> bytes | None:
        path = self._path(bank, minion_id)
        data = self._behind.pending(path)
        if data is None:
            try:
                data = files.read_file(path, _LARGEST)
            except StoreError as error:
                self.log.error("a cached value cannot be read: {error}", error=error)
                return None
        if data is None:
            self._digests.pop((bank, minion_id), None)
            self._ids[bank].discard(minion_id)
            self._sorted[bank] = None
        return data

    def _drop(self, key: _Key) -> None:
        found = self._objects.pop(key, None)
        if found is not None:
            self._object_bytes -= found[1]
        data = self._packed.pop(key, None)
        if data is not None:
            self._packed_bytes -= len(data)

    def _keep_object(self, key: _Key, value: Any, size: int) -> None:
        self._objects[key] = (value, size)
        self._object_bytes += size
        while self._object_bytes > self._most_objects and len(self._objects) > 1:
            self._object_bytes -= self._objects.popitem(last=False)[1][1]

    def _keep_packed(self, key: _Key, data: bytes) -> None:
        self._packed[key] = data
        self._packed_bytes += len(data)
        while self._packed_bytes > self._most_packed and len(self._packed) > 1:
            self._packed_bytes -= len(self._packed.popitem(last=False)[1])


def _local(config: Any, background: Background, clock: IReactorTime) -> MinionCache:
    return MinionCache(config.cachedir, background, clock=clock)


CACHES = Parts[Callable[[Any, Background, IReactorTime], IMinionCache]](
    MINION_CACHE, {"localfs": _local}
)
"""Each is made of the master's configuration, threads for what blocks, and a clock."""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _shared(value: Any) -> Any:
    """The same value with one object for all equal short texts of the process."""
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= 64 else value
    if kind is dict:
        return {_shared(key): _shared(item) for key, item in value.items()}
    if kind is list:
        return [_shared(item) for item in value]
    return value
