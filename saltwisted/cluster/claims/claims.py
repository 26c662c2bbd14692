"""
What a member does with the claims that it is granted. This is C{IClaims} for a member.

A court grants them (L{saltwisted.cluster.claims.court}); L{saltwisted.cluster.claims.acts} and
L{saltwisted.cluster.claims.duties} do the work that they allow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.cluster.claims.acts import Acts
from saltwisted.cluster.claims.court import NOT_ALLOWED, ICourt, Leave
from saltwisted.cluster.claims.duties import Duties
from saltwisted.domain.claims.claimant import RENEW_EVERY
from saltwisted.domain.claims.voter import DUTY
from saltwisted.domain.claims.words import Answer, Came, Claim, Receipt
from saltwisted.transports.deferreds import let_go

TICK = 0.25


class ClusterClaims:
    """Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        court: ICourt,
        dice: Callable[[], float],
        window: float,
        counters: Any,
        settled: Callable[[], bool] = lambda: True,
        each_second: Callable[[], None] = lambda: None,
        elsewhere: Callable[[str], bool] = lambda minion: False,
    ) -> None:
        """
        @param clock: of the reactor; nobody sets it, and it goes on in sleep.
        @param dice: in [0, 1), so that nodes do not all ask at once.
        @param window: C{publish_window}: for how long a short act is tried.
        @param each_second: what else is to be looked after.
        @param settled: whether this node serves, so that it may begin something.
        @param elsewhere: whether a minion is connected to another node now.
        """
        self._clock, self._node, self.court = clock, node, court
        self._leave = Leave(settled=settled)
        self._each_second = each_second
        self.acts = Acts(clock, node, court, dice, window, counters, self._leave, elsewhere)
        self.keys = self.acts.keys
        self.duties = Duties(clock, node, court, dice, self._leave)
        self._problem = ""
        self._receivers: list[Callable[[str], None]] = []
        self._loops: list[LoopingCall] = []
        self._busy: set[str] = set()

    # -- the service

    def startService(self) -> None:
        """Begin to claim what is wanted."""
        self._leave.running = True
        for work, seconds in ((self._tick, TICK), (self._second, RENEW_EVERY)):
            loop = LoopingCall(work)
            loop.clock = self._clock
            self._loops.append(loop)
            let_go(loop.start(seconds, now=False), self.log, "the upkeep of the claims has stopped")

    async def stopService(self) -> None:
        """End what is held, and release it."""
        self._leave.running = False
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self._loops = []
        await self.duties.end_all()

    # -- IClaims

    def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Awaitable[Answer]:
        """Tried until the window is over."""
        return Deferred.fromCoroutine(self.acts.begin(key, plan, what, event))

    def begin_event(
        self,
        minion: str,
        tag: str,
        data: Mapping[str, Any],
        plan: Mapping[str, Any],
        what: str = "",
        came: Came | None = None,
    ) -> Awaitable[Answer]:
        """The same."""
        return Deferred.fromCoroutine(self.acts.begin_event(minion, tag, data, plan, what, came))

    def holds(self, claim: Claim) -> bool:
        """By this moment's clock."""
        return self.acts.holds(claim) or self.duties.holds(claim)

    def end(self, claim: Claim, result: str) -> Awaitable[None]:
        """Told to the others at once, and again until a majority has it."""
        return Deferred.fromCoroutine(self.acts.end(claim, result))

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """One for each kind."""
        self.acts.on_recover(kind, recover)

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """Looked at soon."""
        self.duties.duty(name, begin, end)

    def release(self, name: str) -> Awaitable[None]:
        """When it has ended."""
        return Deferred.fromCoroutine(self.duties.release(name))

    def would_claim(self) -> bool:
        """Whether it may, and can."""
        return self._leave.may and self._leave.running and not self.court.problem()

    def set_leader(self, may: bool) -> None:
        """Duties end, or are looked at again."""
        if may != self._leave.may:
            self._leave.may = may
            self.duties.may_changed()
            self._tell_problem()

    def problem(self) -> str:
        """That of the court, or that it may not."""
        return NOT_ALLOWED if not self._leave.may else self.court.problem()

    def on_problem(self, receiver: Callable[[str], None]) -> None:
        """Looked at four times a second."""
        self._receivers.append(receiver)

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """By name; of this node itself it is known for certain."""
        found = {
            key.removeprefix(DUTY): (node, term)
            for key, (node, term) in sorted(self.court.holders().items())
            if node != self._node
        }
        own = self.duties.held()
        return {
            **found,
            **{key.removeprefix(DUTY): (self._node, term) for key, term in own.items()},
        }

    def receipts(self, event: str = "", limit: int = 1000) -> Awaitable[Sequence[Receipt]]:
        """As the court keeps them."""
        return self.court.receipts(event, limit)

    # -- time

    def look(self) -> None:
        """
        End what may expire, by the present clock. Also called before anything is read after this
        process stood still.
        """
        self.duties.look()

    def _tick(self) -> None:
        self.duties.tick()
        self._tell_problem()

    def _tell_problem(self) -> None:
        problem = self.problem()
        if problem != self._problem:
            self._problem = problem
            if problem:
                self.log.warn(
                    "reactions and scheduled jobs do not run, because this node cannot claim them: "
                    "{problem}",
                    problem=problem,
                )
            else:
                self.log.info("this node can claim again: reactions and scheduled jobs run")
            for receiver in self._receivers:
                receiver(problem)

    def _second(self) -> None:
        for name, work in (("care", self._care), ("renew", self._renew)):
            if name not in self._busy:
                self._busy.add(name)
                d = Deferred.fromCoroutine(work())
                d.addBoth(self._worked, name)  # type: ignore[unused-awaitable]
                let_go(d, self.log, "the upkeep of the claims has failed")
        self.acts.recover()

    def _worked(self, result: Any, name: str) -> Any:
        self._busy.discard(name)
        return result

    async def _care(self) -> None:
        self._each_second()
        work = self.court.care()
        if work is not None:
            await work
        await self.acts.tell_ends()

    async def _renew(self) -> None:
        held = {**self.acts.held(), **self.duties.held()}
        if not held:
            return
        renewed = await self.court.renew(held)
        for key, until in renewed.items():
            part = self.duties if key.startswith(DUTY) else self.acts
            part.renewed(key, held[key], until)


_Claims: type[IClaims] = ClusterClaims  # mypy compares them
