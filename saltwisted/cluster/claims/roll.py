"""
Who votes: the electorate is founded, follows the members, and explains why it cannot decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.claims.ballots import PATIENCE, Ballots
from saltwisted.cluster.claims.court import Granted, ICourt, Wish
from saltwisted.domain.claims.electorate import (
    Electorate,
    Seat,
    decode_electorate,
    encode_electorate,
    found,
)
from saltwisted.domain.claims.messages import WANT, Question
from saltwisted.domain.claims.voter import ELECTORATE, Voter
from saltwisted.errors import RemoteError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

FOUND = "claims.found"


class Roll:
    """The roll of one member. Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        ballots: Ballots,
        peers: IPeers,
        members: Callable[[], Sequence[Seat]],
        court: ICourt,
    ) -> None:
        """
        @param members: who is a member now, linked or not, without those that are gone.
        @param court: grants a change.
        """
        self._clock, self._node, self._ballots = clock, node, ballots
        self._members, self._court = members, court
        self._key = ballots.key
        self._changing = False
        peers.answer(FOUND, self._asked_to_found)

    def problem(self) -> str:
        """Whether a majority can be asked."""
        voter = self._ballots.voter
        if voter is None:
            return "this node is starting or stopping"
        if self._key in self._ballots.gone():
            return "this node was declared dead, or removed"
        if voter.electorate is None:
            return self._why_nobody_votes()
        linked = self._ballots.linked()
        have = {key for key in (*linked, self._key) if key not in self._ballots.deaf}
        if voter.electorate.is_majority(have, self._ballots.gone(), self._ballots.two):
            return self._why_they_abstain(voter, voter.electorate, have)
        seats = voter.electorate.seats()
        missing = [s.node for s in seats if s.key not in have and s.key not in self._ballots.gone()]
        arbiter = voter.electorate.arbiter()
        if arbiter is not None and len(seats) == 2:
            return (
                f"no majority: of two members {arbiter.node} decides, and it cannot be asked; "
                f"{advice.of('member.dead', node=arbiter.node)}"
            )
        if len(seats) == 1:
            (only,) = seats
            return (
                f"no majority: {only.node} decides alone, as nobody else has a vote yet, and it"
                f" cannot be asked; {advice.of('member.dead', node=only.node)}"
            )
        return f"no majority: {', '.join(missing)} of {len(seats)} members cannot be asked"

    def _why_they_abstain(self, voter: Voter, present: Electorate, have: set[str]) -> str:
        """Why those that can be asked grant nothing, if too few of them vote; for a while."""
        abstaining = set(self._ballots.abstaining)
        if self._clock.seconds() < voter.abstains:
            abstaining.add(self._key)
        if present.is_majority(have - abstaining, self._ballots.gone(), self._ballots.two):
            return ""
        names = ", ".join(seat.node for seat in present.seats() if seat.key in have & abstaining)
        # Without the seconds that are left: whoever hears of problems would hear of each second
        return (
            f"no majority: what {names} voted may be lost; they vote again when that has run out, "
            f"after {voter.settle:.0f} s at most"
        )

    def _why_nobody_votes(self) -> str:
        others = ", ".join(seat.node for seat in self._members() if seat.key != self._key)
        return f"no majority: it is not known who votes before {others or 'all members'} answer"

    def care(self) -> Awaitable[Any] | None:
        """See that the members vote, and nobody else."""
        voter = self._ballots.voter
        if voter is None or self._changing:
            return None
        wanted = tuple(sorted(self._members()))
        if Seat(self._node, self._key) not in wanted:
            return None
        self._changing = True
        if voter.electorate is None or voter.electorate.is_gone(self._ballots.gone()):
            work = self._found(wanted)
        else:
            work = self._change(voter, voter.electorate, wanted)

        def done(result: Any) -> Any:
            self._changing = False
            return result

        return Deferred.fromCoroutine(work).addBoth(done)

    async def _found(self, wanted: Sequence[Seat]) -> None:
        """Nobody votes yet: the first by name begins, when all others agree on who they are."""
        linked = self._ballots.linked()
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
                    self._ballots.failed(reason, seat)
            return
        for answer in answers:
            agreed, electorate = unpack_bin(answer)
            await self._ballots.learn(decode_electorate(electorate))
            if not agreed:
                return
        voter = self._ballots.voter
        if voter is not None and tuple(sorted(self._members())) == tuple(wanted):
            first = found(wanted, voter.electorate)
            had_others = bool(self._ballots.gone())
            await self._ballots.write(voter.found(first, self._clock.seconds(), had_others))
            await self._ballots.tell_all()
            self._tell_who(first)

    def _tell_who(self, electorate: Electorate) -> None:
        names = ", ".join(seat.node for seat in electorate.sets[-1])
        self.log.info("members that vote on claims: {names}", names=names)

    def _asked_to_found(self, node: str, body: bytes) -> bytes:
        """Whether nobody votes here either, and the members are the same."""
        voter = self._ballots.voter
        own = voter.electorate if voter is not None else None
        nobody = own is None or own.is_gone(self._ballots.gone())
        view = pack_bin([[seat.node, seat.key] for seat in sorted(self._members())])
        return pack_bin([voter is not None and nobody and view == body, encode_electorate(own)])

    async def _change(self, voter: Voter, present: Electorate, wanted: Sequence[Seat]) -> None:
        """A step towards the present members, if there is one, and if it is ours to take."""
        linked = self._ballots.linked()
        gone = self._ballots.gone()
        left = [seat for seat in present.seats() if seat.key not in gone]
        near = [seat for seat in left if seat.key in linked or seat.key == self._key]
        if not near or near[0].key != self._key or self.problem():
            return
        step = present.next(await self._with_votes(present, wanted))
        if step is None:
            return
        if present.changes and self._clock.seconds() < voter.settled_at:
            return
        wish = Wish(key=f"{ELECTORATE}/{step.epoch}")
        # In two rounds, whatever happens: there is no doubt about who votes
        outcome = await self._court.ask(wish)
        if not isinstance(outcome, Granted):
            return
        if outcome.planned is None:
            plan = pack_bin(encode_electorate(step))
            got = await self._ballots.poll(self._planned(wish, outcome.term, plan))
            if not got.is_granted:
                return
        else:
            plan = outcome.planned
        decided = decode_electorate(unpack_bin(plan))
        await self._ballots.learn(decided)
        await self._ballots.tell_all()
        self._tell_who(step)
        await self._court.end(wish, outcome.term, "done")

    async def _with_votes(self, present: Electorate, wanted: Sequence[Seat]) -> list[Seat]:
        """
        Those that have a vote, and newcomers whose votes would count.

        A newcomer abstains at first. Were it given a vote at once, its silence could be what keeps
        the others from a majority.
        """
        linked = self._ballots.linked()
        found = []
        for seat in wanted:
            has = present.has(seat.key)
            if not has and seat.key in linked:
                await self._ballots.greet(linked[seat.key])
            if has or seat.key in self._ballots.ready:
                found.append(seat)
        return found

    def _planned(self, wish: Wish, term: int, plan: bytes) -> Question:
        return Question(act=WANT, key=wish.key, term=term, holder=self._ballots.holder, plan=plan)
