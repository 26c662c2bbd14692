"""
Who is present.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.presence import change, known_addresses, present_ids


class PresenceTests(SynchronousTestCase):
    """Who is here, by requests and by connections."""

    def test_addresses(self) -> None:
        """The last request's address counts whatever it is, the grains' loopback does not."""
        grains = {"ipv4": ["127.0.0.1", "10.0.0.1"], "ipv6": ["::1", "fe80::1"], "id": "x"}

        self.assertEqual(known_addresses("127.0.0.1", grains), ("127.0.0.1", "10.0.0.1", "fe80::1"))
        self.assertEqual(known_addresses("", {"ipv4": "10.0.0.1", "ipv6": [5]}), ())

    def test_present(self) -> None:
        """A recent request or a connection from an own address makes present, nothing else does."""
        addresses = {"a": ["10.0.0.1"], "b": ["10.0.0.2"], "c": ["10.0.0.3"]}

        here = present_ids(
            ["a", "b", "c"],
            recently=lambda minion: minion == "a",
            addresses_of=addresses.__getitem__,
            connected={"10.0.0.2", "10.0.0.9"},
        )

        self.assertEqual(here, {"a", "b"})

    def test_change(self) -> None:
        """Two sweeps compare to who is new and who is lost, sorted."""
        found = change({"a", "b"}, ["d", "b", "c"])

        self.assertEqual(
            (found.present, found.new, found.lost), (("b", "c", "d"), ("c", "d"), ("a",))
        )
