"""
The C{git_pillar} runner: remotes of the external pillar C{git}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.git.signing import sentence
from saltwisted.master.runner_table import Run, Runner


async def update(run: Run, branch: str | None = None, repo: str | None = None) -> dict[str, Any]:
    """
    Fetch one or all remotes of git pillar now: true if something is new, C{None} if nothing is,
    false if one could not be fetched.

    CLI Example::

        salt-run git_pillar.update
        salt-run git_pillar.update branch=master repo=https://example.com/pillar.git
    """
    found = await run.ctx.git.update_pillars(branch, repo)
    for name, told in run.ctx.git.status().get("remotes", {}).items():
        for ref, refusal in told["refused"].items() if told["pillar"] else ():
            await run.complain(f"{name}: {sentence(ref, refusal)}")
    if found:
        return found
    if branch is not None or repo is not None:
        raise ValueError("Specified git branch/repo not found in ext_pillar config")
    raise ValueError("No git_pillar remotes are configured")


FUNCTIONS: dict[str, Runner] = {"update": update}
