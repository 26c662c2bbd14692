"""
What handlers give back, and how it goes out: alike whether they were awaited or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError, WireError
from saltwisted.master.replies import Chunk, Elsewhere, Private
from saltwisted.master.requests import Requests
from saltwisted.master.table import Row
from saltwisted.stores.jobs import longpacking
from saltwisted.wire.crypticle import open_sealed
from saltwisted.wire.envelope import BAD_LOAD, decode_reply, encode_clear_request
from saltwisted.wire.envelope import open_private_reply as open_private
from saltwisted.wire.msgpack import pack, unpack_raw
from tests.master.rig import NO_ANSWER, Rig, RigMinion
from tests.wire.recorded import key


class Broken:
    """What no message can carry."""


class ReplyTests(SynchronousTestCase):
    """A master with one command, whose handler gives what a test wants."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.minion = RigMinion(self.rig, "web1").accepted()

    def serve(self, give: Callable[[], Any], **rules: Any) -> None:
        """Have C{_file_envs} and C{ping} answered so."""
        row = Row(lambda ctx, who, command: give(), "test", **rules)
        self.rig.requests = Requests(self.rig.ctx, {"_file_envs": row}, {"ping": row})

    def both(self, value: Any, ask: Callable[[], Any], **rules: Any) -> list[Any]:
        """What comes of a value, or of an error, at once and when it is awaited."""

        def at_once() -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        async def awaited() -> Any:
            return at_once()

        found = []
        for give in (
            at_once,
            awaited,
            lambda: fail(value) if isinstance(value, Exception) else succeed(value),
        ):
            self.serve(give, **rules)
            found.append(ask())
            self.flushLoggedErrors()
        return found

    def test_long(self) -> None:
        """A value of megabytes is packed in turns, and sealed in a thread, in pieces."""
        self.patch(longpacking, "PORTION", 0.0)
        sealed: list[str] = []
        run = self.rig.ctx.pool

        def pool(function: Callable[..., Any], *args: Any) -> Any:
            sealed.append(function.__name__)
            return run(function, *args)

        object.__setattr__(self.rig.ctx, "pool", pool)
        for value in (
            {f"m{n}": {"grains": [n, "x" * 20, b"\xff"]} for n in range(5000)},
            ["\u00e9" * 3_000_000],
        ):
            for give in (lambda value=value: value, lambda value=value: succeed(value)):
                self.serve(give)

                self.assertEqual(self.ask_slowly(), value)
                self.assertGreater(self.turns, 10)
        self.assertEqual(sealed, ["encode_sealed_pieces"] * 4)

    def test_long_and_odd(self) -> None:
        """A long value that cannot be sent is a failure, not silence."""
        self.serve(lambda: [*range(20_000), Broken()])

        self.assertEqual(self.ask_slowly(), "")
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def ask_slowly(self) -> Any:
        """One request whose answer takes several turns; how many is in C{turns}."""
        nonce, replies, self.turns = self.minion.nonce(), list[bytes](), 0
        frame = self.minion.frame({"cmd": "_file_envs"}, nonce=nonce)
        self.rig.requests.handle(frame, "127.0.0.1", replies.append)
        while not replies:
            self.assertLess(self.turns, 10_000)
            call = next(
                each for each in self.rig.clock.calls if each.getTime() <= self.rig.clock.seconds()
            )
            self.rig.clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)
            self.turns += 1
        assert self.minion.session is not None
        return open_sealed(self.minion.session, unpack_raw(bytes(replies[0])), nonce)

    def ask(self) -> Any:
        """One request of the minion."""
        return self.minion.ask("_file_envs")

    def ask_private(self) -> Any:
        """The same, for an answer that is sealed for its key alone."""
        nonce = self.minion.nonce()
        frame = self.minion.frame({"cmd": "_file_envs"}, nonce=nonce)
        (reply,) = self.rig.ask(frame)
        private: Any = decode_reply(reply)
        return open_private(private, self.minion.key, key("master").public, nonce)

    def ask_clear(self) -> Any:
        """A request in the clear."""
        return self.rig.ask(encode_clear_request({"cmd": "ping"}))

    def test_values(self) -> None:
        """A plain value is sealed for the session."""
        self.assertEqual(self.both({"a": 1}, self.ask), [{"a": 1}] * 3)
        self.assertEqual(self.both(None, self.ask), [None] * 3)

    def test_T_PIL_1_private(self) -> None:
        """T-PIL-1: what is private is sealed for the minion's key, never as a value."""
        self.assertEqual(self.both(Private(pack({"p": 1})), self.ask_private), [{"p": 1}] * 3)

    def test_chunks(self) -> None:
        """A large piece goes out with what is beside it, and its place is given back."""
        given: list[None] = []
        chunk = Chunk(b"x" * 300_000, {"dest": "a"}, lambda: given.append(None))

        for answer in self.both(chunk, self.ask):
            self.assertEqual((len(answer["data"]), answer["dest"]), (300_000, "a"))
        self.assertEqual(len(given), 3)

    def test_elsewhere(self) -> None:
        """What another master has sealed is passed on; without one the private refusal is."""
        there = Elsewhere(lambda *how: succeed(b"sealed elsewhere"), b"")
        asked = self.both(there, lambda: self.rig.ask(self.minion.frame({"cmd": "_file_envs"})))
        self.assertEqual(asked, [[b"sealed elsewhere"]] * 3)

        gone = Elsewhere(lambda *how: fail(StoreError("gone")), pack({"_errors": ["gone"]}))
        self.assertEqual(self.both(gone, self.ask_private), [{"_errors": ["gone"]}] * 3)

    def test_errors(self) -> None:
        """Each error has one answer; where an answer would lie, there is none."""
        self.assertEqual(self.both(RuntimeError("x"), self.ask), [""] * 3)
        self.assertEqual(self.both(WireError("x"), self.ask), ["bad load"] * 3)
        full = self.both(StoreError("full"), self.ask, unacknowledged=StoreError)
        self.assertEqual(full, [NO_ANSWER] * 3)
        self.assertGreaterEqual(self.rig.ctx.counters["failed:test"], 9)

    def test_what_cannot_be_sent(self) -> None:
        """A value that no message carries is a failure, and not silence: that blocks a minion."""
        self.assertEqual(self.both(Broken(), self.ask), [""] * 3)

    def test_clear(self) -> None:
        """In the clear as well; a handler that gives nothing stays silent."""
        self.assertEqual(self.both(pack(1), self.ask_clear), [[pack(1)]] * 3)
        self.assertEqual(self.both(None, self.ask_clear), [[]] * 3)
        for error in (RuntimeError("x"), WireError("x")):
            self.assertEqual(self.both(error, self.ask_clear), [[BAD_LOAD]] * 3)
        self.assertEqual(self.rig.ctx.counters["refused:x"], 3)
