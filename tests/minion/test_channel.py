from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, RequestTimeout, TransportClosed, WireError
from saltwisted.minion.channel import (
    RETURNING,
    Channel,
    MasterBusy,
    Patience,
    RequestRefused,
    Session,
)
from saltwisted.wire.crypticle import SessionKey, open_sealed, seal
from saltwisted.wire.envelope import (
    BAD_LOAD,
    SealedRequest,
    decode_request,
    encode_private_reply,
    encode_sealed_reply,
    signed_form,
)
from saltwisted.wire.msgpack import pack
from tests.fakes.replies import CLUSTER_RETRY
from tests.minion.fakemaster import NOW, FakeMaster, FakeNet, at_once, identity
from tests.wire.recorded import Dice, key


class ChannelCase(SynchronousTestCase):
    """One channel to one master."""

    def setUp(self) -> None:
        self.net = FakeNet()
        self.master = self.net.add("salt", FakeMaster())
        self.session = Session(
            key=self.master.session("m1"), master_key=self.master.identity.key.public
        )
        self.sign_ins = 0
        self.sign_in_fails: Exception | None = None
        self.requests = self.net.requests("10.0.0.1", 4506)
        self.channel = self.build()

    def build(self, **changes: Any) -> Channel:
        return Channel(
            self.requests,
            identity(**changes),
            self.session,
            self.sign_in,
            self.net.clock.seconds,
            Dice(),
            Random(1),
            at_once,
            Patience(),
        )

    def sign_in(self) -> Deferred[None]:
        self.sign_ins += 1
        done: Deferred[None] = Deferred()
        if self.sign_in_fails is not None:
            done.errback(self.sign_in_fails)
        else:
            self.session.key = self.master.session("m1")
            done.callback(None)
        return done

    def ask(self, cmd: str = "_file_envs", seconds: float = 0.5, **options: Any) -> Deferred[Any]:
        d: Deferred[Any] = Deferred.fromCoroutine(self.channel.request({"cmd": cmd}, **options))
        self.net.run(seconds)
        return d


