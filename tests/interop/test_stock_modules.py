"""
Stock's own modules in our loader: where C{salt} is importable, they fill in what ours lack.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import needs_peers, peer_venv

PROBE = """
import json, sys
sys.path += {ours!r}
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.process.loader import Loaders, make_grains

opts = load_from_disk("minion", {base!r}).minion.as_opts()
loaders = Loaders(opts, grains=lambda: make_grains(opts), pillar={{"a": {{"b": 1}}}})
salt = loaders.modules
out = {{}}
out["ping"] = salt["test.ping"].__code__.co_filename
out["xml"] = salt["xml.get_value"]({base!r} + "/some.xml", ".//b")
out["database"] = salt["sqlite3.fetch"]({base!r} + "/some.db", "SELECT 2")
out["number"] = salt["salt_version.get_release_number"]("Oxygen")
names = ("xml.get_value", "sqlite3.fetch", "salt_version.get_release_number")
out["files"] = [salt[name].__code__.co_filename for name in names]

import salt.exceptions as theirs
out["one class"] = (
    theirs.CommandExecutionError is CommandExecutionError
)
out["states"] = sum(1 for name in loaders.states if name.startswith(("loop.", "status.")))
print(json.dumps(out))
"""


@needs_peers
class StockModuleTests(SynchronousTestCase):
    """Under each stock Salt's own Python."""

    def probe(self, version: str) -> Any:
        """Run the probe; what it found."""
        base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, base)
        for name, text in (
            ("minion", f"id: m1\nroot_dir: {base}\nuser: root\n"),
            ("some.xml", "<a><b>5</b></a>\n"),
        ):
            with open(os.path.join(base, name), "w") as stream:
                stream.write(text)
        ours = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
        ours += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        done = subprocess.run(
            [os.path.join(peer_venv(version), "bin", "python"), "-c",
             PROBE.format(ours=ours, base=base)],
            capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return json.loads(done.stdout.splitlines()[-1])

    def test_fill_in(self) -> None:
        """Stock's functions are there and work; ours stay ours; both sides share exceptions."""
        for version in ("3006", "3008"):
            found = self.probe(version)

            self.assertTrue(found["ping"].endswith("saltwisted/modules/test.py"), found["ping"])
            self.assertEqual(found["xml"], "5")
            self.assertEqual(found["database"], [[2]])
            self.assertEqual(found["number"], "2018.3")
            for path in found["files"]:
                self.assertIn("site-packages/salt/modules/", path)
            self.assertTrue(found["one class"])
            self.assertGreater(found["states"], 3)
