"""
Real nodes that are killed while git works for them, and remotes that do not answer.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import TransportClosed
from tests.cluster.gitrig import GitNodesCase, below, parent, words
from tests.cluster.real import OurNode
from tests.harness import OurMaster, scratch, until

HALF = 200_000
"""Bytes of a pack after which a remote says nothing more."""
LARGE = 64 << 20
"""Bytes of a pack that takes some time from node to node."""


class KillTests(GitNodesCase):
    """SIGKILL in the middle of everything."""

    def begun(self, node: OurNode, *remotes: str) -> threading.Thread:
        """Have a node update, whatever comes of it."""

        def update() -> None:
            # Who is asked may be killed
            with_it: Any = Exception
            try:
                self.update(node, *remotes)
            except with_it:
                pass

        thread = threading.Thread(target=update, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 60)
        return thread

    def test_in_the_middle(self) -> None:
        """
        Killed in the middle of a fetch: the node itself, then a worker alone; and in the middle of
        a pack from a peer. Each time what was served before is served at once after the restart,
        what had come is thrown away, another node fetches, and no lock is left that stops updates.
        """
        made = self.cluster()
        self.serve(made, self.first)
        second = self.fetching_node(made)
        third = self.worker(made, second)
        self.receiving_node(made, third)

    def fetching_node(self, made: list[OurNode]) -> str:
        """The node that fetches dies when half has come; the commit that all serve then."""
        holder = self.holder(made)
        others = [node for node in made if node is not holder]
        commit = self.push(self.states, {"big": os.urandom(4 * HALF)})
        self.relay.hold(HALF)
        before = self.relay.passed
        self.begun(holder, self.url)
        self.wait_fetching(holder, lambda: self.relay.passed >= before + HALF)
        self.assertNotEqual(self.litter(holder, "quarantine-"), [])

        holder.kill()
        self.assertNotEqual(self.litter(holder, "quarantine-"), [])
        self.assertEqual({self.commit(node) for node in others}, {self.first})
        self.relay.hold(None)
        self.holder(others)
        told = self.update(others[0], self.url)[self.url]
        self.assertEqual(told["refs"], {"refs/remotes/origin/master": commit})
        self.serve(others, commit)

        holder.start()
        until("the old commits, or those after them", lambda: self.commit(holder), every=0.01)
        holder.wait_serving()
        self.serve([holder], commit)
        self.assertEqual(self.litter(holder, "quarantine-"), [])
        return commit

    def worker(self, made: list[OurNode], served: str) -> str:
        """The worker that fetches dies, and git with it; the next update is whole."""
        holder = self.holder(made)
        commit = self.push(self.states, {"big": os.urandom(4 * HALF)})
        self.relay.hold(HALF)
        before = self.relay.passed
        thread = self.begun(holder, self.url)
        git = self.wait_fetching(holder, lambda: self.relay.passed >= before + HALF)
        worker = parent(git[0])
        self.assertNotIn(worker, (holder.pid, 1))

        os.kill(worker, signal.SIGKILL)
        until("git to end with its worker", lambda: all(words(pid) == [b""] for pid in git))
        # Others may fetch for the one that could not
        self.relay.hold(None)
        thread.join(60)
        self.assertTrue(all(self.commit(node) in (served, commit) for node in made))
        told = self.update(holder, self.url)[self.url]
        self.assertNotIn("error", told)
        self.serve(made, commit)
        self.assertEqual(self.litter(holder, "quarantine-"), [])
        return commit

    def receiving_node(self, made: list[OurNode], served: str) -> None:
        """A node dies that gets a pack from another one."""
        holder = self.holder(made)
        victim = next(node for node in made if node is not holder)
        commit = self.push(self.states, {"big": os.urandom(LARGE)})
        self.begun(holder, self.url)
        until("a pack on its way", lambda: self.litter(victim, "incoming-"), every=0.001)
        victim.kill()
        self.assertNotEqual(self.litter(victim, "incoming-"), [], "it had come already")

        rest = [node for node in made if node is not victim]
        self.serve(rest, commit)
        victim.start()
        until("the old commits, or those after them", lambda: self.commit(victim), every=0.01)
        self.serve([victim], commit)
        self.assertEqual(self.litter(victim, "quarantine-", "incoming-"), [])
        self.assertEqual(self.read(victim, "a"), "1")


class DeafTests(GitNodesCase):
    """A remote that takes connections and never answers."""

    def defaults(self) -> dict[str, Any]:
        """A fetch has two seconds."""
        return {**super().defaults(), "gitfs_timeout": 2}

    def test_black_hole(self) -> None:
        """
        It is given up in time, on each node that tries it, and told; meanwhile the other remote is
        fetched and files are served, on all nodes (pains-next 3.10).
        """
        made = self.cluster()
        self.serve(made, self.first)
        holder = self.holder(made)
        self.relay.hold(0)
        told: dict[str, Any] = {}
        thread = threading.Thread(target=lambda: told.update(self.update(holder, self.url)))
        thread.start()
        self.addCleanup(thread.join, 60)
        self.wait_fetching(holder, lambda: True)

        commit = self.push(self.more, {"beside": b"2"})
        began = time.monotonic()
        found = self.update(made[-1], self.other)[self.other]
        took = time.monotonic() - began
        self.assertEqual(found["nodes"], dict.fromkeys("abc", True))
        self.assertTrue(thread.is_alive(), f"the other remote took {took:.1f} s")
        self.serve(made, commit, self.other)
        thread.join(60)

        self.assertIn("git did not finish within 2 s", told[self.url]["error"])
        self.assertEqual(told[self.url]["refs"], {"refs/remotes/origin/master": self.first})
        for node in made:
            until(
                f"{node.name} to say it",
                lambda node=node: "not finish" in self.said(node)["remotes"][self.url]["error"],
            )
            self.assertEqual([pid for pid in below(node.pid) if words(pid)[0] == b"git"], [])
        self.relay.hold(None)
        self.assertNotIn("error", self.update(made[0], self.url)[self.url])


class FirstStartTests(TestCase):
    """A master alone, whose only remote takes a connection and says nothing."""

    timeout = 120

    def test_named(self) -> None:
        """
        While the first start waits for it, commands are answered and name it, and no minion is
        answered; then the master serves without it, and still names it.
        """
        deaf = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(deaf.close)
        url = f"git://127.0.0.1:{deaf.getsockname()[1]}/states.git"
        options = {"fileserver_backend": ["roots", "git"], "gitfs_remotes": [url]}
        master = OurMaster(scratch(self), **options)
        self.addCleanup(master.kill)

        def told() -> dict[str, Any]:
            try:
                found: dict[str, Any] = master.ask("status")
            except (TransportClosed, OSError):
                return {}
            return found if "not fetched yet" in found["problems"].get("git", "") else {}

        master.start()
        first = until("status to name it", told)
        self.assertEqual(first["serving"], False)
        self.assertRaises(OSError, socket.create_connection, ("127.0.0.1", master.ret_port))
        master.serving()
        self.assertIn(url, told()["problems"]["git"])
