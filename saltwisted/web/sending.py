"""
Large answers, sent as fast as their clients read: from memory, or from a file in parts.

A client that does not read is cut off after a while, or at once where there is no room for what
waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from saltwisted.domain.api.compressing import compressing
from saltwisted.doors import HTTP_USERS, STATIC
from saltwisted.transports.deferreds import let_go
from saltwisted.turns import turns_of

CHUNK = 65_536
"""Bytes of an answer from memory that a connection gets at once."""
AT_ONCE = 8
"""Parts of files, or small files, that are read at the same time."""
PART = 32_768
"""Bytes of a file that are read at once, and that a client may leave unread."""
MUTE = 5.0
"""Seconds for which nothing of an answer has been read that may be cut off for others."""
STALLED = STATIC.holds
"""Seconds for which a client may read nothing of its answer."""


class Source(Protocol):
    """
    Something long that is not in memory.

    @ivar size: its bytes; C{None} if that is not known before.
    """

    size: int | None

    async def part(self) -> bytes:
        """
        What comes next; nothing at its end.

        @raises OSError: there is no more of what was promised.
        """

    def close(self) -> None:
        """No more of it is wanted."""


class Readers:
    """
    Reads files in threads, few at a time, and the answers come in different turns of the reactor.

    To hand something to a thread costs the reactor a tenth of a millisecond, and to send a part of
    a file half a one: two hundred clients at once would keep all others waiting.
    """

    def __init__(self, reactor: Any, in_thread: Callable[..., Awaitable[Any]]) -> None:
        """
        @param in_thread: C{in_thread(function, *args)} works where it may wait for a disk.
        """
        self._turns = turns_of(reactor)
        self._in_thread = in_thread
        self._places = DeferredSemaphore(AT_ONCE)

    async def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a function that blocks."""
        await self._places.acquire()
        try:
            return await self._in_thread(function, *args)
        finally:
            # What its caller does now is done in this turn
            self._turns.later(self._places.release)


