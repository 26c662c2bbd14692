"""
A real etcd for tests: Debian's C{etcd-server}, on ports and in a directory of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import unittest
import urllib.request
from typing import Any

from saltwisted.testing.ports import reserve_ports
from tests.harness import PEERS, Daemon, scratch


def needs_etcd(test: Any) -> Any:
    """Skip a test class where there is no etcd; where the peers are named it has to be there."""
    if PEERS or shutil.which("etcd"):
        return test
    return unittest.skip("etcd-server is not installed")(test)


class Etcd:
    """One member, alone."""

    def __init__(self, test: Any, *more: str, scheme: str = "http") -> None:
        program = shutil.which("etcd")
        if program is None:
            raise AssertionError("etcd-server is not installed")
        client, peer = reserve_ports(2)
        self.url = f"{scheme}://127.0.0.1:{client}"
        there = f"http://127.0.0.1:{peer}"
        home = scratch(test)
        argv = [
            *(program, "--name", "one", "--data-dir", os.path.join(home, "data")),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", there, "--initial-advertise-peer-urls", there),
            *("--initial-cluster", f"one={there}", *more),
        ]
        self.daemon = Daemon("etcd", argv, home)
        test.addCleanup(self.daemon.kill)

    def start(self) -> Etcd:
        """And wait until it says that it serves."""
        self.daemon.start()
        self.daemon.wait_for_line("ready to serve client requests")
        return self

    def post(self, path: str, token: str = "", **body: Any) -> Any:
        """Ask it by hand; blocks."""
        headers = {"Authorization": token} if token else {}
        asked = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)
