"""
Minion keys of real nodes: accepted once, revoked everywhere, whatever happens to a node meanwhile.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
import time

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import SaltwistedError
from saltwisted.wire.rsa import PrivateKey
from saltwisted.worker.control import ControlClient
from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, scratch, until


def listed(node: OurNode) -> dict[str, list[str]]:
    """The key directories of a node, without those that are empty."""
    found = {}
    for folder in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
        path = f"{node.pki}/{folder}"
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        if names:
            found[folder] = names
    return found


def signed_in(node: OurNode, minion_id: str, pub: str = "") -> None:
    """A pending key, as somebody copies it."""
    pub = pub or PrivateKey.generate(2048).public.pem + "\n"
    with open(f"{node.pki}/minions_pre/{minion_id}", "w") as file:
        file.write(pub)


class KeyTests(SynchronousTestCase):
    def everywhere(self, nodes: list[OurNode], wanted: dict[str, list[str]]) -> None:
        for node in nodes:
            until(f"{node.name} to show {wanted}", lambda node=node: listed(node) == wanted)

    def test_accepted_once_and_revoked_everywhere(self) -> None:
        """Accepted on one node it is on all; deleted on another it is on none."""
        nodes = a, b, c = cluster(self, "a b c")
        signed_in(b, "web1")
        self.everywhere([a, b, c], {"minions_pre": ["web1"]})

        said = a.command("salt-key", "-y", "-a", "web1", check=True)
        # It waits until the others have confirmed: what follows needs no patience
        self.assertEqual([listed(node) for node in nodes], [{"minions": ["web1"]}] * 3)
        self.assertEqual(said.stderr, "")

        c.command("salt-key", "-y", "-d", "web1", check=True)

        self.everywhere([a, b, c], {})

    def test_stalled_disk(self) -> None:
        """
        While the disk under the fact log takes no writes, an act is not reported as done, and the
        node is not well; when the disk is back the act holds everywhere.
        """
        a, b = cluster(self, "a b")
        signed_in(a, "web1")
        a.command("salt-key", "-y", "-a", "web1", check=True)
        disk = sqlite3.connect(f"{a.pki}/cluster/facts.sqlite", isolation_level=None)
        self.addCleanup(disk.close)
        disk.execute("BEGIN IMMEDIATE")

        said = a.command("salt-key", "-y", "-d", "web1")

        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertIn("unknown: ", said.stdout + said.stderr)
        self.assertNotIn("web1 deleted", said.stdout)
        sick = a.command("status")
        self.assertEqual(sick.returncode, 3, sick.stdout)
        self.assertIn("facts: ", sick.stdout)
        refused = a.command("token", "create")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("not done: ", (refused.stdout + refused.stderr).lower())
        self.assertEqual(listed(b), {"minions": ["web1"]})

        disk.execute("ROLLBACK")

        self.everywhere([a, b], {})
        until("all to be well", lambda: a.command("status").returncode == 0)

    def test_stalled_disk_and_a_kill(self) -> None:
        """An act that was told to be unknown may be gone after a kill, alike on all nodes."""
        a, b = cluster(self, "a b")
        signed_in(a, "web1")
        a.command("salt-key", "-y", "-a", "web1", check=True)
        disk = sqlite3.connect(f"{a.pki}/cluster/facts.sqlite", isolation_level=None)
        self.addCleanup(disk.close)
        disk.execute("BEGIN IMMEDIATE")
        said = a.command("salt-key", "-y", "-d", "web1")
        self.assertEqual(said.returncode, 1, said.stdout)

        a.kill()
        disk.execute("ROLLBACK")
        a.up()

        self.everywhere([a, b], {"minions": ["web1"]})

    def test_away(self) -> None:
        """A node that was down when a key was deleted knows it before it serves."""
        a, b = cluster(self, "a b")
        for name in ("web1", "web2"):
            signed_in(a, name)
        self.everywhere([a, b], {"minions_pre": ["web1", "web2"]})
        a.command("salt-key", "-y", "-A", check=True)
        self.everywhere([a, b], {"minions": ["web1", "web2"]})
        b.kill()

        said = a.command("salt-key", "-y", "-d", "web1", check=True)
        self.assertIn("Not confirmed yet by: b", said.stderr)
        b.up()

        self.assertEqual(listed(b), {"minions": ["web2"]})

    def test_directory_lost(self) -> None:
        """The key directory of a node is removed while it is down: nobody is revoked."""
        a, b = cluster(self, "a b")
        names = [f"web{number:02}" for number in range(12)]
        for name in names:
            signed_in(a, name)
        self.everywhere([a, b], {"minions_pre": names})
        a.command("salt-key", "-y", "-A", check=True)
        self.everywhere([a, b], {"minions": names})
        b.kill()
        shutil.rmtree(f"{b.pki}/minions")

        b.up()

        self.everywhere([a, b], {"minions": names})
        self.assertIn("restores them from the cluster's log", b.tail())

    def test_log_lost(self) -> None:
        """The log of a node is lost: the others fill it, and no key changes."""
        a, b = cluster(self, "a b")
        signed_in(a, "web1")
        self.everywhere([a, b], {"minions_pre": ["web1"]})
        b.command("salt-key", "-y", "-A", check=True)
        b.kill()
        for suffix in ("", "-wal", "-shm"):
            path = f"{b.pki}/cluster/facts.sqlite{suffix}"
            if os.path.exists(path):
                os.unlink(path)
        a.command("salt-key", "-y", "-d", "web1", check=True)

        b.up()

        self.everywhere([a, b], {})

    def test_stopped_process(self) -> None:
        """
        A node that was stopped while a key was deleted elsewhere does not serve that minion when
        it goes on, though its request had waited in the socket.
        """
        a, b = cluster(self, "a b")
        home = scratch(self)
        minion = OurMinion(home, b, "web1")
        self.addCleanup(minion.kill)
        minion.start()
        until("the pending key", lambda: listed(a) == {"minions_pre": ["web1"]})
        a.command("salt-key", "-y", "-A", check=True)
        until("it to answer", lambda: a.salt("-t", "5", "web1", "test.ping") == {"web1": True})
        assert b.process is not None
        b.process.send_signal(signal.SIGSTOP)
        try:
            a.command("salt-key", "-y", "-d", "web1", check=True)
            time.sleep(6)  # the gap itself is what is tested: over five seconds
        finally:
            b.process.send_signal(signal.SIGCONT)

        until("b to have it deleted", lambda: "minions" not in listed(b))

        self.assertIn("stood still", b.tail())

    def test_while_it_leaves(self) -> None:
        """
        Of what a node is given while it leaves, all that it calls done is done everywhere; and
        what it refuses is left as it was. Another member is slow, so that it takes seconds.
        """
        a, b, c = cluster(self, "a b c")
        names = [f"web{number:02}" for number in range(40)]
        pub = PrivateKey.generate(2048).public.pem + "\n"
        for name in names:
            signed_in(b, name, pub)
        self.everywhere([a, c], {"minions_pre": names})
        accepted: list[str] = []
        refused: list[str] = []

        def work(names: list[str]) -> None:
            with ControlClient(path=b.socket_path, timeout=30.0) as client:
                for name in names:
                    try:
                        said = client.call("wheel", fun="key.accept", kwarg={"match": name})
                    except SaltwistedError as error:
                        said = {"success": False, "return": str(error)}
                    if not said["success"]:
                        refused.append(str(said["return"]))
                        return
                    accepted.append(name)

        assert c.process is not None
        c.process.send_signal(signal.SIGSTOP)
        self.addCleanup(c.process.send_signal, signal.SIGCONT)
        # Each is told after two seconds that c has not confirmed; some begin at any moment
        operators = [
            threading.Thread(target=work, args=[names[first::8]], daemon=True) for first in range(8)
        ]
        for operator in operators:
            operator.start()
            time.sleep(0.25)
        until("a first key", lambda: accepted)

        b.command("leave", check=True)

        for operator in operators:
            operator.join(60)
        c.process.send_signal(signal.SIGCONT)
        rest = [name for name in names if name not in accepted]
        self.everywhere([a, c], {"minions": sorted(accepted), "minions_pre": rest})
        self.assertIn("is leaving its cluster, and no member accepts changes", " ".join(refused))

    def test_node_does_not_run(self) -> None:
        """On a node that does not run keys are listed, and not changed: that would be undone."""
        a, b = cluster(self, "a b")
        signed_in(a, "web1")
        self.everywhere([a, b], {"minions_pre": ["web1"]})
        b.kill()

        shown = b.command("salt-key", "-L", check=True)
        refused = b.command("salt-key", "-y", "-a", "web1")

        self.assertIn("web1", shown.stdout)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("another member", refused.stdout)
        self.assertEqual(listed(b), {"minions_pre": ["web1"]})
