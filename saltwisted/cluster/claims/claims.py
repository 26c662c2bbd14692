"""
What a member does with what it is granted: short acts that it begins and ends, those of dead
members that it finishes, and duties that it holds.

Who grants is a court (L{saltwisted.cluster.claims.court}). This is C{IClaims} for a member.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.cluster.claims.court import Gone, Granted, ICourt, Outcome, Refused, Wish
from saltwisted.domain.claims.claimant import (
    END_TIME,
    LOOK_EVERY,
    RENEW_EVERY,
    Do,
    Duty,
    Said,
    step,
)
from saltwisted.domain.claims.copies import Copies, occasion_of
from saltwisted.domain.claims.messages import MAX_PLAN
from saltwisted.domain.claims.words import Answer, Claim, NoMajority, Receipt, Taken
from saltwisted.errors import WireError
from saltwisted.interfaces import IClaims
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

NOT_ALLOWED = "this node was told to claim nothing (reactor.set_leader)"
TICK = 0.25
FIRST_WAIT = 0.05
MOST_WAIT = 1.0
"""Seconds between two attempts to claim the same."""
MOST_RECOVERED = 50
"""Acts of dead members that are finished at the same time."""
DUTIES = "duty/"


@define
class _Act:
    """A short act of this node that has not ended."""

    wish: Wish
    claim: Claim
    until: float


@define
class _Held:
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
        return DUTIES + self.name


class ClusterClaims:
    """
    Reactor thread only.

    @ivar counters: what was granted, taken by others, refused, recovered.
    """

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
    ) -> None:
        """
        @param clock: of the reactor; nobody sets it, and it goes on in sleep.
        @param dice: in [0, 1), so that nodes do not all ask at once.
        @param window: C{publish_window}: for how long a short act is tried.
        @param each_second: what else is to be looked after.
        @param settled: whether this node serves, so that it may begin something.
        """
        self._clock, self._node, self.court = clock, node, court
        self._dice, self._window, self._counters = dice, window, counters
        self._settled, self._each_second = settled, each_second
        self._copies = Copies(node)
        self._acts: dict[str, _Act] = {}
        self._claiming: set[str] = set()
        self._recovering: set[str] = set()
        self._recovers: dict[str, Callable[[str, Mapping[str, Any], Any], Any]] = {}
        self._duties: dict[str, _Held] = {}
        self._ends: dict[str, tuple[Wish, int, str, float]] = {}
        self._may = True
        self._running = False
        self._problem = ""
        self._receivers: list[Callable[[str], None]] = []
        self._loops: list[LoopingCall] = []
        self._caring = False
        self._renewing = False
        court.on_claimed(self._claimed)

    # -- the service

    def startService(self) -> None:
        """Begin to hold what is wanted."""
        self._running = True
        for work, seconds in ((self._tick, TICK), (self._second, RENEW_EVERY)):
            loop = LoopingCall(work)
            loop.clock = self._clock
            self._loops.append(loop)
            let_go(loop.start(seconds, now=False), self.log, "claims are no longer looked at")

    async def stopService(self) -> None:
        """End what is held, and give it back."""
        self._running = False
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self._loops = []
        for duty in list(self._duties.values()):
            duty.is_wanted = False
            self._said(duty, Said.LEAVE, "this node stops")
        for duty in list(self._duties.values()):
            await self._left(duty)

    # -- short acts

    async def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Answer:
        """Tried until the window is over."""
        return (await self._begin(key, plan, what, event))[0]

    async def _begin(
        self, key: str, plan: Mapping[str, Any], what: str, event: str
    ) -> tuple[Answer, Gone | None]:
        packed = pack_bin(dict(plan))
        if len(packed) > MAX_PLAN:
            why = f"a plan of {len(packed)} bytes; {MAX_PLAN} at most"
            return NoMajority(key=key, why=why), None
        if key in self._acts or key in self._claiming:
            return Taken(key=key, holder=self._node), None
        wish = Wish(key=key, plan=packed, what=what[:1000], event=event[:1000])
        self._claiming.add(key)
        try:
            outcome = await self._try(wish, self._clock.seconds() + self._window)
        finally:
            self._claiming.discard(key)
        if isinstance(outcome, Granted):
            if outcome.planned is not None:
                # Somebody had begun it, and died
                self._counters["claims_taken"] += 1
                self._finish(wish, outcome)
                return Taken(key=key, holder=""), None
            self._counters["claims_granted"] += 1
            return self._act(wish, outcome, plan), None
        if isinstance(outcome, Gone):
            self._counters["claims_taken"] += 1
            taken = Taken(
                key=key, holder=outcome.holder, ended=outcome.ended, result=outcome.result
            )
            return taken, outcome
        self._counters["claims_refused"] += 1
        return NoMajority(key=key, why=outcome.why), None

    async def begin_event(
        self,
        minion: str,
        tag: str,
        data: Mapping[str, Any],
        plan: Mapping[str, Any],
        what: str = "",
    ) -> Answer:
        """By the key that the event has, until it is known which one it is."""
        occasion = occasion_of(minion, tag, data)
        key = self._copies.came(occasion, self._clock.seconds())
        while key is not None:
            answer, gone = await self._begin(key, plan, what, tag)
            if gone is None:
                return answer
            key = self._copies.taken(key, gone.holder, gone.age, gone.recent, self._clock.seconds())
            if key is None:
                return answer
        return Taken(key=occasion.alike, holder=self._node)

    async def _try(self, wish: Wish, end: float) -> Outcome:
        wait = FIRST_WAIT
        while True:
            outcome: Outcome = Refused(NOT_ALLOWED)
            if self._may and self._running:
                outcome = await self.court.ask(wish)
            if not isinstance(outcome, Refused):
                return outcome
            now = self._clock.seconds()
            if now >= end or not self._running or not self._may:
                return outcome
            if outcome.at_once:
                continue
            await deferLater(self._clock, min(wait * (0.5 + self._dice()), end - now))
            wait = min(MOST_WAIT, wait * 2)

    def _act(self, wish: Wish, granted: Granted, plan: Mapping[str, Any]) -> Claim:
        claim = Claim(
            key=wish.key,
            term=granted.term,
            holder=self._node,
            plan=plan,
            age=granted.age,
            is_doubtful=granted.is_doubtful,
            until=granted.until,
        )
        self._acts[wish.key] = _Act(wish, claim, granted.until)
        return claim

    def holds(self, claim: Claim) -> bool:
        """By this moment's clock."""
        now = self._clock.seconds()
        act = self._acts.get(claim.key)
        if act is not None and act.claim.term == claim.term:
            return bool(act.until > now)
        duty = self._duties.get(claim.key.removeprefix(DUTIES))
        if duty is not None and duty.key == claim.key and duty.term == claim.term:
            return duty.state is Duty.HELD and bool(duty.until - END_TIME > now)
        return False

    async def end(self, claim: Claim, result: str) -> None:
        """Told to the others at once, and again until a majority has it."""
        act = self._acts.pop(claim.key, None)
        wish = act.wish if act is not None else Wish(key=claim.key)
        if not await self.court.end(wish, claim.term, result[:1000]):
            last = self._clock.seconds() + 2 * self._window
            self._ends[claim.key] = (wish, claim.term, result[:1000], last)

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """One for each kind."""
        self._recovers[kind] = recover

    def _recover(self) -> None:
        """Look for acts of dead members."""
        if not self._recovers or not self._may or not self._settled():
            return
        for key in self.court.unfinished():
            if len(self._recovering) >= MOST_RECOVERED:
                return
            busy = key in self._recovering or key in self._acts or key in self._claiming
            if busy or key.partition("/")[0] not in self._recovers:
                continue
            self._recovering.add(key)
            let_go(Deferred.fromCoroutine(self._recover_one(key)), self.log, "not recovered")

    async def _recover_one(self, key: str) -> None:
        wish = Wish(key=key)
        try:
            await deferLater(self._clock, self._dice() * RENEW_EVERY)
            outcome = await self.court.ask(wish)
        finally:
            self._recovering.discard(key)
        if isinstance(outcome, Granted):
            if outcome.planned is None:
                await self.court.drop(key, outcome.term)
            else:
                self._finish(wish, outcome)

    def _finish(self, wish: Wish, granted: Granted) -> None:
        """This node has got what somebody else had begun."""
        try:
            plan = unpack_bin(granted.planned or b"")
            if not isinstance(plan, dict):
                raise WireError("plan")
        except WireError:
            self.log.error("the plan of {key} makes no sense", key=wish.key)
            plan, granted = {}, evolve(granted, is_doubtful=True)
        claim = self._act(wish, granted, plan)
        self._counters["claims_recovered"] += 1
        recover = self._recovers.get(wish.key.partition("/")[0])

        def done(result: Any) -> Any:
            if claim.key in self._acts and self._acts[claim.key].claim is claim:
                let_go(Deferred.fromCoroutine(self.end(claim, "lost")), self.log, "no end was told")
            return result

        d: Deferred[Any] = succeed(None)
        if recover is not None:
            d = maybeDeferred(recover, wish.key, plan, claim)
            d = d.addCallback(_awaited)
        d.addBoth(done)  # type: ignore[unused-awaitable]
        let_go(d, self.log, "an act of a dead member was not finished")

    def _claimed(self, key: str, node: str) -> None:
        self._copies.claimed(key, node, 0.0, self._clock.seconds())

    # -- duties

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """Looked at soon."""
        duty = self._duties.get(name)
        if duty is None:
            duty = self._duties[name] = _Held(name, begin, end)
        else:
            duty.begin, duty.end, duty.is_wanted = begin, end, True
        duty.look_at = self._clock.seconds() + self._dice() * LOOK_EVERY
        self._said(duty, Said.WANT)

    async def release(self, name: str) -> None:
        """When it has ended."""
        duty = self._duties.get(name)
        if duty is None:
            return
        duty.is_wanted = False
        self._said(duty, Said.LEAVE, "released")
        await self._left(duty)

    async def _left(self, duty: _Held) -> None:
        if duty.state in (Duty.HELD, Duty.ENDING, Duty.CANCELLED):
            left: Deferred[None] = Deferred()
            duty.waiting.append(left)
            await left
        if not duty.is_wanted and self._duties.get(duty.name) is duty:
            del self._duties[duty.name]

    def _said(self, duty: _Held, said: Said, why: str = "", term: int = 0) -> None:
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

    def _is_free(self, duty: _Held) -> None:
        waiting, duty.waiting = duty.waiting, []
        for each in waiting:
            each.callback(None)

    async def _ask_duty(self, duty: _Held) -> None:
        outcome = await self.court.ask(Wish(key=duty.key, is_duty=True))
        if isinstance(outcome, Granted):
            duty.term, duty.until = outcome.term, outcome.until
            self._said(duty, Said.GRANTED)
        else:
            duty.look_at = self._clock.seconds() + LOOK_EVERY * (0.5 + self._dice())
            self._said(duty, Said.REFUSED)

    def _begin_duty(self, duty: _Held) -> None:
        self._counters["claims_granted"] += 1
        claim = Claim(key=duty.key, term=duty.term, holder=self._node, until=duty.until)
        began = maybeDeferred(duty.begin, claim)
        let_go(began, self.log, "{name} did not begin", name=duty.name)

    def _end_duty(self, duty: _Held, why: str) -> None:
        ended: Deferred[Any] = maybeDeferred(duty.end, why).addCallback(_awaited)

        def failed(failure: Any) -> None:
            self.log.failure("{name} did not end", failure=failure, name=duty.name)

        ended.addErrback(failed)  # type: ignore[unused-awaitable]
        ended.addCallback(lambda _: self._said(duty, Said.ENDED))  # type: ignore[unused-awaitable]

    async def _drop_duty(self, duty: _Held) -> None:
        try:
            await self.court.drop(duty.key, duty.term)
        finally:
            if duty.is_wanted and self._running:
                duty.look_at = self._clock.seconds() + LOOK_EVERY * (0.5 + self._dice())
                self._said(duty, Said.WANT)
            elif duty.state is Duty.FREE:
                self._is_free(duty)

    # -- time

    def look(self) -> None:
        """
        End what may run out, by this moment's clock. Also called before anything is read after this
        process stood still.
        """
        now = self._clock.seconds()
        for duty in list(self._duties.values()):
            if duty.state is Duty.HELD and now >= duty.until - END_TIME:
                self._said(duty, Said.DOUBT, "its term could not be renewed")

    def _tick(self) -> None:
        self.look()
        now = self._clock.seconds()
        for duty in list(self._duties.values()):
            wants = duty.is_wanted and self._may and self._settled()
            if duty.state is Duty.FREE and duty.is_wanted and self._may:
                self._said(duty, Said.WANT)
            due = duty.state is Duty.WANTED and wants and now >= duty.look_at
            if due and self.court.is_free(duty.key) and not self.court.problem():
                self._said(duty, Said.LOOK)
        self._tell_problem()

    def _second(self) -> None:
        for name, work in (("_caring", self._care), ("_renewing", self._renew)):
            if not getattr(self, name):
                setattr(self, name, True)
                d = Deferred.fromCoroutine(work())
                d.addBoth(self._worked, name)  # type: ignore[unused-awaitable]
                let_go(d, self.log, "claims were not looked after")
        self._recover()

    def _worked(self, result: Any, name: str) -> Any:
        setattr(self, name, False)
        return result

    async def _care(self) -> None:
        self._each_second()
        work = self.court.care()
        if work is not None:
            await work
        now = self._clock.seconds()
        for key, (wish, term, result, last) in list(self._ends.items()):
            if await self.court.end(wish, term, result) or now > last:
                self._ends.pop(key, None)

    async def _renew(self) -> None:
        held = {act.wish.key: act.claim.term for act in self._acts.values()}
        held |= {
            duty.key: duty.term
            for duty in self._duties.values()
            if duty.state in (Duty.HELD, Duty.ENDING)
        }
        if not held:
            return
        renewed = await self.court.renew(held)
        for key, until in renewed.items():
            act = self._acts.get(key)
            if act is not None and act.claim.term == held[key]:
                act.until = max(act.until, until) if until else 0.0
            duty = self._duties.get(key.removeprefix(DUTIES))
            if duty is not None and duty.key == key and duty.term == held[key]:
                self._duty_renewed(duty, until)

    def _duty_renewed(self, duty: _Held, until: float) -> None:
        if until:
            duty.until = max(duty.until, until)
        else:
            duty.until = 0.0
            self._said(duty, Said.DOUBT, "somebody else has it")

    # -- for people

    def would_claim(self) -> bool:
        """Whether it may, and can."""
        return self._may and self._running and not self.court.problem()

    def set_leader(self, may: bool) -> None:
        """Duties end, or are looked at again."""
        if may == self._may:
            return
        self._may = may
        for duty in list(self._duties.values()):
            self._said(duty, Said.WANT if may else Said.LEAVE, NOT_ALLOWED)
        self._tell_problem()

    def problem(self) -> str:
        """That of the court, or that it may not."""
        return NOT_ALLOWED if not self._may else self.court.problem()

    def on_problem(self, receiver: Callable[[str], None]) -> None:
        """Looked at four times a second."""
        self._receivers.append(receiver)

    def _tell_problem(self) -> None:
        problem = self.problem()
        if problem != self._problem:
            self._problem = problem
            for receiver in self._receivers:
                receiver(problem)

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """By name."""
        found = self.court.holders()
        return {key.removeprefix(DUTIES): held for key, held in sorted(found.items())}

    def receipts(self, event: str = "", limit: int = 1000) -> Awaitable[Sequence[Receipt]]:
        """As the court keeps them."""
        return self.court.receipts(event, limit)


def _awaited(got: Any) -> Any:
    """What a coroutine or a Deferred comes to; anything else is that already."""
    return as_deferred(got) if hasattr(got, "__await__") else got


_Claims: type[IClaims] = ClusterClaims  # mypy compares them
