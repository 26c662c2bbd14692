"""
One call in this process.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.localcall import run_call


class LocalCallTests(SynchronousTestCase):
    """Calls with a configuration in a directory."""

    def setUp(self) -> None:
        """Write it, with a root for files."""
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        root = os.path.join(self.base, "srv")
        os.makedirs(root)
        with open(os.path.join(root, "hello"), "w") as stream:
            stream.write("world")
        with open(os.path.join(self.base, "minion"), "w") as stream:
            stream.write(f"id: m1\nroot_dir: {self.base}\nfile_roots: {{base: [{root}]}}\n")

    def test_call(self) -> None:
        """A function runs with options, grains and files of this machine, and without a master."""
        config = load_from_disk("minion", self.base).minion

        self.assertEqual(run_call(config, "test.echo", ["x"])["return"], "x")
        self.assertEqual(run_call(config, "grains.get", ["id"])["return"], "m1")
        copy = run_call(config, "cp.cache_file", ["salt://hello"])["return"]
        with open(copy) as stream:
            self.assertEqual(stream.read(), "world")
        self.assertFalse(run_call(config, "nope.nope", kwargs={"a": 1})["success"])
