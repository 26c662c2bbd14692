"""
C{/ws}: events by web socket.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api import formatted
from saltwisted.domain.api.formatted import SaltInfo
from saltwisted.domain.who import Who
from saltwisted.roles import api as roles_api
from saltwisted.web import talking
from saltwisted.web.events import CHECK, OF_ONE, UNREAD
from saltwisted.web.logfiles import AccessLog
from saltwisted.web.talking import ALLOWANCE, GOODBYE, LONGEST, PAUSE, PING, SLICE
from tests.web import frames
from tests.web.calls import RULES
from tests.web.frames import BINARY, TEXT, UPGRADE, code_of, frame
from tests.web.rig import ApiRig, Connection
from tests.web.test_events import JOB, EventsTestCase

READY = b"websocket client ready"
RECEIVED = (TEXT, b"server received message")


def heard(connection: Connection) -> list[tuple[int, bytes]]:
    """The frames that came."""
    head, _, rest = connection.transport.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101"), head
    return frames.frames(rest)


def events(connection: Connection) -> list[dict[str, Any]]:
    """The events that came."""
    texts = [text for opcode, text in heard(connection) if opcode == TEXT]
    return [json.loads(text[6:]) for text in texts if text.startswith(b"data: ")]


class SocketsTestCase(EventsTestCase):
    """A master with clients of C{/ws}."""

    def ask_for(self, api: ApiRig, path: str = "/ws", **more: Any) -> Connection:
        """A request for a web socket."""
        headers = {name.replace("-", "_"): text for name, text in UPGRADE.items()}
        connection = api.open("GET", path, **{**headers, **more})
        api.wait(0.1)
        return connection

    def talk(self, api: ApiRig, user: str = "admin", path: str = "/ws") -> Connection:
        """Somebody listens."""
        connection = self.ask_for(api, path, token=api.login(user))
        connection.send(frame(READY))
        api.wait(0.1)
        self.assertEqual(heard(connection), [RECEIVED])
        return connection

    def told(self, api: ApiRig, connection: Connection) -> list[str]:
        """The tags that he has heard, but of logins."""
        api.wait(0.1)
        tags = [event["tag"] for event in events(connection)]
        return [tag for tag in tags if not tag.startswith("salt/auth")]


class ShapeTests(SocketsTestCase):
    """The conversation is stock's."""

    def test_handshake(self) -> None:
        """The answer is 101 with the accepted key; nothing is told before the client is ready."""
        api = self.made()
        connection = self.ask_for(api, token=api.login())
        api.rig.bus.fire("my/tag", {"a": 1})
        api.wait(0.1)
        head, _, rest = connection.transport.value().partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"), head)
        self.assertIn(f"Sec-WebSocket-Accept: {frames.accepted()}".encode(), head)
        self.assertIn(b"Server: saltwisted\r\n", head)
        self.assertEqual(rest, b"")

    def test_conversation(self) -> None:
        """Every message is answered with the same words; then events come as C{data: {...}}."""
        api = self.made()
        connection = self.ask_for(api, token=api.login())
        connection.send(frame(b"hello"))
        api.rig.bus.fire("my/early", {})
        api.wait(0.1)
        connection.send(frame(READY))
        api.wait(0.1)
        api.rig.bus.fire("my/tag", {"a": 1})
        api.wait(0.1)
        first, second, (opcode, text) = heard(connection)
        self.assertEqual((first, second, opcode), (RECEIVED, RECEIVED, TEXT))
        self.assertTrue(text.startswith(b"data: {") and text.endswith(b"}\n\n"), text)
        event = json.loads(text[6:])
        self.assertEqual((event["tag"], event["data"]["a"]), ("my/tag", 1))
        self.assertIn("_stamp", event["data"])

    def test_at_once(self) -> None:
        """A client that does not wait for the answer, or sends byte by byte, is understood."""
        api = self.made()
        headers = {name.replace("-", "_"): text for name, text in UPGRADE.items()}
        token = api.login()
        lines = [f"{name}: {text}" for name, text in {**UPGRADE, "X-Auth-Token": token}.items()]
        connection = Connection(api)
        connection.send("\r\n".join(["GET /ws HTTP/1.1", *lines, "", ""]).encode() + frame(READY))
        slow = api.open("GET", "/ws", token=token, **headers)
        for byte in frame(READY):
            slow.send(bytes([byte]))
            api.wait(0.1)
        for each in (connection, slow):
            self.assertEqual(heard(each), [RECEIVED])

    def test_three_ways(self) -> None:
        """The session is shown by header, by cookie, or in the path for browsers."""
        api = self.made()
        token = api.login()
        cookie = self.ask_for(api, Cookie=f"session_id={token}")
        path = self.ask_for(api, f"/ws/{token}")
        for connection in (cookie, path):
            self.assertTrue(connection.transport.value().startswith(b"HTTP/1.1 101"))

    def test_pieces_of_a_message(self) -> None:
        """A message may come in several frames, with a ping between them."""
        api = self.made()
        connection = self.ask_for(api, token=api.login())
        connection.send(frame(READY[:5], last=False))
        connection.send(frame(b"x", frames.PING))
        connection.send(frame(READY[5:], 0))
        api.wait(0.1)
        self.assertEqual(heard(connection), [(frames.PONG, b"x"), RECEIVED])
        api.rig.bus.fire("my/tag", {})
        self.assertEqual(self.told(api, connection), ["my/tag"])

    def test_ping(self) -> None:
        """A quiet connection is pinged, so that nobody in between thinks that it is dead."""
        api = self.made()
        connection = self.talk(api)
        api.wait(PING + 1)
        self.assertEqual(heard(connection), [RECEIVED, (frames.PING, b"")])

    def test_goodbye(self) -> None:
        """A client's close frame is answered, and the connection ends."""
        api = self.made()
        connection = self.talk(api)
        connection.send(frame(b"\x03\xe8", frames.CLOSE))
        api.wait(0.1)
        self.assertEqual(code_of(heard(connection)), 1000)
        self.assertTrue(connection.transport.disconnecting)
        self.assertEqual(len(api.api.beside[0]), 0)

    def test_log(self) -> None:
        """T-LOG-1: a token in a path is in no log of requests."""
        path = self.mktemp()
        api = self.made(block={"log_access_file": path})
        token = api.login()
        self.ask_for(api, f"/ws/{token}")
        api.ask("POST", f"/ws/{token}/x", {})
        (access,) = [each for each in api.api.beside if isinstance(each, AccessLog)]
        access.stopService()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn(token, text)
        self.assertIn('"GET /ws/... HTTP/1.1" 101', text)

    def test_no_library(self) -> None:
        """Without autobahn C{/ws} says what is missing, and all else is there."""
        self.patch(roles_api, "find_spec", lambda name: None)
        api = self.made()
        token = api.login()
        headers = {name.replace("-", "_"): text for name, text in UPGRADE.items()}
        reply = api.ask("GET", "/ws", token=token, **headers)
        self.assertEqual(reply.status, 501)
        self.assertIn("python3-autobahn", reply.text)
        self.assertEqual(api.ask("GET", "/stats", token=token).status, 200)


