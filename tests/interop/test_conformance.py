"""
The load generator's own conformance check, which judges replies as a minion does and more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.harness import ROOT, OurMaster, needs_peers, scratch

SWARM = os.environ.get(
    "SALTWISTED_SWARM", os.path.join(os.path.dirname(ROOT), "shared", "bench", "swarm.py")
)


@needs_peers
class ConformanceTests(SynchronousTestCase):
    """Every kind of request, and spoilt ones that must not be served."""

    def test_check(self) -> None:
        """The check finds nothing wrong with our master."""
        if not os.path.exists(SWARM):
            raise SkipTest(f"no load generator at {SWARM}: name it in SALTWISTED_SWARM")
        home = scratch(self)
        master = OurMaster(home, auto_accept=True)
        self.addCleanup(master.kill)
        with open(os.path.join(master.file_root, "file"), "wb") as handle:
            handle.write(os.urandom(3_000_000))
        with open(os.path.join(master.pillar_root, "top.sls"), "w") as handle:
            handle.write("base: {'*': [a]}\n")
        with open(os.path.join(master.pillar_root, "a.sls"), "w") as handle:
            handle.write("key: value\n")
        master.up()

        done = subprocess.run(
            [
                sys.executable, SWARM, "check", "--ret-port", str(master.ret_port),
                "--key-dir", os.path.join(home, "keys"), "--path", "file",
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

        found = json.loads(done.stdout)
        self.assertEqual((found["failed"], found["errors"]), ([], {}), found["results"])
        self.assertEqual(done.returncode, 0)
