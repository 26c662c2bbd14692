"""
The modules of wheel functions (L{saltwisted.parts.IFunctionModule}).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define

from saltwisted.master.context import Context
from saltwisted.master.function_table import imported
from saltwisted.parts import IFunctionModule

MODULES = ("config", "error", "file_roots", "key", "minions", "pillar_roots")


@define
class Call:
    """
    One call of a wheel function.

    @ivar actor: who asked, in words for people.
    @ivar failed: set by L{judge}.
    """

    ctx: Context
    actor: str
    jid: str = ""
    failed: bool = False

    def judge(self, succeeded: bool) -> None:
        """Say whether the value is that of something which went well."""
        self.failed = not succeeded


Wheel = Callable[..., Awaitable[Any]]


def ours() -> dict[str, IFunctionModule]:
    """The modules that are here."""
    return imported("saltwisted.master.wheel", MODULES)
