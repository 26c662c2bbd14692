"""
C{python -m tests.bench.firing}: simulated minions that fire events, or answer jobs, at any master.

The minions are those of the load generator (C{--swarm}), which is loaded as a module: the same
program with the same bytes plays them at our master and at a stock one.

C{fire} sends so many events, says on stdout when each was sent, and ends. C{answer} says C{ready},
returns every job at once, writes a line of JSON for each to stdout, and ends with its stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import sys
import time
from typing import Any


def load(path: str) -> Any:
    """The load generator."""
    spec = importlib.util.spec_from_file_location("swarm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def say(value: Any) -> None:
    """A line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def fire(fleet: Any, count: int, tag: str, rate: float) -> None:
    """
    Send events, each minion one after the other.

    @param rate: how many a second; 0 is as many as the master takes.
    """
    await fleet.connect(subscribe=False)
    numbers = iter(range(count))
    sent: dict[int, float] = {}
    began = time.time()

    async def lane(minion: Any) -> None:
        for number in numbers:
            if rate:
                await asyncio.sleep(max(0.0, began + number / rate - time.time()))
            sent[number] = time.time()
            data = {"i": number, "fill": "x" * 100}
            event = {"cmd": "_minion_event", "id": minion.id, "tag": tag, "pretag": None}
            try:
                await minion.request({**event, "data": data})
            except Exception as error:
                fleet.caught(error)

    await asyncio.gather(*(lane(minion) for minion in fleet.minions))
    say({"sent": sent, "seconds": time.time() - began, "errors": dict(fleet.errors)})


async def answer(fleet: Any) -> None:
    """Return jobs until stdin ends."""
    await fleet.connect()
    busy: dict[str, asyncio.Lock] = {}
    tasks: set[Any] = set()

    async def back(minion: Any, job: dict[str, Any]) -> None:
        async with busy.setdefault(minion.id, asyncio.Lock()):
            value = {"args": job["arg"], "kwargs": {}} if job["fun"] == "test.arg" else True
            answer = {
                "cmd": "_return",
                "id": minion.id,
                "jid": job["jid"],
                "fun": job["fun"],
                "fun_args": job["arg"],
                "return": value,
                "retcode": 0,
                "success": True,
                "user": job["user"],
            }
            try:
                await minion.request(answer)
            except Exception as error:
                fleet.caught(error)

    def begun(minion: Any, _: float, job: dict[str, Any]) -> None:
        say({"at": time.time(), "arg": job["arg"]})
        task = asyncio.ensure_future(back(minion, job))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    fleet.on_job = begun
    say("ready")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Play them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.firing", description=__doc__)
    parser.add_argument("what", choices=("fire", "answer"))
    parser.add_argument("--swarm", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--tag", default="bench/event")
    parser.add_argument("--rate", type=float, default=0.0)
    options, rest = parser.parse_known_args()
    swarm = load(options.swarm)
    chosen = swarm.build_parser().parse_args(["events", *rest])

    async def play() -> None:
        fleet = swarm.Fleet(chosen)
        try:
            if options.what == "fire":
                await fire(fleet, options.count, options.tag, options.rate)
            else:
                await answer(fleet)
        finally:
            fleet.close()

    asyncio.run(play())


if __name__ == "__main__":
    main()
