"""
The number of an acceptance: equal on two nodes, another one after a revocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.acceptance import acceptance_number
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.keyset import KeySet
from tests.wire.recorded import key

PUB = key("minion").public.pem.encode()


class AcceptanceTests(SynchronousTestCase):
    """Two nodes."""

    def setUp(self) -> None:
        """They know nothing."""
        self.one, self.other = KeySet(), KeySet()
        self.count = 0
        self.log: list[tuple[dict[str, Any], int, Dot[Stream]]] = []

    def act(self, act: str) -> None:
        """An act at the first node; the second hears of it later."""
        self.count += 1
        body = self.one.act(act, "web1", PUB)
        entry = (body, self.count << 16, Dot(Stream("a", "0" * 16), self.count))
        self.one.apply(*entry)
        self.log.append(entry)

    def hear(self, entries: Sequence[tuple[dict[str, Any], int, Dot[Stream]]]) -> None:
        """The second node hears."""
        for entry in entries:
            self.other.apply(*entry)

    def test_equal(self) -> None:
        """Nodes that know the same have the same number, in whatever order they heard of it."""
        for act in ("pend", "accept", "delete", "accept"):
            self.act(act)
        self.hear(self.log[::-1])

        self.assertIsNotNone(acceptance_number(self.one, "web1"))
        self.assertEqual(acceptance_number(self.one, "web1"), acceptance_number(self.other, "web1"))

    def test_T_KEY_1_again(self) -> None:
        """T-KEY-1: after a revocation there is none, and the next acceptance has another."""
        self.assertIsNone(acceptance_number(self.one, "web1"))
        self.act("accept")
        first = acceptance_number(self.one, "web1")
        self.act("accept")
        self.assertEqual(acceptance_number(self.one, "web1"), first)

        for revoke in ("delete", "reject"):
            self.act(revoke)
            self.assertIsNone(acceptance_number(self.one, "web1"))
            self.act("accept")
            self.assertNotIn(acceptance_number(self.one, "web1"), (None, first))
