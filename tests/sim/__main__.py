"""
Play many seeds: C{python -m tests.sim --seeds 10000 [--first N]}; exit status 1 when one broke.
"""

from __future__ import annotations

import sys

from tests.sim.play import play
from tests.sim.world import Broken, World

if __name__ == "__main__":
    sys.exit(play("tests.sim", World, Broken))
