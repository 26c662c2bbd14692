"""
Completion as it is typed: real shells on a terminal, with the files that the package has.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, scratch, write_config
from tests.packaging.root import CACHE

NAMES = ("salt", "salt-call", "salt-cp", "salt-key", "salt-run")
PATIENCE = 120.0
CLEAR = "\x15"


@unittest.skipUnless(CACHE, "SALTWISTED_PACKAGES is not set: shells are tried where packages are")
class ShellTests(SynchronousTestCase):
    """One master's keys, the commands on the path, and a shell."""

    def setUp(self) -> None:
        self.home = scratch(self)
        for name, folder in (("web1", "minions"), ("web2", "minions"), ("new1", "minions_pre")):
            place = Path(self.home, "pki", folder)
            place.mkdir(parents=True, exist_ok=True)
            Path(place, name).touch()
        write_config(f"{self.home}/etc/master", {"pki_dir": f"{self.home}/pki"})
        programs = Path(self.home, "bin")
        programs.mkdir()
        for name in ("saltwisted", *NAMES):
            program = Path(programs, name)
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -m saltwisted.cli.main "$@"\n'
                if name == "saltwisted"
                else "#!/bin/sh\n"
            )
            program.chmod(0o755)
        self.files = Path(self.home, "completions")
        self.files.mkdir()
        self.environ = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": ROOT,
            "HOME": self.home,
            "SALTWISTED_CONFIG_DIR": f"{self.home}/etc",
            "TERM": "dumb",
            "PS1": "> ",
        }

    def make(self, shell: str) -> str:
        """Write the shell's file; it has to be there, since CI has installed it."""
        self.assertTrue(shutil.which(shell), f"{shell} is not installed")
        script = os.path.join(ROOT, "packaging/deb/completions.py")
        subprocess.run([sys.executable, script, shell, str(self.files)], check=True)
        return str(next(self.files.iterdir()))

    def type(self, argv: list[str], begin: str, lines: list[tuple[str, str]]) -> None:
        """Type into a shell on a terminal; after each line the pattern has to appear."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], argv, self.environ)
        try:
            # what is typed is echoed: only what the shell itself writes has the whole word
            self.typed(terminal, f"{begin}; echo rea''dy\n", r"\bready\b")
            for line, pattern in lines:
                self.typed(terminal, CLEAR + line, pattern)
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    def typed(self, terminal: int, text: str, pattern: str) -> None:
        """One line, and what the terminal shows."""
        os.write(terminal, text.encode())
        seen = ""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, seen):
            self.assertLess(time.monotonic(), end, f"typed {text!r}, seen {seen!r}")
            if select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace")

    LINES = [
        ("salt-call test.pi\t", r"salt-call test\.ping "),
        ("salt w\t\t\t", r"web1\s+web2"),
        ("salt 'w\t\t\t", r"web1\s+web2"),
        ("salt web1 grains.ite\t\t\t", r"grains\.item\s+grains\.items"),
        ("saltwisted salt-key -a n\t", r"salt-key -a new1 "),
        ("salt-run jobs.list_jobs_f\t", r"jobs\.list_jobs_filter"),
        ("saltwisted takeo\t", r"saltwisted takeover "),
    ]

    def test_bash(self) -> None:
        """Functions, ids of minions, quoted targets, keys that wait, commands."""
        path = self.make("bash")
        self.type(["bash", "--norc", "--noprofile", "-i"], f"source {path}", self.LINES)

    def test_zsh(self) -> None:
        """The same, by zsh's own way to find the file."""
        self.make("zsh")
        begin = f"fpath=({self.files} $fpath); autoload -U compinit; compinit -u -D"
        self.type(["zsh", "-f", "-i"], begin, self.LINES)

    def test_fish(self) -> None:
        """fish says itself what it would offer; its file is found by the command's name."""
        path = self.make("fish")
        for name in NAMES:
            os.symlink(path, self.files / f"{name}.fish")
        for line, offered in (
            ("salt-call test.pi", ["test.ping"]),
            ("salt w", ["web1", "web2"]),
            ("salt 'w", ["web1", "web2"]),
            ("salt web1 grains.ite", ["grains.item", "grains.items"]),
            ("salt-key -a n", ["new1"]),
            ("saltwisted salt-key -a n", ["new1"]),
            ("saltwisted takeo", ["takeover"]),
        ):
            ask = f"set fish_complete_path {self.files}; complete -C {self.quoted(line)}"
            done = subprocess.run(
                ["fish", "--no-config", "-c", ask],
                capture_output=True, text=True, env=self.environ, timeout=PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual(done.stdout.split(), offered, f"{line}: {done.stderr}")

    @staticmethod
    def quoted(text: str) -> str:
        """For fish, which knows two escapes within single quotes."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
