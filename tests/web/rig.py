"""
A master with an API, and clients of it, without sockets: time is played.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.api import api_of
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.worker.process.webwork import serve
from tests.master.rig import AtOnce, Rig, RigMinion
from tests.web.calls import CLIENTS, RULES, USERS


@frozen
class Reply:
    """One answer: its status, its headers (names in small letters) and its body."""

    status: int
    headers: dict[str, list[str]]
    content: bytes

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.content)

    @property
    def text(self) -> str:
        """The body."""
        return self.content.decode()


def replies(data: bytes) -> list[Reply]:
    """All answers on a connection."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers.setdefault(name.lower(), []).append(value)
        status = int(first.split()[1])
        if headers.get("transfer-encoding") == ["chunked"]:
            content, data = of_chunks(rest)
        else:
            size = int(headers["content-length"][0]) if "content-length" in headers else 0
            content, data = rest[:size], rest[size:]
        found.append(Reply(status, headers, content))
    return found


def of_chunks(data: bytes) -> tuple[bytes, bytes]:
    """A body in chunks, and what follows it."""
    content = b""
    while True:
        first, _, data = data.partition(b"\r\n")
        if not first:
            # It is not at its end
            return content, b""
        size = int(first, 16)
        content, data = content + data[:size], data[size + 2 :]
        if not size:
            return content, data


class Connection:
    """A client's connection."""

    def __init__(self, rig: ApiRig, address: str = "192.0.2.7") -> None:
        self.rig = rig
        self.transport: Any = StringTransport(peerAddress=SimpleNamespace(host=address, port=1))
        self.protocol = rig.api.factory.buildProtocol(None)
        self.protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        """These bytes."""
        self.protocol.dataReceived(data)

    @property
    def replies(self) -> list[Reply]:
        """What came."""
        return replies(self.transport.value())


class ApiRig:
    """One master of the users of L{USERS}, with two minions."""

    def __init__(self, test: SynchronousTestCase, **options: Any) -> None:
        self.worked = 0
        users = test.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write(USERS)
        self.rig = Rig(
            test,
            **{
                "external_auth": {"file": {"^filename": users, **RULES}},
                "netapi_enable_clients": CLIENTS,
                "rest_twisted": {"disable_ssl": True, **options.pop("block", {})},
                **options,
            },
        )
        self.minions = [RigMinion(self.rig, f"api-0000{n}").accepted() for n in range(2)]
        rig = self.rig
        stores: Any = SimpleNamespace(
            config=rig.config,
            reactor=rig.clock,
            now=rig.clock.seconds,
            counters=rig.counters,
            files_threads=AtOnce(),
            warm=SimpleNamespace(call=lambda *args: self.work(*args)),
        )
        api = api_of(stores, rig.ctx, rig.table())
        assert api is not None
        self.api = api
        self.test = test

    def work(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """What a worker process does, and how often one was asked."""
        self.worked += 1
        # As it comes through the socket of a process
        return succeed(unpack_bin(pack_bin(serve(unpack_bin(pack_bin(payload)), None, {}))))

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.rig.clock.pump([0.05] * int(seconds * 20))

    def open(
        self,
        method: str,
        path: str,
        low: Any = None,
        token: str = "",
        address: str = "192.0.2.7",
        body: bytes | None = None,
        **headers: str,
    ) -> Connection:
        """Send a request; C{headers} have C{_} for C{-}."""
        content = body if body is not None else b"" if low is None else json.dumps(low).encode()
        told = {"Host": "api.example:8000", "Accept": "application/json"}
        if content or method == "POST":
            told["Content-Type"] = "application/json"
            told["Content-Length"] = str(len(content))
        if token:
            told["X-Auth-Token"] = token
        told.update({name.replace("_", "-"): text for name, text in headers.items()})
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in told.items() if v)]
        connection = Connection(self, address)
        connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        return connection

    def ask(self, method: str, path: str, low: Any = None, **more: Any) -> Reply:
        """A request, and its answer."""
        connection = self.open(method, path, low, **more)
        if not connection.replies:
            self.wait(3)
        (reply,) = connection.replies
        return reply

    def login(self, user: str = "admin", **more: Any) -> str:
        """A session."""
        low = {"username": user, "password": f"{user}pw", "eauth": "file"}
        reply = self.ask("POST", "/login", low, **more)
        self.test.assertEqual(reply.status, 200, reply.text)
        return str(reply.json["return"][0]["token"])

    def answer(self, value: Any, *numbers: int) -> None:
        """Some minions return this to the newest job."""
        job = self.rig.published_jobs()[-1]
        for number in numbers:
            self.minions[number].ask(
                "_return",
                jid=job["jid"],
                fun=job["fun"],
                retcode=0,
                success=True,
                **{"return": value},
            )
        self.wait(0.1)
