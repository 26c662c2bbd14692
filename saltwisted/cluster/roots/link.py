"""
One stream of roots with one peer: messages out by urgency, objects in by asking for them.

Control messages go at once; packs and slices of large objects only while the transport takes
more, so that an edit never waits behind a large file. Objects are pulled: a node that lacks them
asks for so many bytes at a time as it is ready to hold, which is the flow control.
A peer that breaks the rules is told why, and the stream is closed.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.delta import (
    apply_delta,
    literal_bytes,
    make_delta,
    pack_delta,
    unpack_delta,
)
from saltwisted.domain.roots.entry import Knowledge, ReplicaId
from saltwisted.domain.roots.frames import (
    ACK,
    BATCH,
    DATA,
    ERR,
    HELLO,
    OFFER,
    PING,
    PLAIN,
    PULL,
    WANT,
)
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError, TransportClosed
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.transports.bulk import widen
from saltwisted.transports.deferreds import let_go

VERSION = 1
WINDOW = 8 * 1024 * 1024
"""Bytes of objects asked for and not received yet; also of received ones not written yet."""
PACK = 1024 * 1024
PACKS = 2
"""Packs that are made at a time."""
SLICE = 512 * 1024
SLICES = 4
"""Slices that are read, or written, in one go: each go is a way to the pool and back."""
SLICE_HEAD = struct.Struct(">c32sQI")
"""Plain or packed, the object, where it begins, and how long it is unpacked."""
RAW, PACKED = b"s", b"t"
ASKED_AT_ONCE = 1000
"""Objects in one request."""
UNPACKED_HERE = 8 * 1024
"""Bytes of a message with objects that are unpacked in the reactor thread; more goes to the
pool."""
MOST_WANTED = 50_000
"""Objects that a peer may have asked for and not been sent yet."""
MOST_UNASKED = 1000
DELTA_TIME = 1.0
DELTA_MOST = 512 * 1024 * 1024
PING_EVERY = 30.0
TURN = 0.003
"""Seconds for which messages are taken before the reactor has its turn."""
_SAMPLE = 64 * 1024


Slice = tuple[int, bytes, int, list[bytes | memoryview]]


@define
class Want:
    """
    One requested object, as the asking side or the asked side sees it.

    @ivar squeezable: whether compressing it is worth while, once that was tried.
    @ivar slices: those that were read ahead, as frames.
    @ivar coming: those that are being read.
    """

    digest: bytes
    size: int
    base: bytes = b""
    offset: int = 0
    squeezable: bool | None = None
    slices: deque[tuple[bytes, bytes]] | None = None
    coming: Deferred[list[tuple[bytes, bytes]]] | None = None


@define
class Fetch:
    """
    Objects on their way here.

    @ivar waiting: not asked for yet.
    @ivar asked: digest to what was asked.
    @ivar count: how many there are in all, and C{size} bytes of them.
    @ivar came: how many are here, and C{bytes_came} bytes of them.
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


@frozen
class Coming:
    """How many contents have come of those that are fetched, and how many bytes."""

    done: int
    of: int
    bytes_done: int
    bytes_of: int


@define
class Growing:
    """
    A large object that arrives in slices; hashed as it comes.

    @ivar slices: those that have come and are not being written yet: offset, form, length, bytes.
    """

    size: int
    at: int
    hash: Any = None
    slices: list[Slice] = field(factory=list)
    waiting: int = 0


