"""
Sign-ins: a bounded queue in front of two threads for RSA.

After a rotation or a restart every minion signs in at once. Each sign-in costs two private RSA
operations. So they wait here and are processed in small batches, one hop to a thread per batch,
while the reactor answers everybody else. Minions with an accepted key go first, so strangers cannot
push them back. Among them, those without a session here go first (they start, or come from another
node). Those that only lack the new publish key cannot push them back, and are admitted at a limited
rate (L{Pace}), so that a change of that key delays nobody else. A minion that asks again while it
waits keeps its place, and only its newest request is answered.

A minion of ours whose key is pending says how long it would wait (C{patience}). Its request is kept
for that time, and answered as soon as somebody decides about the key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

from attrs import define, evolve
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.keys import Answer, SignIn, Verdict, clean_key, judge, valid_minion_id
from saltwisted.domain.pace import Pace
from saltwisted.doors import SIGN_INS
from saltwisted.errors import StoreError, WireError
from saltwisted.master.ground import Ground
from saltwisted.transports import turns
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.threads import Threads
from saltwisted.wire.commands import Auth
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.envelope import BAD_LOAD
from saltwisted.wire.handshake import (
    MasterIdentity,
    accepted_reply,
    bad_algorithm,
    bad_algorithm_reply,
    negative_reply,
)
from saltwisted.wire.rsa import PublicKey

BATCH = 16
"""Sign-ins per hop to a thread, at most: about 9 ms of RSA."""
AT_ONCE = 2
PLACES = 8
"""One place of so many is kept for strangers, and one for those that sign in again."""
HELD = 5_000
"""Answers to pending minions that are kept at most; the others are told at once."""
HELD_FOR = 60.0
"""Seconds for which such an answer is kept at most, whatever the minion would wait."""
WAITING = 20_000
"""Sign-ins that wait at most, of known and of unknown minions each; more are refused."""
USUAL = 4096
"""Bytes of a sign-in that count only by their number: stock's have two thousand at most."""
UNUSUAL_ALL = 32 * 1024 * 1024
"""Bytes of all larger sign-ins of unknown minions that wait, or whose answers are kept."""


