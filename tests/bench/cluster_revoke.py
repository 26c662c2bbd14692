"""
C{python -m tests.bench.cluster_revoke}: what a deleted key means on three nodes of one machine.

- A minion that sends to all three nodes all the time, by one session, while C{salt-key -d} runs
  on one of them: when each node refuses it, and how many of its requests were answered after the
  command had said that it is done.
- Who signs in again afterwards, and how often: a fleet of our minions, one of our daemons, and a
  stock 3006 and 3008, counted by the events of sign-ins after the deletion and three publications.
  Beside it the same with C{rotate_aes_key: false}.
- Three hundred minions that behave as stock ones do (all of a node sign in when they hear the
  first publication under a new key): sign-ins a second on each node, and how long the last waited.

Run it on a quiet machine; docs/benchmarks.md says how figures are read. Nothing fails here.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import unittest
from collections import Counter
from typing import Any

import zmq

from saltwisted.errors import TransportClosed
from saltwisted.wire.handshake import Accepted
from saltwisted.wire.rsa import PrivateKey
from tests.attack.fleet import Asker, Refused, Silence, WireMinion
from tests.bench.fleets import Fleet
from tests.bench.machine import describe
from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, scratch, until

KEPT = 20


class Sender(threading.Thread):
    """
    A minion that asks one node all the time, by the session that another node gave it.

    @ivar answered: when each answer came.
    @ivar refused: when each refusal came.
    """

    def __init__(self, node: OurNode, minion: WireMinion) -> None:
        super().__init__(daemon=True)
        self.node, self.minion = node, minion
        self.answered: list[tuple[float, float]] = []
        self.refused: list[float] = []
        self.ending = False

    def run(self) -> None:
        """Ask until it is told to end, or was refused for a second."""
        while not self.ending and len(self.refused) < 100:
            began = time.monotonic()
            try:
                self.minion.ask("_file_envs", seconds=5.0)
                self.answered.append((began, time.monotonic()))
            except Refused:
                self.refused.append(time.monotonic())
                time.sleep(0.01)
            except Silence:
                pass


class SignInCounter(threading.Thread):
    """The sign-ins that a node tells of: minion id to how many."""

    def __init__(self, node: OurNode) -> None:
        super().__init__(daemon=True)
        self.client = node.control()
        self.stream = self.client.stream("events", tags=["salt/auth"])
        next(self.stream)
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        """Count."""
        try:
            for event in self.stream:
                data: dict[str, Any] = event.get("data", {})
                if data.get("act") == "accept":
                    self.seen[str(data["id"])] += 1
        except (TransportClosed, OSError, ValueError):
            return


class Bench(unittest.TestCase):
    """A run; a test case only for its cleaning up."""

    def __init__(self, minions: int, crowd: int, rounds: int) -> None:
        super().__init__("measure")
        self.minions, self.crowd, self.rounds = minions, crowd, rounds

    def put(self, name: str, value: float) -> None:
        """A line of the table."""
        print(f"| {name} | {value:.2f} |", flush=True)

    def measure(self) -> None:
        """All of it."""
        nodes = cluster(self, "a b c", auto_accept=True, log_level="warning")
        self.revoke(nodes)
        self.storm(nodes)
        self.again("", nodes)
        for node in nodes:
            node.kill()
        still = cluster(self, "a b c", auto_accept=True, rotate_aes_key=False, log_level="warning")
        self.again(", rotate_aes_key: false", still)

    # -- refused at once

    def minion(self, context: zmq.Context[Any], node: OurNode, name: str) -> WireMinion:
        """One that has signed in there."""
        made = WireMinion(context, node.ret_port, name)
        made.asker = Asker(context, node.ret_port, node.address)
        until(f"{name} to be let in", lambda: isinstance(made.sign_in(), Accepted))
        return made

    def revoke(self, nodes: list[OurNode]) -> None:
        """A key that is deleted while it is in use on all nodes."""
        late = 0
        first: dict[str, list[float]] = {node.name: [] for node in nodes}
        calls = []
        with zmq.Context() as context:
            for number in range(self.rounds):
                began, confirmed, senders = self.revoke_one(context, nodes, f"gone{number}")
                calls.append(1000 * (confirmed - began))
                for sender in senders:
                    first[sender.node.name].append(1000 * (sender.refused[0] - began))
                    # Asked and answered after the command had ended
                    late += sum(asked > confirmed for asked, _ in sender.answered)
        for name, values in first.items():
            self.put(f"deleted on a: first refusal on {name}, ms, median", middle(values))
            self.put(f"deleted on a: first refusal on {name}, ms, last", max(values))
        self.put("deleted on a: the call, ms, median", middle(calls))
        self.put("requests answered anywhere after the call", late)

    def revoke_one(
        self, context: zmq.Context[Any], nodes: list[OurNode], name: str
    ) -> tuple[float, float, list[Sender]]:
        """When the deletion began, when it was confirmed, and who was asking."""
        signed_in = self.minion(context, nodes[0], name)
        for node in nodes:
            path = os.path.join(node.pki, "minions", name)
            until(f"its key on {node.name}", lambda path=path: os.path.exists(path))
        senders = []
        for node in nodes:
            copy = WireMinion(context, node.ret_port, name)
            copy.asker = Asker(context, node.ret_port, node.address)
            copy.known, copy.session = signed_in.known, signed_in.session
            senders.append(Sender(node, copy))
        for sender in senders:
            sender.start()
        until("answers from all nodes", lambda: all(len(s.answered) > 20 for s in senders))
        with nodes[0].control() as client:
            began = time.monotonic()
            client.call("wheel", fun="key.delete", kwarg={"match": name})
            confirmed = time.monotonic()
        until("refusals from all nodes", lambda: all(len(s.refused) > 50 for s in senders))
        for sender in senders:
            sender.ending = True
            sender.join(10)
            sender.minion.asker.close()
        signed_in.asker.close()
        return began, confirmed, senders

    # -- signed in again

    def again(self, how: str, nodes: list[OurNode]) -> None:
        """Who signs in again after a deletion, and how often."""
        a, b, c = nodes
        home = scratch(self)
        kinds: dict[str, list[str]] = {"ours": ["ours"], "stock 3006": [], "stock 3008": []}
        minions: list[Any] = [OurMinion(home, b, "ours", log_level="warning")]
        for version, node in (("3006", b), ("3008", c)):
            minions.append(StockMinion(home, version, node))
            kinds[f"stock {version}"].append(minions[-1].id)
        master = [f"{node.address}:{node.ret_port}" for node in nodes]
        fleet = Fleet(
            home,
            self.minions,
            {"master": master, "master_type": "failover", "publish_port": a.publish_port},
        )
        self.addCleanup(fleet.stop)
        kinds["our fleet"] = fleet.ids
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
        fleet.start()
        everybody = sorted(name for names in kinds.values() for name in names)
        until("all of the fleet", lambda: fleet.up() == self.minions, every=0.5)
        self.answer(a, everybody)
        spare = os.path.join(a.pki, "minions", "spare")
        with open(spare, "w") as file:
            file.write(PrivateKey.generate(2048).public.pem + "\n")
        until("it everywhere", lambda: all("spare" in n.keys()["minions"] for n in nodes))
        with zmq.Context() as context:
            kept = [self.minion(context, a, f"kept{number}") for number in range(KEPT)]
            self.again_with(how, nodes, kinds, everybody)
            served = 0
            for minion in kept:
                for node in nodes:
                    minion.asker.close()
                    minion.asker = Asker(context, node.ret_port, node.address)
                    try:
                        minion.ask("_file_envs")
                        served += 1
                    except Refused:
                        pass
                minion.asker.close()
        label = f"requests by sessions from before it, served of {KEPT * len(nodes)}"
        self.put(f"{label}{how}", served)
        fleet.stop()
        for made in minions:
            made.kill()

    def again_with(
        self, how: str, nodes: list[OurNode], kinds: dict[str, list[str]], everybody: list[str]
    ) -> None:
        """The deletion, and publications after it."""
        a, b, _ = nodes
        # Each node hears of all sign-ins
        counter = SignInCounter(b)
        counter.start()
        a.command("salt-key", "-y", "-d", "spare", check=True)
        time.sleep(6)  # until the new publish key is handed out by all
        early = sum(counter.seen.values())
        for node in nodes:
            self.answer(node, everybody)
        total = Counter(counter.seen)
        counter.client.close()
        for kind, names in kinds.items():
            most = max(total[name] for name in names)
            self.put(f"sign-ins after a deletion{how}: {kind}, most of any of {len(names)}", most)
        self.put(f"of them before a publication{how}", early)

    def answer(self, node: OurNode, everybody: list[str]) -> None:
        """All answer a publication."""
        names = ",".join(everybody)
        until(
            f"all answers at {node.name}",
            lambda: sorted(node.salt("-t", "20", "-L", names, "test.ping")) == everybody,
        )

    # -- a crowd

    def storm(self, nodes: list[OurNode]) -> None:
        """Minions that all sign in again when they hear the first publication they cannot read."""
        with zmq.Context(2) as context:
            context.set(zmq.MAX_SOCKETS, 4 * self.crowd)
            crowds: dict[str, list[WireMinion]] = {node.name: [] for node in nodes}
            for number in range(self.crowd):
                node = nodes[number % len(nodes)]
                made = self.minion(context, node, f"crowd{number:04}")
                made.ask("_file_envs")  # now it has a session that is in use
                crowds[node.name].append(made)
            with nodes[0].control() as client:
                client.call("wheel", fun="key.delete", kwarg={"match": "crowd0000"})
            crowds["a"].pop(0).asker.close()
            time.sleep(4)  # until the new publish key is handed out by all
            results: dict[str, list[float]] = {}
            running = [
                threading.Thread(target=self.crowd_of, args=(context, node, crowds, results))
                for node in nodes
            ]
            for thread in running:
                thread.start()
            time.sleep(1)
            with nodes[0].control() as client:
                client.call("publish", tgt="crowd*", fun="test.ping", arg=[])
            for thread in running:
                thread.join(60)
            for crowd in crowds.values():
                for minion in crowd:
                    minion.asker.close()
        for node in nodes:
            taken = sorted(results[node.name])
            busiest = max(sum(begin <= moment < begin + 1 for moment in taken) for begin in taken)
            self.put(f"{len(taken)} sign in again at {node.name}: the last waited, s", taken[-1])
            self.put(f"{len(taken)} sign in again at {node.name}: most in one second", busiest)
        with nodes[0].control() as client:
            for number in range(self.crowd):
                client.call("wheel", fun="key.delete", kwarg={"match": f"crowd{number:04}"})

    def crowd_of(
        self,
        context: zmq.Context[Any],
        node: OurNode,
        crowds: dict[str, list[WireMinion]],
        results: dict[str, list[float]],
    ) -> None:
        """Those of one node: seconds from the publication to each answer."""
        crowd = crowds[node.name]
        frames = [minion._handshake.request(os.urandom(16).hex(), minion.known) for minion in crowd]
        with context.socket(zmq.SUB) as listener:
            listener.linger = 0
            listener.setsockopt(zmq.SUBSCRIBE, b"")
            listener.connect(f"tcp://{node.address}:{node.publish_port}")
            listener.poll(30_000)
            began = time.monotonic()
            poller = zmq.Poller()
            for minion, frame in zip(crowd, frames, strict=True):
                sock = minion.asker.open()
                poller.register(sock, zmq.POLLIN)
                sock.send_multipart([b"", frame])
            taken: list[float] = []
            while len(taken) < len(crowd):
                for sock, _ in poller.poll(20_000):
                    sock.recv_multipart()
                    taken.append(time.monotonic() - began)
        results[node.name] = taken


def middle(values: list[float]) -> float:
    """The median."""
    return sorted(values)[len(values) // 2]


def main() -> None:
    """Measure, and print a table as it comes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_revoke")
    parser.add_argument("--minions", type=int, default=300, help="of our fleet (300)")
    parser.add_argument("--crowd", type=int, default=300, help="that sign in again at once (300)")
    parser.add_argument("--rounds", type=int, default=20, help="keys that are deleted (20)")
    options = parser.parse_args()
    print(describe())
    bench = Bench(options.minions, options.crowd, options.rounds)
    result = unittest.TestResult()
    bench.run(result)
    for _, trace in [*result.errors, *result.failures]:
        sys.exit(trace)


if __name__ == "__main__":
    main()
