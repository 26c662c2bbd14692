"""
Claims by votes of the members: the court that needs no other service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.claims.ballots import PATIENCE, Ballots
from saltwisted.cluster.claims.court import Gone, Granted, ICourt, Outcome, Refused, Wish
from saltwisted.cluster.claims.roll import Roll
from saltwisted.domain.claims.claimant import last_moment
from saltwisted.domain.claims.copies import WINDOW
from saltwisted.domain.claims.electorate import PAIR, Seat
from saltwisted.domain.claims.messages import (
    DONE,
    DROP,
    END,
    GRANTED,
    LOW,
    NO,
    RENEW,
    WANT,
    Question,
)
from saltwisted.domain.claims.voter import (
    DUTY,
    ELECTORATE,
    Voter,
    node_of,
    settle_seconds,
    unfinished,
)
from saltwisted.domain.claims.words import Receipt, merged
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.turns import in_turns
from saltwisted.wire.msgpack import pack_bin, unpack_bin

RECEIPTS = "claims.receipts"
MOST_RECEIPTS = 10_000
PRUNE_EVERY = 60.0
STOOD_STILL = 5.0
"""Seconds without a look, which comes each second, after which this process stood still."""


class Votes:
    """Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        key: str,
        peers: IPeers,
        members: Callable[[], Sequence[Seat]],
        gone: Callable[[], Collection[str]],
        key_of: Callable[[Any], str],
        store: Any,
        life: str,
        now: Callable[[], float],
        two: str = PAIR,
        window: float = 30.0,
        before: Callable[[], float | None] = lambda: None,
    ) -> None:
        """
        @param clock: of the reactor; nobody sets it, and it goes on in sleep.
        @param key: what this member is known by.
        @param members: who is a member now, linked or not, without those that are gone.
        @param gone: keys of members that were removed or declared dead.
        @param key_of: the key of a link's member.
        @param store: L{saltwisted.stores.claims.ClaimStore}.
        @param life: another text each time the process is started.
        @param now: time of day, for receipts.
        @param window: C{publish_window}.
        @param before: receipts of what ended before this time of day are deleted; C{None}: none.
        """
        self._clock, self._peers, self._store, self._now = clock, peers, store, now
        self._key = key
        self.holder = f"{node}#{life}"
        self._settle, self._window = settle_seconds(window), window
        self._before = before
        self._prune_at, self._cared_at = 0.0, float("inf")
        self._highest = 0
        self._may_forget, self._doubts_until = False, 0.0
        self.ballots = Ballots(clock, self.holder, key, peers, gone, key_of, store, two)
        self._roll = Roll(clock, node, self.ballots, peers, members, self)
        peers.answer(RECEIPTS, self._asked_for_receipts)

    @property
    def voter(self) -> Voter | None:
        """This member's, while it votes."""
        return self.ballots.voter

    async def startService(self) -> None:
        """Read the votes, and vote."""
        memory = await self._store.load()
        now, at = self._clock.seconds(), self._now()
        voter = Voter(self._key, evolve(memory, votes=()), now, self._settle, at)
        async for vote in in_turns(self._clock, memory.votes):
            voter.remember(vote, now, at)
        self._highest = voter.highest
        self.ballots.voter = voter
        # Members that were linked before this one had a vote could not tell it who votes
        told = Deferred.fromCoroutine(self.ballots.tell_all())
        let_go(told, self.log, "the members were not greeted")
        founded = self._roll.care() if voter.electorate is None else None
        if founded is not None:
            # Who begins alone decides alone at once. If others joined before that, all would begin
            # together, and none of them can tell whether the others have lost what they voted
            let_go(as_deferred(founded), self.log, "it is not decided who votes")

    async def stopService(self) -> None:
        """Vote for nothing more."""
        self.ballots.voter = None
        await self._store.close()

    # -- ICourt

    async def ask(self, wish: Wish) -> Outcome:
        """One round, and another one where a dead holder has left a plan."""
        self._look_who_is_gone()
        why = self.problem()
        if why:
            return Refused(why)
        term = self._next_term()
        sent = self._clock.seconds()
        question = self._question(WANT, wish, term)
        got = await self.ballots.poll(question)
        self._highest = max(self._highest, got.highest)
        if got.is_granted:
            planned, is_doubtful = got.planned
            if planned is None or planned.plan is None or planned.plan == wish.plan:
                return Granted(term=term, until=last_moment(sent))
            sent = self._clock.seconds()
            plan = planned.plan
            # It is begun for the event that this was planned for
            wish = evolve(wish, came=planned.came, came_at=sent - planned.came_ago)
            again = await self.ballots.poll(self._question(WANT, wish, term, plan=plan))
            if again.is_granted:
                age = got.age
                return Granted(
                    term=term,
                    until=last_moment(sent),
                    planned=plan,
                    by=planned.holder,
                    age=age,
                    came=planned.came,
                    came_ago=planned.came_ago,
                    # After that somebody may have ended it, and those who knew not vote any more
                    is_doubtful=is_doubtful or age > self._window,
                )
            return Refused(again.why())
        if got.said(GRANTED):
            await self.drop(wish.key, term)
        taken = got.taken
        if taken is not None:
            if taken.said == DONE and self.voter is not None:
                now = self._clock.seconds()
                await self.ballots.write(self.voter.heard_of_end(wish.key, taken, now))
            return Gone(
                holder=node_of(taken.holder),
                by=taken.holder,
                age=taken.age,
                is_old=taken.is_old,
                ended=taken.said == DONE,
                result=taken.result,
                recent=taken.recent,
                came=taken.came,
                came_ago=taken.came_ago,
            )
        at_once = bool(got.said(LOW)) and not got.said(NO) and got.can_be_asked
        return Refused(got.why(), at_once)

    async def renew(self, held: Mapping[str, int]) -> Mapping[str, float]:
        """In one message."""
        sent = self._clock.seconds()
        asked = {
            key: self.ballots.poll(
                Question(
                    act=RENEW,
                    key=key,
                    term=term,
                    holder=self.holder,
                    is_duty=key.startswith(DUTY),
                )
            )
            for key, term in held.items()
        }
        found: dict[str, float] = {}
        for key, poll in asked.items():
            got = await poll
            if got.is_granted:
                found[key] = last_moment(sent)
            elif got.can_be_asked and not got.said(GRANTED):
                found[key] = 0.0
        return found

    async def drop(self, key: str, term: int) -> None:
        """Told to all that can be asked."""
        await self.ballots.poll(Question(act=DROP, key=key, term=term, holder=self.holder))

    async def end(self, wish: Wish, term: int, result: str) -> bool:
        """Whether a majority has it on disk."""
        question = self._question(END, wish, term, result=result)
        got = await self.ballots.poll(question)
        return got.is_granted or (got.can_be_asked and not got.said(GRANTED))

    def unfinished(self) -> Sequence[str]:
        """As far as this member has voted."""
        if self.voter is None:
            return ()
        found = unfinished(self.voter.votes(), self._clock.seconds())
        return [vote.key for vote in found if not vote.key.startswith(f"{ELECTORATE}/")]

    def doubts_until(self) -> float:
        """From when they are known to be gone, and for as long as copies of an event may come."""
        self._look_who_is_gone()
        return self._doubts_until

    def _look_who_is_gone(self) -> None:
        voter = self.voter
        if voter is None or voter.electorate is None:
            return
        may_forget = voter.electorate.may_forget(self.ballots.gone(), self.ballots.two)
        if may_forget and not self._may_forget:
            self._doubts_until = self._clock.seconds() + WINDOW
            kept = Deferred.fromCoroutine(self.ballots.write(voter.leap()))
            let_go(kept, self.log, "the highest term was not stored")
        self._may_forget = may_forget

    def is_free(self, key: str) -> bool:
        """By this member's own vote."""
        return self.voter is not None and self.voter.is_free(key, self._clock.seconds())

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """By this member's own votes."""
        if self.voter is None:
            return {}
        now = self._clock.seconds()
        return {
            vote.key: (node_of(vote.holder), vote.term)
            for vote in self.voter.votes()
            if vote.is_duty and vote.until > now
        }

    def on_claimed(self, receiver: Callable[[str, str], None]) -> None:
        """When this member is asked for its vote."""
        self.ballots.on_claimed(receiver)

    def problem(self) -> str:
        """Whether a majority can be asked."""
        return self._roll.problem()

    def care(self) -> Awaitable[Any] | None:
        """See that the members vote, and nobody else."""
        voter = self.voter
        if voter is None:
            return None
        self._look_who_is_gone()
        self._prune(voter)
        whole = Deferred.fromCoroutine(self.ballots.write(voter.whole(self._clock.seconds())))
        let_go(whole, self.log, "after a restart this member votes for nothing for a while")
        self.ballots.care()
        return self._roll.care()

    def _question(
        self, act: str, wish: Wish, term: int, plan: bytes | None = None, result: str = ""
    ) -> Question:
        # What a dead holder has begun is known by its vote here: members that were away hear it too
        known = self.voter.vote(wish.key) if self.voter is not None else None
        came, came_at = wish.came, wish.came_at
        if not came and known is not None:
            came, came_at = known.came, known.came_at
        return Question(
            act=act,
            key=wish.key,
            term=term,
            holder=self.holder,
            is_duty=wish.is_duty,
            plan=plan if plan is not None or act == END else wish.plan,
            what=wish.what or (known.what if known is not None else ""),
            event=wish.event or (known.event if known is not None else ""),
            at=self._now(),
            result=result,
            came=came,
            came_ago=max(0.0, self._clock.seconds() - came_at) if came else 0.0,
        )

    def _next_term(self) -> int:
        voter = self.voter
        self._highest = max(self._highest, voter.highest if voter is not None else 0) + 1
        return self._highest

    def _prune(self, voter: Voter) -> None:
        """Forget what is too old, in memory and on disk."""
        now = self._clock.seconds()
        if now > self._cared_at + STOOD_STILL:
            # What was asked meanwhile is read now, and is as old as that
            self._prune_at = now + PRUNE_EVERY
        self._cared_at = now
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_EVERY
            voter.expire(now)
            before = self._before()
            if before is not None:
                pruned = self._store.prune(before)
                let_go(pruned, self.log, "old receipts were not deleted")

    # -- receipts

    async def receipts(self, event: str, limit: int) -> Sequence[Receipt]:
        """Of all members that can be asked: each has those that it voted for."""
        body = pack_bin([event, limit])
        asked = [as_deferred(link.ask(RECEIPTS, body, PATIENCE)) for link in self._peers.links()]
        rows = list(await self._store.receipts(event, limit))
        for each in asked:
            try:
                rows += [Receipt(**_fields(row)) for row in unpack_bin(await each)]
            except (SaltwistedError, WireError, TypeError, ValueError):
                # It is away, or of another release
                continue
        return merged(rows)[-limit:]

    async def _asked_for_receipts(self, node: str, body: bytes) -> bytes:
        """
        @raises WireError: it makes no sense.
        """
        event, limit = unpack_bin(body)
        if not isinstance(event, str) or type(limit) is not int:
            raise WireError("receipts")
        if self.voter is None:
            return pack_bin([])
        rows = await self._store.receipts(event, min(max(limit, 1), MOST_RECEIPTS))
        return pack_bin([receipt.shown() for receipt in rows])


_Votes: type[ICourt] = Votes  # mypy compares them


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("key", "term", "node", "what", "event", "begun", "ended", "result")
    return {name: row[name] for name in names}
