"""
The request port, from frames to answers, on a master without sockets.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.errors import RemoteError
from saltwisted.master.announced import Announced
from saltwisted.wire.crypticle import SessionKey, seal
from saltwisted.wire.envelope import BAD_LOAD, decode_reply, open_private_reply
from saltwisted.wire.handshake import Accepted, NotYet
from saltwisted.wire.msgpack import pack, unpack
from saltwisted.wire.publication import decode_publication, open_job, verify_publication
from tests.master.rig import NO_ANSWER, Rig, RigMinion
from tests.wire.recorded import key

JID = "20261121120000000001"


class SignInTests(SynchronousTestCase):
    """How keys become sessions."""

    def test_pending(self) -> None:
        """An unknown key is stored as pending, told so, and shown on the bus."""
        rig = Rig(self)

        outcome = RigMinion(rig, "web1").sign_in()

        self.assertEqual(outcome, NotYet("pending", False))
        self.assertEqual(rig.ctx.keys.list_keys()["pending"], ("web1",))
        tag, data = rig.events[-1]
        self.assertEqual((tag, data["act"], data["result"]), ("salt/auth", "pend", True))

    def test_accepted(self) -> None:
        """An accepted key gets the publish key and a session of its own."""
        rig = Rig(self)

        one = RigMinion(rig, "web1").accepted()
        two = RigMinion(rig, "web2", key("minion2")).accepted()

        self.assertEqual(one.publish_key, rig.ctx.publisher.key)
        self.assertEqual(one.publish_key, two.publish_key)
        self.assertNotEqual(one.session, two.session)

    def test_rejected_and_denied(self) -> None:
        """A rejected key is refused; another key for an accepted id is denied and kept apart."""
        rig = Rig(self)
        rig.ctx.keys.put("rejected", "bad", key("minion").public.pem.encode())
        RigMinion(rig, "web1").accepted()

        rejected = RigMinion(rig, "bad").sign_in()
        denied = RigMinion(rig, "web1", key("minion2")).sign_in()

        self.assertEqual(rejected, NotYet("rejected", False))
        self.assertEqual(denied, NotYet("rejected", False))
        self.assertEqual(rig.ctx.keys.list_keys()["denied"], ("web1",))
        self.assertEqual(rig.ctx.keys.accepted("web1"), key("minion").public.pem.encode() + b"\n")

    def test_auto_accept(self) -> None:
        """With C{auto_accept} a new key is accepted at its first sign-in."""
        rig = Rig(self, auto_accept=True)

        outcome = RigMinion(rig, "web1").sign_in()

        self.assertIsInstance(outcome, Accepted)
        self.assertEqual(list(rig.ctx.keys.accepted_ids()), ["web1"])

    def test_full(self) -> None:
        """A master with C{max_minions} connected says "full" to others, and only to them."""
        rig = Rig(self, max_minions=1, auto_accept=True)
        for name in ("one", "two"):
            minion = RigMinion(rig, name)
            minion.sign_in()
            minion.ask("_file_envs")

        outcome = RigMinion(rig, "three").sign_in()

        self.assertEqual(outcome, NotYet("full", False))
        self.assertIsInstance(RigMinion(rig, "one").sign_in(), Accepted)

    def test_restart_keeps_sessions(self) -> None:
        """A session outlives the master: the store gives the same key to the next process."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        rig.ctx.sessions.live().clear()

        self.assertEqual(minion.ask("_file_envs"), ["base"])


