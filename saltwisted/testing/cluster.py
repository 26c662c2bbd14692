"""
A cluster in this process: real nodes on loopback addresses, each in a directory of its own.

What is real is everything but the processes: ports, links, disks, logs of facts and jobs, roots,
and the workers that compile pillars. So a test needs a running reactor, as a C{TestCase} of trial
has it, and Linux, where all of 127.0.0.0/8 is this machine. A node that dies without a stop cannot
be played here; nodes that are processes of their own can (C{saltwisted demo --masters 3}).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from saltwisted.config.options import MasterConfig
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.roles.cluster import Node
from saltwisted.roles.readings import SOCKET
from saltwisted.stores.facts.node import BEGIN
from saltwisted.stores.files import make_dir, write_atomic
from saltwisted.testing.ports import reserve_ports
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.worker.control import ControlClient

LOOK = 0.05
"""Seconds between two looks at what is waited for."""
PATIENCE = 120.0
"""Seconds until what is waited for is believed never to come."""


class LocalNode:
    """
    One node.

    @ivar name: its C{id}.
    @ivar address: where it listens.
    @ivar folder: its directory: C{files} and C{pillar} are its roots, C{base}.
    @ivar config: of its master.
    @ivar error: what has kept it from serving, if anything has.
    """

    log = Logger()

    def __init__(self, reactor: Any, name: str, address: str, config: MasterConfig) -> None:
        self.name, self.address, self.config = name, address, config
        self.folder = config.root_dir
        self._reactor = reactor
        self._node: Node | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start it; it serves when L{serves} says so."""
        self.error = None
        self._node = Node(self._reactor, self.config, self._failed)
        let_go(as_deferred(self._node.startService()), self.log, "{name} ended", name=self.name)

    def _failed(self, error: BaseException) -> None:
        # A daemon would end here; this process is a test's
        self.error = error

    async def stop(self) -> None:
        """Stop it, as a service manager does; it can be started again."""
        node, self._node = self._node, None
        if node is not None:
            await node.stopService()

    def write(self, path: str, text: str) -> None:
        """Edit a file below L{folder}, such as C{files/top.sls}."""
        full = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    async def ask(self, operation: str, **arguments: Any) -> Any:
        """
        An operation of the daemon, by its control socket, in the name of who runs the test.

        @raises RemoteError: as the command line would be told.
        """

        def call() -> Any:
            with ControlClient(path=os.path.join(self.config.sock_dir, SOCKET)) as client:
                return client.call(operation, **arguments)

        return await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), call)

    async def runner(self, fun: str, *arg: Any, **kwarg: Any) -> Any:
        """What C{salt-run} gives."""
        return (await self.ask("runner", fun=fun, arg=list(arg), kwarg=kwarg))["return"]

    async def wheel(self, fun: str, *arg: Any, **kwarg: Any) -> Any:
        """What a wheel function gives, such as C{key.list_all}."""
        return (await self.ask("wheel", fun=fun, arg=list(arg), kwarg=kwarg))["return"]

    async def members(self) -> Mapping[str, str]:
        """Node to its state, as this node sees it; nothing while it does not answer."""
        try:
            said = await self.ask("members")
        except (RemoteError, TransportClosed):
            return {}
        return {row["node"]: row["state"] for row in said.get("members", ())}

    async def serves(self) -> bool:
        """Whether it serves minions."""
        try:
            return bool((await self.ask("members")).get("ready"))
        except (RemoteError, TransportClosed):
            return False


class LocalCluster:
    """
    Nodes that serve as one.

    @ivar nodes: all nodes; the first one has begun the cluster.
    """

    def __init__(
        self, reactor: Any, folder: str, names: Sequence[str] = ("a", "b", "c"), **options: Any
    ) -> None:
        """
        @param folder: where the nodes have their directories. A short path, since that of a socket
            ends at 107 bytes.
        @param options: of every node's master, by Salt's names.
        """
        self._reactor = reactor
        ports = dict(
            zip(("publish_port", "ret_port", "cluster_pool_port"), reserve_ports(3), strict=True)
        )
        self.nodes = [
            self._node(folder, name, f"127.0.0.{number}", {**ports, **options})
            for number, name in enumerate(names, 1)
        ]

    def _node(self, folder: str, name: str, address: str, options: Mapping[str, Any]) -> LocalNode:
        here = os.path.join(os.path.abspath(folder), name)
        roots = {kind: os.path.join(here, kind) for kind in ("files", "pillar")}
        for path in (here, *roots.values()):
            make_dir(path)
        config = MasterConfig(
            **{
                "id": name,
                "root_dir": here,
                "interface": address,
                "file_roots": {"base": [roots["files"]]},
                "pillar_roots": {"base": [roots["pillar"]]},
                "cluster_roots": {"free_mib": 1},
                **{each: os.path.join(here, each) for each in ("pki_dir", "cachedir", "sock_dir")},
                **options,
            }
        )
        return LocalNode(self._reactor, name, address, config)

    async def start(self) -> None:
        """
        Start all; returns when each serves, and knows the others.

        @raises SaltwistedError: one cannot, and why.
        @raises TimeoutError: one does not.
        """
        first, *others = self.nodes
        folder = os.path.join(first.config.pki_dir, "cluster")
        make_dir(first.config.pki_dir)
        make_dir(folder)
        write_atomic(os.path.join(folder, BEGIN), b"", 0o600)
        first.start()
        await self.until("the first node serves", first.serves)
        for node in others:
            token = (await first.ask("token_create"))["token"]
            node.start()
            await self.until(f"{node.name} answers", self._answers(node))
            await node.ask("cluster_join", token=token)
        for node in self.nodes:
            await self.until(f"{node.name} serves all", self._knows_all(node))

    def _answers(self, node: LocalNode) -> Callable[[], Awaitable[bool]]:
        async def answers() -> bool:
            try:
                await node.ask("members")
            except SaltwistedError as error:
                return isinstance(error, RemoteError)
            return True

        return answers

    def _knows_all(self, node: LocalNode) -> Callable[[], Awaitable[bool]]:
        async def knows() -> bool:
            states = await node.members()
            return len(states) == len(self.nodes) and set(states.values()) == {"serving"}

        return knows

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """
        Return as soon as something holds.

        @raises SaltwistedError: a node cannot serve, and why.
        @raises TimeoutError: it never did, with C{what} it is.
        """
        end = self._reactor.seconds() + PATIENCE
        while not await holds():
            for node in self.nodes:
                if node.error is not None:
                    raise node.error
            if self._reactor.seconds() > end:
                raise TimeoutError(what)
            await deferLater(self._reactor, LOOK)

    async def stop(self) -> None:
        """Stop all that run."""
        for node in reversed(self.nodes):
            await node.stop()

    def stopping(self) -> Deferred[None]:
        """As L{stop}, for C{TestCase.addCleanup}."""
        return Deferred.fromCoroutine(self.stop())
