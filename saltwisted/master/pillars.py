"""
Where a master's pillars come from: worker processes, and earlier compilations.

A compiled pillar is stored packed, together with what it depended on: the stamps of files and
directories (including those that did not exist), and the grains that its templates read. It is used
again as long as all of these are the same, which some ten C{stat} calls decide. A pillar that used
commands, dice, or a foreign ext_pillar is never stored. With C{pillar_last_good}, the last pillar
of a minion that had no errors is served in place of one that has. The rules of compilation are in
C{domain.pillar}, and L{saltwisted.worker.pillar.work} does the work.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

from attrs import define, field
from twisted.logger import Logger

from saltwisted.errors import RemoteError
from saltwisted.interfaces import IPillarSource
from saltwisted.master.ground import Ground
from saltwisted.master.pillarerrors import PillarErrors
from saltwisted.master.workers import WorkerPool
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns
from saltwisted.wire.msgpack import pack, unpack

ENTRY = "saltwisted.worker.pillar.work:serve"
TIMEOUT = 300.0
"""Seconds for one compilation; then its process is killed."""
KEEP_BYTES = 48 * 1024 * 1024
"""Packed pillars that are kept."""
MOST_FILES = 2000
"""A pillar that depends on more files is compiled each time: asking them all takes too long."""
ENTRY_COST = 700
"""About what an entry needs in memory beside its bytes."""
LOG_LINES = 20
TRIES = 3
"""Compilations of one pillar while its roots are replaced under it."""

Stamp = tuple[int, int, int] | None
Dependencies = tuple[tuple[bytes, Stamp], ...]
Key = tuple[str, bytes]
"""A minion, and which of its pillars."""


class PillarWorkers(WorkerPool, Protocol):
    """Worker processes that compile pillars, and the data that they get."""

    def set_fact(self, name: str, value: Any) -> None:
        """Tell later ones something."""

    def recycle(self, entry: str) -> None:
        """Replace them when they are idle."""


@define
class CachedPillar:
    """
    One pillar with what it depended on.

    @ivar grains: the names that were read; C{None} for all.
    @ivar facts: the values of these grains, packed.
    @ivar wrong: an error that it has; empty for none.
    """

    packed: bytes = field(repr=False)
    files: Dependencies = field(repr=False)
    grains: tuple[str, ...] | None
    facts: bytes = field(repr=False)
    wrong: str


class Pillars:
    """
    Reactor thread only.

    @ivar errors: whose pillars have errors.
    """

    log = Logger()

    def __init__(self, ground: Ground, workers: PillarWorkers) -> None:
        self._ground = ground
        self._workers = workers
        self._kept: OrderedDict[Key, CachedPillar] = OrderedDict()
        self._bytes = 0
        self._same: dict[Any, Any] = {}
        self._good: OrderedDict[Key, bytes] = OrderedDict()
        self._good_bytes = 0
        self.errors = PillarErrors(ground.now, ground.keys.accepted_ids)

    def startService(self) -> None:
        """Tell the workers the configuration."""
        self._workers.set_fact("opts", self._ground.pillar_opts())

    def reconfigure(self) -> None:
        """The configuration has new values: pillars are compiled again, with them."""
        self.startService()
        self.clear()

    def stopService(self) -> None:
        """Forget everything."""
        self.clear()

    def clear(self) -> None:
        """Forget compiled pillars; the workers also forget loaded modules."""
        self._kept.clear()
        self._same.clear()
        self._bytes = 0
        self._good.clear()
        self._good_bytes = 0
        self.errors.clear()
        self._workers.recycle(ENTRY)

    async def pillar(
        self,
        minion_id: str,
        grains: Mapping[str, Any],
        saltenv: str | None,
        pillarenv: str | None,
        override: Mapping[str, Any] | None,
    ) -> Mapping[str, Any]:
        """The pillar as a value, for operators; errors are in C{_errors}."""
        value: dict[str, Any] = unpack(
            await self.packed(minion_id, grains, saltenv, pillarenv, override, or_good=False)
        )
        return value

    async def packed(
        self,
        minion_id: str,
        grains: Mapping[str, Any],
        saltenv: str | None = None,
        pillarenv: str | None = None,
        override: Mapping[str, Any] | None = None,
        ext: Any = None,
        extra: Mapping[str, Any] | None = None,
        fresh: bool = False,
        or_good: bool = True,
    ) -> bytes:
        """
        The pillar in the network's form.

        @param ext: an ext_pillar that the minion asks for; the worker refuses what
            C{on_demand_ext_pillar} does not name.
        @param extra: C{extra_minion_data}, for external pillars.
        @param fresh: compile it again.
        @param or_good: whether the last good one may stand in for one with errors.
        @raises RemoteError: the worker failed, or this master has no pillars.
        """
        self._check()
        # Neither what somebody asks for besides, nor what an operator looks at
        is_own = or_good and not (override or ext or extra)
        asked = {"grains": grains, "override": override, "ext": ext, "extra": extra}
        is_heavy = is_long(asked)
        key, kept = (minion_id, b""), None
        if not is_heavy:
            key = (minion_id, pack((saltenv, pillarenv, override or None, ext, extra or None)))
            kept = self._kept.get(key)
        if kept is not None and not fresh and self._holds(kept, grains):
            self._kept.move_to_end(key)
            self._ground.counters["pillar:kept"] += 1
            return self._served(key, kept.packed, kept.wrong) if is_own else kept.packed
        self._ground.counters["pillar:compiled"] += 1
        if is_heavy:
            # Nobody waits for it to be packed, and it is compared with nothing that was kept
            asked = {"packed": b"".join(await pack_in_turns(self._ground.clock, asked))}
        payload = {
            "do": "pillar",
            "id": minion_id,
            "saltenv": saltenv,
            "pillarenv": pillarenv,
            **asked,
        }
        for _ in range(TRIES):
            generation = self._ground.seams.pillars.generation()
            answer = await self._workers.call(ENTRY, payload, TIMEOUT)
            if generation == self._ground.seams.pillars.generation():
                break
            # Half of it may have been compiled from the roots before
        for line in answer["log"][:LOG_LINES]:
            self.log.error("pillar of {minion}: {line}", minion=minion_id, line=line[:500])
        packed: bytes = answer["packed"]
        wrong = "" if answer["good"] else (answer["log"] or ["see the log"])[0]
        if not is_heavy:
            self._keep(key, packed, answer, grains, wrong)
        if is_own:
            packed = self._served(key, packed, wrong)
            failing = answer.get("failing")
            if failing and not wrong:
                # The minion gets it: half a pillar is better than one of yesterday
                self.errors.found(key[0], failing[0], True)
        if not (override or ext or extra) and self._ground.config.minion_data_cache:
            self._ground.cache.put("pillar", minion_id, unpack(packed))
        return packed

    # -- what has errors ------------------------------------------------------------

    def _served(self, key: Key, packed: bytes, wrong: str) -> bytes:
        """What a minion gets: this, or the last good one in place of one with errors."""
        if not wrong:
            self.errors.mended(key[0])
            self._remember(key, packed)
            return packed
        served = self._good.get(key, packed)
        self.errors.found(key[0], wrong, served is packed)
        return served

    def _remember(self, key: Key, packed: bytes) -> None:
        if not self._ground.config.pillar_last_good:
            return
        self._good_bytes += len(packed) + ENTRY_COST - self._forgotten(self._good.pop(key, None))
        self._good[key] = packed
        while self._good_bytes > KEEP_BYTES and len(self._good) > 1:
            self._good_bytes -= self._forgotten(self._good.popitem(last=False)[1])

    @staticmethod
    def _forgotten(packed: bytes | None) -> int:
        return 0 if packed is None else len(packed) + ENTRY_COST

    async def top(
        self, minion_id: str, grains: Mapping[str, Any], saltenv: str | None = None
    ) -> dict[str, Any]:
        """
        The merged top file of the pillar: environment to targets to pillar files.

        @raises RemoteError: the worker failed, or this master has no pillars.
        """
        self._check()
        found: dict[str, Any] = await self._workers.call(
            ENTRY,
            {"do": "top", "id": minion_id, "grains": grains, "saltenv": saltenv},
            TIMEOUT,
        )
        return found

    def _check(self) -> None:
        if self._ground.seams.pillars.elsewhere:
            raise RemoteError(
                "SaltRunnerError", "this master has no pillars: ask a master that has the right"
            )

    async def tops(self, minion_id: str, opts: Mapping[str, Any]) -> dict[str, list[str]]:
        """
        Environment to the SLS names that C{master_tops} assigns to a minion.

        @param opts: the options that the minion says it has.
        """
        opts = dict(opts)
        packed = (
            b"".join(await pack_in_turns(self._ground.clock, opts, pack))
            if is_long(opts)
            else pack(opts)
        )
        found: dict[str, list[str]] = await self._workers.call(
            ENTRY, {"do": "tops", "id": minion_id, "opts": packed}, TIMEOUT
        )
        return found

    # -- what was compiled before ---------------------------------------------------

    def _holds(self, kept: CachedPillar, grains: Mapping[str, Any]) -> bool:
        if kept.facts != _facts(kept.grains, grains):
            return False
        for path, stamp in kept.files:
            try:
                about = os.stat(path)
            except OSError:
                if stamp is not None:
                    return False
                continue
            if stamp != (about.st_mtime_ns, about.st_size, about.st_ino):
                return False
        return True

    def _keep(
        self,
        key: Key,
        packed: bytes,
        answer: Mapping[str, Any],
        grains: Mapping[str, Any],
        wrong: str,
    ) -> None:
        old = self._kept.pop(key, None)
        if old is not None:
            self._bytes -= len(old.packed) + ENTRY_COST
        files = answer["files"]
        if files is None or len(files) > MOST_FILES or len(packed) > KEEP_BYTES // 8:
            return
        names = None if answer["grains"] is None else tuple(answer["grains"])
        # Most minions depend on the same files: equal tuples are kept once.
        if len(self._same) > 100000:
            self._same.clear()
        one = self._same.setdefault
        pairs = tuple(
            one(pair, pair)
            for pair in ((path, None if stamp is None else tuple(stamp)) for path, stamp in files)
        )
        self._kept[key] = CachedPillar(
            packed, one(pairs, pairs), one(names, names), _facts(names, grains), wrong
        )
        self._bytes += len(packed) + ENTRY_COST
        while self._bytes > KEEP_BYTES:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.packed) + ENTRY_COST


_Pillars: type[IPillarSource] = Pillars  # mypy compares them


def _facts(names: tuple[str, ...] | None, grains: Mapping[str, Any]) -> bytes:
    """The values of some grains, in a form that tells C{1} from C{True}."""
    if names is None:
        return pack(dict(grains))
    return pack([(name in grains, grains.get(name)) for name in names])