class RequestTests(SynchronousTestCase):
    """What sealed requests get for an answer."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.minion = RigMinion(self.rig, "web1").accepted()

    def test_return(self) -> None:
        """A return is stored, announced with its load, and acknowledged with null."""
        answer = self.minion.ask("_return", jid=JID, fun="test.ping", **{"return": True})

        self.assertIsNone(answer)
        self.assertIn("web1", self.rig.jobs.kept[JID])
        tag, data = self.rig.events[-1]
        self.assertEqual(tag, f"salt/job/{JID}/ret/web1")
        self.assertEqual((data["return"], data["fun"]), (True, "test.ping"))
        self.assertNotIn("tok", data)

    def test_return_of_several(self) -> None:
        """
        A return of several functions of which some failed is acknowledged, whatever it names as
        functions, and tells of each failed state.
        """
        self.rig = Rig(self, state_events=True)
        self.minion = RigMinion(self.rig, "web1").accepted()
        states = {"a": {"result": False}, "b": {"result": True}}
        for fun, found in (
            (["test.ping", "state.apply"], {"test.ping": True, "state.apply": states}),
            (["test.ping", "state.apply"], [True, states]),
            (["state.apply", 5, ["x"]], {"state.apply": states}),
            (["test.ping"], "no map"),
            ({"state.apply": 1}, states),
        ):
            retcode = {"state.apply": 2}

            answer = self.minion.ask(
                "_return", jid=JID, fun=fun, retcode=retcode, **{"return": found}
            )

            self.assertIsNone(answer, fun)
        errors = [data for tag, data in self.rig.events if "/sub/web1/error/" in tag]
        self.assertEqual(
            [(each["fun"], each["state"]) for each in errors], [("state.apply", "a")] * 3
        )

    def test_return_is_acknowledged_when_stored(self) -> None:
        """Before a return is on disk there is no answer and no event."""
        self.rig.jobs.held = []
        load = {"cmd": "_return", "jid": JID, "fun": "test.ping", "return": True}

        replies = self.rig.ask(self.minion.frame(load))
        before = list(replies), self.rig.tags()
        self.rig.jobs.held[0].callback(True)

        self.assertEqual(before[0], [])
        self.assertNotIn(f"salt/job/{JID}/ret/web1", before[1])
        self.assertEqual(len(replies), 1)

    def test_full_disk(self) -> None:
        """When the disk refuses a return, it is not acknowledged, and later it is taken."""
        self.rig.jobs.full = True
        refused = self.minion.ask("_return", jid=JID, fun="test.ping", **{"return": True})
        self.rig.jobs.full = False
        taken = self.minion.ask("_return", jid=JID, fun="test.ping", **{"return": True})

        self.assertIs(refused, NO_ANSWER)
        self.assertIsNone(taken)

    def test_requested_jid(self) -> None:
        """C{jid: req} gets a jid from the master."""
        self.minion.ask("_return", jid="req", fun="test.ping", **{"return": True})

        (jid,) = self.rig.jobs.kept
        self.assertEqual(len(jid), 20)

    def test_nocache(self) -> None:
        """C{jid: nocache} is announced and not stored."""
        self.minion.ask("_return", jid="nocache", fun="test.ping", **{"return": True})

        self.assertEqual(self.rig.jobs.kept, {})
        self.assertEqual(self.rig.tags()[-1], "salt/job/nocache/ret/web1")

    def test_pillar(self) -> None:
        """A pillar comes in the private form, signed, for the asker's own id."""
        nonce = self.minion.nonce()
        load = {"cmd": "_pillar", "grains": {"id": "other", "os": "Debian"}, "ver": "2"}

        (reply,) = self.rig.ask(self.minion.frame(load, nonce=nonce))

        private = decode_reply(reply)
        value = open_private_reply(private, self.minion.key, key("master").public, nonce)  # type: ignore[arg-type]
        self.assertEqual(value, {"who": "web1"})
        self.assertEqual(self.rig.ctx.cache.get("grains", "web1")["id"], "web1")  # type: ignore[index]

    def test_large_return(self) -> None:
        """A return of some megabytes is opened in a thread, and kept whole; a spoilt one is not."""
        load = {"cmd": "_return", "jid": JID, "fun": "test.echo", "return": "x" * 3_000_000}
        frame = bytearray(self.minion.frame(load))

        (good,) = self.rig.ask(bytes(frame))
        frame[2_000_000] ^= 1
        (bad,) = self.rig.ask(bytes(frame))

        self.assertNotEqual(good, BAD_LOAD)
        self.assertEqual(len(self.rig.jobs.kept[JID]["web1"]["return"]), 3_000_000)
        self.assertEqual(bad, BAD_LOAD)

    def test_wrong_types(self) -> None:
        """Fields that every request has are refused in any other type, and nothing is logged."""
        for changes in (
            {"nonce": ["x"]},
            {"nonce": "\u00e9" * 32},
            {"ts": "now"},
            {"ts": float("inf")},
            {"tok": "x"},
        ):
            self.assertEqual(
                self.rig.ask(self.minion.frame({"cmd": "_file_envs"}, **changes)), [BAD_LOAD]
            )

    def test_unknown_command(self) -> None:
        """An unknown command gets Salt's sealed empty map."""
        self.assertEqual(self.minion.ask("_no_such_thing"), {})

    def test_handler_failure(self) -> None:
        """A handler that fails gives Salt's empty text, and the next request works."""
        self.assertEqual(self.minion.ask("_mine_get", fun="x", tgt={"not": "text"}), {})
        self.rig.ctx.cache.get = None  # type: ignore[assignment,method-assign]
        self.assertEqual(self.minion.ask("_mine", data={"a": 1}), "")
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)
        self.assertEqual(self.minion.ask("_file_envs"), ["base"])

    def test_mine(self) -> None:
        """Mine data merges, is read by others, and goes away by function and as a whole."""
        other = RigMinion(self.rig, "web2", key("minion2")).accepted()
        self.minion.ask("_mine", data={"a": 1})
        self.minion.ask("_mine", data={"b": 2})

        self.assertEqual(other.ask("_mine_get", tgt="*", fun="a"), {"web1": 1})
        self.assertEqual(
            other.ask("_mine_get", tgt="*", fun="a,b"), {"a": {"web1": 1}, "b": {"web1": 2}}
        )
        self.minion.ask("_mine_delete", fun="a")
        self.assertEqual(other.ask("_mine_get", tgt="*", fun="a"), {})
        self.minion.ask("_mine_flush")
        self.assertEqual(other.ask("_mine_get", tgt="*", fun="b"), {})

    def test_T_MINE_1_bounded(self) -> None:
        """T-MINE-1: a minion's mine never grows beyond the option, in one piece or in many."""
        rig = Rig(self, mine_size_max=1000)
        minion = RigMinion(rig, "web1").accepted()
        with capturedLogs() as logged:
            answers = [minion.ask("_mine", data={f"f{n}": "x" * 90}) for n in range(40)]
            answers.append(minion.ask("_mine", data={"f": "x" * 2000}, clear=True))
            answers.append(minion.ask("_mine", data={"f": {"a": ["x"] * 900}}, clear=True))

        kept = rig.ctx.cache.get("mine", "web1") or {}
        self.assertEqual((answers.count(True), len(kept)), (10, 10))
        self.assertLessEqual(len(pack(kept)), 1000)
        self.assertEqual(rig.ctx.counters["refused:mine"], 32)
        warned = [event for event in logged if "mine_size_max" in event.get("log_format", "")]
        self.assertEqual([event["refused"] for event in warned], [1, 2, 4, 8, 16, 32])
        self.assertTrue(minion.ask("_mine", data={"f0": "y"}))

    def test_mine_allow_tgt(self) -> None:
        """An entry with C{allow_tgt} is seen only by the minions that it names."""
        other = RigMinion(self.rig, "web2", key("minion2")).accepted()
        entry = {"__saltmine_acl__": 1, "__data__": "x", "allow_tgt": "web2"}
        self.minion.ask("_mine", data={"a": entry})

        self.assertEqual(other.ask("_mine_get", tgt="*", fun="a"), {"web1": "x"})
        self.assertEqual(self.minion.ask("_mine_get", tgt="*", fun="a"), {})

    def test_minion_pub(self) -> None:
        """C{peer} decides what a minion may publish, and only the issuer reads the returns."""
        rig = Rig(self, peer={"web1": ["test.*"]})
        one = RigMinion(rig, "web1").accepted()
        two = RigMinion(rig, "web2", key("minion2")).accepted()

        self.assertEqual(one.ask("minion_pub", fun="cmd.run", arg=["id"], tgt="*"), {})
        self.assertEqual(two.ask("minion_pub", fun="test.ping", arg=[], tgt="*"), {})
        answer = one.ask("minion_pub", fun="test.ping", arg=[], tgt="*", tgt_type="glob")
        self.assertEqual(answer["minions"], ["web1", "web2"])
        two.ask("_return", jid=answer["jid"], fun="test.ping", **{"return": True})
        self.assertEqual(one.ask("pub_ret", jid=answer["jid"]), {"web2": {"ret": True}})
        self.assertEqual(two.ask("pub_ret", jid=answer["jid"]), {})

    def test_revoke_auth(self) -> None:
        """A minion that revokes its key is not served any more."""
        self.assertEqual(self.minion.ask("revoke_auth"), True)
        self.assertEqual(self.minion.ask("_file_envs"), "bad load")

    def test_our_own_heartbeat(self) -> None:
        """A minion of ours learns the next publish key before it is used."""
        self.rig.ctx.rotation.request("test")
        answer = self.minion.ask("_saltwisted_keys")
        self.rig.clock.advance(2)

        self.assertEqual(answer["next"], self.rig.ctx.publisher.key.text)


