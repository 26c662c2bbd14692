"""
When a return may be acknowledged: this counts how many nodes have it, and informs those who wait.

L{saltwisted.domain.replica.delivery} has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from saltwisted.domain.replica.delivery import Acknowledge, Copies, Repeats, load_hash
from saltwisted.errors import StoreError
from saltwisted.interfaces import IAcknowledging
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns
from saltwisted.stores.jobs.store import JobStore, kept_of
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.longpack import LARGE
from saltwisted.wire.msgpack import pack_bin


class Acknowledging:
    """
    Keeps the answers to returns until enough nodes have them. Reactor thread only.

    The owner calls L{tick} when L{next_tick} has come.

    @param clock: for C{seconds} and C{callLater}.
    @param node: this node.
    @param linked: how many others are linked now.
    @param copies: how many nodes must have a return.
    @param members: the other members.
    @param in_thread: calls a function in a thread.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        jobs: JobStore,
        linked: Callable[[], int],
        counters: Counter[str],
        copies: int = 2,
        members: Callable[[], Collection[str]] = tuple,
        in_thread: Callable[..., Deferred[Any]] = maybeDeferred,
    ) -> None:
        self._in_thread = in_thread
        self._clock = clock
        self._seconds: Callable[[], float] = clock.seconds
        self._node = node
        self._jobs = jobs
        self._linked = linked
        self._counters = counters
        self._members = members
        self._copies = Copies(copies)
        self._repeats = Repeats()
        self._waiting: dict[tuple[str, str], list[Deferred[None]]] = {}
        jobs.replica.told.on_confirmed(self._confirmed)

    # -- what the master asks (IAcknowledging)

    def return_stored(self, jid: str, minion_id: str) -> Deferred[None] | None:
        """What to wait for before this return is acknowledged."""
        if not self._copies.is_waiting(jid, minion_id):
            return None
        waiting: Deferred[None] = Deferred()
        self._waiting.setdefault((jid, minion_id), []).append(waiting)
        return waiting

    def repeated(
        self, minion_id: str, load: Mapping[str, Any]
    ) -> str | None | Awaitable[str | None]:
        """The jid that another node gave to this return; of a long one, later."""
        kept = kept_of(load)
        if is_long(kept):
            return self._long_repeated(minion_id, kept)
        return self._found(minion_id, load_hash(pack_bin(kept)))

    async def _long_repeated(self, minion_id: str, kept: Mapping[str, Any]) -> str | None:
        pieces = await pack_in_turns(self._clock, kept)
        return self._found(minion_id, await self._in_thread(load_hash, *pieces))

    def _found(self, minion_id: str, digest: bytes) -> str | None:
        found = self._repeats.jid_of(minion_id, digest, self._node, self._seconds())
        if found is not None:
            self._counters["returns:repeated-elsewhere"] += 1
        return found

    async def one_copy(self, jid: str) -> Sequence[str]:
        """
        The minions whose return is only on this node. A node without other members has one copy of
        everything, so that is not reported.
        """
        return await self._jobs.one_copy(jid) if self._members() else ()

    # -- what happens

    def noted(self, jid: str, minion_id: str, load: bytes | memoryview, node: str) -> None:
        """A return is on disk here, of a node: it may come again under another jid."""

        def remember(digest: bytes) -> None:
            self._repeats.remember(minion_id, digest, jid, node, self._seconds())

        if self._jobs.known.is_published(jid):
            return
        if len(load) <= LARGE:
            remember(load_hash(load))
        else:
            hashed = self._in_thread(load_hash, load).addCallback(remember)
            let_go(hashed, self.log, "a repeated return would not be told from another")

    def stored(self, returns: Sequence[tuple[int, str, str]]) -> None:
        """Returns of our own are on disk here: their number, jid and minion."""
        now, linked = self._seconds(), self._linked()
        for number, jid, minion_id in returns:
            self._acknowledge(self._copies.stored(number, jid, minion_id, linked, now))

    def _confirmed(self, number: int) -> None:
        self._acknowledge(self._copies.confirmed(number))

    def unlinked(self) -> None:
        """A link has ended."""
        if not self._linked():
            self._acknowledge(self._copies.alone())

    def begun_anew(self) -> None:
        """
        The job cache was damaged: a return that waits for another node's disk may be on none.
        Minions that get no answer send it again.
        """
        for key in self._copies.lost():
            for waiting in self._waiting.pop(key, ()):
                waiting.errback(StoreError("the job cache was damaged"))

    def tick(self, now: float) -> None:
        """Acknowledge returns that have waited long enough."""
        self._acknowledge(self._copies.tick(now))

    def next_tick(self) -> float | None:
        """When L{tick} is to be called; C{None}: nothing waits."""
        return self._copies.next_tick()

    def stop(self) -> None:
        """Acknowledge nothing any more: waiting minions try again elsewhere."""
        self._waiting.clear()

    def _acknowledge(self, effects: Sequence[Acknowledge]) -> None:
        for effect in effects:
            self._counters[f"returns:copies-{effect.copies}"] += 1
            for waiting in self._waiting.pop((effect.jid, effect.minion_id), ()):
                waiting.callback(None)


_Acknowledging: type[IAcknowledging] = Acknowledging  # mypy compares them
