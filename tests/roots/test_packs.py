"""Packs by themselves: what is appended, read, cut off at a start, and given up."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.stores.roots import packs
from saltwisted.stores.roots.packs import PackFolder, PackReader, PackWriter
from saltwisted.stores.roots.places import Place, Places, no_step

ONE, TWO, THREE = (bytes([number]) * 32 for number in (1, 2, 3))


class PackTests(SynchronousTestCase):
    """A writer and a reader of one folder."""

    def setUp(self) -> None:
        self.store = self.mktemp()
        os.makedirs(f"{self.store}/packs")
        self.new_dirs: set[str] = set()
        self.places = Places({})
        self.folder = PackFolder(self.store, self.new_dirs, no_step)
        self.addCleanup(self.folder.close)
        self.writer = PackWriter(self.folder, self.places, 1, no_step)
        self.addCleanup(self.writer.close)
        self.reader = PackReader(self.folder, self.writer.show)

    def read(self, digest: bytes) -> bytes:
        """An object."""
        place = self.places.known[digest]
        return self.reader.read(place.pack, place.offset, place.size)

    def test_written_when_it_is_read(self) -> None:
        """What was appended waits for more, but a reader finds it; it is added once."""
        self.writer.append([(ONE, b"one"), (TWO, b"second"), (ONE, b"again")])
        self.assertEqual(self.folder.size(1), 0)
        self.assertEqual((self.read(ONE), self.read(TWO)), (b"one", b"second"))
        self.assertEqual(self.folder.size(1), 9)
        self.assertEqual(self.places.fresh, self.places.known)
        self.assertEqual(self.new_dirs, {f"{self.store}/packs"})

    def test_next(self) -> None:
        """What does not fit goes into the next pack, and one that is there is not written to."""
        self.patch(packs, "PACK_SIZE", 5)
        with open(self.folder.path(2), "wb") as file:
            file.write(b"other")
        self.writer.append([(ONE, b"one"), (TWO, b"two")])
        self.assertEqual(self.places.known, {ONE: Place(3, 1, 0), TWO: Place(3, 3, 0)})
        self.assertEqual((self.read(ONE), self.read(TWO)), (b"one", b"two"))
        self.assertEqual(self.folder.size(2), 5)

    def test_ahead(self) -> None:
        """Who reads in order is served from what was read ahead; others read what they ask for."""
        self.writer.append([(ONE, b"one"), (TWO, b"two"), (THREE, b"three")])
        lengths: list[int] = []
        pread = os.pread
        self.patch(os, "pread", lambda fd, n, at: lengths.append(n) or pread(fd, n, at))
        self.assertEqual([self.read(d) for d in (ONE, TWO, THREE)], [b"one", b"two", b"three"])
        self.assertEqual(lengths, [3, packs.AHEAD])
        self.assertEqual(self.read(ONE), b"one")
        self.assertEqual(lengths, [3, packs.AHEAD, 3])

    def test_abandoned(self) -> None:
        """What a refused write may have spoilt was never added; what a transaction has stays."""
        self.writer.append([(ONE, b"one")])
        self.writer.sync()
        self.places.stored([ONE])
        self.writer.append([(TWO, b"two")])
        self.writer.abandon()
        self.writer.append([(THREE, b"three")])
        self.assertEqual(list(self.places.known), [ONE, THREE])
        self.assertEqual(self.places.known[THREE].pack, 2)
        self.assertEqual((self.read(ONE), self.read(THREE)), (b"one", b"three"))

    def test_recover(self) -> None:
        """At a start what no transaction knows is cut off; what is too short, or gone, is named."""
        for number in (1, 2, 3):
            with open(self.folder.path(number), "wb") as file:
                file.write(b"12345")
        places = Places({ONE: Place(3, 1, 0), TWO: Place(9, 2, 0), THREE: Place(1, 7, 0)})
        self.assertEqual(self.folder.recover(places.ends()), (2, {2, 7}))
        self.assertEqual(self.folder.size(1), 3)
        self.assertEqual(sorted(os.listdir(f"{self.store}/packs")), ["pack-1", "pack-2"])
