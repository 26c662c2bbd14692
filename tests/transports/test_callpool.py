"""Calls that a few children take one after another, without a process and without waiting."""

from __future__ import annotations

from typing import Any

import msgpack
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import Logger, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError
from saltwisted.transports.callpool import LONGEST, CallPool, PoolLimits
from saltwisted.transports.children import Child, Exit
from saltwisted.transports.ipc import Handler, PeerProcess

PEER = PeerProcess(0, 0, 0)


class FakeChild:
    """A child that does what the test says."""

    def __init__(self, number: int, asked: Handler, killed: list[int]) -> None:
        self.child = Child(
            number,
            "x:y",
            kill=lambda child, signal, group: killed.append(child.number),
            message={},
            handler=asked,
        )
        self._asked = asked
        self.got: list[Any] = []

    def ask(self, **result: Any) -> None:
        """Ask for work, with what came of the last."""
        d: Deferred[Any] = Deferred.fromCoroutine(self._asked("work", result, PEER, None))  # type: ignore[arg-type]
        d.addCallback(lambda packed: self.got.append(packed and msgpack.unpackb(packed)))  # type: ignore[unused-awaitable]

    def say(self, op: str, args: dict[str, Any]) -> None:
        """Send anything else."""
        d: Deferred[Any] = Deferred.fromCoroutine(self._asked(op, args, PEER, None))  # type: ignore[arg-type]
        d.addErrback(lambda failure: self.got.append(failure.value))  # type: ignore[unused-awaitable]

    def exit(self, status: int) -> None:
        """It has ended."""
        self.child.exited.callback(Exit(77, status))


class CallPoolTests(SynchronousTestCase):
    """One entry."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.children: list[FakeChild] = []
        self.killed: list[int] = []
        self.addCleanup(lambda: self.assertEqual(self.clock.getDelayedCalls(), []))

    def pool(self, **limits: Any) -> CallPool:
        """The calls of it."""

        async def refuse(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
            raise RemoteError("SaltInvocationError", op)

        def spawn(asked: Handler) -> Child:
            self.children.append(FakeChild(len(self.children) + 1, asked, self.killed))
            return self.children[-1].child

        pool = CallPool(self.clock, "x:y", PoolLimits(**limits), spawn, refuse)
        self.addCleanup(pool.stop)
        return pool

    def test_one_after_another(self) -> None:
        """As many children as calls wait, up to the size; each takes the next when it is done."""
        pool = self.pool(size=2)
        calls = [pool.call(number, 60) for number in range(3)]
        self.assertEqual((len(self.children), pool.waiting), (2, 3))
        one, two = self.children
        two.ask()
        one.ask()
        self.assertEqual((two.got, one.got, pool.waiting), ([0], [1], 1))
        two.ask(value="zero")
        self.assertEqual((self.successResultOf(calls[0]), two.got), ("zero", [0, 2]))
        two.ask(error={"name": "Bad", "message": "no"})
        self.assertEqual(self.failureResultOf(calls[2], RemoteError).value.name, "Bad")
        one.ask(value=None)
        self.assertIsNone(self.successResultOf(calls[1]))

    def test_lines(self) -> None:
        """What a child logs is in the daemon's log, at its level, and no longer than a line may."""
        seen: list[Any] = []
        self.patch(CallPool, "log", Logger(observer=seen.append))
        pool = self.pool(size=1)
        call = pool.call(1, 60)
        child = self.children[0]
        child.ask()
        levels = ("critical", "error", "warn", "info", "debug", "debug")
        for number in (50, 40, 30, 20, 15, 1):
            child.say("log", {"level": number, "name": "of.site", "message": "m" * 20_000})

        self.assertEqual([event["log_level"].name for event in seen], list(levels))
        for event in seen:
            self.assertEqual(formatEvent(event), "of.site: " + "m" * LONGEST)
        child.ask(value=None)
        self.successResultOf(call)

    def test_too_long(self) -> None:
        """Who takes too long is killed, and the next call gets another child."""
        pool = self.pool(size=1)
        slow = pool.call("slow", 5)
        self.children[0].ask()
        waits = pool.call("waits", 60)
        self.clock.advance(5)
        self.assertEqual(self.failureResultOf(slow, RemoteError).value.name, "WorkerTimeout")
        self.assertEqual((self.killed, len(self.children)), ([1], 2))
        self.children[0].exit(9)
        self.children[1].ask()
        self.children[1].ask(value=1)
        self.assertEqual(self.successResultOf(waits), 1)

    def test_died(self) -> None:
        """Whose child dies fails, and is not tried again."""
        pool = self.pool(size=1)
        call = pool.call("x", 60)
        self.children[0].ask()
        self.children[0].exit(9)
        error = self.failureResultOf(call, RemoteError).value
        self.assertEqual(error.name, "WorkerDied")
        self.assertIn("SIGKILL", str(error))

    def test_let_go(self) -> None:
        """Who has done enough calls, is old, idle or to be replaced is sent home."""
        pool = self.pool(size=1, calls=1, idle=9.0, age=100.0)
        pool.call("x", 60)  # type: ignore[unused-awaitable]
        first = self.children[0]
        first.ask()
        first.ask(value=1)
        self.assertEqual(first.got, ["x", None])
        pool = self.pool(size=1, idle=9.0)
        pool.call("x", 60)  # type: ignore[unused-awaitable]
        idle = self.children[1]
        idle.ask()
        idle.ask(value=1)
        self.clock.advance(8)
        self.assertEqual(idle.got, ["x"])
        self.clock.advance(1)
        self.assertEqual(idle.got, ["x", None])
        pool.call("y", 60)  # type: ignore[unused-awaitable]
        stale = self.children[2]
        stale.ask()
        pool.recycle()
        stale.ask(value=1)
        self.assertEqual(stale.got, ["y", None])

    def test_refused(self) -> None:
        """More than may wait is refused; who is cancelled waits no more; a stop fails the rest."""
        pool = self.pool(size=1, queue=2)
        one, two = pool.call(1, 60), pool.call(2, 60)
        busy = self.failureResultOf(pool.call(3, 60), RemoteError).value
        self.assertEqual(busy.name, "WorkerBusy")
        one.cancel()
        self.failureResultOf(one)
        self.assertEqual(pool.waiting, 1)
        pool.stop()
        self.assertEqual(self.failureResultOf(two, RemoteError).value.name, "WorkerDied")
