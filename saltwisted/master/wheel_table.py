"""
Which wheel functions there are: C{module.function} to a coroutine function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from attrs import frozen

from saltwisted.master.context import Context

MODULES = ("config", "key", "minions")


@frozen
class Call:
    """
    One call of a wheel function.

    @ivar actor: who asked: a local user's name, or the minion that revokes itself.
    """

    ctx: Context
    actor: str


Wheel = Callable[..., Awaitable[Any]]


def functions() -> dict[str, Wheel]:
    """All wheel functions by name."""
    table: dict[str, Wheel] = {}
    for name in MODULES:
        module = import_module(f"saltwisted.master.wheel.{name}")
        for function, wheel in module.FUNCTIONS.items():
            table[f"{name}.{function}"] = wheel
    return table
