"""
Real nodes whose files are damaged while they run.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import zmq
from twisted.trial.unittest import SynchronousTestCase

from tests.attack.fleet import WireMinion, put_key
from tests.cluster.real import OurNode, cluster, join_all, nodes
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
        """A fact log that is found damaged is rewritten; no act is lost, here or elsewhere."""
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


QUICK = (
    "from saltwisted.cluster.roots import care; care.DEEP_EVERY = 0.1; "
    "from twisted.scripts.twistd import run; run()"
)
"""Looks at everything in half a minute, not in a week."""


class RootsDamageTests(SynchronousTestCase):
    """Two nodes with the same roots."""

    def up(self, *, quick: bool) -> list[OurNode]:
        """They serve; C{quick}: and read everything again all the time."""
        made = nodes(self, "a b")
        if quick:
            for node in made:
                node.argv[2] = QUICK
        put_key(made[0].pki, "web1")
        join_all(made)
        for node in made:
            node.wait_serving()
        return made

    def write(self, made: list[OurNode], name: str, data: bytes) -> str:
        """A file on the first; once it is on all, the name of its content."""
        Path(made[0].file_root, name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        for node in made:
            until(f"{name} at {node.name}", lambda node=node: self.has(node, digest))
            there = Path(node.file_root, name)
            until(
                f"{name} in the tree of {node.name}",
                lambda there=there: there.exists() and there.read_bytes() == data,
            )
        return digest

    def store(self, node: OurNode) -> Path:
        """Where a node keeps what is in its roots."""
        return Path(node.root, "var/cache/salt/master/saltwisted/roots/file-base-0")

    def content(self, node: OurNode, digest: str) -> Path:
        """The file of a large content."""
        return self.store(node) / "objects" / digest[:2] / digest[2:]

    def has(self, node: OurNode, digest: str) -> bool:
        """Whether a large content is whole on a node's disk."""
        path = self.content(node, digest)
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest

    def flip(self, path: Path) -> None:
        """One bit in the middle, under whoever has it open."""
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))

    def test_content_is_found(self) -> None:
        """
        A content that nobody asks for is found to be damaged; the status names it for as long as
        no other member gives it, and is well again afterwards.
        """
        a, b = made = self.up(quick=True)
        old = self.write(made, "large", os.urandom(300_000))
        self.write(made, "large", os.urandom(300_000))
        a.freeze()
        self.addCleanup(a.thaw)

        # The tree has a newer one, so that it can come from the other node alone
        self.flip(self.content(b, old))

        words = "1 content is damaged on disk, and fetched from the other members"
        until("the status to name it", lambda: words in b.command("status").stdout)
        self.assertFalse(self.has(b, old))
        self.assertIn(words, b.command("doctor", "--json").stdout)
        a.thaw()
        until("it to be back", lambda: self.has(b, old))
        until("b to be well", lambda: b.command("status").returncode == 0)

    def test_served(self) -> None:
        """A damaged content is served to nobody: it is mended as soon as somebody asks for it."""
        made = self.up(quick=False)
        a = made[0]
        data = os.urandom(700_000)
        digest = self.write(made, "large", data)
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)
        minion = WireMinion(context, a.ret_port, "web1")
        minion.sign_in()

        # Before it was ever served, and after that
        for _ in range(2):
            self.flip(self.content(a, digest))
            got = b""
            while piece := minion.ask("_serve_file", path="large", saltenv="base", loc=len(got))[
                "data"
            ]:
                got += piece if isinstance(piece, bytes) else piece.encode("latin-1")
            self.assertTrue(got == data, f"{len(got)} bytes")
            self.assertTrue(self.has(a, digest))
        until("a to be well", lambda: a.command("status").returncode == 0)

    def test_index(self) -> None:
        """
        An index that is damaged under its node is found, put aside, and had from the other. The
        node is built anew for that, and answers all the while.
        """
        a, b = made = self.up(quick=True)
        for number in range(200):
            Path(a.file_root, f"f{number}").write_text(str(number))
        self.write(made, "large", os.urandom(300_000))
        a.freeze()
        self.addCleanup(a.thaw)

        flip(str(self.store(b) / "index.sqlite"))

        until("the damage to be met", lambda: asides(str(self.store(b))))
        status = b.command("status")
        self.assertNotEqual(status.returncode, 0, status.stdout)
        a.thaw()

        def alike() -> bool:
            done = [node.command("roots", "status", "--json") for node in made]
            for each in done:
                self.assertNotIn("No node runs", each.stderr)
            # A node that starts again says so instead
            said = [json.loads(each.stdout)["generation"] for each in done if each.stdout]
            return len(said) == len(made) and len(set(said)) == 1

        until("both to have the same", alike)
        for node in made:
            until("all to be well", lambda node=node: node.command("status").returncode == 0)
        self.assertEqual(Path(b.file_root, "f7").read_text(), "7")
