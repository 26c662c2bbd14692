"""
The blocking client of a control socket, against prepared answers.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from typing import Any

import msgpack
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient


def framed(message: Any) -> bytes:
    """One message as the daemon sends it."""
    body = msgpack.packb(message, use_bin_type=True)
    return struct.pack(">I", len(body)) + body


class ControlClientTests(SynchronousTestCase):
    """One client and the other end of its socket."""

    def setUp(self) -> None:
        """Connect them."""
        self.daemon, sock = socket.socketpair()
        self.addCleanup(self.daemon.close)
        self.client = ControlClient(sock=sock)
        self.addCleanup(self.client.close)

    def said(self) -> list[dict[str, Any]]:
        """All that the client has sent so far."""
        self.daemon.setblocking(False)
        data = b""
        try:
            while chunk := self.daemon.recv(65536):
                data += chunk
        except BlockingIOError:
            pass
        messages = []
        while data:
            (size,) = struct.unpack(">I", data[:4])
            messages.append(msgpack.unpackb(data[4 : 4 + size]))
            data = data[4 + size :]
        return messages

    def test_call(self) -> None:
        """A call sends its operation and arguments and gives back the answer, bytes as bytes."""
        self.daemon.sendall(framed({"id": 1, "ok": {"text": "é", "raw": b"\xff"}}))

        answer = self.client.call("status", deep=True)

        self.assertEqual(answer, {"text": "é", "raw": b"\xff"})
        self.assertEqual(self.said(), [{"id": 1, "op": "status", "args": {"deep": True}}])

    def test_T_TEXT_1_worker(self) -> None:
        """T-TEXT-1: a worker's answer arrives, with a backslash for each half of a character."""
        for number, bad in enumerate(("\ud800", "a\udcff", "\U0001f9c2"), 1):
            self.daemon.sendall(framed({"id": number, "ok": None}))
            self.client.call("work", value={"a": [bad], bad: 1})
            (said,) = self.said()
            told = bad.encode("utf-8", "backslashreplace").decode()
            self.assertEqual(said["args"], {"value": {"a": [told], told: 1}})

    def test_T_TEXT_1_command(self) -> None:
        """T-TEXT-1: a command refuses what was typed and is no text, before it asks anybody."""
        client = ControlClient(path="/nonexistent/saltwisted.sock")
        for args in ({"tgt": "\udcff"}, {"arg": [{"\ud800": 1}]}):
            error = self.assertRaises(RemoteError, client.call, "run", **args)
            self.assertEqual(error.name, "SaltInvocationError")
            self.assertIn("half a character", error.message)

    def test_error(self) -> None:
        """An error answer is raised with its name, message and details."""
        error = {"name": "AuthorizationError", "message": "no", "details": [1]}
        self.daemon.sendall(framed({"id": 1, "error": error}))

        raised = self.assertRaises(RemoteError, self.client.call, "publish")

        self.assertEqual(
            (raised.name, raised.message, raised.details), ("AuthorizationError", "no", [1])
        )

    def test_stream(self) -> None:
        """A stream yields items in order and returns the final answer."""
        for message in ({"id": 1, "item": 1}, {"id": 1, "item": None}, {"id": 1, "ok": "end"}):
            self.daemon.sendall(framed(message))

        items = []
        flow = self.client.stream("run")
        while True:
            try:
                items.append(next(flow))
            except StopIteration as done:
                final = done.value
                break

        self.assertEqual((items, final), ([1, None], "end"))

    def test_interleaved(self) -> None:
        """A call in the middle of a stream gets its own answer, and the stream loses nothing."""
        for message in (
            {"id": 1, "item": "a"},
            {"id": 1, "item": "b"},
            {"id": 2, "ok": "second"},
            {"id": 1, "ok": None},
        ):
            self.daemon.sendall(framed(message))

        flow = self.client.stream("events")
        first = next(flow)
        second = self.client.call("status")

        self.assertEqual((first, second, list(flow)), ("a", "second", ["b"]))

    def test_closed_stream_is_cancelled(self) -> None:
        """Who stops reading a stream cancels it, and its late items disturb nobody."""
        self.daemon.sendall(framed({"id": 1, "item": 1}))
        flow = self.client.stream("events")
        next(flow)

        flow.close()
        self.daemon.sendall(framed({"id": 1, "item": 2}) + framed({"id": 2, "ok": 3}))

        self.assertEqual(self.client.call("status"), 3)
        self.assertIn({"id": 1, "op": "cancel"}, self.said())

    def test_timeout(self) -> None:
        """Silence beyond the limit is a timeout, and the question is withdrawn."""
        self.assertRaises(TimeoutError, self.client.call_within, 0.01, "request")

        self.assertEqual([each["op"] for each in self.said()], ["request", "cancel"])

    def test_pipeline(self) -> None:
        """A pipeline keeps its window full and cancels what is not wanted any more."""
        for number in (2, 1, 3):
            self.daemon.sendall(framed({"id": number, "ok": number * 10}))

        flow = self.client.pipeline("request", ({"n": n} for n in range(100)), 2)
        answers = [next(flow), next(flow)]
        flow.close()

        self.assertEqual(answers, [10, 20])
        said = self.said()
        self.assertEqual([each["args"]["n"] for each in said if "args" in each], [0, 1, 2])
        self.assertEqual([each["id"] for each in said if each["op"] == "cancel"], [3])

    def test_notify(self) -> None:
        """A notification does not wait, and its answer is not taken for another's."""
        self.client.notify("log", message="hello")
        self.daemon.sendall(framed({"id": 1, "ok": None}) + framed({"id": 2, "ok": "mine"}))

        self.assertEqual(self.client.call("status"), "mine")

    def test_notify_reads(self) -> None:
        """Who only notifies keeps reading, and loses no answer to a question that is open."""
        self.daemon.sendall(framed({"id": 1, "item": "a"}))
        flow = self.client.stream("events")
        next(flow)
        for number in range(2, 52):
            self.client.notify("log")
            self.daemon.sendall(framed({"id": number, "ok": None}))
        self.daemon.sendall(framed({"id": 1, "item": "b"}) + framed({"id": 1, "ok": None}))
        self.client.notify("log")

        self.assertEqual(list(flow), ["b"])
        self.assertFalse(self.client._readable(self.client._connected()))

    def test_daemon_gone(self) -> None:
        """A daemon that hangs up is said so, in a call and afterwards."""
        self.daemon.close()

        self.assertRaises(TransportClosed, self.client.call, "status")
        self.assertRaises(TransportClosed, self.client.call, "status")

    def test_nonsense(self) -> None:
        """A peer that speaks something else is hung up on, without a huge allocation."""
        self.daemon.sendall(b"HTTP/1.1 200 OK\r\n")

        self.assertRaises(TransportClosed, self.client.call, "status")

    def test_no_daemon(self) -> None:
        """A path where nobody listens is named in the error."""
        path = os.path.join(tempfile.mkdtemp(dir="/tmp"), "s.sock")
        self.addCleanup(os.rmdir, os.path.dirname(path))
        client = ControlClient(path)

        error = self.assertRaises(TransportClosed, client.call, "status")

        self.assertIn(path, str(error))

    def test_reconnects(self) -> None:
        """A client with a path connects again after the connection was lost."""
        folder = tempfile.mkdtemp(dir="/tmp")
        path = os.path.join(folder, "s.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(2)
        self.addCleanup(os.rmdir, folder)
        self.addCleanup(os.unlink, path)
        self.addCleanup(listener.close)
        client = ControlClient(path)
        self.addCleanup(client.close)
        client.fileno()
        listener.accept()[0].close()

        self.assertRaises(TransportClosed, client.call, "status")
        client.notify("log")
        accepted = listener.accept()[0]
        self.addCleanup(accepted.close)
        accepted.sendall(framed({"id": 3, "ok": "again"}))

        self.assertEqual(client.call("status"), "again")
