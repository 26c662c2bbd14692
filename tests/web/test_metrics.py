"""
C{/metrics}, C{/livez} and C{/readyz}, and the port on which they are asked for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import unittest
from collections.abc import Mapping
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.main import COMMANDS
from saltwisted.domain.metrics.families import COUNTER, GAUGE, NOT_YET, UNTYPED, Family, single
from saltwisted.domain.metrics.jobs import JobFigures
from saltwisted.errors import PortError
from saltwisted.transports.bus import EventBus
from saltwisted.web.measures import LIFE, Asked, MeasuresPort
from saltwisted.web.metrics import FRESH, PIECE, Telemetry, of_the_process, written

FIGURES: dict[str, Any] = {
    "role": "master",
    "id": 'salt"1\n',
    "version": "1.0",
    "started": 1.5e9,
    "serving": True,
    "disks": ["jobs", "cache"],
    "problems": {"jobs": "full"},
    "latency": {
        "late_max_ms": 12.5,
        "late_recent_ms": 1.0,
        "callback_cpu_max_ms": 4.0,
        "callback_cpu_max_who": "",
        "callbacks_over_5ms": 3,
        "silences": 2,
        "silence_max_ms": 1800.0,
    },
    "counters": {"_return": 2, "failed:_return": 1, "refused:no-session": 1, "kept": 1},
    "keys": {"accepted": 2, "pending": 1, "rejected": 0, "denied": 0},
    "queues": {"sign_ins": 0, "job_store": 7, "reactions": 0},
    "sessions": 2,
    "published": 5,
    "rotations": 1,
    "events": 77,
    "reactor": {"depth": 1, "oldest": 2.5, "running": 1, "figures": {"taken": 4}, "paused": {}},
    "schedule_running": 0,
    "claims": {"would_claim": True, "held": 1, "figures": {"granted": 3, "lost": 1}},
    "links": {"b": 1.0, "c": 0.0},
    "drift": {"external_auth": 2},
    "lag": {"b": {"keys": 0, "returns": 3}, "c": {"keys": None, "returns": None}},
    "roots_lag": {"file/base/0": 0},
    "roots_conflicts": {"file/base/0": 2},
    "roots_suspended": {"file/base/0": 0.0},
    "roots_received": {"b": 100},
    "roots_sent": {"b": 200},
}
"""Of a node that has everything."""


def values(text: bytes) -> dict[str, float]:
    """What a text says, as Prometheus' own library reads it: C{name{labels}} to number."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = float(sample.value)
    return found


def at_once(function: Any, *args: Any) -> Deferred[Any]:
    """A thread pool that has no threads."""
    d: Deferred[Any] = maybeDeferred(function, *args)
    return d


class Told(SynchronousTestCase):
    """A telemetry with a clock that the test turns."""

    def setUp(self) -> None:
        """Make it, and a port."""
        self.reactor = MemoryReactorClock()
        self.jobs = JobFigures(True, ["test.ping"])
        self.asked = 0
        self.thread: Any = at_once
        self.telemetry = Telemetry(
            self.reactor, self.jobs, lambda: 5.0, lambda f: self.thread(f), lambda: {"id": "none"}
        )
        self.bus = EventBus(lambda: 5.0)
        self.ready = (True, "serving")
        self.port = MeasuresPort(
            self.reactor, "127.0.0.1", 9464, self.telemetry, lambda: self.ready
        )
        self.port.startService()
        (_, self.factory, _, self.interface) = self.reactor.tcpServers[0]

    def figures(self) -> Mapping[str, Any]:
        """Of a node that has everything."""
        self.asked += 1
        return FIGURES

    def show(self) -> None:
        """Have them told."""
        self.telemetry.show(self.figures, lambda: ["m1", "m2"], self.bus)

    def turn(self, times: int = 500) -> None:
        """Some turns of the reactor, in which no time passes."""
        for _ in range(times):
            self.reactor.advance(0)

    def connect(self) -> tuple[Any, StringTransport]:
        """A connection."""
        protocol = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1234))
        transport = StringTransport()
        protocol.makeConnection(transport)
        return protocol, transport

    def get(self, path: str, method: str = "GET", more: bytes = b"") -> tuple[int, bytes, bytes]:
        """Status, head and body of an answer."""
        protocol, transport = self.connect()
        protocol.dataReceived(f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode() + more + b"\r\n")
        self.turn()
        head, _, body = transport.value().partition(b"\r\n\r\n")
        self.assertTrue(transport.disconnecting)
        protocol.connectionLost(connectionDone)
        return int(head.split()[1]), head, body


