"""
C{python -m tests.bench.doorsload}: who comes to the doors of a master, each a process of its own.

C{others} are ordinary clients, half of them accepted minions by ZeroMQ and half clients of the HTTP
API. C{ping} asks 4506 each five milliseconds, whether or not the answers come, as the master's
transport is: so it hears the longest silence. C{attack} plays one fault. Each writes C{ready}, and
goes on when it reads a line; C{others} and C{ping} write at the end of their stdin what they have
seen; C{attack} writes C{sent} with what it was told, and keeps its connections until then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import zmq
import zmq.asyncio

from saltwisted.wire.frames import FrameReader, wrap_frame
from saltwisted.wire.msgpack import pack, unpack
from tests.attack.fleet import WireMinion
from tests.bench.httpload import LOGIN, Client
from tests.doors.shapes import alike_times, array, crowded, mapping

MIB = 1024 * 1024
EACH = 0.25
"""Seconds from one request of an ordinary client to its next."""
PING = 0.005
LOST = 60.0
"""Seconds after which nobody waits any more."""
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01NULL" + b"\0" * 48
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
STRANGER = ("127.0.0.9", 0)
"""Where attackers come from: no minion has ever spoken from there."""
UNFINISHED = 20 * MIB


class Ended:
    """Whether stdin has ended."""

    def __init__(self) -> None:
        self.now = False
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        sys.stdin.read()
        self.now = True


def begin() -> Ended:
    """Say that all is prepared, and wait for the word."""
    print("ready", flush=True)
    sys.stdin.readline()
    return Ended()


# -- those who are to be served


async def _minion(
    context: Any, port: int, minion: WireMinion, ended: Ended, seen: list[Any]
) -> None:
    """Asks now and then, and waits for each answer."""
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.connect(f"tcp://127.0.0.1:{port}")
    number = 0
    while not ended.now:
        number += 1
        began = time.monotonic()
        await dealer.send_multipart([b"", minion.frame({"cmd": "_file_envs"}, f"{number:032x}")])
        try:
            answer = await asyncio.wait_for(dealer.recv_multipart(), LOST)
            taken = time.monotonic() - began if len(answer[-1]) > 64 else -1.0
        except TimeoutError:
            taken = -1.0
            dealer.close(0)
            dealer = context.socket(zmq.DEALER)
            dealer.linger = 0
            dealer.connect(f"tcp://127.0.0.1:{port}")
        seen.append(("minion", began, taken))
        await asyncio.sleep(max(0.0, EACH - (time.monotonic() - began)))
    dealer.close(0)


async def _client(port: int, ended: Ended, seen: list[Any]) -> None:
    client = Client(port)
    while not ended.now:
        began = time.monotonic()
        try:
            await asyncio.wait_for(client.ask("GET", "/"), LOST)
            taken = time.monotonic() - began if client.status == 200 else -1.0
        except Exception:
            taken = -1.0
            client.close()
        seen.append(("http", began, taken))
        await asyncio.sleep(max(0.0, EACH - (time.monotonic() - began)))
    client.close()


async def _others(options: argparse.Namespace) -> None:
    seen: list[Any] = []
    minions = []
    if options.transport == "zeromq":
        with zmq.Context() as context:
            for n in range(options.count // 2):
                minions.append(WireMinion(context, options.port, f"other{n}"))
                minions[-1].sign_in(60)
                minions[-1].asker.close()
    ended = begin()
    context = zmq.asyncio.Context()
    lanes = [_minion(context, options.port, one, ended, seen) for one in minions]
    lanes += [_client(options.http, ended, seen) for _ in range(options.count - len(minions))]

    async def soon(number: int, lane: Any) -> None:
        await asyncio.sleep(EACH * number / len(lanes))
        await lane

    await asyncio.gather(*(soon(n, lane) for n, lane in enumerate(lanes)))
    context.destroy(0)
    print(json.dumps(seen), flush=True)


def others(options: argparse.Namespace) -> None:
    """Ordinary clients: C{[kind, when it asked, seconds]} of each request, -1 if it failed."""
    asyncio.run(_others(options))


class Pinger:
    """Asks 4506, and gives the numbers that come back."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.waiting: dict[int, float] = {}
        self._context = zmq.Context()
        self._tcp = options.transport == "tcp"
        if self._tcp:
            self._stream: Any = socket.create_connection(("127.0.0.1", options.port))
            self._stream.setblocking(False)
            self._reader = FrameReader()
        else:
            self._stream = self._context.socket(zmq.DEALER)
            self._stream.linger = self._stream.sndhwm = self._stream.rcvhwm = 0
            self._stream.connect(f"tcp://127.0.0.1:{options.port}")
        self._poller = zmq.Poller()
        self._poller.register(self._stream, zmq.POLLIN)

    def ask(self, number: int) -> None:
        """The master gives back what it is given."""
        self.waiting[number] = time.monotonic()
        load = {"cmd": "ping", "number": number}
        frame = pack({"enc": "clear", "version": 3, "load": load})
        if self._tcp:
            self._stream.send(wrap_frame(frame, {"mid": str(number)}))
        else:
            self._stream.send_multipart([b"", frame])

    def hear(self, seconds: float) -> Iterator[tuple[float, float]]:
        """When what was answered had been asked, and how long it took."""
        if not self._poller.poll(1000 * max(0.0, seconds)):
            return
        for number in list(self._numbers()):
            asked = self.waiting.pop(number, None)
            if asked is not None:
                yield asked, time.monotonic() - asked

    def _numbers(self) -> Iterator[int]:
        if self._tcp:
            for frame in self._reader.feed(self._stream.recv(65536)):
                yield int(frame.head["mid"])
            return
        with contextlib.suppress(zmq.Again):
            while True:
                yield int(unpack(self._stream.recv_multipart(zmq.NOBLOCK)[-1])["number"])

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._context.destroy(0)


