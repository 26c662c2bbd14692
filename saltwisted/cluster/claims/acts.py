"""
Short acts: those that this member begins and ends, and those that it finishes for members that
died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isinf
from typing import Any

from attrs import define, evolve, frozen
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.cluster.claims.court import Gone, Granted, ICourt, Leave, Outcome, Refused, Wish
from saltwisted.domain.claims.claimant import RENEW_EVERY
from saltwisted.domain.claims.copies import (
    LATE,
    WINDOW,
    Copies,
    EventKeys,
    Known,
    is_taken_event,
    occasion_of,
)
from saltwisted.domain.claims.messages import MAX_PLAN
from saltwisted.domain.claims.voter import node_of
from saltwisted.domain.claims.words import Answer, Came, Claim, NoMajority, Taken
from saltwisted.errors import WireError
from saltwisted.transports.deferreds import awaited, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

FIRST_WAIT = 0.05
MOST_WAIT = 1.0
"""Seconds between two attempts to claim the same."""
TOO_LATE = "it is older than publish_window"
DOUBTFUL = "members that are gone for good may have done it: they could decide without this one"
MOST_RECOVERED = 50
"""Acts of dead members that are finished at the same time."""


@frozen
class _Span:
    """When something came, and until when it is tried; by this node's monotonic clock."""

    came: float
    end: float


@define
class _Act:
    """A short act of this node that has not ended."""

    wish: Wish
    claim: Claim
    until: float
    begun: float