class TextTests(Told):
    """What is told."""

    def test_all(self) -> None:
        """Every figure is there, as Prometheus' own reader understands it."""
        self.show()
        self.bus.fire("salt/job/1/new", {"fun": "test.ping", "minions": ["m1"]})
        self.bus.fire("salt/job/1/ret/m1", {"fun": "test.ping", "retcode": 0})

        status, head, body = self.get("/metrics")

        self.assertEqual(status, 200)
        self.assertIn(b"text/plain", head.lower())
        found = values(body)
        for name, value in (
            ("saltwisted_serving", 1),
            ("saltwisted_store_problem{store=jobs}", 1),
            ("saltwisted_store_problem{store=cache}", 0),
            ("saltwisted_reactor_late_max_seconds", 0.0125),
            ("saltwisted_reactor_silences_total", 2),
            ("saltwisted_reactor_silence_max_seconds", 1.8),
            ("saltwisted_requests_total{command=_return}", 2),
            ("saltwisted_keys{state=pending}", 1),
            ("saltwisted_queue_length{queue=job_store}", 7),
            ("saltwisted_replication_lag{node=b,what=returns}", 3),
            ("saltwisted_link_up{node=c}", 0),
            ("saltwisted_option_drift{option=external_auth}", 2),
            ("saltwisted_roots_conflicts{share=file/base/0}", 2),
            ("saltwisted_roots_received_bytes_total{node=b}", 100),
            ("saltwisted_events_total", 77),
            ("salt_new_job_total{function=test.ping,state=}", 1),
            ("salt_responses_total{minion=m1,success=true}", 1),
            ("salt_function_status{function=test.ping,minion=m1,state=}", 1),
            ("salt_health_minions_total", 2),
        ):
            self.assertEqual(found.get(name), value, name)
        self.assertIn('saltwisted_info{node=salt"1\n,role=master,version=1.0}', found)
        self.assertGreater(found["process_resident_memory_bytes"], 1e6)
        self.assertGreater(found["process_open_fds"], 2)
        self.assertNotIn("saltwisted_replication_lag{node=c,what=keys}", found)

    def test_heads_once(self) -> None:
        """What a family is stands once in the text, however many pieces it is written in."""
        many = {(("l", str(n)),): float(n) for n in range(3)}
        family = Family("a_total", COUNTER, "x", many)

        text = written(family, True) + written(family, False)

        self.assertEqual(text.count(b"# TYPE a_total counter"), 1)
        self.assertEqual(text.count(b"a_total{"), 6)
        self.assertEqual(written(single("b_total", UNTYPED, "x", 1), False), b"b_total 1.0\n")
        self.assertIn(b"# TYPE c gauge", written(single("c", GAUGE, "x", 1), True))

    def test_pieces(self) -> None:
        """
        With ten thousand minions each turn of the reactor writes one piece, and the text has all.
        """
        accepted = [f"m{n}" for n in range(10_000)]
        self.telemetry.show(self.figures, lambda: accepted, self.bus)
        for minion in accepted:
            self.bus.fire(f"salt/job/1/ret/{minion}", {"fun": "test.ping", "retcode": 0})
        turns: list[float] = []
        later = self.reactor.callLater

        def counted(delay: float, *call: Any) -> Any:
            turns.append(delay)
            return later(delay, *call)

        self.patch(self.reactor, "callLater", counted)
        d = self.telemetry.text()
        self.turn()
        text = self.successResultOf(d)
        self.assertEqual(text.count(b"salt_function_status{"), 10_000)
        self.assertGreater(len(turns), 3 * 10_000 / PIECE)

    def test_asked_by_many(self) -> None:
        """However many ask at once and within a second, the text is made once."""
        self.show()
        asked = [self.telemetry.text() for _ in range(50)]
        self.turn()
        texts = {self.successResultOf(d) for d in asked}
        texts.add(self.successResultOf(self.telemetry.text()))
        self.assertEqual((len(texts), self.asked), (1, 1))

        self.reactor.advance(FRESH)
        self.telemetry.text()
        self.turn()
        self.assertEqual(self.asked, 2)

    def test_failure(self) -> None:
        """A figure that cannot be had is an error of that question, in the log, and of no other."""
        self.thread = lambda function: fail(OSError("no /proc"))
        self.show()
        self.assertEqual(self.get("/metrics")[0], 500)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.thread = at_once
        self.assertEqual(self.get("/metrics")[0], 200)

    def test_hangs_up_meanwhile(self) -> None:
        """Who asks and goes away leaves nothing behind, not even a line in the log."""
        waiting: Deferred[Any] = Deferred()
        self.thread = lambda function: waiting
        self.show()
        protocol, _ = self.connect()
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        protocol.connectionLost(connectionDone)
        waiting.callback(of_the_process())
        self.turn()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_members_come_and_go(self) -> None:
        """While no master is shown there is little to tell; its events then count no longer."""
        self.assertIn(b'node="none"', self.get("/metrics")[2])
        self.show()
        self.telemetry.hide()
        self.bus.fire("salt/job/1/new", {"fun": "test.ping", "minions": ["m1"]})
        self.reactor.advance(FRESH)
        body = self.get("/metrics")[2]
        self.assertIn(b'node="none"', body)
        self.assertNotIn(b"salt_new_job_total{", body)

    @unittest.skipUnless(shutil.which("promtool"), "Debian's prometheus is not there: no promtool")
    def test_promtool(self) -> None:
        """C{promtool check metrics} finds nothing to say of a text that has everything."""
        self.show()
        self.bus.fire("salt/job/1/new", {"fun": "state.highstate", "minions": ["m1"]})
        for more in ({}, {"schedule": "x"}):
            self.bus.fire(
                "salt/job/1/ret/m1",
                {
                    "fun": "state.highstate",
                    "return": {"a": {"result": True, "duration": 1}},
                    **more,
                },
            )
        self.bus.fire("salt/job/1/ret/m1", {"fun": "test.ping", "retcode": 0})
        self.bus.fire("salt/beacon/m1/status", {})
        text = self.get("/metrics")[2]
        found = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
        )
        self.assertEqual((found.returncode, found.stdout, found.stderr), (0, b"", b""))


