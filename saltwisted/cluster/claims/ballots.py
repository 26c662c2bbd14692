"""
The exchange of votes: this member asks all that have a vote, and answers with its own.

The requests of one turn of the reactor go to each member in one message (word C{claims}). A member
that cannot be reached does not count for anything. Neither does a member with an older release,
which does not know the word. L{saltwisted.domain.claims.voter} says what a vote means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.claims.claimant import Round
from saltwisted.domain.claims.electorate import PAIR, Electorate, Seat
from saltwisted.domain.claims.messages import (
    GRANTED,
    NO,
    WANT,
    Question,
    Reply,
    decode_questions,
    decode_replies,
    encode_questions,
    encode_replies,
)
from saltwisted.domain.claims.voter import Voter, Write, node_of
from saltwisted.errors import RemoteError, RequestTimeout, SaltwistedError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred, let_go

WORD = "claims"
PATIENCE = 2.0
"""
Seconds that a member may take to answer: on a machine that has much to do its disk may need one.
Less than what is left of a term then, and what is left of ten seconds after one has run out.
"""
HURRY = 0.2
"""The same for one that was silent the last time: two that want the same would both wait for it."""


@define
class _Asked:
    """A question on its way, and what is waited for."""

    question: Question
    done: Deferred[Round] = field(factory=Deferred)
    round: Round | None = None


class Ballots:
    """
    Both sides of the votes of one member. Reactor thread only.

    @ivar voter: this member's voter, while it votes.
    @ivar holder: this node and its present life.
    @ivar deaf: keys of members that do not know the word.
    @ivar ready: keys of linked members whose votes would count, as they have said.
    @ivar abstaining: keys of linked members whose votes do not count yet, as they have said.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        holder: str,
        key: str,
        peers: IPeers,
        gone: Callable[[], Collection[str]],
        key_of: Callable[[Any], str],
        store: Any,
        two: str = PAIR,
    ) -> None:
        """See L{saltwisted.cluster.claims.votes.Votes}."""
        self.holder, self.key, self.gone, self.two = holder, key, gone, two
        self._clock, self._peers, self._key_of, self._store = clock, peers, key_of, store
        self.voter: Voter | None = None
        self.deaf: set[str] = set()
        self.ready: set[str] = set()
        self.abstaining: set[str] = set()
        self._silent: set[str] = set()
        self._pending: list[_Asked] = []
        self._receivers: list[Callable[[str, str], None]] = []
        peers.answer(WORD, self._asked)
        peers.on_link(self._link)

    def on_claimed(self, receiver: Callable[[str, str], None]) -> None:
        """
        Called when this member has granted a short act to another; C{receiver} gets the node that
        received the event.
        """
        self._receivers.append(receiver)

    def poll(self, question: Question) -> Deferred[Round]:
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
            asked.round = Round(electorate, self.gone(), self.two)
        questions = [asked.question for asked in pending]
        linked = self.linked()
        body = encode_questions(electorate, self.holder, questions, voter.highest)
        for seat in electorate.seats():
            link = linked.get(seat.key)
            if seat.key == self.key:
                d = Deferred.fromCoroutine(self._vote(electorate, questions))
            elif link is not None:
                patience = HURRY if seat.key in self._silent else PATIENCE
                d = Deferred.fromCoroutine(self._ask_one(link, seat.key, body, patience))
            else:
                self._answered(None, seat.key, pending)
                continue
            d.addErrback(self.failed, seat)  # type: ignore[unused-awaitable]
            d.addCallback(self._answered, seat.key, pending)  # type: ignore[unused-awaitable]
        # Where all that had a vote are gone there is nobody to be asked
        self._answered(None, "", pending)

    async def _ask_one(
        self, link: Any, key: str, body: bytes, patience: float = PATIENCE
    ) -> list[Reply]:
        try:
            answer = await as_deferred(link.ask(WORD, body, patience))
        except RequestTimeout:
            self._silent.add(key)
            raise
        self._silent.discard(key)
        electorate, replies, abstains, highest = decode_replies(answer)
        self.deaf.discard(key)
        said, unsaid = (self.abstaining, self.ready) if abstains else (self.ready, self.abstaining)
        said.add(key)
        unsaid.discard(key)
        await self.learn(electorate, highest)
        return replies

    def failed(self, failure: Any, seat: Seat) -> None:
        failure.trap(SaltwistedError, WireError)
        is_deaf = failure.check(RemoteError) is not None and "no handler" in str(failure.value)
        if is_deaf and seat.key not in self.deaf:
            self.deaf.add(seat.key)
            self.log.warn(
                "{node} runs an older release without claims: it has no vote",
                node=seat.node,
            )

    def _answered(self, replies: list[Reply] | None, key: str, pending: list[_Asked]) -> None:
        for number, asked in enumerate(pending):
            assert asked.round is not None
            asked.round.add(key, replies[number] if replies and len(replies) > number else None)
            if asked.round.is_over and not asked.done.called:
                asked.done.callback(asked.round)

    # -- this member's vote

    async def _vote(
        self,
        electorate: Electorate | None,
        asked: Sequence[Question],
        highest: int | None = None,
    ) -> list[Reply]:
        """
        @raises StoreError: it is not on disk.
        """
        voter = self.voter
        if voter is None:
            return [Reply(said=NO, why="it is starting or stopping") for _ in asked]
        replies, writes = voter.ask(electorate, asked, self._clock.seconds(), highest)
        await self.write(writes)
        return replies

    async def write(self, writes: list[Write]) -> None:
        if writes:
            await self._store.write(writes)

    async def _asked(self, node: str, body: bytes) -> bytes:
        """
        Another member asks for our vote.

        @raises WireError: it makes no sense, or asks for somebody else.
        """
        electorate, questions, highest = decode_questions(body)
        if any(node_of(question.holder) != node for question in questions):
            raise WireError("claims for another node")
        replies = await self._vote(electorate, questions, highest)
        for question, reply in zip(questions, replies, strict=True):
            if question.act == WANT and reply.said == GRANTED and not question.is_duty:
                for receiver in self._receivers:
                    receiver(question.key, node_of(question.came) or node)
        voter = self.voter
        own = voter.electorate if voter is not None else None
        abstains = voter is None or self._clock.seconds() < voter.abstains
        return encode_replies(own, self.key, replies, abstains, voter.highest if voter else None)

    # -- who votes

    def care(self) -> None:
        """See whether those that were silent answer again, and those that abstain vote."""
        linked = self.linked()
        self._silent &= set(linked)
        for key in sorted(self._silent | (self.abstaining & set(linked))):
            let_go(
                Deferred.fromCoroutine(self.greet(linked[key])),
                self.log,
                "the members were not greeted",
            )

    def linked(self) -> dict[str, Any]:
        return {self._key_of(link): link for link in self._peers.links()}

    async def learn(self, electorate: Electorate | None, highest: int | None = None) -> None:
        voter = self.voter
        if voter is not None:
            learned = voter.learn(electorate, self._clock.seconds())
            await self.write([*learned, *voter.heard(highest)])

    def _link(self, link: Any, up: bool) -> None:
        self.deaf.discard(self._key_of(link))
        self.ready.discard(self._key_of(link))
        self.abstaining.discard(self._key_of(link))
        if up and self.voter is not None:
            let_go(Deferred.fromCoroutine(self.greet(link)), self.log, "a member was not greeted")

    async def greet(self, link: Any) -> None:
        """Say who votes, and hear it."""
        voter = self.voter
        own, highest = (voter.electorate, voter.highest) if voter is not None else (None, None)
        key = self._key_of(link)
        seat = Seat(link.node, key)
        body = encode_questions(own, self.holder, (), highest)
        d = Deferred.fromCoroutine(self._ask_one(link, key, body))
        await d.addErrback(self.failed, seat)

    async def tell_all(self) -> None:
        for link in self._peers.links():
            await self.greet(link)
