"""
A stock master in use becomes the first node of a cluster, and another node joins it.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, nodes
from tests.harness import (
    StockMaster,
    StockMinion,
    needs_peers,
    reserve_ports,
    scratch,
    until,
    write_config,
)


class Heir(OurNode):
    """A node of ours that reads the configuration directory of a stock master, and adds a file."""

    def __init__(self, stock: StockMaster, pool_port: int) -> None:
        self.stock = stock
        shape = os.path.join(stock.root, "unused")
        super().__init__(
            shape, "first", "127.0.0.1", [stock.publish_port, stock.ret_port, pool_port]
        )
        self.conf = stock.conf
        self.argv[self.argv.index("--config") + 1] = stock.conf
        more = {"cluster_pool_port": pool_port, "id": "first", "log_level": "info"}
        write_config(os.path.join(stock.conf, "master.d/cluster.conf"), more)

    @property
    def pki(self) -> str:
        """Stock's."""
        return self.stock.pki

    @property
    def socket_path(self) -> str:
        """In the directory that stock's configuration names."""
        return os.path.join(self.stock.root, "run/saltwisted.sock")


@needs_peers
class FirstNodeTests(SynchronousTestCase):
    """The same minions, keys, jobs and roots, on two nodes."""

    def test_stock_3008(self) -> None:
        """
        The first node has the identity, keys, jobs and roots of the stock master whose
        directory it is given, and so has the second; minions keep their processes.
        """
        home = scratch(self)
        stock = StockMaster(home, "3008")
        self.addCleanup(stock.kill)
        for folder, name in ((stock.file_root, "web.sls"), (stock.pillar_root, "top.sls")):
            with open(os.path.join(folder, name), "w") as file:
                file.write("{}\n")
        stock.up()
        minions = [StockMinion(home, version, stock) for version in ("3006", "3008")]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
            stock.accept(minion.id)
        both = {minion.id: True for minion in minions}
        until("stock's answers", lambda: stock.salt("-t", "30", "*", "test.ping") == both)
        stock.command("salt", "*", "test.echo", "remember me")
        pids = {minion.id: minion.pid for minion in minions}
        with open(f"{stock.pki}/minions_rejected/bad", "w") as file:
            shutil.copyfileobj(open(f"{stock.pki}/minions/{minions[0].id}"), file)  # noqa: SIM115
        identity = self.read(f"{stock.pki}/master.pub")
        stock.kill(15)

        first = Heir(stock, reserve_ports(1)[0])
        self.addCleanup(first.kill)
        first.up()
        (second,) = nodes(self, "second")
        ports = {"publish_port": stock.publish_port, "ret_port": stock.ret_port}
        options = {**second.options, **ports, "interface": "127.0.0.2"}
        write_config(f"{second.conf}/master", options)
        second.start()
        until("the second to answer", second.members)
        second.command("join", first.token(), check=True)
        second.wait_serving()

        for node in (first, second):
            self.assertEqual(self.read(f"{node.pki}/master.pub"), identity)
            keys = node.keys()
            self.assertEqual((keys["minions"], keys["minions_rejected"]), (sorted(both), ["bad"]))
            until(
                f"all answers at {node.name}",
                lambda node=node: node.salt("-t", "30", "*", "test.ping") == both,
            )
            until(f"the job on {node.name}", lambda node=node: self.remembered(node) == both)
        for path in ("srv/salt/web.sls", "srv/pillar/top.sls"):
            until(
                f"{path} on the second",
                lambda path=path: os.path.exists(os.path.join(second.root, path)),
            )
        self.assertEqual({m.id: m.pid for m in minions if m.running}, pids)

    def read(self, path: str) -> bytes:
        """A file."""
        with open(path, "rb") as file:
            return file.read()

    def remembered(self, node: OurNode) -> Any:
        """Who had returned to the job that stock gave."""
        jobs = node.run("jobs.list_jobs", "search_function=test.echo")
        for jid in jobs:
            found = json.loads(
                node.command("salt-run", "jobs.lookup_jid", jid, "--out", "json").stdout
            )
            return {name: value == "remember me" for name, value in found.items()}
        return None
