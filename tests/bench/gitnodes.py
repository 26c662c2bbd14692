"""
Three nodes with a git remote: how long after a push each of them serves it.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import time
import unittest
from typing import Any

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, join_all, nodes
from tests.gitrepos import Repo
from tests.harness import reserve_ports, until, write_config

MASTER = "refs/remotes/origin/master"
PUSHES = 10
SECRET = "a secret of sixteen"


def section(bench: Any) -> None:
    """Pushes that a hook tells one node of, and pushes with C{roots update --wait} on one."""
    case = unittest.TestCase()
    try:
        repo = Repo(os.path.join(bench.home, "three"))
        first = repo.commit({"a": b"1"})
        (port,) = reserve_ports(1)
        made = nodes(
            case,
            "a b c",
            log_level="warning",
            fileserver_backend=["git"],
            gitfs_remotes=[repo.url],
            gitfs_update_interval=3600,
            gitfs_webhook_secret=SECRET,
        )
        for node in made:
            api = {"port": port, "host": node.address, "disable_ssl": True}
            write_config(os.path.join(node.conf, "master"), {**node.options, "rest_cherrypy": api})
        join_all(made)
        for node in made:
            _until_served(repo.url, node, first)
        for way in ("hook", "update --wait"):
            worst, said = [], []
            for number in range(PUSHES):
                # Each node hears of some
                node = made[number % len(made)]
                commit = repo.commit({"a": f"{way} {number}".encode()})
                pushed = time.monotonic()
                if way == "hook":
                    _hook(node, port, repo.url)
                else:
                    node.command("roots", "update", "--wait", check=True)
                    said.append(time.monotonic() - pushed)
                took = [_until_served(repo.url, each, commit) - pushed for each in made]
                worst.append(max(took))
                # Fetches by hooks begin a second apart
                time.sleep(max(1.5 - (time.monotonic() - pushed), 0))
            bench.put(f"git: push to visible on three nodes by {way}, s", statistics.median(worst))
            bench.put(f"git: the same by {way}, worst, s", max(worst))
        bench.put("git: roots update --wait, s", statistics.median(said))
    finally:
        case.doCleanups()


def _until_served(url: str, node: OurNode, commit: str) -> float:
    """Wait until a node serves a commit; when that was seen."""

    def serves() -> bool:
        try:
            remotes = node.ask("status")["git"]["remotes"]
        except (RemoteError, TransportClosed, OSError):
            return False
        return bool(remotes.get(url, {}).get("refs", {}).get(MASTER) == commit)

    until(f"{node.name} to serve {commit[:8]}", serves, every=0.005)
    return time.monotonic()


def _hook(node: OurNode, port: int, url: str) -> None:
    """Tell a node of a push, as GitLab does."""
    body = json.dumps({"ref": "refs/heads/master", "repository": {"clone_url": url}})
    headers = {"Content-Type": "application/json", "X-Gitlab-Token": SECRET}
    client = http.client.HTTPConnection(node.address, port, timeout=30)
    try:
        client.request("POST", "/hook/git", body, headers)
        status = client.getresponse().status
        assert status == 200, status
    finally:
        client.close()
