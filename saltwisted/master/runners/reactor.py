"""
The C{reactor} runner: what this master reacts to.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.runner_table import Run, Runner


async def list_(run: Run, saltenv: str = "base", test: Any = None) -> list[Any]:
    """
    List currently configured reactors

    CLI Example::

        salt-run reactor.list
    """
    return run.ctx.reactions.list_all()


async def add(
    run: Run, event: str, reactors: Any, saltenv: str = "base", test: Any = None
) -> dict[str, Any]:
    """
    Add a new reactor; it counts until the next start of the master.

    CLI Example::

        salt-run reactor.add 'salt/cloud/*/destroyed' reactors='/srv/reactor/destroy/*.sls'
    """
    return run.ctx.reactions.add(event, reactors)


async def delete(run: Run, event: str, saltenv: str = "base", test: Any = None) -> dict[str, Any]:
    """
    Delete a reactor, until the next start of the master.

    CLI Example::

        salt-run reactor.delete 'salt/cloud/*/destroyed'
    """
    return run.ctx.reactions.delete(event)


FUNCTIONS: dict[str, Runner] = {"add": add, "delete": delete, "list": list_}