class PublishTests(SynchronousTestCase):
    """Jobs on their way out."""

    def test_publication(self) -> None:
        """A job is remembered, announced, sealed, and signed by the master."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()

        published = self.successResultOf(
            _run(
                rig.ctx.dispatcher.publish(
                    {"tgt": "*", "fun": "test.ping", "arg": []}, local("root")
                )
            )
        )

        publication = decode_publication(rig.publications.sent[-1][0])
        verify_publication(publication, key("master").public)
        assert minion.publish_key is not None
        job = open_job(publication, minion.publish_key)
        self.assertEqual((job.jid, job.fun, job.tgt), (published["jid"], "test.ping", "*"))
        self.assertEqual(job.ret, "")
        self.assertEqual(rig.jobs.loads[job.jid]["minions"], ["web1"])
        self.assertIn(f"salt/job/{job.jid}/new", rig.tags())

    def test_closed(self) -> None:
        """
        A master that leaves takes no job, nor one whose minions were just being found: it would
        say done for what is on no other disk. Nothing is stored, and nothing goes out.
        """
        rig = Rig(self)
        RigMinion(rig, "web1").accepted()
        dispatcher = rig.ctx.dispatcher
        load = {"tgt": "*", "fun": "test.ping"}
        real = dispatcher.targets.find

        async def find(*args: Any, **kwargs: Any) -> Any:
            found = await real(*args, **kwargs)
            dispatcher.close("this node leaves")
            return found

        self.patch(dispatcher.targets, "find", find)
        for _ in range(2):
            failure = self.failureResultOf(
                _run(dispatcher.publish(load, local("root"))), RemoteError
            )
            self.assertIn("this node leaves", str(failure.value))
        self.assertEqual((rig.publications.sent, rig.jobs.loads), ([], {}))

    def test_no_match(self) -> None:
        """A target that means nobody publishes nothing."""
        rig = Rig(self)

        published = self.successResultOf(
            _run(rig.ctx.dispatcher.publish({"tgt": "no*", "fun": "test.ping"}, local("root")))
        )

        self.assertIsNone(published["jid"])
        self.assertEqual(rig.publications.sent, [])

    def test_topics(self) -> None:
        """With C{zmq_filtering} a job goes to the topics of the minions that it means."""
        rig = Rig(self, zmq_filtering=True)
        RigMinion(rig, "web1").accepted()
        RigMinion(rig, "web2", key("minion2")).accepted()

        for load in ({"tgt": "web1"}, {"tgt": "G@os:*", "tgt_type": "compound"}):
            _run(rig.ctx.dispatcher.publish({**load, "fun": "test.ping", "arg": []}, local("root")))

        self.assertEqual(len(rig.publications.sent[0][1] or []), 1)
        self.assertNotEqual(rig.publications.sent[0][1], [b"broadcast"])

    def test_run(self) -> None:
        """Whoever waits gets the returns as they come, and at the end who is missing."""
        rig = Rig(self)
        one = RigMinion(rig, "web1").accepted()
        RigMinion(rig, "web2", key("minion2")).accepted()
        items: list[dict[str, object]] = []

        done = _run(
            _collect(rig.ctx.dispatcher.run({"tgt": "*", "fun": "test.ping"}, local("root")), items)
        )
        jid = items[0]["jid"]
        one.ask("_return", jid=jid, fun="test.ping", **{"return": True})
        self.assertEqual([i["kind"] for i in items], ["published", "return"])
        rig.clock.pump([1] * 40)

        self.successResultOf(done)
        self.assertEqual(items[-1]["kind"], "missing")
        self.assertEqual(items[-1]["ids"], ["web2"])
        self.assertIn("saltutil.find_job", [job["fun"] for job in rig.published_jobs()])
        self.assertEqual(rig.clock.getDelayedCalls(), [])

    def test_early_return(self) -> None:
        """A return that comes before the caller hears of the jid is not lost."""
        rig = Rig(self)
        one = RigMinion(rig, "web1").accepted()
        items: list[dict[str, object]] = []
        jid = JID
        real = rig.jobs.save_job

        def slow(*args: object, **more: object) -> object:
            one.ask("_return", jid=jid, fun="test.ping", **{"return": True})
            return real(*args, **more)  # type: ignore[arg-type]

        rig.jobs.save_job = slow  # type: ignore[method-assign,assignment]
        done = _run(
            _collect(
                rig.ctx.dispatcher.run({"tgt": "*", "fun": "test.ping", "jid": jid}, local("root")),
                items,
            )
        )

        self.successResultOf(done)
        self.assertEqual([i["kind"] for i in items], ["published", "return"])


class RotationTests(SynchronousTestCase):
    """When the publish key changes."""

    def test_coalesced(self) -> None:
        """Many deletions within a moment are one rotation."""
        rig = Rig(self)
        for number in range(20):
            rig.ctx.keys.put("accepted", f"m{number}", key("minion").public.pem.encode())
        before = rig.ctx.publisher.key

        self.successResultOf(
            _pump(rig, rig.ctx.wheel("key.delete", [], {"match": "m*"}, local("root")))
        )
        rig.clock.pump([1] * 5)

        self.assertNotEqual(rig.ctx.publisher.key, before)
        self.assertEqual(rig.ctx.rotation.count, 1)
        self.assertEqual(rig.tags().count("key"), 1)

    def test_option_off(self) -> None:
        """With C{rotate_aes_key: false} a deletion rotates nothing; the caller may override."""
        rig = Rig(self, rotate_aes_key=False)
        for name in ("one", "two"):
            rig.ctx.keys.put("accepted", name, key("minion").public.pem.encode())

        self.successResultOf(_pump(rig, rig.ctx.wheel("key.delete", ["one"], {}, local("r"))))
        self.assertFalse(rig.ctx.rotation.pending)
        self.successResultOf(
            _pump(rig, rig.ctx.wheel("key.delete", ["two"], {"rotate_aes_key": True}, local("r")))
        )
        self.assertTrue(rig.ctx.rotation.pending)
        rig.ctx.rotation.stop()

    def test_job_after_rotation(self) -> None:
        """A minion that signs in again after a rotation reads the job that made it do so."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        rig.ctx.rotation.request("test")
        rig.clock.advance(2)
        _run(rig.ctx.dispatcher.publish({"tgt": "*", "fun": "test.ping", "arg": []}, local("root")))

        minion.sign_in()

        assert minion.publish_key is not None
        job = open_job(decode_publication(rig.publications.sent[-1][0]), minion.publish_key)
        self.assertEqual(job.fun, "test.ping")
        self.assertEqual(minion.ask("_file_envs"), ["base"])

    def test_waits_for_sign_ins(self) -> None:
        """
        Who signs in because of a publication under the present key gets that key, though another
        is made meanwhile, however long ago the last change was.
        """
        rig = Rig(self)
        waiting = RigMinion(rig, "web1").accepted()
        first = rig.ctx.publisher.key
        rig.ctx.rotation.request("test")
        rig.clock.advance(2)
        present = rig.ctx.publisher.key
        rig.clock.advance(600)
        unsettled = [True]
        rig.ctx.rotation._settled = lambda: not unsettled

        rig.ctx.rotation.request("test")
        rig.clock.pump([0.5] * 20)
        waiting.sign_in()
        self.assertEqual(waiting.publish_key, present)
        unsettled.clear()
        rig.clock.pump([0.5] * 2)
        self.assertNotIn(rig.ctx.publisher.key, (first, present))

    def test_waits_a_minute_at_most(self) -> None:
        """Somebody who signs in without end keeps the old key for a minute and not longer."""
        rig = Rig(self)
        first = rig.ctx.publisher.key
        rig.ctx.rotation._settled = lambda: False
        rig.ctx.rotation.request("test")
        rig.clock.pump([0.5] * 118)
        self.assertEqual(rig.ctx.publisher.key, first)

        rig.clock.pump([0.5] * 4)
        self.assertNotEqual(rig.ctx.publisher.key, first)

    def test_five_seconds_between_two(self) -> None:
        """Who needs seconds to sign in for one key gets it before there is another."""
        rig = Rig(self)
        keys = [rig.ctx.publisher.key]
        for _ in range(40):
            rig.ctx.rotation.request("test")
            rig.clock.advance(0.5)
            if rig.ctx.publisher.key != keys[-1]:
                keys.append(rig.ctx.publisher.key)

        self.assertEqual(len(keys), 1 + 4)

    def test_T_KEY_1_refused_and_told(self) -> None:
        """
        A minion that was told the next key and is refused before it is used cannot read what is
        published under the one that follows.
        """
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        minion.sign_in()
        rig.ctx.rotation.request("somebody else was deleted")
        told = minion.ask("_saltwisted_keys")["next"]
        self.successResultOf(_pump(rig, rig.ctx.wheel("key.delete", ["web1"], {}, local("root"))))
        rig.clock.pump([0.5] * 4)

        self.assertEqual(rig.ctx.rotation.count, 1)
        self.assertNotIn(rig.ctx.publisher.key.text, (told, minion.publish_key))

    def test_former_keys(self) -> None:
        """Our minions are told, for a minute, which keys were in use before."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        minion.sign_in()
        keys = [rig.ctx.publisher.key.text]
        self.assertEqual(minion.ask("_saltwisted_keys"), {"aes": keys[0]})
        for _ in range(2):
            rig.clock.advance(10)
            rig.ctx.rotation.request("test")
            rig.clock.advance(1)
            keys.insert(0, rig.ctx.publisher.key.text)

        self.assertEqual(
            minion.ask("_saltwisted_keys"), {"aes": keys[0], "before": [keys[1], keys[2]]}
        )
        rig.clock.advance(50)
        self.assertEqual(minion.ask("_saltwisted_keys"), {"aes": keys[0], "before": [keys[1]]})
        rig.clock.advance(11)
        self.assertEqual(minion.ask("_saltwisted_keys"), {"aes": keys[0]})

    def test_hello_under_another_key(self) -> None:
        """
        A subscriber of C{transport: tcp} is known by its first frame under each key that it may
        hold: the one to come, and those of before.
        """
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        minion.sign_in()
        publisher = rig.ctx.publisher
        announced = Announced(rig.ctx.sessions, publisher.readable)
        first, second = publisher.key, publisher.prepare_rotation()
        hello = {"id": "web1", "tok": minion.tok, "saltwisted": True}

        def who(sealed: SessionKey) -> bool:
            blob = seal(sealed, hello, bytes(16))
            return announced.who({b"enc": b"aes", b"load": blob}) is not None

        self.assertEqual([who(first), who(second)], [True, True])
        publisher.rotate()
        self.assertEqual([who(first), who(second)], [True, True])
        rig.clock.advance(61)
        self.assertEqual([who(first), who(second)], [False, True])


class RunnerTests(SynchronousTestCase):
    """Runners that keep things."""

    def test_cache_banks(self) -> None:
        """A value is stored, listed, fetched and flushed; no name leads out of the cache."""
        rig = Rig(self)

        def run(fun: str, *arg: object) -> object:
            call = rig.ctx.runner(f"cache.{fun}", list(arg), {}, local("root"))
            return self.successResultOf(_run(call))["return"]

        self.assertIsNone(run("store", "a/b", "k", {"x": 1}))
        self.assertEqual(run("list", "a/b"), ["k"])
        self.assertEqual(run("fetch", "a/b", "k"), {"x": 1})
        self.assertIs(run("flush", "a/b"), True)
        self.assertEqual(run("fetch", "a/b", "k"), {})
        for bank, name in (("../x", "k"), ("a", "../k"), ("/etc", "passwd"), ("a", ".root_key")):
            self.assertIn("are not names", str(run("fetch", bank, name)))

    def test_kept(self) -> None:
        """A run is a job of the master in the job cache, unless the caller or an option says no."""
        rig, silent = Rig(self), Rig(self, runner_returns=False)

        def run(fun: str, *arg: object, at: Any = rig, **more: Any) -> Any:
            call = at.ctx.runner(fun, list(arg), {}, local("root"), **more)
            return self.successResultOf(_run(call))

        first = run("test.arg", 1)["jid"]
        run("test.arg", 2, keep=False)
        run("test.arg", 3, at=silent)
        self.assertEqual(run("jobs.list_jobs", at=silent)["return"], {})

        jobs = run("jobs.list_jobs")["return"]
        self.assertEqual(list(jobs), [first])
        self.assertEqual(jobs[first]["Function"], "runner.test.arg")
        self.assertEqual(
            (jobs[first]["Target"], jobs[first]["Target-type"]), (rig.ctx.node, "list")
        )
        kept = run("jobs.lookup_jid", first)["return"][rig.ctx.node]
        self.assertEqual(kept["return"], {"args": [1], "kwargs": {}})
        self.assertEqual((kept["fun"], kept["fun_args"]), ("runner.test.arg", [1]))
        self.assertIn("_stamp", kept)

    def test_lines_and_progress(self) -> None:
        """Printed lines go to the caller alone; progress is stamped, and an event as well."""
        rig = Rig(self)
        items: list[Any] = []

        async def stream(item: Any) -> None:
            items.append(item)

        def run(fun: str, *arg: object) -> Any:
            return _run(rig.ctx.runner(fun, list(arg), {}, local("root"), stream))

        self.assertEqual(self.successResultOf(run("test.stdout_print"))["return"], "bar")
        self.assertEqual(items, [{"say": "foo"}])
        del items[:]
        self.successResultOf(run("fileserver.update", "bogus"))
        self.assertEqual([item["log"] for item in items], ["error"])
        del items[:]
        streamed = run("test.stream")
        rig.clock.pump([0.1] * 100)
        self.assertIs(self.successResultOf(streamed)["return"], True)
        self.assertEqual(len(items), 99)
        self.assertEqual(items[0]["data"]["message"], "Runner is 1% done")
        self.assertIn("_stamp", items[0]["data"])

    def test_problems(self) -> None:
        """Whose target means nobody by a mistake is told of it; minions are not."""
        rig = Rig(self)
        load = {"fun": "test.ping", "arg": [], "tgt": "*(", "tgt_type": "pcre"}
        for exact, problems in ((False, ["Invalid regular expression '*('"]), (True, [])):
            call = rig.ctx.dispatcher.publish(load, local("root"), exact=exact)
            answer = self.successResultOf(_run(call))
            self.assertEqual((answer["minions"], answer["problems"]), ([], problems))

    def test_sync(self) -> None:
        """Modules are put where pillars find them; changed, listed and vanished ones as well."""
        rig = Rig(self)
        place = os.path.join(rig.home, "extmods")
        rig = Rig(self, extension_modules=place)

        def write(name: str, text: str) -> None:
            path = os.path.join(rig.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as handle:
                handle.write(text)

        for name, text in (("_modules/a.py", "1"), ("_modules/b/c.py", "2"), ("_pillar/p.py", "3")):
            write(name, text)

        def run(fun: str, **kwarg: Any) -> Any:
            call = rig.ctx.runner(f"saltutil.{fun}", [], kwarg, local("root"))
            return self.successResultOf(_run(call))["return"]

        def there() -> list[str]:
            return sorted(
                os.path.relpath(os.path.join(folder, name), place)
                for folder, _, names in os.walk(place)
                for name in names
            )

        self.assertEqual(sorted(run("sync_modules")), ["modules.a", "modules.b.c"])
        self.assertEqual(run("sync_modules"), [])
        self.assertEqual(run("sync_all")["pillar"], ["pillar.p"])
        self.assertEqual(there(), ["modules/a.py", "modules/b/c.py", "pillar/p.py"])
        self.assertEqual(run("sync_all", extmod_whitelist={"modules": ["a"]})["modules"], [])
        self.assertEqual(there(), ["modules/a.py", "pillar/p.py"])
        self.assertEqual(run("sync_pillar", extmod_blacklist="p"), [])
        self.assertEqual(there(), ["modules/a.py"])

        # Files that come between two calls in the same second count
        for number, fun in enumerate(("sync_proxymodules", "sync_all", "sync_proxymodules")):
            write(f"_proxy/p{number}.py", "4")
            found = run(fun)
            came = found["proxymodules"] if fun == "sync_all" else found
            self.assertEqual(came, [f"proxy.p{number}"])
            self.assertIn(f"proxy/p{number}.py", there())

    def test_backends(self) -> None:
        """Backends are chosen and excluded by name; there is one."""
        rig = Rig(self)

        def run(**kwarg: Any) -> Any:
            call = rig.ctx.runner("fileserver.envs", [], kwarg, local("root"))
            return self.successResultOf(_run(call))["return"]

        self.assertEqual(run(), ["base"])
        self.assertEqual(run(backend="roots,git"), ["base"])
        self.assertEqual(run(backend="-git"), ["base"])
        self.assertEqual(run(backend="-roots"), [])
        self.assertEqual(run(backend="git", sources=True), {})
        self.assertEqual(run(backend=["roots"], sources=True), {"roots": ["base"]})

    def test_locks(self) -> None:
        """Salt's words where roots and gitfs have no locks."""
        rig = Rig(self)
        for fun, words in (
            ("fileserver.lock", "No locks were set"),
            ("fileserver.clear_lock", "No locks were removed"),
            ("cache.clear_git_lock", "No locks were removed"),
        ):
            arg = ["gitfs"] if fun.startswith("cache") else []
            answer = self.successResultOf(_run(rig.ctx.runner(fun, arg, {}, local("root"))))
            self.assertEqual(answer["return"], words)


