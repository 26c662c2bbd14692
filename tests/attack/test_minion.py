"""
Attacks on running minions, ours and a stock one, from whoever can write to their wire.

The minions subscribe to a relay of this test instead of the master: it passes on what
the master publishes, remembers it, and adds what an attacker would.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

import zmq
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire.crypticle import SessionKey, seal
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import decode_publication, open_job
from tests.attack.fleet import WireMinion, put_key
from tests.harness import (
    OurMaster,
    OurMinion,
    StockMinion,
    needs_peers,
    scratch,
    until,
    write_config,
)
from tests.wire.recorded import key


class Relay:
    """Publishes on a port of its own what the master publishes, and what it is told to."""

    def __init__(self, context: zmq.Context[Any], master_port: int) -> None:
        self.seen: list[bytes] = []
        self._subscriber = context.socket(zmq.SUB)
        self._subscriber.connect(f"tcp://127.0.0.1:{master_port}")
        self._subscriber.subscribe(b"")
        self._out = context.socket(zmq.PUB)
        self.port = self._out.bind_to_random_port("tcp://127.0.0.1")
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._subscriber.poll(50):
                payload = self._subscriber.recv_multipart()[-1]
                self.seen.append(payload)
                self.inject(payload)

    def inject(self, payload: bytes) -> None:
        """Publish this."""
        with self._lock:
            self._out.send(payload)

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()
        self._subscriber.close(0)
        self._out.close(0)


class _Attacked(SynchronousTestCase):
    """A master, a relay, and an accepted minion called spy, which knows the publish key."""

    def setUp(self) -> None:
        """Start the master and the relay."""
        self.home = scratch(self)
        self.master = OurMaster(self.home, auto_accept=True)
        put_key(self.master.pki, "spy")
        self.addCleanup(self.master.kill)
        self.master.up()
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)
        self.relay = Relay(self.context, self.master.publish_port)
        self.addCleanup(self.relay.close)
        spy = WireMinion(self.context, self.master.ret_port, "spy")
        spy.sign_in()
        spy.asker.close()
        assert spy.publish_key is not None
        self.publish_key = spy.publish_key
        self.marks = 0

    def minion(self, name: str, **options: Any) -> OurMinion:
        """One of ours, on the relay, answering."""
        minion = OurMinion(
            self.home, self.master, name, **{"publish_port": self.relay.port, **options}
        )
        self.addCleanup(minion.kill)
        minion.up()
        self.master.ping_until(name)
        return minion

    def mark(self) -> str:
        """A file that a job would make."""
        self.marks += 1
        return os.path.join(self.home, f"mark{self.marks}")

    def job(self, command: str, tgt: str = "*", jid: str = "") -> dict[str, Any]:
        """A job as a master writes it."""
        self.marks += 1
        return {
            "jid": jid or f"2099112112000{self.marks:07d}",
            "fun": "cmd.run",
            "arg": [command],
            "tgt": tgt,
            "tgt_type": "glob",
            "ret": "",
            "user": "root",
        }

    def forged(self, mark: str) -> list[bytes]:
        """Everything that somebody without the master's private key can send."""
        touch = f"touch {mark}"
        sealed = seal(self.publish_key, self.job(touch), os.urandom(16))
        other = seal(SessionKey.generate(os.urandom), self.job(touch), os.urandom(16))
        stranger = key("minion2")
        mine = self.relay.seen[-1]
        genuine = decode_publication(mine)
        return [
            pack({"enc": "clear", "load": self.job(touch)}),
            pack({"enc": "clear", "load": pack(self.job(touch))}),
            pack({"enc": "aes", "load": self.job(touch)}),
            pack({"enc": "aes", "load": sealed}),
            pack({"enc": "aes", "load": sealed, "sig": b""}),
            pack({"enc": "aes", "load": sealed, "sig": None}),
            pack({"enc": "aes", "load": sealed, "sig": stranger.sign(sealed)}),
            pack({"enc": "aes", "load": sealed, "sig": key("minion").sign(sealed)}),
            pack({"enc": "aes", "load": sealed, "sig": genuine.signature}),
            pack({"enc": "aes", "load": other}),
            pack({"enc": "aes", "load": other, "sig": stranger.sign(other)}),
            pack({"enc": "pub", "load": sealed}),
            pack(self.job(touch)),
            mine[:-7],
            b"",
            b"\xc1",
            os.urandom(500),
        ]

    def runs(self, minion_id: str, command: str) -> Any:
        """What the minion answers to a job of its real master."""
        return self.master.salt(minion_id, "cmd.run", command)[minion_id]


