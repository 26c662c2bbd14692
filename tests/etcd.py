"""
A real etcd for tests: Debian's C{etcd-server}, on ports and in a directory of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import unittest
import urllib.request
from collections.abc import Sequence
from typing import Any

from saltwisted.testing.ports import reserve_ports
from tests.certificates import Authority
from tests.harness import PEERS, Daemon, scratch


def needs_etcd(test: Any) -> Any:
    """Skip a test class where there is no etcd; where the peers are named it has to be there."""
    if PEERS or shutil.which("etcd"):
        return test
    return unittest.skip("etcd-server is not installed")(test)


def with_tls(authority: Authority) -> list[str]:
    """Options of an etcd that shows a certificate for 127.0.0.1, and wants one of who asks."""
    shown = authority.issue("etcd", "127.0.0.1")
    return [
        *("--cert-file", shown["certfile"], "--key-file", shown["keyfile"]),
        *("--client-cert-auth", "--trusted-ca-file", authority.ca),
    ]


class Etcd:
    """One member, alone."""

    def __init__(
        self,
        test: Any,
        *more: str,
        scheme: str = "http",
        name: str = "one",
        ports: Sequence[int] = (),
        members: str = "",
    ) -> None:
        """
        @param more: options of etcd.
        @param ports: for clients and for other members.
        @param members: all of them, C{name=address,...}.
        """
        program = shutil.which("etcd")
        if program is None:
            raise AssertionError("etcd-server is not installed")
        client, peer = ports or reserve_ports(2)
        self._starts = 0
        self.url = f"{scheme}://127.0.0.1:{client}"
        there = f"http://127.0.0.1:{peer}"
        home = scratch(test)
        argv = [
            *(program, "--name", name, "--data-dir", os.path.join(home, "data")),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", there, "--initial-advertise-peer-urls", there),
            *("--initial-cluster", members or f"{name}={there}", *more),
        ]
        self.daemon = Daemon("etcd", argv, home)
        test.addCleanup(self.daemon.kill)

    def start(self) -> Etcd:
        """And wait until it says that it serves."""
        self.launch()
        return self.serving()

    def launch(self) -> None:
        """Only start it."""
        self._starts += 1
        self.daemon.start()

    def serving(self) -> Etcd:
        """Wait until it says so, of this start."""
        self.daemon.wait_for_line("ready to serve client requests", times=self._starts)
        return self

    def post(self, path: str, token: str = "", **body: Any) -> Any:
        """Ask it by hand; blocks."""
        headers = {"Authorization": token} if token else {}
        asked = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)


def etcd_of_three(test: Any, *more: str, scheme: str = "http") -> list[Etcd]:
    """Members of one etcd, which serve."""
    ports = reserve_ports(6)
    names = ("one", "two", "three")
    peers = dict(zip(names, ports[3:], strict=True))
    members = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in peers.items())
    made = [
        Etcd(test, *more, scheme=scheme, name=name, ports=(client, peers[name]), members=members)
        for name, client in zip(names, ports, strict=False)
    ]
    # None serves before most of them are there
    for each in made:
        each.launch()
    return [each.serving() for each in made]
