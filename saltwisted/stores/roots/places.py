"""
Where each object of a store is, and which objects no transaction knows yet.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

OWN_FILE = -1

Step = Callable[[str], None]
"""Called before each act that a crash may prevent; tests count them and crash at each."""


def no_step(_what: str) -> None:
    """In service nothing happens between two acts."""


class Place(NamedTuple):
    """Where an object is. C{pack} is -1 for a file of its own."""

    size: int
    pack: int
    offset: int


class Places:
    """
    The places of all objects. They are changed under the lock of the store; a lookup needs no lock.

    @ivar known: digest to place.
    @ivar fresh: those of them that no transaction has stored yet.
    """

    def __init__(self, known: dict[bytes, Place]) -> None:
        self.known = known
        self.fresh: dict[bytes, Place] = {}

    def add(self, digest: bytes, place: Place) -> None:
        """An object is here now; it counts once a transaction has kept that."""
        self.known[digest] = self.fresh[digest] = place

    def lose(self, packs: Container[int]) -> None:
        """What was written to these packs did not get there."""
        for digest, place in list(self.fresh.items()):
            if place.pack in packs:
                del self.fresh[digest]
                self.known.pop(digest, None)

    def stored(self, digests: Iterable[bytes]) -> None:
        """A transaction has kept these."""
        for digest in digests:
            self.fresh.pop(digest, None)

    def ends(self) -> dict[int, int]:
        """How long each pack is at least."""
        found: dict[int, int] = {}
        for place in self.known.values():
            if place.pack != OWN_FILE:
                found[place.pack] = max(found.get(place.pack, 0), place.offset + place.size)
        return found

    def living(self) -> dict[int, int]:
        """How many bytes of each pack are of objects that are kept."""
        found: dict[int, int] = {}
        for place in self.known.values():
            if place.pack != OWN_FILE:
                found[place.pack] = found.get(place.pack, 0) + place.size
        return found
