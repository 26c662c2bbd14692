"""
What stands behind a slot's call.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.states.slots import fill_slots


class AppendedTests(SynchronousTestCase):
    """Text behind C{~} is appended to the answer."""

    def _filled(self, text: str) -> Any:
        functions = {
            "test.echo": lambda text: text,
            "test.arg": lambda *args, **kwargs: {"args": args, "kwargs": kwargs},
        }
        args: list[Any] = [f"__slot__:salt:{text}"]
        fill_slots(functions, args, {})
        return args[0]

    def test_appended(self) -> None:
        """With and without quotes and blanks; quotes in pairs are taken away."""
        for written, meant in (
            (" ~ /x", "/tmp/x"),
            (' ~ "/x y"', "/tmp/x y"),
            (" ~ '/x'", "/tmp/x"),
            ("~/x.y", "/tmp/x.y"),
            ("  ", "/tmp"),
            (' ~ "', '/tmp"'),
            (" ~ ''", "/tmp"),
            (" ~ \"x'", "/tmp\"x'"),
        ):
            self.assertEqual(self._filled(f"test.echo(/tmp){written}"), meant)

    def test_path(self) -> None:
        """A path into the answer is followed first; only text is appended to."""
        self.assertEqual(self._filled("test.arg(1, k=a).kwargs.k ~ '.txt'"), "a.txt")
        self.assertEqual(self._filled("test.arg(1, k=a).kwargs ~ x"), {"k": "a"})
