"""
C{--dry-run}: an operation that says what would follow, and changes nothing on any disk.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError
from saltwisted.testing.cluster import LocalCluster, LocalNode

BESIDE = ("-wal", "-shm", ".lock", "log", "claims.sqlite")
"""
Ends of files that are no state of the operator's: what is in a journal is read with its database,
and votes on duties are renewed every few seconds, whoever asks for what.
"""


def contents(folder: str) -> Iterator[tuple[str, str]]:
    """Each file below a directory with a digest; of a database, that of all its rows."""
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            if name.endswith(BESIDE) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            if data.startswith(b"SQLite format 3"):
                with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                    data = "\n".join(database.iterdump()).encode()
            yield path, hashlib.sha256(data).hexdigest()


class DryRunTests(TestCase):
    """Real nodes in one process; needs the reactor for their links."""

    timeout = 240

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cluster = LocalCluster(reactor, self.folder, ("a", "b", "c"))
        self.addCleanup(self.cluster.stopping)

    def run_all(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        """Run a test."""
        return Deferred.fromCoroutine(work)

    def state(self) -> dict[str, str]:
        """All state of all nodes."""
        return dict(contents(self.folder))

    async def quiet(self) -> dict[str, str]:
        """The state when nodes have written what they write of their own accord after a change."""
        states = [self.state()]

        async def is_same() -> bool:
            await deferLater(reactor, 0.3)
            states.append(self.state())
            return states[-1] == states[-2]

        await self.cluster.until("nobody writes", is_same)
        return states[-1]

    async def both(self, node: LocalNode, operation: str, /, **args: Any) -> tuple[Any, Any]:
        """
        What an operation plans, and what it answers when it is done.

        Nodes also write by themselves, every minute or so. So it is planned again when something
        has changed: if the plan had been carried out, there would be nothing left to be done.
        """
        for _ in range(5):
            before = await self.quiet()
            plan = await node.ask(operation, dry_run=True, **args)
            after = self.state()
            other = {path for path in {*before, *after} if before.get(path) != after.get(path)}
            if not other:
                break
        self.assertEqual(other, set(), operation)
        done = await node.ask(operation, **args)
        self.assertNotEqual(self.state(), before, operation)
        return plan, done

    def test_plans(self) -> Deferred[None]:
        """
        Each operation answers with its plan in the form of its answer, refuses what it would
        refuse, and leaves every file and every row of all nodes as they are.
        """
        return self.run_all(self._plans())

    async def _plans(self) -> None:
        await self.cluster.start()
        a, b, c = self.cluster.nodes
        a.write("files/top.sls", "base: {}\n")
        await a.ask("roots", do="sync", wait=True, timeout=30.0)
        (first, *_) = await a.ask("roots", do="log", most=1)
        a.write("files/top.sls", "base: {'*': [web]}\n")
        await a.ask("roots", do="sync", wait=True, timeout=30.0)

        plan, done = await self.both(a, "roots", do="rollback", generation=first["generation"])
        self.assertEqual(plan, done)
        self.assertEqual([row["changed"] for row in plan], [1])
        plan, done = await self.both(a, "members_rights", node="b", rights="read")
        self.assertEqual(plan, done)
        plan, done = await self.both(a, "identity_prepare")
        self.assertEqual({**plan, "public": "", "fingerprint": ""},
                         {**done, "public": "", "fingerprint": ""})  # fmt: skip
        self.assertEqual((plan["public"], plan["fingerprint"]), ("", ""))
        plan, done = await self.both(c, "cluster_leave", force=False)
        self.assertEqual(plan, done)
        for operation, args in (
            ("members_declare_dead", {"node": "b"}),
            ("members_approve", {"node": "b"}),
            ("cluster_remove", {"node": "a"}),
            ("members_rights", {"node": "a", "rights": "read"}),
        ):
            said = []
            for dry in (True, False):
                with self.assertRaises(RemoteError) as caught:
                    await a.ask(operation, **args, **({"dry_run": True} if dry else {}))
                said.append(caught.exception.message)
            self.assertEqual(said[0], said[1], operation)
        await b.stop()

        async def alone() -> bool:
            return (await a.members()).get("b") == "down"

        await self.cluster.until("b is missed", alone)
        plan, done = await self.both(a, "members_declare_dead", node="b")
        self.assertEqual({**plan, "unreached": []}, {**done, "unreached": []})
        plan, done = await self.both(a, "cluster_remove", node="b", compromised=True)
        self.assertEqual(plan, done)
