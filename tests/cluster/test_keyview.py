"""
Where and when keys were seen: what each node answers, in whatever order it heard of it.
"""

from __future__ import annotations

import os
from itertools import permutations
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.control import views
from saltwisted.cluster.facts.keyview import KeyView
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.operations.table import Caller, Operations
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.errors import RemoteError
from tests.fakes.operations import ROOT, nobody_listens
from tests.wire.recorded import key

SECOND = 1000 << 16


class KeyViewTests(SynchronousTestCase):
    """Rows over a fold."""

    def setUp(self) -> None:
        self.one, self.two = (key(n).public.pem.encode() for n in ("minion", "master"))

    def acts(self) -> list[tuple[dict[str, Any], int, Dot[Stream]]]:
        """A key pending on a, another accepted of the same id on b, then the first on c."""
        empty = KeySet()
        return [
            (empty.act("pend", "web1", self.one, "a"), 1 * SECOND, Dot(Stream("a", "0" * 16), 1)),
            (empty.act("accept", "web1", self.two, "b"), 2 * SECOND, Dot(Stream("b", "0" * 16), 1)),
            (empty.act("accept", "web1", self.one, "c"), 3 * SECOND, Dot(Stream("c", "0" * 16), 1)),
            (empty.act("pend", "web2", self.one, "a"), 4 * SECOND, Dot(Stream("a", "0" * 16), 2)),
        ]

    def view(self, acts: Any) -> KeyView:
        """What a node shows that has heard of these."""
        keyset = KeySet()
        for act in acts:
            keyset.apply(*act)
        return KeyView(keyset, "sha256")

    def ask(self, view: KeyView, uid: int = 0, **args: Any) -> Any:
        """The operation."""
        nothing: Any = None
        table = Operations("this master", views(nothing, nothing, view))
        caller = ROOT if uid == 0 else Caller(name="fred", source=f"uid {uid}")
        return Deferred.fromCoroutine(table.call("keys_shown", args, caller, nobody_listens))

    def test_alike(self) -> None:
        """The earlier acceptance holds, the other shows as a conflict; the same in any order."""
        rows = list(self.view(self.acts()).rows())

        self.assertEqual(
            [(r["id"], r["state"], r["at"], r["node"], r["conflict"]) for r in rows],
            [
                ("web1", "accepted", 2.0, "b", False),
                ("web1", "denied", 3.0, "c", True),
                ("web2", "pending", 4.0, "a", False),
            ],
        )
        self.assertEqual(rows[0]["fingerprint"], key("master").public.fingerprint())
        for order in permutations(self.acts()):
            self.assertEqual(list(self.view(order).rows()), rows)

    def test_chosen(self) -> None:
        """By id, by state, by conflict; and not for everybody."""
        view = self.view(self.acts())
        for args, ids in (
            ({}, ["web1", "web1", "web2"]),
            ({"match": "*2"}, ["web2"]),
            ({"pending": True}, ["web2"]),
            ({"conflicts": True}, ["web1"]),
        ):
            rows = self.successResultOf(self.ask(view, **args))
            self.assertEqual([row["id"] for row in rows], ids)
        self.successResultOf(self.ask(view, os.geteuid()))
        self.failureResultOf(self.ask(view, os.geteuid() + 4711), RemoteError)