class DoorTests(SocketsTestCase):
    """Who gets in."""

    def status(self, api: ApiRig, path: str = "/ws", **more: Any) -> int:
        """What is answered."""
        connection = self.ask_for(api, path, **more)
        return int(connection.transport.value().split()[1])

    def test_T_API_1_strangers(self) -> None:
        """T-API-1: without a good session there is 401, whatever is said besides."""
        api = self.made()
        token = api.login()
        api.ask("POST", "/logout", token=token)
        for wrong in ("x", "0" * 64, token, "../" * 3, "%00"):
            self.assertEqual(self.status(api, token=wrong), 401, wrong)
            self.assertIn(self.status(api, f"/ws/{wrong}"), (401, 404), wrong)
        self.assertEqual(self.status(api), 401)
        self.assertEqual(len(api.api.beside[0]), 0)

    def test_T_API_6_query(self) -> None:
        """T-API-6: a token behind the question mark is refused, though it is good."""
        api = self.made()
        token = api.login()
        self.assertEqual(self.status(api, f"/ws?token={token}"), 400)
        self.assertEqual(self.status(api, "/ws?x", token=token), 400)
        self.assertEqual(self.status(api, "/ws?format_events", token=token), 101)

    def test_other_origin(self) -> None:
        """A page of somebody else's cannot listen with a user's cookie."""
        api = self.made()
        token = api.login()
        cookie = f"session_id={token}"
        there = "https://elsewhere.example"
        self.assertEqual(self.status(api, Cookie=cookie, Origin=there), 403)
        self.assertEqual(self.status(api, Cookie=cookie, Origin="http://api.example:8000"), 101)
        api = self.made(block={"cors_origin": there})
        cookie = f"session_id={api.login()}"
        self.assertEqual(self.status(api, Cookie=cookie, Origin=there), 101)

    def test_no_web_socket(self) -> None:
        """What is no request for a web socket is 400, with what is wrong."""
        api = self.made()
        token = api.login()
        for more in (
            {"Upgrade": ""},
            {"Upgrade": "h2c"},
            {"Connection": "close"},
            {"Sec_WebSocket_Version": "8"},
            {"Sec_WebSocket_Version": ""},
            {"Sec_WebSocket_Key": ""},
            {"Sec_WebSocket_Key": "x" * 24},
            {"Sec_WebSocket_Key": "AAAA"},
        ):
            self.assertEqual(self.status(api, token=token, **more), 400, more)
        for method, status in (("HEAD", 400), ("POST", 405)):
            reply = api.ask(method, "/ws", [] if method == "POST" else None, token=token)
            self.assertEqual(reply.status, status)
        self.assertEqual(len(api.api.beside[0]), 0)

    def test_too_many(self) -> None:
        """One user has so many streams of either kind; the next is told to come later."""
        api = self.made()
        token = api.login()
        for _ in range(OF_ONE):
            api.open("GET", "/events", token=token)
        headers = {name.replace("-", "_"): text for name, text in UPGRADE.items()}
        reply = api.ask("GET", "/ws", token=token, **headers)
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["5"]))


