"""
Who is present, and what the kernel's table of connections says.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.presence import change, established_peers, known_addresses, present_ids

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000:1199 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
   1: 0100007F:1199 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0
   2: 0A01A8C0:1199 0B01A8C0:D2F1 01 00000000:00000000 00:00000000 00000000     0
   3: 0A01A8C0:1199 0C01A8C0:D2F2 06 00000000:00000000 00:00000000 00000000     0
   4: 0A01A8C0:119A 0D01A8C0:D2F3 01 00000000:00000000 00:00000000 00000000     0
   5: short
"""
TCP6 = """\
  sl  local_address                         remote_address                        st
   0: 0000000000000000FFFF00000A01A8C0:1199 0000000000000000FFFF00000E01A8C0:D2F0 01
   1: 000080FE00000000FF005450FEFF0100:1199 000080FE00000000FF005450FEFF0200:D2F1 01
   2: xyz:1199 xyz:1 01
   3: 00:1199 0A01:1 01
"""


class PresenceTests(SynchronousTestCase):
    """House decision 12."""

    def test_kernel_table(self) -> None:
        """Only established connections to the port count, and addresses come out readable."""
        self.assertEqual(established_peers(TCP, 4505), {"127.0.0.1", "192.168.1.11"})
        self.assertEqual(established_peers(TCP, 4506), {"192.168.1.13"})
        self.assertEqual(established_peers(TCP6, 4505), {"192.168.1.14", "fe80::5054:ff:2:fffe"})
        self.assertEqual(established_peers("", 4505), set())

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
