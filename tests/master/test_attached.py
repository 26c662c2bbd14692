"""
A job that another master published before it died is followed by its jid.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.master.rig import Rig, RigMinion


class AttachedTests(SynchronousTestCase):
    """C{Dispatcher.attach}."""

    def test_followed(self) -> None:
        """What was returned comes first, then what comes; nothing is published again."""
        rig = Rig(self)
        one, two = (RigMinion(rig, name).accepted() for name in ("web1", "web2"))
        load = {"tgt": "*", "tgt_type": "glob", "fun": "test.ping", "arg": []}
        published = self.successResultOf(
            Deferred.fromCoroutine(rig.ctx.dispatcher.publish(load, "root"))
        )
        jid = published["jid"]
        one.ask("_return", jid=jid, fun="test.ping", **{"return": 1, "retcode": 0})
        job = self.successResultOf(rig.ctx.jobs.job(jid))
        before = len(rig.published_jobs())
        items: list[dict[str, Any]] = []

        async def follow() -> None:
            async for item in rig.ctx.dispatcher.attach(job, "root"):
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
