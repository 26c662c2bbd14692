"""
What C{salt-call -l info} and C{-l debug} tell of a state run: stock's lines, and no secrets.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import PEERS, ROOT, peer_venv, scratch, write_config

CANARY = "canary-7f3e"
SLS = """
{dir}/file:
  file.managed:
    - contents: {canary}
second:
  test.succeed_without_changes:
    - require: [{{file: {dir}/file}}]
third:
  test.fail_without_changes: []
fourth:
  test.nop:
    - require: [{{test: third}}]
fifth:
  test.nop:
    - name: https://user:{canary}@example.com/x
sixth:
  test.nop:
    - name: {canary}
    - no_log: true
seventh:
  cmd.run:
    - name: "true {canary}"
    - stdin: {canary}
eighth:
  cmd.run:
    - name: "true"
    - onlyif: "false"
"""
RECORDED = """
INFO Fetching file from saltenv 'base', ** done ** 'x.sls'
INFO Running state [DIR/file] at time TIME
INFO Executing state file.managed for [DIR/file]
INFO Completed state [DIR/file] at time TIME (duration_in_ms=N)
INFO Running state [second] at time TIME
INFO Executing state test.succeed_without_changes for [second]
INFO Completed state [second] at time TIME (duration_in_ms=N)
INFO Running state [third] at time TIME
INFO Executing state test.fail_without_changes for [third]
INFO Completed state [third] at time TIME (duration_in_ms=N)
INFO Running state [NAME] at time TIME
INFO Executing state test.nop for [NAME]
INFO Completed state [NAME] at time TIME (duration_in_ms=N)
INFO Running state [NAME] at time TIME
INFO Executing state test.nop for [NAME]
INFO Completed state [NAME] at time TIME (duration_in_ms=N)
INFO Running state [true] at time TIME
INFO Executing state cmd.run for [true]
INFO Executing command 'true' in directory '/root'
INFO Completed state [true] at time TIME (duration_in_ms=N)
INFO Running state [true] at time TIME
INFO Executing state cmd.run for [true]
INFO Executing command 'false' in directory '/root'
INFO Completed state [true] at time TIME (duration_in_ms=N)
""".strip().splitlines()
"""Of stock's salt-call 3008; names that ours does not show, and times, are marked as such."""
OURS = re.compile(
    r"Fetching file from saltenv 'base', \*\* done \*\* 'x|Running state|Executing state|"
    r"Completed state|Executing command '"
)
MARKS = (
    (r"at time [\d:.]+", "at time TIME"),
    (r"duration_in_ms=[\d.]+", "duration_in_ms=N"),
    (r"\[(sixth|https://\S+|" + CANARY + r")\]", "[NAME]"),
    (r"\[true " + CANARY + r"\]", "[true]"),
    (r"in directory '[^']*'", "in directory '/root'"),
)


class StateLogTests(SynchronousTestCase):
    """One run, masterless."""

    def setUp(self) -> None:
        self.home = scratch(self)
        write_config(
            f"{self.home}/etc/minion",
            {
                "id": "m1",
                "root_dir": f"{self.home}/root",
                "file_client": "local",
                "file_roots": {"base": [f"{self.home}/srv"]},
                "log_file": "/dev/null",
            },
        )
        os.makedirs(f"{self.home}/srv")
        with open(f"{self.home}/srv/x.sls", "w") as file:
            file.write(SLS.format(dir=self.home, canary=CANARY))

    def told(self, words: Sequence[str], level: str) -> str:
        """What a salt-call says on stderr."""
        done = subprocess.run(
            [*words, "--local", "-c", f"{self.home}/etc", "-l", level, "state.apply", "x"],
            capture_output=True, text=True, timeout=120, check=False, cwd=self.home,
            env={**os.environ, "PYTHONPATH": ROOT, "HOME": "/root"},
        )  # fmt: skip
        self.assertIn("seventh", done.stdout, done.stderr)
        return done.stderr

    def ours(self, level: str) -> str:
        """What ours says."""
        return self.told([sys.executable, "-m", "saltwisted.cli.main", "salt-call"], level)

    def lines(self, text: str) -> list[str]:
        """The lines that matter, with what differs from run to run marked."""
        found = []
        for level, line in re.findall(r"^\[(\w+) *\] (.*)$", text, re.M):
            if OURS.match(line):
                line = line.replace(self.home, "DIR")
                for pattern, mark in MARKS:
                    line = re.sub(pattern, mark, line)
                found.append(f"{level} {line}")
        return found

    def test_as_stock(self) -> None:
        """Which state runs, which function is called and how long it took, in stock's words."""
        self.assertEqual(self.lines(self.ours("info")), RECORDED)

    def test_recorded(self) -> None:
        """What was recorded is what stock says."""
        if not PEERS:
            self.skipTest("SALTWISTED_PEERS is not set: no stock Salt to test against")
        stock = self.told([f"{peer_venv('3008')}/bin/salt-call"], "info")
        self.assertEqual(self.lines(stock), RECORDED)

    def test_t_log_1(self) -> None:
        """T-LOG-1: at no level does a state run log contents, arguments, logins, or C{no_log}."""
        text = self.ours("trace")

        self.assertIn("compile template: ", text)
        self.assertIn("The state third failed", text)
        self.assertIn("https://<redacted>@example.com/x", text)
        self.assertNotIn(CANARY, text)
