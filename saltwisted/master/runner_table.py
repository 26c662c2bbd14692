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
from contextlib import aclosing
from typing import Any

from attrs import define, field

from saltwisted.domain.acl import Grant, Judging, covering, may_target
from saltwisted.domain.brief import brief
from saltwisted.domain.secrecy import hide, marked
from saltwisted.domain.targeting.selection import Selection
from saltwisted.domain.targeting.traverse import DELIMITER
from saltwisted.domain.who import Who
from saltwisted.errors import DeniedError
from saltwisted.master.context import Context
from saltwisted.master.function_table import imported
from saltwisted.master.loads import delimiter_of
from saltwisted.master.permits import tell_refusal
from saltwisted.parts import IFunctionModule

MODULES = (
    "auth",
    "cache",
    "config",
    "doc",
    "error",
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
    "sdb",
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
    @ivar exact: whether a minion called, through C{peer_run}.
    @ivar rules: those of the login that called, by which its targets are judged; C{None}: nobody
        who is bound by rules. Because of both, targets go through L{find}, L{means} and
        L{publish}, never to the dispatcher itself.
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
    rules: Sequence[Any] | None = None
    secret: bool = False

    @property
    def user(self) -> str:
        """The caller, in words for people: see L{Who}."""
        return str(self.who)

    async def find(self, tgt: Any, tgt_type: str, greedy: bool = True) -> Sequence[str]:
        """
        The accepted minions that a target of the caller means.

        @param greedy: as for L{Targets.find<saltwisted.master.targets.Targets.find>}.
        @raises DeniedError: the caller may not ask so.
        """
        judged = await self._judged(tgt, tgt_type)
        targets = self.ctx.dispatcher.targets
        meant = (await targets.find(tgt, tgt_type, greedy=greedy, exact=self.exact)).minions
        if judged is None:
            return meant
        within = frozenset(judged.minions)
        return [minion for minion in meant if minion in within]

    async def means(self, tgt: Any, minion: str) -> bool:
        """
        Whether a compound target certainly matches an accepted minion.

        Pillar values are compared as a whole, whoever asks, and unknown values do not match.

        @raises DeniedError: the caller may not ask so, or not of this minion.
        """
        if self.rules is not None and await self._judged(tgt, "compound") is not None:
            await self._granted(covering(self.rules, [minion], "list"), tgt)
        targets = self.ctx.dispatcher.targets
        selection = await targets.find(tgt, "compound", greedy=False, only=minion, exact=True)
        return minion in selection.minions and minion in self.ctx.keys.accepted_ids()

    def publish(
        self, load: Mapping[str, Any], timeout: Any = None, gather_job_timeout: Any = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """
        Publish a job in the caller's name, and follow it; see L{Dispatcher.run}. The job of a
        secret run is secret.

        @raises DeniedError: at the first item: the caller may not target so.
        """
        return self._publish(load, timeout, gather_job_timeout, {})

    def publish_rest(
        self,
        load: Mapping[str, Any],
        timeout: Any = None,
        gather_job_timeout: Any = None,
        goes_out: bool = True,
        again: bool = False,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """As L{publish}, of a job that may have been published; see L{Dispatcher.publish_rest}."""
        how = {"publish": "rest" if goes_out else "none", "again": again}
        return self._publish(load, timeout, gather_job_timeout, how)

    async def _publish(
        self, load: Mapping[str, Any], timeout: Any, gather_job_timeout: Any, how: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        tgt_type = str(load.get("tgt_type") or "glob")
        how = {
            **how,
            "exact": self.exact,
            "judged": await self._judged(load.get("tgt"), tgt_type, delimiter_of(load)),
        }
        run, load = self.ctx.dispatcher.run, self._marked(load)
        async with aclosing(run(load, self.who, timeout, gather_job_timeout, **how)) as items:
            async for item in items:
                yield item

    def _marked(self, load: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**load, "kwargs": marked(load.get("kwargs"))} if self.secret else load

    async def _judged(
        self, tgt: Any, tgt_type: Any, delimiter: str = DELIMITER
    ) -> Selection | None:
        """
        The minions by which the rules allow a target of the caller; C{None}: they do not bind it.

        @raises DeniedError: they do not allow it.
        """
        if self.rules is None:
            return None
        groups = self.ctx.config.nodegroups or {}
        judging = may_target(self.rules, tgt, str(tgt_type), delimiter, groups)
        return (await self._granted(judging, tgt)).judged

    async def _granted(self, judging: Judging[Grant | None], tgt: Any) -> Grant:
        grant = await self.ctx.dispatcher.targets.judged(judging)
        if grant is None:
            self.ctx.counters["denied:pillar-target"] += 1
            tell_refusal(self.ctx, self.who, f"target {brief(tgt)} by pillar", "a runner")
            # The same for every reason: which minions there are must not be learned either
            raise DeniedError(
                f"{self.user} may not use this target: it asks for pillar values, with wildcards "
                "or of minions for which no rule is"
            )
        return grant

    def show_by(self, outputter: str) -> None:
        """Have the value shown by one of Salt's outputters."""
        self.outputter = outputter

    def targets_by_operator(self) -> None:
        """Say that its targets are words of the master's SLS, which no rules of a caller bind."""
        self.rules = None

    def judge(self, succeeded: bool) -> None:
        """Say whether the value is that of something which went well."""
        self.failed = not succeeded

    async def say(self, text: str) -> None:
        """A line for the caller's standard output."""
        await self.tell({"say": text})

    async def complain(self, text: str) -> None:
        """An error for the caller's log, and for the master's own."""
        self.ctx.log.error("{text}", text=hide(text) if self.secret else text)
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