def ping(options: argparse.Namespace) -> None:
    """C{[when it asked, seconds]} of each question that was answered, and how many were not."""
    seen: list[Any] = []
    pinger = Pinger(options)
    ended = begin()
    number, due = 0, time.monotonic()
    while not ended.now:
        now = time.monotonic()
        if now >= due:
            due = now + PING
            number += 1
            pinger.ask(number)
        seen.extend(pinger.hear(due - time.monotonic()))
    stop = time.monotonic() + 5
    while pinger.waiting and time.monotonic() < stop:
        seen.extend(pinger.hear(0.01))
    print(json.dumps({"seen": seen, "lost": len(pinger.waiting)}), flush=True)
    pinger.close()


# -- those who harm

Attack = Callable[[argparse.Namespace], Iterator[Any]]
"""Prepares, yields once, attacks, and yields what it was told; its connections last until then."""


def _sends(frame: bytes, options: argparse.Namespace) -> Iterator[Any]:
    """One frame to 4506, and how long its answer is."""
    if options.transport == "tcp":
        stream = socket.create_connection(("127.0.0.1", options.port), source_address=STRANGER)
        # The head as it is, and the body without a copy that is decoded
        whole = b"\x82\xa4head\x81\xa3mid\xa11\xa4body" + frame
        yield
        with contextlib.suppress(OSError):
            stream.sendall(whole)
            stream.settimeout(LOST)
            yield f"an answer of {len(stream.recv(65536))}"
            return
        yield "cut off"
        return
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(f"tcp://127.0.0.1:{options.port}")
        yield
        dealer.send_multipart([b"", frame])
        answered = dealer.poll(1000 * options.patience)
        yield f"an answer of {len(dealer.recv_multipart()[-1])}" if answered else "no answer"


def _clear(load: bytes) -> bytes:
    """An envelope, around what is msgpack already."""
    return b"\x83\xa3enc\xa5clear\xa7version\x03\xa4load" + load


def empty_maps(options: argparse.Namespace) -> Iterator[Any]:
    """A: 8 MiB of empty maps in a clear envelope."""
    yield from _sends(_clear(array([b"\x80"] * (8 * MIB))), options)


def bare_array(options: argparse.Namespace) -> Iterator[Any]:
    """A: the same without an envelope."""
    yield from _sends(array([b"\x80"] * (8 * MIB)), options)


