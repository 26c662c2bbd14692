"""
What a peer has requested, sent while its stream takes more: small objects before large ones.

Packs are made while slices are sent, each on another core; a pack that was requested later goes
before the next slice.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.parcels import (
    SLICE,
    SLICES,
    Frame,
    Outgoing,
    cut,
    find_delta,
    make_pack,
    make_slices,
)
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.frames import DATA
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.transports.deferreds import let_go

PACK = 1024 * 1024
PACKS = 2
"""Packs that are made at a time."""
MOST_WANTED = 50_000
WANT_BYTES = 96
"""Bytes of what asks for one object, at the most."""
"""Objects that a peer may have asked for and not been sent yet."""
DELTA_MOST = 512 * 1024 * 1024


class Shares(Protocol):
    """The shares of this node, as a sender sees them."""

    def store(self, name: str) -> ContentStore | None:
        """The content store of a share; C{None} if it is not open."""

    def number(self, name: str) -> int | None:
        """How we call a share in our frames."""

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """Run something that may block."""


class Outlet(Protocol):
    """A stream, as a sender sees it."""

    closed: bool

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a message at once."""

    def send_whole(self, head: bytes, body: bytes) -> None:
        """Send a frame that is made already, without copying its body."""


class Pack(NamedTuple):
    """Small objects on their way to be one message."""

    share: str
    first: bytes
    body: Deferred[bytes]


def unpack_wanted(body: bytes) -> Any:
    """
    What a peer wants, not looked at yet.

    @raises Forbidden: more than anybody may want.
    """
    if len(body) > WANT_BYTES * MOST_WANTED:
        raise Forbidden("too-many-wanted")
    return codec.unpack(body, 4 * MOST_WANTED)


