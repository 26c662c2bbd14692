"""
Real nodes: a token made on one is good on the others, also when that one is dead.
"""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError
from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, scratch, until


class LoginTests(TestCase):
    """Three nodes with one file of users each alike, and a minion that knows all of them."""

    timeout = 600

    def call(self, node: OurNode, op: str, **args: Any) -> Any:
        """One call on the control socket of a node; C{None} when it is refused."""
        client = node.control()
        try:
            return client.call(op, **args)
        except RemoteError as error:
            self.refused = error.message
            return None
        finally:
            client.close()

    def good_on(self, node: OurNode, token: str) -> bool:
        """Whether a node honours it."""
        job = self.call(node, "match", tgt="*", kwargs={"token": token})
        return job is not None

    def test_one_login_for_all(self) -> None:
        """A token from A runs a job on B after A was killed; a deletion on C holds on A again."""
        users = os.path.abspath(self.mktemp())
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\n")
        auth = {"file": {"^filename": users, "fred": ["test.*"]}}
        a, b, c = nodes = cluster(
            self, "a b c", auto_accept=True, external_auth=auth, sharedsecret="hushhush"
        )
        minion = OurMinion(scratch(self), b, "m1")
        self.addCleanup(minion.kill)
        minion.up()
        until("the minion to answer", lambda: "True" in a.command("salt", "m1", "test.ping").stdout)

        words = [
            json.loads(
                a.command(
                    "salt-run",
                    "auth.mk_token",
                    "eauth=file",
                    "username=fred",
                    "password=secret",
                    "--out",
                    "json",
                    check=True,
                ).stdout
            )["token"]
            for _ in range(2)
        ]
        # Made means: known to all that can be reached
        for node in nodes:
            self.assertTrue(self.good_on(node, words[0]), node.name)
        a.kill()
        b.env["HOME"] = self._home(words[0])
        done = b.command("salt", "-a", "file", "m1", "test.ping", "--out", "json", "--static")
        self.assertEqual(json.loads(done.stdout or "null"), {"m1": True}, done.stderr)

        deleted = c.command("salt-run", "auth.del_token", words[0], "--out", "json")
        self.assertEqual(json.loads(deleted.stdout), True, deleted.stderr)
        self.assertFalse(self.good_on(b, words[0]))
        self.assertIn("Authentication error occurred.", self.refused)
        a.up()
        self.assertFalse(self.good_on(a, words[0]))
        self.assertTrue(self.good_on(a, words[1]), "after a restart too")
        self._stored_nowhere(nodes, words)

        # Removing a node ends every token that it could have made
        a.command("remove", "c", check=True)
        self.assertFalse(self.good_on(a, words[1]))
        until("b to follow", lambda: not self.good_on(b, words[1]))

    def _home(self, token: str) -> str:
        """A home with a token in Salt's place for it."""
        home = os.path.abspath(self.mktemp())
        os.mkdir(home, 0o700)
        with open(os.path.join(home, "salt_token"), "w", encoding="ascii") as file:
            file.write(token)
        return home

    def _stored_nowhere(self, nodes: list[OurNode], words: list[str]) -> None:
        for node in nodes:
            for folder, _, files in os.walk(node.root):
                for name in files:
                    path = os.path.join(folder, name)
                    if not os.path.isfile(path):
                        continue
                    with open(path, "rb") as file:
                        data = file.read()
                    for word in words:
                        self.assertNotIn(word.encode(), data, path)
                        self.assertNotIn(word, path)
                    self.assertNotIn(b"password=secret", data, path)
                    if name.startswith("facts") or name.endswith(".token"):
                        self.assertEqual(os.stat(path).st_mode & 0o077, 0, path)
