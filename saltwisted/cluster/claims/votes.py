"""
Claims by votes: this member asks all that have a vote, and answers with its own.

Questions of one turn of the reactor go to each member in one message (word C{claims}). A member
that cannot be asked does not count for anything: neither does one of an older release, which
does not know the word. What a vote means is in L{saltwisted.domain.claims.voter}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from saltwisted.cluster.claims.court import Gone, Granted, ICourt, Outcome, Refused, Wish
from saltwisted.domain.claims.claimant import Round, last_moment
from saltwisted.domain.claims.electorate import (
    PAIR,
    Electorate,
    Seat,
    decode_electorate,
    encode_electorate,
    found,
)
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
    Reply,
    decode_questions,
    decode_replies,
    encode_questions,
    encode_replies,
)
from saltwisted.domain.claims.voter import ELECTORATE, Voter, Write, node_of, settle_seconds
from saltwisted.domain.claims.words import Receipt
from saltwisted.errors import RemoteError, SaltwistedError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "claims"
FOUND = "claims.found"
RECEIPTS = "claims.receipts"
PATIENCE = 1.0
"""Seconds that a member may take to answer."""
MOST_RECEIPTS = 10_000
PRUNE_EVERY = 60.0


@define
class _Asked:
    """A question on its way, and what is waited for."""

    question: Question
    done: Deferred[Round] = field(factory=Deferred)
    round: Round | None = None


class Votes:
    """
    Both sides of the votes of one member. Reactor thread only.

    @ivar holder: this node and this life of it.
    """

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
        self._clock, self._node, self._key, self._peers = clock, node, key, peers
        self._members, self._gone, self._key_of = members, gone, key_of
        self._store, self._now, self._two = store, now, two
        self.holder = f"{node}#{life}"
        self._settle = settle_seconds(window)
        self._before = before
        self._prune_at = 0.0
        self.voter: Voter | None = None
        self._highest = 0
        self._pending: list[_Asked] = []
        self._receivers: list[Callable[[str, str], None]] = []
        self._deaf: set[str] = set()
        self._running = False
        self._changing = False
        peers.answer(WORD, self._asked)
        peers.answer(FOUND, self._asked_to_found)
        peers.answer(RECEIPTS, self._asked_for_receipts)
        peers.on_link(self._link)

    async def startService(self) -> None:
        """Read what was voted, and vote."""
        memory = await self._store.load()
        self.voter = Voter(self._key, memory, self._clock.seconds(), self._settle)
        self._highest = self.voter.highest
        self._running = True

    async def stopService(self) -> None:
        """Vote for nothing more."""
        self._running = False
        self.voter = None
        await self._store.close()

    # -- ICourt

    async def ask(self, wish: Wish) -> Outcome:
        """One round, and another one where a dead holder has left a plan."""
        why = self.problem()
        if why:
            return Refused(why)
        term = self._next_term()
        sent = self._clock.seconds()
        question = self._question(WANT, wish, term)
        got = await self._poll(question)
        self._highest = max(self._highest, got.highest)
        if got.is_granted:
            planned, is_doubtful = got.planned
            if planned is None or planned.plan is None or planned.plan == wish.plan:
                return Granted(term=term, until=last_moment(sent))
            sent = self._clock.seconds()
            plan = planned.plan
            again = await self._poll(self._question(WANT, wish, term, plan=plan))
            if again.is_granted:
                return Granted(
                    term=term,
                    until=last_moment(sent),
                    planned=plan,
                    age=max(r.age for r in (*got.replies.values(), planned)),
                    is_doubtful=is_doubtful,
                )
            return Refused(again.why())
        if got.said(GRANTED):
            await self.drop(wish.key, term)
        taken = got.taken
        if taken is not None:
            if taken.said == DONE and self.voter is not None:
                now = self._clock.seconds()
                await self._write(self.voter.heard_of_end(wish.key, taken, now))
            return Gone(
                holder=node_of(taken.holder),
                age=taken.age,
                ended=taken.said == DONE,
                result=taken.result,
                recent=taken.recent,
            )
        at_once = bool(got.said(LOW)) and not got.said(NO) and got.can_be_asked
        return Refused(got.why(), at_once)

    async def renew(self, held: Mapping[str, int]) -> Mapping[str, float]:
        """In one message."""
        sent = self._clock.seconds()
        asked = {
            key: self._poll(Question(act=RENEW, key=key, term=term, holder=self.holder))
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
        await self._poll(Question(act=DROP, key=key, term=term, holder=self.holder))

    async def end(self, wish: Wish, term: int, result: str) -> bool:
        """Whether a majority has it on disk."""
        question = self._question(END, wish, term, result=result)
        got = await self._poll(question)
        return got.is_granted or (got.can_be_asked and not got.said(GRANTED))

    def unfinished(self) -> Sequence[str]:
        """As far as this member has voted."""
        if self.voter is None:
            return ()
        found = self.voter.unfinished(self._clock.seconds())
        return [vote.key for vote in found if not vote.key.startswith(f"{ELECTORATE}/")]

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
        self._receivers.append(receiver)

    def problem(self) -> str:
        """Whether a majority can be asked."""
        voter = self.voter
        if voter is None or not self._running:
            return "this node is starting or stopping"
        if self._key in self._gone():
            return "this node was declared dead, or removed"
        if voter.electorate is None:
            return self._why_nobody_votes()
        linked = self._linked()
        have = {key for key in (*linked, self._key) if key not in self._deaf}
        if voter.electorate.is_majority(have, self._gone(), self._two):
            return ""
        seats = voter.electorate.seats()
        missing = [s.node for s in seats if s.key not in have and s.key not in self._gone()]
        arbiter = voter.electorate.arbiter()
        if arbiter is not None and len(seats) == 2:
            return (
                f"no majority: of two members {arbiter.node} decides, and it cannot be asked; if it"
                f" is dead: saltwisted members --declare-dead {arbiter.node}"
            )
        return f"no majority: {', '.join(missing)} of {len(seats)} members cannot be asked"

    def _why_nobody_votes(self) -> str:
        others = ", ".join(seat.node for seat in self._members() if seat.key != self._key)
        return f"no majority: it is not known who votes before {others or 'all members'} answer"

    # -- the members' votes

    def _question(
        self, act: str, wish: Wish, term: int, plan: bytes | None = None, result: str = ""
    ) -> Question:
        return Question(
            act=act,
            key=wish.key,
            term=term,
            holder=self.holder,
            is_duty=wish.is_duty,
            plan=plan if plan is not None or act == END else wish.plan,
            what=wish.what,
            event=wish.event,
            at=self._now(),
            result=result,
        )

    def _next_term(self) -> int:
        voter = self.voter
        self._highest = max(self._highest, voter.highest if voter is not None else 0) + 1
        return self._highest

    def _poll(self, question: Question) -> Deferred[Round]:
        """What comes of asking all voters; never fails."""
        asked = _Asked(question)
        self._pending.append(asked)
        if len(self._pending) == 1:
            self._clock.callLater(0, self._send)
        return asked.done

    def _send(self) -> None:
        pending, self._pending = self._pending, []
        voter = self.voter
        electorate = voter.electorate if voter is not None else None
        if voter is None or electorate is None:
            nobody = Round(Electorate(0, ((),)))
            for asked in pending:
                asked.done.callback(nobody)
            return
        for asked in pending:
            asked.round = Round(electorate, self._gone(), self._two)
        questions = [asked.question for asked in pending]
        linked = self._linked()
        body = encode_questions(electorate, self.holder, questions)
        for seat in electorate.seats():
            link = linked.get(seat.key)
            if seat.key == self._key:
                d = Deferred.fromCoroutine(self._vote(electorate, questions))
            elif link is not None:
                d = Deferred.fromCoroutine(self._ask_one(link, seat.key, body))
            else:
                self._answered(None, seat.key, pending)
                continue
            d.addErrback(self._failed, seat)  # type: ignore[unused-awaitable]
            d.addCallback(self._answered, seat.key, pending)  # type: ignore[unused-awaitable]
        # Where all that had a vote are gone there is nobody to be asked
        self._answered(None, "", pending)

    async def _ask_one(self, link: Any, key: str, body: bytes) -> list[Reply]:
        answer = await as_deferred(link.ask(WORD, body, PATIENCE))
        electorate, replies = decode_replies(answer)
        self._deaf.discard(key)
        await self._learn(electorate)
        return replies

    def _failed(self, failure: Any, seat: Seat) -> None:
        failure.trap(SaltwistedError, WireError)
        is_deaf = failure.check(RemoteError) is not None and "no handler" in str(failure.value)
        if is_deaf and seat.key not in self._deaf:
            self._deaf.add(seat.key)
            self.log.warn(
                "{node} has an older release that knows no claims: it votes for nothing",
                node=seat.node,
            )

    def _answered(self, replies: list[Reply] | None, key: str, pending: list[_Asked]) -> None:
        for number, asked in enumerate(pending):
            assert asked.round is not None
            asked.round.add(key, replies[number] if replies and len(replies) > number else None)
            if asked.round.is_over and not asked.done.called:
                asked.done.callback(asked.round)

    # -- this member's vote

    async def _vote(self, electorate: Electorate | None, asked: Sequence[Question]) -> list[Reply]:
        """
        @raises StoreError: it is not on disk.
        """
        voter = self.voter
        if voter is None:
            return [Reply(said=NO, why="it is starting or stopping") for _ in asked]
        replies, writes = voter.ask(electorate, asked, self._clock.seconds())
        await self._write(writes)
        return replies

    async def _write(self, writes: list[Write]) -> None:
        if writes:
            await self._store.write(writes)

    async def _asked(self, node: str, body: bytes) -> bytes:
        """
        Another member asks for our vote.

        @raises WireError: it makes no sense, or asks for somebody else.
        """
        electorate, questions = decode_questions(body)
        if any(node_of(question.holder) != node for question in questions):
            raise WireError("claims for another node")
        replies = await self._vote(electorate, questions)
        for question, reply in zip(questions, replies, strict=True):
            if question.act == WANT and reply.said == GRANTED and not question.is_duty:
                for receiver in self._receivers:
                    receiver(question.key, node)
        own = self.voter.electorate if self.voter is not None else None
        return encode_replies(own, self._key, replies)

    # -- who votes

    def _linked(self) -> dict[str, Any]:
        return {self._key_of(link): link for link in self._peers.links()}

    async def _learn(self, electorate: Electorate | None) -> None:
        voter = self.voter
        if voter is not None:
            await self._write(voter.learn(electorate, self._clock.seconds()))

    def _link(self, link: Any, up: bool) -> None:
        self._deaf.discard(self._key_of(link))
        if up and self._running:
            let_go(Deferred.fromCoroutine(self._greet(link)), self.log, "no greeting for a member")

    async def _greet(self, link: Any) -> None:
        """Say who votes, and hear it."""
        own = self.voter.electorate if self.voter is not None else None
        key = self._key_of(link)
        seat = Seat(link.node, key)
        d = Deferred.fromCoroutine(self._ask_one(link, key, encode_questions(own, self.holder, ())))
        await d.addErrback(self._failed, seat)

    def care(self) -> Awaitable[Any] | None:
        """See that the members vote, and nobody else."""
        voter = self.voter
        if voter is None or self._changing:
            return None
        self._prune(voter)
        wanted = tuple(sorted(self._members()))
        if Seat(self._node, self._key) not in wanted:
            return None
        self._changing = True
        if voter.electorate is None:
            work = self._found(wanted)
        else:
            work = self._change(voter, voter.electorate, wanted)

        def done(result: Any) -> Any:
            self._changing = False
            return result

        return Deferred.fromCoroutine(work).addBoth(done)

    def _prune(self, voter: Voter) -> None:
        """Forget what is too old, in memory and on disk."""
        now = self._clock.seconds()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_EVERY
            voter.expire(now)
            before = self._before()
            if before is not None:
                pruned = self._store.prune(before)
                let_go(pruned, self.log, "old receipts were not deleted")

    async def _found(self, wanted: Sequence[Seat]) -> None:
        """Nobody votes yet: the first by name begins, when all others agree on who they are."""
        linked = self._linked()
        others = [seat for seat in wanted if seat.key != self._key]
        if wanted[0].key != self._key or any(seat.key not in linked for seat in others):
            return
        view = pack_bin([[seat.node, seat.key] for seat in wanted])
        asked = [as_deferred(linked[seat.key].ask(FOUND, view, PATIENCE)) for seat in others]
        try:
            answers = await gatherResults(asked, consumeErrors=True)
        except Exception as failure:
            reason: Any = getattr(failure, "subFailure", None)
            for seat in others:
                if reason is not None and reason.check(RemoteError) is not None:
                    self._failed(reason, seat)
            return
        for answer in answers:
            agreed, electorate = unpack_bin(answer)
            await self._learn(decode_electorate(electorate))
            if not agreed:
                return
        voter = self.voter
        if voter is not None and tuple(sorted(self._members())) == tuple(wanted):
            await self._write(voter.found(found(wanted)))
            await self._tell_all()

    def _asked_to_found(self, node: str, body: bytes) -> bytes:
        """Whether nobody votes here either, and the members are the same."""
        voter = self.voter
        own = voter.electorate if voter is not None else None
        view = pack_bin([[seat.node, seat.key] for seat in sorted(self._members())])
        return pack_bin(
            [voter is not None and own is None and view == body, encode_electorate(own)]
        )

    async def _change(self, voter: Voter, present: Electorate, wanted: Sequence[Seat]) -> None:
        """A step towards the present members, if there is one, and if it is ours to take."""
        step = present.next(wanted)
        linked = self._linked()
        gone = self._gone()
        left = [seat for seat in present.seats() if seat.key not in gone] or wanted
        near = [seat for seat in left if seat.key in linked or seat.key == self._key]
        if step is None or not near or near[0].key != self._key or self.problem():
            return
        if present.changes and self._clock.seconds() < voter.settled_at:
            return
        wish = Wish(key=f"{ELECTORATE}/{step.epoch}")
        # In two rounds, whatever happens: there is no doubt about who votes
        outcome = await self.ask(wish)
        if not isinstance(outcome, Granted):
            return
        if outcome.planned is None:
            plan = pack_bin(encode_electorate(step))
            got = await self._poll(self._question(WANT, wish, outcome.term, plan=plan))
            if not got.is_granted:
                return
        else:
            plan = outcome.planned
        decided = decode_electorate(unpack_bin(plan))
        await self._learn(decided)
        await self._tell_all()
        names = ", ".join(seat.node for seat in step.sets[-1])
        self.log.info("who votes for claims: {names}", names=names)
        await self.end(wish, outcome.term, "done")

    async def _tell_all(self) -> None:
        for link in self._peers.links():
            await self._greet(link)

    # -- receipts

    async def receipts(self, event: str, limit: int) -> Sequence[Receipt]:
        """Of all members that can be asked: each has those that it voted for."""
        found: dict[tuple[str, int], Receipt] = {}
        body = pack_bin([event, limit])
        asked = [as_deferred(link.ask(RECEIPTS, body, PATIENCE)) for link in self._peers.links()]
        rows = list(await self._store.receipts(event, limit))
        for each in asked:
            try:
                rows += [Receipt(**_fields(row)) for row in unpack_bin(await each)]
            except (SaltwistedError, WireError, TypeError, ValueError):
                # It is away, or of another release
                continue
        for receipt in rows:
            known = found.get((receipt.key, receipt.term))
            if known is None or (known.ended is None and receipt.ended is not None):
                found[receipt.key, receipt.term] = receipt
        return sorted(found.values(), key=lambda receipt: (receipt.begun, receipt.term))[-limit:]

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
