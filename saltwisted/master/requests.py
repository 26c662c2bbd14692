"""
Every request of a minion, from bytes to a sealed reply.

The order of checks is Salt's (C{docs/wire.md}, section 2.1), and no check is left to a handler:
envelope, session key of the envelope's id, equal ids inside and outside, token, freshness. A
handler is told who asks; it never finds out by itself.

Whatever goes wrong, the sender gets one short answer without details, and a counter grows: an
unanswered request would block a stock minion's queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.master.chunks import LARGE as LARGE_REPLY
from saltwisted.master.clearreads import ClearReads
from saltwisted.master.context import Context
from saltwisted.master.replies import Chunk, Elsewhere, Packed, Private
from saltwisted.master.sessions import MinionSession
from saltwisted.master.table import Row
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.reasons import why
from saltwisted.transports.turns import Line
from saltwisted.wire.commands import Common, parse_command, take_common
from saltwisted.wire.crypticle import TakesLong
from saltwisted.wire.envelope import (
    BAD_LOAD,
    ClearRequest,
    Request,
    SealedRequest,
    encode_private_reply,
    encode_sealed_chunk,
    encode_sealed_packed,
    encode_sealed_pieces,
    encode_sealed_reply,
    request_at_once,
)
from saltwisted.wire.freeing import free
from saltwisted.wire.msgpack import pack

UNKNOWN: dict[str, Any] = {}
"""Salt's sealed answer to a command that is not exposed."""

LARGE = 64 * 1024
"""Bytes from which on a request is opened in a thread; one that takes long to unpack also below."""

Reply = Callable[[bytes], None]


@define
class Asked:
    """
    A request of a signed-in minion that a handler processes, and where its answer goes.

    Nobody changes it. It is not frozen because one is created for each request.
    """

    row: Row
    request: SealedRequest
    session: MinionSession
    nonce: str
    reply: Reply


_MAY_BE_LONG = frozenset((dict, list, str))
"""Kinds of values that may have megabytes."""


