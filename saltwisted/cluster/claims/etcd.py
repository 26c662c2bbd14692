"""
Claims through an etcd: the court that needs no majority of our members.

This node has one lease, which all its terms use. L{saltwisted.domain.claims.etcd} has the requests
and the meaning of answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, evolve, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from saltwisted.cluster.claims.court import Gone, Granted, ICourt, Outcome, Refused, Wish
from saltwisted.domain.claims.claimant import last_moment
from saltwisted.domain.claims.copies import number_of
from saltwisted.domain.claims.etcd import (
    NO_LEASE,
    OPTION,
    PAGE,
    SECONDS,
    Ask,
    Busy,
    Done,
    Free,
    Names,
    Over,
    Record,
    Revisions,
    decode_done,
    decode_lease,
    decode_record,
    grant,
    keep_alive,
    meaning,
    state_of,
)
from saltwisted.domain.claims.voter import DUTY, TERM
from saltwisted.domain.claims.words import Receipt
from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import RemoteError, TransportClosed, WireError

LOWER = 3
"""Looks one after the other, in all of which etcd has a lower revision than before."""
FAILURES = (RemoteError, TransportClosed, WireError)
NEW_LEASE = 3600.0
"""Seconds after which what ended hangs on another lease."""
LEAST_KEPT = 3600.0
"""Seconds for which it is remembered at least what was done."""
MOST_PAGES = 50


class IGateway(Protocol):
    """The part of L{saltwisted.transports.etcd.Gateway} that is needed here."""

    def ask(self, ask: Ask) -> Awaitable[Any]:
        """The answer, within some seconds; fails with one of C{FAILURES}."""

    def stop(self) -> Awaitable[None]:
        """Ask nothing more."""


@define
class _Lease:
    """On which terms hang; C{until} by this node's clock."""

    id: str
    until: float


@frozen
class _Term:
    """Who holds a key, as etcd has told last."""

    record: Record
    written: int
    lease: str


@define
class _Mine:
    """What this node was granted."""

    term: int
    record: Record
    since: int


@define
class _Seen:
    """What the last look at everything has found."""

    revision: int = 0
    terms: dict[str, _Term] = field(factory=dict)
    open: set[str] = field(factory=set)

    def is_ours(self, key: str, term: _Term) -> None:
        """It was granted; a look that was asked for before that does not know of it."""
        self.terms[key] = term
        self.revision = max(self.revision, term.written)

    def is_gone(self, key: str, revision: int, is_closed: bool) -> None:
        """It was released, or has ended."""
        self.terms.pop(key, None)
        if is_closed:
            self.open.discard(key)
        self.revision = max(self.revision, revision)


