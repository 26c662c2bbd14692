"""
C{python -m tests.nemesis}: one run; one line with the verdict, and the history in a file.

Leaves with 0 when nothing that was promised is broken. Needs root, C{iproute2}, C{iptables},
C{gcc}, and loop devices.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter

from saltwisted.wire.handshake import Accepted
from tests.bench.fleets import Fleet
from tests.harness import until
from tests.nemesis import seen
from tests.nemesis.checker import judge
from tests.nemesis.clients import (
    ERRORS,
    WAIT,
    Client,
    Crowd,
    Jobs,
    Keys,
    Mine,
    Readers,
    Roots,
    Stage,
    Tokens,
)
from tests.nemesis.faults import Nemesis, Stuck
from tests.nemesis.history import History, read
from tests.nemesis.world import World

EYE = "weye"
CROWD = 4
"""Minions that run jobs."""
LATE = 60.0
"""Seconds for the nodes to be alike once all is healed."""


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="python -m tests.nemesis", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0: any")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0, help="of blows")
    parser.add_argument("--all", action="store_true", help="blows until each kind has come")
    parser.add_argument("--only", default="", help="blows, with commas between them")
    parser.add_argument("--history", default="", help="where to (default: ./nemesis-SEED.jsonl)")
    parser.add_argument("--keep", action="store_true", help="logs and disks, too")
    parser.add_argument("--judge", default="", metavar="FILE", help="judge an old history anew")
    chosen = parser.parse_args()
    if chosen.judge:
        return verdict(judge(read(chosen.judge)), chosen.judge)
    seed = chosen.seed or random.SystemRandom().randrange(1, 10**6)
    path = os.path.abspath(chosen.history or f"nemesis-{seed}-{chosen.nodes}.jsonl")
    only = tuple(filter(None, chosen.only.split(",")))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    world = World(chosen.nodes)
    bad = True
    try:
        history = play(world, path, seed, chosen.seconds, only, chosen.all)
        found = judge(history.records)
        if not any(record["kind"] == "fault" for record in history.records):
            found.append("empty: there was no blow, the seconds were over before")
        bad = bool(found)
        return verdict(found, summary(history, seed, chosen.nodes))
    finally:
        if bad or chosen.keep:
            keep_logs(world, path)
        world.remove(keep=chosen.keep)


def play(
    world: World,
    path: str,
    seed: int,
    seconds: float,
    only: tuple[str, ...],
    all_kinds: bool = False,
) -> History:
    """The run: found, strike while clients work, heal, look."""
    history = History(path)
    world.enter()
    world.found()
    history.add("run", seed=seed, nodes=[node.name for node in world.nodes], home=world.home)
    stage = Stage(world, history, seed)
    journal = os.path.join(world.home, "journal")
    fleet = crowd(world, journal)
    fleet.start()
    try:
        jobs = Crowd(stage, "f1", fleet, journal)
        blows(stage, [*cast(stage, fleet.ids), jobs], seconds, only, all_kinds)
        look(stage, jobs)
    finally:
        fleet.stop()
    history.close()
    stage.context.destroy(0)
    return history


def blows(
    stage: Stage,
    clients: list[Client],
    seconds: float,
    only: tuple[str, ...],
    all_kinds: bool,
) -> None:
    """The part of it in which something happens."""
    world, history, seed = stage.world, stage.history, stage.seed
    nemesis = Nemesis(world, history, seed, only)
    if why := nemesis.in_step():
        raise AssertionError(f"the cluster does not come up: {why}")
    for client in clients:
        client.start()
    try:
        nemesis.run(seconds, all_kinds)
    except Stuck as stuck:
        history.add("bad", text=f"stuck: {stuck}")
    finally:
        stage.over.set()
        for client in clients:
            client.join(120)
    history.add("note", text="all is healed")
    if why := nemesis.in_step():
        history.add("bad", text=f"not in step at the end: {why}")
    for failure in stage.failures:
        history.add("bad", text=f"the test itself failed: {failure}")


def crowd(world: World, journal: str) -> Fleet:
    """Minions that listen to all nodes."""
    first = world.nodes[0]
    wired = {
        "master": [node.address for node in world.nodes],
        "master_port": first.ret_port,
        "publish_port": first.publish_port,
        "acceptance_wait_time": 1,
    }
    return Fleet(world.home, CROWD, wired, journal=journal)


def cast(stage: Stage, others: list[str]) -> list[Client]:
    """The clients, whose minions are accepted, as are some others."""
    names = ["w1", "w2", "w3", "w4", "wmine", "wread", EYE]
    first = stage.world.nodes[0]
    for name in names:
        stage.minion(first, name).sign_in(WAIT)
    folder = os.path.join(first.pki, "minions_pre")
    until("all to ask", lambda: {*names, *others} <= set(os.listdir(folder)))
    until("their keys", lambda: first.cli("salt-key", "-y", "-A")[0] == 0)
    for node in stage.world.nodes:
        for name in names:

            def let_in(node: object = node, name: str = name) -> bool:
                minion = stage.minion(node, name)  # type: ignore[arg-type]
                try:
                    outcome = minion.sign_in(WAIT)
                except ERRORS:
                    return False
                finally:
                    minion.asker.close()
                if isinstance(outcome, Accepted):
                    stage.identity = outcome.master_key
                return isinstance(outcome, Accepted)

            until(f"{name} to be let in", let_in, 30, 0.2)
    return [
        Jobs(stage, "j1", names[0:2]),
        Jobs(stage, "j2", names[2:4]),
        Mine(stage, "m1", "wmine"),
        Keys(stage, "k1"),
        Keys(stage, "k2"),
        Tokens(stage, "t1"),
        Roots(stage, "r1"),
        Readers(stage, "g1", "wread"),
    ]


def look(stage: Stage, jobs: Crowd) -> None:
    """What all nodes have: again and again, until that is as it must be, or it is too late."""
    end = time.monotonic() + LATE
    while True:
        jobs.follow()
        found = seen.all_nodes(stage, EYE)
        lines = [
            {"kind": "seen", "t": stage.history.now(), "node": name, "value": value}
            for name, value in found.items()
        ]
        if not judge([*stage.history.records, *lines]) or time.monotonic() > end:
            break
        time.sleep(2)
    for line in lines:
        stage.history.add(**line)


def summary(history: History, seed: int, nodes: int) -> str:
    """What was done, in short."""
    ops = Counter(r["op"] for r in history.records if r["kind"] == "op" and r["result"] == "ok")
    blows = Counter(r["what"] for r in history.records if r["kind"] == "fault")
    done = ", ".join(f"{count} {name}" for name, count in sorted(ops.items()))
    struck = ", ".join(f"{count} {name}" for name, count in sorted(blows.items()))
    return f"seed {seed}, {nodes} nodes, {done}; blows: {struck}; {history.path}"


def verdict(found: list[str], of: str) -> int:
    """Say it."""
    for line in found[:40]:
        print(line[:1500])
    print(f"{'VIOLATIONS: ' + str(len(found)) if found else 'no violation'}: {of}")
    return 1 if found else 0


def keep_logs(world: World, path: str) -> None:
    """The nodes' logs, beside the history."""
    for node in world.nodes:
        with open(f"{path}.{node.name}.log", "w") as file:
            file.write(node.text())


if __name__ == "__main__":
    sys.exit(main())
