"""
Blocking minions over real ZeroMQ sockets, for attacks on a running master.

They speak through C{saltwisted.wire}, have no threads or timers of their own, and are
as well-behaved as the test wants them to be.
"""

from __future__ import annotations

import os
import time
from typing import Any

import zmq

from saltwisted.wire.crypticle import SessionKey, open_sealed, seal
from saltwisted.wire.envelope import encode_sealed_request
from saltwisted.wire.handshake import Accepted, MinionHandshake, NotYet
from saltwisted.wire.msgpack import unpack, unpack_raw
from saltwisted.wire.rsa import PrivateKey, PublicKey
from tests.wire.recorded import key


class Silence(Exception):
    """No answer came in time."""


class Refused(Exception):
    """The master answered C{bad load}, or not sealed."""


class Asker:
    """
    One DEALER on a request port; one frame at a time.

    A request without an answer costs the socket, as with a real minion: a late answer must
    not be taken for that of the next request.
    """

    def __init__(self, context: zmq.Context[Any], port: int, host: str = "127.0.0.1") -> None:
        self._context = context
        self._host, self._port = host, port
        self._socket: Any = None

    def open(self) -> Any:
        """The socket, connected."""
        if self._socket is None:
            self._socket = self._context.socket(zmq.DEALER)
            self._socket.linger = 0
            self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
            self._socket.connect(f"tcp://{self._host}:{self._port}")
        return self._socket

    def ask(self, frame: bytes, seconds: float = 20.0) -> bytes:
        """
        Send a frame and wait for its answer.

        @raises Silence: after so many seconds.
        """
        dealer = self.open()
        dealer.send_multipart([b"", frame])
        if not dealer.poll(seconds * 1000):
            self.close()
            raise Silence
        return bytes(dealer.recv_multipart()[-1])

    def close(self) -> None:
        """Hang up; the next request connects again."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close(0)


class WireMinion:
    """A minion with a key, a session and one request at a time."""

    def __init__(
        self,
        context: zmq.Context[Any],
        port: int,
        minion_id: str,
        private: PrivateKey | None = None,
    ) -> None:
        self.id = minion_id
        self.key = private or key("minion")
        self.asker = Asker(context, port)
        self.known: PublicKey | None = None
        self.session: SessionKey | None = None
        self.publish_key: SessionKey | None = None
        self._handshake = MinionHandshake(
            id=minion_id, key=self.key, token=SessionKey.generate(os.urandom).text
        )
        self._tok = self.key.sign_x931(b"salt")

    def sign_in(self, seconds: float = 20.0) -> Accepted | NotYet:
        """Sign in; remember what was given."""
        nonce = os.urandom(16).hex()
        frame = self._handshake.request(nonce, self.known)
        outcome = self._handshake.read(self.asker.ask(frame, seconds), nonce, self.known)
        if isinstance(outcome, Accepted):
            self.known, self.session = outcome.master_key, outcome.session
            self.publish_key = outcome.publish_key
        return outcome

    def frame(self, load: dict[str, Any], nonce: str) -> bytes:
        """A good sealed request."""
        assert self.session is not None
        full = {"id": self.id, "nonce": nonce, "ts": int(time.time()), "tok": self._tok, **load}
        return encode_sealed_request(self.id, seal(self.session, full, os.urandom(16)))

    def ask(self, cmd: str, seconds: float = 20.0, **fields: Any) -> Any:
        """
        One request; the opened answer.

        @raises Silence: no answer.
        @raises Refused: the master does not know this session (any more).
        """
        nonce = os.urandom(16).hex()
        reply = self.asker.ask(self.frame({"cmd": cmd, **fields}, nonce), seconds)
        blob = unpack_raw(reply)
        if not isinstance(blob, bytes) or len(blob) < 64:
            raise Refused(unpack(reply))
        assert self.session is not None
        return open_sealed(self.session, blob, nonce)


def put_key(pki: str, minion_id: str, private: PrivateKey | None = None) -> None:
    """Put a key among the accepted, before the master starts."""
    folder = os.path.join(pki, "minions")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, minion_id), "w", encoding="ascii") as handle:
        handle.write((private or key("minion")).public.pem + "\n")
