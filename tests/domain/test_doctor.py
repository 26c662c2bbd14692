"""
What the doctor makes of facts.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import doctor
from saltwisted.domain.doctor import Account, Finding, Severity


def ids(found: object) -> list[str]:
    """The ids of findings."""
    return [one.id for one in found]  # type: ignore[attr-defined]


class RuleTests(SynchronousTestCase):
    """One rule each: the sound case finds nothing, the broken one has evidence."""

    def test_ports(self) -> None:
        """Ours are ours; nobody's, a stranger's and an unreachable one are found."""
        self.assertEqual(ids(doctor.ports(7, {4505: "twistd (pid 7)"}, {"a": True})), [])
        self.assertEqual(ids(doctor.ports(7, {4505: ""}, {})), ["port.closed"])
        self.assertEqual(ids(doctor.ports(0, {4505: ""}, {})), [])
        taken = list(doctor.ports(7, {4505: "salt-master (pid 70)"}, {}))
        self.assertEqual((taken[0].id, taken[0].command), ("port.taken", ""))
        self.assertIn("A stock master runs", str(taken[0].advice))
        self.assertEqual(ids(doctor.ports(7, {4505: ""}, {}, "", False)), [])
        self.assertEqual(ids(doctor.ports(7, {}, {"m1 to a:4505": False})), ["port.unreachable"])

    def test_clocks(self) -> None:
        """An unknown clock is not a finding; a free-running one and a far one are."""
        self.assertEqual(ids(doctor.clocks(None, {"b": -29.0})), [])
        self.assertEqual(ids(doctor.clocks(False, {})), ["clock.unsynchronised"])
        self.assertEqual(ids(doctor.clocks(True, {"b": -31.0})), ["clock.skew"])

    def test_certificates(self) -> None:
        """Ended, ending, and not begun; a good one is not worth a word."""
        rows = [
            ("/a.pem", "fine", 0.0, 90 * doctor.DAY),
            ("/b.pem", "soon", 0.0, 40 * doctor.DAY),
            ("/c.pem", "gone", 0.0, 10 * doctor.DAY),
            ("/d.pem", "born later", 30 * doctor.DAY, 900 * doctor.DAY),
        ]

        found = list(doctor.certificates(rows, 20 * doctor.DAY))

        self.assertEqual(
            [(one.id, one.severity.value, one.text) for one in found],
            [
                ("certificate.ends", "warning", "the certificate of soon ends in 20 days"),
                ("certificate.ended", "error", "the certificate of gone ended 10 days ago"),
                ("certificate.early", "error", "the certificate of born later is not valid yet"),
            ],
        )
        self.assertEqual(found[1].evidence, ["/c.pem: until 1970-01-11"])

    def test_keys(self) -> None:
        """Clones, two states, doubled ids, ids that look alike."""
        sound = {"accepted": {"a": "1", "b": "2"}, "denied": {"c": "3"}, "pending": {"d": "4"}}
        self.assertEqual(ids(doctor.keys(sound)), [])
        found = list(
            doctor.keys(
                {
                    "accepted": {"a": "1", "A": "1", "b": "2"},
                    "pending": {"b": "2"},
                    "denied": {"b": "9"},
                }
            )
        )
        self.assertEqual(
            ids(found), ["key.shared", "key.two-states", "minion.duplicate-id", "minion.alike"]
        )

    def test_problems(self) -> None:
        """A disk that refuses is an error; what else the daemon says is a warning."""
        (disk,) = doctor.shut_in({"jobs": "disk full"}, "saltwisted-cluster")
        self.assertEqual((disk.id, disk.severity), ("store.problem", Severity.ERROR))
        self.assertEqual(disk.command, "df -h")
        (other,) = doctor.shut_in({"pruning": "no majority"}, "saltwisted-cluster")
        self.assertIn("journalctl -u saltwisted-cluster", other.command)
        (by_hand,) = doctor.shut_in({"pruning": "no majority"}, "")
        self.assertEqual(by_hand.command, "")
        self.assertEqual((other.id, other.severity), ("daemon.problem", Severity.WARNING))
        self.assertEqual(other.text, "pruning: no majority")

    def test_modes(self) -> None:
        """What others may read is mended by the mode without those bits."""
        own = Account(user="u", group="g", uid=5, gid=6)
        self.assertEqual(ids(doctor.modes([("/k", 0o600, 0, 0, 0o077)], own)), [])
        (found,) = doctor.modes([("/k", 0o644, 5, 0, 0o077)], own)
        self.assertEqual(found.fix, ("chmod", "/k", 0o600))
        self.assertEqual(found.command, "chmod 0600 /k")
        (owner,) = doctor.modes([("/k", 0o600, 7, 0, 0o077)], own)
        self.assertEqual((owner.id, owner.command), ("file.owner", "chown u /k"))

    def test_modes_keep(self) -> None:
        """
        What the daemon reads by rights that others have too, it reads afterwards: by its group, or
        as the owner. Nothing is advised for a user whom nobody knows, and nothing is mended.
        """
        own = Account(user="u", group="g", uid=5, gid=6, groups=frozenset((6, 8)))
        cases = [
            # a configuration of root's, which the group may go on reading
            (0o644, 0, 0, 0o007, "chgrp g /k && chmod 0640 /k", ("chgrp", "/k", 6, 0o640)),
            (0o644, 0, 8, 0o007, "chmod 0640 /k", ("chmod", "/k", 0o640)),
            # a key, which no group may read
            (0o644, 0, 0, 0o077, "chown u /k && chmod 0600 /k", ("chown", "/k", 5, 0o600)),
            (0o40755, 0, 0, 0o077, "chmod 0700 /k", ("chmod", "/k", 0o700)),
            (0o40777, 0, 0, 0o077, "chown u /k && chmod 0700 /k", ("chown", "/k", 5, 0o700)),
        ]
        for mode, uid, gid, forbidden, command, fix in cases:
            (found,) = doctor.modes([("/k", mode, uid, gid, forbidden)], own)
            self.assertEqual((found.command, found.fix), (command, fix), oct(mode))
        root = Account(user="root", group="root", uid=0, gid=0)
        (found,) = doctor.modes([("/k", 0o644, 0, 0, 0o007)], root)
        self.assertEqual(found.command, "chmod 0640 /k")
        (found,) = doctor.modes([("/k", 0o644, 0, 0, 0o007)], None)
        self.assertEqual((found.command, found.fix), ("", ()))
        self.assertEqual(ids(doctor.modes([("/k", 0o600, 7, 0, 0o077)], None)), [])

    def test_data(self) -> None:
        """A finding is data: what, where, how bad, what was seen, what to do, and who may."""
        (found,) = doctor.modes(
            [("/k", 0o644, 0, 0, 0o007)], Account(user="root", group="root", uid=0, gid=0)
        )
        told = found.of_node("a").of_node("b").as_json()
        self.assertEqual((told["id"], told["node"], told["severity"]), ("file.mode", "a", "error"))
        self.assertEqual((told["command"], told["by"]), ("chmod 0640 /k", "root"))
        self.assertIn(told["command"], told["advice"])
        self.assertIs(told["mendable"], True)

    def test_disks(self) -> None:
        """Little room and few names."""
        gib = 1 << 30
        self.assertEqual(ids(doctor.disks({"/c": (50 * gib, 100 * gib, 900, 1000)})), [])
        self.assertEqual(ids(doctor.disks({"/c": (4 * gib, 100 * gib, 900, 1000)})), ["disk.space"])
        (full,) = doctor.disks({"/c": (1 << 20, 100 * gib, 0, 0)})
        self.assertIs(full.severity, Severity.ERROR)
        self.assertEqual(ids(doctor.disks({"/c": (50 * gib, 100 * gib, 9, 1000)})), ["disk.inodes"])

    def test_limits(self) -> None:
        """A thousand minions and 1024 open files do not go together."""
        self.assertEqual(ids(doctor.limits(1024, 1000)), ["limit.files"])
        self.assertEqual(ids(doctor.limits(1024, 100)), [])
        self.assertEqual(ids(doctor.limits(0, 1000)), [])

    def test_versions(self) -> None:
        """Old minions by the holes they have; unknown versions are left alone."""
        minions = {"a": "3006.9", "b": "3006.17", "c": "3007.4", "d": "3008.2", "e": "2019.2.4"}
        found = list(doctor.versions({**minions, "f": "", "g": "3004.1"}))
        self.assertEqual(
            [one.evidence for one in found], [["a 3006.9", "c 3007.4"], ["e 2019.2.4", "g 3004.1"]]
        )

    def test_version_words(self) -> None:
        """Versions with letters behind them are read as far as they go."""
        self.assertEqual(doctor.version_of("3006.4+ds"), (3006, 4))
        self.assertEqual(doctor.version_of("3008.0rc2"), (3008, 0))
        self.assertEqual(doctor.version_of("unknown"), ())

    def test_proxy(self) -> None:
        """A timeout must be well above the heartbeat."""
        self.assertEqual(ids(doctor.proxy({"timeout client": 90.0})), [])
        self.assertEqual(ids(doctor.proxy({"timeout client": 39.0})), ["proxy.idle"])

    def test_order(self) -> None:
        """The worst comes first."""
        note = Finding(id="a", severity=Severity.NOTE, text="")
        error = Finding(id="z", severity=Severity.ERROR, text="")
        self.assertEqual(doctor.sorted_findings([note, error]), [error, note])
