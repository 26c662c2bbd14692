"""
The C{sdb} runner: values behind C{sdb://profile/key}, with the profiles of the master's options.

A store may take long to answer, so each call runs in a process of its own, as in C{salt.cmd}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.errors import RemoteError
from saltwisted.master.runner_table import Run, Runner

CHARS = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"


async def _call(run: Run, fun: str, *arg: Any) -> Any:
    if run.ctx.execution is None:
        raise RemoteError("SaltRunnerError", "this master executes no functions itself")
    return await run.ctx.execution.execute(run, f"sdb.{fun}", arg, {}, False)


async def get(run: Run, uri: str) -> Any:
    """
    A value; what is no address of one is told as it is.

    CLI Example::

        salt-run sdb.get sdb://mymemcached/foo
    """
    return await _call(run, "get", uri)


async def set_(run: Run, uri: str, value: Any) -> Any:
    """
    Store a value.

    CLI Example::

        salt-run sdb.set sdb://mymemcached/foo bar
    """
    return await _call(run, "set", uri, value)


async def delete(run: Run, uri: str) -> Any:
    """
    Forget a value.

    CLI Example::

        salt-run sdb.delete sdb://mymemcached/foo
    """
    return await _call(run, "delete", uri)


async def get_or_set_hash(run: Run, uri: str, length: int = 8, chars: str = CHARS) -> Any:
    """
    A value; if there is none, a random one is made and stored first.

    CLI Example::

        salt-run sdb.get_or_set_hash sdb://sqlite/mypassword 32
    """
    return await _call(run, "get_or_set_hash", uri, length, chars)


FUNCTIONS: dict[str, Runner] = {
    "delete": delete,
    "get": get,
    "get_or_set_hash": get_or_set_hash,
    "set": set_,
}