class Requests:
    """Answers the request port. One instance serves all transports."""

    log = Logger()

    def __init__(self, ctx: Context, sealed: dict[str, Row], clear: dict[str, Row]) -> None:
        self._ctx = ctx
        self._sealed = sealed
        self._clear = clear
        self._entropy = ctx.entropy
        self._counters = ctx.counters
        self._find = ctx.sessions.find
        self._open = ctx.sessions.open
        # Below 3 a request is sealed with the key that all minions share, which proves nobody's
        # identity: never served, whatever the option says (T-DOWN-1)
        self._minimum = max(int(ctx.config.minimum_auth_version), 3)
        self._ttl = float(ctx.config.request_server_ttl or 0)
        # Many may wait for one thing, which a process or a thread works on: when it comes, each of
        # them is answered at once, or in one of the next turns
        self._answers: Line[Callable[[], object]] = Line(ctx.clock, lambda answer: answer())
        # What is not simply sealed, see L{saltwisted.master.replies}
        self._ways: dict[type, Callable[[Asked, Any], None]] = {
            Chunk: self._reply_chunk,
            Packed: lambda asked, value: self._reply_sealed(asked, value.packed),
            Private: self._reply_private,
            Elsewhere: self._reply_elsewhere,
        }
        self._gate = ctx.seams.gate
        self._reads = ClearReads(ctx.clock, ctx.pool, self._is_user_key)
        self._closed = False

    def _is_user_key(self, key: bytes) -> bool:
        return self._ctx.users.user_of(key.decode("utf-8", "replace"), "") is not None

    def close(self) -> None:
        """Answer no more requests, except those whose answers are ready."""
        self._closed = True
        self._answers.drain()

    def handle(self, frame: bytes | memoryview, peer: str, reply: Reply) -> None:
        """Answer one frame; C{reply} is called exactly once, now or later."""
        if self._closed:
            self._counters["refused:closed"] += 1
            return
        if self._gate.keeps(frame, peer, reply):
            self._counters["kept"] += 1
            return
        try:
            request = request_at_once(frame)
            if request is None:
                self._read(frame, peer, reply)
            else:
                self._handle(request, peer, reply)
        except Exception:
            self._refused(Failure(), peer, reply)

    def _read(self, frame: bytes | memoryview, peer: str, reply: Reply) -> None:
        """Whoever sends what takes long to read waits for it, and nobody else does."""
        reading = self._reads.read(frame, peer).addCallback(self._handle, peer, reply)
        handled = reading.addErrback(self._refused, peer, reply)
        let_go(handled, self.log, "no reply to a long request")

    def _handle(self, request: Request, peer: str, reply: Reply) -> None:
        """
        @raises WireError: it is refused.
        """
        if request.version < self._minimum:
            raise WireError("version")
        if isinstance(request, SealedRequest):
            self._handle_sealed(request, peer, reply)
        else:
            self._handle_clear(request, peer, reply)

    # -- sealed: from signed-in minions ------------------------------------------------

    def _handle_sealed(self, request: SealedRequest, peer: str, reply: Reply) -> None:
        session = self._find(request.id)
        if session is None:
            raise AuthenticationError("no-session")
        if len(request.blob) <= LARGE:
            try:
                opened = self._open(session, request.blob, light=True)
            except TakesLong:
                pass
            else:
                self._opened(opened, session, request, peer, reply)
                return
        self._open_large(session, request, peer, reply)

    def _open_large(
        self, session: MinionSession, request: SealedRequest, peer: str, reply: Reply
    ) -> None:
        """
        Open it in a thread: to check and unpack megabytes takes longer than others may be kept
        waiting, and so does it to free what was unpacked.
        """
        ctx = self._ctx
        kept: list[Any] = []

        def opened(result: tuple[MinionSession, Any]) -> None:
            kept.append(result[1])
            self._opened(result, session, request, peer, answer)

        def answer(data: bytes) -> None:
            reply(data)
            # In another turn, when nobody else holds it any more
            ctx.clock.callLater(0, ctx.pool, free, kept)

        opening = ctx.pool(self._open, session, request.blob, ctx.sessions.others(session))
        answered = opening.addCallback(opened).addErrback(self._refused, peer, reply)
        let_go(answered, self.log, "no reply to a large request")

    def _refused(self, failure: Failure, peer: str, reply: Reply) -> None:
        error = failure.value
        if isinstance(error, WireError):
            self._counters["refused:" + error.reason] += 1
        else:
            self._counters["failed:request"] += 1
            self.log.failure("request from {peer} failed", failure=failure, peer=peer, foreign=True)
        reply(BAD_LOAD)

    def _opened(
        self,
        opened: tuple[MinionSession, Any],
        asked: MinionSession,
        request: SealedRequest,
        peer: str,
        reply: Reply,
    ) -> None:
        """The load is opened with a key of the minion; what is in it is still to be judged."""
        session, load = opened
        if session is not asked:
            self._ctx.sessions.keep(session)
        if type(load) is not dict:
            raise WireError("load-no-map")
        common = take_common(load)
        self._check_identity(request, common, session)
        nonce = common.nonce
        ts = _seconds(common.ts)
        if self._ttl and (ts is None or self._ctx.now() - ts > self._ttl):
            raise WireError("ttl")
        if not session.fresh(ts):
            raise WireError("stale")
        session.spoke(peer, self._ctx.now())
        cmd = load.get("cmd")
        row = self._sealed.get(cmd) if type(cmd) is str else None
        if row is None:
            self._counters["refused:unknown-command"] += 1
            reply(self._seal(session, UNKNOWN, nonce))
            return
        if row.once and nonce and not session.first_use(nonce, ts):
            raise WireError("replayed")
        self._counters[row.counter] += 1
        if len(request.blob) > row.most:
            raise WireError("too-large")
        command = parse_command(load)
        pending = Asked(row, request, session, nonce, reply)
        try:
            value = row.handler(self._ctx, session.minion_id, command)
            if not isawaitable(value):
                self._answer(pending, value)
                return
        except Exception:
            self._failed(pending, Failure())
            return
        self._later(
            value, partial(self._answer, pending), partial(self._failed, pending), row.counter
        )

    def _later(
        self,
        value: Any,
        answer: Callable[[Any], None],
        failed: Callable[[Failure], None],
        cmd: str,
    ) -> None:
        """
        Answer with what a handler is still at, in the same way as with what it has at once: also
        a value that cannot be sent is a failure, and not silence.
        """

        def came(outcome: Any) -> None:
            def act() -> None:
                d = fail(outcome) if isinstance(outcome, Failure) else succeed(outcome)
                let_go(
                    d.addCallback(answer).addErrback(failed), self.log, "no reply to {cmd}", cmd=cmd
                )

            self._answers.put(act)

        as_deferred(value).addBoth(came)  # type: ignore[unused-awaitable]

    def _check_identity(
        self, request: SealedRequest, common: Common, session: MinionSession
    ) -> None:
        """
        T-ID-1: the id inside must be the id outside, whose key opened the request.

        This holds because only protocol 3 and above gets here, whatever C{minimum_auth_version}
        says. Older requests are sealed with the key that all minions share, which proves nothing.
        """
        if common.id != request.id:
            raise AuthenticationError("foreign-id")
        if not session.token_is_valid(common.tok):
            raise AuthenticationError("token")

    def _answer(self, asked: Asked, value: Any) -> None:
        """Send what a handler gave back, in the way of its kind: the only place that looks."""
        kind = type(value)
        way = self._ways.get(kind)
        if kind in _MAY_BE_LONG and is_long(value):
            self._reply_long(asked, value)
        elif way is None:
            self._reply_sealed(asked, pack(value))
        else:
            way(asked, value)

    def _reply_sealed(self, asked: Asked, packed: bytes) -> None:
        """Seal a value: at once if it is small, else in a thread, as a large chunk."""
        key, iv = asked.session.key, self._entropy(16)
        if len(packed) < LARGE_REPLY:
            asked.reply(encode_sealed_packed(key, packed, iv, asked.nonce))
            return
        self._reply_with(asked, self._ctx.pool(encode_sealed_packed, key, packed, iv, asked.nonce))

    def _reply_long(self, asked: Asked, value: Any) -> None:
        """Pack it in turns of the reactor and seal it in a thread: nobody waits for megabytes."""
        key, iv = asked.session.key, self._entropy(16)

        async def made() -> bytes:
            pieces = [*filter(None, await pack_in_turns(self._ctx.clock, value, pack))]
            sealing = self._ctx.pool(encode_sealed_pieces, key, pieces, iv, asked.nonce)
            sealed: bytes = await sealing
            return sealed

        self._reply_with(asked, Deferred.fromCoroutine(made()))

    def _reply_elsewhere(self, asked: Asked, elsewhere: Elsewhere) -> None:
        """Pass on what another master has sealed; if nobody has, say so in its place."""
        request, cmd = asked.request, asked.row.counter
        d = as_deferred(elsewhere.fetch(asked.nonce, request.enc_algo, request.sig_algo))

        def failed(failure: Failure) -> None:
            self._counters["failed:" + cmd] += 1
            self.log.error(
                "{cmd} of {minion}: {why}",
                cmd=cmd,
                minion=asked.session.minion_id,
                why=why(failure),
            )
            self._reply_private(asked, Private(elsewhere.failed))

        let_go(d.addCallbacks(asked.reply, failed), self.log, "no reply to {cmd}", cmd=cmd)

    def _failed(self, asked: Asked, failure: Failure) -> None:
        """Salt answers an empty text to a failure; some must stay without any answer."""
        row, session = asked.row, asked.session
        self._counters["failed:" + row.counter] += 1
        if failure.check(WireError):
            asked.reply(BAD_LOAD)
            return
        if row.unacknowledged is not None and failure.check(row.unacknowledged):
            self.log.error(
                "{cmd} of {minion} not acknowledged: {why}",
                cmd=row.counter,
                minion=session.minion_id,
                why=why(failure),
            )
            return
        self.log.failure(
            "{cmd} of {minion} failed",
            failure=failure,
            cmd=row.counter,
            minion=session.minion_id,
            foreign=True,
        )
        asked.reply(self._seal(session, "", asked.nonce))

    def _reply_private(self, asked: Asked, private: Private) -> None:
        """Seal a pillar for this minion alone; the signature is made in a thread."""
        seal_it = partial(
            encode_private_reply,
            private.packed,
            minion_key=asked.session.public,
            master_key=self._ctx.identity,
            nonce=asked.nonce,
            entropy=self._entropy,
            enc_algo=asked.request.enc_algo,
            sig_algo=asked.request.sig_algo,
        )
        self._reply_with(asked, self._ctx.pool(seal_it))

    def _reply_chunk(self, asked: Asked, chunk: Chunk) -> None:
        """Seal a large chunk in a thread, where AES and HMAC keep nobody waiting."""
        key = asked.session.key
        iv = self._entropy(16)
        made = self._ctx.pool(encode_sealed_chunk, key, chunk.data, chunk.rest, iv, asked.nonce)
        self._reply_with(asked, made.addBoth(_after, chunk.sealed))

    def _reply_with(self, asked: Asked, made: Deferred[bytes]) -> None:
        """Send what is being made in a thread."""
        sent = made.addCallbacks(asked.reply, partial(self._failed, asked))
        let_go(sent, self.log, "no reply to {cmd}", cmd=asked.row.counter)

    def _seal(self, session: MinionSession, value: Any, nonce: str) -> bytes:
        return encode_sealed_reply(session.key, value, self._entropy(16), nonce)

    # -- clear: sign-ins, and local tools that hold a user key -------------------------

    def _handle_clear(self, request: ClearRequest, peer: str, reply: Reply) -> None:
        cmd = request.load.get("cmd")
        row = self._clear.get(cmd) if type(cmd) is str else None
        if row is None:
            self._counters["refused:unknown-command"] += 1
            reply(pack(UNKNOWN))
            return
        self._counters[row.counter] += 1
        failed = partial(self._clear_failed, row, reply)

        def answer(value: bytes | None) -> None:
            if value is not None:
                reply(value)

        try:
            if row.replies:
                row.handler(self._ctx, request, peer, reply)
                return
            value = row.handler(self._ctx, request, peer)
            if not isawaitable(value):
                answer(value)
                return
        except Exception:
            failed(Failure())
            return
        self._later(value, answer, failed, row.counter)

    def _clear_failed(self, row: Row, reply: Reply, failure: Failure) -> None:
        if isinstance(failure.value, WireError):
            self._counters["refused:" + failure.value.reason] += 1
        else:
            self._counters["failed:" + row.counter] += 1
            self.log.failure("{cmd} failed", failure=failure, cmd=row.counter, foreign=True)
        reply(BAD_LOAD)


def _after(result: Any, call: Callable[[], None]) -> Any:
    call()
    return result


def _seconds(ts: int | float | None) -> int | None:
    """
    The time of a request in whole seconds.

    @raises WireError: no finite number.
    """
    if ts is None or isinstance(ts, int):
        return ts
    try:
        return int(ts)
    except (ValueError, OverflowError) as error:
        raise WireError("ts") from error
