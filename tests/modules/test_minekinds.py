"""
C{mine.get} of a kind of target that does not exist.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.exceptions import SaltInvocationError
from tests.modules.harness import load


class KindTests(SynchronousTestCase):
    """What a minion asks, and what it does not."""

    def test_unknown(self) -> None:
        """The kind is named, and no master is asked; those that exist go to the master."""
        asked: list[str] = []

        class Master:
            def request(self, question: dict[str, Any]) -> Any:
                asked.append(question["tgt_type"])
                return {"web1": 1}

        module = load("mine", opts={"id": "web1"})
        module.__master__ = Master()
        for kind in ("horoscope", "globs", "", "_pillar_exact", None, ["glob"]):
            with self.assertRaisesRegex(SaltInvocationError, "no kind of target"):
                module.get("*", "x.y", kind)
        self.assertEqual(asked, [])
        kinds = ["glob", "grain", "compound", "pillar_pcre", "nodegroup", "ipcidr", "list", "pcre"]
        for kind in kinds:
            self.assertEqual(module.get("*", "x.y", kind), {"web1": 1})
        self.assertEqual(asked, kinds)