class SightTests(SocketsTestCase):
    """Who sees what is as it is for C{/events}."""

    rules = {
        **RULES,
        "reader": ["test.*", {"api-00001": ["test.*", "@events"]}],
    }

    def test_others(self) -> None:
        """Others see their own jobs and the minions that a rule covers (pains-next 2.9)."""
        api = self.made()
        admin, reader = self.talk(api), self.talk(api, "reader")
        bus = api.rig.bus
        bus.fire(f"{JOB}/new", {"user": "admin", "minions": ["api-00000"], "arg": ["secret"]})
        bus.fire(f"{JOB}/ret/api-00001", {"return": "his"})
        bus.fire("salt/job/2/new", {**Who("reader", "file").facts(), "minions": ["api-00000"]})
        self.assertEqual(len(self.told(api, admin)), 3)
        self.assertEqual(self.told(api, reader), [f"{JOB}/ret/api-00001", "salt/job/2/new"])
        self.assertNotIn(b"secret", reader.transport.value())

    def test_logout(self) -> None:
        """A session that ends, ends its conversation within seconds, with a close frame."""
        api = self.made()
        token = api.login()
        connection = self.ask_for(api, token=token)
        api.ask("POST", "/logout", token=token)
        api.wait(CHECK + 0.1)
        self.assertEqual(code_of(heard(connection)), 1008)
        api.wait(GOODBYE + 0.1)
        self.assertTrue(connection.transport.disconnecting)


