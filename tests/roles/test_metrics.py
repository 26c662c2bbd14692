"""
Metrics and health of real daemons.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from unittest.mock import patch

import yaml
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError
from saltwisted.roles.metrics import Measures
from saltwisted.testing.cluster import LocalCluster
from saltwisted.testing.ports import reserve_ports
from tests.harness import ROOT, OurMaster, OurMinion, scratch, until
from tests.web.test_metrics import values

CLUSTER = {
    "saltwisted_link_up",
    "saltwisted_option_drift",
    "saltwisted_replication_lag",
    "saltwisted_roots_conflicts",
    "saltwisted_roots_lag",
    "saltwisted_roots_suspended",
}
"""Of what alerts and dashboard ask for, what a lone master has nothing to say of."""


def wanted() -> set[str]:
    """What alerts and dashboard ask for."""
    with open(os.path.join(ROOT, "etc", "prometheus", "rules.yml"), encoding="utf-8") as file:
        rules = yaml.safe_load(file)
    with open(os.path.join(ROOT, "etc", "grafana", "saltwisted.json"), encoding="utf-8") as file:
        board = json.load(file)
    exprs = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    exprs += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found = set(re.findall(r"\b(?:salt|saltwisted|process)_[a-z_]+", " ".join(exprs)))
    assert len(found) > 20, found
    return found


def told(text: bytes) -> set[str]:
    """The names of which a page of metrics tells, with or without values."""
    return {line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE")}


def get(
    port: int, path: str, host: str = "127.0.0.1", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body."""
    connection = HTTPConnection(host, port, timeout=60)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def login(port: int) -> str:
    """A session of fred's at an API."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        low = {"username": "fred", "password": "fredpw", "eauth": "file"}
        told = {"Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", "/login", json.dumps(low), told)
        return str(json.loads(connection.getresponse().read())["return"][0]["token"])
    finally:
        connection.close()


class LoneMasterTests(SynchronousTestCase):
    """C{--role master}, as a process of its own."""

    def test_a_day(self) -> None:
        """
        A master with C{metrics: {}} in its configuration is ready when it serves; a job and its
        return count, a failed one as such, and promtool has nothing to say. With C{api: true} the
        port of the HTTP API tells the same, the figures to whoever has logged in.
        """
        home = scratch(self)
        port, api = reserve_ports(2)
        with open(os.path.join(home, "users"), "w", encoding="utf-8") as file:
            file.write("fred:fredpw\n")
        master = OurMaster(
            home,
            auto_accept=True,
            metrics={"port": port, "minions": True, "functions": ["test.ping"], "api": True},
            external_auth={"file": {"^filename": f"{home}/users", "fred": ["test.*"]}},
            rest_twisted={"port": api, "host": "127.0.0.1", "disable_ssl": True},
        )
        self.addCleanup(master.kill)
        master.up()
        until("the master to be ready", lambda: get(port, "/readyz")[0] == 200)
        self.assertEqual(get(port, "/livez"), (200, b"live\n"))
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", api)))
        self.assertEqual(get(api, "/livez"), (200, b"live\n"))
        self.assertEqual(get(api, "/readyz")[0], 200)
        self.assertEqual(get(api, "/metrics")[0], 401)
        minion = OurMinion(home, master, "m1")
        self.addCleanup(minion.kill)
        minion.start()
        until("the minion's key", lambda: master.keys()["minions"] == ["m1"])
        ping = ("m1", "test.ping", "--out", "json", "--static")
        until("the minion", lambda: '"m1": true' in master.command("salt", *ping).stdout)
        master.salt("m1", "test.false_not_there")

        page = get(port, "/metrics")[1]
        self.assertEqual(wanted() - told(page), CLUSTER)
        found = values(page)
        key = "function=test.ping,state=,success=true"
        self.assertGreaterEqual(found[f"salt_function_responses_total{{{key}}}"], 1)
        key = "function=test.false_not_there,state=,success=false"
        self.assertEqual(found[f"salt_function_responses_total{{{key}}}"], 1)
        self.assertEqual(found["salt_function_status{function=test.ping,minion=m1,state=}"], 1)
        self.assertEqual(found["saltwisted_keys{state=accepted}"], 1)
        self.assertEqual(found["saltwisted_serving"], 1)
        self.assertGreaterEqual(found["saltwisted_requests_total{command=_return}"], 2)
        self.assertGreater(found["saltwisted_sign_ins_total{result=accept}"], 0)
        self.assertGreater(found["process_resident_memory_bytes"], 1e7)
        token = {"X-Auth-Token": login(api)}
        status, text = get(api, "/metrics", headers=token)
        self.assertEqual((status, values(text)["saltwisted_keys{state=accepted}"]), (200, 1))
        if shutil.which("promtool"):
            text = get(port, "/metrics")[1]
            said = subprocess.run(
                ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
            )
            self.assertEqual((said.returncode, said.stdout, said.stderr), (0, b"", b""))

    def test_taken(self) -> None:
        """A master whose port for metrics is taken does not start, and says which it is."""
        home = scratch(self)
        (port,) = reserve_ports(1)
        first = OurMaster(home, "first", metrics={"port": port})
        self.addCleanup(first.kill)
        first.up()
        second = OurMaster(home, "second", metrics={"port": port})
        self.addCleanup(second.kill)
        second.start()
        until("its end", lambda: not second.running)
        self.assertIn(f"metrics: cannot listen on 127.0.0.1:{port}", second.text())

    def test_nothing_imported(self) -> None:
        """A master without the block imports neither what serves them nor the library."""
        code = (
            "import sys, saltwisted.roles.master, saltwisted.roles.cluster\n"
            "names = ('saltwisted.web.me', 'prometheus_client')\n"
            "print([name for name in sys.modules if name.startswith(names)])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout, "[]\n")

    def test_library_missing(self) -> None:
        """Where the library is not there, the block is an error that says what to install."""
        loaded = patch.dict(sys.modules, {"prometheus_client": None})
        loaded.start()
        self.addCleanup(loaded.stop)
        for name in [n for n in sys.modules if n.startswith("saltwisted.web.")]:
            del sys.modules[name]
        config = MasterConfig(metrics={})
        error = self.assertRaises(
            ConfigError, Measures, reactor, config, lambda: "", lambda: "", dict
        )
        self.assertIn("python3-prometheus-client", error.reason)


class MemberTests(TestCase):
    """Members of a cluster; real nodes, so a real reactor."""

    timeout = 240

    def test_two(self) -> Deferred[None]:
        """
        A node says from its start why it is not ready; as a member it tells of its links, what
        others lack of it and its roots, and when the other one has gone, that it has. The port of
        a member's HTTP API says so too, where C{api: true}.
        """
        return Deferred.fromCoroutine(self._two())

    async def _two(self) -> None:
        folder = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        cluster = LocalCluster(reactor, folder, ("a", "b"))
        self.addCleanup(cluster.stopping)
        port, api = reserve_ports(2)
        for node in cluster.nodes:
            block = {"host": node.address, "port": port, "minions": True, "api": True}
            rest = {"host": node.address, "port": api, "disable_ssl": True}
            node.config = node.config.evolve(metrics=block, rest_twisted=rest)
        a, b = cluster.nodes

        async def ask(node: Any, path: str) -> tuple[int, bytes]:
            answer: tuple[int, bytes] = await deferToThread(get, port, path, node.address)
            return answer

        seen: list[tuple[int, bytes]] = []

        async def started() -> bool:
            seen.append(await ask(b, "/readyz"))
            self.assertEqual((await ask(b, "/metrics"))[0], 200)
            return True

        b.start()
        await cluster.until("an answer of b", started)
        self.assertEqual(seen[0][0], 503)
        self.assertIn(b"not serving yet", seen[0][1])
        await b.stop()
        await cluster.start()

        async def links() -> bool:
            found = values((await ask(a, "/metrics"))[1])
            return found.get("saltwisted_link_up{node=b}") == 1

        await cluster.until("the link", links)
        self.assertEqual((await ask(b, "/readyz"))[0], 200)
        for path, status in (("/livez", 200), ("/readyz", 200), ("/metrics", 401)):
            self.assertEqual((await deferToThread(get, api, path, b.address))[0], status)
        page = (await ask(a, "/metrics"))[1]
        # It is by minion, and none has returned anything yet
        self.assertEqual(wanted() - told(page), {"salt_function_status"})
        found = values(page)
        self.assertEqual(found["saltwisted_roots_conflicts{share=file/base/0}"], 0)
        self.assertIn("saltwisted_roots_lag{share=file/base/0}", found)
        self.assertIn("saltwisted_replication_lag{node=b,what=keys}", found)
        self.assertEqual(found["saltwisted_serving"], 1)
        await b.stop()

        async def gone() -> bool:
            found = values((await ask(a, "/metrics"))[1])
            return found["saltwisted_link_up{node=b}"] == 0

        await cluster.until("the end of the link", gone)
