"""Jobs for minions that are known to come: after a start of their master, or their acceptance."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.presence import Whereabouts
from saltwisted.domain.who import local
from tests.master.rig import Rig

LOAD = {"tgt": "*", "tgt_type": "glob", "fun": "state.apply", "arg": []}
PUB = b"-----BEGIN PUBLIC KEY-----\n"


class LateTests(SynchronousTestCase):
    """A lone master with three keys; C{m1} and C{m2} were here before the start."""

    def setUp(self) -> None:
        """The master has just been started."""
        self.rig = Rig(self)
        for name in ("m1", "m2", "m3"):
            self.rig.ctx.keys.put("accepted", name, PUB)
        self.late = self.rig.ctx.dispatcher.latecomers
        earlier = {name: Whereabouts("192.0.2.1", name != "m3") for name in ("m1", "m2", "m3")}
        self.rig.ctx.presence._earlier = lambda: earlier
        self.late.startService()
        self.addCleanup(self.late.stopService)

    def publish(self, **load: Any) -> dict[str, Any]:
        """Publish a job of the operator."""
        made = self.rig.ctx.dispatcher.publish({**LOAD, **load}, local("root"))
        answer: dict[str, Any] = self.successResultOf(Deferred.fromCoroutine(made))
        return answer

    def turn(self, seconds: float) -> None:
        """Time passes."""
        for _ in range(int(seconds * 10)):
            self.rig.clock.advance(0.1)

    def sent(self, fun: str) -> list[Any]:
        """The targets of all publications of a function."""
        return [job["tgt"] for job in self.rig.published_jobs() if job["fun"] == fun]

    def answers(self, minion_id: str, found: dict[str, Any], retcode: int = 0) -> None:
        """A minion answers the last question."""
        jid = [j for j in self.rig.published_jobs() if j["fun"] == "saltutil.find_job"][-1]["jid"]
        load = {"id": minion_id, "jid": jid, "return": found, "retcode": retcode}
        self.rig.bus.fire(f"salt/job/{jid}/ret/{minion_id}", load)

    def test_who_is_late(self) -> None:
        """Those that were present before the start are awaited, and the caller is told so."""
        self.assertEqual(self.publish()["late"], ["m1", "m2"])
        self.assertNotIn("late", self.publish(tgt="m3"))

    def test_nobody_missing(self) -> None:
        """Who subscribes already is not awaited, and with nobody missing nothing is different."""
        self.rig.subscribed.update(("m1", "m2"))
        self.rig.connected.add("192.0.2.1")

        self.assertNotIn("late", self.publish())
        self.turn(40)
        self.assertEqual(self.sent("state.apply"), ["*"])
        self.assertEqual(self.sent("saltutil.find_job"), [])

    def test_subscribes(self) -> None:
        """A minion of ours gets the job when it subscribes, once."""
        self.publish()
        self.turn(5)
        self.rig.connected.add("192.0.2.1")
        self.rig.subscribed.add("m1")
        self.turn(20)

        self.assertEqual(self.sent("state.apply"), ["*", ["m1"]])

    def test_answers(self) -> None:
        """A stock minion that answers that it does not run the job gets it, once."""
        self.publish()
        self.turn(5)
        self.assertEqual(self.sent("saltutil.find_job"), [], "nobody is connected yet")
        self.rig.connected.add("203.0.113.9")
        self.turn(2)
        self.assertEqual(self.sent("saltutil.find_job"), [["m1", "m2"]])

        self.answers("m1", {})
        self.answers("m1", {})
        self.answers("m3", {})
        self.turn(4)
        self.assertEqual(self.sent("state.apply"), ["*", ["m1"]])
        self.assertEqual(self.sent("saltutil.find_job")[1:2], [["m2"]])
        self.answers("m1", {})
        self.turn(30)
        self.assertEqual(self.sent("state.apply"), ["*", ["m1"]])

    def test_runs_it_or_cannot_tell(self) -> None:
        """Who says that it runs the job, or cannot tell, is not given it."""
        self.publish()
        self.rig.connected.add("203.0.113.9")
        self.turn(4)
        self.answers("m1", {"pid": 7})
        self.answers("m2", {}, retcode=254)
        self.turn(40)

        self.assertEqual(self.sent("state.apply"), ["*"])

    def test_has_returned(self) -> None:
        """Who has returned is neither asked nor given the job, nor awaited the next time."""
        jid = self.publish()["jid"]
        self.rig.connected.add("203.0.113.9")
        for name in ("m1", "m2"):
            data = {"id": name, "jid": jid, "return": {}}
            self.rig.bus.fire(f"salt/job/{jid}/ret/{name}", data)
        self.turn(40)

        self.assertEqual(self.sent("saltutil.find_job"), [])
        self.assertEqual(self.sent("state.apply"), ["*"])
        self.assertNotIn("late", self.publish())

    def test_window_is_over(self) -> None:
        """After publish_window nobody is asked, and nobody is awaited any more."""
        self.publish()
        self.turn(31)
        self.rig.connected.add("203.0.113.9")
        self.rig.subscribed.add("m1")
        self.turn(5)

        self.assertEqual(self.sent("state.apply"), ["*"])
        self.assertEqual(self.sent("saltutil.find_job"), [])
        self.assertNotIn("late", self.publish())

    def test_accepted(self) -> None:
        """A minion that was accepted a moment ago is awaited as well; a revoked one is not."""
        self.turn(31)
        self.rig.ctx.keys.put("accepted", "new", PUB)
        self.assertEqual(self.publish()["late"], ["new"])
        self.rig.subscribed.add("new")
        self.rig.connected.add("192.0.2.1")
        self.turn(2)
        self.assertEqual(self.sent("state.apply"), ["*", ["new"]])

        self.rig.ctx.keys.put("accepted", "gone", PUB)
        self.rig.ctx.keys.delete("gone")
        self.assertNotIn("late", self.publish())

    def test_command_waits(self) -> None:
        """The command is told who is late, and waits until the window is over."""
        items: list[dict[str, Any]] = []

        async def run() -> None:
            async for item in self.rig.ctx.dispatcher.run(LOAD, local("root")):
                items.append(item)

        d = Deferred.fromCoroutine(run())
        self.assertEqual(items[0]["late"], ["m1", "m2"])
        self.turn(29)
        self.assertNoResult(d)
        self.turn(15)
        self.successResultOf(d)
        self.assertEqual(items[-1]["ids"], ["m1", "m2", "m3"])
