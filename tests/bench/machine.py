"""
What the kernel says about process trees and this machine.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress

SETTLING = 5.0


def children(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as handle:
                    found += [int(word) for word in handle.read().split()]
    return found


def pss_mib(pid: int) -> float:
    """Proportional set size of a process tree: what the machine gives up for it."""
    total = 0
    for one in children(pid):
        with (
            suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/{one}/smaps_rollup") as handle,
        ):
            total += sum(int(line.split()[1]) for line in handle if line.startswith("Pss:"))
    return total / 1024


def describe() -> str:
    """This machine in one line, with how busy it is."""
    model = memory = ""
    with open("/proc/cpuinfo") as handle:
        for line in handle:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    with open("/proc/meminfo") as handle:
        memory = f"{int(handle.readline().split()[1]) / 1024 / 1024:.0f} GiB"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} CPUs ({model}), {memory}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load {load}"
    )


def cpu_seconds(pid: int) -> float:
    """What one process has used: the clock that Linux keeps for it, in nanoseconds."""
    return time.clock_gettime((~pid << 3) | 2)


def share_at_rest(used: Callable[[], float], seconds: float, patience: float = 120.0) -> float:
    """
    The part of a core that is used while nothing happens, once what was done before is worked off:
    when a few seconds use no less than those before them, or after C{patience}.

    @param used: CPU seconds so far.
    """
    last, end = float("inf"), time.monotonic() + patience
    while time.monotonic() < end:
        before = used()
        time.sleep(SETTLING)
        now = used() - before
        if now >= 0.8 * last:
            break
        last = now
    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


def percentile(values: list[float], share: float) -> float:
    """The value below which such a share lies."""
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * share) - 1)]
