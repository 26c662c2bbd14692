"""
Objects that this node lacks, requested as fast as it can store them.

They are pulled: this node requests only as many bytes at a time as it is ready to hold, which is
the flow control. An object that was not requested, or that does not match its digest, breaks the
rules.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from saltwisted.cluster.roots.intake import WINDOW, Intake
from saltwisted.cluster.roots.parcels import (
    PACKED,
    RAW,
    SLICE,
    SLICE_HEAD,
    SLICES,
    Growing,
    Want,
    open_data,
    store_delta,
    store_slices,
)
from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.frames import WANT
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError, TransportClosed
from saltwisted.stores.roots.objects import ContentStore

ASKED_AT_ONCE = 1000
"""Objects in one request."""
UNPACKED_HERE = 8 * 1024
PLAIN_HERE = 64 * 1024
"""Bytes of a message with objects, packed and plain, that are unpacked in the reactor thread; more
goes to the pool."""
MOST_UNASKED = 1000
"""Objects that may come of what was given up meanwhile."""


def _weight(want: Want) -> int:
    """
    What it counts in the window. A large object is read as it comes, and what is not stored yet
    stops the reading.
    """
    return min(want.size, WINDOW // 2) if want.is_large else want.size


@frozen
class Coming:
    """How many of the requested contents have arrived, and how many bytes."""

    done: int
    of: int
    bytes_done: int
    bytes_of: int


@define(eq=False)
class Fetch:
    """
    Objects on their way here, and the window: which of them have been requested so far.

    @ivar waiting: not requested yet, small ones first.
    @ivar asked: digest to what was requested, and C{bytes_asked} of them.
    @ivar count: how many there are in total, and C{size} bytes of them.
    @ivar came: how many have arrived, and C{bytes_came} bytes of them.
    """

    share: str
    store: ContentStore
    done: Deferred[None]
    waiting: deque[Want] = field(factory=deque)
    asked: dict[bytes, Want] = field(factory=dict)
    bytes_asked: int = 0
    count: int = 0
    size: int = 0
    came: int = 0
    bytes_came: int = 0

    @property
    def is_over(self) -> bool:
        """Whether all have come."""
        return not self.waiting and not self.asked

    def add(self, wants: Sequence[Want]) -> None:
        """These are to come."""
        self.waiting.extend(sorted(wants, key=lambda want: want.is_large))
        self.count += len(wants)
        self.size += sum(want.size for want in wants)

    def ask(self) -> list[Want]:
        """Those that are asked for now: nothing until half the window is free."""
        found: list[Want] = []
        if self.bytes_asked > WINDOW // 2 or len(self.asked) > ASKED_AT_ONCE:
            return found
        while self.waiting and (self.bytes_asked < WINDOW or not self.asked):
            if len(found) >= ASKED_AT_ONCE:
                break
            want = self.waiting.popleft()
            self.asked[want.digest] = want
            self.bytes_asked += _weight(want)
            found.append(want)
        return found

    def take(self, want: Want) -> bool:
        """It is here; false if it was before."""
        if self.asked.pop(want.digest, None) is None:
            return False
        self.bytes_asked -= _weight(want)
        self.came += 1
        self.bytes_came += want.size
        return True


class Requests(Protocol):
    """What a stream provides to the code that fetches objects through it."""

    node: str
    closed: bool

    def tell(self, kind: int, share: str, body: bytes) -> None:
        """Send a message about a share, if the peer has it."""


class ObjectFetcher:
    """
    The objects that are fetched through one stream. Reactor thread only.

    @param pool: runs a blocking call.
    @param intake: stores objects as they arrive.
    """

    def __init__(
        self, stream: Requests, pool: Callable[..., Deferred[Any]], intake: Intake
    ) -> None:
        self._stream = stream
        self._pool = pool
        self._intake = intake
        self._fetches: list[Fetch] = []
        self._growing: dict[bytes, Growing] = {}
        self._deltas: dict[bytes, list[Any]] = {}
        self._unasked = 0
        self._opening = 0

    def fetch(self, share: str, store: ContentStore, wants: Sequence[Want]) -> Deferred[None]:
        """
        Get objects; fires when all are in the store (not yet durable), fails if the stream
        ends or the peer has not got one of them.
        """
        fetch = Fetch(share, store, Deferred())
        if self._stream.closed:
            fetch.done.errback(TransportClosed(f"no roots stream to {self._stream.node}"))
            return fetch.done
        fetch.add(wants)
        self._fetches.append(fetch)
        self._ask(fetch)
        return fetch.done

    def coming(self, share: str) -> Coming | None:
        """How much of what a share gets here has come; nothing if it gets nothing."""
        fetches = [fetch for fetch in self._fetches if fetch.share == share]
        if not fetches:
            return None
        growing = self._growing.items()
        parts = sum(one.at for digest, one in growing if any(digest in f.asked for f in fetches))
        return Coming(
            done=sum(fetch.came for fetch in fetches),
            of=sum(fetch.count for fetch in fetches),
            bytes_done=sum(fetch.bytes_came for fetch in fetches) + parts,
            bytes_of=sum(fetch.size for fetch in fetches),
        )

    def ask_more(self) -> None:
        """There is room again."""
        for fetch in list(self._fetches):
            self._ask(fetch)

    def lost(self) -> None:
        """The stream has ended: requested objects will not arrive."""
        fetches, self._fetches = self._fetches, []
        for fetch in fetches:
            fetch.done.errback(TransportClosed(f"the roots stream to {self._stream.node} was lost"))

    def _ask(self, fetch: Fetch) -> None:
        if fetch.is_over:
            if fetch in self._fetches:
                self._fetches.remove(fetch)
                fetch.done.callback(None)
            return
        if self._intake.is_full:
            return
        request: list[list[Any]] = []
        for want in fetch.ask():
            if want.is_large:
                with suppress(OSError):
                    want.offset = os.stat(fetch.store.large.part_path(want.digest)).st_size
                if want.offset >= want.size:
                    want.offset = 0
            request.append([want.digest, want.base, want.offset])
        if request:
            self._stream.tell(WANT, fetch.share, codec.pack(request))

    def _wanted_by(self, share: str, digest: object) -> tuple[Fetch, Want] | None:
        for fetch in self._fetches:
            if fetch.share == share and isinstance(digest, bytes):
                want = fetch.asked.get(digest)
                if want is not None:
                    return fetch, want
        # Perhaps of a fetch that was given up meanwhile; not for ever
        self._unasked += 1
        if self._unasked > MOST_UNASKED:
            raise Forbidden("not-asked")
        return None

    def _arrived(self, *arrived: tuple[Fetch, Want]) -> None:
        more: list[Fetch] = []
        for fetch, want in arrived:
            if fetch.take(want) and fetch not in more:
                more.append(fetch)
        for fetch in more:
            self._ask(fetch)

    # -- what comes

    def data(self, share: str, body: bytes) -> None:
        """
        A message with objects, or with a part of one.

        @raises Forbidden: it is against the rules.
        """
        if body[:1] == PACKED:
            self.slice(share, [body])
        elif not self._opening and _is_short(body):
            self._opened(share, open_data(body))
        else:
            # One that came later does not overtake it: the parts of a delta stay in order
            self._opening += 1

            def opened(value: Any) -> None:
                self._opening -= 1
                self._opened(share, value)

            self._intake.add(len(body), lambda: self._pool(open_data, body), opened)

    def _opened(self, share: str, value: list[Any]) -> None:
        kind = value[0]
        if kind == "p":
            self._pack(share, value[1])
        elif kind == "d" and len(value) == 5:
            self._delta(share, value[1], value[2], value[3], value[4])
        elif kind == "n":
            found = self._wanted_by(share, value[1])
            if found is not None:
                fetch = found[0]
                self._fetches.remove(fetch)
                fetch.done.errback(StoreError("the peer does not have an object", value[1].hex()))
        else:
            raise Forbidden("data")

    def _pack(self, share: str, items: list[tuple[bytes, bytes]]) -> None:
        """Small objects, each of which is what its digest says."""
        took: list[tuple[Fetch, Want]] = []
        pairs = []
        fetch: Fetch | None = None
        for digest, data in items:
            # What was asked for together mostly comes together
            want = fetch.asked.get(digest) if fetch is not None else None
            if want is None or fetch is None:
                found = self._wanted_by(share, digest)
                if found is None:
                    continue
                fetch, want = found
            if len(data) != want.size:
                raise Forbidden("object-size")
            took.append((fetch, want))
            pairs.append((digest, data))
        if not took:
            return
        store = took[0][0].store
        size = sum(len(data) for _, data in pairs)

        def stored(_: Any) -> None:
            self._arrived(*took)

        self._intake.add(size, lambda: self._pool(store.put_all, pairs), stored)

    def slice(self, share: str, pieces: frames.Pieces) -> None:
        """
        A slice of a large object, in the pieces in which it came.

        @raises Forbidden: it is against the rules.
        """
        if len(pieces[0]) < SLICE_HEAD.size:
            pieces = [b"".join(pieces)]
        if sum(map(len, pieces)) <= SLICE_HEAD.size:
            raise Forbidden("data")
        form, digest, offset, length = SLICE_HEAD.unpack_from(pieces[0])
        found = self._wanted_by(share, digest)
        if found is None:
            return
        fetch, want = found
        data = [memoryview(pieces[0])[SLICE_HEAD.size :], *pieces[1:]]
        if not 0 < length <= SLICE or (form == RAW and length != sum(map(len, data))):
            raise Forbidden("data")
        if offset + length > want.size:
            raise Forbidden("object-size")
        growing = self._growing.get(digest)
        expected = want.offset if growing is None else growing.at
        if offset != expected:
            raise Forbidden("object-offset")
        if growing is None:
            growing = self._growing[digest] = Growing(want.size, offset)
        growing.at = offset + length
        growing.slices.append((offset, form, length, data))
        growing.waiting += length
        if growing.at < want.size and growing.waiting < SLICES * SLICE:
            return
        last = growing.at == want.size
        if last:
            del self._growing[digest]
        slices, growing.slices = growing.slices, []
        size, growing.waiting = growing.waiting, 0

        def stored(good: Any) -> None:
            if not good:
                raise Forbidden("object-digest")
            if last:
                self._arrived((fetch, want))

        def work() -> Any:
            return self._pool(store_slices, fetch.store, want, growing, slices, last)

        self._intake.add(size, work, stored)

    def _delta(
        self, share: str, digest: object, base: object, last: object, operations: object
    ) -> None:
        found = self._wanted_by(share, digest)
        if found is None:
            return
        fetch, want = found
        if base != want.base or not want.base or not isinstance(operations, list):
            raise Forbidden("data")
        parts = self._deltas.setdefault(want.digest, [])
        parts.extend(operations)
        if len(parts) > 60_000 or sum(len(p) for p in parts if isinstance(p, bytes)) > want.size:
            raise Forbidden("delta")
        if not last:
            return
        del self._deltas[want.digest]

        def done(good: Any) -> None:
            if not good:
                raise Forbidden("object-digest")
            self._arrived((fetch, want))

        self._intake.add(1024, lambda: self._pool(store_delta, fetch.store, want, parts), done)


def _is_short(body: bytes) -> bool:
    """Whether there is little to do to open a message with objects."""
    return len(body) <= UNPACKED_HERE and codec.is_short(body, PLAIN_HERE)
