"""
C{python -m tests.bench.httpload}: clients of an HTTP API, ours or stock's: the same program with
the same bytes asks both.

C{ask} sends so many requests by so many clients and says what came back; C{loop} does so until its
stdin ends; C{day} logs in, asks and logs in again until then, with pauses; C{listen} holds so many
streams of C{/events} until then, and says for each how many events of the tag it got.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any

LOGIN = {"username": "admin", "password": "adminpw", "eauth": "file"}


def low(client: str, fun: str, **more: Any) -> list[dict[str, Any]]:
    """One chunk."""
    return [{"client": client, "fun": fun, **more}]


CALLS: dict[str, tuple[str, str, Any]] = {
    "login": ("POST", "/login", LOGIN),
    "bad login": ("POST", "/login", {**LOGIN, "password": "wrong"}),
    "malformed login": ("POST", "/login", {"username": "admin", "eauth": "file"}),
    "local test.ping": ("POST", "/", low("local", "test.ping", tgt="*")),
    "runner test.arg": ("POST", "/", low("runner", "test.arg", arg=["a"])),
    "runner jobs.list_jobs": ("POST", "/", low("runner", "jobs.list_jobs")),
    "wheel key.list_all": ("POST", "/", low("wheel", "key.list_all")),
    "GET /keys": ("GET", "/keys", None),
    "GET /minions": ("GET", "/minions", None),
    "GET /jobs": ("GET", "/jobs", None),
    "GET /jobs?limit=50": ("GET", "/jobs?limit=50", None),
    "POST /hook": ("POST", "/hook/deploy", {"x": 1}),
    "GET /stats": ("GET", "/stats", None),
    "GET /": ("GET", "/", None),
}
DAY = ("login", "local test.ping", "runner test.arg", "local test.ping")
"""What one client of L{day} asks, before the next one comes."""
WRONG = {"bad login": 401, "malformed login": 401}
"""Calls whose good answer is none of 200."""


class Client:
    """One connection, that is kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: Any = None
        self._writer: Any = None

    async def begin(self, method: str, path: str, value: Any, token: str) -> int:
        """Send a request, and read the head of its answer; its length, -1 if none is said."""
        if self._writer is None:
            opened = asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
            self.reader, self._writer = await opened
        body = b"" if value is None else json.dumps(value).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}"]
        lines += ["Accept: application/json", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(body)}"] if method == "POST" else []
        lines += [f"X-Auth-Token: {token}"] if token else []
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        self.status = int((await self.reader.readline()).split()[1])
        size = -1
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, text = line.decode("latin-1").partition(":")
            if name.lower() == "content-length":
                size = int(text)
            elif name.lower() == "transfer-encoding":
                size = -2
        return size

    async def ask(self, method: str, path: str, value: Any = None, token: str = "") -> bytes:
        """A request, and the body of its answer."""
        try:
            size = await self.begin(method, path, value, token)
            if size >= 0:
                return bytes(await self.reader.readexactly(size))
            data = b""
            while size == -2 and (length := int(await self.reader.readline(), 16)):
                data += await self.reader.readexactly(length)
                await self.reader.readline()
            await self.reader.readline()
            return data
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


async def token_of(port: int) -> str:
    """A session."""
    client = Client(port)
    shown = json.loads(await client.ask("POST", "/login", LOGIN))
    client.close()
    return str(shown["return"][0]["token"])


async def ask(port: int, call: str, clients: int, count: int) -> dict[str, Any]:
    """So many requests; C{count} 0: until stdin ends."""
    method, path, value = CALLS[call]
    token = "" if "login" in call else await token_of(port)
    times: list[float] = []
    errors: Counter[str] = Counter()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read) if not count else None
    numbers = iter(range(count or 10**9))

    async def lane() -> None:
        client = Client(port)
        for _ in numbers:
            if ended is not None and ended.done():
                break
            began = time.perf_counter()
            try:
                data = await asyncio.wait_for(client.ask(method, path, value, token), 60)
                times.append(1000 * (time.perf_counter() - began))
                if client.status != WRONG.get(call, 200):
                    errors[str(client.status)] += 1
                elif call.startswith("local") and json.loads(data)["return"] == [{}]:
                    errors["empty"] += 1
            except Exception as error:
                errors[type(error).__name__] += 1
                client.close()
        client.close()

    if ended is not None:
        print("ready", flush=True)
    await asyncio.gather(*(lane() for _ in range(clients)))
    return {"times": times, "errors": errors}


async def day(port: int, clients: int, pause: float) -> dict[str, Any]:
    """Clients that log in, ask a few things and are gone, until stdin ends."""
    done: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def lane() -> None:
        while not ended.done():
            client, token = Client(port), ""
            for call in DAY:
                method, path, value = CALLS[call]
                try:
                    data = await asyncio.wait_for(client.ask(method, path, value, token), 60)
                    done[call] += 1
                    if client.status != 200:
                        errors[f"{call}: {client.status}"] += 1
                    elif call == "login":
                        token = json.loads(data)["return"][0]["token"]
                except Exception as error:
                    errors[f"{call}: {type(error).__name__}"] += 1
                await asyncio.sleep(pause)
            client.close()

    print("ready", flush=True)
    await asyncio.gather(*(lane() for _ in range(clients)))
    return {"done": done, "errors": errors}


async def listen(port: int, listeners: int, tag: str) -> dict[str, Any]:
    """Streams of events, until stdin ends; how many of the tag came to each."""
    token = await token_of(port)
    got = [0] * listeners
    clients = [Client(port) for _ in range(listeners)]
    for client in clients:
        await client.begin("GET", "/events", None, token)
    wanted = f'"{tag}"'.encode()

    async def hear(number: int) -> None:
        while line := await clients[number].reader.readline():
            got[number] += line.startswith(b"data:") and wanted in line

    tasks = [asyncio.ensure_future(hear(number)) for number in range(listeners)]
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps({"got": got}), flush=True)
    for task in tasks:
        task.cancel()
    return {"got": got}


def main() -> None:
    """Play them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.httpload", description=__doc__)
    parser.add_argument("what", choices=("ask", "loop", "day", "listen"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--call", choices=CALLS, default="GET /")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--tag", default="bench/event")
    parser.add_argument("--pause", type=float, default=0.5)
    options = parser.parse_args()
    if options.what == "listen":
        work = listen(options.port, options.clients, options.tag)
    elif options.what == "day":
        work = day(options.port, options.clients, options.pause)
    else:
        count = options.count if options.what == "ask" else 0
        work = ask(options.port, options.call, options.clients, count)
    print(json.dumps(asyncio.run(work)), flush=True)


if __name__ == "__main__":
    main()
