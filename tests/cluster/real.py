"""
Real nodes for tests: C{twistd saltwisted --role cluster} as child processes on loopback addresses.

Nodes of one cluster listen on one pair of ports at different addresses, since stock
minions tell masters apart by the host's text.
"""

from __future__ import annotations

import json
import os
import sqlite3
import unittest
from contextlib import closing
from typing import Any

from attrs import evolve

from saltwisted.cli.keyfiles import lay_down_beginning
from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.claims.voter import Adopt, Whole
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.stores import claims
from saltwisted.worker.control import ControlClient
from tests.harness import OurMaster, reserve_ports, scratch, until


class OurNode(OurMaster):
    """One node in a directory of its own, at an address of its own."""

    def __init__(
        self, home: str, name: str, address: str, ports: list[int], **options: Any
    ) -> None:
        publish, requests, pool = ports
        super().__init__(
            home,
            name,
            **{
                "id": name,
                "interface": address,
                "publish_port": publish,
                "ret_port": requests,
                "cluster_pool_port": pool,
                **options,
            },
        )
        self.address = address
        self.publish_port, self.ret_port, self.pool_port = publish, requests, pool
        self.argv[self.argv.index("master")] = "cluster"
        lay_down_beginning(self.pki)

    def said(self) -> dict[str, Any]:
        """
        What the node says of its members, as C{saltwisted members} asks it; empty while nobody
        answers. Without a process for the question, since tests ask until something has happened.
        """
        client = ControlClient(path=self.socket_path, timeout=5.0)
        try:
            said: dict[str, Any] = client.call("members")
        except (TransportClosed, RemoteError, TimeoutError):
            return {}
        finally:
            client.close()
        return said

    def members(self) -> list[dict[str, Any]]:
        """What C{saltwisted members --json} prints; empty while nobody answers."""
        rows: list[dict[str, Any]] = self.said().get("members", [])
        return rows

    def states(self) -> dict[str, str]:
        """Node to state, as this node sees it."""
        return {row["node"]: row["state"] for row in self.members()}

    def serving(self) -> bool:
        """Whether it serves minions, as it says itself."""
        return bool(self.said().get("ready"))

    def tokens(self) -> list[str]:
        """The ids of its tokens."""
        done = self.command("token", "list", "--json", check=True)
        return [str(one["id"]) for one in json.loads(done.stdout)]

    def token(self, *options: str) -> str:
        """A join token: the last word of the last line."""
        done = self.command("token", "create", *options, check=True)
        return done.stdout.split()[-1]

    def up(self) -> OurNode:
        """Start it, and wait until it serves minions."""
        self.start()
        self.wait_serving()
        return self

    def serving_alone(self) -> None:
        """Wait until it serves as a lone master."""
        super().serving()

    def wait_serving(self, seconds: float = 0.0) -> None:
        """Wait until it serves minions."""

        def serves() -> bool:
            if not self.running:
                raise AssertionError(f"{self.name} ended:\n{self.tail()}")
            return self.serving()

        try:
            until(f"{self.name} to serve", serves, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None


def nodes(test: unittest.TestCase, names: str, **options: Any) -> list[OurNode]:
    """Nodes with these names, not started; each is ended after the test."""
    home = scratch(test)
    ports = reserve_ports(3)
    made = []
    for number, name in enumerate(names.split()):
        node = OurNode(home, name, f"127.0.0.{number + 1}", ports, **options)
        test.addCleanup(node.kill)
        made.append(node)
    return made


def cluster(test: unittest.TestCase, names: str, **options: Any) -> list[OurNode]:
    """Nodes that serve as one cluster, joined by token."""
    made = nodes(test, names, **options)
    join_all(made)
    return made


def join_all(made: list[OurNode]) -> None:
    """Start nodes; the first is joined by the others, by token."""
    first, *others = made
    first.up()
    for node in others:
        token = first.token()
        node.start()
        until(f"{node.name} to answer", node.members)
        node.command("join", token, check=True)


def do_all_vote(made: list[OurNode]) -> bool:
    """Whether all of them have votes, and nobody else, by the disk of each."""
    names = sorted(node.name for node in made)
    for node in made:
        path = os.path.join(node.root, "var/cache/salt/master/saltwisted/claims.sqlite")
        with closing(sqlite3.connect(path)) as db:
            electorate = claims.read(db).electorate
        if electorate is None or electorate.changes:
            return False
        if [seat.node for seat in electorate.seats()] != names:
            return False
    return True


def let_all_vote(made: list[OurNode]) -> None:
    """
    Have nodes that serve as one cluster all vote on claims, as they do a minute or two after they
    have joined: what would be on their disks by then is written there.
    """
    for node in made:
        node.stop()
    paths = [os.path.join(n.root, "var/cache/salt/master/saltwisted/claims.sqlite") for n in made]
    seats = []
    for node, path in zip(made, paths, strict=True):
        with closing(sqlite3.connect(path)) as db:
            (owner,) = db.execute("SELECT value FROM meta WHERE name = 'owner'").fetchone()
        seats.append(Seat(node.name, owner.rpartition("/")[2]))
    for path in paths:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            claims.commit(db, [Adopt(evolve(found(seats), epoch=99)), Whole()])
    for node in made:
        node.start()
    for node in made:
        node.wait_serving()
        until(f"{node.name} to claim", lambda node=node: node.run("reactor.is_leader"))
