"""
A node that does not answer minions yet says so wherever somebody asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from tests.cluster.real import OurNode, cluster, join_all, nodes
from tests.harness import until
from tests.nemesis.disk import Disk

SIZE = 96 << 20


def answers(node: OurNode, port: int) -> bool:
    """Whether somebody listens on a port of a node."""
    try:
        socket.create_connection((node.address, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


class WaitingTests(SynchronousTestCase):
    """Node C{b} joins, and the roots of C{a} take their time."""

    def setUp(self) -> None:
        self.a, self.b = nodes(self, "a b")
        Path(self.a.file_root, "large").write_bytes(os.urandom(SIZE))
        self.a.up()
        until("the first generation", lambda: "large" in self.listed())

    def listed(self) -> str:
        """What the first node serves."""
        return self.a.command("salt-run", "fileserver.file_list").stdout

    def state(self, node: OurNode) -> dict[str, Any]:
        """What a node says of itself; nothing while it is between two phases."""
        client = ControlClient(path=node.socket_path, timeout=5.0)
        try:
            return dict(client.call("members"))
        except (TransportClosed, RemoteError, TimeoutError):
            return {}
        finally:
            client.close()

    def stop_in_the_middle(self) -> None:
        """The first node stands still while the second one has a part of its roots."""
        cluster = self.state(self.a)["cluster"]
        self.b.start()
        until("b to answer", self.b.members)
        token = self.a.token()
        self.b.command("join", "--no-wait", token, check=True)

        def waits() -> bool:
            state = self.state(self.b)
            if state.get("cluster") != cluster:
                return False
            # Serving is that both ports answer, at any moment
            if state.get("ready"):
                self.assertTrue(answers(self.b, self.b.publish_port), state)
                self.assertTrue(answers(self.b, self.b.ret_port), state)
                raise AssertionError(f"too fast to be seen: {state}")
            return "it waits for roots: file/base/0" in str(state.get("problem"))

        until("b to wait for roots", waits, every=0.01)
        self.a.freeze()
        self.addCleanup(self.a.thaw)

    def test_says_so(self) -> None:
        """C{members}, C{status} and C{doctor} name the roots; the ports are closed."""
        self.stop_in_the_middle()

        members = self.b.command("members")
        status = self.b.command("status", "--role", "cluster", "--json")
        doctor = json.loads(self.b.command("doctor", "--json").stdout)

        self.assertEqual(members.returncode, 3, members.stdout)
        said = "not serving: it waits for roots: file/base/0"
        self.assertIn(said, members.stdout)
        self.assertEqual(status.returncode, 3, status.stdout)
        self.assertIn(said, status.stdout)
        self.assertIn(said, str([one["text"] for one in doctor["findings"]]))
        self.assertFalse(answers(self.b, self.b.ret_port))
        self.assertFalse(answers(self.b, self.b.publish_port))
        self.a.thaw()
        self.b.wait_serving()
        self.assertTrue(answers(self.b, self.b.ret_port))

    def test_progress(self) -> None:
        """On a terminal C{join} shows how many files and bytes of the roots have come."""
        token = self.a.token()
        self.b.start()
        until("b to answer", self.b.members)
        ours, terminal = os.openpty()
        self.addCleanup(os.close, ours)
        os.set_blocking(ours, False)
        self.addCleanup(self.a.thaw)
        shown = bytearray()

        def seen(words: bytes) -> bool:
            with contextlib.suppress(BlockingIOError, OSError):
                shown.extend(os.read(ours, 65536))
            return words in shown

        def comes() -> bool:
            state = self.state(self.b)
            if state.get("ready") and len(state["members"]) == 2:
                raise AssertionError(f"too fast to be seen: {state}")
            return any(row.get("bytes") for row in state.get("work", ()))

        with subprocess.Popen(
            [sys.executable, "-m", "saltwisted.cli.main", "join", "-c", self.b.conf, token],
            env={**self.b.env, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
        ) as process:
            os.close(terminal)
            until("a part of the file", comes, every=0.005)
            self.a.freeze()

            until("the line", lambda: seen(b" MiB of 96.0 MiB"))
            self.a.thaw()
            until("its end", lambda: seen(b"\r\x1b[K") and process.poll() is not None)
            assert process.stdout is not None
            said = process.stdout.read()

        self.assertEqual(process.returncode, 0, said)
        self.assertIn(b"file/base/0: 0 of 1 files fetched from a, ", shown)
        self.assertIn("It serves minions. Members: a, b", said)

    def test_service_manager(self) -> None:
        """The service manager hears why, is asked for time, and of readiness with the ports."""
        self.stop_in_the_middle()
        self.b.kill()
        path = os.path.join(self.b.root, "notify")
        heard: list[str] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.setblocking(False)
            self.b.env["NOTIFY_SOCKET"] = path

            def said(word: str) -> bool:
                while True:
                    try:
                        heard.extend(manager.recv(4096).decode().splitlines())
                    except BlockingIOError:
                        return any(line.startswith(word) for line in heard)

            self.b.start()
            until("the reason", lambda: said("STATUS=not serving yet: it is fetching"), every=0.05)
            self.assertTrue(said("EXTEND_TIMEOUT_USEC="), heard)
            self.assertFalse(said("READY=1"), heard)
            self.a.thaw()
            until("readiness", lambda: said("READY=1"), every=0.05)
            self.assertTrue(answers(self.b, self.b.ret_port))
            until("the line", lambda: said("STATUS=serving"), every=0.05)


class NewTests(SynchronousTestCase):
    """A node whose disk is empty: new, or one that has lost it."""

    def assert_serves_nobody(self, node: OurNode) -> None:
        """It is there, says what it waits for, and has neither ports nor an identity."""
        until(f"{node.name} to be called", lambda: "lost its disk" in node.text())
        status = node.command("status", "--role", "cluster")
        self.assertEqual(status.returncode, 2, status.stdout)
        self.assertIn("saltwisted join -", status.stdout)
        self.assertNotIn("cluster init", status.stdout, "that would be a second cluster")
        for port in (node.publish_port, node.ret_port):
            self.assertFalse(answers(node, port))
        self.assertFalse(os.path.exists(os.path.join(node.pki, "master.pem")))

    def test_first(self) -> None:
        """A new node that nobody knows is the first of a cluster; one that is told so, at once."""
        a, b = nodes(self, "a b")
        for node in (a, b):
            shutil.rmtree(node.pki)
        a.start()
        b.command("cluster", "init", check=True)
        b.start()

        b.wait_serving()
        a.wait_serving()

        keys = [Path(node.pki, "master.pub").read_bytes() for node in (a, b)]
        self.assertNotEqual(keys[0], keys[1])

    def wipe(self, node: OurNode) -> None:
        """Its disk is lost; its address is not."""
        shutil.rmtree(node.pki)
        shutil.rmtree(os.path.join(node.root, "var"))

    def test_wiped(self) -> None:
        """
        A node that comes back to its address with an empty disk answers no minion with a key that
        is not the cluster's; it joins by a token as any other.
        """
        a, b = cluster(self, "a b")
        b.kill()
        self.wipe(b)
        b.start()
        self.assert_serves_nobody(b)

        refused = b.command("join", a.token())
        self.assertIn("saltwisted remove b", refused.stderr)
        self.assert_serves_nobody(b)
        a.command("remove", "b", check=True)
        b.command("join", a.token(), check=True)
        b.wait_serving()

        keys = [Path(node.pki, "master.pub").read_bytes() for node in (a, b)]
        self.assertEqual(keys[0], keys[1])


class FullTests(SynchronousTestCase):
    """A member whose cache lies on a small disk of its own."""

    def test_full(self) -> None:
        """
        A member whose disk is full says so in C{members}, C{status} (3) and C{doctor}, and the
        other member's say it too; once there is room again, all are well.
        """
        if os.geteuid() != 0:
            raise SkipTest("only root may mount a file system of our own")
        _, b = made = nodes(self, "a b")
        disk = Disk(os.path.join(b.root, "var/cache/salt"), "master")
        disk.make()
        self.addCleanup(disk.remove)
        self.addCleanup(b.kill)
        join_all(made)
        for node in made:
            node.wait_serving()
        disk.fill()

        b.command("salt-run", "test.arg", "x" * 30_000)

        for node in made:
            until(
                "members",
                lambda node=node: "b is degraded: jobs: " in node.command("members").stdout,
            )
            status = node.command("status", "--role", "cluster")
            self.assertEqual(status.returncode, 3, status.stdout)
            self.assertIn("full", status.stdout)
            self.assertIn("full", node.command("doctor", "--json").stdout)
        disk.empty()
        b.command("salt-run", "test.arg", "1")
        for node in made:
            until("all to be well", lambda node=node: node.command("status").returncode == 0)
