"""
Which runner functions there are: C{module.function} to a coroutine function.

Each runner module lists its functions by Salt's names in C{FUNCTIONS}. A runner
gets a L{Run} (what it may use) and then its own arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from attrs import define

from saltwisted.master.context import Context

MODULES = ("cache", "doc", "fileserver", "jobs", "manage", "pillar", "state", "test")


@define
class Run:
    """
    One call of a runner.

    @ivar progress: sends an event to whoever waits for this run: C{progress(data, tag_end)}.
    @ivar outputter: set by a runner that wants one of Salt's outputters for its value.
    """

    ctx: Context
    jid: str
    user: str
    progress: Callable[[Any, str], Awaitable[None]]
    outputter: str | None = None


Runner = Callable[..., Awaitable[Any]]


def functions() -> dict[str, Runner]:
    """All runner functions by name."""
    table: dict[str, Runner] = {}
    for name in MODULES:
        module = import_module(f"saltwisted.master.runners.{name}")
        for function, runner in module.FUNCTIONS.items():
            table[f"{name}.{function}"] = runner
    return table
