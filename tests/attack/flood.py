"""
A client without manners, as a process of its own: C{python -m tests.attack.flood KIND PORT}.

It sends as fast as the master takes, until its standard input ends, and prints how
much it sent. Kinds: C{junk} (random bytes), C{auth} (sign-ins of a new id each), C{valid}
(good requests of one minion, whose session key comes on the standard input), C{files}
(the same, for a file).
"""

from __future__ import annotations

import os
import random
import select
import sys
import time

import zmq

from saltwisted.wire.crypticle import SessionKey, seal
from saltwisted.wire.envelope import encode_sealed_request
from saltwisted.wire.msgpack import pack
from tests.wire.recorded import key


def frames(kind: str, minion_id: str, session: str) -> list[bytes]:
    """What to send, over and over."""
    dice = random.Random(7)
    if kind == "junk":
        return [dice.randbytes(dice.choice((1, 40, 400, 4000))) for _ in range(500)]
    if kind == "auth":
        pem = key("minion").public.pem
        return [
            pack(
                {
                    "enc": "clear",
                    "version": 3,
                    "load": {"cmd": "_auth", "id": f"f{n}", "pub": pem, "nonce": f"{n:032x}"},
                }
            )
            for n in range(500)
        ]
    tok = key("minion").sign_x931(b"salt")
    opener = SessionKey(session)
    load = (
        {"cmd": "_file_envs"}
        if kind == "valid"
        else {"cmd": "_serve_file", "path": "big", "loc": 0, "saltenv": "base"}
    )
    return [
        encode_sealed_request(
            minion_id,
            seal(
                opener,
                {**load, "id": minion_id, "nonce": f"{n:032x}", "ts": int(time.time()), "tok": tok},
                os.urandom(16),
            ),
        )
        for n in range(500)
    ]


def main() -> None:
    """Flood until told to stop."""
    kind, port = sys.argv[1], sys.argv[2]
    minion_id, _, session = sys.stdin.readline().strip().partition(" ")
    sending = frames(kind, minion_id, session)
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.sndhwm = 1000
        dealer.connect(f"tcp://127.0.0.1:{port}")
        sent = answered = 0
        print("started", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            for frame in sending[:100] if kind == "files" else sending:
                try:
                    dealer.send_multipart([b"", frame], zmq.NOBLOCK)
                    sent += 1
                except zmq.Again:
                    dealer.poll(1)
                    break
            while dealer.poll(0):
                dealer.recv_multipart()
                answered += 1
        print(sent, answered, flush=True)


if __name__ == "__main__":
    main()
