"""
An etcd that lies about its revisions, or was set back: the node sees again when it says the truth.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.claims.etcd import LOWER, EtcdCourt
from saltwisted.domain.claims.etcd import Ask, Names, Record, encode_record


class Lying:
    """
    What is answered to a look at everything.

    @ivar terms: who holds what.
    """

    def __init__(self) -> None:
        self.revision = 100
        self.terms: dict[str, str] = {}

    async def ask(self, ask: Ask) -> Any:
        """As a gateway."""
        rows = [
            {
                "key": b64encode(f"p/term/{key}".encode()).decode(),
                "value": b64encode(encode_record(Record(holder=f"{node}#1", node=node))).decode(),
                "mod_revision": str(self.revision),
            }
            for key, node in self.terms.items()
        ]
        found: list[Any] = [{"response_range": {"kvs": rows}}, {"response_range": {}}]
        header = {"revision": str(self.revision)}
        return {"succeeded": True, "header": header, "responses": found}

    async def stop(self) -> None:
        """Nothing."""


class SetBackTests(SynchronousTestCase):
    """One node's court."""

    def setUp(self) -> None:
        self.etcd = Lying()
        self.court = EtcdCourt(Clock(), "a", "1", self.etcd, Names("p"), lambda: 1e9, 86400.0)

    def look(self) -> None:
        """As each second."""
        self.successResultOf(Deferred.fromCoroutine(self.court.care()))

    def test_T_CLAIM_1_revisions(self) -> None:
        """
        T-CLAIM-1: after a revision that etcd never had, or when it was restored from a copy, a
        node does not go on for ever with what it saw then; one late answer changes nothing.
        """
        self.etcd.revision, self.etcd.terms = (1 << 63) - 1, {"duty/x": "b"}
        self.look()
        self.assertFalse(self.court.is_free("duty/x"))
        self.etcd.revision, self.etcd.terms = 50, {}
        for _ in range(LOWER):
            self.look()
            self.assertFalse(self.court.is_free("duty/x"))
        self.look()

        self.assertTrue(self.court.is_free("duty/x"))
        self.etcd.revision, self.etcd.terms = 51, {"duty/y": "b"}
        self.look()
        self.assertEqual(self.court.holders(), {"duty/y": ("b", 51)})

    def test_T_CLAIM_1_late_answers(self) -> None:
        """T-CLAIM-1: answers that come late, among others, change nothing of what was seen."""
        self.etcd.terms = {"duty/x": "b"}
        self.look()
        for _ in range(10):
            self.etcd.revision, self.etcd.terms = 99, {}
            for _ in range(LOWER):
                self.look()
            self.assertFalse(self.court.is_free("duty/x"))
            self.etcd.revision, self.etcd.terms = 100, {"duty/x": "b"}
            self.look()
