"""
What jobs and the command line may ask of a minion.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.copies import occasion_of
from saltwisted.errors import AuthenticationError, RemoteError, RequestTimeout, TransportClosed
from saltwisted.minion.control import Control
from saltwisted.transports.ipc import PeerProcess
from tests.fakes.operations import nobody_listens
from tests.minion.fakes import Bus, FakeLink, FakeLinks


class ControlTests(SynchronousTestCase):
    """The operations."""

    def setUp(self) -> None:
        """Two masters, both there."""
        self.clock = Clock()
        self.links = FakeLinks(FakeLink("red"), FakeLink("blue"))
        self.bus = Bus()
        self.told: list[Any] = []

        async def keep(load: Any) -> None:
            self.told.append(("keep", load))

        async def refresh(what: str, **how: Any) -> Any:
            self.told.append(("refresh", what, how))
            return True

        def schedule(func: str, **data: Any) -> dict[str, Any]:
            self.told.append(("schedule", func, data))
            return {"complete": True}

        def kill(jid: str, number: int) -> bool:
            self.told.append(("kill", jid, number))
            return True

        self.running: list[dict[str, Any]] = [{"jid": "1"}]
        self.control = Control(
            self.clock,
            self.links,  # type: ignore[arg-type]
            self.bus,
            "m1",
            60.0,
            lambda args: self.told.append(("returned", args)),
            keep,
            lambda: self.running,
            kill,
            refresh,
            schedule,
            lambda: {"id": "m1"},
            lambda line: self.told.append(("join", line)),
        )
        self.streamed: list[Any] = []

    def ask(self, op: str, via: str = "", **args: Any) -> Deferred[Any]:
        """A job of a master asks."""
        return Deferred.fromCoroutine(self.control.ask(op, args, self.streamed.append, via))

    def handle(self, op: str, uid: int) -> Deferred[Any]:
        """Somebody asks on the public socket."""
        call = self.control.handle(op, {}, PeerProcess(uid, uid, 1), nobody_listens)
        return Deferred.fromCoroutine(call)

    def error(self, d: Deferred[Any]) -> tuple[str, str]:
        """Name and message of the error that it failed with."""
        error = self.failureResultOf(d, RemoteError).value
        return error.name, error.message

    def test_who_may(self) -> None:
        """The socket answers root and the minion's own user, and nobody else anything."""
        for uid in (0, os.geteuid()):
            d = Deferred.fromCoroutine(
                self.control.handle("status", {}, PeerProcess(uid, uid, 1), nobody_listens)
            )
            self.assertEqual(self.successResultOf(d), {"id": "m1"})
        for op in ("status", "request", "events", "nonsense"):
            d = Deferred.fromCoroutine(
                self.control.handle(op, {}, PeerProcess(12345, 1, 1), nobody_listens)
            )
            self.assertEqual(self.error(d)[0], "AuthorizationError")

    def test_unknown(self) -> None:
        """What is not an operation, or lacks an argument, is said."""
        self.assertEqual(self.error(self.ask("explode"))[0], "UnknownOperation")
        self.assertEqual(self.error(self.ask("__init__"))[0], "UnknownOperation")
        self.assertEqual(
            self.error(self.ask("request")), ("SaltInvocationError", "request needs 'load'")
        )

    def test_request(self) -> None:
        """A request goes to the master that the job came from, if it is there, else to another."""
        self.links.answer = lambda load: ["base"]

        for via in ("blue", "", "gone"):
            answer = self.successResultOf(self.ask("request", via, load={"cmd": "_file_envs"}))
            self.assertEqual(answer, ["base"])
        self.links.links[1].up = False
        self.successResultOf(self.ask("request", "blue", load={"cmd": "_mine"}, timeout=3))

        self.assertEqual([name for name, _, _ in self.links.asked], ["blue", "red", "red", "red"])
        self.assertEqual(self.links.asked[-1][2], {"raw": False, "timeout": 3.0})

    def test_file(self) -> None:
        """Chunks of files are never guessed at: their data stays bytes, the rest becomes text."""
        self.links.answer = lambda load: {b"data": b"text", b"dest": b"a/b", b"gzip": 5}

        answer = self.successResultOf(self.ask("request", load={"cmd": "_serve_file"}))

        self.assertEqual(answer, {"data": b"text", "dest": "a/b", "gzip": 5})
        self.assertTrue(self.links.asked[0][2]["raw"])

    def test_request_errors(self) -> None:
        """A master that does not answer, and one that refuses, are told apart."""
        self.links.answer = lambda load: RequestTimeout("late")
        self.assertEqual(
            self.error(self.ask("request", load={"cmd": "_mine"})),
            ("SaltReqTimeoutError", "_mine: the master did not answer in time"),
        )
        self.links.answer = lambda load: AuthenticationError("refused")
        self.assertEqual(
            self.error(self.ask("request", load={"cmd": "_mine"})),
            ("SaltClientError", "_mine: refused"),
        )

    def test_master_dies_meanwhile(self) -> None:
        """A request whose master dies is asked of the next that comes; what acts is not."""
        red, blue = self.links.links
        red.up = blue.up = True

        def dies(load: dict[str, Any]) -> Any:
            red.up = blue.up = False
            self.links.answer = lambda load: ["base"]
            return TransportClosed("closed")

        self.links.answer = dies
        asked = self.ask("request", load={"cmd": "_file_list"})
        self.assertNoResult(asked)
        blue.up = True
        self.links.waiting[0].callback(blue)
        self.assertEqual(self.successResultOf(asked), ["base"])
        self.assertEqual([name for name, _, _ in self.links.asked], ["red", "blue"])

        red.up = blue.up = True
        self.links.answer = dies
        asked = self.ask("request", load={"cmd": "minion_runner"})
        self.assertEqual(self.error(asked)[0], "SaltClientError")

    def test_no_master(self) -> None:
        """Without a master a request waits for one, and after a while says why there is none."""
        for link in self.links.links:
            link.up = False
        late = self.ask("request", load={"cmd": "_mine"})
        lucky = self.ask("request", load={"cmd": "_file_envs"})
        self.clock.advance(30)
        self.links.links[0].up = True
        self.links.waiting[1].callback(self.links.links[0])
        self.successResultOf(lucky)

        self.clock.advance(31)

        self.assertEqual(
            self.error(late),
            (
                "SaltClientError",
                "_mine: no master is connected; red: it is asleep; blue: it is asleep",
            ),
        )

    def test_pillar(self) -> None:
        """A pillar request never takes the place of our own pillar, and names no identity."""
        load = {"cmd": "_pillar", "id": "other", "saltenv": "dev", "tok": "x", "ver": "1"}

        answer = self.successResultOf(self.ask("pillar_request", "blue", load=load))

        self.assertEqual(answer, {"from": "blue"})
        (fields,) = self.links.links[1].fetched
        self.assertEqual(fields, {"saltenv": "dev", "extra_minion_data": {}})
        self.links.links[1].pillar = TransportClosed("gone")
        self.assertEqual(
            self.error(self.ask("pillar_request", "blue", load={})),
            ("SaltClientError", "_pillar: gone"),
        )

    def test_events(self) -> None:
        """An event is heard on our own bus, and by the master if it is meant for it."""
        self.successResultOf(self.ask("fire_event", tag="a/b", data={"x": 1}))
        self.assertEqual(self.links.asked, [])

        self.successResultOf(self.ask("fire_event", tag="c", data="word", to_master=True))

        self.assertEqual(self.bus.fired, [("a/b", {"x": 1}), ("c", {"data": "word"})])
        load = self.links.asked[0][1]
        self.assertTrue(load.pop("__pub_jid"))
        self.assertEqual(load, {"cmd": "_minion_event", "tag": "c", "data": "word", "pretag": None})

    def test_T_LOG_1_progress(self) -> None:
        """T-LOG-1: what a secret job says while it runs is stars on the minion's bus already."""
        jid = "20260701120000000000"
        self.running.append({"jid": jid, "metadata": {"no_log": True}})
        for number in (jid, "20260701120000000001"):
            tag, data = f"salt/job/{number}/prog/m1/0", {"return": "word"}
            self.successResultOf(self.ask("fire_event", tag=tag, data=data, to_master=True))

        said = [{"return": "**********"}, {"return": "word"}]
        self.assertEqual([data for _, data in self.bus.fired], said)
        self.assertEqual([load["data"] for _, load, *_ in self.links.asked], said)

    def test_each_event_is_one(self) -> None:
        """
        An event carries what tells it from others that are alike, so that a master to which it is
        sent again knows it; that of a job keeps what it has.
        """
        for data in ({"x": 1}, {"x": 1}, {"x": 1, "__pub_jid": "20260701120000000000"}):
            self.successResultOf(self.ask("fire_event", tag="c", data=data, to_master=True))

        first, second, third = (load for _, load, *_ in self.links.asked)
        keys = [occasion_of("m", "c", {**load, "id": "m"}).call for load in (first, second, third)]
        self.assertEqual(len(set(keys)), 3)
        self.assertNotIn("__pub_jid", third)
        self.assertEqual(keys[2], "20260701120000000000")

    def test_stream(self) -> None:
        """Events are streamed by tag until the listener goes away."""
        d = self.ask("events", tags=["salt/job/*/ret"], match="fnmatch")
        self.assertTrue(self.streamed[0]["ready"])

        self.bus.fire("salt/job/1/ret", {"a": 1})
        self.bus.fire("salt/other", {})
        d.addErrback(lambda failure: None)
        d.cancel()
        self.bus.fire("salt/job/2/ret", {})

        self.assertEqual(self.streamed[1:], [{"tag": "salt/job/1/ret", "data": {"a": 1}}])
        self.assertEqual(self.bus.receivers, [])
        self.assertEqual(self.error(self.ask("events", match="psychic"))[0], "SaltInvocationError")

    def test_returns(self) -> None:
        """A return is taken over by its name on disk, or whole."""
        self.successResultOf(self.ask("return", name="x", packed=b""))
        self.successResultOf(self.ask("return", load={"jid": "req"}))
        self.successResultOf(self.ask("return"))

        self.assertEqual(
            self.told, [("returned", {"name": "x", "packed": b""}), ("keep", {"jid": "req"})]
        )

    def test_passed_on(self) -> None:
        """Refreshing, the schedule and signals reach those who do them."""
        self.assertTrue(self.successResultOf(self.ask("refresh", what="pillar", wait=True)))
        self.successResultOf(self.ask("schedule", func="list", where="opts"))
        self.successResultOf(self.ask("signal", jid="1", signal=15))
        self.successResultOf(self.ask("signal", jid="1"))

        self.assertEqual(
            self.told,
            [
                ("refresh", "pillar", {"wait": True}),
                ("schedule", "list", {"where": "opts"}),
                ("kill", "1", 15),
                ("kill", "1", signal.SIGKILL),
            ],
        )
        self.assertEqual(self.successResultOf(self.ask("running")), [{"jid": "1"}])

    def test_log(self) -> None:
        """A job's log record is logged at its level; braces in it do nothing."""
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)

        self.successResultOf(self.ask("log", level=40, name="x.y", message="{oops} {0}"))
        self.successResultOf(self.ask("log", level=5, name="x.y", message="small"))

        self.assertEqual(
            [(event["log_level"], event["text"]) for event in events],
            [(LogLevel.error, "{oops} {0}"), (LogLevel.debug, "small")],
        )
