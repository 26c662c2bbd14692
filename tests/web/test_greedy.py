"""
Greedy, slow and mistaken clients harm only themselves, and learn what was wrong.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.web import site
from tests.web.calls import LOGIN, PING
from tests.web.rig import ApiRig

SLEEP = {"client": "runner", "fun": "test.sleep", "kwarg": {"s_time": 600}}


class GreedyTests(SynchronousTestCase):
    """Bounds, and what is said at them."""

    def setUp(self) -> None:
        self.api = ApiRig(self)
        self.token = self.api.login()

    def test_too_long(self) -> None:
        """A runner or a wheel function that takes too long is 504, and goes on to its end."""
        ended: list[Any] = []
        self.api.rig.bus.subscribe("salt/run/", lambda tag, data: ended.append((tag, data)))
        connection = self.api.open("POST", "/", [{**SLEEP, "timeout": 5}], token=self.token)
        self.api.wait(4)
        self.assertEqual(connection.replies, [])
        self.api.wait(2)
        (reply,) = connection.replies
        self.assertEqual(reply.status, 504)
        self.assertIn("'test.sleep' did not end in time", reply.text)
        self.assertEqual([tag[-4:] for tag, _ in ended], ["/new"])
        self.api.rig.clock.pump([1] * 600)

        self.assertEqual(ended[-1][0][-4:], "/ret")
        self.assertTrue(ended[-1][1]["success"])

    def test_what_arrived(self) -> None:
        """
        If a later one of several chunks takes too long, or the disk refuses it, the answer has what
        arrived (pains-next 2.7): one result for each chunk that was done, and why there is no more.
        """
        connection = self.api.open(
            "POST", "/", [PING, {**SLEEP, "timeout": 5}, PING], token=self.token
        )
        self.api.answer(True, 0)
        self.api.wait(30)
        (reply,) = connection.replies
        self.assertEqual((reply.status, reply.headers["content-type"]), (504, ["application/json"]))
        self.assertEqual(reply.json["status"], 504)
        self.assertEqual(reply.json["error"], "'test.sleep' did not end in time")
        (shown,) = reply.json["return"]
        self.assertIs(shown["api-00000"], True)
        self.assertEqual(reply.json["missing"], [["api-00001"]])
        pings = [job for job in self.api.rig.published_jobs() if job["fun"] == "test.ping"]
        self.assertEqual(len(pings), 1)

        store, save = self.api.rig.jobs, self.api.rig.jobs.save_job

        def last(*args: Any, **more: Any) -> Any:
            saved = save(*args, **more)
            store.full = True
            return saved

        self.patch(store, "save_job", last)
        reply = self.api.ask("POST", "/minions", [PING, PING], token=self.token)
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["5"]))
        (job,) = reply.json["return"]
        self.assertEqual(reply.json["_links"], {"jobs": [{"href": f"/jobs/{job['jid']}"}]})

    def test_refused_later(self) -> None:
        """What a later chunk may not do is refused in stock's way, whatever arrived before."""
        reader = self.api.login("reader")
        connection = self.api.open("POST", "/", [PING, {**PING, "fun": "cmd.run"}], token=reader)
        self.api.answer(True, 0, 1)
        self.api.wait(0.1)
        (reply,) = connection.replies
        self.assertEqual(reply.status, 401)
        self.assertIn("<h2>401 Unauthorized</h2>", reply.text)

    def test_usual_patience(self) -> None:
        """Without a C{timeout} of its own a request waits for C{rest_timeout}."""
        connection = self.api.open("POST", "/", [SLEEP], token=self.token)
        self.api.rig.clock.pump([10] * 29)
        self.assertEqual(connection.replies, [])
        self.api.rig.clock.pump([10] * 2)
        self.assertEqual([reply.status for reply in connection.replies], [504])

    def test_too_many_requests(self) -> None:
        """Who has very many requests at work is told to come later; others are answered."""
        self.patch(site, "OF_ONE", 5)
        waiting = [self.api.open("POST", "/", [PING], token=self.token) for _ in range(5)]
        (reply,) = self.api.open("GET", "/").replies
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["1"]))
        self.assertEqual(self.api.ask("GET", "/", address="198.51.100.1").status, 200)
        for number in range(5):
            job = self.api.rig.published_jobs()[number]
            for minion in self.api.minions:
                minion.ask("_return", jid=job["jid"], fun="test.ping", retcode=0, **{"return": 1})
        self.api.wait(0.1)

        self.assertEqual([each.replies[0].status for each in waiting], [200] * 5)
        self.assertEqual(self.api.ask("GET", "/").status, 200)
        self.patch(site, "AT_ONCE", 0)
        (reply,) = self.api.open("GET", "/", address="198.51.100.1").replies
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["1"]))
        self.assertEqual(self.api.rig.counters["api:too-many-requests"], 2)

    def test_crowd(self) -> None:
        """
        Sixty-four clients at once each get an answer with every minion in it (pains-next 2.5): what
        it said, or that it said nothing, which is listed apart.
        """
        waiting = [self.api.open("POST", "/", [PING], token=self.token) for _ in range(64)]
        jobs = [job for job in self.api.rig.published_jobs() if job["fun"] == "test.ping"]
        self.assertEqual(len(jobs), 64)
        for number, job in enumerate(jobs):
            for minion in self.api.minions if number % 2 else self.api.minions[:1]:
                say = {"jid": job["jid"], "fun": job["fun"], "retcode": 0, "success": True}
                minion.ask("_return", **say, **{"return": True})
        self.api.wait(40)
        missing = 0
        for connection in waiting:
            (reply,) = connection.replies
            self.assertEqual(reply.status, 200)
            (shown,) = reply.json["return"]
            self.assertEqual(sorted(shown), ["api-00000", "api-00001"])
            self.assertIs(shown["api-00000"], True)
            if reply.json.get("missing"):
                missing += 1
                self.assertEqual(reply.json["missing"], [["api-00001"]])
                self.assertIn("Minion did not return.", shown["api-00001"])
            else:
                self.assertIs(shown["api-00001"], True)
        self.assertEqual(missing, 32)

    def test_malformed_logins(self) -> None:
        """A thousand logins that are none keep a good one waiting for nothing."""
        strange: list[Any] = [
            {"username": "admin", "eauth": "file"},
            {"username": "admin", "password": None, "eauth": "file"},
            {"username": ["admin"], "password": {"a": 1}, "eauth": "file"},
            {"username": "admin", "password": "x", "eauth": ["file"]},
            {"password": "x"},
            {"username": "admin", "password": "x", "eauth": "nosuch"},
            [[]],
            7,
        ]
        open_ = []
        for number in range(1000):
            address = f"198.51.{number % 100}.1"
            open_.append(self.api.open("POST", "/login", strange[number % 8], address=address))
        began = self.api.rig.clock.seconds()
        good = self.api.open("POST", "/login", LOGIN)
        while not good.replies:
            self.api.rig.clock.advance(0.01)

        self.assertEqual(good.replies[0].status, 200)
        self.assertLess(self.api.rig.clock.seconds() - began, 0.1)
        self.api.wait(30)
        self.assertLessEqual({each.replies[0].status for each in open_}, {400, 401, 503})
        self.assertEqual(self.api.rig.counters["api:failed"], 0)

    def test_causes(self) -> None:
        """
        Each cause of a refusal has words of its own, and none is 500. What one may not do with
        runners and with the wheel is one cause, in Salt's words.
        """
        reader = self.api.login("reader")
        causes: dict[str, tuple[int, Any, str]] = {
            "no session": (401, [PING], ""),
            "no such client": (400, [{**PING, "client": "nosuch"}], self.token),
            "a client that is not there": (400, [{**PING, "client": "ssh"}], self.token),
            "no function": (400, [{"client": "local", "tgt": "*"}], self.token),
            "no target": (400, [{"client": "local", "fun": "test.ping"}], self.token),
            "no such runner": (400, [{"client": "runner", "fun": "no.such"}], self.token),
            "no such wheel": (400, [{"client": "wheel", "fun": "no.such2"}], self.token),
            "keywords that are none": (400, [{**PING, "kwarg": [1]}], self.token),
            "a time that is none": (400, [{**PING, "timeout": "soon"}], self.token),
            "a raw shell": (401, [{**PING, "client": "ssh", "raw_shell": 1}], self.token),
            "no right to a function": (401, [{**PING, "fun": "cmd.run"}], reader),
            "no right to runners": (401, [{"client": "runner", "fun": "test.arg"}], reader),
            "chunks that are none": (400, [7], self.token),
            "no chunks": (400, "text", self.token),
            "very many chunks": (400, [{}] * 2000, self.token),
        }
        said: dict[str, str] = {}
        for cause, (status, low, token) in causes.items():
            reply = self.api.ask("POST", "/", low, token=token)
            self.assertEqual(reply.status, status, (cause, reply.text))
            said[cause] = reply.text.partition("<p>")[2].partition("</p>")[0]
            self.assertTrue(said[cause], cause)

        self.assertEqual(len(set(said.values())), len(said), said)

    def test_minions_down(self) -> None:
        """C{GET /minions} ends when some are down, with what came, and names who did not answer."""
        connection = self.api.open("GET", "/minions", token=self.token)
        self.api.answer({"os": "Debian"}, 0)
        self.api.wait(30)

        (reply,) = connection.replies
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.json["return"][0]["api-00000"], {"os": "Debian"})
        self.assertIn("Minion did not return.", reply.json["return"][0]["api-00001"])
        self.assertEqual(reply.json["missing"], [["api-00001"]])

    def test_nothing_grows(self) -> None:
        """After hundreds of requests of all kinds, ended and cut off, nothing of them is left."""
        rig = self.api.rig

        def left() -> tuple[Any, ...]:
            factory = self.api.api.factory
            return (
                len(factory._open),
                dict(factory._by_address),
                dict(self.api.api.site._running),
                len(self.api.api.site._answering),
                len(rig.ctx.calls.active),
                {prefix: len(found) for prefix, found in rig.bus._by_prefix.items()},
            )

        def some() -> None:
            open_ = [
                self.api.open("POST", "/", [{**PING, "timeout": 2}], token=self.token),
                self.api.open("POST", "/login", {**LOGIN, "password": "no"}),
                self.api.open(
                    "POST", "/", [{"client": "runner", "fun": "test.arg"}], token=self.token
                ),
                self.api.open(
                    "POST", "/", [{**SLEEP, "timeout": 1, "kwarg": {"s_time": 3}}], token=self.token
                ),
                self.api.open("GET", "/jobs?limit=3", token=self.token),
                self.api.open("POST", "/hook/x", {"a": 1}, token=self.token),
                self.api.open("GET", "/events", token=self.token),
                self.api.open("POST", "/", [PING], token=self.token),
            ]
            self.api.wait(0.2)
            open_.pop().protocol.connectionLost(Failure(ConnectionDone()))
            self.api.wait(25)
            for each in open_:
                each.protocol.connectionLost(Failure(ConnectionDone()))
            self.api.wait(1)

        some()
        before, delayed = left(), len(rig.clock.getDelayedCalls())
        for _ in range(12):
            some()

        self.assertEqual(left(), before)
        self.assertLessEqual(len(rig.clock.getDelayedCalls()), delayed)
