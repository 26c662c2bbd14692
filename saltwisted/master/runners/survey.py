"""
The C{survey} runner: which minions gave the same answer, and how the others differ.
"""

from __future__ import annotations

import difflib
from typing import Any

from saltwisted.master.runner_table import Run, Runner
from saltwisted.master.runners.salt import execute


async def _pools(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """Minions by what they answered, the largest group first unless C{survey_sort} is C{up}."""
    if len(args) < 2:
        raise ValueError("survey needs a target and a function")
    tgt, fun, *given = args
    is_down = kwargs.pop("survey_sort", "down") != "up"
    tgt_type = kwargs.pop("tgt_type", "compound")
    if tgt_type not in ("compound", "pcre"):
        tgt_type = "compound"
    named = {key: value for key, value in kwargs.items() if not key.startswith("_")}
    answers = await execute(run, tgt, fun, given, tgt_type=tgt_type, kwarg=named)
    pools: dict[str, list[str]] = {}
    for minion in sorted(answers):
        pools.setdefault(str(answers[minion]), []).append(minion)
    found = [{"pool": pool, "result": result} for result, pool in pools.items()]
    return sorted(found, key=lambda one: len(one["pool"]), reverse=is_down)


async def hash_(run: Run, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """
    Groups of minions that gave the same answer, by their size.

    CLI Example::

        salt-run survey.hash "*" test.ping
        salt-run survey.hash "*" file.get_hash /etc/salt/minion survey_sort=up
    """
    return await _pools(run, args, kwargs)


async def diff(run: Run, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """
    The same, and how the answer of each group differs from that of the first.

    CLI Example::

        salt-run survey.diff survey_sort=up "*" cp.get_file_str file:///etc/hosts
    """
    pools = await _pools(run, args, kwargs)
    for number, one in enumerate(pools):
        await run.say(f"minion pool :\n------------\n{one['pool']}")
        await run.say(f"pool size :\n----------\n    {len(one['pool'])}")
        if number == 0:
            await run.say(f"pool result :\n------------\n    {one['result']}\n")
            continue
        first = pools[0]
        head = f'differences from "{first["pool"][0]}" results :'
        await run.say(f"{head}\n{'-' * (len(head) - 1)}")
        lines = difflib.unified_diff(
            [f"{line}\n" for line in first["result"].splitlines()],
            [f"{line}\n" for line in one["result"].splitlines()],
            fromfile=first["pool"][0],
            tofile=one["pool"][0],
            n=0,
        )
        await run.say("".join(lines) + "\n")
    return pools


FUNCTIONS: dict[str, Runner] = {"diff": diff, "hash": hash_}
