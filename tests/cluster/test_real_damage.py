"""
Real nodes whose files are damaged while they run.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, cluster
from tests.harness import needs_peers, until


def jobs_path(node: OurNode) -> str:
    """The job cache of a node."""
    return os.path.join(node.root, "var/cache/salt/master/saltwisted/jobs.sqlite")


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
        until(
            "the damage to be met",
            lambda: any("corrupt" in n for n in os.listdir(os.path.dirname(jobs_path(b)))),
        )
        until("all returns to be back", lambda: kept(b) >= 12)
        until("b to be well", lambda: b.command("status").returncode == 0)
        self.assertNotIn("Traceback", said.stdout + said.stderr)
        b.command("salt-run", "test.arg", "after", check=True)
        for node in (a, c):
            until(f"news at {node.name}", lambda node=node: kept(node) == kept(b))
