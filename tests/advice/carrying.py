"""
Carries advice out: the command as it was printed, in a shell that finds our programs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import unittest

from saltwisted.advice import TABLE
from tests.harness import ROOT, scratch

WORD = r"(?:'[^']*'(?:\"'\"'[^']*')*|[^\s'\";]+?)"
ANY_WORDS = {"options": rf"(?: --\w+ {WORD})*", "pids": r"[\d ]+", "host": rf"{WORD}(?: {WORD})*?"}
PROGRAMS = ("saltwisted", "salt", "salt-run", "salt-key", "salt-call")


def printed(text: str, row: str) -> str:
    """
    The command of a row, as a text has it.

    @raises AssertionError: it is not there.
    """
    parts = re.split(r"\{(\w+)\}", TABLE[row].command)
    pattern = "".join(
        ANY_WORDS.get(part, WORD) if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
    if TABLE[row].command.startswith("salt"):
        pattern = rf"[^\s']*?{pattern}(?: -c {WORD})?"
    found = re.search(rf"(?<![^\s'(]){pattern}(?=['.,;)]*(?:\s|$))", text, re.M)
    if found is None:
        raise AssertionError(f"no command of {row} in:\n{text}")
    return found[0]


def plain(command: str) -> str:
    """The same without what tells this machine's shell where the program and its files are."""
    program, _, rest = command.partition(" ")
    return f"{os.path.basename(program)} {rest.partition(' -c ')[0]}"


class Shell:
    """
    A shell of somebody who uses this machine.

    @ivar environ: its variables; our programs are in its path.
    """

    def __init__(self, test: unittest.TestCase, **environ: str) -> None:
        folder = scratch(test)
        python = shlex.quote(sys.executable)
        for name in PROGRAMS:
            word = "" if name == "saltwisted" else f" {name}"
            self._write(f"{folder}/{name}", f'exec {python} -m saltwisted.cli.main{word} "$@"')
        run = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
        for name in ("twistd", "twistd3"):
            self._write(f"{folder}/{name}", f'exec {python} -c {shlex.quote(run)} "$@"')
        self.folder = folder
        self.environ = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": ROOT,
            # Never this machine's own
            "SALTWISTED_CONFIG_DIR": folder,
            **environ,
        }

    @staticmethod
    def _write(path: str, line: str) -> None:
        with open(path, "w") as stream:
            stream.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)

    def run(
        self, command: str, said: str = "", allowed: tuple[int, ...] = (0,), seconds: float = 90
    ) -> str:
        """
        Run one line; what it prints.

        @param said: its standard input.
        @raises AssertionError: it ends with another status.
        """
        done = subprocess.run(
            ["sh", "-c", command], input=said, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=seconds, check=False, cwd="/", env=self.environ,
        )  # fmt: skip
        if done.returncode not in allowed:
            raise AssertionError(f"{command}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def argv(self, command: str) -> list[str]:
        """How to start a line that stays: a daemon."""
        return ["sh", "-c", f"exec {command}"]
