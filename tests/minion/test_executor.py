"""
The executor: places, queue, ends.
"""

from __future__ import annotations

import signal
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError
from saltwisted.minion.executor import Executor, Order, Running
from tests.minion.fakes import FakeWorkers


class ExecutorTests(SynchronousTestCase):
    """Jobs on pretended processes."""

    def setUp(self) -> None:
        """An executor with two places."""
        self.workers = FakeWorkers()
        self.heard: list[tuple[str, str]] = []
        self.executor = Executor(
            self.workers, lambda: 100.0, 2, {"outbox": "/o", "socket": "/s"}, queue_limit=2
        )

    async def hear(self, running: Running, op: str, args: dict[str, Any], stream: Any) -> Any:
        """Note what a job says."""
        self.heard.append((running.order.jid, op))
        return "answer"

    def order(self, jid: str, fun: str = "test.sleep", **more: Any) -> Order:
        """A job."""
        return Order(job={"jid": jid, "fun": fun, "arg": []}, handler=self.hear, **more)

    def test_payload(self) -> None:
        """A process gets the job, the settings, the blackouts, and nothing that is not set."""
        self.executor.black_out([["test.ping"]])
        running = self.executor.run(self.order("1", via="red"))
        self.executor.run(
            self.order("2", private=True, listed=True, return_jid="req", without=("grains",))
        )

        first, second = self.workers.children
        self.assertEqual(first.entry, "saltwisted.worker.process.main:run_job")
        self.assertEqual(
            first.payload,
            {
                "job": {"jid": "1", "fun": "test.sleep", "arg": []},
                "outbox": "/o",
                "socket": "/s",
                "blackouts": [["test.ping"]],
                "private": False,
                "via": "red",
            },
        )
        self.assertEqual(
            {key: second.payload[key] for key in ("private", "listed", "return_jid", "without")},
            {"private": True, "listed": True, "return_jid": "req", "without": ["grains"]},
        )
        self.assertEqual((running.pid, running.since), (first.pid, 100.0))

    def test_heard(self) -> None:
        """What a process asks reaches the handler of its own job, and the answer goes back."""
        self.executor.run(self.order("1"))
        self.executor.run(self.order("2"))

        answer = self.successResultOf(self.workers.children[1].says("request"))

        self.assertEqual((answer, self.heard), ("answer", [("2", "request")]))

    def test_queue(self) -> None:
        """With all places taken a job waits, and starts in its turn when one ends."""
        running = [self.executor.run(self.order(str(n))) for n in range(4)]
        self.assertEqual(len(self.workers.children), 2)
        self.assertEqual(self.executor.waiting, running[2:])
        self.assertEqual(running[2].pid, 0)

        self.workers.children[1].ends("was ended by SIGSEGV")

        self.assertEqual(self.successResultOf(running[1].ended), "was ended by SIGSEGV")
        self.assertEqual(self.executor.running, [running[0], running[2]])
        self.assertEqual(self.workers.children[2].payload["job"]["jid"], "2")

    def test_refused(self) -> None:
        """When the queue is full another job is refused."""
        for n in range(4):
            self.executor.run(self.order(str(n)))

        error = self.assertRaises(RemoteError, self.executor.run, self.order("5"))

        self.assertEqual(error.name, "TooManyJobs")

    def test_urgent(self) -> None:
        """Looking for jobs, killing them, and calls of our own never wait."""
        for n in range(4):
            self.executor.run(self.order(str(n)))

        self.executor.run(self.order("5", fun="saltutil.find_job"))
        self.executor.run(self.order("6", fun="saltutil.kill_job"))
        self.executor.run(self.order("7", private=True))

        self.assertEqual(len(self.workers.children), 5)

    def test_kill(self) -> None:
        """A signal goes to the job's whole group; a waiting job is taken out of the queue."""
        for n in range(3):
            self.executor.run(self.order(str(n)))
        waiting = self.executor.waiting[0]

        self.assertTrue(self.executor.kill("1", signal.SIGTERM))
        self.assertTrue(self.executor.kill("2"))
        self.assertFalse(self.executor.kill("99"))

        self.assertEqual(self.workers.children[1].signals, [(signal.SIGTERM, True)])
        self.assertEqual(self.successResultOf(waiting.ended), "was taken out of the queue")
        self.assertEqual(self.executor.waiting, [])

    def test_call(self) -> None:
        """A call of our own gives back what its process returned, and nobody else hears it."""
        d = Deferred.fromCoroutine(
            self.executor.call("grains.items", [1], self.hear, "9", ("grains",))
        )
        (child,) = self.workers.children
        self.assertTrue(child.payload["private"])
        self.successResultOf(child.says("log", message="x"))
        self.successResultOf(child.says("private_return", ret={"return": {"os": "X"}}))
        self.assertNoResult(d)

        child.ends()

        self.assertEqual(self.successResultOf(d), {"return": {"os": "X"}})
        self.assertEqual(self.heard, [("9", "log")])

    def test_call_dies(self) -> None:
        """A call whose process dies fails with how it died."""
        d = Deferred.fromCoroutine(self.executor.call("x.y", [], self.hear, "9"))

        self.workers.children[0].ends("was ended by SIGKILL")

        error = self.failureResultOf(d, RemoteError).value
        self.assertEqual(
            (error.name, error.message), ("WorkerDied", "the process of x.y was ended by SIGKILL")
        )

    def test_stop(self) -> None:
        """After the stop nothing starts; what waited is given back, what runs is left alone."""
        for n in range(4):
            self.executor.run(self.order(str(n)))

        waiting = self.executor.stop()
        self.workers.children[0].ends()

        self.assertEqual([running.order.jid for running in waiting], ["2", "3"])
        self.assertEqual(len(self.workers.children), 2)

    def test_no_limit(self) -> None:
        """Without C{process_count_max} there is a limit all the same, from the descriptors."""
        self.assertGreaterEqual(Executor(self.workers, lambda: 0.0, -1, {}).limit, 1)