class FileSource:
    """
    An open file.

    @ivar size: bytes that it gives; C{None} if that is not known before.
    """

    def __init__(
        self, in_thread: Callable[..., Awaitable[Any]], descriptor: int, size: int, gzip: bool
    ) -> None:
        """
        @param size: of the file when it was opened: what is added later is not sent.
        """
        self._in_thread = in_thread
        self._descriptor: int | None = descriptor
        self._left = size
        self._at = 0
        self._packing = compressing() if gzip else None
        self.size = None if gzip else size

    async def part(self) -> bytes:
        """The next bytes of the file."""
        while self._descriptor is not None and self._left:
            packing = self._packing
            read, made = await self._in_thread(_part, self._descriptor, self._at, packing)
            read = min(read, self._left)
            self._at += read
            self._left -= read
            if packing is None:
                return bytes(made[:read])
            if not self._left:
                self._packing = None
                made += packing.flush()
            if made:
                return bytes(made)
        return b""

    def close(self) -> None:
        """Close it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _part(descriptor: int, at: int, packing: Any) -> tuple[int, bytes]:
    """Blocks."""
    data = os.pread(descriptor, PART, at)
    if not data:
        raise OSError("the file has become shorter")
    return len(data), data if packing is None else packing.compress(data)


def sliced(content: Iterable[bytes]) -> Iterator[bytes]:
    """The same in pieces of at most L{CHUNK}: what a connection has been given is copied by it."""
    for piece in content:
        if len(piece) <= CHUNK:
            yield piece
        else:
            for at in range(0, len(piece), CHUNK):
                yield piece[at : at + CHUNK]


class Unread:
    """
    All answers from memory that are being sent.

    @ivar kept: their bytes.
    """

    def __init__(self, reactor: Any, most: int = HTTP_USERS.memory_all) -> None:
        """
        @param most: bytes beyond which those are cut off that have not been read for L{MUTE}.
        """
        self._reactor = reactor
        self._most = most
        self._sizes: dict[Sending, int] = {}
        self.kept = 0

    def add(self, sending: Sending, size: int) -> None:
        """One more begins."""
        self._sizes[sending] = size
        self.kept += size
        if self.kept > self._most:
            mute = self._reactor.seconds() - MUTE
            for each in sorted(self._sizes, key=lambda one: one.heard):
                if each.heard > mute or self.kept <= self._most:
                    break
                if each.paused:
                    self.remove(each)
                    each.give_up()

    def remove(self, sending: Sending) -> None:
        """It has ended."""
        self.kept -= self._sizes.pop(sending, 0)


@implementer(IPushProducer)
class Sending:
    """
    An answer from memory.

    @ivar paused: whether its client has not read yet what it was sent.
    @ivar heard: when it has read something last.
    """

    def __init__(
        self, reactor: Any, request: Any, content: Collection[bytes], unread: Unread | None = None
    ) -> None:
        self._reactor = reactor
        self._request = request
        self._size = sum(map(len, content))
        self._content = sliced(content)
        self._unread = unread
        self._stalled: Any = None
        self.paused = False
        self.heard: float = reactor.seconds()

    def start(self) -> None:
        """Begin."""
        self.heard = self._reactor.seconds()
        self._stalled = self._reactor.callLater(STALLED, self.give_up)
        if self._unread is not None:
            self._unread.add(self, self._size)
        self._request.notifyFinish().addBoth(lambda result: self.stopProducing())
        self._request.registerProducer(self, True)
        self.go()

    def go(self) -> None:
        """Send what the client takes."""
        while not self.paused:
            chunk: list[bytes] = []
            size = 0
            for piece in self._content:
                chunk.append(piece)
                size += len(piece)
                if size >= CHUNK:
                    break
            if not chunk:
                self.finish()
                return
            self._request.write(b"".join(chunk))

    def finish(self) -> None:
        """All is sent."""
        self.stopProducing()
        self._request.unregisterProducer()
        self._request.finish()

    def pauseProducing(self) -> None:
        """The client has enough for now."""
        self.paused = True

    def resumeProducing(self) -> None:
        """The client has read what was sent."""
        if self._stalled.active():
            self._stalled.reset(STALLED)
            self.heard = self._reactor.seconds()
            self.paused = False
            self.go()

    def stopProducing(self) -> None:
        """It is over, or nobody is there."""
        self.paused = True
        self._content = iter(())
        if self._unread is not None:
            self._unread.remove(self)
        if self._stalled.active():
            self._stalled.cancel()

    def give_up(self) -> None:
        """The client does not read."""
        self._request.transport.abortConnection()


class Streaming(Sending):
    """An answer from a source, of which only what is being sent is in memory."""

    log = Logger()

    def __init__(self, reactor: Any, request: Any, source: Source) -> None:
        super().__init__(reactor, request, ())
        self._source = source
        self._held = request.channel.held_apart(self.give_up)
        self._reads = self._over = False

    def start(self) -> None:
        """Begin."""
        # What is being read, and what the connection keeps
        self._held.set(2 * PART)
        super().start()

    def go(self) -> None:
        """Send what the client takes."""
        if not self._reads and not self._over:
            self._reads = True
            let_go(
                Deferred.fromCoroutine(self._read()), self.log, "an answer could not be sent whole"
            )

    def _is_over(self) -> bool:
        return self._over

    async def _read(self) -> None:
        try:
            while True:
                part = await self._source.part()
                if self._is_over():
                    return
                if not part:
                    self.finish()
                    return
                self._request.write(part)
                if self.paused:
                    return
        except OSError as error:
            self.log.warn("a file could not be sent whole: {error}", error=str(error))
            self.give_up()
        finally:
            self._reads = False
            if self._is_over():
                self._source.close()

    def stopProducing(self) -> None:
        """It is over, or nobody is there."""
        super().stopProducing()
        self._held.release()
        self._over = True
        if not self._reads:
            # A thread that reads has it closed when it is done
            self._source.close()
