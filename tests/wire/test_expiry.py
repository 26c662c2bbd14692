"""
How long certificates are valid.
"""

from __future__ import annotations

import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire.expiry import validities
from tests.certificates import Authority

DAY = 86400.0


class ValidityTests(SynchronousTestCase):
    """PEM files as the C{ssl} option names them."""

    def setUp(self) -> None:
        folder = self.mktemp()
        Path(folder).mkdir()
        authority = Authority(folder)
        self.files = authority.issue("master", "127.0.0.1")
        self.chain = Path(self.files["certfile"]).read_bytes() + Path(authority.ca).read_bytes()

    def test_chain(self) -> None:
        """All certificates of a chain, and no key."""
        key = Path(self.files["keyfile"]).read_bytes()

        found = validities(key + b"some words\n" + self.chain)

        self.assertEqual([one.name for one in found], ["master", "authority"])
        for one in found:
            self.assertLess(abs(one.since - time.time() + 2 * DAY), 600)
            self.assertLess(abs(one.until - time.time() - 30 * DAY), 600)
        self.assertEqual(validities(b""), [])

    def test_none(self) -> None:
        """What calls itself a certificate and is none."""
        bad = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        self.assertRaises(WireError, validities, bad)
        self.assertRaises(WireError, validities, self.chain[:-40])