class ChannelTests(ChannelCase):
    def test_value(self) -> None:
        """The master's value comes back, and the load carried what every load must."""
        self.master.values["_file_envs"] = ["base"]

        value = self.successResultOf(self.ask())

        self.assertEqual(value, ["base"])
        self.assertEqual(self.master.loads, [{"cmd": "_file_envs", "id": "m1", "ts": int(NOW)}])
        self.assertGreater(self.channel.heard, NOW)

    def test_token_and_nonce(self) -> None:
        """Each request has the token and a nonce of its own."""
        seen: list[dict[str, Any]] = []

        def peek(frame: bytes) -> Any:
            request = decode_request(frame)
            assert isinstance(request, SealedRequest)
            seen.append(open_sealed(self.master.session("m1"), request.blob))
            return ...

        self.master.script = [peek, peek]
        self.successResultOf(self.ask())
        self.successResultOf(self.ask())

        self.assertEqual(key("minion").public.open_x931(seen[0]["tok"]), b"salt")
        self.assertEqual([len(load["nonce"]) for load in seen], [32, 32])
        self.assertNotEqual(seen[0]["nonce"], seen[1]["nonce"])

    def test_raw(self) -> None:
        """Asked raw, text stays bytes."""
        self.master.values["_serve_file"] = {"data": "text"}

        value = self.successResultOf(self.ask("_serve_file", raw=True))

        self.assertEqual(value, {b"data": b"text"})

    def test_repeats_after_timeout(self) -> None:
        """An unanswered request is sent again with a new nonce, as often as configured."""
        self.master.silent.add("_file_envs")

        d = self.ask(seconds=59)
        self.assertEqual(self.master.log, ["_file_envs"])
        self.net.run(122)

        self.failureResultOf(d, RequestTimeout)
        self.assertEqual(self.master.log, ["_file_envs"] * 3)
        self.assertEqual(self.sign_ins, 0)

    def test_returns_are_more_impatient(self) -> None:
        """Returns, events and mine use return_retry_timer and its tries."""
        for cmd in RETURNING:
            self.master.log.clear()
            self.master.silent = {cmd}

            d = self.ask(cmd, seconds=14.9)
            self.assertNoResult(d)
            self.net.run(16)

            self.failureResultOf(d, RequestTimeout)
            self.assertEqual(self.master.log, [cmd] * 3)

    def test_own_patience(self) -> None:
        """The caller may set time and tries."""
        self.master.alive = False

        self.failureResultOf(self.ask(timeout=1, tries=1, seconds=1.1), RequestTimeout)

    def test_late_success(self) -> None:
        """A repetition that is answered is a success."""
        self.master.script = [None]

        self.assertIsNone(self.successResultOf(self.ask(seconds=61)))

    def test_signs_in_anew_once(self) -> None:
        """A refused request leads to one sign-in and is sent again."""
        self.session.key = SessionKey.generate(lambda n: b"o" * n)

        self.assertIsNone(self.successResultOf(self.ask()))

        self.assertEqual(self.sign_ins, 1)
        self.assertEqual(self.master.log, ["bad load", "_file_envs"])

    def test_signs_in_when_there_is_no_session(self) -> None:
        """Without any session key the first thing is a sign-in."""
        self.session.key = None

        self.assertIsNone(self.successResultOf(self.ask()))

        self.assertEqual(self.sign_ins, 1)

    def test_refused_again(self) -> None:
        """A second refusal is final."""
        self.master.script = [BAD_LOAD, BAD_LOAD]

        error = self.failureResultOf(self.ask(), RequestRefused).value

        self.assertEqual((error.text, self.sign_ins), ("bad load", 1))

    def test_sign_in_fails(self) -> None:
        """What goes wrong with the sign-in is what goes wrong with the request."""
        self.master.script = [BAD_LOAD]
        self.sign_in_fails = TransportClosed("gone")

        self.failureResultOf(self.ask(), TransportClosed)

    def test_reply_under_other_key(self) -> None:
        """A reply that the session key does not open leads to a sign-in, and is not believed."""
        wrong = SessionKey.generate(lambda n: b"w" * n)
        self.master.script = [encode_sealed_reply(wrong, "forged", bytes(16), "a" * 32)]

        self.assertIsNone(self.successResultOf(self.ask()))

        self.assertEqual(self.sign_ins, 1)

    def test_T_REPLAY_1_file_reply(self) -> None:
        """A recorded reply to another request is not taken for this one's."""
        old = encode_sealed_reply(self.master.session("m1"), "old", bytes(16), "a" * 32)
        self.master.script = [old, old]

        self.failureResultOf(self.ask(), AuthenticationError)

    def test_clear_replies_are_no_answers(self) -> None:
        """An unsealed null or map acknowledges nothing."""
        for forged in (pack(None), pack({"a": 1}), pack({"enc": "clear", "load": True})):
            self.master.script = [forged, forged]

            self.failureResultOf(self.ask("_return"), AuthenticationError)

    def test_not_ready(self) -> None:
        """A cluster node that is not ready says so, at once and without a sign-in."""
        self.master.script = [CLUSTER_RETRY]

        self.failureResultOf(self.ask(), MasterBusy)
        self.assertEqual(self.sign_ins, 0)

    def test_nonsense(self) -> None:
        """Bytes that are not a reply are a WireError."""
        self.master.script = [b"\xc1"]

        self.failureResultOf(self.ask(), WireError)

    def test_closed(self) -> None:
        """When the connection goes, the request fails at once."""
        self.master.alive = False
        d = self.ask()

        self.requests.close()

        self.failureResultOf(d, TransportClosed)

    def test_cancel(self) -> None:
        """A cancelled request is abandoned."""
        self.master.alive = False
        d = self.ask()

        d.cancel()

        self.failureResultOf(d, CancelledError)

    def test_signed_messages(self) -> None:
        """With minion_sign_messages the load carries a signature over itself."""
        self.channel = self.build(sign_messages=True, sig_algo="PKCS1v15-SHA224")

        self.successResultOf(self.ask("_return"))

        load = self.master.loads[0]
        self.assertTrue(
            key("minion").public.verify(signed_form(load), load["sig"], "PKCS1v15-SHA224")
        )


class PillarTests(ChannelCase):
    def pillar(self, seconds: float = 0.5) -> Deferred[Any]:
        d: Deferred[Any] = Deferred.fromCoroutine(self.channel.pillar({"grains": {}}))
        self.net.run(seconds)
        return d

    def test_pillar(self) -> None:
        """A pillar comes back, asked for in the signed form."""
        self.assertEqual(self.successResultOf(self.pillar()), {"role": "web"})
        self.assertEqual(self.master.loads[0]["ver"], "2")

    def test_T_PIL_1(self) -> None:
        """A pillar signed by another master is refused, after one new sign-in."""

        def forge(frame: bytes) -> bytes:
            request = decode_request(frame)
            assert isinstance(request, SealedRequest)
            nonce = open_sealed(self.master.session("m1"), request.blob)["nonce"]
            return encode_private_reply(
                pack({"forged": 1}), key("minion").public, key("master_sign"), nonce, Dice()
            )

        self.master.script = [forge, forge]

        self.failureResultOf(self.pillar(), AuthenticationError)
        self.assertEqual(self.sign_ins, 1)

    def test_sealed_instead(self) -> None:
        """A stock master that lost our key answers an ordinary {}: sign in and ask again."""
        self.master.script = [
            lambda frame: pack(seal(self.master.session("m1"), {}, bytes(16))),
        ]

        self.assertEqual(self.successResultOf(self.pillar()), {"role": "web"})
        self.assertEqual(self.sign_ins, 1)
