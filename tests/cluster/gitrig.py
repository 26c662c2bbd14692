"""
Three real nodes with git remotes that can be made slow, dumb or deaf at any moment.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.gitrepos import ENVIRON, Repo
from tests.harness import Daemon, reserve_ports, scratch, until

MASTER = "refs/remotes/origin/master"


class Relay:
    """
    Stands between nodes and a git server, on loopback.

    @ivar limit: bytes after which what comes from the server is held back, for each connection;
        C{None} for never. With 0 it takes connections and says nothing.
    @ivar passed: bytes of the server that have gone through.
    @ivar taken: how many connections there were.
    """

    def __init__(self, test: Any, port: int) -> None:
        self._to = port
        self.limit: int | None = None
        self.passed = self.taken = 0
        self._change = threading.Condition()
        self._closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        test.addCleanup(self.close)

    def hold(self, limit: int | None) -> None:
        """Hold back what comes after so many bytes of a connection; C{None} lets all go on."""
        with self._change:
            self.limit = limit
            self._change.notify_all()

    def close(self) -> None:
        """End it, and all that goes through it."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._end(self._listening)
        for each in self._sockets:
            self._end(each)
        for thread in self._threads:
            thread.join(30)

    def _end(self, each: socket.socket) -> None:
        # A thread that waits for it is woken by this alone
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.taken += 1
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for source, target, is_held in ((client, server, False), (server, client, True)):
                thread = threading.Thread(
                    target=self._copy, args=(source, target, is_held), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _copy(self, source: socket.socket, target: socket.socket, is_held: bool) -> None:
        sent = 0
        try:
            while data := source.recv(16384):
                while data:
                    part = data[: self._room(sent)] if is_held else data
                    target.sendall(part)
                    data, sent = data[len(part) :], sent + len(part)
                    if is_held:
                        self.passed += len(part)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _room(self, sent: int) -> int:
        """How many bytes may go on now; waits while there are none."""
        with self._change:
            while not self._closed and self.limit is not None and sent >= self.limit:
                self._change.wait()
            if self._closed:
                raise OSError("closed")
            return 16384 if self.limit is None else self.limit - sent


class GitNodesCase(TestCase):
    """
    Three nodes, a C{git daemon} with the repositories C{states} and C{more}, and a relay before
    each of these.
    """

    timeout = 900
    options: dict[str, Any] = {}

    def setUp(self) -> None:
        """Make the repositories; no node is started."""
        self.home = scratch(self)
        (port,) = reserve_ports(1)
        argv = ["git", "daemon", "--reuseaddr", "--export-all", f"--base-path={self.home}"]
        argv += ["--listen=127.0.0.1", f"--port={port}", self.home]
        self.daemon = Daemon("git-daemon", argv, self.home, ENVIRON)
        self.addCleanup(self.daemon.kill)
        self.daemon.start()
        self.states, self.more = self.made("states"), self.made("more")
        self.relay, self.beside = Relay(self, port), Relay(self, port)
        self.first = self.push(self.states, {"a": b"1"})
        self.push(self.more, {"beside": b"1"})
        self.url = f"git://127.0.0.1:{self.relay.port}/states.git"
        self.other = f"git://127.0.0.1:{self.beside.port}/more.git"

    def made(self, name: str) -> Repo:
        """A repository, and a bare one that is pushed to."""
        repo = Repo(f"{self.home}/{name}")
        bare = f"{self.home}/{name}.git"
        repo.git("init", "--quiet", "--bare", "--initial-branch", "master", bare)
        repo.git("remote", "add", "origin", bare)
        return repo

    def push(self, repo: Repo, files: dict[str, bytes]) -> str:
        """A commit that the remote has."""
        commit = repo.commit(files)
        repo.git("push", "--quiet", "--force", "origin", "master")
        return commit

    def cluster(self, vote: bool = True, **options: Any) -> list[OurNode]:
        """Three nodes that serve, each with a vote."""
        made = nodes(self, "a b c", **{**self.defaults(), **options})
        join_all(made)
        if vote:
            let_all_vote(made)
        return made

    def defaults(self) -> dict[str, Any]:
        """The options of a node."""
        return {
            "fileserver_backend": ["git"],
            "gitfs_remotes": [self.url, self.other],
            "gitfs_update_interval": 3600,
        }

    # -- what nodes say

    def said(self, node: OurNode) -> dict[str, Any]:
        """What a node says of git; empty while it does not answer."""
        try:
            found: dict[str, Any] = node.ask("status").get("git", {})
        except (RemoteError, TransportClosed, OSError):
            return {}
        return found

    def commit(self, node: OurNode, url: str = "") -> str:
        """What a node serves of a remote."""
        remote = self.said(node).get("remotes", {}).get(url or self.url, {})
        found: str = remote.get("refs", {}).get(MASTER, "")
        return found

    def serve(self, made: list[OurNode], commit: str, url: str = "") -> None:
        """Wait until all of them serve a commit."""
        for node in made:
            until(
                f"{node.name} to serve {commit[:8]}",
                lambda node=node: self.commit(node, url) == commit,
            )

    def holder(self, made: list[OurNode]) -> OurNode:
        """The one that fetches, as all of these say."""

        def agreed() -> str:
            said = {self.said(node).get("fetched_by", {}).get("git", "") for node in made}
            name = said.pop() if len(said) == 1 else ""
            return name if name in [node.name for node in made] else ""

        name = until("all to know who fetches", agreed)
        return next(node for node in made if node.name == name)

    def update(self, node: OurNode, *remotes: str) -> dict[str, Any]:
        """The answer of C{fileserver.update} on a node, by remote."""
        kwarg = {"remotes": list(remotes)} if remotes else {}
        call = {"fun": "fileserver.update", "arg": [], "kwarg": kwarg}
        found: dict[str, Any] = node.ask("runner", **call)["return"]["gitfs"]
        return found

    def read(self, node: OurNode, path: str, saltenv: str = "base") -> str:
        """What a node serves as a file."""
        code = f"salt://{path}"
        return str(node.run("salt.cmd", "cp.get_file_str", code, f"saltenv={saltenv}"))

    # -- what is on disks, and what runs

    def folders(self, node: OurNode) -> list[Path]:
        """The folders of its remotes."""
        top = Path(node.root, "var/cache/salt/master/saltwisted/git")
        return sorted(each for each in top.iterdir() if each.is_dir()) if top.is_dir() else []

    def litter(self, node: OurNode, *starts: str) -> list[str]:
        """What lies in these folders and begins like this."""
        return [
            each.name
            for folder in self.folders(node)
            for each in folder.iterdir()
            if each.name.startswith(starts)
        ]

    def fetching(self, node: OurNode) -> list[int]:
        """The processes of git that fetch for a node, or ask whether there is anything new."""
        return [
            pid
            for pid in below(node.pid)
            if words(pid)[0] == b"git" and {b"fetch", b"ls-remote"} & set(words(pid))
        ]

    def wait_fetching(self, node: OurNode, passed: Callable[[], bool]) -> list[int]:
        """Wait until a node fetches, and the remote has sent something."""

        def seen() -> list[int]:
            return self.fetching(node) if passed() else []

        found: list[int] = until(f"{node.name} to be in the middle of a fetch", seen, every=0.01)
        return found


def below(pid: int) -> list[int]:
    """The processes that one has started, and those that these have, and so on."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found, rest = [], [pid]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def words(pid: int) -> list[bytes]:
    """The arguments of a process; one that is empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def parent(pid: int) -> int:
    """The process that has started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
