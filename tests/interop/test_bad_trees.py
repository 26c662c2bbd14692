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
CEILING = 400
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
        """The SLS is an error that matches these words, and is named; the good one works after."""
        self.tree("bad", text)

        code, answer, peak = self.apply("bad")
        after = self.apply("good")[0]

        self.assertEqual(code, 1)
        self.assertIn("Rendering SLS", answer[0])
        self.assertIn("bad", answer[0].partition("failed")[0])
        self.assertRegex(answer[0], words)
        self.assertLess(peak, CEILING)
        self.assertEqual(after, 0)

    def test_deep_yaml(self) -> None:
        """Ten thousand lists in each other; the newest libyaml stops at a thousand by itself."""
        self.refused("a: " + "[" * DEPTH + "]" * DEPTH + "\n", "maximum (recursion|nesting) depth")

    def test_deep_json(self) -> None:
        """The same as JSON."""
        self.refused("#!json\n" + "[" * DEPTH + "]" * DEPTH, "maximum recursion depth exceeded")

    def test_deep_jinja(self) -> None:
        """Ten thousand conditions in each other."""
        text = "{% if true %}" * DEPTH + "a: {test.nop: []}" + "{% endif %}" * DEPTH
        self.refused(text, "recursion depth exceeded")

    def test_large_file(self) -> None:
        """A hundred megabytes."""
        self.refused("# " + "x" * 100 * 1024 * 1024, "are rendered")

    def test_large_import(self) -> None:
        """A map of a hundred megabytes, imported."""
        (self.home / "srv" / "map.yaml").write_text("x" * 100 * 1024 * 1024)
        self.refused("{% import_yaml 'map.yaml' as map %}\n", "are rendered")

    def test_large_result(self) -> None:
        """A small template that renders to a hundred megabytes."""
        text = "{% set line = 'x' * 1048576 %}{% for n in range(100) %}{{ line }}\n{% endfor %}"
        self.refused(text, "are rendered")

    def test_no_texts(self) -> None:
        """Bytes that are no UTF-8; a directory and a dangling link with the names of SLS."""
        (self.home / "srv" / "folder.sls").mkdir()
        (self.home / "srv" / "link.sls").symlink_to("/nowhere/at/all")
        (self.home / "srv" / "bytes.sls").write_bytes(bytes(range(256)) * 4096)

        found = {name: self.apply(name) for name in ("bytes", "folder", "link")}

        self.assertEqual([code for code, _, _ in found.values()], [1, 1, 1])
        self.assertIn("Rendering SLS bytes failed, render error: 'utf-8'", found["bytes"][1][0])
        for name in ("folder", "link"):
            self.assertEqual(found[name][1], [f"No matching sls found for '{name}' in env 'base'"])

    def test_deep_expression(self) -> None:
        """Ten thousand brackets around a number."""
        self.refused("a: {{ " + "(" * DEPTH + "1" + ")" * DEPTH + " }}", "recursion depth exceeded")
