"""
The modules of wheel functions (L{saltwisted.parts.IFunctionModule}).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from saltwisted.master.context import Context
from saltwisted.master.function_table import imported
from saltwisted.parts import IFunctionModule

MODULES = ("config", "key", "minions")


@frozen
class Call:
    """
    One call of a wheel function.

    @ivar actor: who asked, in words for people.
    """

    ctx: Context
    actor: str
    jid: str = ""


Wheel = Callable[..., Awaitable[Any]]


def ours() -> dict[str, IFunctionModule]:
    """The modules that are here."""
    return imported("saltwisted.master.wheel", MODULES)
