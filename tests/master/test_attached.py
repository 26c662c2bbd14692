"""
A job that another master published before it died is followed by its jid.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.master.rig import Rig, RigMinion

JID = "20260101000000000000"


class AttachedTests(SynchronousTestCase):
    """C{Dispatcher.run}, told to publish the rest of a job, or nothing."""

    def test_followed(self) -> None:
        """What was returned comes first, then what comes; nothing is published again."""
        for how in ("rest", "none"):
            self.followed(how)

    def test_out_without_a_record(self) -> None:
        """What went out for certain is waited for, though nothing is known of it here."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        load = {"tgt": ["web1"], "tgt_type": "list", "fun": "test.ping", "jid": JID}
        items: list[dict[str, Any]] = []

        async def follow() -> None:
            async for item in rig.ctx.dispatcher.run(load, "root", publish="none"):
                items.append(item)

        ended = Deferred.fromCoroutine(follow())
        self.assertEqual(rig.published_jobs(), [])
        minion.ask("_return", jid=JID, fun="test.ping", **{"return": 2, "retcode": 0})

        self.successResultOf(ended)
        self.assertEqual([item["kind"] for item in items], ["published", "return"])
        self.assertEqual(rig.published_jobs(), [])

    def followed(self, how: str) -> None:
        """Two minions have a job, and one of them has returned."""
        rig = Rig(self)
        one, two = (RigMinion(rig, name).accepted() for name in ("web1", "web2"))
        load = {"tgt": "*", "tgt_type": "glob", "fun": "test.ping", "arg": []}
        published = self.successResultOf(
            Deferred.fromCoroutine(rig.ctx.dispatcher.publish(load, "root"))
        )
        jid = published["jid"]
        one.ask("_return", jid=jid, fun="test.ping", **{"return": 1, "retcode": 0})
        load.update(tgt=["web1", "web2"], tgt_type="list", jid=jid)
        before = len(rig.published_jobs())
        items: list[dict[str, Any]] = []

        async def follow() -> None:
            async for item in rig.ctx.dispatcher.run(load, "root", publish=how):
                items.append(item)

        ended = Deferred.fromCoroutine(follow())
        self.assertNoResult(ended)
        self.assertEqual([item["kind"] for item in items], ["published", "return"])
        two.ask("_return", jid=jid, fun="test.ping", **{"return": 2, "retcode": 0})

        self.successResultOf(ended)
        self.assertEqual(
            {item["id"]: item["data"]["return"] for item in items[1:]}, {"web1": 1, "web2": 2}
        )
        self.assertEqual(len(rig.published_jobs()), before)
