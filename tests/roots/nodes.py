"""
Nodes with real directories, in one process, joined by loopback TCP.

Each has its own roots, store and threads; what is between them is the real stream without TLS
(C{tests.roots.test_processes} has it with).
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet import defer, reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ClientFactory, Factory
from twisted.trial.unittest import TestCase

from saltwisted.cluster.roots import founding
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.settings import Root
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.transports.threads import Threads

clock: Any = reactor
SHARE = "file/base/0"


class Node:
    """One master's roots service."""

    def __init__(self, name: str, folder: str, members: list[str], **options: Any) -> None:
        self.name = name
        self.folder = folder
        self.tree = f"{folder}/tree"
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.threads = Threads(reactor, 3, name)
        self.members = [member for member in members if member != name]
        self.options = {"free_mib": 1, **options}
        self.cluster = ""
        self.ahead = 0.0
        """Seconds by which its clock is ahead."""
        self.rights: dict[str, set[str]] = {}
        """Node to what it may not do, as the membership says."""
        self.links: list[RootLink] = []
        self.ports: list[Any] = []
        self.sync = self._make()

    def _make(self) -> RootSync:
        return RootSync(self.host(), [Root(SHARE, self.tree)], f"{self.folder}/store", self.options)

    def host(self, **changed: Any) -> Host:
        """What it lends to its roots."""
        host = Host(
            reactor=reactor,
            node=self.name,
            pool=self.threads.run,
            fire=lambda tag, data: self.events.append((tag, dict(data))),
            members=lambda: self.members,
            now=lambda: time.time() + self.ahead,
            cluster=self.cluster,
            may=lambda node, right: right not in self.rights.get(node, ()),
        )
        return evolve(host, **changed)

    @property
    def share(self) -> RootShare:
        """Its one share."""
        return self.sync.shares[SHARE]

    @property
    def digest(self) -> str:
        """The name of its generation."""
        generation = self.share.generation
        return "" if generation is None else generation.name

    def start(self) -> Deferred[Any]:
        """Start its service."""
        self.threads.startService()
        return Deferred.fromCoroutine(self.sync.startService())

    async def stop(self) -> None:
        """Stop everything."""
        for port in self.ports:
            await defer.maybeDeferred(port.stopListening)
        self.ports = []
        await self.sync.stopService()
        self.threads.stopService()

    def link(self, other: Node) -> None:
        """A stream to another node."""
        listening = Factory()
        listening.buildProtocol = lambda _: other.sync.streams.stream(self.name, False)  # type: ignore
        port = clock.listenTCP(0, listening, interface="127.0.0.1")
        other.ports.append(port)
        dialling = ClientFactory()
        dialling.noisy = False
        dialling.buildProtocol = lambda _: self.sync.streams.stream(other.name, True)  # type: ignore
        clock.connectTCP("127.0.0.1", port.getHost().port, dialling)

    def cut(self) -> None:
        """Lose all streams."""
        for link in list(self.sync.streams.links.values()):
            link.transport.abortConnection()

    def path(self, name: str) -> str:
        """A path in its tree."""
        return f"{self.tree}/{name}"

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file in place."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def read(self, name: str) -> bytes | None:
        """What is in a file; C{None} if there is none."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except OSError:
            return None


def sleep(seconds: float) -> Deferred[None]:
    """Let the reactor run."""
    d: Deferred[None] = Deferred()
    clock.callLater(seconds, d.callback, None)
    return d


async def until(true: Callable[[], Any], timeout: float = 45.0, what: str = "") -> None:
    """Wait for something that can be observed."""
    end = clock.seconds() + timeout
    while not true():
        if clock.seconds() > end:
            raise AssertionError(f"did not happen in {timeout} s: {what}")
        await sleep(0.01)


def _tree(top: str) -> dict[str, tuple[int, object]]:
    """What is below a directory: each path's type and mode, and its content, target or nothing."""
    found: dict[str, tuple[int, object]] = {}
    for folder, directories, names in os.walk(top):
        directories[:] = [name for name in directories if name != ".git"]
        for name in [*directories, *names]:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            content: object = None
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode) and not name.endswith("~"):
                with open(path, "rb") as file:
                    content = (info.st_mtime_ns, file.read())
            if not name.endswith("~"):
                found[os.path.relpath(path, top)] = (info.st_mode, content)
    return found


def differences(one: Node, other: Node) -> str:
    """
    The paths at which two trees differ, in type, mode, content, time or target.

    C{rsync} says the same of real processes, in C{tests.roots.test_processes}; this needs no
    program that a fresh machine lacks.
    """
    here, there = _tree(one.tree), _tree(other.tree)
    return "\n".join(
        sorted(name for name in here.keys() | there if here.get(name) != there.get(name))
    )


class NodesCase(TestCase):
    """Real time and real directories: the test is of the drivers, not of the rules."""

    timeout = 180

    def setUp(self) -> None:
        """A folder of its own; nodes are stopped at the end."""
        self.patch(founding, "FOUND_AFTER", 2.0)
        self.folder = tempfile.mkdtemp(prefix="roots-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.nodes: list[Node] = []

    def tearDown(self) -> Deferred[Any]:
        """Stop all nodes."""

        async def stop() -> None:
            for node in self.nodes:
                await node.stop()

        return Deferred.fromCoroutine(stop())

    async def make(self, names: str = "ab", mesh: bool = True, **options: Any) -> list[Node]:
        """Nodes of these one-letter names, linked each with each."""
        members = list(names)
        self.nodes = [Node(name, f"{self.folder}/{name}", members, **options) for name in names]
        for node in self.nodes:
            os.makedirs(node.tree, exist_ok=True)
        return self.nodes

    async def start(self, mesh: bool = True) -> None:
        """Start and link them."""
        for node in self.nodes:
            await node.start()
        if mesh:
            for number, node in enumerate(self.nodes):
                for other in self.nodes[number + 1 :]:
                    node.link(other)

    async def settle(self, timeout: float = 45.0) -> None:
        """Wait until all hold the same tree, in store and directory, and nothing waits."""
        await until(
            lambda: (
                all(node.sync.report.ready for node in self.nodes)
                and all(node.share.is_settled for node in self.nodes)
                and len({str(sorted(n.share.store.knowledge.items())) for n in self.nodes}) == 1  # type: ignore
            ),
            timeout,
            str(
                [(n.name, n.digest, n.share.is_settled, n.share.core.suspended) for n in self.nodes]
            ),
        )
        digests = {node.digest for node in self.nodes}
        if len(digests) != 1:
            raise AssertionError(f"trees differ: {digests}")
        for node in self.nodes[1:]:
            found = differences(self.nodes[0], node)
            if found:
                raise AssertionError(f"{self.nodes[0].name} and {node.name} differ:\n{found}")

    def run_coroutine(self, function: Callable[[], Any]) -> Deferred[Any]:
        """For test methods, which on Twisted 22.4 cannot be coroutines themselves."""
        return Deferred.fromCoroutine(function())
