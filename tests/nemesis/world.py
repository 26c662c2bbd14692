"""
Nodes of a real cluster, each on a host of its own, with a disk and a clock of its own.

What is here knows how to start, strike and mend them; who does so, and what must be true, is in
L{tests.nemesis.faults} and L{tests.nemesis.checker}. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from saltwisted.cli.keyfiles import lay_down_beginning
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.wire.rsa import PrivateKey
from saltwisted.worker.control import ControlClient
from tests.cluster.real import OurNode
from tests.harness import reserve_ports, until, write_config
from tests.interop.network import Hub
from tests.nemesis.disk import Control, Disk, compile_preload

CLONE_NEWNET = 0x40000000
PATIENCE = 150.0
"""Seconds for a node to come back, on a machine that has other things to do."""


class Node(OurNode):
    """
    One node; its configuration and its log are not on its disk.

    @ivar past: how many configurations of its disk there were: a wiped one joins as new.
    """

    def __init__(self, world: World, name: str, host: Any, ports: list[int]) -> None:
        self.disk = Disk(world.home, name)
        self.disk.make()
        self.wrong = Control(os.path.join(world.home, f"{name}.control"))
        super().__init__(
            world.home,
            name,
            host.address,
            ports,
            log_level="info",
            cluster_roots={"free_mib": 4},
            keep_jobs_seconds=86400,
        )
        os.unlink(os.path.join(self.conf, "master"))
        self.conf = os.path.join(world.home, f"{name}.etc")
        self.argv = host.inside([*self.argv[:-1], self.conf])
        self.host = host
        self.home = world.home
        self.log = os.path.join(world.home, f"{name}.log")
        self.env |= {"LD_PRELOAD": world.preload, "NEMESIS_CONTROL": self.wrong.path}
        write_config(os.path.join(self.conf, "master"), self.options)
        self.on_disk()

    def on_disk(self) -> None:
        """What an administrator puts on an empty disk."""
        for folder in (self.file_root, self.pillar_root):
            os.makedirs(folder, exist_ok=True)
        self.wrong.device = os.stat(self.disk.where).st_dev
        self.wrong.write()

    def strike(self, sig: int) -> None:
        """A signal to it and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, sig)

    def ask(self, op: str, seconds: float = 15.0, **args: Any) -> Any:
        """One question to its control socket."""
        client = ControlClient(path=self.socket_path, timeout=seconds)
        try:
            return client.call(op, **args)
        finally:
            client.close()

    def runner(self, fun: str, each: Iterable[str]) -> dict[str, Any]:
        """What a runner of it says of each of these."""
        client = ControlClient(path=self.socket_path, timeout=60.0)
        found = {}
        try:
            for one in each:
                done = client.call("runner", fun=fun, arg=[one])
                found[one] = done.get("return", done) if isinstance(done, dict) else done
        finally:
            client.close()
        return found

    def cli(self, *words: str, seconds: float = 40.0) -> tuple[int | None, str, str]:
        """One of our commands: its exit status (none: it did not end), and what it said."""
        argv = [sys.executable, "-m", "saltwisted.cli.main", words[0], "-c", self.conf, *words[1:]]
        env = {key: text for key, text in self.env.items() if key != "LD_PRELOAD"}
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=seconds, cwd=self.home, env=env,
                check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, "", ""
        return done.returncode, done.stdout, done.stderr

    def in_step(self, nodes: int) -> str:
        """Why it is not yet one of so many nodes that have all of each other; empty if it is."""
        try:
            said = self.ask("members", 5.0)
        except (TransportClosed, RemoteError, TimeoutError) as error:
            return f"{self.name}: {error!r}"
        if not said["ready"]:
            return f"{self.name}: {said['problem'] or 'not ready'}"
        rows = said["members"]
        if len(rows) != nodes:
            return f"{self.name}: {len(rows)} members"
        for row in rows:
            if row["state"] != "serving":
                return f"{self.name}: {row['node']} is {row['state']}"
            if any((row.get("lag") or {}).values()) or row.get("roots") != "in step":
                return f"{self.name}: {row['node']} lacks {row.get('lag')} {row.get('roots')}"
        return ""


class World:
    """
    All of it, in one directory.

    @ivar keys: key pairs of light minions, by name.
    """

    def __init__(self, count: int, home: str = "") -> None:
        if os.geteuid() != 0:
            raise SystemExit("tests.nemesis makes hosts and disks: that needs root")
        self.home = home or tempfile.mkdtemp(prefix="swn", dir="/tmp")
        os.makedirs(self.home, exist_ok=True)
        self.preload = compile_preload(self.home)
        self.keys: dict[str, PrivateKey] = {}
        self.hub = Hub(count)
        self.hub.route()
        self.ports = reserve_ports(3)
        names = "abcdefg"[:count]
        self.nodes = [
            Node(self, name, self.hub.hosts[number], self.ports)
            for number, name in enumerate(names)
        ]

    def enter(self) -> None:
        """This process lives where the minions do, and so does every thread that it begins."""
        with open(f"/var/run/netns/{self.hub.name}") as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def named(self, name: str) -> Node:
        """A node."""
        return next(node for node in self.nodes if node.name == name)

    def found(self) -> None:
        """Start them as one cluster."""
        first, *others = self.nodes
        # Its disk is younger than the word that it is the first
        lay_down_beginning(first.pki)
        first.up()
        for node in others:
            node.start()
            self.join(node, first)

    def join(self, node: Node, through: Node) -> None:
        """Have a node that runs join by a token of another."""
        token = through.token("--uses", "5", "--ttl", "3d")
        until(f"{node.name} to answer", lambda: self.answers(node), PATIENCE)

        def joined() -> bool:
            status, out, wrong = node.cli("join", token, seconds=90)
            # A second try finds that the first was heard
            return status == 0 or "already" in out + wrong

        until(f"{node.name} to join", joined, PATIENCE, 1.0)
        until(f"{node.name} to serve", node.serving, PATIENCE, 0.2)

    def answers(self, node: Node) -> bool:
        """Whether its control socket does."""
        try:
            node.ask("members", 5.0)
        except (TransportClosed, RemoteError, TimeoutError):
            return False
        return True

    def key(self, name: str) -> PrivateKey:
        """The key pair of a light minion."""
        if name not in self.keys:
            self.keys[name] = PrivateKey.generate(2048)
        return self.keys[name]

    def why_not_in_step(self) -> str:
        """What one of the nodes still lacks; empty if none lacks anything."""
        for node in self.nodes:
            why = node.in_step(len(self.nodes))
            if why:
                return why
        return ""

    def remove(self, keep: bool) -> None:
        """End everything; with C{keep}, the disks' contents and logs stay."""
        for node in self.nodes:
            if node.process is not None:
                node.strike(signal.SIGCONT)
            node.wrong.stalled = False
            node.wrong.write()
            node.kill()
        self.hub.remove()
        for node in self.nodes:
            if keep:
                node.disk.unmount()
            else:
                node.disk.remove()
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)


def decoded(text: str) -> Any:
    """JSON of a command, or nothing."""
    try:
        return json.loads(text)
    except ValueError:
        return None
