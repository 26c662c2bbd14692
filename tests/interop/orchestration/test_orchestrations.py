"""
Our master answers orchestrations as stock 3008.2 has; see L{tests.interop.orchestration.runner}.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import needs_peers, scratch
from tests.interop.orchestration.runner import Place, everything, recorded


@needs_peers
class OrchestrationTests(SynchronousTestCase):
    """One master of ours and two stock minions for all cases."""

    timeout = 600

    def test_as_stock(self) -> None:
        """Results, order, comments, changes, outputs and exit codes of all cases are stock's."""
        place = Place.ours(scratch(self))
        self.addCleanup(place.kill)
        place.up()
        known = recorded()
        wrong = []

        for name, case in everything()["cases"].items():
            ours = place.answer(name, case)
            expected = {**known[name], **case.get("ours", {})}
            if case.get("only"):
                ours, expected = ({case["only"]: each[case["only"]]} for each in (ours, expected))
            if ours != expected:
                wrong.append(f"{name}:\nours  {ours}\nstock {expected}")

        self.assertEqual(wrong, [], "\n\n".join(wrong))
