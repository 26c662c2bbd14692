"""
What a master asks of what stands beside it, and what it does alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.seams import LonePillars, LonePruneTime, Seams
from tests.master.rig import Rig


class Elsewhere(LonePillars):
    """Pillars are compiled from other directories than those that are configured."""

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """A tree in the place of each."""
        return {env: [f"/served{path}" for path in paths] for env, paths in configured.items()}


class Moved(Rig):
    """A master whose pillar roots are replaced."""

    def beside(self, alone: Seams) -> Seams:
        """As alone, but for the pillars."""
        return evolve(alone, pillars=Elsewhere())


class SeamTests(SynchronousTestCase):
    """Through a whole master."""

    def test_pillar_options_after_a_reload(self) -> None:
        """New values of options reach pillars, whatever directories they are read from."""
        rig = Moved(self, pillar_roots={"base": ["/a"]})
        config = rig.ctx.config
        config.adopt(config.evolve(pillar_roots={"dev": ["/b"]}, renderer="py"), ["renderer"])
        config.adopt(config.evolve(pillar_roots={"dev": ["/b"]}), ["pillar_roots"])

        opts = rig.ctx.pillar_opts()

        self.assertEqual((opts["pillar_roots"], opts["renderer"]), ({"dev": ["/served/b"]}, "py"))

    def test_finished(self) -> None:
        """Nothing is put into what handlers get."""
        ctx: Any = Rig(self).ctx

        with self.assertRaises(FrozenInstanceError):
            ctx.pool = None


class PruneTimeTests(SynchronousTestCase):
    """A master alone goes by its own clock."""

    def test_jump(self) -> None:
        """While the clock is far ahead of the time that has run, nothing is forgotten."""
        wall, runtime = [1_800_000_000.0], [50.0]
        alone = LonePruneTime(lambda: wall[0], lambda: runtime[0])
        self.assertEqual((alone.time(), alone.problem), (wall[0], ""))

        wall[0] += 400 * 86400
        runtime[0] += 60

        self.assertIsNone(alone.time())
        self.assertNotEqual(alone.problem, "")
