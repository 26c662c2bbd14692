"""
The API of a cluster: real nodes, so a real reactor.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SkipTest, TestCase

from saltwisted.testing.cluster import LocalCluster, LocalNode, reserve_ports
from tests.harness import ROOT
from tests.provider import Provider
from tests.web.calls import CLIENTS, LOGIN, RULES, USERS

BACK = "https://salt.example.com/login/oidc/callback"
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
        self.provider = Provider(self)
        oidc = self.provider.options(client_id="browsers", redirect_uri=BACK)
        rules = {
            "file": {"^filename": users, **RULES},
            "oidc": {**oidc, "ops%": ["@runner"]},
        }
        self.cluster = LocalCluster(
            reactor,
            folder,
            ("a", "b", "c"),
            external_auth=rules,
            netapi_enable_clients=CLIENTS,
        )
        for node in self.cluster.nodes:
            block = {"port": self.port, "host": node.address}
            node.config = node.config.evolve(rest_twisted=block)
        c = self.cluster.nodes[2]
        more = {**rules, "file": {**rules["file"], "eve": [".*"]}}
        c.config = c.config.evolve(external_auth=more)
        # What a client has: the certificate of the authority, as one node has it
        self.trusted = os.path.join(
            self.cluster.nodes[0].config.pki_dir, "saltwisted", "api-ca.pem"
        )
        self.addCleanup(self.cluster.stopping)

    async def ask(
        self,
        node: LocalNode,
        path: str,
        low: Any,
        token: str = "",
        way: tuple[str, int] | None = None,
    ) -> tuple[int, Any]:
        """Status and value of a C{POST}; C{way} is another address and port."""
        address, port = way or (node.address, self.port)

        def call() -> tuple[int, Any]:
            connection = http.client.HTTPSConnection(
                address,
                port,
                timeout=60,
                context=ssl.create_default_context(cafile=self.trusted),
            )
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

        await self._browser(a, b)
        await self._drift(b, c)

        # Another one outlives a restart of all
        token = (await self.ask(a, "/login", LOGIN))[1]["return"][0]["token"]
        await self.cluster.until("c knows it, too", self.answers(c, token, 200))
        await self.cluster.stop()
        for node in self.cluster.nodes:
            node.start()
        for node in self.cluster.nodes:
            await self.cluster.until(f"{node.name} is back", node.serves)
            await self.cluster.until("it is good there", self.answers(node, token, 200))

    async def page(self, node: LocalNode, path: str, cookie: str = "") -> tuple[int, Any]:
        """What a browser gets that asks for a page: status and headers."""

        def call() -> tuple[int, Any]:
            connection = http.client.HTTPSConnection(
                node.address,
                self.port,
                timeout=60,
                context=ssl.create_default_context(cafile=self.trusted),
            )
            connection.request("GET", path, headers={"Accept": "text/html", "Cookie": cookie})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, answer.headers

        return await deferToThread(call)

    def at_provider(self, address: str) -> str:
        """The browser of somebody who has logged in there; the path that it is sent back to."""
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        connection.request("GET", f"{parts.path}?{parts.query}")
        back = urlsplit(str(connection.getresponse().getheader("Location")))
        connection.close()
        return f"{back.path}?{back.query}"

    async def _browser(self, a: LocalNode, b: LocalNode) -> None:
        """A browser that logs in at a provider by way of a has a session on b."""
        self.provider.claims = {"groups": ["ops"]}
        status, headers = await self.page(a, "/login/oidc?next=/")
        self.assertEqual(status, 302)
        cookie = "; ".join(each.partition(";")[0] for each in headers.get_all("Set-Cookie"))
        back = await deferToThread(self.at_provider, headers["Location"])
        status, headers = await self.page(a, back, cookie)
        self.assertEqual((status, headers["Location"]), (302, "/"))
        (word,) = [
            each.partition(";")[0].partition("=")[2]
            for each in headers.get_all("Set-Cookie")
            if each.startswith("session_id=")
        ]
        await self.cluster.until("b knows the browser", self.answers(b, word, 200))

    async def _drift(self, b: LocalNode, c: LocalNode) -> None:
        """That c has other rules is said on both, by the name of the option alone."""

        async def told() -> bool:
            found = [(await node.ask("members"))["drift"] for node in (b, c)]
            return found == [{"external_auth": ["c"]}, {"external_auth": ["a", "b"]}]

        await self.cluster.until("both say that their rules differ", told)

    def test_balanced(self) -> Deferred[None]:
        """
        Behind HAProxy with the configuration of C{docs/api.md}, one session is good at all nodes
        in turn; when one is gone, no request fails, and it is asked again when it is ready.
        """
        return Deferred.fromCoroutine(self._balanced())

    async def _balanced(self) -> None:
        proxy, metrics = reserve_ports(2)
        for node in self.cluster.nodes:
            block = {"port": self.port, "host": node.address, "ssl_names": ["127.0.0.1"]}
            told = {"port": metrics, "host": node.address}
            node.config = node.config.evolve(rest_twisted=block, metrics=told)
        await self.cluster.start()
        a, b, c = self.cluster.nodes
        self._haproxy(proxy, metrics)
        token = ""

        async def low(path: str, chunk: Any) -> tuple[int, Any]:
            return await self.ask(a, path, chunk, token, ("127.0.0.1", proxy))

        async def logged_in() -> bool:
            nonlocal token
            try:
                status, said = await low("/login", LOGIN)
            except OSError:
                return False
            token = said["return"][0]["token"] if status == 200 else ""
            return bool(token)

        async def who() -> set[tuple[int, str]]:
            chunk = {"client": "runner", "fun": "config.get", "arg": ["id"]}
            found = [await low("/", [chunk]) for _ in range(6)]
            return {(status, str(said["return"][0])) for status, said in found}

        def answer(*nodes: LocalNode) -> Callable[[], Awaitable[bool]]:
            async def answer() -> bool:
                return await who() == {(200, node.config.id) for node in nodes}

            return answer

        await self.cluster.until("a session", logged_in)
        for node in self.cluster.nodes:
            await self.cluster.until("it is good there", self.answers(node, token, 200))
        await self.cluster.until("all answer", answer(a, b, c))
        await b.stop()
        self.assertEqual(await who(), {(200, node.config.id) for node in (a, c)})
        b.start()
        await self.cluster.until("b is asked again", answer(a, b, c))

    def _haproxy(self, port: int, metrics: int) -> None:
        """Start it with what the page says, and other addresses and ports in it."""
        program = shutil.which("haproxy", path="/usr/sbin:" + os.environ["PATH"])
        if program is None:
            raise SkipTest("there is no haproxy")
        with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
            page = file.read()
        (text,) = re.findall(r"^```\n(frontend salt_api\n.*?)^```$", page, re.M | re.S)
        for number, node in enumerate(self.cluster.nodes, 1):
            text = text.replace(f"10.0.0.1{number}:8000", f"{node.address}:{self.port}")
        text = text.replace("bind :8000", f"bind 127.0.0.1:{port}").replace("9464", str(metrics))
        self.assertNotIn("8000", text)
        folder = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        path = os.path.join(folder, "haproxy.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write("defaults\n    timeout connect 5s\n" + text)
        with open(os.path.join(folder, "log"), "wb") as log:
            made = subprocess.Popen([program, "-db", "-f", path], stdout=log, stderr=log)
        self.addCleanup(made.wait, 20)
        self.addCleanup(made.kill)

    async def curl(self, node: LocalNode, trusted: str) -> subprocess.CompletedProcess[str]:
        """C{curl --cacert}: what it says."""
        words = ["curl", "-sS", "--cacert", trusted, f"https://{node.address}:{self.port}/"]

        def call() -> subprocess.CompletedProcess[str]:
            return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

        return await deferToThread(call)

    def test_T_API_8_authority(self) -> Deferred[None]:
        """
        T-API-8: with one certificate C{curl} verifies every node, and C{status} says which; when a
        node is removed, whose copy of the authority's key is in nobody's hands, there is another.
        """
        return Deferred.fromCoroutine(self._authority())

    async def _authority(self) -> None:
        await self.cluster.start()
        a, b, c = self.cluster.nodes
        older = f"{self.trusted}.older"
        shutil.copy(self.trusted, older)
        for node in (a, b, c):
            done = await self.curl(node, older)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Welcome", done.stdout)
        told = [(await node.ask("status"))["api"]["certificate"] for node in (a, b, c)]
        self.assertEqual(len({each["authority"] for each in told}), 1)
        self.assertIn("b", told[1]["names"])

        await a.ask("cluster_remove", node="c")

        async def changed() -> bool:
            seen = (await b.ask("status"))["api"]["certificate"]["authority"]
            return bool(seen != told[1]["authority"])

        await self.cluster.until("b has another authority", changed)
        for node in (a, b):
            self.assertEqual((await self.curl(node, self.trusted)).returncode, 0, node.name)
            done = await self.curl(node, older)
            self.assertEqual(done.returncode, 60, done.stderr)