class LocalClientTests(SynchronousTestCase):
    """What comes in the clear to the request port."""

    def test_ping(self) -> None:
        """C{ping} echoes its load."""
        rig = Rig(self)

        (reply,) = rig.ask(pack({"enc": "clear", "load": {"cmd": "ping", "x": 1}, "version": 3}))

        self.assertEqual(unpack(reply), {"cmd": "ping", "x": 1})

    def test_publish_needs_the_key(self) -> None:
        """A local client publishes with the content of the user key file, and not without."""
        rig = Rig(self)
        RigMinion(rig, "web1").accepted()
        with open(f"{rig.ctx.config.cachedir}/.root_key") as handle:
            user_key = handle.read()
        load = {"cmd": "publish", "tgt": "*", "fun": "test.ping", "arg": [], "user": "root"}

        (good,) = rig.ask(pack({"enc": "clear", "load": {**load, "key": user_key}, "version": 3}))
        (bad,) = rig.ask(pack({"enc": "clear", "load": {**load, "key": "guess"}, "version": 3}))

        self.assertEqual(unpack(good)["load"]["minions"], ["web1"])
        self.assertEqual(unpack(bad)["error"]["name"], "AuthenticationError")
        self.assertEqual(len(rig.publications.sent), 1)


def _run(coroutine):  # type: ignore[no-untyped-def]
    return Deferred.fromCoroutine(coroutine)


def _pump(rig, coroutine):  # type: ignore[no-untyped-def]
    d = _run(coroutine)
    rig.clock.pump([0] * 5)
    return d


async def _collect(source, into):  # type: ignore[no-untyped-def]
    async for item in source:
        into.append(item)
