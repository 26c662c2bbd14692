"""
Requests of megabytes: threads do what takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire.envelope import BAD_LOAD
from tests.master.rig import Rig, RigMinion

JID = "20261121120000000001"


class LargeRequestTests(SynchronousTestCase):
    """What the reactor's thread does of them, and what not."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.minion = RigMinion(self.rig, "web1").accepted()

    def test_large_states(self) -> None:
        """
        What a thread unpacks of a large return, it frees, when the minion has its answer; and the
        reactor's thread makes no copy of the frame.
        """
        states = {f"a_|-{n}_|-{n}_|-b": {"result": True, "n": n / 7} for n in range(9000)}
        load = {"cmd": "_return", "jid": JID, "fun": "test.echo", "return": states}
        frame = memoryview(self.minion.frame(load))
        in_thread: list[str] = []
        run = self.rig.ctx.pool

        def pool(function: Callable[..., Any], *args: Any) -> Any:
            in_thread.append(function.__name__)
            if function.__name__ == "open":
                self.assertIs(args[1].obj, frame.obj)
            return run(function, *args)

        object.__setattr__(self.rig.ctx, "pool", pool)
        replies = self.rig.ask(frame)
        before = list(in_thread)
        self.rig.clock.advance(0)

        self.assertEqual(len(replies), 1)
        self.assertNotEqual(replies, [BAD_LOAD])
        self.assertEqual(self.rig.jobs.kept[JID]["web1"]["return"], states)
        self.assertEqual((before, in_thread), (["open"], ["open", "free"]))