def unfinished(options: argparse.Namespace) -> Iterator[Any]:
    """B: 20 strangers announce a frame of 20 MiB each, and send all but one byte of it."""
    part = b"x" * MIB
    yield
    held, cut = [], 0
    for _ in range(20):
        stream = socket.create_connection(("127.0.0.1", options.port), source_address=STRANGER)
        held.append(stream)
        try:
            stream.sendall(GREETING)
            read = 0
            while read < 64:
                read += len(stream.recv(4096))
            # An empty frame with another one behind it, as each request has, then the long one
            stream.sendall(READY + b"\x01\x00\x02" + struct.pack(">Q", UNFINISHED + 1))
            for _ in range(UNFINISHED // MIB):
                stream.sendall(part)
        except OSError:
            cut += 1
    yield f"{cut} of 20 cut off meanwhile", held


def integers(options: argparse.Namespace) -> Iterator[Any]:
    """C: a clear map of 87 000 integers that follow one chain, 522 KB."""
    keys = [b"\xce" + value.to_bytes(4, "big") for value in crowded(87_000)]
    yield from _sends(_clear(mapping(keys)), options)


def equal_times(options: argparse.Namespace) -> Iterator[Any]:
    """C: a map of 24 000 times of equal hashes at the control socket, 384 KB."""
    frame = b"\x83\xa2id\x01\xa2op\xa6status\xa4args" + mapping(list(alike_times(24_000)))
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(options.socket)
    yield
    with contextlib.suppress(OSError):
        stream.sendall(struct.pack(">I", len(frame)) + frame)
        stream.settimeout(LOST)
        yield f"an answer of {len(stream.recv(65536))}"
        return
    yield "cut off"


def _http(options: argparse.Namespace, requests: list[bytes], each: int = 1) -> Iterator[Any]:
    """
    Each on a connection of its own, all at once; everything is read.

    @param each: how many answers each is to have.
    """
    yield
    open_ = {}
    for data in requests:
        stream = socket.create_connection(("127.0.0.1", options.http), source_address=STRANGER)
        stream.setblocking(False)
        open_[stream] = data
    statuses: Counter[str] = Counter()
    end = time.monotonic() + options.patience
    last = time.monotonic()
    wanted = each * len(requests)
    while open_ and sum(statuses.values()) < wanted and time.monotonic() < min(end, last + 40):
        reading, writing, _ = select.select(open_, [s for s, data in open_.items() if data], [], 1)
        for stream in writing:
            with contextlib.suppress(BlockingIOError):
                try:
                    open_[stream] = open_[stream][stream.send(open_[stream]) :]
                except OSError:
                    open_[stream] = b""
        for stream in reading:
            last = time.monotonic()
            try:
                data = stream.recv(1 << 18)
            except OSError:
                data = b""
            for part in data.split(b"HTTP/1.1 ")[1:]:
                statuses[part[:3].decode("latin-1")] += 1
            if not data:
                del open_[stream]
                stream.close()
    yield dict(statuses), open_


def pipelined(options: argparse.Namespace) -> Iterator[Any]:
    """D: 20 connections, each with 64 KiB of requests in a row."""
    one = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    count = 65536 // len(one)
    yield from _http(options, [one * count] * 20, count)


def long_paths(options: argparse.Namespace) -> Iterator[Any]:
    """E: sixty paths of 16 kB, all slashes and letters."""
    one = b"GET " + b"/a" * 8000 + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    yield from _http(options, [one] * 60)


def cookies(options: argparse.Namespace) -> Iterator[Any]:
    """E: sixty requests whose cookies C{http.cookies} takes long for."""
    value = b'Cookie: session_id="' + b"\\" * 8000 + b'"'
    one = b"GET /jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + value + b"\r\n\r\n"
    yield from _http(options, [one] * 60)


def many_events(options: argparse.Namespace) -> Iterator[Any]:
    """G: an accepted minion fires 2.1 MB of events in one request; they have reactions, or none."""
    with zmq.Context() as context:
        minion = WireMinion(context, options.port, "flood")
        minion.sign_in(60)
        events = [{"tag": "a/b", "data": {}}] * (2_100_000 // 15)
        frame = minion.frame({"cmd": "_minion_event", "events": events}, "7" * 32)
        yield
        dealer = minion.asker.open()
        dealer.send_multipart([b"", frame])
        answered = dealer.poll(1000 * options.patience)
        yield f"an answer of {len(dealer.recv_multipart()[-1])}" if answered else "no answer"
        minion.asker.close()


def half_bodies(options: argparse.Namespace) -> Iterator[Any]:
    """I: 1500 connections send 700 of the 1000 KB of a login that they announce."""
    head = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    data = head + b"Content-Length: 1000000\r\n\r\n" + b"x" * 700_000
    yield
    open_ = {}
    refused = 0
    for _ in range(1500):
        stream = socket.socket()
        stream.settimeout(10)
        try:
            stream.connect(("127.0.0.1", options.http))
        except OSError:
            refused += 1
            continue
        stream.setblocking(False)
        open_[stream] = data
    poll = select.poll()
    by_number = {stream.fileno(): stream for stream in open_}
    for number in by_number:
        poll.register(number, select.POLLOUT)
    last, cut = time.monotonic(), 0
    while by_number and time.monotonic() - last < 3:
        for number, _ in poll.poll(1000):
            stream = by_number[number]
            try:
                count = stream.send(open_[stream][:65536])
                open_[stream] = open_[stream][count:]
                last = time.monotonic()
            except BlockingIOError:
                continue
            except OSError:
                cut += 1
                open_[stream] = b""
            if not open_[stream]:
                poll.unregister(number)
                del by_number[number]
    yield f"{refused} refused, {cut} cut off, {len(by_number)} not read to the end", open_


def deaf(options: argparse.Namespace) -> Iterator[Any]:
    """J: 200 clients ask for a file of 5 MB, and read nothing."""
    yield
    held = []
    for _ in range(200):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", options.http))
        stream.sendall(b"GET /static/big HTTP/1.1\r\nHost: a\r\n\r\n")
        held.append(stream)
    yield f"{len(held)} asked", held


def endless_batch(options: argparse.Namespace) -> Iterator[Any]:
    """L: batches and subsets that are no numbers, of a user."""
    said: Counter[str] = Counter()

    async def ask() -> None:
        client = Client(options.http)
        shown = json.loads(await client.ask("POST", "/login", LOGIN))
        token = str(shown["return"][0]["token"])
        chunk = {"client": "local", "tgt": "*", "fun": "test.ping"}
        for more in ({"batch": "inf%"}, {"batch": float("inf")}, {"subset": float("inf")}):
            body = json.dumps([{**chunk, **more, "client": "local_" + next(iter(more))}])
            body = body.replace("Infinity", "1e400")
            lines = ["POST / HTTP/1.1", "Host: a", "Content-Type: application/json"]
            lines += [f"X-Auth-Token: {token}", f"Content-Length: {len(body)}", "Connection: close"]
            reader, writer = await asyncio.open_connection("127.0.0.1", options.http)
            writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
            answer = await asyncio.wait_for(reader.read(), LOST)
            said[answer.split()[1].decode()] += 1
            writer.close()

    yield
    asyncio.run(ask())
    yield dict(said)


ATTACKS: dict[str, Attack] = {
    "A": empty_maps,
    "A-bare": bare_array,
    "A-tcp": empty_maps,
    "B": unfinished,
    "C": integers,
    "C-control": equal_times,
    "D": pipelined,
    "E": long_paths,
    "E-cookies": cookies,
    "G": many_events,
    "G-reacting": many_events,
    "I": half_bodies,
    "J": deaf,
    "L": endless_batch,
}


def attack(options: argparse.Namespace) -> None:
    """One of them, until stdin ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    playing = ATTACKS[options.name](options)
    next(playing)
    ended = begin()
    found = next(playing)
    said = found[0] if isinstance(found, tuple) else found
    print(json.dumps({"sent": said}), flush=True)
    while not ended.now:
        time.sleep(0.05)


def main() -> None:
    """Play one part."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.doorsload", description=__doc__)
    parser.add_argument("what", choices=("others", "ping", "attack"))
    parser.add_argument("--name", default="A", choices=ATTACKS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--http", type=int, default=0)
    parser.add_argument("--socket", default="")
    parser.add_argument("--transport", default="zeromq", choices=("zeromq", "tcp"))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--patience", type=float, default=LOST)
    options = parser.parse_args()
    {"others": others, "ping": ping, "attack": attack}[options.what](options)


if __name__ == "__main__":
    main()
