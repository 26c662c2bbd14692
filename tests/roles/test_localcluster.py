"""
The cluster in a process that is shipped for tests.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Coroutine
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from saltwisted.errors import PortError, RemoteError
from saltwisted.testing.cluster import LocalCluster


class LocalClusterTests(TestCase):
    """Real nodes, so a real reactor, and as long as a loaded machine takes."""

    timeout = 240

    def run_all(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        """Run a test."""
        return Deferred.fromCoroutine(work)

    def made(self, *names: str, **options: Any) -> LocalCluster:
        """A cluster that is stopped and removed after the test."""
        folder = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        cluster = LocalCluster(reactor, folder, names, **options)
        self.addCleanup(cluster.stopping)
        return cluster

    def test_one_cluster(self) -> Deferred[None]:
        """
        Its nodes know one another; an edited file and a key that one accepts are at the other; a
        node that was stopped and started again is a member as before.
        """
        return self.run_all(self._one_cluster())

    async def _one_cluster(self) -> None:
        cluster = self.made("a", "b", file_buffer_size=4096)
        await cluster.start()
        a, b = cluster.nodes

        for node in cluster.nodes:
            self.assertEqual(await node.members(), {"a": "serving", "b": "serving"})
        a.write("files/web/init.sls", "nginx: pkg.installed\n")

        async def has_file() -> bool:
            return list(await b.runner("fileserver.file_list")) == ["web/init.sls"]

        await cluster.until("the file at b", has_file)
        await a.wheel("key.gen_accept", "web1")

        async def has_key() -> bool:
            return (await b.wheel("key.list_all"))["minions"] == ["web1"]

        await cluster.until("the key at b", has_key)
        await b.stop()
        self.assertEqual(await b.members(), {})
        self.assertFalse(await b.serves())
        b.start()
        await cluster.until("b again", b.serves)
        await cluster.until("the key is still there", has_key)

    def test_port_is_taken(self) -> Deferred[None]:
        """A node that cannot serve is an error of the start, with the reason; the test goes on."""
        return self.run_all(self._port_is_taken())

    async def _port_is_taken(self) -> None:
        cluster = self.made("a", "b")
        b = cluster.nodes[1]
        with socket.create_server((b.address, b.config.ret_port)):
            try:
                await cluster.start()
            except PortError as error:
                self.assertIn(f"cannot listen on {b.address}:{b.config.ret_port}", str(error))
            else:
                self.fail("it has started")
        self.flushLoggedErrors(PortError)

    def test_refused(self) -> Deferred[None]:
        """What a daemon refuses is an error of the question."""
        return self.run_all(self._refused())

    async def _refused(self) -> None:
        cluster = self.made("alone")
        await cluster.start()
        (node,) = cluster.nodes
        with self.assertRaises(RemoteError):
            await node.ask("members_approve", node="nobody")
        self.assertEqual(await node.runner("test.arg", 1, a=2), {"args": [1], "kwargs": {"a": 2}})
