"""
The C{salt} runner: execution functions on minions, as from C{salt}, and on the master itself.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from saltwisted.errors import RemoteError
from saltwisted.master.runner_table import NOBODY, Run, Runner


async def cmd(run: Run, fun: str, *args: Any, **kwargs: Any) -> Any:
    """
    Call an execution function on the master, in a process of its own, as the master's user.

    with_pillar
        Compile the pillar of the master's own id for it. Without, it is empty.

    CLI Example::

        salt-run salt.cmd test.ping
        salt-run salt.cmd mymod.myfunc with_pillar=True
    """
    if run.ctx.execution is None:
        raise RemoteError("SaltRunnerError", "this master executes no functions itself")
    with_pillar = bool(kwargs.pop("with_pillar", False))
    return await run.ctx.execution.execute(run, fun, args, kwargs, with_pillar)


async def execute(
    run: Run,
    tgt: Any,
    fun: str,
    arg: Any = (),
    timeout: Any = None,
    tgt_type: str = "glob",
    ret: str = "",
    jid: Any = "",
    kwarg: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a function on minions, and give what they returned.

    @param arg: positional arguments, as a list; one value that is not a list is one argument.
    @param kwarg: keyword arguments; further ones may be given beside it.

    CLI Example::

        salt-run salt.execute '*' test.ping
        salt-run salt.execute '*' cmd.run arg='["uptime"]'
    """
    given = list(arg) if isinstance(arg, (list, tuple)) else [arg]
    named = {**(kwarg or {}), **kwargs}
    if named:
        given.append({"__kwarg__": True, **named})
    load = {"tgt": tgt, "tgt_type": tgt_type, "fun": fun, "arg": given, "ret": ret}
    if jid:
        load["jid"] = jid
    found: dict[str, Any] = {}
    async with aclosing(run.publish(load, timeout)) as items:
        async for item in items:
            if item["kind"] == "published" and not item["jid"]:
                await run.say(NOBODY)
            if item["kind"] == "return":
                found[item["id"]] = item["data"].get("return")
    return found


FUNCTIONS: dict[str, Runner] = {"cmd": cmd, "execute": execute}
