"""
Every request of a minion, from bytes to a sealed reply.

The order of checks is Salt's (C{docs/wire.md}, section 2.1) and none is left to a
handler: envelope, session key of the envelope's id, equal ids inside and
outside, token, freshness. A handler is told who asks; it never looks.

Whatever goes wrong, the sender gets one short answer that says nothing, and a
counter grows: an unanswered request would block a stock minion's queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.master.context import Context
from saltwisted.master.replies import Chunk, Elsewhere, Private
from saltwisted.master.sessions import MinionSession
from saltwisted.master.table import Row
from saltwisted.transports.loose import as_deferred, let_go
from saltwisted.transports.reasons import why
from saltwisted.wire.commands import Common, parse_command, take_common
from saltwisted.wire.envelope import (
    BAD_LOAD,
    ClearRequest,
    SealedRequest,
    decode_request,
    encode_private_reply,
    encode_sealed_chunk,
    encode_sealed_reply,
)
from saltwisted.wire.msgpack import pack

UNKNOWN: dict[str, Any] = {}
"""Salt's sealed answer to a command that is not exposed."""

LARGE = 128 * 1024
"""Bytes from which on a request is opened in a thread."""

Reply = Callable[[bytes], None]


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
        self.closed = False
        self.keeps: Callable[[bytes, str, Reply], bool] | None = None

    def handle(self, frame: bytes, peer: str, reply: Reply) -> None:
        """Answer one frame; C{reply} is called exactly once, now or later."""
        if self.closed:
            self._counters["refused:closed"] += 1
            return
        if self.keeps is not None and self.keeps(frame, peer, reply):
            self._counters["kept"] += 1
            return
        try:
            request = decode_request(frame)
            if request.version < self._minimum:
                raise WireError("version")
            if isinstance(request, SealedRequest):
                self._handle_sealed(request, peer, reply)
            else:
                self._handle_clear(request, peer, reply)
        except WireError as error:
            self._counters["refused:" + error.reason] += 1
            reply(BAD_LOAD)
        except Exception:
            self._counters["failed:request"] += 1
            self.log.failure("request from {peer} failed", peer=peer, foreign=True)
            reply(BAD_LOAD)

    # -- sealed: from signed-in minions ------------------------------------------------

    def _handle_sealed(self, request: SealedRequest, peer: str, reply: Reply) -> None:
        session = self._find(request.id)
        if session is None:
            raise AuthenticationError("no-session")
        if len(request.blob) > LARGE:
            # Checking and opening megabytes takes longer than others may be kept waiting
            others = self._ctx.sessions.others(session)
            opening = self._ctx.pool(self._open, session, request.blob, others)
            judged = opening.addCallback(self._opened, session, request, peer, reply)
            answered = judged.addErrback(self._refused, peer, reply)
            let_go(answered, self.log, "no reply to a large request")
            return
        self._opened(self._open(session, request.blob), session, request, peer, reply)

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
        session.seen = self._ctx.now()
        session.address = peer
        cmd = load.get("cmd")
        row = self._sealed.get(cmd) if type(cmd) is str else None
        if row is None:
            self._counters["refused:unknown-command"] += 1
            reply(self._seal(session, UNKNOWN, nonce))
            return
        if row.once and nonce and not session.first_use(nonce, ts):
            raise WireError("replayed")
        self._counters[row.counter] += 1
        command = parse_command(load)
        try:
            value = row.handler(self._ctx, session.minion_id, command)
        except Exception:
            self._failed(Failure(), row, session, nonce, reply)
            return
        if isawaitable(value):
            self._later(value, row, request, session, nonce, reply)
        else:
            self._answer(value, row, request, session, nonce, reply)

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

    def _later(
        self,
        value: Any,
        row: Row,
        request: SealedRequest,
        session: MinionSession,
        nonce: str,
        reply: Reply,
    ) -> None:
        d = as_deferred(value)

        def done(result: Any) -> None:
            if isinstance(result, Failure):
                self._failed(result, row, session, nonce, reply)
            else:
                self._answer(result, row, request, session, nonce, reply)

        let_go(d.addBoth(done), self.log, "no reply to {cmd}", cmd=row.counter)

    def _answer(
        self,
        value: Any,
        row: Row,
        request: SealedRequest,
        session: MinionSession,
        nonce: str,
        reply: Reply,
    ) -> None:
        """Send what a handler gave back, in the way of its kind."""
        kind = type(value)
        if kind is Chunk:
            self._reply_chunk(value, row, session, nonce, reply)
        elif kind is Private:
            self._reply_private(value, row, request, session, nonce, reply)
        elif kind is Elsewhere:
            self._reply_elsewhere(value, row, request, session, nonce, reply)
        else:
            reply(self._seal(session, value, nonce))

    def _reply_elsewhere(
        self,
        elsewhere: Elsewhere,
        row: Row,
        request: SealedRequest,
        session: MinionSession,
        nonce: str,
        reply: Reply,
    ) -> None:
        """Pass on what another master has sealed; if nobody has, say so in its place."""
        d = as_deferred(elsewhere.fetch(nonce, request.enc_algo, request.sig_algo))

        def failed(failure: Failure) -> None:
            self._counters["failed:" + row.counter] += 1
            self.log.error(
                "{cmd} of {minion}: {why}",
                cmd=row.counter,
                minion=session.minion_id,
                why=why(failure),
            )
            private = Private(elsewhere.failed)
            self._reply_private(private, row, request, session, nonce, reply)

        let_go(d.addCallbacks(reply, failed), self.log, "no reply to {cmd}", cmd=row.counter)

    def _failed(
        self, failure: Failure, row: Row, session: MinionSession, nonce: str, reply: Reply
    ) -> None:
        """Salt answers an empty text to a failure; some must stay without any answer."""
        self._counters["failed:" + row.counter] += 1
        if failure.check(WireError):
            reply(BAD_LOAD)
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
        reply(self._seal(session, "", nonce))

    def _reply_private(
        self,
        private: Private,
        row: Row,
        request: SealedRequest,
        session: MinionSession,
        nonce: str,
        reply: Reply,
    ) -> None:
        """Seal a pillar for this minion alone; the signature is made in a thread."""
        seal_it = partial(
            encode_private_reply,
            private.packed,
            minion_key=session.public,
            master_key=self._ctx.identity,
            nonce=nonce,
            entropy=self._entropy,
            enc_algo=request.enc_algo,
            sig_algo=request.sig_algo,
        )
        d = self._ctx.pool(seal_it)
        sent = d.addCallbacks(reply, lambda f: self._failed(f, row, session, nonce, reply))
        let_go(sent, self.log, "no reply to {cmd}", cmd=row.counter)

    def _reply_chunk(
        self, chunk: Chunk, row: Row, session: MinionSession, nonce: str, reply: Reply
    ) -> None:
        """Seal a large chunk in a thread, where AES and HMAC keep nobody waiting."""
        d = self._ctx.pool(
            encode_sealed_chunk, session.key, chunk.data, chunk.rest, self._entropy(16), nonce
        )
        sent = d.addBoth(_after, chunk.sealed).addCallbacks(
            reply, lambda f: self._failed(f, row, session, nonce, reply)
        )
        let_go(sent, self.log, "no reply to {cmd}", cmd=row.counter)

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
        value = row.handler(self._ctx, request, peer)
        if not isawaitable(value):
            reply(value)
            return
        d = as_deferred(value)

        def done(result: Any) -> None:
            if isinstance(result, Failure):
                self._counters["failed:" + row.counter] += 1
                if not result.check(WireError):
                    self.log.failure("{cmd} failed", failure=result, cmd=row.counter, foreign=True)
                reply(BAD_LOAD)
            elif result is not None:
                reply(result)

        let_go(d.addBoth(done), self.log, "no reply to {cmd}", cmd=row.counter)


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
