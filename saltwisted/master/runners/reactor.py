"""
The C{reactor} runner: the events to which this master reacts.
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
    return await run.ctx.reactions.add(run.ctx.clock, event, reactors)


async def delete(run: Run, event: str, saltenv: str = "base", test: Any = None) -> dict[str, Any]:
    """
    Delete a reactor, until the next start of the master.

    CLI Example::

        salt-run reactor.delete 'salt/cloud/*/destroyed'
    """
    return await run.ctx.reactions.delete(run.ctx.clock, event)


async def is_leader(run: Run) -> bool:
    """
    Return whether this master would react to an event now: it was not told otherwise, and a
    majority of the members of its cluster can be asked. A master alone always would.

    CLI Example::

        salt-run reactor.is_leader
    """
    return run.ctx.seams.claims.would_claim()


async def set_leader(run: Run, value: bool = True) -> bool:
    """
    Set whether this master may react to events and run what is scheduled, until its next start.
    In a cluster the other members do it in its place.

    CLI Example::

        salt-run reactor.set_leader True
    """
    run.ctx.seams.claims.set_leader(bool(value))
    return True


FUNCTIONS: dict[str, Runner] = {
    "add": add,
    "delete": delete,
    "is_leader": is_leader,
    "list": list_,
    "set_leader": set_leader,
}