class HarmTests(SocketsTestCase):
    """A bad or greedy client harms only itself."""

    def test_T_API_7_junk(self) -> None:
        """T-API-7: what is no frame, or a wrong one, is answered with the right code."""
        api = self.made()
        cases = [
            (frame(b"x", masked=False), 1002),
            (frame(b"x", flags=0x40), 1002),
            (frame(b"x", opcode=3), 1002),
            (frame(b"x", opcode=11), 1002),
            (frame(b"x", opcode=0), 1002),
            (frame(b"x" * 126, frames.PING), 1002),
            (frame(b"x", frames.PING, last=False), 1002),
            (frame(b"x", frames.CLOSE), 1002),
            (frame(b"\x00\x01", frames.CLOSE), 1002),
            (frame(b"a", last=False) + frame(b"b"), 1002),
            (frame(b"\xff\xfe"), 1007),
            (frame(b"x" * (LONGEST + 1)), 1009),
            (frame(size=2**40), 1009),
            (frame(size=2**40) + b"x" * 65_536, 1009),
            (frame(b"x" * 4000, last=False) + frame(b"x" * 4000, 0), 1009),
            (frame(b"x", last=False) + frame(b"x", 0, last=False) * 30, 1008),
            (frame(last=False) + frame(b"", 0, last=False) * 30, 1008),
        ]
        good = self.talk(api)
        for data, code in cases:
            connection = self.ask_for(api, token=api.login())
            connection.send(data)
            # Nothing behind it changes that
            connection.send(frame(READY))
            api.wait(0.5)
            self.assertEqual(code_of(heard(connection)), code, data[:40])
            api.wait(GOODBYE + 0.1)
            self.assertTrue(connection.transport.disconnecting, data[:40])
            connection.protocol.connectionLost(connectionDone)
        api.rig.bus.fire("my/last", {})
        self.assertEqual(self.told(api, good)[-1], "my/last")
        self.assertEqual(len(api.api.beside[0]), 1)

    def test_T_API_7_no_http(self) -> None:
        """T-API-7: bytes that were random once are answered and hung up on."""
        api = self.made()
        connection = self.ask_for(api, token=api.login())
        connection.send(bytes((n * 151 + 7) % 256 for n in range(5000)))
        api.wait(GOODBYE + 1)
        self.assertIn(code_of(heard(connection)), (1002, 1007, 1008, 1009))
        self.assertTrue(connection.transport.disconnecting)

    def slices(self) -> list[int]:
        """The sizes of what is given to the library from now on."""
        sizes: list[int] = []
        take = talking.Speaker.dataReceived

        def note(speaker: talking.Speaker, data: bytes) -> None:
            sizes.append(len(data))
            take(speaker, data)

        self.patch(talking.Speaker, "dataReceived", note)
        return sizes

    def test_T_API_7_flood(self) -> None:
        """
        T-API-7: who sends more than anybody needs is closed with 1008 and counted; what he sends
        is read bit by bit, a slice in one turn of the reactor.
        """
        for data in (frame(b"", frames.PING), frame(b"x", BINARY), frame(b"", frames.PONG)):
            api = self.made()
            connection = self.ask_for(api, token=api.login())
            sizes: list[int] = []
            take = talking.Speaker.dataReceived
            self.patch(
                talking.Speaker,
                "dataReceived",
                lambda own, data, take=take, sizes=sizes: (
                    sizes.append(len(data)) or take(own, data)
                ),
            )
            connection.send(data * (4 * ALLOWANCE // len(data)))
            self.assertEqual((connection.transport.producerState, sizes), ("paused", []))
            api.wait(10)
            self.assertLessEqual(max(sizes), SLICE)
            self.assertLessEqual(sum(sizes), ALLOWANCE + SLICE)
            self.assertEqual(code_of(heard(connection)), 1008)
            self.assertEqual(api.rig.counters["api:ws-floods"], 1)
            self.assertTrue(connection.transport.disconnecting)

    def test_slow(self) -> None:
        """Who says little for long is no flood."""
        api = self.made()
        connection = self.talk(api)
        for _ in range(40):
            connection.send(frame(b"x" * 1000))
            api.wait(1)
        self.assertEqual(code_of(heard(connection)), 0)
        self.assertEqual(heard(connection).count(RECEIVED), 41)

    def test_does_not_read(self) -> None:
        """A client that does not read is hung up on and counted; others hear everything."""
        api = self.made()
        good, bad = self.talk(api), self.talk(api)
        bad.transport.producer.pauseProducing()
        before = len(bad.transport.value())
        count = UNREAD // 100_000 + 2
        for n in range(count):
            api.rig.bus.fire(f"my/{n}", {"text": "x" * 100_000})
            api.wait(0.1)
        self.assertTrue(bad.transport.disconnecting)
        self.assertEqual(len(bad.transport.value()), before)
        self.assertEqual(api.rig.counters["api:slow-listeners"], 1)
        self.assertEqual(len(self.told(api, good)), count)

    def test_mute_crowd(self) -> None:
        """What many do not read is in memory once, not for each of them; frames of any length."""
        api = self.made()
        good = self.talk(api)
        for _ in range(40):
            self.talk(api).transport.producer.pauseProducing()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for n in range(30):
            api.rig.bus.fire(f"my/{n}", {"text": "x" * (n % 3) * (50, 1000, 50_000)[n % 3]})
            api.wait(0.1)
        kept, _ = tracemalloc.get_traced_memory()
        self.assertEqual(len(api.api.beside[0]), 41)
        self.assertLess(kept, 8_000_000)
        self.assertEqual(len(self.told(api, good)), 30)

    def test_goes(self) -> None:
        """A client that goes leaves nothing behind, in whatever state it was."""
        api = self.made()
        for data in (b"", frame(READY), frame(b"x" * 50)[:30], frame(b"\x03\xe8", frames.CLOSE)):
            connection = self.ask_for(api, token=api.login())
            connection.send(data)
            connection.protocol.connectionLost(connectionDone)
            self.assertEqual(len(api.api.beside[0]), 0)
        api.wait(0.1)
        left = [call for call in api.rig.clock.getDelayedCalls() if "Talk" in str(call)]
        self.assertEqual(left, [])

    def test_stop(self) -> None:
        """A master that stops says so with a close frame, before it hangs up."""
        api = self.made()
        connection, stream = self.talk(api), self.listen(api)
        waiting = api.open("POST", "/", [{"client": "local", "tgt": "*", "fun": "test.ping"}],
                           token=api.login())  # fmt: skip
        api.wait(0.1)
        for each in api.api.beside:
            each.stopService()
        api.api.site.stop()
        gone = api.api.factory.hang_up()
        self.assertEqual(code_of(heard(connection)), 1001)
        self.assertTrue(stream.transport.value().endswith(b"0\r\n\r\n"))
        self.assertEqual([reply.status for reply in waiting.replies], [503])
        self.assertNoResult(gone)
        for each in (connection, stream, waiting):
            self.assertTrue(each.transport.disconnecting)
            self.assertFalse(each.transport.disconnected)
        for each in list(api.api.factory._open):
            each.connectionLost(connectionDone)
        self.successResultOf(gone)

    def test_stop_mute(self) -> None:
        """A client that does not read what it gets at the end has its connection reset."""
        api = self.made()
        connection = self.talk(api)
        api.api.beside[0].stopService()
        gone = api.api.factory.hang_up()
        self.assertFalse(connection.transport.disconnected)
        api.wait(GOODBYE + 0.1)
        self.assertTrue(connection.transport.disconnected)
        self.assertNoResult(gone)


class FormattedTests(SocketsTestCase):
    """C{/ws?format_events}."""

    def test_jobs(self) -> None:
        """Instead of events, jobs and minions are told as stock's event processor tells them."""
        api = self.made()
        connection = self.talk(api, path="/ws?format_events")
        bus = api.rig.bus
        new = {"jid": "2", "minions": ["a", "b"], "fun": "test.ping", "tgt": "*",
               "tgt_type": "glob", "user": "admin"}  # fmt: skip
        bus.fire("salt/job/2/new", new)
        bus.fire("salt/job/2/ret/a", {"return": True, "retcode": 0, "success": True})
        api.wait(PAUSE + 0.1)
        bus.fire("salt/job/2/ret/b", {"return": True, "retcode": 0, "success": True})
        bus.fire("salt/key", {"act": "accept", "id": "c"})
        api.wait(PAUSE + 0.1)
        first, second, third = [json.loads(text) for _, text in heard(connection)[1:]]
        done = {"success": True, "return": True, "retcode": 0}
        job = first["jobs"]["2"]
        self.assertEqual(job["minions"], {"a": done, "b": {"success": False}})
        self.assertEqual((job["state"], job["fun"]), ("running", "test.ping"))
        self.assertEqual(second["jobs"]["2"]["state"], "complete")
        self.assertEqual(third, {"minions": [{"id": "c"}]})

    def test_pace(self) -> None:
        """However much happens, all jobs are told a few times in a second at most."""
        api = self.made()
        connection = self.talk(api, path="/ws?format_events")
        for n in range(200):
            api.rig.bus.fire(f"salt/job/{n}/ret/a", {"return": n, "success": True})
        api.wait(1)
        self.assertEqual(len(heard(connection)), 2)

    def test_bound(self) -> None:
        """What is kept of jobs has a bound; the newest stay."""
        self.patch(formatted, "MOST", 10_000)
        info = SaltInfo()
        for n in range(100):
            info.heard(f"salt/job/{n}/ret/a", {"return": "x" * 1000, "success": True})
        ((told),) = info.tell()
        self.assertLess(len(told["jobs"]), 11)
        self.assertIn("99", told["jobs"])

    def test_odd(self) -> None:
        """An event that is not as it should be changes nothing."""
        info = SaltInfo()
        for tag, data in (
            ("salt/job", {}), ("salt/job/1/new", {}), ("salt/job/1/new", {"jid": 1}),
            ("salt/key", {"act": "delete"}), ("salt", {}), ("", {}), ("salt/presence/present", {}),
            ("my/job/1/new", {"jid": "1", "minions": []}),
        ):  # fmt: skip
            self.assertFalse(info.heard(tag, data), tag)


class QuietTests(SynchronousTestCase):
    """The library."""

    def test_no_log(self) -> None:
        """T-LOG-1: what the library would log of a client goes nowhere."""
        self.assertIs(talking.Speaker.log.observer, talking._unheard)
