"""
The runner modules, and what a runner works with.

Each module lists its functions by Salt's names in C{FUNCTIONS}
(L{saltwisted.parts.IFunctionModule}). A runner gets a L{Run} (what it may use) and then its own
arguments.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from saltwisted.domain.who import Who
from saltwisted.master.context import Context
from saltwisted.master.function_table import imported
from saltwisted.parts import IFunctionModule

MODULES = (
    "auth",
    "cache",
    "config",
    "doc",
    "event",
    "fileserver",
    "git_pillar",
    "http",
    "jobs",
    "manage",
    "match",
    "mine",
    "network",
    "orch",
    "pillar",
    "reactor",
    "salt",
    "saltutil",
    "schedule",
    "state",
    "survey",
    "test",
)

NOBODY = "No minions matched the target. No command was sent, no jid was assigned."
"""What C{salt} prints then."""


async def _nobody(_item: Any) -> None:
    """For runs that nobody watches."""


@define
class Run:
    """
    One call of a runner.

    @ivar progress: sends an event to the caller who waits for this run: C{progress(data, tag_end)}.
    @ivar tell: sends an item only to the caller, without an event.
    @ivar outputter: a runner sets this if it wants one of Salt's outputters for its value.
    @ivar failed: set by L{judge}.
    @ivar exact: whether a minion called, through C{peer_run}. Targets therefore go through L{find}
        and L{publish}, never to the dispatcher itself.
    @ivar secret: whether nobody but the caller may see what the run is given.
    """

    ctx: Context
    jid: str
    who: Who
    progress: Callable[[Any, str], Awaitable[None]]
    tell: Callable[[Any], Awaitable[None]] = field(default=_nobody)
    outputter: str | None = None
    failed: bool = False
    exact: bool = False
    secret: bool = False

    @property
    def user(self) -> str:
        """The caller, in words for people: see L{Who}."""
        return str(self.who)

    async def find(self, tgt: Any, tgt_type: str) -> Sequence[str]:
        """The accepted minions that a target of the caller means."""
        targets = self.ctx.dispatcher.targets
        return (await targets.find(tgt, tgt_type, exact=self.exact)).minions

    async def means(self, tgt: Any, minion: str) -> bool:
        """
        Whether a compound target certainly matches an accepted minion.

        Pillar values are compared as a whole, whoever asks, and unknown values do not match.
        """
        targets = self.ctx.dispatcher.targets
        selection = await targets.find(tgt, "compound", greedy=False, only=minion, exact=True)
        return minion in selection.minions and minion in self.ctx.keys.accepted_ids()

    def publish(
        self, load: Mapping[str, Any], timeout: Any = None, gather_job_timeout: Any = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Publish a job in the caller's name, and follow it; see L{Dispatcher.run}."""
        return self.ctx.dispatcher.run(load, self.who, timeout, gather_job_timeout, self.exact)

    def publish_rest(
        self,
        load: Mapping[str, Any],
        timeout: Any = None,
        gather_job_timeout: Any = None,
        goes_out: bool = True,
        again: bool = False,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """As L{publish}, of a job that may have been published; see L{Dispatcher.publish_rest}."""
        ctx, how = self.ctx, "rest" if goes_out else "none"
        return ctx.dispatcher.run(
            load, self.who, timeout, gather_job_timeout, self.exact, publish=how, again=again
        )

    def show_by(self, outputter: str) -> None:
        """Have the value shown by one of Salt's outputters."""
        self.outputter = outputter

    def judge(self, succeeded: bool) -> None:
        """Say whether the value is that of something which went well."""
        self.failed = not succeeded

    async def say(self, text: str) -> None:
        """A line for the caller's standard output."""
        await self.tell({"say": text})

    async def complain(self, text: str) -> None:
        """An error for the caller's log, and for the master's own."""
        self.ctx.log.error("{text}", text=text)
        await self.tell({"log": "error", "text": text})


Runner = Callable[..., Awaitable[Any]]


_MARKUP = re.compile(r"[CLBI]\{((?:[^{}]|\{[^{}]*\})*)\}")


def documentation(function: Any) -> str:
    """A function's own words, laid out as Salt prints them, without our markup."""
    text = inspect.getdoc(function) or ""
    text = _MARKUP.sub(r"\1", text).replace("::\n", ":\n")
    text = re.sub(r"^@(param|ivar|return|raises)( ?)", r"\2", text, flags=re.MULTILINE)
    return f"\n{textwrap.indent(text, '    ')}\n    "


def ours() -> dict[str, IFunctionModule]:
    """The modules that are here."""
    return imported("saltwisted.master.runners", MODULES)
