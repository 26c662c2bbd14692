"""
What a master does not load before it needs it.
"""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT

ASKED = """
import sys
import saltwisted.roles.cluster, saltwisted.roles.master
print(*sorted(name for name in sys.modules if name.startswith("saltwisted.web.")))
"""


class LateTests(SynchronousTestCase):
    """Modules of a daemon that has no use for them."""

    def test_no_api(self) -> None:
        """What speaks HTTP is loaded with the API, not with the master."""
        argv = [sys.executable, "-c", ASKED]
        env = {**os.environ, "PYTHONPATH": ROOT}
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)

        self.assertEqual(done.stdout.split(), [])
