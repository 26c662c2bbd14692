"""
Real nodes whose files are damaged while they run.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, cluster
from tests.cluster.test_real_keys import listed, signed_in
from tests.harness import needs_peers, until


def jobs_path(node: OurNode) -> str:
    """The job cache of a node."""
    return os.path.join(node.root, "var/cache/salt/master/saltwisted/jobs.sqlite")


def asides(folder: str) -> list[str]:
    """The damaged files that were put aside."""
    return [name for name in os.listdir(folder) if ".corrupt-" in name]


def kept(node: OurNode) -> int:
    """How many returns lie in it."""
    try:
        with closing(sqlite3.connect(f"file:{jobs_path(node)}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM returns").fetchone()[0])
    except sqlite3.Error:
        return -1


def flip(path: str) -> None:
    """Overwrite the pages of a database, behind the back of whoever has it open."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with open(path, "r+b") as file:
        for page in range(1, os.path.getsize(path) // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 100)


@needs_peers
class DamageTests(SynchronousTestCase):
    """Three nodes."""

    def test_job_cache(self) -> None:
        """A job cache that is found damaged is filled again from the others at once."""
        nodes = a, b, c = cluster(self, "a b c")
        for node in nodes:
            for number in range(4):
                node.command("salt-run", "test.arg", str(number), check=True)
        for node in nodes:
            until(f"all returns at {node.name}", lambda node=node: kept(node) == 12)
        flip(jobs_path(b))

        said = b.command("salt-run", "jobs.list_jobs")

        # Whoever meets the damage first is refused; from then on it is being mended
        until("the damage to be met", lambda: asides(os.path.dirname(jobs_path(b))))
        until("all returns to be back", lambda: kept(b) >= 12)
        until("b to be well", lambda: b.command("status").returncode == 0)
        self.assertNotIn("Traceback", said.stdout + said.stderr)
        b.command("salt-run", "test.arg", "after", check=True)
        for node in (a, c):
            until(f"news at {node.name}", lambda node=node: kept(node) == kept(b))

    def test_fact_log(self) -> None:
        """A fact log that is found damaged is written anew; no act is lost, here or elsewhere."""
        a, b = nodes = cluster(self, "a b")
        signed_in(a, "web1")
        b.stop()
        a.command("salt-key", "-y", "-a", "web1", check=True)
        folder = f"{a.pki}/cluster"
        with closing(sqlite3.connect(f"{folder}/facts.sqlite")) as db, db:
            db.execute("UPDATE entries SET body = X'80'")

        # It lacks what lies there, and there alone
        b.up()

        until("the damage to be met", lambda: asides(folder))
        for node in nodes:
            until("all to be well", lambda node=node: node.command("status").returncode == 0)
            until("web1 to be known", lambda node=node: listed(node) == {"minions": ["web1"]})
        a.command("salt-key", "-y", "-d", "web1", check=True)
        self.assertEqual([listed(node) for node in nodes], [{}] * 2)
        a.kill()
        a.up()
        self.assertEqual(listed(a), {})
