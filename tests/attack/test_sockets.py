"""
T-FUZZ-1 over real sockets: junk on every door of a running master, and clients that flood.

After each of them the others are served as before, memory is as before, and each kind
of nonsense was counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from typing import Any

import msgpack
import zmq
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.master.chunks import MOST
from saltwisted.wire.msgpack import pack
from saltwisted.worker.control import ControlClient
from tests.attack.fleet import WireMinion, put_key
from tests.attack.flood import frames
from tests.harness import ROOT, OurMaster, scratch, until

LONG = os.environ.get("SALTWISTED_LONG") == "1"
MIB = 1024 * 1024
NOBODY = 65534
KEPT = 2 * 64 + 2 * MOST
"""
MiB that a master may keep for one client which asks for megabytes: the answers that ZeroMQ holds
for it, and the chunks that are being sealed, as they are read and as they are sent. No load and no
length of time makes it more; how much of it is in use is a matter of luck.
"""
SLACK = 40
"""MiB that memory may be more than before without anything being kept: arenas, caches."""
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01NULL" + b"\0" * 48
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


class _Running(SynchronousTestCase):
    """One running master and one minion that is polite."""

    options: dict[str, Any] = {}

    def setUp(self) -> None:
        """Start; sign in."""
        home = scratch(self)
        os.chmod(home, 0o755)
        self.master = OurMaster(home, log_level="warning", **self.options)
        self.addCleanup(self.master.kill)
        for name in ("polite", "flood"):
            put_key(self.master.pki, name)
        with open(os.path.join(self.master.file_root, "big"), "wb") as handle:
            handle.write(os.urandom(MIB))
        self.master.start()
        until("the master", self.status_or_nothing)
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)
        self.polite = self.minion("polite")

    def status_or_nothing(self) -> dict[str, Any]:
        """The status, once there is one."""
        self.assertTrue(self.master.running, self.master.tail())
        with contextlib.suppress(TransportClosed):
            return self.status()
        return {}

    def minion(self, name: str) -> WireMinion:
        """A minion that has signed in."""
        minion = WireMinion(self.context, self.master.ret_port, name)
        minion.sign_in()
        self.addCleanup(minion.asker.close)
        return minion

    def status(self) -> dict[str, Any]:
        """What the control socket says."""
        with self.master.control() as control:
            found: dict[str, Any] = control.call_within(10, "status")
        return found

    def memory(self) -> float:
        """MiB of the daemon."""
        with open(f"/proc/{self.master.pid}/status") as handle:
            for line in handle:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def descriptors(self) -> int:
        """Open files and sockets of the daemon."""
        return len(os.listdir(f"/proc/{self.master.pid}/fd"))

    def still_serves(self) -> None:
        """Requests, sign-ins, jobs and the control socket do what they did before."""
        self.assertEqual(self.polite.ask("_file_envs"), ["base"])
        self.assertEqual(self.minion("polite").ask("_file_envs"), ["base"])
        with self.context.socket(zmq.SUB) as subscriber:
            subscriber.linger = 0
            subscriber.connect(f"tcp://127.0.0.1:{self.master.publish_port}")
            subscriber.subscribe(b"")

            def published() -> bool:
                with self.master.control() as control:
                    control.call_within(10, "publish", tgt="polite", fun="test.ping", arg=[])
                return bool(subscriber.poll(200))

            until("a publication", published)
        self.assertTrue(self.master.running)
        self.assertNotIn("Traceback", self.master.text())


class Junk(_Running):
    """Nonsense on each door."""

    def test_T_FUZZ_1_frames(self) -> None:
        """Thousands of junk ZMTP messages of every shape: counted, answered or not, forgotten."""
        count = 20_000 if LONG else 3000
        self._junk_frames(count)
        self.still_serves()
        before = self.memory()
        self._junk_frames(count)
        self._junk_frames(count)

        self.still_serves()
        self.assertLess(self.memory() - before, 8)
        counters = self.status()["counters"]
        refused = sum(n for name, n in counters.items() if name.startswith("refused:"))
        self.assertGreater(refused, count)

    def _junk_frames(self, count: int) -> None:
        dice = random.Random(count)
        shapes: list[list[bytes]] = [[b""], [b"", b""], [b"", b"", b""], [b"x"], [b"x"] * 200]
        with self.context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.connect(f"tcp://127.0.0.1:{self.master.ret_port}")
            for number in range(count):
                if number % 3 == 0:
                    parts = dice.choice(shapes)
                elif number % 100 == 1:
                    parts = [b"", dice.randbytes(200_000)]
                elif number % 3 == 1:
                    parts = [b"", dice.randbytes(dice.randrange(1, 300))]
                else:
                    load = {"enc": dice.choice(("aes", "clear", 7)), "load": dice.randbytes(64),
                            "version": 3, "id": dice.choice(("polite", "..", "", 5))}  # fmt: skip
                    parts = [b"", pack(load)]
                dealer.send_multipart(parts)
                while dealer.poll(0):
                    dealer.recv_multipart()
            last = [b"", b"\xc1"]
            dealer.send_multipart(last)
            while dealer.poll(300):
                dealer.recv_multipart()

    def test_T_FUZZ_1_streams(self) -> None:
        """Junk bytes, broken handshakes, half-open connections and port scans on both ports."""
        self._junk_streams()
        self.still_serves()
        until("sockets to be closed", lambda: self.descriptors() < 100)
        memory, descriptors = self.memory(), self.descriptors()
        self._junk_streams()

        self.still_serves()
        until("sockets to be closed", lambda: self.descriptors() <= descriptors + 5)
        self.assertLess(self.memory() - memory, 8)

    def _junk_streams(self) -> None:
        dice = random.Random(3)
        beginnings = [
            b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", GREETING, GREETING[:12],
            GREETING + READY, GREETING + b"\x02\xff" + b"\xff" * 8, GREETING + READY + b"\x02\xff",
            GREETING + READY + b"\x03" + b"\x7f" + b"\xff" * 7, b"\xff" * 64, b"\x01\x00" * 40,
        ]  # fmt: skip
        for port in (self.master.ret_port, self.master.publish_port):
            with contextlib.ExitStack() as stack:
                for number in range(300):
                    sock = stack.enter_context(socket.socket())
                    sock.settimeout(5)
                    try:
                        sock.connect(("127.0.0.1", port))
                        sock.sendall(beginnings[number % len(beginnings)])
                        if number % 2:
                            sock.sendall(dice.randbytes(dice.randrange(1, 5000)))
                    except OSError:
                        continue  # hung up already: as good an answer as any
                    if number % 5 == 0:
                        # as a port scanner does: reset, not closed
                        sock.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
                        sock.close()
                # with all these still open, others come in
                self.still_serves()

    def test_subscriptions(self) -> None:
        """Subscribers with thousands of topics, huge topics or wrong messages disturb nobody."""
        for _ in range(2):
            with self.context.socket(zmq.XSUB) as subscriber:
                subscriber.linger = 0
                subscriber.connect(f"tcp://127.0.0.1:{self.master.publish_port}")
                for number in range(3000):
                    subscriber.send(b"\x01topic%d" % number)
                    subscriber.send(b"\x07nothing")
                subscriber.send(b"\x01" + b"t" * 100_000)
                self.still_serves()
            memory = self.memory()
        self.assertLess(self.memory() - memory, 8)

    def test_control_socket(self) -> None:
        """Junk and oversized prefixes on the control socket end that connection alone, counted."""
        dice = random.Random(4)
        head = struct.Struct(">I")
        good = msgpack.packb({"id": 1, "op": "status", "args": {}})
        with self.master.control() as held:
            held.call_within(5, "status")
            for number in range(600):
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.settimeout(5)
                    sock.connect(self.master.socket_path)
                    junk = [
                        dice.randbytes(dice.randrange(1, 200)),
                        b"\xff\xff\xff\xff",
                        head.pack(300 * MIB) + b"x",
                        head.pack(3) + b"\xc1\xc1\xc1",
                        head.pack(len(good)) + good[:-3],
                        head.pack(1) + b"\x05",
                        head.pack(0),
                        b"",
                    ][number % 8]
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        sock.sendall(junk)
                        if number % 8 in (1, 2, 3, 5, 6):
                            self.assertEqual(sock.recv(100), b"", number % 8)
            for args in (
                {"id": None, "op": "status"},
                {"id": 1, "op": ["status"]},
                {"id": 1},
                [1],
                "status",
            ):
                body = msgpack.packb(args)
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.settimeout(5)
                    sock.connect(self.master.socket_path)
                    sock.sendall(head.pack(len(body)) + body)
                    with contextlib.suppress(ConnectionResetError):
                        self.assertEqual(sock.recv(100), b"")
            # a connection that was there before has seen nothing of it
            counters = held.call_within(5, "status")["counters"]
        self.assertGreaterEqual(counters["ipc_dropped_oversized"], 150)
        self.assertGreaterEqual(counters["ipc_dropped_undecodable"], 150)
        self.still_serves()

    def test_control_socket_strangers(self) -> None:
        """Another user may connect, and is denied what is the owner's, whoever he says he is."""
        if os.geteuid() != 0:
            raise SkipTest("only root can become another user")
        asked: list[tuple[str, dict[str, Any]]] = [
            ("wheel", {"fun": "key.list_all"}),
            ("wheel", {"fun": "key.accept", "arg": ["*"]}),
            ("runner", {"fun": "jobs.list_jobs"}),
            ("events", {"tags": [""]}),
            ("fire_event", {"tag": "salt/auth", "data": {}}),
            ("publish", {"tgt": "*", "fun": "test.ping", "arg": [], "user": "root"}),
            ("run", {"tgt": "*", "fun": "cmd.run", "arg": ["id"], "user": "root"}),
            ("match", {"tgt": "*"}),
        ]
        answers = as_user(NOBODY, lambda: [_denial(self.master.socket_path, *a) for a in asked])
        self.assertEqual(answers, ["AuthorizationError"] * len(asked))
        oversized = as_user(NOBODY, lambda: _oversized(self.master.socket_path))
        self.assertEqual(oversized, "")
        flood = as_user(NOBODY, lambda: _hundreds(self.master.socket_path))
        self.assertLess(flood, 100)
        counters = self.status()["counters"]
        self.assertEqual(counters["denied:control"], len(asked))
        self.assertGreater(counters["ipc_refused_full"], 100)
        self.assertEqual(self.status()["published"], 0)
        self.still_serves()


