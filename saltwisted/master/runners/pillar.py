"""
The C{pillar} runner: what a minion would get.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.runner_table import Run, Runner
from saltwisted.transports.turns import in_turns


def _minion_and_env(minion: str, kwargs: dict[str, Any]) -> tuple[str, str, str | None]:
    return minion, str(kwargs.get("saltenv") or "base"), kwargs.get("pillarenv")


async def _grains(run: Run, minion: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    The grains to compile with: given ones, else cached ones.

    With a pattern as minion, those of the first minion that it matches, as in Salt.
    """
    given = {k: v for k, v in kwargs.items() if k not in ("saltenv", "pillarenv", "pillar")}
    if given:
        return {"id": minion, **given}
    cached = run.ctx.cache.get("grains", minion)
    if cached is None:
        for candidate in await run.find(minion, "glob"):
            cached = run.ctx.cache.get("grains", candidate)
            if cached is not None:
                break
    return dict(cached) if cached is not None else {"id": minion, "fqdn": minion}


async def show_pillar(run: Run, minion: str = "*", **kwargs: Any) -> Any:
    """
    The compiled pillar of a minion id; grains may be given as C{key=value}.

    CLI Example::

        salt-run pillar.show_pillar web1
        salt-run pillar.show_pillar saltenv=dev
        salt-run pillar.show_pillar web1 os=Debian
    """
    minion, saltenv, pillarenv = _minion_and_env(minion, kwargs)
    return await run.ctx.pillars.pillar(
        minion, await _grains(run, minion, kwargs), saltenv, pillarenv, kwargs.get("pillar")
    )


async def show_top(run: Run, minion: str | None = None, saltenv: str = "base") -> Any:
    """
    The merged pillar top file, as a minion (by default the first one) has it rendered.

    CLI Example::

        salt-run pillar.show_top
        salt-run pillar.show_top web1
    """
    name = minion or next(iter(run.ctx.keys.accepted_ids()), run.ctx.node)
    return await run.ctx.pillars.top(name, await _grains(run, name, {}), saltenv)


async def clear_pillar_cache(run: Run, minion: str = "*", **kwargs: Any) -> bool:
    """
    Forget compiled pillars.

    CLI Example::

        salt-run pillar.clear_pillar_cache
    """
    run.ctx.pillars.clear()
    return True


async def show_pillar_cache(run: Run, minion: str = "*", **kwargs: Any) -> dict[str, Any]:
    """
    The pillars as last compiled, by minion.

    CLI Example::

        salt-run pillar.show_pillar_cache
        salt-run pillar.show_pillar_cache 'web*'
    """
    shown = {}
    async for name in in_turns(run.ctx.clock, await run.find(minion, "glob")):
        value = run.ctx.cache.get("pillar", name)
        if value is not None:
            shown[name] = value
    return shown


FUNCTIONS: dict[str, Runner] = {
    "clear_pillar_cache": clear_pillar_cache,
    "show_pillar": show_pillar,
    "show_pillar_cache": show_pillar_cache,
    "show_top": show_top,
}