class HealthTests(Told):
    """C{/livez} and C{/readyz}."""

    def test_live(self) -> None:
        """It is live whether it serves or not."""
        self.ready = (False, "it waits")
        self.assertEqual(self.get("/livez")[0::2], (200, b"live\n"))

    def test_ready(self) -> None:
        """Ready is 200, anything else 503 with the reason; no proxy may keep either."""
        self.assertEqual(self.get("/readyz")[0::2], (200, b"serving\n"))
        self.ready = (False, "not serving yet: it waits for a token")
        status, head, body = self.get("/readyz")
        self.assertEqual((status, body), (503, b"not serving yet: it waits for a token\n"))
        self.assertIn(b"no-store", head)

    def test_head(self) -> None:
        """HAProxy's C{OPTIONS} is refused, C{HEAD} is answered as C{GET}, without a body."""
        self.ready = (False, "no")
        self.assertEqual(self.get("/readyz", "HEAD")[0::2], (503, b""))
        self.assertEqual(self.get("/readyz", "OPTIONS")[0], 501)


class PortTests(Told):
    """The port gives nobody room."""

    def test_one_question(self) -> None:
        """Each connection has one question; nothing tells which library answers."""
        _, head, _ = self.get("/livez")
        self.assertIn(b"connection: close", head.lower())
        self.assertNotIn(b"twistedweb", head.lower())

    def test_nothing_else(self) -> None:
        """There are three pages; other paths and methods are refused, whatever they say."""
        for path in ("/", "/metrics/x", "/livez/../metrics", "/%00", "/..%2f..", "/events"):
            self.assertEqual(self.get(path)[0], 404, path)
        self.assertEqual(self.get("/metrics", "POST")[0], 405)
        self.assertEqual(self.get("/metrics", "BREW")[0], 501)
        self.assertEqual(self.asked, 0)

    def test_no_bodies(self) -> None:
        """A body ends the connection, and none of it is kept, in memory or on disk."""
        for more in (b"Content-Length: 1000000000\r\n", b"Transfer-Encoding: chunked\r\n"):
            protocol, transport = self.connect()
            protocol.dataReceived(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + more + b"\r\n")
            protocol.dataReceived(b"10000\r\n" + b"x" * 0x10000)
            self.assertTrue(transport.disconnecting, more)
            requests = protocol.wrappedProtocol.requests
            kept = [r.content.getvalue() for r in requests if isinstance(r, Asked)]
            self.assertNotIn(b"x", b"".join(kept), more)
            protocol.connectionLost(connectionDone)

    def test_slow(self) -> None:
        """Who connects and does not ask within some seconds is hung up on, drop by drop or not."""
        protocol, transport = self.connect()
        for _ in range(int(LIFE) - 1):
            protocol.dataReceived(b"G")
            self.reactor.advance(1)
        self.assertFalse(transport.disconnecting)
        self.reactor.advance(1)
        self.assertTrue(transport.disconnecting)

    def test_places(self) -> None:
        """When all places are taken the oldest connection goes, and a health check gets in."""
        mute = [self.connect() for _ in range(64)]
        self.assertEqual(self.get("/livez")[0], 200)
        self.assertTrue(mute[0][1].disconnecting)
        self.assertEqual([t.disconnecting for _, t in mute[1:]], [False] * 63)

    def test_end(self) -> None:
        """At the end all are hung up on, and nothing is left to do."""
        _, transport = self.connect()
        self.successResultOf(self.port.stopService())
        self.assertTrue(transport.disconnecting)

    def test_taken(self) -> None:
        """A port that somebody else has is named."""

        class Taken(MemoryReactorClock):
            def listenTCP(self, *args: Any, **kwargs: Any) -> Any:
                raise CannotListenError("127.0.0.1", 9464, OSError(98, "in use"))

        port = MeasuresPort(Taken(), "127.0.0.1", 9464, self.telemetry, lambda: self.ready)
        error = self.assertRaises(PortError, port.startService)
        self.assertIn("127.0.0.1:9464: Address already in use", str(error))

    def test_address(self) -> None:
        """It listens where it is told to."""
        self.assertEqual(self.interface, "127.0.0.1")


