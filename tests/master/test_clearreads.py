"""
Clear requests that are long: what anybody can make the request port do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.doors import CLEAR
from saltwisted.errors import WireError
from saltwisted.master.clearreads import ClearReads
from saltwisted.transports import turns
from saltwisted.wire.envelope import BAD_LOAD, MAX_CLEAR, ClearRequest, encode_clear_request
from saltwisted.wire.msgpack import unpack
from tests.doors.measure import Turned, least, peak, slack
from tests.doors.shapes import crowded, integer, mapping, msgpack_values
from tests.master.rig import Rig

HEAD = b"\x83\xa3enc\xa5clear\xa7version\x03\xa4load"


def enveloped(load: bytes) -> bytes:
    """A clear request around packed bytes."""
    return HEAD + load


def commanded(value: bytes) -> bytes:
    """A clear request whose load has this as an argument."""
    return enveloped(b"\x82\xa3cmd\xa4ping\xa3arg" + value)


class ReadTests(SynchronousTestCase):
    """The reads by themselves."""

    def setUp(self) -> None:
        self.clock: Clock = Clock()
        self.threads: list[str] = []

    def reads(self) -> ClearReads:
        """Reads in turns of the test's clock; the key of the only user is C{secret}."""

        def thread(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
            self.threads.append(function.__name__)
            return succeed(function(*args))

        return ClearReads(self.clock, thread, lambda key: key == b"secret")

    def test_read(self) -> None:
        """A long request is what it would be at once."""
        load = {"cmd": "publish", "arg": ["text", {"n": 1}] * 2000, "sig": b"\xff\xfe"}
        asked = self.reads().read(encode_clear_request(load), "1.2.3.4")
        self.clock.pump([0] * 100)

        request = self.successResultOf(asked)
        self.assertIsInstance(request, ClearRequest)
        self.assertEqual(request.load, load)

    def test_T_COST_1_sizes(self) -> None:
        """
        A stranger's request is refused by its size before it is decoded; with the key of a local
        user in it, it may be larger and is decoded in a thread.
        """
        reads = self.reads()
        for size, key, why in (
            (CLEAR.request - 500, None, ""),
            (CLEAR.request + 1, None, "clear size"),
            (CLEAR.request + 1, "wrong", "clear size"),
            (CLEAR.request + 1, "secret", ""),
            (MAX_CLEAR - 500, "secret", ""),
            (MAX_CLEAR, "secret", "clear size"),
        ):
            load = {"cmd": "publish", "arg": ["x" * size], **({"key": key} if key else {})}
            asked = reads.read(encode_clear_request(load), "1.2.3.4")
            self.clock.pump([0] * 1000)
            if why:
                self.assertEqual(self.failureResultOf(asked, WireError).value.reason, why)
            else:
                self.assertEqual(self.successResultOf(asked).load, load)
        self.assertEqual(self.threads, ["at_once"] * 2)

    def test_T_MEM_1_bounded(self) -> None:
        """What waits is bounded, for one address and for all; another is refused at once."""
        frame = b"\xdb" + bytes(CLEAR.request - 1)
        self.patch(turns, "PORTION", 0.0)
        reads = self.reads()
        each = CLEAR.memory // len(frame)
        for address in range(CLEAR.memory_all // CLEAR.memory):
            waiting = [reads.read(frame, str(address)) for _ in range(each)]
            for asked in waiting:
                self.assertNoResult(asked)
                asked.addErrback(lambda failure: None)
            one_more = reads.read(frame, str(address))
            self.assertEqual(self.failureResultOf(one_more, WireError).value.reason, "clear busy")
        other = reads.read(frame, "other")
        self.assertEqual(self.failureResultOf(other, WireError).value.reason, "clear busy")

        self.clock.pump([0] * 20_000)
        after = reads.read(frame, "other")
        self.clock.pump([0] * 100)
        self.assertEqual(self.failureResultOf(after, WireError).value.reason, "msgpack")

    def test_T_COST_3_fair(self) -> None:
        """Who sends one request waits for one of each other address, not for all of theirs."""
        self.patch(turns, "PORTION", 0.0)
        reads = self.reads()
        done: list[str] = []
        frame = encode_clear_request({"cmd": "ping", "arg": ["x" * 100] * 500})
        for who in ["loud"] * 20 + ["quiet"]:
            reads.read(frame, who).addCallback(lambda request, who=who: done.append(who))
        while "quiet" not in done:
            self.clock.pump([0])

        self.assertLessEqual(done.index("quiet"), 2)

    def test_T_COST_1_turns(self) -> None:
        """
        No turn of the reactor takes longer than it may, and no memory is left or used beyond the
        bound, whatever shape a request of the largest size has.
        """
        for name, make in [*msgpack_values()][::2]:
            frame = commanded(make(CLEAR.request - 100))
            longest = []
            for _ in range(3):
                self.clock = clock = Turned()
                reads = self.reads()
                asked = clock.measure(partial(reads.read, frame, "1.2.3.4"))
                asked.addErrback(lambda failure: None)
                clock.settle()
                longest.append(clock.longest)
                if longest[-1] < CLEAR.turn / 1000:
                    break
            else:
                self.assertLess(min(longest), slack() * CLEAR.turn / 1000, name)


class PortTests(SynchronousTestCase):
    """The whole request port."""

    def test_T_COST_1_refused_at_once(self) -> None:
        """Frames of 8 MiB that are not sealed are refused without a look at what is in them."""
        rig = Rig(self)
        empty_maps = b"\xdd\0\x80\0\0" + b"\x80" * (8 << 20)
        for frame in (empty_maps, commanded(empty_maps), b"\x91" * (8 << 20)):
            self.assertEqual(rig.ask(frame), [BAD_LOAD])
            cost = least(lambda frame=frame: rig.ask(frame), times=3)
            self.assertLess(cost, 0.005 * slack())
            self.assertLess(peak(lambda frame=frame: rig.ask(frame)), 1 << 20)

    def test_T_COST_1_crowded_keys(self) -> None:
        """Numbers that collide in a dictionary cost what others cost, and are refused."""
        rig = Rig(self)
        frame = enveloped(mapping([integer(n) for n in crowded(6000)]))

        replies = rig.ask(frame)
        rig.clock.pump([0] * 100)

        self.assertEqual(replies, [BAD_LOAD])
        self.assertEqual(rig.counters["refused:msgpack"], 1)

    def test_local_client(self) -> None:
        """A local client publishes to a list of ten thousand minions, with half a megabyte."""
        rig = Rig(self)
        with open(os.path.join(rig.config.cachedir, ".root_key")) as file:
            key = file.read()
        load = {
            "cmd": "publish",
            "tgt": [f"web{n}.example.org" for n in range(10_000)],
            "tgt_type": "list",
            "fun": "test.echo",
            "arg": ["x" * 300_000],
            "key": key,
            "user": "root",
            "ret": "",
        }
        replies = rig.ask(encode_clear_request(load))
        rig.clock.pump([0] * 1000)

        self.assertEqual(len(replies), 1)
        self.assertIn("minions", unpack(replies[0])["load"])
