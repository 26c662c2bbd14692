"""
Grains have the types that they have in stock (pains 5.10): maps of formulas rely on them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, needs_peers, peer_venv, scratch, write_config

OWN = {"pid", "pythonexecutable", "pythonpath", "saltpath"}
"""They tell of the process."""


def shape(value: Any) -> Any:
    """A value's type, with the types of what is in it."""
    if isinstance(value, list):
        return ["list", sorted({json.dumps(shape(each)) for each in value})]
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return type(value).__name__


@needs_peers
class GrainTypeTests(SynchronousTestCase):
    """C{salt-call --local} of both on this machine."""

    def grains(self, *command: str) -> dict[str, Any]:
        """All of them."""
        home = scratch(self)
        values = {"root_dir": home, "id": "x", "file_client": "local"}
        write_config(os.path.join(home, "minion"), values)
        words = ["-c", home, "--local", "--out=json", "-l", "quiet", "grains.items"]
        done = subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": ROOT if command[0] == sys.executable else ""},
        )
        found: dict[str, Any] = json.loads(done.stdout)["local"]
        return found

    def test_types(self) -> None:
        """All of stock's are there, each with its type, and ours has one more."""
        stock = self.grains(f"{peer_venv('3008')}/bin/salt-call")
        ours = self.grains(sys.executable, "-m", "saltwisted.cli.main", "salt-call")

        self.assertEqual(ours.keys() - stock.keys(), {"saltwistedversion"})
        self.assertEqual(stock.keys() - ours.keys(), set())
        alike = stock.keys() - OWN
        self.assertEqual(
            {name: shape(ours[name]) for name in alike},
            {name: shape(stock[name]) for name in alike},
        )
