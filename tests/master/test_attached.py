"""
A job that another master published before it died is followed by its jid.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
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
            async for item in rig.ctx.dispatcher.run(load, local("root"), publish="none"):
                items.append(item)

        ended = Deferred.fromCoroutine(follow())
        self.assertEqual(rig.published_jobs(), [])
        minion.ask("_return", jid=JID, fun="test.ping", **{"return": 2, "retcode": 0})

        self.successResultOf(ended)
        self.assertEqual([item["kind"] for item in items], ["published", "return"])
        self.assertEqual(rig.published_jobs(), [])

    def test_kept_return(self) -> None:
        """
        A minion that does not run the job any more is asked for the return that it has kept, which
        is stored and announced as its own. Others cannot say it in its place.
        """
        rig = Rig(self)
        one, two = (RigMinion(rig, name).accepted() for name in ("web1", "web2"))
        job = {"tgt": "*", "tgt_type": "glob", "fun": "test.arg", "arg": []}
        jid = self.successResultOf(
            Deferred.fromCoroutine(rig.ctx.dispatcher.publish(job, local("root")))
        )["jid"]
        items, ended = self.follow(rig, {**job, "jid": jid})
        rig.clock.advance(20)
        asked = rig.published_jobs()[-1]
        self.assertEqual((asked["fun"], asked["arg"]), ("saltutil.find_job", [jid]))
        for minion in (one, two):
            minion.ask("_return", jid=asked["jid"], fun=asked["fun"], retcode=0, **{"return": {}})
        rig.clock.advance(1)

        asked = rig.published_jobs()[-1]
        self.assertEqual((asked["fun"], asked["arg"]), ("saltutil.find_cached_job", [jid]))
        self.assertEqual(asked["tgt"], ["web1", "web2"])
        stranger = RigMinion(rig, "eve").accepted()
        kept = {"jid": jid, "fun": "test.arg", "return": "mine", "retcode": 0, "id": "web1"}
        for minion, answer in (
            (stranger, {**kept, "return": "hers"}),
            (one, kept),
            (two, "Local jobs cache directory not found"),
        ):
            minion.ask(
                "_return", jid=asked["jid"], fun=asked["fun"], retcode=0, **{"return": answer}
            )

        returned = {item["id"]: item["data"]["return"] for item in items if "data" in item}
        self.assertEqual(returned, {"web1": "mine"})
        stored = self.successResultOf(rig.ctx.jobs.returns(jid))
        self.assertEqual({name: each["return"] for name, each in stored.items()}, returned)
        self.assertNoResult(ended)
        while not ended.called:
            rig.clock.advance(1)
        self.assertEqual((items[-1]["ids"], items[-1]["idle"]), (["web2"], ["web2"]))

    def test_new_job(self) -> None:
        """Nobody is asked for what he has kept of a job that this master itself has given him."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        items, ended = self.follow(rig, {"tgt": "web1", "fun": "test.arg", "arg": [], "jid": JID})
        while not ended.called:
            asked = rig.published_jobs()[-1]
            if asked["fun"] == "saltutil.find_job":
                minion.ask("_return", jid=asked["jid"], fun=asked["fun"], **{"return": {}})
            rig.clock.advance(1)

        self.assertEqual((items[0]["told"], items[-1]["idle"]), ([], []))
        functions = [each["fun"] for each in rig.published_jobs()]
        self.assertNotIn("saltutil.find_cached_job", functions)

    def follow(self, rig: Rig, load: dict[str, Any]) -> tuple[list[dict[str, Any]], Deferred[None]]:
        """Follow a job to its end, which may have been published."""
        items: list[dict[str, Any]] = []

        async def follow() -> None:
            async for item in rig.ctx.dispatcher.run(load, local("root"), publish="rest"):
                items.append(item)

        return items, Deferred.fromCoroutine(follow())

    def followed(self, how: str) -> None:
        """Two minions have a job, and one of them has returned."""
        rig = Rig(self)
        one, two = (RigMinion(rig, name).accepted() for name in ("web1", "web2"))
        load = {"tgt": "*", "tgt_type": "glob", "fun": "test.ping", "arg": []}
        published = self.successResultOf(
            Deferred.fromCoroutine(rig.ctx.dispatcher.publish(load, local("root")))
        )
        jid = published["jid"]
        one.ask("_return", jid=jid, fun="test.ping", **{"return": 1, "retcode": 0})
        load.update(tgt=["web1", "web2"], tgt_type="list", jid=jid)
        before = len(rig.published_jobs())
        items: list[dict[str, Any]] = []

        async def follow() -> None:
            async for item in rig.ctx.dispatcher.run(load, local("root"), publish=how):
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
