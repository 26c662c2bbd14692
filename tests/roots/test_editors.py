"""
Users who edit at random on every node at once, links that come and go: all end alike.

C{SALTWISTED_ROOTS_SECONDS=N} lets them edit for N seconds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

from twisted.internet.defer import Deferred

from tests.roots.nodes import NodesCase, clock, sleep

SECONDS = float(os.environ.get("SALTWISTED_ROOTS_SECONDS", "4"))
SEED = int(os.environ.get("SALTWISTED_ROOTS_SEED", "1"))


def edit(tree: str, seed: int) -> subprocess.Popen[bytes]:
    """A user at work."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.roots.editor", tree, str(seed), str(SECONDS)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class EditorsTests(NodesCase):
    """Three nodes, an editor process on each."""

    timeout = 120 + SECONDS * 3

    def test_editors_everywhere(self) -> Deferred[None]:
        """After any edits on all nodes at once the trees are alike, by rsync's word."""

        async def story() -> None:
            nodes = await self.make("abc", guard_files=100_000, scan_s=2)
            await self.start()
            await self.settle()
            editors = [edit(node.tree, seed) for seed, node in enumerate(nodes, SEED * 10)]
            dice = random.Random(SEED)
            end = clock.seconds() + SECONDS
            while clock.seconds() < end:
                await sleep(SECONDS / 5)
                one, other = dice.sample(nodes, 2)
                link = one.sync.streams.links.get(other.name)
                if link is not None:
                    link.transport.abortConnection()
                    await sleep(0.3)
                    one.link(other)
            for editor in editors:
                while editor.poll() is None:
                    await sleep(0.05)
            for node in nodes:
                for other in nodes:
                    if node.name < other.name and other.name not in node.sync.streams.links:
                        node.link(other)
            await sleep(1.0)
            for node in nodes:
                await node.share.rescan()
            await self.settle(60)
            self.assertTrue(all(not node.sync.alarms for node in nodes))

        return self.run_coroutine(story)
