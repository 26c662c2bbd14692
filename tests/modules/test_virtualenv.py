"""
Virtual environments: what makes them, and what a failure leaves.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules import harness


class MakingTests(SynchronousTestCase):
    """C{virtualenv.create} with programs that are played."""

    def setUp(self) -> None:
        self.patch(systools, "which", lambda name: None if "none" in name else f"/bin/{name}")
        self.ran: list[list[str]] = []
        self.path = Path(self.mktemp())
        self.code = 0

        def run_all(command: list[str], **_kw: Any) -> dict[str, Any]:
            self.ran.append(command)
            (Path(command[-1]) / "bin").mkdir(parents=True, exist_ok=True)
            return {"retcode": self.code, "stdout": "20.0", "stderr": "no space"}

        salt = {"cmd.run_all": run_all}
        self.venv: Any = harness.load("virtualenv_mod", salt=salt, opts={}, pillar={})

    def _command(self, **kwargs: Any) -> list[str]:
        self.venv.create(str(self.path), **kwargs)
        return self.ran[-1][:-1]

    def test_interpreters(self) -> None:
        """A Python makes it by C{-m venv}: as C{venv_bin}, or as C{python} of C{venv}."""
        for kwargs in (
            {"venv_bin": "/x/python3.9"},
            {"venv_bin": "venv", "python": "/x/python3.9"},
        ):
            self.assertEqual(self._command(**kwargs), ["/x/python3.9", "-m", "venv"])
        self.assertEqual(
            self._command(venv_bin="pypy3", prompt="a b"),
            ["pypy3", "-m", "venv", "--prompt", "a b"],
        )

    def test_refused(self) -> None:
        """Two interpreters, a missing one, and options of C{virtualenv} alone are errors."""
        for kwargs, text in (
            ({"venv_bin": "python3", "python": "python2"}, "not both"),
            (
                {"venv_bin": "venv", "python": "/none/py"},
                r"Cannot find requested python \(/none/py\)",
            ),
            ({"venv_bin": "/none/python"}, "Cannot find requested python"),
            ({"venv_bin": "python3", "extra_search_dir": ["/a"]}, "not supported"),
            ({"venv_bin": "pyvenv", "python": "python3"}, "not supported"),
        ):
            error = self.assertRaises(CommandExecutionError, self._command, **kwargs)
            self.assertRegex(str(error), text)
        self.assertEqual(self.ran, [])

    def test_halfMade(self) -> None:
        """What a failure has made is removed, so that a later run does not take it for whole."""
        self.code = 1

        self._command(venv_bin="venv")

        self.assertFalse(self.path.exists())

    def test_wasThere(self) -> None:
        """A directory that was there before is not removed after a failure."""
        self.code = 1
        self.path.mkdir()
        (self.path / "mine").touch()

        self._command(venv_bin="venv")

        self.assertEqual(sorted(os.listdir(self.path)), ["bin", "mine"])
