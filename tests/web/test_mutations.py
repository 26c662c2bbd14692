"""
Requests with something wrong somewhere: each has an answer, or a closed connection.
"""

from __future__ import annotations

import os
import random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.web.calls import CALLS, Request
from tests.web.rig import ApiRig, Connection

LONG = os.environ.get("SALTWISTED_LONG") == "1"
COUNT = 1_000_000 if LONG else 1500
PIECES = (
    b"\r\n", b"\0", b"%00", b"%2e%2e/", b"{", b"]", b'"', b"*", b"&", b": ", b"\xff\xfe",
    b"9" * 400, b"[" * 300, b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"GET / ",
    b"!!python/x",
    b"token", b"null", b"-1", b"1e999", b"HTTP/9.9", b"?limit=", b"X-Auth-Token: ", b"\r\n\r\n",
)  # fmt: skip


class MutationTests(SynchronousTestCase):
    """T-FUZZ-1: the recorded calls, broken by dice whose seed is in the test."""

    def setUp(self) -> None:
        self.api = ApiRig(self)
        self.token = self.api.login()

    def whole(self, call: Request) -> bytes:
        """A call as bytes."""
        content = call.content()
        lines = [f"{call.method} {call.path} HTTP/1.1", "Host: x", f"Content-Type: {call.kind}"]
        lines += [f"Accept: {call.accept}", f"Content-Length: {len(content)}"]
        lines += [f"X-Auth-Token: {self.token}"] if call.token else []
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    def broken(self, dice: random.Random, data: bytes) -> bytes:
        """Something of it is lost, doubled, changed or put in."""
        found = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(found) + 1)
            what = dice.randrange(4)
            if what == 0:
                found[at:at] = dice.choice(PIECES)
            elif what == 1:
                del found[at : at + dice.randint(1, 20)]
            elif what == 2 and at < len(found):
                found[at] = dice.randrange(256)
            else:
                found[at:at] = found[at : at + dice.randint(1, 60)]
        return bytes(found)

    def test_T_FUZZ_1_requests(self) -> None:
        """T-FUZZ-1: none escapes: no failure is logged, none is answered 500, nothing is left."""

        def connections() -> int:
            return len(self.api.api.factory._open)

        dice = random.Random(19)
        data = [self.whole(call) for call in CALLS if call.name != "logout"]
        answered = 0
        before = connections()
        for number in range(COUNT):
            sent = self.broken(dice, dice.choice(data))
            connection: Any = Connection(self.api)
            middle = dice.randrange(len(sent) + 1)
            connection.send(sent[:middle])
            connection.send(sent[middle:])
            head = connection.transport.value()[:13]
            answered += bool(head)
            self.assertFalse(head.startswith(b"HTTP/1.1 500"), (number, sent))
            self.assertTrue(not head or head.startswith(b"HTTP/1."), (number, sent))
            connection.protocol.connectionLost()
        self.assertGreater(answered, COUNT // 2)
        self.assertEqual(self.api.rig.counters["api:failed"], 0)
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(connections(), before)
        self.assertEqual(self.api.ask("GET", "/").json["return"], "Welcome")