class FileTests(SynchronousTestCase):
    """What is shipped for Prometheus and Grafana."""

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def names_told(self) -> set[str]:
        """Every name that a node can tell."""
        lines = self.told_text().splitlines()
        return {line.split()[2] for line in lines if line.startswith("# TYPE")}

    def told_text(self) -> str:
        """All that a node can tell."""
        clock = Clock()
        jobs = JobFigures(True, ["state.highstate"])
        telemetry = Telemetry(clock, jobs, lambda: 1.0, at_once, dict)
        bus = EventBus(lambda: 1.0)
        telemetry.show(lambda: FIGURES, lambda: ["m1"], bus)
        bus.fire("salt/job/1/new", {"fun": "state.highstate", "minions": ["m1"]})
        load = {"fun": "state.highstate", "return": {"a": {"result": True, "duration": 1}}}
        for more in ({}, {"schedule": "x"}):
            bus.fire("salt/job/1/ret/m1", {**load, **more})
        bus.fire("salt/beacon/m1/status", {})
        d = telemetry.text()
        while not d.called:
            clock.advance(0)
        return self.successResultOf(d).decode()

    def read(self, *path: str) -> str:
        """A file of ours."""
        with open(os.path.join(self.root, *path), encoding="utf-8") as handle:
            return handle.read()

    def exprs(self) -> list[str]:
        """The expressions of all alerts and panels."""
        rules = yaml.safe_load(self.read("etc", "prometheus", "rules.yml"))
        board = json.loads(self.read("etc", "grafana", "saltwisted.json"))
        found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
        found += [t["expr"] for panel in board["panels"] for t in panel["targets"]]
        found += [each["definition"] for each in board["templating"]["list"][1:]]
        return found

    def test_names(self) -> None:
        """Alerts, dashboard and page speak of what a node tells, and the page leaves none out."""
        told = self.names_told()
        pattern = re.compile(r"\b(?:salt|saltwisted|process)_[a-z_]+")
        for expr in self.exprs():
            self.assertEqual(set(pattern.findall(expr)) - told, set(), expr)
        page = self.read("docs", "metrics.md")
        tables = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
        on_page = {n for n in pattern.findall(tables) if n.startswith(("salt_", "saltwisted_"))}
        ours = {name for name in told if name.startswith(("salt_", "saltwisted_"))}
        self.assertEqual(on_page, ours)

    def test_first_loss(self) -> None:
        """Each way to lose a reaction has a series before one is lost, so the first is an alert."""
        folder = os.path.join(self.root, "saltwisted", "master", "automation")
        code = "".join(self.read(folder, name) for name in os.listdir(folder) if name[-3:] == ".py")
        words = re.findall(r"_telling\.lose\(.*?\"(\w+)\"[,)]", code)
        self.assertEqual(len(words), code.count("_telling.lose("))

        self.assertEqual({*NOT_YET} - {"failed"}, {f"lost:{word}" for word in words})
        text = self.told_text()
        for what in NOT_YET:
            self.assertIn(f'saltwisted_reactions_total{{what="{what}"}} 0.0\n', text)

    def test_alerts_help(self) -> None:
        """Each alert says how bad it is, what it means and what to do; its commands exist."""
        rules = yaml.safe_load(self.read("etc", "prometheus", "rules.yml"))
        alerts = [rule for group in rules["groups"] for rule in group["rules"]]
        for rule in alerts:
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            text = rule["annotations"]["summary"] + rule["annotations"]["description"]
            for words in re.findall(r"'(salt[^']*)'", text):
                first, *rest = words.split()
                self.assertIn(rest[0] if first == "saltwisted" else first, COMMANDS, text)
        self.assertEqual(len({rule["alert"] for rule in alerts}), len(alerts))

    @unittest.skipUnless(shutil.which("promtool"), "Debian's prometheus is not there: no promtool")
    def test_promtool(self) -> None:
        """
        C{promtool check rules} is content with the alerts; by C{promtool test rules} they fire when
        they should, and a healthy node sets off none.
        """
        rules = os.path.join(self.root, "etc", "prometheus", "rules.yml")
        cases = os.path.join(self.root, "tests", "web", "rules-test.yml")
        for words in (["check", "rules", rules], ["test", "rules", cases]):
            found = subprocess.run(
                ["promtool", *words], capture_output=True, text=True, check=False
            )
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
