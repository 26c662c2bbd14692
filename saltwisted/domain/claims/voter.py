"""
A voter: what a member has granted, to whom, and for how long.

A key is granted to one holder per term. The next holder gets it only when the term has expired by
this member's own clock, plus a margin for clocks that drift. Two majorities have a member in
common, so two holders never have a term at the same time. What is granted is on disk before it is
answered. After a restart, all terms on disk count from that moment.

A short act that was begun and not ended keeps its plan: the next holder of the key gets it, and
records it again as its own before it acts. That is Paxos for each key, except that the first holder
plans in the same round in which it asks. If two have done so and both have died, the third may be
unable to tell which of them began: then it is I{doubtful}, and nothing is repeated.

Times are seconds of a clock that nobody sets and that also counts sleep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, evolve, frozen

from saltwisted.domain.claims.copies import LATE, WINDOW, Instance, number_of
from saltwisted.domain.claims.electorate import Electorate
from saltwisted.domain.claims.messages import (
    DONE,
    DROP,
    END,
    GRANTED,
    HELD,
    LOW,
    NO,
    RENEW,
    WANT,
    Question,
    Reply,
)

TERM = 6.0
"""Seconds of a term."""
MARGIN = 0.1
"""By how much of it two clocks may differ over a term, and then some."""
LEAP = 2**32
"""
More terms than are ever given while a majority is cut from the others. So far above all that they
know the survivors go on when it is gone for good: numbers of terms that they never saw are lower.
"""
MOST_ALIKE = 256
"""Events that are alike, of which somebody is told who may have copies that were kept back."""
MOST = 200_000
"""Keys that are remembered; beyond it nothing new is granted."""
ELECTORATE = "electorate"
DUTY = "duty/"
"""How keys of duties begin."""


def settle_seconds(window: float) -> float:
    """
    How long anything that was granted under an electorate may count: a copy of an event comes a
    while later, is claimed within the window after that, and what it began is finished by another
    member within the window again; then the term of that claim expires.
    """
    return 2 * window + WINDOW + TERM * (1 + 2 * MARGIN)


def node_of(holder: str) -> str:
    """The node of a holder, which is C{node#life}."""
    return holder.rpartition("#")[0] or holder


@frozen(kw_only=True)
class Vote:
    """
    What is known of one key here; a row on disk, except C{until}, C{since} and C{came_at}.

    @ivar number: the number of the row.
    @ivar accepted: the term in which C{plan} was recorded.
    @ivar is_first: whether it came with the first question, whose asker did not know yet whether
        somebody else had a plan.
    @ivar begun: time of day, by its holder.
    @ivar until: when the term expires here.
    @ivar since: when it was granted for the first time.
    @ivar is_old: whether that was in an earlier life: before C{since}, nobody knows how long.
    @ivar before: how long, by the time of day.
    @ivar came: the event for which it was begun, and so the node that received it:
        C{node#life/number}.
    @ivar came_at: when the event arrived, by this member's clock, or later.
    """

    number: int
    key: str
    term: int
    holder: str
    is_duty: bool = False
    plan: bytes | None = None
    accepted: int = 0
    is_first: bool = True
    what: str = ""
    event: str = ""
    begun: float = 0.0
    ended: float | None = None
    result: str = ""
    until: float = 0.0
    since: float = 0.0
    is_old: bool = False
    before: float = 0.0
    came: str = ""
    came_at: float = 0.0

    @property
    def at_node(self) -> str:
        """The node that the event came to, which need not be the one that does it."""
        return node_of(self.came or self.holder)

    def age(self, now: float) -> float:
        """
        For how many seconds it has been granted, at least. The time of day only decides whether
        something from longer ago is old: somebody may have set it.
        """
        age = max(0.0, now - self.since)
        return age + self.before if age > WINDOW else age


@frozen
class Put:
    """Write a row."""

    vote: Vote


@frozen
class Delete:
    """Delete a row."""

    number: int


@frozen
class Adopt:
    """Record who votes."""

    electorate: Electorate


@frozen
class Whole:
    """
    Record that no vote is lost: it abstained until everything that it may have voted before had
    expired.
    """


@frozen
class Floor:
    """Record that nothing is granted for this term or a lower one any more."""

    term: int


Write = Put | Delete | Adopt | Whole | Floor


@define
class Memory:
    """
    What was on disk when a voter was started.

    @ivar floor: the highest term of votes that are no longer in C{votes}.
    @ivar number: the highest number of rows that are not in C{votes} and must stay.
    """

    votes: Sequence[Vote] = ()
    electorate: Electorate | None = None
    floor: int = 0
    is_new: bool = True
    number: int = 0


class Voter:
    """
    @param key: this member's key.
    @param now: when it was started.
    @param settle: see L{settle_seconds}.
    @param at: when it was started, by the time of day.
    @ivar electorate: who votes, as far as is known here; C{None} while that is unknown.
    @ivar abstains: until when it votes for nothing, because it may have lost its votes.
    @ivar highest: the highest term that was ever granted here, or above which it continues.
    """

    def __init__(
        self, key: str, memory: Memory, now: float, settle: float, at: float = 0.0
    ) -> None:
        self.key = key
        self.electorate = memory.electorate
        self.settle = settle
        self.abstains = now + settle if memory.is_new else now
        self._is_whole = not memory.is_new
        self._has_leapt = False
        self._adopted = now
        self._floor = self.highest = memory.floor
        self._number = memory.number
        self._votes: dict[str, Vote] = {}
        self._alike: dict[str, dict[int, str]] = {}
        for vote in memory.votes:
            self.remember(vote, now, at)

    def remember(self, vote: Vote, now: float, at: float = 0.0) -> None:
        """
        One of C{memory}: a caller that has many can give them one by one, before this votes.

        @param now: when it was started.
        @param at: the same by the time of day.
        """
        self._number = max(self._number, vote.number)
        old = self._votes.get(vote.key)
        if old is None or old.term < vote.term:
            # It may have been renewed a moment ago
            until = now + TERM * (1 + MARGIN)
            before = max(0.0, at - vote.begun)
            self._keep(
                evolve(vote, until=until, since=now, came_at=now, is_old=True, before=before)
            )

    # -- what is known

    def vote(self, key: str) -> Vote | None:
        """What is known of a key."""
        return self._votes.get(key)

    def votes(self) -> Iterable[Vote]:
        """All of them."""
        return self._votes.values()

    def is_free(self, key: str, now: float) -> bool:
        """Whether asking for a key may have a point."""
        vote = self._votes.get(key)
        return vote is None or (vote.until <= now and vote.ended is None)

    def leap(self) -> list[Write]:
        """
        Members that had a majority without this one are gone for good: from now on, granted terms
        have numbers far above those that they may have assigned.
        """
        # If this one does not know yet what it may have lost, it is far above that as well
        self._has_leapt = True
        self._floor = self.highest = self.highest + LEAP
        return [Floor(self._floor)]

    # -- who votes

    def whole(self, now: float) -> list[Write]:
        """To be called again and again: it votes from now on, also when it is started again."""
        if self._is_whole or now < self.abstains:
            return []
        self._is_whole = True
        return [Floor(self._floor), Whole()] if self._floor else [Whole()]

    @property
    def settled_at(self) -> float:
        """When all that was granted before the last change of who votes has run out."""
        return self._adopted + self.settle

    def found(self, electorate: Electorate, now: float, had_others: bool = False) -> list[Write]:
        """
        There was none, or nobody is left of it, and all agree on this.

        @param had_others: whether there were other members, which are gone.
        """
        if self.electorate is not None:
            return self.learn(electorate, now)
        self._has_leapt = True
        alone = all(seat.key == self.key for seat in electorate.seats())
        if alone and not had_others:
            # Nobody else can have been granted anything
            self.abstains = self._adopted
        return [*self._adopt(electorate, now), *self.whole(now)]

    def _adopt(self, electorate: Electorate, now: float) -> list[Write]:
        self.electorate, self._adopted = electorate, now
        return [Adopt(electorate)]

    def learn(self, electorate: Electorate | None, now: float) -> list[Write]:
        """Somebody goes by this electorate: it was decided."""
        if electorate is None:
            return []
        if self.electorate is not None and electorate.epoch <= self.electorate.epoch:
            return []
        return self._adopt(electorate, now)

    def heard(self, highest: int | None) -> list[Write]:
        """
        Another member reports the highest term that it has ever granted, if any.

        As long as this one does not vote yet, it learns from the others how high terms are. If it
        has a vote by their knowledge, it has lost its votes: it may have granted alone (of two the
        first by name), or with members that are away now, terms of which none of these has heard.
        So it continues far above them.
        """
        if highest is None:
            return []
        is_lost = self.electorate is not None and self.electorate.has(self.key)
        is_leap = not self._is_whole and is_lost and not self._has_leapt
        if is_leap:
            self._has_leapt = True
            highest += LEAP
        elif self._is_whole and highest < self.highest + LEAP // 2:
            # By no leap of another one, which has to be known if that one loses its disk again
            return []
        if highest <= self.highest:
            return []
        self._floor = self.highest = highest
        # What else it learns before it votes is written down when it does
        return [Floor(highest)] if is_leap or self._is_whole else []

    def why_not(self, electorate: Electorate | None, now: float) -> str:
        """Why this member's vote does not count now, or C{""}."""
        if now < self.abstains:
            return f"it votes again in {self.abstains - now:.0f} s: it may have lost its votes"
        if self.electorate is None or electorate is None:
            return "it is not known yet who votes"
        if electorate != self.electorate:
            return "it knows of a later change of who votes"
        if not self.electorate.has(self.key):
            return "it has no vote yet"
        return ""

    # -- questions

    def heard_of_end(self, key: str, reply: Reply, now: float) -> list[Write]:
        """Another voter says that an act is done, which seems to be unfinished here."""
        vote = self._votes.get(key)
        if vote is None or vote.is_duty or vote.ended is not None:
            return []
        ended = max(vote.begun, 0.0)
        new = evolve(
            vote,
            holder=reply.holder,
            ended=ended,
            result=reply.result,
            plan=None,
            until=now,
            came=reply.came,
            came_at=min(vote.came_at, now - reply.came_ago),
        )
        self._keep(new)
        return [Put(new)]

    def ask(
        self,
        electorate: Electorate | None,
        asked: Iterable[Question],
        now: float,
        highest: int | None = None,
    ) -> tuple[list[Reply], list[Write]]:
        """
        Answer questions of one claimant; to be answered when the writes are on disk.

        @param highest: see L{heard}.
        """
        writes = [*self.learn(electorate, now), *self.heard(highest)]
        why = self.why_not(electorate, now)
        replies = []
        for question in asked:
            reply, more = self._answer(question, why, now)
            replies.append(reply)
            writes += more
        return replies, writes

    def _answer(self, q: Question, why: str, now: float) -> tuple[Reply, list[Write]]:
        vote = self._votes.get(q.key)
        if q.act == END:
            return self._end(q, vote, now)
        if q.act == DROP:
            return self._drop(q, vote, now)
        if q.act not in (WANT, RENEW):
            return Reply(said=NO, why=f"no such question: {q.act[:50]!r}"), []
        if vote is not None and vote.ended is not None:
            return self._known(DONE, vote, now), []
        if why:
            return Reply(said=NO, term=self.highest, why=why), []
        is_own = vote is not None and (vote.holder, vote.term) == (q.holder, q.term)
        if vote is not None and is_own:
            return self._again(q, vote, now)
        if vote is not None and vote.until > now and vote.holder != q.holder:
            return self._known(HELD, vote, now), []
        if q.act == RENEW and not q.is_duty:
            return Reply(said=NO, term=self.highest, why="it is not held"), []
        # A duty that others have granted is granted here too when it is renewed: else this member
        # would go on to take it for free
        if q.term <= (vote.term if vote is not None else self._floor):
            return Reply(said=LOW, term=self.highest), []
        refused = self._why_no_change(q, now)
        if refused:
            return Reply(said=NO, term=self.highest, why=refused), []
        return self._grant(q, vote, now)

    def _why_no_change(self, q: Question, now: float) -> str:
        """Why a change of who votes cannot be granted, if this is one."""
        kind, _, epoch = q.key.partition("/")
        if kind != ELECTORATE or self.electorate is None:
            return "" if len(self._votes) < MOST or q.key in self._votes else "it has no room"
        if epoch != str(self.electorate.epoch + 1):
            return "it knows of another change of who votes"
        if self.electorate.changes and now < self.settled_at:
            return "the last change of who votes is too young"
        return ""

    def _grant(self, q: Question, vote: Vote | None, now: float) -> tuple[Reply, list[Write]]:
        until = now + TERM * (1 + MARGIN)
        if vote is None:
            self._number += 1
            new = Vote(
                number=self._number,
                key=q.key,
                term=q.term,
                holder=q.holder,
                is_duty=q.is_duty,
                plan=q.plan,
                accepted=q.term if q.plan is not None else 0,
                what=q.what,
                event=q.event,
                begun=q.at,
                until=until,
                since=now,
                came=q.came,
                came_at=now - q.came_ago,
            )
            self._keep(new)
            return Reply(said=GRANTED, term=q.term), [Put(new)]
        new = evolve(vote, term=q.term, holder=q.holder, until=until)
        if vote.plan is None and q.plan is not None:
            new = _planned(new, q, now, is_first=True)
        self._keep(new)
        reply = self._known(GRANTED, vote, now)
        return evolve(reply, term=q.term), [Put(new)]

    def _again(self, q: Question, vote: Vote, now: float) -> tuple[Reply, list[Write]]:
        """The holder renews its term, or writes down what an earlier one had planned."""
        new = evolve(vote, until=now + TERM * (1 + MARGIN))
        writes: list[Write] = []
        if q.act == WANT and q.plan is not None:
            # It has heard of all plans that a majority knew of
            new = _planned(new, q, now, is_first=False)
            writes.append(Put(new))
        self._keep(new)
        return Reply(said=GRANTED, term=q.term), writes

    def _end(self, q: Question, vote: Vote | None, now: float) -> tuple[Reply, list[Write]]:
        if vote is None:
            # Its majority was without us; whoever comes late asks us too
            self._number += 1
            vote = Vote(
                number=self._number,
                key=q.key,
                term=q.term,
                holder=q.holder,
                since=now,
                until=now,
                came=q.came,
                came_at=now - q.came_ago,
            )
        if q.term < vote.term or vote.ended is not None:
            return Reply(said=NO, term=vote.term, why="a later holder has it"), []
        new = evolve(
            vote,
            term=q.term,
            holder=q.holder,
            ended=q.at,
            result=q.result,
            plan=None,
            what=q.what or vote.what,
            event=q.event or vote.event,
            until=now,
            # What was granted here may have been in vain, to somebody else
            came=q.came,
            came_at=now - q.came_ago,
        )
        self._keep(new)
        return Reply(said=GRANTED, term=q.term), [Put(new)]

    def _drop(self, q: Question, vote: Vote | None, now: float) -> tuple[Reply, list[Write]]:
        if vote is None or (vote.holder, vote.term) != (q.holder, q.term):
            return Reply(said=NO, why="it is not held"), []
        if vote.plan is not None and vote.accepted != q.term:
            # An earlier holder's act stays begun
            new = evolve(vote, until=now)
            self._keep(new)
            return Reply(said=GRANTED, term=q.term), []
        if vote.is_duty:
            # The row says how far terms were given
            self._keep(evolve(vote, until=now))
            return Reply(said=GRANTED, term=q.term), []
        self._forget(vote)
        return Reply(said=GRANTED, term=q.term), [Delete(vote.number)]

    def _known(self, said: str, vote: Vote, now: float) -> Reply:
        return Reply(
            said=said,
            term=vote.term,
            holder=vote.holder,
            age=vote.age(now),
            result=vote.result,
            plan=vote.plan if said == GRANTED else None,
            accepted=vote.accepted,
            is_first=vote.is_first,
            is_old=vote.is_old,
            came=vote.came,
            came_ago=max(0.0, now - vote.came_at),
            recent=tuple(_recent(self._votes, self._alike, vote.key, now)),
        )

    # -- memory

    def _keep(self, vote: Vote) -> None:
        self._votes[vote.key] = vote
        self.highest = max(self.highest, vote.term)
        alike, number = number_of(vote.key)
        if number is not None:
            self._alike.setdefault(alike, {})[number] = vote.key

    def _forget(self, vote: Vote) -> None:
        del self._votes[vote.key]
        alike, number = number_of(vote.key)
        if number is not None:
            numbers = self._alike.get(alike, {})
            numbers.pop(number, None)
            if not numbers:
                self._alike.pop(alike, None)

    def expire(self, now: float) -> None:
        """
        Forget acts that ended so long ago that nobody can ask for them: their events are too old.
        Their rows stay, as receipts.
        """
        old = [
            vote
            for vote in self._votes.values()
            if vote.ended is not None and vote.since + 2 * self.settle <= now
        ]
        for vote in old:
            self._forget(vote)
            # Should its key be given again, then for a higher term
            self._floor = max(self._floor, vote.term)


def unfinished(votes: Iterable[Vote], now: float) -> list[Vote]:
    """Short acts that were begun, not ended, and whose holder does not renew them."""
    return [
        vote for vote in votes if vote.plan is not None and vote.ended is None and vote.until <= now
    ]


def _planned(vote: Vote, q: Question, now: float, is_first: bool) -> Vote:
    """With what a holder has written down."""
    return evolve(
        vote,
        plan=q.plan,
        accepted=q.term,
        is_first=is_first,
        # Whoever goes on for a dead holder does not always know
        what=q.what or vote.what,
        event=q.event or vote.event,
        begun=q.at,
        # The plan may be for another event than the one that it was asked for first
        came=q.came,
        came_at=min(vote.came_at, now - q.came_ago) if vote.came == q.came else now - q.came_ago,
    )


def _recent(
    votes: Mapping[str, Vote], alikes: Mapping[str, Mapping[int, str]], key: str, now: float
) -> Iterable[Instance]:
    """Those that a copy may belong to, and the newest."""
    alike, number = number_of(key)
    if number is None:
        return
    numbers = sorted(alikes.get(alike, {}).items())
    for left, (each, name) in zip(range(len(numbers), 0, -1), numbers, strict=True):
        vote = votes[name]
        age = vote.age(now)
        if left == 1 or age <= WINDOW or (age <= LATE and left <= MOST_ALIKE):
            yield Instance(each, vote.at_node, age)
