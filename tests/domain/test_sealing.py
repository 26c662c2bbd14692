"""
Calls of secret steps as they lie on disks.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.orchestration.sealing import SEALED, Seals
from saltwisted.domain.orchestration.words import MAX_LINE, begun_line, pack_line
from saltwisted.errors import StoreError
from tests.wire.recorded import key

CANARY = "canary-55"
LOW = {
    "state": "salt",
    "fun": "function",
    "name": "cmd.run",
    "tgt": "m1",
    "arg": [f"echo {CANARY}", b"\xff\x00", 3],
    "no_log": True,
    "batch": 2,
    "__id__": "told",
}


class SealTests(SynchronousTestCase):
    """Seals of one identity and of another."""

    def setUp(self) -> None:
        self.seals = Seals(lambda: key("master"), lambda size: b"i" * size)

    def test_T_LOG_1_sealed(self) -> None:
        """T-LOG-1: what a secret step is given does not lie open; what judges a takeover does."""
        low = self.seals.sealed(LOW)

        self.assertEqual(
            {word: low[word] for word in low if word != SEALED},
            {
                "state": "salt",
                "fun": "function",
                "no_log": True,
                "batch": 2,
                "__id__": "told",
            },
        )
        self.assertNotIn(CANARY.encode(), pack_line(begun_line("a", 1.0, {"chunks": [low]})))
        self.assertEqual(self.seals.opened([low, {"fun": "x"}]), [LOW, {"fun": "x"}])
        self.assertEqual(self.seals.sealed(low), low)
        self.assertLess(len(low[SEALED]), MAX_LINE)

    def test_open(self) -> None:
        """A step that is no secret stays as it is."""
        for low in ({**LOW, "no_log": False}, {"state": "test", "fun": "nop"}):
            self.assertIs(self.seals.sealed(low), low)

    def test_other_identity(self) -> None:
        """Whoever is no master of this cluster cannot open it; which step it is, is said."""
        other = Seals(lambda: key("minion"), lambda size: b"i" * size)

        error = self.assertRaises(StoreError, other.opened, [self.seals.sealed(LOW)])
        self.assertIn("step told is sealed by another key", str(error))
