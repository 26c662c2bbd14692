"""
Duties: claims that this member holds for terms, and renews.

L{saltwisted.domain.claims.claimant.TABLE} is the life of each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from saltwisted.cluster.claims.court import Granted, ICourt, Leave, Wish
from saltwisted.domain.claims.claimant import END_TIME, LOOK_EVERY, Do, Duty, Said, step
from saltwisted.domain.claims.voter import DUTY
from saltwisted.domain.claims.words import Claim
from saltwisted.transports.deferreds import awaited, let_go


@define
class Held:
    """One duty, as this node sees it."""

    name: str
    begin: Callable[[Any], Any]
    end: Callable[[str], Any]
    state: Duty = Duty.FREE
    is_wanted: bool = True
    term: int = 0
    until: float = 0.0
    look_at: float = 0.0
    waiting: list[Deferred[None]] = field(factory=list)

    @property
    def key(self) -> str:
        """In the court."""
        return DUTY + self.name


class Duties:
    """
    The duties of one member. Reactor thread only.

    @ivar known: by name.
    """

    log = Logger()

    def __init__(
        self, clock: Any, node: str, court: ICourt, dice: Callable[[], float], leave: Leave
    ) -> None:
        self._clock, self._node, self._court = clock, node, court
        self._dice, self._leave = dice, leave
        self.known: dict[str, Held] = {}

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """Looked at soon."""
        duty = self.known.get(name)
        if duty is None:
            duty = self.known[name] = Held(name, begin, end)
        else:
            duty.begin, duty.end, duty.is_wanted = begin, end, True
        duty.look_at = self._clock.seconds() + self._dice() * LOOK_EVERY
        self._said(duty, Said.WANT)

    async def release(self, name: str) -> None:
        """When it has ended."""
        duty = self.known.get(name)
        if duty is None:
            return
        duty.is_wanted = False
        self._said(duty, Said.LEAVE, "released")
        await self._left(duty)

    async def end_all(self) -> None:
        """This node stops."""
        for duty in list(self.known.values()):
            duty.is_wanted = False
            self._said(duty, Said.LEAVE, "this node stops")
        for duty in list(self.known.values()):
            await self._left(duty)

    def may_changed(self) -> None:
        """They end, or are looked at again."""
        for duty in list(self.known.values()):
            self._said(duty, Said.WANT if self._leave.may else Said.LEAVE, self._leave.why)

    def holds(self, claim: Claim) -> bool:
        """By this moment's clock."""
        duty = self.known.get(claim.key.removeprefix(DUTY))
        if duty is None or duty.key != claim.key or duty.term != claim.term:
            return False
        return duty.state is Duty.HELD and bool(duty.until - END_TIME > self._clock.seconds())

    async def _left(self, duty: Held) -> None:
        if duty.state in (Duty.HELD, Duty.ENDING, Duty.CANCELLED):
            left: Deferred[None] = Deferred()
            duty.waiting.append(left)
            await left
        if not duty.is_wanted and self.known.get(duty.name) is duty:
            del self.known[duty.name]

    def _said(self, duty: Held, said: Said, why: str = "", term: int = 0) -> None:
        taken = step(duty.state, said)
        duty.state = taken.to
        for do in taken.do:
            if do is Do.ASK:
                asked = Deferred.fromCoroutine(self._ask_duty(duty))
                let_go(asked, self.log, "{name} was not claimed", name=duty.name)
            elif do is Do.BEGIN:
                self._begin_duty(duty)
            elif do is Do.END:
                self._end_duty(duty, why)
            elif do is Do.DROP:
                dropped = Deferred.fromCoroutine(self._drop_duty(duty))
                let_go(dropped, self.log, "{name} was not given back", name=duty.name)
        if duty.state is Duty.FREE and not taken.do:
            self._is_free(duty)

    def _is_free(self, duty: Held) -> None:
        waiting, duty.waiting = duty.waiting, []
        for each in waiting:
            each.callback(None)

    async def _ask_duty(self, duty: Held) -> None:
        outcome = await self._court.ask(Wish(key=duty.key, is_duty=True))
        now = self._clock.seconds()
        if isinstance(outcome, Granted) and now < outcome.until - END_TIME:
            duty.term, duty.until = outcome.term, outcome.until
            self._said(duty, Said.GRANTED)
        else:
            if isinstance(outcome, Granted):
                # This process stood still while it was answered: somebody else may have it by now
                await self._court.drop(duty.key, outcome.term)
            duty.look_at = self._clock.seconds() + LOOK_EVERY * (0.5 + self._dice())
            self._said(duty, Said.REFUSED)

    def _begin_duty(self, duty: Held) -> None:
        claim = Claim(key=duty.key, term=duty.term, holder=self._node, until=duty.until)
        began = maybeDeferred(duty.begin, claim)
        let_go(began, self.log, "{name} did not begin", name=duty.name)

    def _end_duty(self, duty: Held, why: str) -> None:
        ended: Deferred[Any] = maybeDeferred(duty.end, why).addCallback(awaited)

        def failed(failure: Any) -> None:
            self.log.failure("{name} did not end", failure=failure, name=duty.name)

        ended.addErrback(failed)  # type: ignore[unused-awaitable]
        ended.addCallback(lambda _: self._said(duty, Said.ENDED))  # type: ignore[unused-awaitable]

    async def _drop_duty(self, duty: Held) -> None:
        try:
            await self._court.drop(duty.key, duty.term)
        finally:
            if duty.is_wanted and self._leave.running:
                duty.look_at = self._clock.seconds() + LOOK_EVERY * (0.5 + self._dice())
                self._said(duty, Said.WANT)
            elif duty.state is Duty.FREE:
                self._is_free(duty)

    def look(self) -> None:
        """
        End what may expire, by the present clock. Also called before anything is read after this
        process stood still.
        """
        now = self._clock.seconds()
        for duty in list(self.known.values()):
            if duty.state is Duty.HELD and now >= duty.until - END_TIME:
                self._said(duty, Said.DOUBT, "its term could not be renewed")

    def tick(self) -> None:
        """Check what may expire, and what may be free."""
        self.look()
        now = self._clock.seconds()
        for duty in list(self.known.values()):
            if duty.state is Duty.FREE and duty.is_wanted and self._leave.may:
                self._said(duty, Said.WANT)
            wants = duty.is_wanted and self._leave.ready
            due = duty.state is Duty.WANTED and wants and now >= duty.look_at
            if due and self._court.is_free(duty.key) and not self._court.problem():
                self._said(duty, Said.LOOK)

    def held(self) -> dict[str, int]:
        """What is to be renewed: key to term."""
        return {
            duty.key: duty.term
            for duty in self.known.values()
            if duty.state in (Duty.HELD, Duty.ENDING)
        }

    def renewed(self, key: str, term: int, until: float) -> None:
        """A term lasts longer, or is lost."""
        duty = self.known.get(key.removeprefix(DUTY))
        if duty is None or duty.key != key or duty.term != term:
            return
        if until:
            duty.until = max(duty.until, until)
        else:
            duty.until = 0.0
            self._said(duty, Said.DOUBT, "somebody else has it")