class _Unusual:
    """
    How many bytes wait in large sign-ins of strangers.

    @ivar held: bytes.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0


class _Share:
    """So many of these bytes, as long as this object lives: a sign-in ends in many ways."""

    __slots__ = ("_of", "_size")

    def __init__(self, of: _Unusual, size: int) -> None:
        self._of, self._size = of, size
        of.held += size

    def __del__(self) -> None:
        self._of.held -= self._size


@define
class Waiting:
    """One request that waits for its answer."""

    auth: Auth
    pub: bytes
    version: int
    peer: str
    reply: Callable[[bytes], None]
    share: _Share | None = None
    stored: bytes = b""


@define
class Work:
    """What a thread needs for one answer; it uses nothing else."""

    waiting: Waiting
    ret: bool | str = False
    minion_key: PublicKey | None = None
    session: SessionKey | None = None
    answer: bytes = BAD_LOAD


class SignIns:
    """Decides about sign-ins and has their answers made in threads."""

    log = Logger()

    def __init__(self, ground: Ground, identity: MasterIdentity, threads: Threads) -> None:
        self._ground = ground
        self._identity = identity
        self._threads = threads
        self._fresh: OrderedDict[tuple[str, bytes, str], Waiting] = OrderedDict()
        self._known: OrderedDict[tuple[str, bytes, str], Waiting] = OrderedDict()
        self._unknown: OrderedDict[tuple[str, bytes, str], Waiting] = OrderedDict()
        self._pace = Pace()
        self._later: IDelayedCall | None = None
        self._held: dict[str, tuple[Waiting, IDelayedCall]] = {}
        self._running = 0
        self._letting_in = 0
        self._turn = 0
        self._unusual = _Unusual()

    def startService(self) -> None:
        """Sign the first publish key now, so that the first sign-in need not wait for it."""
        self._identity.digest_signature(self._ground.publisher.key)
        self._ground.keys.on_change(self._decided)

    def stopService(self) -> None:
        """Those who still wait will ask again."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        while self._held:
            self._held.popitem()[1][1].cancel()
        self._fresh.clear()
        self._known.clear()
        self._unknown.clear()

    def settled(self) -> bool:
        """
        Whether no accepted minion waits for its answer, which has the publish key of when it is
        made. Strangers, of whom there may always be one, do not count.
        """
        return not (self._fresh or self._known or self._letting_in)

    def waiting(self) -> int:
        """How many wait."""
        return len(self._fresh) + len(self._known) + len(self._unknown)

    def submit(
        self,
        auth: Auth,
        version: int,
        peer: str,
        reply: Callable[[bytes], None],
        size: int = 0,
    ) -> None:
        """
        Take a question in.

        @param size: bytes that it came in.
        @raises WireError: it is too large, or the queue is full: the minion gets a refusal and asks
            later.
        """
        if size > SIGN_INS.request:
            raise WireError("signin-size")
        pub = clean_key(auth.pub.encode("utf-8", "surrogateescape"))
        known = valid_minion_id(auth.id) and self._is_accepted(auth.id, pub)
        queue = self._unknown
        if known:
            # A minion with a session here waits only for the new publish key; one without, for all
            queue = self._known if auth.id in self._ground.sessions.live() else self._fresh
        share = None
        if size > USUAL and not known:
            if self._unusual.held + size > UNUSUAL_ALL:
                raise WireError("signin-queue-full")
            share = _Share(self._unusual, size)
        key = (auth.id, pub, peer)
        waiting = queue.get(key)
        if waiting is not None:
            self._ground.counters["signin:repeated"] += 1
            waiting.auth, waiting.version, waiting.reply = auth, version, reply
            waiting.share = share
            return
        if len(queue) >= WAITING:
            raise WireError("signin-queue-full")
        queue[key] = Waiting(auth, pub, version, peer, reply, share)
        self._start()

    def _is_accepted(self, minion_id: str, pub: bytes) -> bool:
        # As last seen: it says only how long to wait, and what it waits for looks again
        stored = self._ground.keys.seen("accepted", minion_id)
        return stored is not None and clean_key(stored) == pub

    def _start(self) -> None:
        if self._running >= AT_ONCE:
            # The next batch to end starts again
            return
        room = self._pace.room(self._ground.clock.seconds(), len(self._known))
        while self._running < AT_ONCE:
            decided: list[tuple[Waiting, Verdict]] = []
            queue = self._queue(room)
            if queue is None:
                break
            with self._ground.seams.key_changes.in_one(), self._ground.keys.together():
                until = thread_time() + turns.PORTION
                while len(decided) < BATCH and queue is not None:
                    if queue is self._known:
                        room -= 1
                        self._pace.took()
                    waiting = queue.popitem(last=False)[1]
                    with self._answering(waiting):
                        verdict = self._judge(waiting)
                        if verdict.answer is not Answer.PENDING or not self._hold(waiting, verdict):
                            decided.append((waiting, verdict))
                    if thread_time() > until:
                        # New keys are written in here: no longer than others may be kept waiting
                        break
                    queue = self._queue(room)
            # Only now: a key that is new has no session before its acceptance is in the log
            work: list[Work] = []
            for waiting, verdict in decided:
                with self._answering(waiting):
                    work.append(self._work(waiting, verdict))
            if not work:
                continue
            self._running += 1
            self._letting_in += _accepted(work)
            d: Deferred[Any] = self._threads.run(self._answer, work, self._ground.publisher.key)
            let_go(d.addBoth(self._answered, work), self.log, "a batch of sign-ins was lost")
        if self._known and not room and self._later is None:
            delay = self._pace.delay(min(len(self._known), BATCH))
            self._later = self._ground.clock.callLater(delay, self._go_on)

    def _go_on(self) -> None:
        self._later = None
        self._start()

    def _queue(self, room: int) -> OrderedDict[tuple[str, bytes, str], Waiting] | None:
        """
        Whose turn it is: known minions first, and among them those that come again; every eighth
        place (L{PLACES}) is kept for strangers, and every fourth for those that sign in again.

        @param room: how many of those that sign in again may come.
        """
        queues = [self._fresh, self._known, self._unknown]
        turn = self._turn + 1
        if turn % PLACES == 0:
            queues.reverse()
        elif turn % (PLACES // 2) == 0:
            queues = [self._known, self._fresh, self._unknown]
        for queue in queues:
            if queue and (room > 0 or queue is not self._known):
                self._turn = turn
                return queue
        return None

    @contextmanager
    def _answering(self, waiting: Waiting) -> Iterator[None]:
        """A minion whose sign-in fails is told to come again; the others of its batch go on."""
        try:
            yield
        except StoreError as error:
            self._ground.counters["failed:_auth"] += 1
            self.log.error("a key cannot be stored: {error}", error=error)
            waiting.reply(BAD_LOAD)
        except Exception:
            self._ground.counters["failed:_auth"] += 1
            self.log.failure(
                "the sign-in of {minion} failed", minion=waiting.auth.id[:200], foreign=True
            )
            waiting.reply(BAD_LOAD)

    def _hold(self, waiting: Waiting, verdict: Verdict) -> bool:
        """Keep the answer that a key is pending, if its minion would rather wait."""
        minion_id = waiting.auth.id
        before = self._held.pop(minion_id, None)
        if before is not None:
            before[1].cancel()
            self._tell(before[0], verdict)
        patience = min(float(waiting.auth.patience), HELD_FOR)
        # Who has no patience left has waited, and is told
        if not patience > 0 or len(self._held) >= HELD:
            return False
        waiting.auth = evolve(waiting.auth, patience=0.0)
        later = self._ground.clock.callLater(patience, self._let_go, minion_id, verdict)
        self._held[minion_id] = (waiting, later)
        return True

    def _let_go(self, minion_id: str, verdict: Verdict) -> None:
        """Nobody has decided in time."""
        waiting, _ = self._held.pop(minion_id)
        self._tell(waiting, verdict)

    def _tell(self, waiting: Waiting, verdict: Verdict) -> None:
        work = [Work(waiting, _RET[verdict.answer])]
        self._running += 1
        d: Deferred[Any] = self._threads.run(self._answer, work, self._ground.publisher.key)
        let_go(d.addBoth(self._answered, work), self.log, "a kept answer was lost")

    def _decided(self, minion_id: str, old: str, new: str) -> None:
        """Something has happened to a key: requests that wait for that are judged again."""
        # A denied key beside a pending one, of which anybody can make one, decides nothing
        held = None if new == "denied" else self._held.pop(minion_id, None)
        if held is None:
            return
        waiting, later = held
        later.cancel()
        key = (minion_id, waiting.pub, waiting.peer)
        self._fresh.setdefault(key, waiting)
        self._ground.clock.callLater(0, self._start)

    def _judge(self, waiting: Waiting) -> Verdict:
        ground = self._ground
        auth = waiting.auth
        if not valid_minion_id(auth.id):
            return judge(SignIn(minion_id=auth.id, pub=waiting.pub))
        state, stored = "", b""
        for candidate in ("rejected", "accepted", "pending"):
            found = ground.keys.key(candidate, auth.id)
            if found is not None:
                state, stored = candidate, found
                break
        undecided = state in ("", "pending") and not ground.config.open_mode
        rejects = undecided and ground.autosign.rejects(auth.id)
        connected, is_connected = self._connected(auth.id)
        waiting.stored = stored
        verdict = judge(
            SignIn(
                minion_id=auth.id,
                pub=waiting.pub,
                pub_is_good=_sound(waiting.pub),
                state=state,
                stored=stored,
                autoreject=rejects,
                autosign=undecided
                and not rejects
                # Of another key than the pending one no rule is asked: it is denied
                and clean_key(stored) in (b"", waiting.pub)
                and ground.autosign.accepts(auth, ground.now()),
                open_mode=bool(ground.config.open_mode),
                max_minions=int(ground.config.max_minions or 0),
                connected=connected,
                is_connected=is_connected,
            )
        )
        if verdict.write:
            waiting.stored = verdict.pub + b"\n"
            ground.keys.put(verdict.write, auth.id, waiting.stored)
        return verdict

    def _connected(self, minion_id: str) -> tuple[int, bool]:
        """How many minions are connected, and whether this is one; only C{max_minions} asks."""
        ground = self._ground
        if int(ground.config.max_minions or 0) <= 0:
            return 0, False
        here = ground.presence.present(ground.keys.accepted_ids())
        return len(here), minion_id in here

    def _work(self, waiting: Waiting, verdict: Verdict) -> Work:
        ground = self._ground
        auth = waiting.auth
        ground.counters["signin:" + (verdict.act or "invalid")] += 1
        if ground.config.auth_events and verdict.act:
            event = {
                "result": verdict.result,
                "act": verdict.act,
                "id": auth.id,
                "pub": auth.pub,
            }
            ground.bus.fire("salt/auth", event)
        if verdict.answer is not Answer.ACCEPT:
            return Work(waiting, _RET[verdict.answer])
        session = ground.sessions.sign_in(auth.id, waiting.stored or waiting.pub)
        if session is None:
            ground.counters["refused:weak-key"] += 1
            return Work(waiting, False)
        return Work(waiting, True, session.public, session.key)

    def _answer(self, work: list[Work], publish_key: SessionKey) -> None:
        """In a thread: the RSA of one batch."""
        for item in work:
            waiting = item.waiting
            try:
                if item.minion_key is None or item.session is None:
                    word = bad_algorithm(waiting.auth)
                    item.answer = (
                        bad_algorithm_reply(word)
                        if word
                        else negative_reply(
                            waiting.auth, item.ret, self._identity.key, waiting.version
                        )
                    )
                else:
                    item.answer = accepted_reply(
                        waiting.auth,
                        self._identity,
                        item.minion_key,
                        publish_key,
                        item.session,
                        int(self._ground.config.publish_port),
                        waiting.version,
                    )
            except WireError:
                item.answer = BAD_LOAD

    def _answered(self, result: Any, work: list[Work]) -> None:
        self._running -= 1
        self._letting_in -= _accepted(work)
        for item in work:
            item.waiting.reply(item.answer)
        if result is not None:
            self.log.failure("a batch of sign-ins failed", failure=result)
        self._start()


_RET: dict[Answer, bool | str] = {
    Answer.PENDING: True,
    Answer.REFUSED: False,
    Answer.FULL: "full",
}
"""What stock minions are told."""


def _accepted(work: list[Work]) -> int:
    return sum(item.session is not None for item in work)


def _sound(pub: bytes) -> bool:
    try:
        PublicKey.from_pem(pub)
    except WireError:
        return False
    return True
