"""
The claims of a lone master: it grants them to itself, at once and at no cost.

What was granted goes into a book (L{IReceiptBook}): on disk if the role provides one
(L{saltwisted.master.receipts.ReceiptBook}), written a moment later. So the receipts outlive the
process. Acts that had begun and not ended when it was killed are finished by the rules for an act
whose node died. Nothing waits for the disk, except a reaction to an event that is itself on disk
(C{IKeptEvents}): otherwise the next life would take that event over, and repeat what had begun.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.domain.claims.copies import EventKeys, LoneCopies, occasion_of
from saltwisted.domain.claims.messages import MAX_PLAN
from saltwisted.domain.claims.voter import Vote
from saltwisted.domain.claims.words import Answer, Came, Claim, NoMajority, Receipt, Taken
from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import WireError
from saltwisted.transports.deferreds import awaited, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

NOT_ALLOWED = "this node was told to claim nothing (reactor.set_leader)"
MAX_RECEIPTS = 100_000
"""Of a book in memory."""
REMEMBERED, MOST_REMEMBERED = 300.0, 4000
"""Seconds for which it is remembered that a key was claimed, and how many that have ended."""


class IReceiptBook(Protocol):
    """
    The store of receipts. The number of a vote is counted from the first of this life; those of
    earlier lives have 0 and less.
    """

    @property
    def is_open(self) -> bool:
        """Whether it is known what earlier lives have left."""

    @property
    def base(self) -> int:
        """The highest number that earlier lives have assigned; 0 while that is unknown."""

    def put(self, vote: Vote, is_urgent: bool = False) -> Deferred[None] | None:
        """
        Write it, in place of what has its number. If it is urgent, the Deferred fires when it is on
        disk, or when it is known that the disk refuses. It never fails.
        """

    def receipts(self, event: str, limit: int) -> Awaitable[Sequence[Receipt]]:
        """The newest, oldest first."""

    def on_left(self, receiver: Callable[[Iterable[Vote]], None]) -> None:
        """Call C{receiver} with what earlier lives have left, when that is read."""

    def on_tick(self, receiver: Callable[[], None]) -> None:
        """Call C{receiver} twice a second while it is open."""


def receipt_of(vote: Vote, node: str) -> Receipt:
    """What people are shown of it."""
    return Receipt(
        key=vote.key,
        term=vote.term,
        node=node,
        what=vote.what,
        event=vote.event,
        begun=vote.begun,
        ended=vote.ended,
        result=vote.result,
    )


class MemoryBook:
    """For masters whose role provides no disk for it: the receipts of this life."""

    is_open = True
    base = 0

    def __init__(self, node: str) -> None:
        self._node = node
        self._votes: OrderedDict[int, Vote] = OrderedDict()

    def put(self, vote: Vote, is_urgent: bool = False) -> None:
        """At once."""
        self._votes[vote.number] = vote
        while len(self._votes) > MAX_RECEIPTS:
            self._votes.popitem(last=False)

    def receipts(self, event: str, limit: int) -> Awaitable[Sequence[Receipt]]:
        """Those of this life."""
        votes = [vote for vote in self._votes.values() if not event or globbed(vote.event, event)]
        return succeed([receipt_of(vote, self._node) for vote in votes[-limit:]])

    def on_left(self, receiver: Callable[[Iterable[Vote]], None]) -> None:
        """Nothing is."""

    def on_tick(self, receiver: Callable[[], None]) -> None:
        """There is nothing to look at."""


class LoneClaims:
    """
    Reactor thread only.

    @ivar keys: the keys of events. They contain the life, so that none is given twice.
    """

    log = Logger()

    def __init__(
        self,
        node: str = "",
        now: Callable[[], float] = lambda: 0.0,
        uptime: Callable[[], float] = lambda: 0.0,
        counters: Any = None,
        life: str = "",
        book: IReceiptBook | None = None,
    ) -> None:
        """
        @param now: time of day, for receipts.
        @param uptime: seconds that nobody sets.
        @param counters: what was granted, taken, refused and recovered.
        @param life: tells this life of this node from all others.
        """
        self._node, self._now, self._uptime = node, now, uptime
        self._counters: Any = Counter() if counters is None else counters
        self._holder = f"{node}#{life}"
        self._book: IReceiptBook = book if book is not None else MemoryBook(node)
        self._acts: dict[str, Vote] = {}
        self._left: dict[str, Vote] = {}
        self._over: OrderedDict[str, tuple[str, float]] = OrderedDict()
        copies = LoneCopies(f".{life}" if life else "")
        self.keys = EventKeys(copies, node, uptime, self._is_taken)
        self._recovers: dict[str, Callable[[str, Mapping[str, Any], Any], Any]] = {}
        self._wanted: dict[str, tuple[Callable[[Any], Any], Callable[[str], Any]]] = {}
        self._held: dict[str, Claim] = {}
        self._count = 0
        self._may = True
        self._receivers: list[Callable[[str], None]] = []
        self._book.on_left(self._take_over)
        self._book.on_tick(self._recover)

    # -- short acts

    def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Awaitable[Answer]:
        """At once, if the key is new."""
        answer, vote = self._begin(key, plan, what, event)
        if vote is not None:
            self._book.put(vote)
        return succeed(answer)

    def _begin(
        self, key: str, plan: Mapping[str, Any], what: str, event: str
    ) -> tuple[Answer, Vote | None]:
        if not self._may:
            self._counters["claims_refused"] += 1
            return NoMajority(key=key, why=NOT_ALLOWED), None
        self._forget()
        if self._is_taken(key):
            self._counters["claims_taken"] += 1
            ended, result = key in self._over, self._over.get(key, ("", 0.0))[0]
            return Taken(key=key, holder=self._node, ended=ended, result=result), None
        self._counters["claims_granted"] += 1
        packed = pack_bin(dict(plan))
        vote = self._acts[key] = Vote(
            number=self._next(),
            key=key,
            term=self._book.base + self._count,
            holder=self._holder,
            # What is longer is said as lost, should this process be killed in it
            plan=packed if len(packed) <= MAX_PLAN else b"",
            what=what[:1000],
            event=event[:1000],
            begun=self._now(),
        )
        return Claim(key=key, term=vote.term, holder=self._node, plan=plan), vote

    def begin_event(
        self,
        minion: str,
        tag: str,
        data: Mapping[str, Any],
        plan: Mapping[str, Any],
        what: str = "",
        came: Came | None = None,
    ) -> Awaitable[Answer]:
        """The only copies are those that stock's C{salt-call} makes."""
        key = came.key if came is not None else self.keys.of(minion, tag, data)
        if key is None:
            self._counters["claims_taken"] += 1
            return succeed(Taken(key=occasion_of(minion, tag, data).alike, holder=self._node))
        answer, vote = self._begin(key, plan, what, tag)
        written = self._book.put(vote, came is not None) if vote is not None else None
        return written.addCallback(lambda _: answer) if written is not None else succeed(answer)

    def holds(self, claim: Claim) -> bool:
        """For ever."""
        return True

    def end(self, claim: Claim, result: str) -> Awaitable[None]:
        """Noted."""
        self._end(claim, result)
        return succeed(None)

    def _end(self, claim: Claim, result: str) -> None:
        vote = self._acts.get(claim.key)
        if vote is not None and vote.term == claim.term:
            del self._acts[claim.key]
            now = self._now()
            ended = evolve(vote, ended=now, result=result[:1000], plan=None)
            self._over[claim.key] = ended.result, self._uptime()
            self._book.put(ended)

    def receipts(self, event: str = "", limit: int = 1000) -> Awaitable[Sequence[Receipt]]:
        """As the book keeps them."""
        return self._book.receipts(event, limit)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _is_taken(self, key: str) -> bool:
        return key in self._acts or key in self._left or key in self._over

    def _forget(self) -> None:
        """That a key was claimed, when nobody can ask for it any more."""
        before = self._uptime() - REMEMBERED
        while self._over:
            _, at = next(iter(self._over.values()))
            if at > before and len(self._over) <= MOST_REMEMBERED:
                return
            self._over.popitem(last=False)

    # -- duties

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """Begun at once."""
        self._wanted[name] = (begin, end)
        self._take(name)

    def _take(self, name: str) -> None:
        if self._may and name in self._wanted and name not in self._held:
            term = self._book.base + self._next()
            claim = Claim(key=f"duty/{name}", term=term, holder=self._node)
            self._held[name] = claim
            self._wanted[name][0](claim)

    def release(self, name: str) -> Awaitable[None]:
        """Ended at once."""
        wanted = self._wanted.pop(name, None)
        return self._end_duty(name, wanted, "released")

    def _end_duty(self, name: str, wanted: Any, why: str) -> Deferred[None]:
        if wanted is None or self._held.pop(name, None) is None:
            return succeed(None)
        d = maybeDeferred(wanted[1], why)
        return d.addCallbacks(
            lambda _: None,
            lambda failure: self.log.failure("{name} did not end", failure=failure, name=name),
        )

    def would_claim(self) -> bool:
        """Unless it was told not to."""
        return self._may

    def set_leader(self, may: bool) -> None:
        """Duties end, or are begun again."""
        if may == self._may:
            return
        self._may = may
        for name in list(self._wanted):
            if may:
                self._take(name)
            else:
                let_go(self._end_duty(name, self._wanted[name], NOT_ALLOWED), self.log, "it stays")
        for receiver in self._receivers:
            receiver(self.problem())

    def problem(self) -> str:
        """Only if an operator has told it to claim nothing."""
        return "" if self._may else NOT_ALLOWED

    def on_problem(self, receiver: Callable[[str], None]) -> None:
        """Told by L{set_leader}."""
        self._receivers.append(receiver)

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """All is held here."""
        return {name: (self._node, claim.term) for name, claim in self._held.items()}

    # -- what earlier lives had begun

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """What an earlier life had begun and not ended."""
        self._recovers[kind] = recover

    def _take_over(self, votes: Iterable[Vote]) -> None:
        for vote in votes:
            if vote.key in self._acts:
                continue
            if vote.ended is None:
                self._left[vote.key] = vote
            else:
                self._over[vote.key] = vote.result, self._uptime()

    def _recover(self) -> None:
        for key, vote in list(self._left.items()):
            recover = self._recovers.get(key.partition("/")[0])
            if recover is not None and self._may:
                del self._left[key]
                self._finish(vote, recover)

    def _finish(self, vote: Vote, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        self._acts[vote.key] = vote
        self._counters["claims_recovered"] += 1
        try:
            plan = unpack_bin(vote.plan or b"")
            if not isinstance(plan, dict):
                raise WireError("plan")
        except WireError:
            self.log.error(
                "the plan of {key} is no longer known, so it cannot be finished", key=vote.key
            )
            plan = {}
        claim = Claim(key=vote.key, term=vote.term, holder=self._node, plan=plan)

        def done(result: Any) -> Any:
            self._end(claim, "lost")
            return result

        d = maybeDeferred(recover, vote.key, plan, claim).addCallback(awaited).addBoth(done)
        let_go(d, self.log, "what was begun before the start was not finished")


_Claims: type[IClaims] = LoneClaims  # mypy compares them
