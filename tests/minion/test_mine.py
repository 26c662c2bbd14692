"""
When the mine is filled, and how it reaches the master.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import TransportClosed
from saltwisted.minion.mine import JOB, Mine, mine_job


class MineTests(SynchronousTestCase):
    """The hidden job and the way to the master."""

    def setUp(self) -> None:
        """Nothing has been asked."""
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.loads: list[Mapping[str, Any]] = []
        self.answer: Deferred[Any] = succeed(True)

    def mine(self, **settings: Any) -> Mine:
        """A mine that writes down what it asks for."""

        def schedule(func: str, **data: Any) -> Mapping[str, Any]:
            self.asked.append((func, data))
            return {}

        def request(load: Mapping[str, Any]) -> Deferred[Any]:
            self.loads.append(load)
            return self.answer

        return Mine(schedule, request, "m1", **settings)

    def test_job(self) -> None:
        """The hidden job is Salt's: mine.update, at start and each hour, without a return."""
        self.mine().startService()

        func, data = self.asked[0]
        self.assertEqual(func, "add")
        job = data["schedule"][JOB]
        self.assertEqual(job["function"], "mine.update")
        self.assertEqual(job["minutes"], 60)
        self.assertTrue(job["run_on_start"])
        self.assertFalse(job["return_job"])
        self.assertEqual(mine_job(0.5)["seconds"], 30)

    def test_disabled(self) -> None:
        """A disabled mine removes the job that an earlier start has saved."""
        self.mine(enabled=False).startService()

        self.assertEqual(self.asked, [("delete", {"name": JOB, "persist": False})])

    def test_send(self) -> None:
        """Values go to the master under the minion's own name."""
        sent = Deferred.fromCoroutine(self.mine().send({"test.ping": True}, clear=True))

        self.assertTrue(self.successResultOf(sent))
        self.assertEqual(
            self.loads,
            [{"cmd": "_mine", "id": "m1", "data": {"test.ping": True}, "clear": True}],
        )

    def test_send_fails(self) -> None:
        """A master out of reach is an answer, not an error: the next update brings it again."""
        self.answer = fail(TransportClosed("gone"))

        sent = Deferred.fromCoroutine(self.mine().send({}))

        self.assertFalse(self.successResultOf(sent))
