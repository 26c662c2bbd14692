"""
The API of a cluster: real nodes, so a real reactor.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from saltwisted.testing.cluster import LocalCluster, LocalNode, reserve_ports
from tests.web.calls import CLIENTS, LOGIN, RULES, USERS

ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}


class ClusterTests(TestCase):
    """T-TOK-1: a session is the cluster's, and so is its end."""

    timeout = 240

    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        users = os.path.join(folder, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write(USERS)
        (self.port,) = reserve_ports(1)
        self.cluster = LocalCluster(
            reactor,
            folder,
            ("a", "b", "c"),
            external_auth={"file": {"^filename": users, **RULES}},
            netapi_enable_clients=CLIENTS,
        )
        for node in self.cluster.nodes:
            block = {"port": self.port, "host": node.address, "disable_ssl": True}
            node.config = node.config.evolve(rest_twisted=block)
        self.addCleanup(self.cluster.stopping)

    async def ask(self, node: LocalNode, path: str, low: Any, token: str = "") -> tuple[int, Any]:
        """Status and value of a C{POST}."""

        def call() -> tuple[int, Any]:
            connection = http.client.HTTPConnection(node.address, self.port, timeout=60)
            headers = {"Content-Type": "application/json", "X-Auth-Token": token}
            connection.request("POST", path, json.dumps(low), headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer.status, json.loads(content) if answer.status == 200 else content

        return await deferToThread(call)

    def answers(self, node: LocalNode, token: str, wanted: int) -> Callable[[], Awaitable[bool]]:
        """Whether a node says so to this session."""

        async def answers() -> bool:
            return (await self.ask(node, "/", [ARG], token))[0] == wanted

        return answers

    def test_T_TOK_1_session(self) -> Deferred[None]:
        """
        T-TOK-1: a session made on one node is good on all, also when that one is gone; after a
        logout on one it is good on none, also on one that was away meanwhile.
        """
        return Deferred.fromCoroutine(self._session())

    async def _session(self) -> None:
        await self.cluster.start()
        a, b, c = self.cluster.nodes
        status, said = await self.ask(a, "/login", LOGIN)
        self.assertEqual(status, 200)
        token = said["return"][0]["token"]

        await self.cluster.until("b knows it", self.answers(b, token, 200))
        await self.cluster.until("c knows it", self.answers(c, token, 200))
        await a.stop()
        status, said = await self.ask(b, "/", [ARG], token)
        self.assertEqual((status, said), (200, {"return": [{"args": ["a"], "kwargs": {}}]}))
        self.assertEqual((await self.ask(b, "/logout", {}, token))[0], 200)
        self.assertEqual((await self.ask(b, "/", [ARG], token))[0], 401)
        await self.cluster.until("c has heard of it", self.answers(c, token, 401))
        a.start()
        await self.cluster.until("a is back", a.serves)
        self.assertEqual((await self.ask(a, "/", [ARG], token))[0], 401)
