"""
The C{config} runner: the master's options.
"""

from __future__ import annotations

from typing import Any

from saltwisted.config.secrets import shown
from saltwisted.domain.targeting.traverse import traverse
from saltwisted.master.runner_table import Run, Runner

_NOTHING = object()


async def get(run: Run, key: str, default: Any = "", delimiter: str = ":") -> Any:
    """
    An option of the master; deeper values by C{a:b:c}. Secrets are shown as stars.

    CLI Example::

        salt-run config.get timeout
        salt-run config.get file_roots:base
        salt-run config.get file_roots,base delimiter=','
    """
    found = traverse(shown(run.ctx.config.as_opts()), key, _NOTHING, delimiter)
    return default if found is _NOTHING else found


FUNCTIONS: dict[str, Runner] = {"get": get}
