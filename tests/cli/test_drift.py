"""
How nodes differ in options: what C{members --drift} prints.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.cluster import drift_lines


class DriftTests(SynchronousTestCase):
    """Lines of one option."""

    def test_diff(self) -> None:
        """Against what most have, line by line; nodes with the same value together."""
        most = '{"web": "L@a,b"}'
        lines = list(
            drift_lines("nodegroups", {"a": most, "b": '{"web": "L@a"}', "c": most, "d": most})
        )

        self.assertEqual(lines[:3], ["nodegroups:", "--- a, c, d", "+++ b"])
        self.assertIn('-  "web": "L@a,b"', lines)
        self.assertIn('+  "web": "L@a"', lines)

    def test_absent(self) -> None:
        """A value that is not JSON is shown as it is; three values are two differences."""
        lines = list(drift_lines("peer", {"a": "{}", "b": "(not set)", "c": "[1]"}))

        self.assertEqual(lines.count("peer:"), 2)
        self.assertIn("+(not set)", lines)