def _denial(path: str, op: str, args: dict[str, Any]) -> str:
    with ControlClient(path=path) as client:
        try:
            client.call_within(5, op, **args)
        except RemoteError as error:
            return error.name
        return "allowed"


def _oversized(path: str) -> str:
    """A stranger's messages may be a megabyte, not more."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(path)
        sock.sendall(struct.pack(">I", 2 * MIB))
        try:
            return sock.recv(10).hex()
        except ConnectionResetError:
            return ""


def _hundreds(path: str) -> int:
    """How many of 300 connections of one stranger are kept."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(300)]
        kept = 0
        body = msgpack.packb({"id": 1, "op": "nothing", "args": {}})
        for sock in socks:
            sock.settimeout(5)
            sock.connect(path)
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                sock.sendall(struct.pack(">I", len(body)) + body)
                kept += bool(sock.recv(1))
        return kept


def as_user(uid: int, action: Any) -> Any:
    """What an action gives in a child process with other credentials; JSON values."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            answer = json.dumps(action())
        except BaseException as error:
            answer = json.dumps(repr(error))
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as handle:
        answer = handle.read().decode()
    os.waitpid(pid, 0)
    return json.loads(answer)


def _three(sorted_: list[float]) -> str:
    """Median, the 99th of a hundred, and the longest."""
    p50, p99, worst = (1000 * sorted_[int(len(sorted_) * q)] for q in (0.5, 0.99, 0.9999))
    return f"{p50:.1f} ms (median), {p99:.1f} (p99), {worst:.1f} (max)"


class Flood(_Running):
    """
    One client that sends as fast as it can must not delay the others past 100 ms.

    Judged are what the others wait, and what the master itself does between a question and its
    answer: the CPU of the one thread that answers, of which no other process is the cause.
    """

    def _flood(self, kind: str) -> None:
        flood = self.minion("flood")
        assert flood.session is not None
        quiet = self._waits(100)[0]
        memory = self.memory()
        for attempt in (1, 2, 3):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.attack.flood", kind, str(self.master.ret_port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": ROOT},
            )
            assert process.stdin is not None
            assert process.stdout is not None
            self.addCleanup(process.stdout.close)
            try:
                process.stdin.write(f"flood {flood.session.text}\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "started\n")
                self._waits(20)
                began = time.monotonic()
                waits, works = self._waits(300)
                seconds = time.monotonic() - began
            finally:
                out = process.communicate(timeout=30)[0]
            sent, answered = map(int, out.split())
            print(
                f"\n{kind}: others wait {_three(waits)} of which the master worked {_three(works)};"
                f" undisturbed {_three(quiet)};"
                f" {sent} sent, {answered} answered, {seconds:.1f} s measured;"
                f" memory +{self.memory() - memory:.0f} MiB"
            )
            self.assertLess(self.memory() - memory, 150)
            self.assertGreater(sent, 500)
            self.assertLess(works[int(len(works) * 0.99)], 0.1)
            # A machine that is busy with other things makes everybody wait, flood or not, and may
            # spoil one attempt, not three
            p99, usual = waits[99 * len(waits) // 100], quiet[99 * len(quiet) // 100]
            bound = max(0.1, 3 * usual)
            if p99 < bound or attempt == 3:
                self.assertLess(p99, bound)
                break
        self.still_serves()

    def _waits(self, count: int) -> tuple[list[float], list[float]]:
        """Seconds that questions took, and seconds of the master's CPU meanwhile; both sorted."""
        waits, works = [], []
        for _ in range(count):
            began, worked = time.monotonic(), self._worked()
            self.assertEqual(self.polite.ask("_file_envs"), ["base"])
            waits.append(time.monotonic() - began)
            works.append(self._worked() - worked)
            time.sleep(0.003)
        return sorted(waits), sorted(works)

    def _worked(self) -> float:
        """Seconds of CPU that the master's main thread has used."""
        with open(f"/proc/{self.master.pid}/task/{self.master.pid}/schedstat") as handle:
            return int(handle.read().split()[0]) / 1e9

    def test_flood_of_junk(self) -> None:
        """Random bytes, tens of thousands a second."""
        self._flood("junk")

    def test_flood_of_sign_ins(self) -> None:
        """Sign-ins of strangers, each of which costs the master an RSA signature."""
        self._flood("auth")

    def test_flood_of_good_requests(self) -> None:
        """Good requests of a minion with a key."""
        self._flood("valid")

    def test_flood_of_files(self) -> None:
        """A minion that asks for file chunks without end."""
        self._flood("files")

    def test_client_that_does_not_read(self) -> None:
        """A minion that asks for megabytes and reads no answer costs a bounded amount of memory."""
        flood = self.minion("flood")
        assert flood.session is not None
        sending = frames("files", flood.id, flood.session.text)[:200]
        before = self.memory()
        with self.context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.rcvhwm = 1
            dealer.setsockopt(zmq.RCVBUF, 4096)
            dealer.connect(f"tcp://127.0.0.1:{self.master.ret_port}")
            served = -1
            for _ in range(60):
                for frame in sending:
                    with contextlib.suppress(zmq.Again):
                        dealer.send_multipart([b"", frame], zmq.NOBLOCK)
                self._waits(10)
                counted = self.status()["counters"]["_serve_file"]
                if counted == served and counted > 500:
                    break
                served = counted
        growth = self.memory() - before
        print(f"\ndeaf: {served} chunks of 1 MiB not read; memory +{growth:.0f} MiB")
        self.assertGreater(served, 500)
        self.assertLess(growth, KEPT + SLACK)
        self.still_serves()
