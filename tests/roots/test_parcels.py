"""Objects that are made into messages by one store, and into objects again by another."""

from __future__ import annotations

import hashlib
import os
import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.parcels import (
    PACKED,
    RAW,
    SLICE,
    SLICE_HEAD,
    Growing,
    Outgoing,
    Slice,
    Want,
    cut,
    find_delta,
    make_pack,
    make_slices,
    open_data,
    store_delta,
    store_slices,
)
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.frames import HEAD
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.stores.roots.objects import ContentStore

NOISE = random.Random(1).randbytes(3 * SLICE + 1000)
TEXT = b"the same again and again\n" * 100_000


class ParcelTests(SynchronousTestCase):
    """Two stores, and what goes from one to the other."""

    def setUp(self) -> None:
        self.theirs, self.ours = (ContentStore(self.mktemp(), {}) for _ in range(2))
        for store in (self.theirs, self.ours):
            self.addCleanup(store.close)

    def put(self, data: bytes, *stores: ContentStore) -> bytes:
        """An object of any size."""
        digest = hashlib.sha256(data).digest()
        for store in stores or (self.theirs,):
            store.put_known(digest, data)
        return digest

    def slices(self, digest: bytes, at: int = 0) -> list[Slice]:
        """The next slices of an object, as they come."""
        found: list[Slice] = []
        asked = Outgoing("share", digest, self.theirs.size(digest))
        for head, body in make_slices(self.theirs, asked, 0, at):
            form, named, offset, length = SLICE_HEAD.unpack(head[HEAD.size :])
            self.assertEqual(named, digest)
            found.append((offset, form, length, [body]))
        return found

    def test_pack(self) -> None:
        """Small objects in one message; if one of them cannot be read, that it is not there."""
        digests = [self.put(data) for data in (b"one", b"two", b"")]
        asked = [Outgoing("share", digest, self.theirs.size(digest)) for digest in digests]
        kind, items = open_data(make_pack(self.theirs, asked))
        self.assertEqual((kind, [data for _, data in items]), ("p", [b"one", b"two", b""]))
        lost = Outgoing("share", bytes(32), 3)
        self.assertEqual(
            open_data(make_pack(self.theirs, [asked[0], lost, asked[1]])), ["n", bytes(32)]
        )

    def test_pack_lies(self) -> None:
        """Data that is not what its digest says is against the rules."""
        lie = codec.squeeze(codec.pack(["p", [[bytes(32), b"data"]]]))
        self.assertEqual(self.assertRaises(Forbidden, open_data, lie).reason, "object-digest")

    def test_slices(self) -> None:
        """What shrinks is packed, what does not goes as it is; both arrive whole."""
        for data, form in ((TEXT, PACKED), (NOISE, RAW)):
            digest = self.put(data)
            slices = self.slices(digest)
            self.assertEqual({one[1] for one in slices}, {form})
            slices += self.slices(digest, sum(one[2] for one in slices))
            want, growing = Want(digest, len(data)), Growing(len(data), 0)
            at = 0
            while slices:
                some, slices = slices[:2], slices[2:]
                self.assertFalse(self.ours.has(digest))
                self.assertTrue(store_slices(self.ours, want, growing, some, last=not slices), at)
                at += len(some)
            self.assertEqual(self.ours.read(digest), data)

    def test_slices_go_on(self) -> None:
        """What came by another stream is not asked for again, and is hashed with the rest."""
        digest = self.put(NOISE)
        first, *rest = self.slices(digest)
        want = Want(digest, len(NOISE))
        store_slices(self.ours, want, Growing(want.size, 0), [first], last=False)
        want.offset = os.stat(self.ours.large.part_path(digest)).st_size
        self.assertEqual(want.offset, SLICE)
        growing = Growing(want.size, want.offset)
        self.assertTrue(store_slices(self.ours, want, growing, rest, last=True))
        self.assertEqual(self.ours.read(digest), NOISE)

    def test_slices_lie(self) -> None:
        """Slices that make something else than was asked for leave nothing here."""
        slices = self.slices(self.put(NOISE))
        other = hashlib.sha256(b"other").digest()
        want, growing = Want(other, len(NOISE)), Growing(len(NOISE), 0)
        self.assertFalse(store_slices(self.ours, want, growing, slices, last=True))
        self.assertFalse(self.ours.has(other))
        self.assertFalse(os.path.exists(self.ours.large.part_path(other)))

    def test_delta(self) -> None:
        """A large object comes as what is new in it, in parts that fit into messages."""
        changed = NOISE[:1000] + b"new" * 1000 + NOISE[1000:]
        base = self.put(NOISE, self.theirs, self.ours)
        digest = self.put(changed)
        operations = find_delta(self.theirs, Outgoing("share", digest, len(changed), base))
        assert operations is not None
        parts = list(cut(operations))
        self.assertLess(sum(len(one) for one in parts if isinstance(one, bytes)), 10_000)
        self.assertTrue(store_delta(self.ours, Want(digest, len(changed), base), parts))
        self.assertEqual(self.ours.read(digest), changed)
        wrong = Want(bytes(32), len(changed), base)
        self.assertFalse(store_delta(self.ours, wrong, parts))

    def test_no_delta(self) -> None:
        """Where most of it is new, a delta is not worth while."""
        base, digest = self.put(NOISE), self.put(TEXT)
        self.assertIsNone(find_delta(self.theirs, Outgoing("share", digest, len(TEXT), base)))
