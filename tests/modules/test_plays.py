"""
Our modules, in played surroundings, answer and do what stock's do.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any
from unittest import skipIf

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from tests.modules.plays import VECTORS, Play, perform

_really = subprocess.run


def _run(words: Any, *args: Any, **options: Any) -> Any:
    """The one program that is started without C{cmd.run}: stock looks whether it works at all."""
    if words == ["localectl"]:
        return subprocess.CompletedProcess(words, 0, b"", b"")
    return _really(words, *args, **options)


class PlayTests(SynchronousTestCase):
    """Each test performs one play of L{tests.modules.plays}."""

    def check(self, name: str) -> None:
        """Perform, and compare answers, commands and calls with the record."""
        with open(VECTORS, encoding="utf-8") as file:
            recorded = json.load(file)[name]
        self.addCleanup(os.umask, os.umask(0o022))
        self.patch(os, "environ", {**os.environ, "HOME": "/root"})

        def patch(play: Play) -> None:
            self.patch(systools, "which", play.which)
            self.patch(systools, "which_bin", play.which_bin)
            self.patch(subprocess, "run", _run)

        play, found = perform(name, patch)

        self.assertEqual(len(found), len(recorded), "the vectors are of another script")
        different = [
            f"{call}\n  stock {theirs}\n  ours  {ours}"
            for call, theirs, ours in zip(_shown(play), recorded, found, strict=True)
            if theirs != ours
        ]
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_hosts(self) -> None:
        """The file of hosts is read and written as stock does, comments and odd lines included."""
        self.check("hosts")

    def test_kmod(self) -> None:
        """Kernel modules are loaded and removed with stock's commands and changes."""
        self.check("kmod")

    def test_sysctl(self) -> None:
        """Kernel parameters are shown, set and kept as in stock, with its errors."""
        self.check("sysctl")

    @skipIf(os.getuid() != 0, "the time zone of a machine is root's to set")
    def test_timezone(self) -> None:
        """Zone and hardware clock are told and set through timedatectl as in stock."""
        self.check("timezone")

    def test_locale(self) -> None:
        """The language is found and set with systemd and without it as in stock."""
        self.check("locale")

    def test_alternatives(self) -> None:
        """Alternatives are shown and changed with stock's commands and answers."""
        self.check("alternatives")

    def test_mount(self) -> None:
        """Tables of mounts become what stock makes of them, and mounting runs its commands."""
        self.check("mount")

    def test_debconf(self) -> None:
        """Answers of packages are read and preset as in stock."""
        self.check("debconf")

    def test_pip(self) -> None:
        """Every option of pip ends in stock's command line, or in its refusal."""
        self.check("pip")

    def test_virtualenv(self) -> None:
        """Virtual environments are made with stock's commands, and its refusals are ours."""
        self.check("virtualenv")

    def test_git(self) -> None:
        """Git is run and its output understood as in stock, errors without passwords."""
        self.check("git")

    def test_ini(self) -> None:
        """Every odd file gives stock's answers, and stock's file after every change."""
        self.check("ini")

    def test_ssh(self) -> None:
        """Keys and known hosts are told, added and removed as in stock, line by line."""
        self.check("ssh")

    def test_archive(self) -> None:
        """Archives are listed, made and unpacked as in stock."""
        self.check("archive")


def _shown(play: Play) -> Iterator[str]:
    """The calls whose outcomes are compared."""
    for function, args, kwargs in play.calls:
        if isinstance(function, str):
            words: list[Any] = [repr(arg) for arg in args]
            words += [f"{key}={value!r}" for key, value in kwargs.items()]
            yield f"{function}({', '.join(words)})"
        elif function.__qualname__.startswith(("Play.read.", "Play.tree.")):
            yield "the files"
