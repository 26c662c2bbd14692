"""
Roots of simulated clusters; C{python -m tests.sim.roots} plays more of them.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.catchup import RootCatchUp
from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.roots.index import Index
from saltwisted.stores.roots.batchlog import BatchLog
from saltwisted.stores.roots.index import IndexDatabase
from tests.sim.cluster import Broken
from tests.sim.play import count
from tests.sim.roots import SetBackWorld, World

SEEDS = count(2, 200, 1000)


class RootsSimTests(SynchronousTestCase):
    """Seeds."""

    def test_seeds(self) -> None:
        """However processes, disks and network fail: all trees are alike, and nothing is lost."""
        for seed in range(SEEDS):
            World(seed).run()
        self.flushLoggedErrors()

    def test_disks_set_back(self) -> None:
        """Whatever disk is set back unnoticed, no change counts as known that is not there."""
        for seed in range(SEEDS):
            SetBackWorld(seed).run()
        self.flushLoggedErrors()


STORY = """
from tests.sim.roots import World
world = World({seed})
world.run()
history = world.histories["file/base/0"]
print(world.steps, world.clock.seconds(), [(d, p, e) for d, (p, e, _) in history.items()])
"""


class OneStoryTests(SynchronousTestCase):
    """A seed is one story, in any process."""

    def test_hash_seed(self) -> None:
        """The order in which sets are gone through changes nothing."""
        told = [
            subprocess.run(
                [sys.executable, "-c", STORY.format(seed=202)],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                check=True,
                cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            ).stdout
            for hash_seed in ("1", "2")
        ]
        self.assertEqual(told[0], told[1])
        self.assertGreater(len(told[0]), 500)


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out."""

    def caught(self, seeds: Iterable[int] = range(16), kind: type[World] = World) -> None:
        """One of some seeds finds it."""
        for seed in seeds:
            try:
                kind(seed).run()
            except Broken:
                # It was noticed inside Deferreds, too, which nobody reads any more
                gc.collect()
                self.flushLoggedErrors()
                return
        self.fail("not noticed")

    def without(self, kind: type, name: str, instead: Callable[..., Any]) -> None:
        """Break one rule."""
        self.patch(kind, name, instead)

    def test_losers_are_not_kept(self) -> None:
        """Versions that lose vanish."""
        self.without(Index, "_lost", lambda index, path, outcome: None)
        self.caught()

    def test_knowledge_is_not_on_disk(self) -> None:
        """What was seen is forgotten by a crash, though the rows are not."""
        put = IndexDatabase.put_vector

        def forget(self: IndexDatabase, table: str, vector: Any) -> None:
            if table != "know":
                put(self, table, vector)

        self.without(IndexDatabase, "put_vector", forget)
        self.caught()

    def test_directories_are_not_written(self) -> None:
        """What is committed never gets into the directory."""

        async def skip(self: RootWrite, *args: Any) -> None:
            """Write nothing."""

        self.without(RootWrite, "write", skip)
        self.caught()

    def test_numbers_of_an_earlier_life(self) -> None:
        """A node whose disk was set back goes on under its old numbers, whoever was not heard."""
        self.patch(ShareCore, "all_answered", lambda core: True)
        self.caught(kind=SetBackWorld)

    def test_greeting_is_an_answer(self) -> None:
        """Who says what it knows before it has heard of us counts as one that knows no more."""
        heard = RootCatchUp.peer_knows

        def hear(catchup: RootCatchUp, link: Any) -> None:
            heard(catchup, link)
            catchup._core.answered.add(link.node)

        self.patch(RootCatchUp, "peer_knows", hear)
        self.patch(RootCatchUp, "acknowledged", lambda catchup, link: None)
        # It takes a peer whose store opens, or which applies what it held, in the same moment
        self.caught((33, 43, 89), SetBackWorld)

    def test_the_log_is_not_kept(self) -> None:
        """Batches that did not arrive at once never do."""
        self.without(BatchLog, "missing_for", lambda log, theirs: [])
        self.caught()