class ObjectSender:
    """
    The objects that a peer has requested and that have not been sent yet. Reactor thread only.

    @ivar queued: how many of them have not been started.
    """

    log = Logger()

    def __init__(self, shares: Shares, out: Outlet) -> None:
        self.queued = 0
        self._shares = shares
        self._out = out
        self._small: deque[Outgoing] = deque()
        self._large: deque[Outgoing] = deque()
        self._packs: deque[Pack] = deque()
        self._paused = False
        self._running = False

    def asked(self, share: str, value: Any) -> None:
        """
        The peer wants these: digest, base and offset of each.

        @raises Forbidden: it is against the rules.
        """
        if not isinstance(value, list) or len(value) + self.queued > MOST_WANTED:
            raise Forbidden("too-many-wanted")
        store = self._shares.store(share)
        for item in value:
            digest, base, offset = item if isinstance(item, list) and len(item) == 3 else (0, 0, 0)
            if (
                type(digest) is not bytes
                or type(base) is not bytes
                or type(offset) is not int
                or len(digest) != 32
                or (base and len(base) != 32)
                or offset < 0
            ):
                raise Forbidden("want")
            size = store.size(digest) if store is not None else -1
            queue = self._small if size <= SMALL else self._large
            queue.append(Outgoing(share, digest, size, base, offset))
        self.queued += len(value)
        self._go_on()

    def pause(self) -> None:
        """The peer does not keep up: nothing more is sent."""
        self._paused = True

    def resume(self) -> None:
        """The stream takes more."""
        self._paused = False
        self._go_on()

    def drop(self) -> None:
        """The stream is lost: nobody waits for these."""
        self._small.clear()
        self._large.clear()
        self._packs.clear()

    def _is_open(self) -> bool:
        return not self._out.closed

    def _go_on(self) -> None:
        if self._running or self._paused or not self._is_open():
            return
        if self._small or self._large or self._packs:
            self._running = True
            let_go(Deferred.fromCoroutine(self._serve()), self.log, "sending objects failed")

    async def _serve(self) -> None:
        try:
            while (self._small or self._large or self._packs) and self._is_open():
                if self._paused:
                    return
                while len(self._packs) < PACKS and self._begin_pack():
                    pass
                if self._packs and (self._packs[0].body.called or not self._has_slices()):
                    await self._serve_pack(self._packs.popleft())
                elif self._large:
                    # Also while the next packs are being made: each keeps another core busy
                    want = self._large.popleft()
                    self.queued -= 1
                    await self._serve_large(want)
        finally:
            self._running = False
        self._go_on()

    async def _serve_pack(self, pack: Pack) -> None:
        try:
            body = await pack.body
        except Exception:
            self._failed(pack.share, pack.first)
        else:
            self._write(pack.share, body)

    def _failed(self, share: str, digest: bytes) -> None:
        """In an except clause: whoever wants it asks elsewhere, and the next ones are sent."""
        self.log.failure("roots: objects of {share} were not sent", share=share)
        self._say(share, ["n", digest])

    def _has_slices(self) -> bool:
        """Whether the next large object goes in slices, and needs no delta to be found first."""
        return bool(self._large) and not (self._large[0].base and not self._large[0].offset)

    def _begin_pack(self) -> bool:
        """Have the next small objects packed; false if there are none."""
        wants: list[Outgoing] = []
        size = 0
        share = ""
        while self._small and size < PACK and not (wants and self._small[0].share != share):
            want = self._small.popleft()
            share = want.share
            self.queued -= 1
            if want.size < 0:
                self._say(share, ["n", want.digest])
            else:
                wants.append(want)
                size += want.size
        store = self._shares.store(share) if wants else None
        if store is not None:
            body = self._shares.pool(make_pack, store, wants)
            self._packs.append(Pack(share, wants[0].digest, body))
            return True
        for want in wants:
            self._say(share, ["n", want.digest])
        return False

    def _write(self, share: str, body: bytes) -> None:
        number = self._shares.number(share)
        if number is not None:
            self._out.send(DATA, number, body)

    def _say(self, share: str, value: Any) -> None:
        self._write(share, codec.squeeze(codec.pack(value)))

    async def _serve_large(self, want: Outgoing) -> None:
        store = self._shares.store(want.share)
        if store is None:
            self._say(want.share, ["n", want.digest])
            return
        try:
            await self._serve_from(store, want)
        except Exception:
            self._failed(want.share, want.digest)

    async def _serve_from(self, store: ContentStore, want: Outgoing) -> None:
        if want.base and not want.offset and store.has(want.base) and want.size <= DELTA_MOST:
            operations = await self._shares.pool(find_delta, store, want)
            if operations is not None:
                self._send_delta(want, operations)
                return
        await self._serve_slices(store, want)

    async def _serve_slices(self, store: ContentStore, want: Outgoing) -> None:
        number = self._shares.number(want.share)
        while number is not None and want.offset < want.size and self._is_open():
            if not want.slices:
                coming = want.coming or self._read_slices(store, want, number)
                want.coming = None
                try:
                    want.slices = deque(await coming)
                except StoreError as error:
                    self.log.error("roots: an object cannot be read: {error}", error=str(error))
                    self._say(want.share, ["n", want.digest])
                    return
                if not self._is_open():
                    return
                # The next ones are read while these are encrypted
                if want.offset + SLICES * SLICE < want.size:
                    want.coming = self._read_slices(store, want, number, SLICES * SLICE)
                elif self._large and self._large[0].share == want.share:
                    self._begin_next(store, self._large[0], number)
            self._out.send_whole(*want.slices.popleft())
            want.offset = min(want.offset + SLICE, want.size)
            if want.offset < want.size and (self._paused or self._packs or self._small):
                # Packs that were asked for since come first
                want.base = b""
                self._large.appendleft(want)
                self.queued += 1
                return

    def _read_slices(
        self, store: ContentStore, want: Outgoing, number: int, beyond: int = 0
    ) -> Deferred[list[Frame]]:
        d: Deferred[list[Frame]] = self._shares.pool(
            make_slices, store, want, number, want.offset + beyond
        )
        return d

    def _begin_next(self, store: ContentStore, want: Outgoing, number: int) -> None:
        """The object after this one is begun to be read, unless a delta may do."""
        if want.size > SMALL and not want.base and not want.slices and want.coming is None:
            want.coming = self._read_slices(store, want, number)

    def _send_delta(self, want: Outgoing, operations: list[Any]) -> None:
        part: list[Any] = []
        size = 0
        for one in cut(operations):
            part.append(one)
            size += len(one) if isinstance(one, bytes) else 12
            if size >= SLICE:
                self._say(want.share, ["d", want.digest, want.base, False, part])
                part, size = [], 0
        self._say(want.share, ["d", want.digest, want.base, True, part])
