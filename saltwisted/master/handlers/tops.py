"""
What a minion's state compiler needs from the master's configuration.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.context import Context
from saltwisted.wire.commands import MasterOpts, MasterTops

SHARED = (
    "renderer",
    "failhard",
    "state_top",
    "state_top_saltenv",
    "nodegroups",
    "state_auto_order",
    "state_events",
    "state_aggregate",
    "jinja_env",
    "jinja_sls_env",
    "jinja_lstrip_blocks",
    "jinja_trim_blocks",
)
"""Options of the master that decide how minions compile states, by Salt's names."""


def master_opts(ctx: Context, who: str, cmd: MasterOpts) -> dict[str, Any]:
    """The environments, and unless C{env_only} the options in L{SHARED}."""
    config = ctx.config
    opts: dict[str, Any] = {
        "file_roots": {env: [] for env in ctx.files.envs()},
        "top_file_merging_strategy": config.top_file_merging_strategy,
        "env_order": config.env_order,
        "default_top": config.default_top,
    }
    if cmd.env_only:
        return opts
    every = ctx.pillar_opts()
    opts.update({name: every.get(name) for name in SHARED})
    return opts


def master_tops(ctx: Context, who: str, cmd: MasterTops) -> Any:
    """State assignments from outside the top file (C{master_tops}), made in a worker process."""
    if not ctx.config.master_tops:
        return {}
    return ctx.pillars.tops(who, cmd.opts)
