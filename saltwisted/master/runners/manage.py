"""
The C{manage} runner: which minions are up, down or present, and their versions.

Only a return counts as up (a 3008 build counted time-outs, #69582).
"""

from __future__ import annotations

import re
from typing import Any

from saltwisted.config.compat import COMPAT_VERSION
from saltwisted.master.runner_table import Run, Runner


async def _ping(
    run: Run, tgt: Any, tgt_type: str, timeout: Any, gather_job_timeout: Any
) -> tuple[list[str], list[str]]:
    expected: list[str] = []
    up: set[str] = set()
    load = {"tgt": tgt, "tgt_type": tgt_type, "fun": "test.ping", "arg": []}
    async for item in run.publish(load, timeout, gather_job_timeout):
        if item["kind"] == "published":
            expected = list(item["minions"])
        elif item["kind"] == "return":
            up.add(item["id"])
    return sorted(up), sorted(set(expected) - up)


async def status(
    run: Run,
    output: bool = True,
    tgt: Any = "*",
    tgt_type: str = "glob",
    timeout: Any = None,
    gather_job_timeout: Any = None,
) -> dict[str, list[str]]:
    """
    Minions by whether they answered a ping.

    CLI Example::

        salt-run manage.status
        salt-run manage.status tgt='web*'
    """
    up_ids, down_ids = await _ping(run, tgt, tgt_type, timeout, gather_job_timeout)
    return {"up": up_ids, "down": down_ids}


async def up(
    run: Run,
    tgt: Any = "*",
    tgt_type: str = "glob",
    timeout: Any = None,
    gather_job_timeout: Any = None,
) -> list[str]:
    """
    Minions that answered a ping.

    CLI Example::

        salt-run manage.up
        salt-run manage.up tgt='web*'
    """
    return (await _ping(run, tgt, tgt_type, timeout, gather_job_timeout))[0]


async def down(
    run: Run,
    removekeys: bool = False,
    tgt: Any = "*",
    tgt_type: str = "glob",
    timeout: Any = None,
    gather_job_timeout: Any = None,
) -> list[str]:
    """
    Minions that did not answer a ping; C{removekeys} deletes their keys.

    CLI Example::

        salt-run manage.down
        salt-run manage.down removekeys=True
    """
    silent = (await _ping(run, tgt, tgt_type, timeout, gather_job_timeout))[1]
    if removekeys:
        for minion in silent:
            await run.ctx.wheel("key.delete", [], {"match": minion}, run.who)
    return silent


def _subset(minions: list[str], subset: Any) -> list[str]:
    if not subset:
        return minions
    wanted = [w.strip() for w in subset.split(",")] if isinstance(subset, str) else list(subset)
    return [m for m in minions if m in wanted]


def _with_ip(run: Run, minions: list[str], show_ip: bool) -> Any:
    if not show_ip:
        return minions
    live = run.ctx.sessions.live()
    return {m: (live[m].address or "Unknown") if m in live else "Unknown" for m in minions}


async def present(run: Run, subset: Any = None, show_ip: bool = False) -> Any:
    """
    Minions that are connected, without asking them.

    CLI Example::

        salt-run manage.present
        salt-run manage.present show_ip=True
        salt-run manage.present subset=web1,web2
    """
    await run.ctx.presence.refresh()
    here = run.ctx.presence.present(run.ctx.keys.accepted_ids())
    return _with_ip(run, _subset(sorted(here), subset), show_ip)


async def not_present(run: Run, subset: Any = None, show_ip: bool = False) -> Any:
    """
    Accepted minions that are not connected.

    CLI Example::

        salt-run manage.not_present
    """
    await run.ctx.presence.refresh()
    ids = run.ctx.keys.accepted_ids()
    here = run.ctx.presence.present(ids)
    return _subset(sorted(m for m in ids if m not in here), subset)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


async def versions(run: Run) -> dict[str, Any]:
    """
    Minions by how their version compares with the level that this master speaks.

    CLI Example::

        salt-run manage.versions
    """
    own = ".".join(str(n) for n in COMPAT_VERSION)
    newer: dict[str, Any] = {}
    same: dict[str, Any] = {}
    older: dict[str, Any] = {}
    expected: list[str] = []
    async for item in run.publish({"tgt": "*", "fun": "test.version", "arg": []}):
        if item["kind"] == "published":
            expected = list(item["minions"])
        elif item["kind"] == "return" and isinstance(item["data"].get("return"), str):
            text = item["data"]["return"]
            theirs, ours = _version(text), tuple(COMPAT_VERSION)
            group = same if theirs[:2] == ours[:2] else newer if theirs > ours else older
            group[item["id"]] = text
    answered = {*newer, *same, *older}
    offline = {m: False for m in sorted(expected) if m not in answered}
    shown: dict[str, Any] = {"Master": own}
    for label, group in (
        ("Minion newer than master", newer),
        ("Up to date", same),
        ("Minion requires update", older),
        ("Minion offline", offline),
    ):
        if group:
            shown[label] = dict(sorted(group.items()))
    return shown


async def key_regen(run: Run) -> str:
    """
    Salt's C{manage.key_regen} would make every minion throw its key away; not offered.

    CLI Example::

        salt-run manage.key_regen
    """
    raise ValueError(
        "manage.key_regen is not available: it would make every minion discard its key at once. "
        "Run saltutil.regen_keys on the minions that need it"
    )


FUNCTIONS: dict[str, Runner] = {
    "alived": present,
    "allowed": present,
    "down": down,
    "joined": present,
    "key_regen": key_regen,
    "list_not_state": not_present,
    "list_state": present,
    "not_alived": not_present,
    "not_allowed": not_present,
    "not_joined": not_present,
    "not_present": not_present,
    "not_reaped": not_present,
    "present": present,
    "reaped": present,
    "status": status,
    "up": up,
    "versions": versions,
}
