"""
Real nodes whose repositories are damaged on disk, while no remote can be reached.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.gitrig import GitNodesCase
from tests.cluster.real import OurNode
from tests.harness import until


class DamageTests(GitNodesCase):
    """Three nodes that serve the same; the git server has gone for good."""

    def packs(self, node: OurNode) -> list[Path]:
        """The packs of a node's repositories."""
        top = Path(node.root, "var/cache/salt/master/saltwisted/git")
        return sorted(top.glob("*/repo.*/objects/pack/*.pack"))

    def spoil(self, node: OurNode) -> None:
        """Overwrite what is in all packs, behind their heads."""
        self.assertNotEqual(self.packs(node), [])
        for path in self.packs(node):
            path.chmod(0o600)
            with open(path, "r+b") as file:
                file.seek(12)
                file.write(b"\xff" * (path.stat().st_size - 12))

    def test_from_a_peer(self) -> None:
        """
        A repository whose packs are spoilt, or which is gone, is made anew from a peer, on a node
        that follows and on the one that fetches, while it runs and at its start; nothing that is
        spoilt is served by anybody.
        """
        files = {f"d/f{number}": b"%d" % number * 5000 for number in range(8)}
        self.states.write(files)
        made = self.cluster()
        second = self.push(self.states, files)
        self.assertNotIn("error", self.update(made[0])[self.url])
        self.serve(made, second)
        self.daemon.kill()
        self.relay.close()
        self.beside.close()

        holder = self.holder(made)
        follower = next(node for node in made if node is not holder)
        for number, node in enumerate((follower, holder)):
            before = self.packs(node)
            self.spoil(node)
            self.whole(node, f"d/f{number}", files)
            until("the spoilt packs to be gone", lambda n=node, b=before: self.packs(n) != b)
            self.whole(node, f"d/f{number + 2}", files)

            node.stop()
            self.spoil(node)
            node.up()
            self.whole(node, f"d/f{number + 4}", files)

            node.stop()
            for folder in self.folders(node):
                for path in folder.glob("repo.*"):
                    shutil.rmtree(path)
            node.up()
            self.whole(node, f"d/f{number + 6}", files)
            self.assertEqual(self.commit(node), second)
        for node in made:
            self.assertEqual(self.read_all(node), files, node.name)

    def read_all(self, node: OurNode) -> dict[str, bytes]:
        """What a node serves of its folder, in one question."""
        place = Path(self.home, f"read-{node.name}")
        node.run("salt.cmd", "cp.get_dir", "salt://d", f"{place}/")
        return {f"d/{path.name}": path.read_bytes() for path in sorted((place / "d").iterdir())}

    def whole(self, node: OurNode, path: str, files: dict[str, bytes]) -> None:
        """Wait until a node serves a file; it is never served as something else."""
        wanted = files[path].decode()

        def served() -> bool:
            found = self.read(node, path)
            self.assertIn(found, (wanted, "", "False"), f"{node.name} serves {path}")
            return found == wanted

        until(f"{node.name} to serve {path}", served)
