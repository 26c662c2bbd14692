"""
The C{cache} runner: what this master remembers about its minions.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.domain.keys import valid_minion_id
from saltwisted.master.runner_table import Run, Runner
from saltwisted.stores.cache import BANKS
from saltwisted.stores.files import make_dir, read_file, remove, write_atomic
from saltwisted.transports.turns import in_turns
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MOST = 64 * 1024 * 1024
"""Bytes of the largest value that is read."""


async def _ids(run: Run, tgt: Any, tgt_type: str) -> list[str]:
    if tgt in (None, "*"):
        return list(run.ctx.keys.accepted_ids())
    return list(await run.find(tgt, tgt_type))


async def _values(run: Run, bank: str, ids: list[str]) -> dict[str, Any]:
    """Cached values by minion; each may have to be read and unpacked."""
    found = {}
    async for minion in in_turns(run.ctx.clock, ids):
        found[minion] = run.ctx.cache.get(bank, minion) or {}
    return found


async def grains(run: Run, tgt: Any, tgt_type: str = "glob", **kwargs: Any) -> dict[str, Any]:
    """
    Cached grains by minion.

    CLI Example::

        salt-run cache.grains '*'
    """
    return await _values(run, "grains", await _ids(run, tgt, tgt_type))


async def pillar(
    run: Run, tgt: Any = None, tgt_type: str = "glob", **kwargs: Any
) -> dict[str, Any]:
    """
    Cached pillar by minion.

    CLI Example::

        salt-run cache.pillar
        salt-run cache.pillar 'web*'
    """
    return await _values(run, "pillar", await _ids(run, tgt, tgt_type))


async def mine(run: Run, tgt: Any = None, tgt_type: str = "glob", **kwargs: Any) -> dict[str, Any]:
    """
    Cached mine by minion.

    CLI Example::

        salt-run cache.mine '*'
    """
    return await _values(run, "mine", await _ids(run, tgt, tgt_type))


async def _clear(run: Run, banks: tuple[str, ...], tgt: Any, tgt_type: str) -> bool:
    """Forget these; without a target nothing is done, and that is said by C{False}."""
    if tgt is None:
        return False
    async for minion in in_turns(run.ctx.clock, await _ids(run, tgt, tgt_type)):
        for bank in banks:
            run.ctx.cache.delete(bank, minion)
    return True


async def clear_grains(run: Run, tgt: Any = None, tgt_type: str = "glob") -> bool:
    """
    Forget cached grains.

    CLI Example::

        salt-run cache.clear_grains 'web1'
    """
    return await _clear(run, ("grains",), tgt, tgt_type)


async def clear_pillar(run: Run, tgt: Any = None, tgt_type: str = "glob") -> bool:
    """
    Forget cached pillar.

    CLI Example::

        salt-run cache.clear_pillar 'web1'
    """
    if tgt is not None:
        run.ctx.pillars.clear()
    return await _clear(run, ("pillar",), tgt, tgt_type)


async def clear_mine(run: Run, tgt: Any = None, tgt_type: str = "glob") -> bool:
    """
    Forget cached mine data.

    CLI Example::

        salt-run cache.clear_mine 'web1'
    """
    return await _clear(run, ("mine",), tgt, tgt_type)


async def clear_mine_func(
    run: Run, tgt: Any = None, tgt_type: str = "glob", clear_mine_func_flag: Any = None
) -> bool:
    """
    Forget one mine function's values.

    CLI Example::

        salt-run cache.clear_mine_func tgt='*' clear_mine_func_flag='network.interfaces'
    """
    if tgt is None or clear_mine_func_flag is None:
        return False
    async for minion in in_turns(run.ctx.clock, await _ids(run, tgt, tgt_type)):
        data = dict(run.ctx.cache.get("mine", minion) or {})
        if data.pop(clear_mine_func_flag, None) is not None:
            run.ctx.cache.put("mine", minion, data)
    return True


async def clear_all(run: Run, tgt: Any = None, tgt_type: str = "glob") -> bool:
    """
    Forget grains, pillar and mine.

    CLI Example::

        salt-run cache.clear_all 'web1'
    """
    if tgt is not None:
        run.ctx.pillars.clear()
    return await _clear(run, ("grains", "pillar", "mine"), tgt, tgt_type)


async def clear_git_lock(run: Run, role: str, remote: Any = None, **kwargs: Any) -> str:
    """
    A lock of ours ends with its process, so that none is left to be removed: Salt's words for that.

    CLI Example::

        salt-run cache.clear_git_lock gitfs
    """
    if role not in ("gitfs", "git_pillar", "winrepo"):
        raise ValueError(f"Invalid role {role!r}: gitfs, git_pillar or winrepo")
    return "No locks were removed"


def _place(run: Run, bank: str, key: str | None) -> str:
    """
    Where a value of a bank lies; our own minion data has the same layout.

    @raises ValueError: a name that would lead out of the cache.
    """
    words = [*str(bank).split("/"), *([str(key)] if key is not None else [])]
    if not all(valid_minion_id(word) for word in words):
        raise ValueError(f"{bank!r} and {key!r} are not names of a bank and a key")
    path = os.path.join(run.ctx.config.cachedir, *words)
    return path if key is None else path + ".p"


async def list_(run: Run, bank: str, cachedir: str | None = None) -> list[str]:
    """
    The keys of a bank.

    CLI Example::

        salt-run cache.list cloud/active
    """
    if bank in BANKS:
        return list(run.ctx.cache.ids(bank))
    names = await run.ctx.pool(_names, _place(run, bank, None))
    return [name.removesuffix(".p") for name in names]


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


async def fetch(run: Run, bank: str, key: str, cachedir: str | None = None) -> Any:
    """
    A value of a bank; an empty map when there is none.

    CLI Example::

        salt-run cache.fetch cloud/active web1
    """
    if bank in BANKS:
        return run.ctx.cache.get(bank, key) or {}
    data = await run.ctx.pool(read_file, _place(run, bank, key), MOST)
    return unpack_bin(data) if data else {}


async def store(run: Run, bank: str, key: str, data: Any, cachedir: str | None = None) -> None:
    """
    Keep a value in a bank.

    CLI Example::

        salt-run cache.store mycache mykey "a value"
    """
    if bank in BANKS:
        run.ctx.cache.put(bank, key, data)
        return
    path = _place(run, bank, key)
    await run.ctx.pool(_write, path, pack_bin(data))


def _write(path: str, data: bytes) -> None:
    make_dir(os.path.dirname(path))
    write_atomic(path, data, 0o600)


async def flush(run: Run, bank: str, key: str | None = None, cachedir: str | None = None) -> bool:
    """
    Forget a value, or a whole bank.

    CLI Example::

        salt-run cache.flush mycache mykey
        salt-run cache.flush mycache
    """
    keys = [key] if key is not None else await list_(run, bank)
    for each in keys:
        if bank in BANKS:
            run.ctx.cache.delete(bank, each)
        else:
            await run.ctx.pool(remove, _place(run, bank, each))
    return True


FUNCTIONS: dict[str, Runner] = {
    "clear_all": clear_all,
    "clear_git_lock": clear_git_lock,
    "clear_grains": clear_grains,
    "clear_mine": clear_mine,
    "clear_mine_func": clear_mine_func,
    "clear_pillar": clear_pillar,
    "fetch": fetch,
    "flush": flush,
    "grains": grains,
    "list": list_,
    "mine": mine,
    "pillar": pillar,
    "store": store,
}
