"""
C{/events} and C{/ws} of a real master: real sockets, and clients that read or do not.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from tests.harness import OurMaster, scratch, until
from tests.web import frames

EVENTS = 200
LISTENERS = 5


class Listener:
    """A client of C{/events}, in a thread of its own."""

    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.sendall(
            f"GET /events HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n\r\n".encode()
        )
        self.heard = b""
        while b"retry: 400\n" not in self.heard:
            data = self.socket.recv(65536)
            if not data:
                raise AssertionError(self.heard)
            self.heard += data

    def read(self) -> threading.Thread:
        """Read from now on, to the end."""
        thread = threading.Thread(target=self._read)
        thread.start()
        return thread

    def _read(self) -> None:
        while data := self.socket.recv(65536):
            self.heard += data


class Talker(Listener):
    """A client of C{/ws}, by a token in the path, as browsers have it."""

    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        lines = [f"{name}: {text}" for name, text in frames.UPGRADE.items()]
        asked = "\r\n".join([f"GET /ws/{token} HTTP/1.1", "Host: x", *lines, "", ""])
        self.socket.sendall(asked.encode() + frames.frame(b"websocket client ready"))
        self.heard = b""
        while b"server received message" not in self.heard:
            data = self.socket.recv(65536)
            if not data:
                raise AssertionError(self.heard)
            self.heard += data

    @property
    def frames(self) -> list[tuple[int, bytes]]:
        """The frames that came."""
        return frames.frames(self.heard.partition(b"\r\n\r\n")[2])


class RealEventsTests(SynchronousTestCase):
    """One master, as a process of its own."""

    def setUp(self) -> None:
        """Start it."""
        home = scratch(self)
        users = os.path.join(home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("admin:adminpw\nreader:readerpw\n")
        (self.port,) = reserve_ports(1)
        self.master = OurMaster(
            home,
            external_auth={
                "file": {
                    "^filename": users,
                    "admin": [".*", "@runner", "@wheel"],
                    "reader": ["test.*"],
                }
            },
            netapi_enable_clients=["runner"],
            rest_cherrypy={"port": self.port, "host": "127.0.0.1", "disable_ssl": True},
        )
        self.addCleanup(self.master.kill)
        self.master.up()
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", self.port)))
        self.control = self.master.control()
        self.addCleanup(self.control.close)

    def post(self, path: str, low: Any, token: str = "") -> Any:
        """What the API answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", path, json.dumps(low), {**headers, "X-Auth-Token": token})
        answer = connection.getresponse().read()
        connection.close()
        return json.loads(answer)

    def login(self, name: str) -> str:
        """A session."""
        low = {"username": name, "password": f"{name}pw", "eauth": "file"}
        return str(self.post("/login", low)["return"][0]["token"])

    def fire(self, tag: str, **data: Any) -> None:
        """On the master's bus."""
        self.control.call("fire_event", tag=tag, data=data)

    def test_all_hear(self) -> None:
        """
        Every listener hears every event; who may do less hears nothing of them; a hook is heard;
        one that does not read is hung up on, and all the others go on. When the master stops,
        every stream has its end, and no connection is reset.
        """
        admin = self.login("admin")
        listeners = [Listener(self.port, admin) for _ in range(LISTENERS)]
        other, mute = Listener(self.port, self.login("reader")), Listener(self.port, admin)
        talker, silent = Talker(self.port, admin), Talker(self.port, admin)
        threads = [listener.read() for listener in (*listeners, other, talker)]
        for n in range(EVENTS):
            self.fire("test/small", n=n)
        for _ in range(120):
            self.fire("test/large", text="x" * 100_000)

        def counters() -> Any:
            return self.control.call("status")["counters"]

        until("the mute one to be hung up on", lambda: counters().get("api:slow-listeners") == 2)
        self.assertEqual(self.post("/hook/done", {"a": 1}, admin), {"success": True})
        last = b"tag: salt/netapi/hook/done\n"
        until("all", lambda: all(last in listener.heard for listener in listeners))
        until("the talker", lambda: b"salt/netapi/hook/done" in talker.heard)
        self.assertEqual(counters()["api:slow-listeners"], 2)
        self.master.stop()
        for thread in threads:
            thread.join(120)
        mute.socket.close()
        silent.socket.close()

        for listener in listeners:
            self.assertEqual(listener.heard.count(b"tag: test/small\n"), EVENTS)
            self.assertEqual(listener.heard.count(b"tag: test/large\n"), 120)
            self.assertTrue(listener.heard.endswith(b"\r\n0\r\n\r\n"))
            listener.socket.close()
        events = [text for _, text in talker.frames if text.startswith(b"data: ")]
        tags = [json.loads(text[6:])["tag"] for text in events]
        self.assertEqual((tags.count("test/small"), tags.count("test/large")), (EVENTS, 120))
        self.assertEqual(frames.code_of(talker.frames), 1001)
        talker.socket.close()
        self.assertEqual(other.heard.count(b"tag: "), 0)
        other.socket.close()
