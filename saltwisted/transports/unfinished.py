"""
The room for messages that have begun and are not whole yet, of all connections of a port together.

What a peer has sent of a message must be kept until the rest comes, and who it is shows only then.
So there is one room for all. Strangers share a part of it; the rest is for the addresses of
minions that are known. When it is full, the one whose message grows slowest has to go: who sent a
lot and stopped goes before who is still sending, and a minion on a slow line is in nobody's way as
long as there is room.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Container
from typing import Any

from saltwisted.doors import KIB

LARGE = 64 * KIB
"""Bytes from which on an unfinished message counts as somebody's; below, it is one of many."""
STEP = 64 * KIB
"""Bytes by which a large message must grow within L{STEP_TIME}."""
STEP_TIME = 60.0
"""Seconds."""
PERIOD = 1.0
"""Seconds over which the speed of a message is measured, at least."""
KNOWN_FOR = 5.0
"""Seconds for which the addresses that are known are not asked for again."""

Known = Callable[[], Container[str]]
"""The addresses from which minions have spoken."""


def nobody() -> Container[str]:
    """No address is known."""
    return ()


class Unfinished:
    """
    What one connection has sent of a message that is not whole yet.

    @ivar size: bytes that this message takes.
    @ivar is_known: whether a minion has spoken from its address; looked up once it is large.
    """

    __slots__ = ("_before", "_mark", "_step", "host", "is_known", "size")

    def __init__(self, host: str, now: float) -> None:
        self.host = host
        self.size = 0
        self.is_known = False
        self._before = self._mark = self._step = (now, 0)

    def end(self, why: str) -> None:
        """Hang up."""
        raise NotImplementedError

    def _begun(self, now: float) -> None:
        self._before = self._mark = (now, 0)
        self._step = (now, self.size)

    def _grown(self, now: float) -> None:
        if now - self._mark[0] >= PERIOD:
            self._before, self._mark = self._mark, (now, self.size)
        if self.size - self._step[1] >= STEP:
            self._step = (now, self.size)

    def _restart(self, now: float) -> None:
        self._before = self._mark = self._step = (now, self.size)

    def speed(self, now: float) -> float:
        """Bytes a second by which it has grown lately."""
        since, size = self._before
        return (self.size - size) / max(PERIOD, now - since)


class Room:
    """
    The room of one port. Reactor thread only.

    @ivar size: bytes of all.
    @ivar strange: those that are not of known addresses.
    """

    def __init__(self, clock: Any, strangers: int, most: int, known: Known = nobody) -> None:
        """
        @param strangers: bytes of all whose address is not known.
        @param most: bytes of all.
        """
        self._clock = clock
        self._strangers = strangers
        self._most = most
        self._known = known
        self._addresses: Container[str] = ()
        self._asked = -KNOWN_FOR
        self._large: set[Unfinished] = set()
        self.size = 0
        self.strange = 0

    def knows(self, host: str) -> bool:
        """Whether a minion has spoken from there."""
        now = self._clock.seconds()
        if now - self._asked >= KNOWN_FOR:
            self._addresses, self._asked = self._known(), now
        return host in self._addresses

    def set(self, one: Unfinished, size: int) -> None:
        """
        The unfinished message of this connection has so many bytes now; 0: it is whole, or gone.

        Somebody is hung up on if that is too much: perhaps this one, perhaps others.
        """
        change = size - one.size
        if not change:
            return
        one.size = size
        self.size += change
        if not one.is_known:
            self.strange += change
        now = self._clock.seconds()
        if size < LARGE:
            self._large.discard(one)
            one._restart(now)
        elif one in self._large and change > 0:
            one._grown(now)
        elif change > 0:
            self._large.add(one)
            one._begun(now)
            if one.is_known != self.knows(one.host):
                one.is_known = not one.is_known
                self.strange += -size if one.is_known else size
        if change > 0:
            self._make_room(one, now)

    def _make_room(self, last: Unfinished, now: float) -> None:
        while self.strange > self._strangers:
            strangers = [one for one in self._large if not one.is_known]
            self._end(_slowest(strangers, now) or last, "no room")
            if not last.size:
                return
        while self.size > self._most:
            strangers = [one for one in self._large if not one.is_known]
            self._end(_slowest(strangers or list(self._large), now) or last, "no room")
            if not last.size:
                return

    def _end(self, one: Unfinished, why: str) -> None:
        self.set(one, 0)
        one.end(why)

    def end_slow(self) -> None:
        """Hang up on those whose large message does not get on."""
        end = self._clock.seconds() - STEP_TIME
        for one in [one for one in self._large if one._step[0] <= end]:
            self._end(one, "slow frame")

    def excuse(self) -> None:
        """Nobody could get on meanwhile: everybody's time begins anew."""
        now = self._clock.seconds()
        for one in self._large:
            one._restart(now)

    @property
    def large(self) -> tuple[Unfinished, ...]:
        """The connections with a large unfinished message."""
        return tuple(self._large)


def _slowest(among: list[Unfinished], now: float) -> Unfinished | None:
    """The one that grows slowest; of those that do not grow at all, the largest."""
    return min(among, key=lambda one: (one.speed(now), -one.size), default=None)


def half_of_descriptors() -> int:
    """
    How many connections a port may have: half of what this process may, less what it needs itself.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 60 if limit < 0 else max(16, (limit - 256) // 2)