@implementer(IPushProducer)
class RootLink(Protocol):
    """
    The protocol of one stream.

    @param owner: the service: C{hello() -> value}, C{link_up(link)}, C{link_down(link)},
        C{received(link, kind, share, body)} and C{store(share)}; C{pool(function, *args)}.
    """

    log = Logger()
    transport: Any

    def __init__(self, owner: Any, node: str, dialled: bool, clock: Any) -> None:
        self.node = node
        self.dialled = dialled
        self.shares: list[str] = []
        self.knowledge: dict[str, dict[ReplicaId, int]] = {}
        self.began: dict[str, Knowledge] = {}
        """What the peer knew of each share when it introduced itself."""
        self.digests: dict[str, bytes] = {}
        self.clock_ms = 0
        self.heard_at = 0.0
        self.bytes_in = self.bytes_out = 0
        self.error = ""
        self.greeted = False
        self._owner = owner
        self._clock = clock
        self._frames = frames.Frames()
        self._paused = False
        self._small: deque[tuple[str, Want]] = deque()
        self._large: deque[tuple[str, Want]] = deque()
        self._wanted = 0
        self._packs: deque[tuple[str, Deferred[bytes]]] = deque()
        self._unasked = 0
        self._sending = False
        self._fetches: list[Fetch] = []
        self._growing: dict[bytes, Growing] = {}
        self._deltas: dict[bytes, list[Any]] = {}
        self._unwritten = 0
        self._writing: deque[Callable[[], Any]] = deque()
        self._write_running = False
        self._opening = 0
        self._reading_paused = False
        self._turn: Any = None
        self._ping: Any = None
        self.closed = False

    # -- the connection

    def connectionMade(self) -> None:
        """Introduce ourselves."""
        transport = self.transport
        with suppress(AttributeError):
            transport.setTcpNoDelay(True)
        widen(transport)
        transport.registerProducer(self, True)
        self.heard_at = self._clock.seconds()
        self.send(HELLO, frames.NO_SHARE, codec.pack(self._owner.hello(self.node)))
        self._ping = self._clock.callLater(PING_EVERY, self._pinging)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """What was asked for will not come."""
        self.closed = True
        if self._ping is not None and self._ping.active():
            self._ping.cancel()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        fetches, self._fetches = self._fetches, []
        for fetch in fetches:
            fetch.done.errback(TransportClosed(f"the roots stream to {self.node} was lost"))
        self._small.clear()
        self._large.clear()
        self._packs.clear()
        self._owner.link_down(self)

    def pauseProducing(self) -> None:
        """The peer does not keep up: large things wait."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Go on."""
        self._paused = False
        self._pump()

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._paused = True

    def close(self, reason: str, path: bytes = b"") -> None:
        """Tell the peer why, and close."""
        if self.closed:
            return
        self.error = reason
        self.log.warn("roots: {node}: {reason}", node=self.node, reason=reason[:200])
        self.send(ERR, frames.NO_SHARE, codec.pack([reason[:500], path[:500]]))
        transport = self.transport
        transport.unregisterProducer()
        # Who reads nothing does not hear the peer's goodbye, and the connection would stay for ever
        transport.resumeProducing()
        transport.loseConnection()
        self.closed = True

    def refuse(self, reason: str) -> None:
        """Tell the peer that something of its was not taken; the stream stays."""
        self.send(ERR, frames.NO_SHARE, codec.pack([reason[:500], b""]))

    def dataReceived(self, data: bytes) -> None:
        """Take messages; the first that is against the rules is the last."""
        if self.closed:
            return
        self.bytes_in += len(data)
        self.heard_at = self._clock.seconds()
        self._frames.add(data)
        if self._turn is None:
            self._take_messages()

    def _take_messages(self) -> None:
        """Some milliseconds' worth of what has come: one piece can hold a thousand messages."""
        behind, self._turn = self._turn is not None, None
        end = self._clock.seconds() + TURN
        try:
            for kind, share, pieces in self._frames.in_pieces():
                if not self._is_open():
                    return
                self._message(kind, share, pieces)
                if self._clock.seconds() > end and self._is_open():
                    self._turn = self._clock.callLater(0, self._take_messages)
                    break
        except Forbidden as error:
            self._owner.flagged(self, error)
            self.close(error.reason, error.path)
        if behind is (self._turn is None):
            self._read_or_not()

    def _read_or_not(self) -> None:
        """Read on, unless too much of what has come is not taken or not written yet."""
        if self.closed:
            return
        if self._turn is not None or self._reading_paused:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def _is_open(self) -> bool:
        return not self.closed

    def _message(self, kind: int, number: int, pieces: frames.Pieces) -> None:
        if kind == DATA and pieces[0][:1] == RAW and self.greeted and number < len(self.shares):
            share = self.shares[number]
            if self._owner.serves(self, share):
                self._slice(share, pieces)
            return
        body = b"".join(pieces)
        if kind == HELLO:
            self._hello(codec.unpack(body))
            return
        if kind == ERR:
            value = codec.unpack(body)
            reason = str(value[0])[:200] if isinstance(value, list) and value else "?"
            self.error = f"refused by the peer: {reason}"
            self.log.warn("roots: {node} refuses: {reason}", node=self.node, reason=reason)
            return
        if not self.greeted:
            raise Forbidden("no-hello")
        if kind == PING:
            self._pinged(codec.unpack(body))
            return
        if number >= len(self.shares):
            raise Forbidden("unknown-share")
        share = self.shares[number]
        if not self._owner.serves(self, share):
            return
        if kind == WANT:
            self._asked(share, codec.unpack(body))
        elif kind == DATA:
            self._data(share, body)
        else:
            self._owner.received(self, kind, share, body)

    # -- who is there

    def _hello(self, value: Any) -> None:
        if (
            self.greeted
            or not isinstance(value, list)
            or len(value) != 3
            or not isinstance(value[2], list)
            or len(value[2]) > frames.MAX_SHARES
        ):
            raise Forbidden("hello")
        if value[0] != VERSION:
            raise Forbidden(f"protocol version {value[0]}")
        self._take_clock(value[1])
        for item in value[2]:
            if (
                not isinstance(item, list)
                or len(item) != 3
                or not isinstance(item[0], str)
                or not isinstance(item[2], bytes)
            ):
                raise Forbidden("hello")
            self.shares.append(item[0])
            self.knowledge[item[0]] = codec.unpack_knowledge(item[1])
            self.began[item[0]] = dict(self.knowledge[item[0]])
            self.digests[item[0]] = item[2]
        self.greeted = True
        self._owner.link_up(self)

    def _take_clock(self, value: Any) -> None:
        if type(value) is int and 0 <= value < 1 << 53:
            self.clock_ms = value

    def _pinging(self) -> None:
        self._ping = self._clock.callLater(PING_EVERY, self._pinging)
        if self._clock.seconds() - self.heard_at > 4 * PING_EVERY:
            self.close("silent")
            return
        self.send(PING, frames.NO_SHARE, codec.pack(self._owner.hello(self.node)))

    def _pinged(self, value: Any) -> None:
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], list):
            raise Forbidden("ping")
        self._take_clock(value[1])
        for item in value[2]:
            if not isinstance(item, list) or len(item) != 3 or item[0] not in self.shares:
                continue
            self.knows(item[0], codec.unpack_knowledge(item[1]), item[2])
            self._owner.heard(self, item[0])

    def knows(self, share: str, knowledge: Knowledge, digest: bytes) -> None:
        """What the peer says that it knows."""
        self.knowledge[share] = dict(knowledge)
        self.digests[share] = digest if isinstance(digest, bytes) else b""

    # -- out

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a message at once."""
        if self.closed:
            return
        for frame in frames.pack_frames(kind, number, body):
            self.bytes_out += len(frame)
            self.transport.write(frame)

    def tell(self, kind: int, share: str, body: bytes) -> None:
        """Send a message about a share, if the peer has it."""
        number = self._owner.number(share)
        if share in self.knowledge and number is not None:
            self.send(kind, number, body)

    def push(self, share: str, body: bytes) -> None:
        """A batch, with what rides in it."""
        self.tell(BATCH, share, body)

    def acknowledge(self, share: str, knowledge: Knowledge, digest: bytes) -> None:
        """What we know now."""
        self.tell(ACK, share, codec.pack([codec.pack_knowledge(knowledge), digest]))

    def pull(self, share: str, knowledge: Knowledge) -> None:
        """Ask for what we do not know."""
        self.tell(PULL, share, codec.pack(codec.pack_knowledge(knowledge)))

    def offer(self, share: str, contents: Sequence[tuple[bytes, int]]) -> None:
        """Say which contents will be in a batch that is not made yet: digest and size."""
        self.tell(OFFER, share, codec.pack(contents))

    def ask_plain(self, share: str, replica: ReplicaId, lo: int) -> None:
        """Ask for a batch without folded moves."""
        self.tell(PLAIN, share, codec.pack([replica.master, replica.incarnation, lo]))

    # -- objects that the peer wants

    def _asked(self, share: str, value: Any) -> None:
        if not isinstance(value, list) or len(value) + self._wanted > MOST_WANTED:
            raise Forbidden("too-many-wanted")
        store = self._owner.store(share)
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
            queue.append((share, Want(digest, size, base, offset)))
        self._wanted += len(value)
        self._pump()

    def _pump(self) -> None:
        if self._sending or self._paused or self.closed:
            return
        if self._small or self._large or self._packs:
            self._sending = True
            let_go(Deferred.fromCoroutine(self._serve()), self.log, "sending objects failed")

    async def _serve(self) -> None:
        try:
            while (self._small or self._large or self._packs) and not self.closed:
                if self._paused:
                    return
                while len(self._packs) < PACKS and self._begin_pack():
                    pass
                if self._packs and (self._packs[0][1].called or not self._has_slices()):
                    share, body = self._packs.popleft()
                    self._write_data(share, await body)
                elif self._large:
                    # Also while the next packs are being made: each keeps another core busy
                    share, want = self._large.popleft()
                    self._wanted -= 1
                    store = self._owner.store(share)
                    if store is None:
                        self._data_out(share, ["n", want.digest])
                    else:
                        await self._serve_large(share, store, want)
        finally:
            self._sending = False
        self._pump()

    def _has_slices(self) -> bool:
        """Whether the next large object goes in slices, and needs no delta to be found first."""
        return bool(self._large) and not (self._large[0][1].base and not self._large[0][1].offset)

    def _begin_pack(self) -> bool:
        """Have the next small objects packed; false if there are none."""
        wants: list[Want] = []
        size = 0
        share = ""
        while self._small and size < PACK and not (wants and self._small[0][0] != share):
            share, want = self._small.popleft()
            self._wanted -= 1
            if want.size < 0:
                self._data_out(share, ["n", want.digest])
            else:
                wants.append(want)
                size += want.size
        store = self._owner.store(share) if wants else None
        if store is not None:
            self._packs.append((share, self._owner.pool(_make_pack, store, wants)))
            return True
        for want in wants:
            self._data_out(share, ["n", want.digest])
        return False

    def _write_slice(self, head: bytes, body: bytes) -> None:
        if not self.closed:
            self.bytes_out += len(head) + len(body)
            # Not made one before: it would be copied only for that
            self.transport.writeSequence((head, body))

    def _write_data(self, share: str, body: bytes) -> None:
        number = self._owner.number(share)
        if number is not None:
            self.send(DATA, number, body)

    def _data_out(self, share: str, value: Any) -> None:
        self._write_data(share, codec.squeeze(codec.pack(value)))

    async def _serve_large(self, share: str, store: ContentStore, want: Want) -> None:
        if want.base and not want.offset and store.has(want.base) and want.size <= DELTA_MOST:
            operations = await self._owner.pool(_large_delta, store, want)
            if operations is not None:
                await self._serve_delta(share, want, operations)
                return
        await self._serve_slices(share, store, want)

    async def _serve_slices(self, share: str, store: ContentStore, want: Want) -> None:
        number = self._owner.number(share)
        while number is not None and want.offset < want.size and not self.closed:
            if not want.slices:
                coming = want.coming or self._read_slices(store, want, number)
                want.coming = None
                try:
                    want.slices = deque(await coming)
                except StoreError as error:
                    self.log.error("roots: an object cannot be read: {error}", error=str(error))
                    self._data_out(share, ["n", want.digest])
                    return
                if not self._is_open():
                    return
                # The next ones are read while these are encrypted
                if want.offset + SLICES * SLICE < want.size:
                    want.coming = self._read_slices(store, want, number, SLICES * SLICE)
                elif self._large and (ahead := self._large[0])[0] == share:
                    self._begin_next(store, ahead[1], number)
            self._write_slice(*want.slices.popleft())
            want.offset = min(want.offset + SLICE, want.size)
            if want.offset < want.size and (self._paused or self._packs or self._small):
                # Packs that were asked for since come first
                want.base = b""
                self._large.appendleft((share, want))
                self._wanted += 1
                return

    def _read_slices(
        self, store: ContentStore, want: Want, number: int, beyond: int = 0
    ) -> Deferred[list[tuple[bytes, bytes]]]:
        d: Deferred[list[tuple[bytes, bytes]]] = self._owner.pool(
            _make_slices, store, want, number, want.offset + beyond
        )
        return d

    def _begin_next(self, store: ContentStore, want: Want, number: int) -> None:
        """The object after this one is begun to be read, unless a delta may do."""
        if want.size > SMALL and not want.base and not want.slices and want.coming is None:
            want.coming = self._read_slices(store, want, number)

    async def _serve_delta(self, share: str, want: Want, operations: list[Any]) -> None:
        part: list[Any] = []
        size = 0
        for one in _cut(operations):
            part.append(one)
            size += len(one) if isinstance(one, bytes) else 12
            if size >= SLICE:
                self._data_out(share, ["d", want.digest, want.base, False, part])
                part, size = [], 0
        self._data_out(share, ["d", want.digest, want.base, True, part])

    # -- objects that we want

    def fetch(self, share: str, store: ContentStore, wants: Sequence[Want]) -> Deferred[None]:
        """
        Get objects; fires when all are in the store (not yet durable), fails if the stream
        ends or the peer has not got one of them.
        """
        fetch = Fetch(share, store, Deferred())
        if self.closed:
            fetch.done.errback(TransportClosed(f"no roots stream to {self.node}"))
            return fetch.done
        fetch.waiting.extend(sorted(wants, key=lambda want: want.size > SMALL))
        fetch.count, fetch.size = len(wants), sum(want.size for want in wants)
        self._fetches.append(fetch)
        self._ask_more(fetch)
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

    def _ask_more(self, fetch: Fetch) -> None:
        if not fetch.waiting and not fetch.asked:
            if fetch in self._fetches:
                self._fetches.remove(fetch)
                fetch.done.callback(None)
            return
        many = len(fetch.asked) > ASKED_AT_ONCE
        if fetch.bytes_asked > WINDOW // 2 or many or self._reading_paused:
            return
        request: list[list[Any]] = []
        while fetch.waiting and (fetch.bytes_asked < WINDOW or not fetch.asked):
            if len(request) >= ASKED_AT_ONCE:
                break
            want = fetch.waiting.popleft()
            fetch.asked[want.digest] = want
            # A large object is read as it comes; what is not written yet stops the reading
            fetch.bytes_asked += min(want.size, WINDOW // 2) if want.size > SMALL else want.size
            if want.size > SMALL:
                with suppress(OSError):
                    want.offset = os.stat(fetch.store.part_path(want.digest)).st_size
                if want.offset >= want.size:
                    want.offset = 0
            request.append([want.digest, want.base, want.offset])
        if request:
            self.tell(WANT, fetch.share, codec.pack(request))

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
            if fetch.asked.pop(want.digest, None) is None:
                continue
            fetch.bytes_asked -= min(want.size, WINDOW // 2) if want.size > SMALL else want.size
            fetch.came += 1
            fetch.bytes_came += want.size
            if fetch not in more:
                more.append(fetch)
        for fetch in more:
            self._ask_more(fetch)

    def _data(self, share: str, body: bytes) -> None:
        if body[:1] == PACKED:
            self._slice(share, [body])
        elif len(body) <= UNPACKED_HERE and not self._opening:
            self._opened(share, _open_data(body))
        else:
            # One that came later does not overtake it: the parts of a delta stay in order
            self._opening += 1

            def opened(value: Any) -> None:
                self._opening -= 1
                self._opened(share, value)

            self._write(len(body), lambda: self._owner.pool(_open_data, body), opened)

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
                fetch.done.errback(StoreError("the peer has not got an object", value[1].hex()))
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

        self._write(size, lambda: self._owner.pool(store.put_all, pairs), stored)

    def _slice(self, share: str, pieces: frames.Pieces) -> None:
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
            return self._owner.pool(_store_slices, fetch.store, want, growing, slices, last)

        self._write(size, work, stored)

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

        self._write(1024, lambda: self._owner.pool(_store_delta, fetch.store, want, parts), done)

    # -- one writer at a time, so slices stay in order

    def _write(self, size: int, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._unwritten += size
        if self._unwritten > WINDOW and not self._reading_paused:
            self._reading_paused = True
            self._read_or_not()

        async def one() -> None:
            try:
                try:
                    result = await work()
                finally:
                    self._unwritten -= size
                if not self.closed:
                    done(result)
            except Forbidden as error:
                self._owner.flagged(self, error)
                self.close(error.reason, error.path)

        self._writing.append(one)
        if not self._write_running:
            self._write_running = True
            let_go(Deferred.fromCoroutine(self._write_all()), self.log, "storing objects failed")

    async def _write_all(self) -> None:
        try:
            while self._writing:
                try:
                    await self._writing.popleft()()
                except StoreError as error:
                    self.log.error("roots: an object was not stored: {error}", error=str(error))
                    self.close("disk")
                if self._reading_paused and self._unwritten < WINDOW // 2 and not self.closed:
                    self._reading_paused = False
                    self._read_or_not()
                    for fetch in list(self._fetches):
                        self._ask_more(fetch)
        finally:
            self._write_running = False


# -- in the pool


def _make_pack(store: ContentStore, wants: list[Want]) -> bytes:
    digests = [want.digest for want in wants]
    try:
        items = list(zip(digests, store.read_all(digests), strict=True))
    except StoreError:
        lost = next((d for d in digests if not _is_readable(store, d)), digests[0])
        return codec.squeeze(codec.pack(["n", lost]))
    return codec.squeeze(codec.pack(["p", items]), 1)


def _is_readable(store: ContentStore, digest: bytes) -> bool:
    try:
        store.read(digest)
    except StoreError:
        return False
    return True


def _make_slices(
    store: ContentStore, want: Want, number: int, at: int
) -> list[tuple[bytes, bytes]]:
    """The next slices of a large object: heads and bodies of their frames."""
    most = min(SLICES * SLICE, want.size - at)
    found = []
    for data in store.read_pieces(want.digest, at, most, SLICE):
        if want.squeezable is None:
            sample = data[:_SAMPLE]
            want.squeezable = len(zlib.compress(sample, 1)) < len(sample) * 0.95
        form, body = RAW, data
        if want.squeezable and len(packed := zlib.compress(data, 1)) < len(data):
            form, body = PACKED, packed
        head = SLICE_HEAD.pack(form, want.digest, at, len(data))
        found.append((frames.pack_head(DATA, number, len(head) + len(body)) + head, body))
        at += len(data)
    return found


def _open_data(body: bytes) -> list[Any]:
    """
    What a message with objects says; small objects have been compared with their digests.

    @raises Forbidden: it is against the rules.
    """
    value = codec.unpack(codec.expand(body, 4 * 1024 * 1024))
    if not isinstance(value, list) or len(value) < 2:
        raise Forbidden("data")
    if value[0] != "p":
        return value
    if len(value) != 2 or not isinstance(value[1], list):
        raise Forbidden("data")
    for item in value[1]:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], bytes):
            raise Forbidden("data")
        if hashlib.sha256(item[1]).digest() != item[0]:
            raise Forbidden("object-digest")
    return value


def _large_delta(store: ContentStore, want: Want) -> list[Any] | None:
    old = store.map(want.base)
    new = store.map(want.digest)
    limit = time.monotonic() + DELTA_TIME

    def drop() -> None:
        # The mapped pages stay in the kernel's cache, and count as ours no longer
        for mapped in (old, new):
            if not isinstance(mapped, bytes):
                mapped.madvise(mmap.MADV_DONTNEED)

    try:
        alike = store.common_ends(want.base, want.digest)
        operations = make_delta(
            old,  # type: ignore[arg-type]
            new,  # type: ignore[arg-type]
            lambda: time.monotonic() > limit,
            drop,
            alike,
        )
        if literal_bytes(operations) > want.size * 0.6:
            return None
        return pack_delta(operations)
    except (StoreError, OSError):
        return None
    finally:
        for mapped in (old, new):
            if not isinstance(mapped, bytes):
                mapped.close()


def _cut(operations: list[Any]) -> Iterator[Any]:
    for one in operations:
        if isinstance(one, bytes) and len(one) > SLICE:
            for at in range(0, len(one), SLICE):
                yield one[at : at + SLICE]
        else:
            yield one


def _store_slices(
    store: ContentStore, want: Want, growing: Growing, slices: list[Slice], last: bool
) -> bool:
    path = store.part_path(want.digest)
    start = slices[0][0]
    try:
        if growing.hash is None:
            growing.hash = hashlib.sha256()
            if start:
                with open(path, "rb") as part:
                    left = start
                    while left and (piece := part.read(min(left, 1 << 20))):
                        growing.hash.update(piece)
                        left -= len(piece)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags if start else flags | os.O_TRUNC, 0o600)
        try:
            os.lseek(fd, start, os.SEEK_SET)
            for _, form, length, data in slices:
                for plain in data if form == RAW else [_unpacked(data, length)]:
                    growing.hash.update(plain)
                    _write_all(fd, plain)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error
    if not last:
        return True
    if growing.hash.digest() != want.digest:
        with suppress(OSError):
            os.unlink(path)
        return False
    store.adopt(want.digest, want.size, path)
    return True


def _unpacked(data: frames.Pieces, length: int) -> bytes:
    """@raises Forbidden: it is not that long, or damaged."""
    plain = codec.expand(b"".join((b"z", *data)), length)
    if len(plain) != length:
        raise Forbidden("object-size")
    return plain


def _store_delta(store: ContentStore, want: Want, parts: list[Any]) -> bool:
    try:
        operations = unpack_delta(parts, want.size, store.size(want.base))
    except ValueError:
        return False
    if want.size <= SMALL:
        data = apply_delta(store.read(want.base), operations)
        if hashlib.sha256(data).digest() != want.digest:
            return False
        store.put_known(want.digest, data)
        return True
    path = store.temporary()
    whole = hashlib.sha256()
    base_path, base_offset, _ = store.locate(want.base)
    try:
        source = os.open(base_path, os.O_RDONLY | os.O_CLOEXEC)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for one in operations:
                if isinstance(one, bytes):
                    whole.update(one)
                    _write_all(fd, one)
                    continue
                at, left = base_offset + one.start, one.length
                while left:
                    piece = os.pread(source, min(left, 1 << 20), at)
                    if not piece:
                        return False
                    whole.update(piece)
                    _write_all(fd, piece)
                    at += len(piece)
                    left -= len(piece)
        finally:
            os.close(fd)
            os.close(source)
        if whole.digest() != want.digest:
            return False
        store.adopt(want.digest, want.size, path)
        return True
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error
    finally:
        with suppress(OSError):
            os.unlink(path)


def _write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