class EtcdCourt:
    """Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        life: str,
        gateway: IGateway,
        names: Names,
        now: Callable[[], float],
        keep: float,
    ) -> None:
        """
        @param clock: of the reactor; nobody sets it, and it goes on in sleep.
        @param life: another text each time the process is started.
        @param now: time of day, for receipts.
        @param keep: seconds for which receipts are kept; 0: for ever.
        """
        self._clock, self._node, self._gateway = clock, node, gateway
        self._names, self._now, self._keep = names, now, keep
        self.holder = f"{node}#{life}"
        self._revisions = Revisions()
        self._seen = _Seen()
        self._lease: _Lease | None = None
        self._lock = DeferredLock()
        self._kept: tuple[str, float] = (NO_LEASE, float("-inf"))
        self._mine: dict[str, _Mine] = {}
        self._asking: set[str] = set()
        self._strays: dict[str, int] = {}
        self._lower = 0
        self._receivers: list[Callable[[str, str], None]] = []
        self._problem = f"{OPTION}: no answer yet"

    async def startService(self) -> None:
        """It does not have to be there."""
        await self.care()

    async def stopService(self) -> None:
        """Terms that are left run out by themselves."""
        await self._gateway.stop()

    # -- asking

    async def _done(self, ask: Ask) -> Done:
        """
        @raises RemoteError: it is refused.
        @raises TransportClosed: nobody answers.
        @raises WireError: the answer is nonsense.
        """
        sent = self._clock.seconds()
        done = decode_done(await self._gateway.ask(ask))
        if not done.answers(ask):
            raise WireError("an answer to another request")
        self._revisions.saw(done.revision, sent, self._clock.seconds())
        return done

    def _failed(self, error: Exception) -> str:
        text = str(error)
        self._problem = text if text.startswith(OPTION) else f"{OPTION}: {text}"
        return self._problem

    async def _leased(self) -> str:
        """A lease that lasts for a while; a new one, if need be."""
        lease = self._lease
        if lease is None or lease.until < self._clock.seconds() + TERM / 2:
            await self._lock.acquire()
            try:
                lease = self._lease
                if lease is not None and lease.until < self._clock.seconds() + TERM / 2:
                    await self._keep_alive(lease)
                    lease = self._lease
                if lease is None or lease.until < self._clock.seconds() + TERM / 2:
                    sent = self._clock.seconds()
                    new = decode_lease(await self._gateway.ask(grant(SECONDS)), SECONDS)
                    lease = self._lease = _Lease(new.id, last_moment(sent))
            finally:
                self._lock.release()
        return lease.id

    async def _keep_alive(self, lease: _Lease) -> bool:
        """
        Renew it; whether that is certain.

        A leader of etcd that was replaced, and does not know it yet, may say that it has renewed a
        lease, where its successor lets it run out. So a majority is asked after that (all
        transactions are), and both have to know the same term of etcd's leader.
        """
        sent = self._clock.seconds()
        kept = decode_lease(await self._gateway.ask(keep_alive(lease.id)))
        if kept.seconds <= 0 or kept.id != lease.id:
            if self._lease is lease:
                self._lease = None
            return False
        seen = await self._poll()
        if seen.raft != kept.raft or kept.seconds < SECONDS:
            return False
        lease.until = max(lease.until, last_moment(sent))
        return True

    async def _keeping(self) -> str:
        """The lease on which hangs how long acts are remembered."""
        lease, at = self._kept
        if self._keep <= 0:
            return NO_LEASE
        if self._clock.seconds() > at + NEW_LEASE:
            seconds = int(max(self._keep, LEAST_KEPT) + NEW_LEASE)
            at = self._clock.seconds()
            lease = decode_lease(await self._gateway.ask(grant(seconds))).id
            self._kept = (lease, at)
        return lease

    def _forget_leases(self) -> None:
        """One is not there any more: somebody has revoked it, or begun anew."""
        self._lease = None
        self._kept = (NO_LEASE, float("-inf"))

    # -- ICourt

    async def ask(self, wish: Wish) -> Outcome:
        """One transaction, and another one where somebody has left something."""
        self._asking.add(wish.key)
        try:
            return await self._ask(wish)
        except FAILURES as error:
            if isinstance(error, RemoteError) and "lease not found" in str(error):
                self._forget_leases()
                return Refused(str(error), at_once=False)
            return Refused(self._failed(error))
        finally:
            self._asking.discard(wish.key)

    async def _ask(self, wish: Wish) -> Outcome:
        lease = await self._leased()
        kept = NO_LEASE if wish.is_duty else await self._keeping()
        record = Record(
            holder=self.holder,
            node=self._node,
            planner="" if wish.is_duty else self.holder,
            what=wish.what,
            event=wish.event,
            begun=self._now(),
            came=wish.came,
            waited=max(0.0, self._clock.seconds() - wish.came_at) if wish.came else 0.0,
        )
        can_begin = wish.is_duty or wish.plan is not None
        if can_begin:
            done = await self._done(self._names.take(wish.key, lease, record, wish.plan, kept))
            if done.is_granted:
                return self._granted(wish, lease, done, record, Free())
        else:
            done = await self._done(self._names.look(wish.key))
        for _ in range(3):
            state = state_of(self._names, done)
            now = self._clock.seconds()
            found = meaning(state, self.holder, lease, can_begin)
            if isinstance(found, Over | Busy):
                told = self._now() - found.record.begun
                age = self._revisions.at_least(found.since, now, told)
                return Gone(
                    holder=found.record.node,
                    age=age,
                    came=found.record.came,
                    came_ago=age + found.record.waited,
                    ended=isinstance(found, Over),
                    result=found.record.result,
                    recent=self._revisions.instances(state.recent, now, self._now()),
                )
            if not isinstance(found, Free):
                return Refused(found.why)
            if found.record is not None:
                record = evolve(found.record, holder=self.holder, node=self._node)
            plan = wish.plan if found.planned is None else found.planned
            ask = self._names.take(wish.key, lease, record, plan, kept, state)
            done = await self._done(ask)
            if done.is_granted:
                return self._granted(wish, lease, done, record, found)
        return Refused("other nodes are asking for it at the same time", at_once=True)

    def _granted(
        self, wish: Wish, lease_id: str, done: Done, record: Record, found: Free
    ) -> Outcome:
        lease, now = self._lease, self._clock.seconds()
        if lease is None or lease.id != lease_id or lease.until <= now:
            return Refused(f"{OPTION}: the lease expired during the request")
        self._mine[wish.key] = _Mine(done.revision, record, found.since or done.revision)
        self._seen.is_ours(wish.key, _Term(record, done.revision, lease_id))
        return Granted(
            term=done.revision,
            until=lease.until,
            planned=found.planned,
            by=f"{found.record.node}#" if found.record is not None else "",
            age=self._revisions.at_most(found.since, now) if found.planned is not None else 0.0,
            came=record.came,
            came_ago=self._revisions.at_least(found.since, now) + record.waited,
        )

    async def renew(self, held: Mapping[str, int]) -> Mapping[str, float]:
        """The one lease; and whether all that is held still hangs on it."""
        try:
            await self._lock.acquire()
            try:
                lease = self._lease
                is_renewed = lease is not None and await self._keep_alive(lease)
            finally:
                self._lock.release()
        except FAILURES as error:
            self._failed(error)
            return {}
        if lease is None or self._lease is not lease:
            return dict.fromkeys(held, 0.0)
        if not is_renewed:
            return {}
        found = {}
        for key, written in held.items():
            term = self._seen.terms.get(key)
            is_ours = term is not None and (term.written, term.lease) == (written, lease.id)
            found[key] = lease.until if is_ours else 0.0
        return found

    async def drop(self, key: str, term: int) -> None:
        """With the act, if it is one that nobody has begun."""
        self._mine.pop(key, None)
        try:
            state = state_of(self._names, await self._done(self._names.look(key)))
            if state.term is None or state.term.written != term:
                return
            opened = state.open
            is_unbegun = False
            if opened is not None:
                record = decode_record(opened.value)
                is_unbegun = record.planner == record.holder == self.holder
            done = await self._done(self._names.drop(key, state, is_unbegun))
            self._seen.is_gone(key, done.revision, is_unbegun)
        except FAILURES as error:
            # It is seen as a stray when etcd is back, or runs out
            self._failed(error)

    async def end(self, wish: Wish, term: int, result: str) -> bool:
        """Whether etcd has it, or somebody else has the act."""
        mine = self._mine.get(wish.key)
        if mine is None:
            blank = Record(holder=self.holder, node=self._node, what=wish.what, event=wish.event)
            mine = _Mine(term, blank, term)
        ended = evolve(mine.record, ended=self._now(), result=result, since=mine.since)
        try:
            kept = await self._keeping()
            done = await self._done(self._names.end(wish.key, term, ended, kept))
        except FAILURES as error:
            if isinstance(error, RemoteError) and "lease not found" in str(error):
                self._forget_leases()
            self._failed(error)
            return False
        self._mine.pop(wish.key, None)
        self._seen.is_gone(wish.key, done.revision, done.is_granted)
        return True

    def unfinished(self) -> Sequence[str]:
        """As of the last look."""
        return [
            key
            for key in sorted(self._seen.open)
            if key not in self._seen.terms and key not in self._asking and key not in self._mine
        ]

    def doubts_until(self) -> float:
        """The etcd forgets nothing."""
        return 0.0

    def is_free(self, key: str) -> bool:
        """As of the last look."""
        term = self._seen.terms.get(key)
        return term is None or term.record.holder == self.holder

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """As of the last look."""
        return {
            key: (term.record.node, term.written)
            for key, term in self._seen.terms.items()
            if key.startswith(DUTY)
        }

    def on_claimed(self, receiver: Callable[[str, str], None]) -> None:
        """When it is seen in etcd."""
        self._receivers.append(receiver)

    def problem(self) -> str:
        """Of the last question."""
        return self._problem

    async def care(self) -> None:
        """Check everything, and release what this node holds and does not want."""
        try:
            await self._poll()
        except FAILURES as error:
            self._failed(error)
            return
        await self._drop_strays()

    # -- looking

    async def _poll(self) -> Done:
        done = await self._done(self._names.poll())
        if len(done.found) != 2:
            raise WireError("an answer to another request")
        terms = {}
        for row in done.found[0]:
            key = self._names.key_of("term", row.key)
            terms[key] = _Term(decode_record(row.value), row.written, row.lease)
        opened = {self._names.key_of("open", row.key) for row in done.found[1]}
        self._problem = ""
        self._is_set_back(done.revision)
        if done.revision >= self._seen.revision:
            before, self._seen = self._seen, _Seen(done.revision, terms, opened)
            for key, term in terms.items():
                is_new = key not in before.terms and number_of(key)[1] is not None
                if is_new and term.record.node != self._node:
                    for receiver in self._receivers:
                        receiver(key, term.record.at_node)
        return done

    def _is_set_back(self, revision: int) -> None:
        """
        Its numbers only grow, unless it is another etcd now, or one that was restored; or it said a
        number that it never had. Whoever went on with the greater one would see nothing any more.
        """
        # A few looks, for one may overtake another on its way
        self._lower = self._lower + 1 if revision < self._seen.revision else 0
        if self._lower > LOWER:
            self.log.error(
                "{option}: etcd has the revision {now}, and had {before}: it was set back, or is "
                "another one. What was done before may be done again",
                option=OPTION,
                now=revision,
                before=self._seen.revision,
            )
            self._lower = 0
            self._seen, self._revisions = _Seen(), Revisions()

    async def _drop_strays(self) -> None:
        """What etcd gave us, and we have not heard: an answer was lost."""
        strays = {
            key: term.written
            for key, term in self._seen.terms.items()
            if term.record.holder == self.holder
            and key not in self._mine
            and key not in self._asking
        }
        again = [key for key, written in strays.items() if self._strays.get(key) == written]
        self._strays = strays
        for key in again:
            await self.drop(key, strays[key])

    # -- receipts

    async def receipts(self, event: str, limit: int) -> Sequence[Receipt]:
        """Those that etcd keeps; none while it cannot be asked."""
        found: list[Receipt] = []
        try:
            for kind in ("done", "open"):
                found += await _pages(self._done, self._names, kind, event, limit)
        except FAILURES as error:
            self._failed(error)
        return sorted(found, key=lambda receipt: (receipt.begun, receipt.term))[-limit:]


_Court: type[ICourt] = EtcdCourt  # mypy compares them


def _receipt(key: str, written: int, record: Record) -> Receipt:
    return Receipt(
        key=key,
        term=record.since or written,
        node=record.node,
        what=record.what,
        event=record.event,
        begun=record.begun,
        ended=record.ended,
        result=record.result,
    )


async def _pages(
    ask: Callable[[Ask], Awaitable[Done]], names: Names, kind: str, event: str, limit: int
) -> list[Receipt]:
    """The newest receipts of one kind, page by page."""
    found: list[Receipt] = []
    below = 0
    for _ in range(MOST_PAGES):
        (rows,) = (await ask(names.receipts(kind, below))).found or ((),)
        for row in rows:
            record = decode_record(row.value)
            if not event or globbed(record.event, event):
                found.append(_receipt(names.key_of(kind, row.key), row.written, record))
        if len(rows) < PAGE or len(found) >= limit:
            break
        below = rows[-1].made
    return found
