from __future__ import annotations

import os

from saltwisted.errors import StoreError
from saltwisted.stores.shared import SharedPublishKey
from saltwisted.wire.crypticle import SessionKey
from tests.stores.support import FolderTestCase


class SharedPublishKeyTests(FolderTestCase):
    """One publish key for masters of one directory."""

    def one(self) -> SharedPublishKey:
        """Another master over the same directory."""
        made = SharedPublishKey(self.path("common"), os.urandom)
        made.open()
        return made

    def test_first_makes_it(self) -> None:
        """The first master makes the key, in Salt's file; the next ones read it."""
        first, second = self.one(), self.one()

        self.assertEqual(first.key, second.key)
        with open(self.path("common/.aes")) as handle:
            self.assertEqual(handle.read(), first.key.text)
        self.assertEqual(os.stat(self.path("common/.aes")).st_mode & 0o777, 0o600)

    def test_stock_file(self) -> None:
        """A key that a stock master has written there is taken."""
        key = SessionKey.generate(os.urandom)
        self.write("common/.aes", key.text.encode() + b"\n")

        self.assertEqual(self.one().key, key)

    def test_change(self) -> None:
        """What one master saves, the others see once, and see nothing when nothing happens."""
        first, second = self.one(), self.one()
        self.assertIsNone(second.changed())
        key = SessionKey.generate(os.urandom)

        first.save(key)

        self.assertEqual(second.changed(), key)
        self.assertIsNone(second.changed())
        os.unlink(self.path("common/.aes"))
        self.assertIsNone(second.changed())
        self.assertEqual(second.key, key)

    def test_no_key(self) -> None:
        """A file with something else in it is not overwritten, but named."""
        path = self.write("common/.aes", b"something else")

        error = self.assertRaises(StoreError, self.one)

        self.assertIn(path, str(error))
        with open(path) as handle:
            self.assertEqual(handle.read(), "something else")
