"""
Whoever asks a master for something may go away at any moment: what was held for him is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.operations.table import Caller
from saltwisted.testing.jobs import MemoryJobs
from tests.master.rig import Rig, RigMinion

ROOT = Caller(name="root", owner=True, source="uid 0", door="the control socket")
LATEST = 64
"""No call here waits more often than this."""
ASKED: Mapping[str, Mapping[str, Any]] = {
    "publish": {"tgt": "web1", "fun": "test.ping"},
    "run": {"tgt": "web1", "fun": "test.ping", "timeout": 1},
    "events": {"tags": ["salt/", "site/"]},
    "runner": {"fun": "manage.up"},
    "runner of an orchestration": {"fun": "state.orchestrate", "arg": ["deploy"]},
    "runner of a job": {"fun": "salt.execute", "arg": ["web1", "test.ping"]},
}


class Waits:
    """The waits of one call: each ends when somebody says so."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        """One more."""
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def step(self) -> bool:
        """End the oldest; whether there was one."""
        while self.waiting:
            waiting = self.waiting.pop(0)
            if not waiting.called:
                waiting.callback(None)
                return True
        return False


class SlowJobs(MemoryJobs):
    """A job store each of whose answers is waited for."""

    waits: Waits

    def _later(self, d: Deferred[Any]) -> Deferred[Any]:
        return self.waits.wait().addCallback(lambda _: d)

    def save_job(self, *args: Any, **how: Any) -> Deferred[Any]:
        """Later."""
        return self._later(super().save_job(*args, **how))

    def job(self, jid: str) -> Deferred[Any]:
        """Later."""
        return self._later(super().job(jid))


class GoneTests(SynchronousTestCase):
    """One master; its disk and the terminal of whoever asks are slow."""

    def setUp(self) -> None:
        self.waits = Waits()

        def jobs(home: str) -> SlowJobs:
            store = SlowJobs(lambda: self.rig.clock.seconds())
            store.waits = self.waits
            return store

        self.rig = Rig(self, jobs=jobs)
        RigMinion(self.rig, "web1").accepted()

    def held(self) -> Mapping[str, Any]:
        """What the master holds for those that ask."""
        rig = self.rig
        return {
            "listeners": sum(map(len, rig.bus._by_prefix.values())),
            "timers": len(rig.clock.getDelayedCalls()),
            "runs": dict(rig.ctx.calls.active),
            "orchestrations": dict(rig.orchestrating.active),
            "places": rig.orchestrating._room.tokens,
        }

    def gone_at(self, name: str, args: Mapping[str, Any], number: int) -> bool:
        """Go away at a wait of this number; whether there was one."""
        before = self.held()

        def stream(item: Any) -> Deferred[None]:
            # As a socket does: not everybody waits
            return self.waits.wait()

        call = self.rig.table().call(name.partition(" ")[0], args, ROOT, stream)
        d = Deferred.fromCoroutine(call)
        for _ in range(number):
            if d.called:
                break
            if not self.waits.step():
                # Nothing but time ends what it waits for now, or a minion
                self.rig.clock.advance(1)
        waits = not d.called
        if waits:
            d.cancel()
        d.addErrback(lambda failure: None)  # type: ignore[unused-awaitable]
        while self.waits.step():
            pass

        self.assertTrue(d.called, (name, number))
        self.assertEqual(self.held(), before, (name, number))
        self.assertEqual([one for one in self.rig.children.all if not one.exited.called], [])
        return waits

    def test_gone_at_any_wait(self) -> None:
        """No listener, timer, place or process is left, wherever the call had come to."""
        for name, args in ASKED.items():
            number = 0
            while number < LATEST and self.gone_at(name, args, number):
                number += 1
            self.assertGreater(number, 0, name)
