"""
What a share does before a batch exists: it reads large files while the scan goes on, and offers new
contents to the peers, which fetch them while the rest is scanned and the batch is made.

An offer promises nothing. Offered contents that end up in no batch are forgotten, like every
content without references. Contents that were not fetched are requested when their batch arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.logger import Logger

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.parcels import Want
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import SaltwistedError
from saltwisted.stores.roots.knowntree import Known
from saltwisted.transports.deferreds import let_go

TOGETHER = 256 * 1024 * 1024
"""
Bytes of large files up to which they are committed with the small ones they came with; also bytes
that are fetched before a batch says what they are for.
"""
READERS = 2
"""Large files that are read at a time, so that the pool has room for what is sent."""
LOOK_AGAIN = 0.1
"""Seconds from one look whether a batch is complete to the next, while offered contents come."""
MOST_OFFERED = 5000
"""Contents in one offer."""


class RootAhead:
    """
    Reactor thread only, unless stated otherwise.

    @param core: the core of the share whose contents they are.
    @param arrived: called when a batch may be complete.
    """

    log = Logger()

    def __init__(self, core: ShareCore, arrived: Callable[[], None]) -> None:
        self._core = core
        self._complete = arrived
        self._owner = core.owner
        self._clock = core.reactor
        self._readers = DeferredSemaphore(READERS)
        self._reading: dict[bytes, Deferred[Known | None]] = {}
        self._early = 0
        self._coming = 0
        self._timer: Any = None

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what a look finds

    def read_large(self, path: bytes) -> Deferred[Known | None]:
        """Take in a large file; C{None} if it is being written, or gone."""
        core = self._core
        d: Deferred[Known | None] = self._owner.host.pool(
            core.tree.reader.take_large, path, core.db.objects
        )
        return d

    def begin(self) -> None:
        """A look begins."""
        self._early, self._reading = 0, {}
        self._core.tree.reader.tell(self._large_found, self._new_found)

    def end(self) -> None:
        """It has ended."""
        self._core.tree.reader.tell(None, None)

    def reading(self) -> dict[bytes, Deferred[Known | None]]:
        """The large files that are being read since; they are the caller's now."""
        reading, self._reading = self._reading, {}
        return reading

    def _large_found(self, path: bytes, size: int) -> None:
        """In the pool's thread, while the look goes on."""
        self._clock.callFromThread(self._read, path, size)

    def _new_found(self, contents: list[tuple[bytes, int]]) -> None:
        """In the pool's thread, while the look goes on."""
        self._clock.callFromThread(self._offer, contents)

    def _read(self, path: bytes, size: int) -> None:
        self._early += size
        if self._early > TOGETHER or path in self._reading or self._core.stopped:
            return
        d = self._readers.run(self.read_large, path)
        self._reading[path] = d.addCallback(self._was_read, path)

    def _was_read(self, known: Known | None, path: bytes) -> Known | None:
        store = self._core.store
        # Of what was there before, less may have to travel than the whole
        if known is not None and store is not None and path not in store.tree.known:
            self._offer([(known.entry.content, known.entry.size)])
        return known

    def _offer(self, contents: list[tuple[bytes, int]]) -> None:
        if self._owner.clocks.problem or self._core.is_read_only:
            return
        for link in self._core.links():
            link.offer(self._core.name, contents[:MOST_OFFERED])

    # -- what peers offer

    def received(self, link: RootLink, body: bytes) -> None:
        """
        A peer will soon refer to these contents: fetch those that are missing.

        @raises Forbidden: the message is against the rules.
        """
        core, store = self._core, self._core.store
        offered = unpack_offer(body)
        if store is None:
            return
        wants = [
            Want(digest, size)
            for digest, size in offered.items()
            if digest not in core.coming
            and size <= core.limits.max_file
            and not store.objects.has(digest)
        ]
        total = sum(want.size for want in wants)
        if not wants or self._coming + total > TOGETHER or core.no_room(total):
            return
        self._coming += total

        def done(error: SaltwistedError | None) -> None:
            self._coming -= total
            if error is not None:
                self.log.debug("roots: an offer failed: {error}", error=str(error))
            self._arrived()

        let_go(
            core.fetch(link, wants).addCallback(done),
            self.log,
            "roots: what {node} offered was not fetched",
            node=link.node,
        )

    def _arrived(self) -> None:
        """A batch may be complete now; while more is coming, that is not looked at each time."""
        if not self._coming:
            self.stop()
            self._complete()
        elif self._timer is None and not self._core.stopped:
            self._timer = self._clock.callLater(LOOK_AGAIN, self._look)

    def _look(self) -> None:
        self._timer = None
        self._complete()


def unpack_offer(body: bytes) -> dict[bytes, int]:
    """
    Digest to size.

    @raises Forbidden: this is not an offer.
    """
    value = codec.unpack(body, MOST_OFFERED + 1)
    if not isinstance(value, list) or len(value) > MOST_OFFERED:
        raise Forbidden("offer")
    found = {}
    for item in value:
        if (
            not isinstance(item, list)
            or len(item) != 2
            or not isinstance(item[0], bytes)
            or len(item[0]) != 32
            or type(item[1]) is not int
            or item[1] < 0
        ):
            raise Forbidden("offer")
        found[item[0]] = item[1]
    return found
