"""
Several masters of ours with one identity, as real processes, for the tests of minions that
know them all.

The masters are at 127.0.0.1, .2 and .3 with equal ports, since stock minions tell masters
apart by their addresses' text.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from saltwisted.errors import TransportClosed
from tests.harness import OurMaster, reserve_ports, until

PROMISE = 10.0
"""Seconds within which the death of a master is noticed and another one found."""
ROUND = 1.0
"""Seconds of a round of asking in which somebody is silent: who comes back in it is seen after."""
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Masters:
    """Masters of one C{cluster_pki_dir}: each keeps its own jobs, everything else is common."""

    def __init__(self, home: str, hosts: tuple[str, ...] = HOSTS, **options: Any) -> None:
        publish, ret = reserve_ports(2)
        self.publish_port, self.ret_port = publish, ret
        self.pki = os.path.join(home, "common")
        self.all = [
            OurMaster(
                home,
                f"m{number}",
                interface=host,
                publish_port=publish,
                ret_port=ret,
                **{
                    "auto_accept": True,
                    "cluster_id": "many",
                    "cluster_pki_dir": self.pki,
                    **options,
                },
            )
            for number, host in enumerate(hosts, 1)
        ]
        for master in self.all:
            master.publish_port, master.ret_port = publish, ret

    def __getitem__(self, number: int) -> OurMaster:
        return self.all[number]

    def up(self) -> Masters:
        """Start them all at the same moment, and wait until they serve."""
        for master in self.all:
            master.start()
        for master in self.all:
            master.serving()
        return self

    def kill(self) -> None:
        """End them all."""
        for master in self.all:
            master.kill()


def answers(master: OurMaster, *ids: str, wait: float = 3) -> bool:
    """Whether all these minions answer a ping of this master."""
    return not silent(master, *ids, wait=wait)


def whom_they_answer(
    masters: Sequence[OurMaster], ids: Sequence[str], wait: float = 1
) -> dict[str, list[OurMaster]]:
    """
    The masters that each minion answers, all asked at once: one after the other, those that are
    asked in vain would take longer than what is measured.
    """
    with ThreadPoolExecutor(len(masters)) as pool:
        found = [pool.submit(silent, master, *ids, wait=wait) for master in masters]
    return {
        minion: [m for m, one in zip(masters, found, strict=True) if minion not in one.result()]
        for minion in ids
    }


def silent(master: OurMaster, *ids: str, wait: float = ROUND) -> set[str]:
    """
    Those of these minions that do not answer a ping of this master.

    By its control socket, which costs less than the command line: what is measured with it is
    the minions' time.
    """
    missing = set(ids)
    client = master.control()
    try:
        for item in client.stream(
            "run", tgt=sorted(ids), tgt_type="list", fun="test.ping", timeout=wait
        ):
            if item.get("kind") == "return" and item["data"].get("return") is True:
                missing.discard(item["id"])
            if not missing:
                break
    except TransportClosed:
        return set(ids)
    finally:
        client.close()
    return missing


def job(master: OurMaster, minion: str, command: str) -> str:
    """Start a command on a minion; its jid."""
    done = master.command("salt", "--async", minion, "cmd.run", command, "--out", "txt")
    return next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)


def begin_jobs(master: OurMaster, home: str, ids: Iterable[str]) -> list[str]:
    """
    A job on each of these minions that has begun and goes on until L{end_jobs}; each writes its
    minion's name to C{mark} at its end, and returns C{done}.
    """
    began, mark, end = (os.path.join(home, name) for name in ("began", "mark", "end"))
    jids = []
    for name in ids:
        wait = f"while [ ! -e {end} ]; do sleep 0.1; done"
        command = f"echo {name} >> {began}; {wait}; echo {name} >> {mark}; echo done"
        jids.append(job(master, name, command))
    until("the jobs to begin", lambda: set(lines(began)) >= set(ids), every=0.02)
    return jids


def end_jobs(home: str) -> None:
    """They may end."""
    with open(os.path.join(home, "end"), "w"):
        pass


def lines(path: str) -> list[str]:
    """What jobs have written."""
    if not os.path.exists(path):
        return []
    with open(path) as handle:
        return handle.read().split()


class Pace(threading.Thread):
    """
    How much longer than alone a process needs on this machine while it is looked at: the time
    that a little work takes, by the time of the processor that it gets.

    Promises in seconds are about machines that have time for them. C{with Pace() as pace: ...};
    C{pace.factor} is 1 on such a machine.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self.factor = 1.0

    def __enter__(self) -> Pace:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Two milliseconds of work, twenty times a second."""
        wall = worked = 0.0
        while not self._over.wait(0.05):
            began, spent = time.monotonic(), time.thread_time()
            while time.thread_time() - spent < 0.002:
                pass
            wall += time.monotonic() - began
            worked += time.thread_time() - spent
            self.factor = max(1.0, wall / worked)


def in_time(what: str, look: Callable[[], Any], more: float = 0.0) -> float:
    """
    Wait for what a blow has interrupted: within the time that it takes without one, which is
    measured right afterwards, and L{PROMISE} seconds. How long it took.

    @param look: waits until it is so.
    @param more: seconds for what was begun together with it, as the start of a process.
    """
    with Pace() as pace:
        began = time.monotonic()
        look()
        took = time.monotonic() - began
        look()
        healthy = time.monotonic() - began - took
    allowed = (healthy + PROMISE + more) * pace.factor
    assert took <= allowed, (
        f"{what} took {took:.1f} s; promised are {healthy:.1f} + {PROMISE + more:.0f} s, which "
        f"makes {allowed:.1f} s on a machine {pace.factor:.2f} times as slow as alone"
    )
    return took


def kept_promise(
    master: OurMaster, ids: list[str], minions: dict[str, Any], more: float = 0.0
) -> float:
    """All of these answer this master L{in_time}; how long it took."""
    what = f"the answers of {', '.join(ids)} to {master.name}"
    try:
        return in_time(what, lambda: all_answer(master, ids, minions, 120), more)
    except AssertionError as error:
        logs = "\n".join(f"-- {name}\n{minions[name].tail(25)}" for name in sorted(minions))
        raise AssertionError(f"{error}\n{logs}") from None


def all_answer(
    master: OurMaster, ids: list[str], minions: dict[str, Any], seconds: float = 60
) -> float:
    """Wait until all answer this master; how long that took. None may have ended."""
    began = time.monotonic()
    missing = set(ids)

    def none_is_silent() -> bool:
        missing.intersection_update(silent(master, *sorted(missing)))
        return not missing

    try:
        until(f"{ids} to answer {master.name}", none_is_silent, seconds)
    except AssertionError as error:
        logs = "\n".join(f"-- {name}\n{minions[name].tail(25)}" for name in sorted(missing))
        raise AssertionError(f"{error}\nnot {sorted(missing)}\n{logs}") from None
    for minion in minions.values():
        assert minion.running, minion.tail()
    return time.monotonic() - began
