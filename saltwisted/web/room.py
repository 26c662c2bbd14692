"""
What is kept for others in memory, with one bound for all of them together.

Each of them may be small: two thousand connections with half a body each are not. When there is
no room for something new, what has been there longest is cut off, of whoever keeps the most:
somebody who fills the room loses what is his own, and others get in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable


class Room:
    """
    Memory that many share. Reactor thread only.

    @ivar kept: bytes that are held in it.
    @ivar cut: how many have been cut off for want of room.
    """

    def __init__(self, most: int) -> None:
        """
        @param most: bytes that may be held together.
        """
        self._most = most
        self._held: dict[Hashable, dict[Held, None]] = {}
        self._sums: Counter[Hashable] = Counter()
        self.kept = 0
        self.cut = 0

    def change(self, held: Held, size: int) -> None:
        """Somebody holds another number of bytes; others may be cut off to make room for it."""
        grown = size - held.size
        if not grown:
            return
        self.kept += grown
        if held.may_be_cut:
            self._sums[held.owner] += grown
            if not held.size:
                self._held.setdefault(held.owner, {})[held] = None
            elif not size:
                self._forget(held)
        held.size = size
        while self.kept > self._most and self._sums:
            self._make_room()

    def fix(self, held: Held) -> None:
        """It is not cut off any more, and still counts."""
        if held.may_be_cut:
            held.may_be_cut = False
            self._sums[held.owner] -= held.size
            if held.size:
                self._forget(held)

    def _forget(self, held: Held) -> None:
        """It is none of those that can be cut off."""
        of_owner = self._held[held.owner]
        of_owner.pop(held)
        if not of_owner:
            del self._held[held.owner], self._sums[held.owner]

    def _make_room(self) -> None:
        owner = max(self._sums, key=self._sums.__getitem__)
        first = next(iter(self._held[owner]))
        self.cut += 1
        first.release()
        first.cut()


class Held:
    """
    What is held for one of them.

    @ivar room: where.
    @ivar owner: whose it is.
    @ivar size: bytes.
    @ivar may_be_cut: whether it is cut off where there is no room.
    """

    __slots__ = ("cut", "may_be_cut", "owner", "room", "size")

    def __init__(self, room: Room, owner: Hashable, cut: Callable[[], None]) -> None:
        """
        @param owner: whose it is: an address, or a user (L{saltwisted.domain.who.Who}).
        @param cut: called when it is cut off; what it holds has to go at once.
        """
        self.room = room
        self.owner = owner
        self.cut = cut
        self.size = 0
        self.may_be_cut = True

    def set(self, size: int) -> None:
        """So many bytes from now on."""
        self.room.change(self, size)

    def fix(self) -> None:
        """It is not cut off any more."""
        if self.size:
            self.room.fix(self)
        self.may_be_cut = False

    def release(self) -> None:
        """Nothing is held any more."""
        self.room.change(self, 0)
