"""
The key that minions know, as a versioned secret: what is kept of each change.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.identity import KEPT, Identity, decode
from saltwisted.errors import WireError
from saltwisted.wire.handshake import followed, hand_over
from saltwisted.wire.msgpack import pack_bin
from tests.wire.recorded import key


class IdentityTests(SynchronousTestCase):
    """Values of the secret."""

    def test_round_trip(self) -> None:
        """What is encoded is read again, statements included."""
        first = Identity(b"private", b"public")
        second = first.followed_by(b"p2", b"P2", b"signature")

        for identity in (first, second):
            self.assertEqual(decode(identity.encode()), identity)
        self.assertEqual(second.handovers, (("P2", b"signature"),))
        self.assertNotIn("private", repr(first))

    def test_chain(self) -> None:
        """A minion that knows the first key follows two changes; the last changes are kept."""
        names = ("master", "minion", "master_sign")
        identity = Identity(b"", key("master").public.pem.encode())
        for old, new in (names[:2], names[1:]):
            pem = key(new).public.pem
            identity = identity.followed_by(b"", pem.encode(), hand_over(key(old), pem))

        known = followed(key("master").public, decode(identity.encode()).handovers)

        self.assertEqual(known, key("master_sign").public)
        for number in range(KEPT):
            identity = identity.followed_by(b"", b"%d" % number, b"s")
        self.assertEqual([pem for pem, _ in identity.handovers], [str(n) for n in range(KEPT)])

    def test_nonsense(self) -> None:
        """Bytes that are not an identity are an error of their own kind."""
        for value in (b"", b"\xc1", pack_bin(7), pack_bin([b"a", b"b"]), pack_bin(["a", b"b", []])):
            self.assertRaises(WireError, decode, value)
        for rows in (7, [7], [["pem"]], [[b"pem", b"sig"]], [["pem", "sig"]]):
            self.assertRaises(WireError, decode, pack_bin([b"a", b"b", rows]))
