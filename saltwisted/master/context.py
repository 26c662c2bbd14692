"""
What a request handler may use: one record of the master's parts.

A handler takes what it needs from here, and builds nothing itself. A test fills in fakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import field, fields, frozen

from saltwisted.domain.targeting.selection import Selection
from saltwisted.domain.who import Who
from saltwisted.master.automation.reactions import Reactions
from saltwisted.master.chunks import Chunks
from saltwisted.master.dispatch import Dispatcher
from saltwisted.master.function_table import FunctionTable
from saltwisted.master.gitupdates import NoGit
from saltwisted.master.ground import Ground
from saltwisted.master.logins import Logins
from saltwisted.master.pillars import Pillars
from saltwisted.master.rotation import Rotation
from saltwisted.master.signins import SignIns


class Functions(Protocol):
    """
    Runner and wheel functions by name; see L{saltwisted.master.calls.Calls}.

    @ivar runners: those of runners.
    @ivar wheels: those of the wheel.
    """

    runners: FunctionTable
    wheels: FunctionTable

    @property
    def active(self) -> Mapping[str, Mapping[str, Any]]:
        """Calls that have not ended, by jid."""

    def parameters(self, kind: str, fun: str) -> tuple[Sequence[str], bool] | None:
        """The names that a runner or wheel function takes, and whether it takes any other."""
        ...

    async def runner(
        self,
        ctx: Context,
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        who: Who,
        **how: Any,
    ) -> dict[str, Any]:
        """Call a runner."""
        ...

    async def wheel(
        self,
        ctx: Context,
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        who: Who,
        **how: Any,
    ) -> dict[str, Any]:
        """Call a wheel function."""
        ...


class Orchestrations(Protocol):
    """Orchestrations; see L{saltwisted.master.orchestration.running.Orchestrating}."""

    async def run(self, run: Any, what: Mapping[str, Any]) -> Any:
        """Run one to its end, in a process."""
        ...

    async def wish(self, jid: str, wish: Mapping[str, Any], user: str) -> None:
        """Make one halt, continue or end at one of its steps, on whichever node it runs."""
        ...


class Scheduling(Protocol):
    """The master's schedule; see L{saltwisted.master.automation.schedule.MasterSchedule}."""

    async def call(self, func: str, user: str, **data: Any) -> dict[str, Any]:
        """One request about it, by Salt's names."""
        ...


class GitRemotes(Protocol):
    """Git remotes; see L{saltwisted.master.gitupdates.GitUpdates}."""

    async def update_pillars(
        self, branch: str | None = None, repo: str | None = None
    ) -> dict[str, bool | None]:
        """Fetch those of C{git_pillar} at once."""
        ...

    def update(self, names: Iterable[str] | None = None) -> Awaitable[dict[str, dict[str, Any]]]:
        """Fetch at once."""
        ...

    def status(self) -> dict[str, Any]:
        """Each remote with its commits."""
        ...


class Executing(Protocol):
    """Execution functions in processes of this master; L{saltwisted.master.site}."""

    async def execute(
        self, run: Any, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any], with_pillar: bool
    ) -> Any:
        """Call one."""
        ...


@frozen(kw_only=True)
class Context(Ground):
    """
    Everything that the master's handlers, runners and wheel functions share.

    @ivar calls: the functions; used by L{runner} and L{wheel}.
    @ivar chunks: the slots for large pieces of files in memory.
    @ivar reactions: the events to which this master reacts.
    @ivar git: the remotes of C{gitfs}.
    @ivar execution: execution functions on the master's machine.
    @ivar orchestrating: orchestrations that run in this master.
    """

    dispatcher: Dispatcher
    logins: Logins
    pillars: Pillars
    rotation: Rotation
    signins: SignIns
    calls: Functions
    schedule: Scheduling
    orchestrating: Orchestrations
    chunks: Chunks = field(factory=Chunks)
    reactions: Reactions = field(factory=Reactions)
    git: GitRemotes = field(factory=NoGit)
    execution: Executing | None = None

    @classmethod
    def of(cls, ground: Ground, **parts: Any) -> Context:
        """The ground, and the parts that stand on it."""
        return cls(**{each.name: getattr(ground, each.name) for each in fields(Ground)}, **parts)

    async def find(self, tgt: Any, tgt_type: str, delimiter: str = ":") -> Selection:
        """The accepted minions that a target means, by the master's cached data."""
        return await self.dispatcher.targets.find(tgt, tgt_type, delimiter)

    async def runner(
        self,
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        who: Who,
        stream: Callable[[Any], Awaitable[None]] | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """Call a runner; C{how} as for L{saltwisted.master.calls.Calls.runner}."""
        return await self.calls.runner(self, fun, arg, kwarg, who, stream=stream, **how)

    async def wheel(
        self, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any], who: Who, **how: Any
    ) -> dict[str, Any]:
        """Call a wheel function; C{how} as for L{saltwisted.master.calls.Calls.wheel}."""
        return await self.calls.wheel(self, fun, arg, kwarg, who, **how)