class Ours(_Attacked):
    """Our minion."""

    def test_T_MIN_1_2(self) -> None:
        """Clear, unsigned and wrongly signed jobs do not run, be they sealed with the right key."""
        minion = self.minion("ours")
        self.runs("ours", "true")
        # the spy does know the key under which jobs are sealed
        open_job(decode_publication(self.relay.seen[-1]), self.publish_key)
        mark = self.mark()

        for payload in self.forged(mark):
            self.relay.inject(payload)

        # publications come in order: when a job after them has run, they were judged
        self.assertEqual(self.runs("ours", "echo alive"), "alive")
        self.assertFalse(os.path.exists(mark))
        self.assertTrue(minion.running)
        self.assertNotIn("Traceback", minion.text())

    def test_T_REPLAY_1(self) -> None:
        """A recorded job runs once: not again, not at another minion, not after a restart."""
        minion, other = self.minion("ours"), self.minion("other")
        mark = self.mark()
        self.runs("ours", f"echo x >> {mark}")
        recorded = self.relay.seen[-1]

        def replay() -> None:
            for payload in [*self.relay.seen, recorded]:
                self.relay.inject(payload)

        replay()
        self.assertEqual(self.runs("ours", "echo alive"), "alive")
        self.assertEqual(self.runs("other", "echo alive"), "alive")
        minion.stop()
        minion.kill()
        minion.up()
        self.master.ping_until("ours")
        replay()
        self.assertEqual(self.runs("ours", "echo alive"), "alive")
        minion.kill()
        minion.up()
        self.master.ping_until("ours")
        replay()
        self.assertEqual(self.runs("ours", "echo alive"), "alive")

        with open(mark) as handle:
            self.assertEqual(handle.read(), "x\n")
        self.assertEqual(len(self._ran(other)), 1)

    def _ran(self, minion: OurMinion) -> list[str]:
        return [line for line in minion.text().splitlines() if "cmd.run with jid" in line]

    def test_T_MIN_3(self) -> None:
        """Another master on the address, with its own key: the minion stays, and comes back."""
        minion = self.minion("ours", publish_port=self.master.publish_port)
        known = os.path.join(minion.root, "etc/salt/pki/minion/minion_master.pub")
        with open(known) as handle:
            before = handle.read()
        self.master.kill()
        evil = OurMaster(self.home, "evil", auto_accept=True)
        self.addCleanup(evil.kill)
        evil.options.update(ret_port=self.master.ret_port, publish_port=self.master.publish_port)
        write_config(os.path.join(evil.conf, "master"), evil.options)
        evil.up()
        minion.wait_for_line("may be intercepting")
        mark = self.mark()
        with contextlib.suppress(AssertionError):
            evil.salt("-t", "2", "ours", "cmd.run", f"touch {mark}")

        self.assertTrue(minion.running)
        self.assertFalse(os.path.exists(mark))
        with open(known) as handle:
            self.assertEqual(handle.read(), before)
        evil.kill()
        self.master.up()
        self.master.ping_until("ours")


@needs_peers
class Stock(_Attacked):
    """A stock minion that is told to insist on signatures."""

    def test_T_MIN_2_stock(self) -> None:
        """A stock minion with C{sign_pub_messages: true} runs nothing that we did not sign."""
        minion = StockMinion(
            self.home, "3008", self.master, sign_pub_messages=True, publish_port=self.relay.port
        )
        self.addCleanup(minion.kill)
        minion.up()
        self.master.ping_until(minion.id)
        self.runs(minion.id, "true")
        mark = self.mark()

        for payload in self.forged(mark):
            self.relay.inject(payload)

        self.assertEqual(
            until("an answer", lambda: self.master.salt(minion.id, "cmd.run", "echo alive")),
            {minion.id: "alive"},
        )
        self.assertFalse(os.path.exists(mark))
