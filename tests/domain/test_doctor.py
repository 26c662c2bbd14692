"""
What the doctor makes of facts.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import doctor
from saltwisted.domain.doctor import Finding, Severity


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
        self.assertEqual(
            (taken[0].id, taken[0].command), ("port.taken", "systemctl stop salt-master")
        )
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
        self.assertIn("journalctl -u saltwisted-cluster", disk.command)
        (other,) = doctor.shut_in({"pruning": "no majority"})
        self.assertEqual((other.id, other.severity), ("daemon.problem", Severity.WARNING))
        self.assertEqual(other.text, "pruning: no majority")

    def test_modes(self) -> None:
        """What others may read is mended by the mode without those bits."""
        self.assertEqual(ids(doctor.modes([("/k", 0o600, 0, 0o077)], 5)), [])
        (found,) = doctor.modes([("/k", 0o644, 5, 0o077)], 5)
        self.assertEqual(found.fix, ("chmod", "/k", 0o600))
        self.assertEqual(ids(doctor.modes([("/k", 0o600, 6, 0o077)], 5)), ["file.owner"])

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

    def test_cluster(self) -> None:
        """A member that is away, one that is behind, and options that drifted."""
        rows = [
            {"node": "a", "state": "serving", "lag": {"keys": 0}},
            {"node": "b", "state": "dead", "problem": "no word for 9 s"},
            {"node": "c", "state": "serving", "lag": {"keys": 5000, "roots": None}},
        ]
        found = list(doctor.cluster(rows, [{"option": "peer"}]))
        self.assertEqual(ids(found), ["member.state", "member.lag", "option.drift"])
        self.assertEqual(found[0].evidence, ["no word for 9 s"])

    def test_order(self) -> None:
        """The worst comes first."""
        note = Finding(id="a", severity=Severity.NOTE, text="")
        error = Finding(id="z", severity=Severity.ERROR, text="")
        self.assertEqual(doctor.sorted_findings([note, error]), [error, note])
