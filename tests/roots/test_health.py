"""
What is wrong with roots, from what a node says of them.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots.health import LAG, roots

SOUND = {"root": "/srv/salt", "ready": True}


def found(**share: Any) -> list[tuple[str, str, str]]:
    """The ids, severities and texts for one share with these troubles."""
    status = {"shares": {"file/base/0": {**SOUND, **share}}}
    return [(one.id, one.severity.value, one.text) for one in roots(status)]


class HealthTests(SynchronousTestCase):
    """Each trouble alone: it is found, as what it is, in whole sentences."""

    def test_sound(self) -> None:
        """Nothing is said of roots that are well, nor of a master that has none."""
        self.assertEqual(found(), [])
        self.assertEqual(list(roots({})), [])

    def test_errors(self) -> None:
        """What stops replication, or shows that a disk lies, is an error."""
        cases: list[tuple[dict[str, Any], str]] = [
            ({"suspended": "the marker is missing"}, "roots.suspended"),
            ({"failed": {"a": "no room"}}, "roots.unwritten"),
            ({"rotten": ["a"]}, "roots.rotten"),
            ({"damaged": ["0a1b"], "damaged_count": 1}, "roots.damaged"),
            ({"alarm": "files differ"}, "roots.alarm"),
        ]
        for share, name in cases:
            ((said, severity, text),) = found(**share)
            self.assertEqual((said, severity), (name, "error"))
            self.assertIn("file/base/0", text)

    def test_warnings(self) -> None:
        """What waits for a person is a warning, counted as one counts."""
        cases: list[tuple[dict[str, Any], str, str]] = [
            ({"ready": False}, "roots.waiting", "waits for the cluster's tree"),
            ({"held": 1}, "roots.held", "1 deletion is held until somebody approves"),
            ({"held": 7}, "roots.held", "7 deletions are held until somebody approves"),
            ({"held_from": {"m2": "409"}}, "roots.held", "the changes of m2 are held: 409"),
            ({"conflicts": 1}, "roots.conflict", "1 open conflict"),
            ({"conflicts": 2}, "roots.conflict", "2 open conflicts"),
            ({"skipped": {"p": "a pipe"}, "skipped_count": 1}, "roots.skipped", "1 path is not"),
            ({"skipped": {"p": "a pipe"}, "skipped_count": 900}, "roots.skipped", "900 paths are"),
            ({"error": "disk full"}, "roots.error", "disk full"),
        ]
        for share, name, text in cases:
            ((said, severity, shown),) = found(**share)
            self.assertEqual((said, severity), (name, "warning"))
            self.assertIn(text, shown)

    def test_notes(self) -> None:
        """What passes by itself, or was meant, is told and is nothing wrong."""
        cases: list[dict[str, Any]] = [{"pending": 1}, {"kept": ["d"]}, {"hot": {"f": 2.0}}]
        for share in cases:
            ((_, severity, _),) = found(**share)
            self.assertEqual(severity, "note")
        (one,) = roots({"left_out": {"file/x/0": "is no absolute path"}})
        self.assertEqual(one.severity.value, "note")

    def test_lag(self) -> None:
        """A few changes are on their way at any moment; many are worth a warning, both ways."""

        def lag(lacks: int, ahead: int) -> list[tuple[str, str]]:
            peer = {"error": "", "shares": {"file/base/0": {"lacks": lacks, "ahead": ahead}}}
            return [(one.severity.value, one.text) for one in roots({"peers": {"m2": peer}})]

        self.assertEqual(lag(0, 0), [])
        self.assertEqual(lag(1, 0), [("note", "roots: 1 change is missing on m2")])
        ((severity, text),) = lag(0, LAG + 1)
        self.assertEqual(severity, "warning")
        self.assertEqual(text, "roots: 101 changes are missing here that m2 has")

    def test_node(self) -> None:
        """A clock that is off, and a peer that refuses."""
        status = {"clock": "the clock is off", "peers": {"m2": {"error": "read-only"}}}
        self.assertEqual([one.id for one in roots(status)], ["roots.clock", "roots.peer"])
