"""
Trees that are broken on a grand scale: C{salt-call --local} says which SLS it was, ends as
stock does, needs little memory, and the next command is as good as ever.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import scratch

DEPTH = 10_000
CEILING = 256
"""MiB that a run may take; an empty one takes some thirty."""

STARTER = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
with open(sys.argv[1], "w") as out:
    out.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(done.returncode)
"""


class BadTreeTests(SynchronousTestCase):
    """Each test applies one SLS by the command."""

    timeout = 300

    def setUp(self) -> None:
        """A tree with one good SLS."""
        self.home = Path(scratch(self))
        (self.home / "srv").mkdir()
        self.tree("good", "good: {test.nop: []}\n")
        conf: dict[str, Any] = {"id": "m1", "file_client": "local", "root_dir": str(self.home)}
        conf["file_roots"] = {"base": [str(self.home / "srv")]}
        (self.home / "minion").write_text(json.dumps(conf))

    def tree(self, name: str, text: str) -> None:
        """Write an SLS."""
        (self.home / "srv" / f"{name}.sls").write_text(text)

    def apply(self, sls: str) -> tuple[int, Any, float]:
        """Exit code, answer and most memory in MiB."""
        words = ["-c", str(self.home), "--local", "--out", "json", "-l", "quiet"]
        words += ["--retcode-passthrough", "state.apply", sls]
        peak = self.home / "peak"
        # The most memory of a process counts that of the one which started it: a small one does
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                STARTER,
                str(peak),
                sys.executable,
                "-m",
                "saltwisted.cli.main",
                "salt-call",
                *words,
            ],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            check=False,
        )
        return done.returncode, json.loads(done.stdout)["local"], int(peak.read_text()) / 1024

    def refused(self, text: str, words: str) -> None:
        """The SLS is an error with these words and its name; the good one works after it."""
        self.tree("bad", text)

        code, answer, peak = self.apply("bad")
        after = self.apply("good")[0]

        self.assertEqual(code, 1)
        self.assertIn("Rendering SLS", answer[0])
        self.assertIn("bad", answer[0].partition("failed")[0])
        self.assertIn(words, answer[0])
        self.assertLess(peak, CEILING)
        self.assertEqual(after, 0)

    def test_deep_yaml(self) -> None:
        """Ten thousand lists in each other."""
        self.refused("a: " + "[" * DEPTH + "]" * DEPTH + "\n", "maximum recursion depth exceeded")

    def test_deep_json(self) -> None:
        """The same as JSON."""
        self.refused("#!json\n" + "[" * DEPTH + "]" * DEPTH, "maximum recursion depth exceeded")

    def test_deep_jinja(self) -> None:
        """Ten thousand conditions in each other."""
        text = "{% if true %}" * DEPTH + "a: {test.nop: []}" + "{% endif %}" * DEPTH
        self.refused(text, "recursion depth exceeded")

    def test_deep_expression(self) -> None:
        """Ten thousand brackets around a number."""
        self.refused("a: {{ " + "(" * DEPTH + "1" + ")" * DEPTH + " }}", "recursion depth exceeded")
