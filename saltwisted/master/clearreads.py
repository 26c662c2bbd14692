"""
Clear requests that take longer than a moment to read.

Anybody may send a clear request, so its size is judged before anything of it is decoded. What is
short is read at once (L{saltwisted.wire.envelope.request_at_once}); what comes here is read in
turns of the reactor, one request at a time, and those of one address behind those of others. A
request above L{LARGEST} is only read if it has the key of a local user in it: C{salt} and programs
like it send long lists of minions, or files as arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.doors import CLEAR
from saltwisted.errors import WireError
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import stepped
from saltwisted.wire.decoding import ACCEPTED, STRANGER, at_once
from saltwisted.wire.envelope import MAX_CLEAR, Request, request_steps, user_key_steps

LARGEST = CLEAR.request
"""Bytes of a request of somebody who has proved nothing."""

Frame = bytes | memoryview


class ClearReads:
    """Reads them in turn. Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        in_thread: Callable[..., Deferred[Any]],
        is_key: Callable[[bytes], bool],
    ) -> None:
        """
        @param is_key: whether it is the key of a local user.
        """
        self._clock = clock
        self._in_thread = in_thread
        self._is_key = is_key
        self._queues: dict[str, deque[tuple[Frame, Deferred[Request]]]] = {}
        self._bytes: dict[str, int] = {}
        self._reads = False

    def read(self, frame: Frame, peer: str) -> Deferred[Request]:
        """
        Read a request when those before it have been read.

        @param peer: the address it came from.
        @raises WireError: (errback) it is too large, too much waits, or it is no request.
        """
        asked: Deferred[Request] = Deferred()
        why = self._refusal(len(frame), peer)
        if why:
            asked.errback(WireError(why))
            return asked
        self._bytes[peer] = self._bytes.get(peer, 0) + len(frame)
        self._queues.setdefault(peer, deque()).append((frame, asked))
        if not self._reads:
            self._reads = True
            let_go(Deferred.fromCoroutine(self._all()), self.log, "clear requests are not read")
        return asked

    def _refusal(self, size: int, peer: str) -> str:
        if size > MAX_CLEAR:
            return "clear size"
        if self._bytes.get(peer, 0) + size > CLEAR.memory:
            return "clear busy"
        if sum(self._bytes.values()) + size > CLEAR.memory_all:
            return "clear busy"
        return ""

    async def _all(self) -> None:
        try:
            while self._queues:
                peer = next(iter(self._queues))
                queue = self._queues.pop(peer)
                frame, asked = queue.popleft()
                if queue:
                    # Behind the others
                    self._queues[peer] = queue
                try:
                    answer: Any = await self._one(frame)
                except Exception as error:
                    answer = error if isinstance(error, WireError) else WireError("clear")
                left = self._bytes.pop(peer) - len(frame)
                if left:
                    self._bytes[peer] = left
                if isinstance(answer, WireError):
                    asked.errback(answer)
                else:
                    asked.callback(answer)
        finally:
            self._reads = False

    async def _one(self, frame: Frame) -> Request:
        request: Request
        if len(frame) <= LARGEST:
            request = await stepped(self._clock, request_steps(frame, STRANGER))
            return request
        key = await stepped(self._clock, user_key_steps(frame))
        if not self._is_key(key):
            raise WireError("clear size")
        request = await self._in_thread(at_once, request_steps(frame, ACCEPTED))
        return request
