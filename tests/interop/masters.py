"""
Several masters of ours with one identity, as real processes, for the tests of minions that
know them all.

The masters are at 127.0.0.1, .2 and .3 with equal ports, since stock minions tell masters
apart by their addresses' text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from saltwisted.errors import TransportClosed
from tests.harness import OurMaster, reserve_ports, until

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


def silent(master: OurMaster, *ids: str, wait: float = 3) -> set[str]:
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
