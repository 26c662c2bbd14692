"""
Play many seeds: C{python -m tests.sim --seeds 10000 [--first N]}; exit status 1 when one broke.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser

from tests.sim.world import Broken, World


def main() -> int:
    """Play them, and tell of those that broke a promise."""
    parser = ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seeds", type=int, default=200, help="how many (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--most", type=int, default=10, help="end after so many failures (10)")
    options = parser.parse_args()
    began, broken = time.monotonic(), 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            World(seed).run()
        except Broken as error:
            broken += 1
            sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
            if broken >= options.most:
                break
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"seeds {options.first} to {seed}: {broken} broke a promise, {seconds:.0f} s\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
