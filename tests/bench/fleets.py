"""
Many simulated minions of ours, in processes of L{tests.bench.fleet}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from saltwisted.wire.rsa import PrivateKey
from tests.harness import ROOT

PER_PROCESS = 250
"""Minions that one process plays."""


class Fleet:
    """
    Simulated minions of ours, in some processes.

    @param first: the number of the first one.
    @param journal: a file for what they run and what is acknowledged to them.
    @param inside: what makes of a command the same one on another host.
    """

    def __init__(
        self,
        home: str,
        count: int,
        options: dict[str, Any],
        *,
        first: int = 0,
        journal: str = "",
        inside: Callable[[list[str]], list[str]] = list,
    ) -> None:
        self.numbers = range(first, first + count)
        path = os.path.join(home, f"fleet{first}.pem")
        key = PrivateKey.generate(2048)
        with open(path, "w") as handle:
            handle.write(key.pem())
        self.public = key.public.pem + "\n"
        self.processes = []
        for begin in self.numbers[::PER_PROCESS]:
            size = min(PER_PROCESS, self.numbers.stop - begin)
            argv = [sys.executable, "-m", "tests.bench.fleet", "--key", path]
            argv += ["-n", str(size), "--first", str(begin), "--options", json.dumps(options)]
            argv += ["--journal", journal] if journal else []
            self.processes.append((inside(argv), os.path.join(home, f"fleet{begin}.log")))
        self.running: list[subprocess.Popen[bytes]] = []

    @property
    def ids(self) -> list[str]:
        """Their names."""
        return [f"fleet{number:05d}" for number in self.numbers]

    def start(self) -> None:
        """Start them."""
        for argv, log in self.processes:
            with open(log, "wb") as out:
                self.running.append(
                    subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=ROOT)
                )

    def up(self) -> int:
        """How many use a master, as they said last."""
        total = 0
        for _, log in self.processes:
            with open(log) as handle:
                lines = [line for line in handle.read().splitlines() if line.startswith("{")]
            total += json.loads(lines[-1])["up"] if lines else 0
        return total

    def stop(self) -> None:
        """End them."""
        for process in self.running:
            process.kill()
            process.wait(20)
