"""
What a cluster knows of its schedule, as the schedule asks for it: one key at a time.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.schedule import Held
from saltwisted.domain.replica.schedule import Known, ScheduleFacts


class Registers(dict[str, Known]):
    """They do not like to be walked."""

    walks = 0

    def items(self) -> Any:
        """All of them."""
        self.walks += 1
        return super().items()


class HeldTests(SynchronousTestCase):
    """L{Held}."""

    def held(self) -> tuple[Registers, Held]:
        """One key that holds, and one that was dropped."""
        fold = ScheduleFacts()
        place: Any = (1, (("a", 1), 1))
        registers = Registers({"job/a": Known({"data": 1}, place), "job/b": Known(None, place)})
        fold.registers = registers
        return registers, Held(fold)

    def test_what_holds(self) -> None:
        """What was dropped is not there, and what comes later is, without asking anew."""
        registers, held = self.held()
        registers["pause"] = Known({"by": "fred"}, registers["job/a"].place)

        self.assertEqual(dict(held), {"job/a": {"data": 1}, "pause": {"by": "fred"}})
        self.assertEqual(len(held), 2)
        self.assertNotIn("job/b", held)

    def test_one_key(self) -> None:
        """To look one key up nobody walks through the thousands of others."""
        registers, held = self.held()

        self.assertIn("job/a", held)
        self.assertIsNone(held.get("job/b"))
        self.assertIsNone(held.get("ran/none"))

        self.assertEqual(registers.walks, 0)