class Acts:
    """
    The acts of one member. Reactor thread only.

    @param leave: whether this node may claim anything now.
    @param elsewhere: whether a minion is connected to another node now.
    @ivar keys: the keys of events.
    @param counters: counts what was granted, taken by others, refused, and recovered.
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
        leave: Leave,
        elsewhere: Callable[[str], bool] = lambda minion: False,
    ) -> None:
        self._clock, self._node, self._court = clock, node, court
        self._dice, self._window, self._counters = dice, window, counters
        self._leave, self._elsewhere = leave, elsewhere
        self._life, self._unwritten = f"{node}#{int(dice() * 2**52):x}", 0
        self._copies = Copies(node)
        self.keys = EventKeys(self._copies, node, clock.seconds, window_of=self._window_of)
        self._acts: dict[str, _Act] = {}
        self._claiming: dict[str, tuple[Wish, float]] = {}
        self._recovering: set[str] = set()
        self._recovers: dict[str, Callable[[str, Mapping[str, Any], Any], Any]] = {}
        self._ends: dict[str, tuple[Wish, int, str, float]] = {}
        court.on_claimed(self._claimed)

    async def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Answer:
        """Tried until the window is over."""
        wish = Wish(key=key, what=what[:1000], event=event[:1000])
        return (await self._begin(wish, plan, self._span()))[0]

    def _span(self, age: float = 0.0) -> _Span:
        """Of what came so many seconds ago, and is tried from now on."""
        now = float(self._clock.seconds())
        return _Span(now - age, now + self._window)

    async def _begin(
        self, wish: Wish, plan: Mapping[str, Any], span: _Span
    ) -> tuple[Answer, Gone | None]:
        packed, key = pack_bin(dict(plan)), wish.key
        if len(packed) > MAX_PLAN:
            why = f"a plan of {len(packed)} bytes; {MAX_PLAN} at most"
            return NoMajority(key=key, why=why), None
        own = self._own(key)
        if own is not None:
            return Taken(key=key, holder=self._node), own
        wish = evolve(wish, plan=packed)
        self._claiming[key] = wish, self._clock.seconds()
        try:
            outcome = await self._try(wish, span)
        finally:
            del self._claiming[key]
        if isinstance(outcome, Granted):
            if outcome.planned is not None:
                # Somebody had begun it, and died
                self._counters["claims_taken"] += 1
                self._finish(wish, outcome)
                is_old, by = isinf(outcome.age), outcome.by
                age = 0.0 if is_old else outcome.age
                gone = Gone(
                    holder=node_of(by),
                    by=by,
                    age=age,
                    is_old=is_old,
                    came=outcome.came,
                    came_ago=outcome.came_ago,
                )
                return Taken(key=key, holder=""), gone
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

    def _own(self, key: str) -> Gone | None:
        """What this node itself does under a key now, or asks for."""
        act, now = self._acts.get(key), self._clock.seconds()
        if act is not None:
            wish, begun = act.wish, act.begun
        elif key in self._claiming:
            wish, begun = self._claiming[key]
        else:
            return None
        return Gone(holder=self._node, age=now - begun, came=wish.came, came_ago=now - wish.came_at)

    async def begin_event(
        self,
        minion: str,
        tag: str,
        data: Mapping[str, Any],
        plan: Mapping[str, Any],
        what: str = "",
        came: Came | None = None,
    ) -> Answer:
        """By the key that the event has, until it is known which one it is."""
        span = self._span((came.age or 0.0) if came is not None else 0.0)
        window = self._window_of(minion)
        key = came.key if came is not None else self.keys.of(minion, tag, data)
        wish = Wish(
            key=key or "",
            what=what[:1000],
            event=tag[:1000],
            came=(came.row if came is not None else "") or self._row(),
            came_at=span.came,
        )
        if came is not None and came.source:
            return await self._take_up(came, wish, span, plan, window)
        while key is not None:
            answer, gone = await self._begin(evolve(wish, key=key), plan, span)
            if gone is None or gone.came == wish.came:
                # Of ours somebody may have finished what he took for left
                return answer
            # Whether it is a copy depends on when ours came, not on when this is asked
            since = self._clock.seconds() - span.came
            recent = [evolve(each, age=each.age - since) for each in gone.recent]
            age = gone.age - since
            key = self._copies.taken(key, gone.at_node, age, recent, span.came, window)
            if key is None:
                return answer
        return Taken(key=occasion_of(minion, tag, data).alike, holder=self._node)

    def _row(self) -> str:
        """What tells an event from all others that is written down nowhere."""
        self._unwritten += 1
        return f"{self._life}/{self._unwritten}"

    def _window_of(self, minion: str) -> float:
        """Within how many seconds what comes of a minion may be a copy."""
        return LATE if self._elsewhere(minion) else WINDOW

    async def _take_up(
        self,
        came: Came,
        wish: Wish,
        span: _Span,
        plan: Mapping[str, Any],
        window: float,
    ) -> Answer:
        """An event that another life of a node took, which may have claimed it."""
        now = self._clock.seconds()
        # A copy that comes here is no second event, although it is this node that claims the first
        self._copies.claimed(came.key, node_of(came.source), now - span.came, now)
        answer, gone = await self._begin(wish, plan, span)
        if gone is None:
            return answer
        since = None if came.age is None else self._clock.seconds() - span.came
        known = Known(
            holder=gone.by or gone.holder,
            age=None if gone.is_old else gone.age,
            came=gone.came,
            came_ago=gone.came_ago,
        )
        if is_taken_event(came.key, came.row or came.source, since, known, window):
            return answer
        why = f"it is unknown whether it had begun before {came.source} ended"
        return NoMajority(key=came.key, why=why)

    async def _try(self, wish: Wish, span: _Span) -> Outcome:
        wait, outcome, end = FIRST_WAIT, Refused(TOO_LATE), span.end
        while True:
            now = self._clock.seconds()
            if now >= end + MOST_WAIT:
                # This process stood still: voters may have forgotten who has done it meanwhile
                return outcome
            if not self._leave.running or not self._leave.may:
                return Refused(self._leave.why)
            if span.came < self._court.doubts_until():
                return Refused(DOUBTFUL)
            got = await self._court.ask(wish)
            if not isinstance(got, Refused):
                return got
            outcome, now = got, self._clock.seconds()
            if now >= end:
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
        self._acts[wish.key] = _Act(wish, claim, granted.until, self._clock.seconds())
        return claim

    def holds(self, claim: Claim) -> bool:
        """By this moment's clock."""
        act = self._acts.get(claim.key)
        if act is None or act.claim.term != claim.term:
            return False
        return bool(act.until > self._clock.seconds())

    async def end(self, claim: Claim, result: str) -> None:
        """Told to the others at once, and again until a majority has it."""
        act = self._acts.pop(claim.key, None)
        wish = act.wish if act is not None else Wish(key=claim.key)
        if not await self._court.end(wish, claim.term, result[:1000]):
            last = self._clock.seconds() + 2 * self._window
            self._ends[claim.key] = (wish, claim.term, result[:1000], last)

    async def tell_ends(self) -> None:
        """Report again what has ended, if a majority has not heard it."""
        now = self._clock.seconds()
        for key, (wish, term, result, last) in list(self._ends.items()):
            if await self._court.end(wish, term, result) or now > last:
                self._ends.pop(key, None)

    def held(self) -> dict[str, int]:
        """What is to be renewed: key to term."""
        return {act.wish.key: act.claim.term for act in self._acts.values()}

    def renewed(self, key: str, term: int, until: float) -> None:
        """A term lasts longer, or is lost."""
        act = self._acts.get(key)
        if act is not None and act.claim.term == term:
            act.until = max(act.until, until) if until else 0.0

    # -- those of dead members

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """One for each kind."""
        self._recovers[kind] = recover

    def recover(self) -> None:
        """Look for acts of dead members; called each second."""
        self._copies.forget(self._clock.seconds())
        if not self._recovers or not self._leave.ready:
            return
        for key in self._court.unfinished():
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
            outcome = await self._court.ask(wish)
        finally:
            self._recovering.discard(key)
        if isinstance(outcome, Granted):
            if outcome.planned is None:
                await self._court.drop(key, outcome.term)
            else:
                self._finish(wish, outcome)

    def _finish(self, wish: Wish, granted: Granted) -> None:
        """This node has got what somebody else had begun."""
        try:
            plan = unpack_bin(granted.planned or b"")
            if not isinstance(plan, dict):
                raise WireError("plan")
        except WireError:
            self.log.error(
                "the stored plan of {key} is invalid: it is treated as doubtful", key=wish.key
            )
            plan, granted = {}, evolve(granted, is_doubtful=True)
        came_at = self._clock.seconds() - granted.came_ago
        claim = self._act(evolve(wish, came=granted.came, came_at=came_at), granted, plan)
        self._counters["claims_recovered"] += 1
        recover = self._recovers.get(wish.key.partition("/")[0])

        def done(result: Any) -> Any:
            if claim.key in self._acts and self._acts[claim.key].claim is claim:
                let_go(Deferred.fromCoroutine(self.end(claim, "lost")), self.log, "no end was told")
            return result

        d: Deferred[Any] = succeed(None)
        if recover is not None:
            d = maybeDeferred(recover, wish.key, plan, claim)
            d = d.addCallback(awaited)
        d.addBoth(done)  # type: ignore[unused-awaitable]
        let_go(d, self.log, "an act of a dead member was not finished")

    def _claimed(self, key: str, node: str) -> None:
        self._copies.claimed(key, node, 0.0, self._clock.seconds())
