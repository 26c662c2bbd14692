"""
Many seeds of a simulation from the command line.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from twisted.logger import globalLogBeginner


def count(quick: int, full: int, long: int) -> int:
    """
    How much of what takes time a test does: quick for everybody, full where the stock peers are
    and other long tests run too, long with C{SALTWISTED_LONG=1} there.
    """
    if not os.environ.get("SALTWISTED_PEERS"):
        return quick
    return long if os.environ.get("SALTWISTED_LONG") == "1" else full


class Playable(Protocol):
    """A world that was drawn from a seed."""

    def run(self) -> None:
        """Play it to its end; raises when a promise is broken."""


P = TypeVar("P", bound=Playable)


def in_one_order(module: str) -> None:
    """Begin again, where sets have one order: a seed is one story then."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


def play(
    name: str,
    world: Callable[[int], P],
    broken: type[Exception],
    counts: Callable[[P], Mapping[str, int]] = lambda world: {},
) -> int:
    """
    Play the seeds that the command line names, and tell of those that broke a promise.

    @param name: the module, for the usage.
    @param broken: what a broken promise raises; anything else ends the run.
    @param counts: what happened in a world, summed over all that ended well or badly.
    @return: the exit status, 1 when one broke.
    """
    in_one_order(name)
    parser = ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--seeds", type=int, default=200, help="how many (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--most", type=int, default=10, help="end after so many failures (10)")
    options = parser.parse_args()
    # Else all that is logged is kept for an observer to come, and every world with it
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)
    began, failed = time.monotonic(), 0
    total: Counter[str] = Counter()
    seed = options.first - 1
    for number in range(options.first, options.first + options.seeds):
        one = world(number)
        try:
            one.run()
        except KeyboardInterrupt:
            break  # what was played until now is told
        except broken as error:
            failed += 1
            sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
        total.update(counts(one))
        seed = number
        if failed >= options.most:
            break
    told = "".join(f"{number} {what}, " for what, number in total.items())
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"seeds {options.first} to {seed}: {failed} broke a promise, {told}{seconds:.0f} s\n"
    )
    return 1 if failed else 0
