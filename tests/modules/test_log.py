"""
What C{log.*} writes to the log.
"""

from __future__ import annotations

import logging

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders


class Kept(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class LogTests(SynchronousTestCase):
    """C{log.debug} and the others, through the loader."""

    def setUp(self) -> None:
        opts = MinionConfig(id="m1", file_client="local").as_opts()
        self.functions = Loaders(opts, grains={}, pillar={}, stock=False).modules
        self.kept = Kept()
        root = logging.getLogger()
        self.patch(root, "handlers", [self.kept])
        self.patch(root, "level", 1)

    def test_levels(self) -> None:
        """Each function logs at the level of its name; signs of formats are text."""
        text = "50 % of {all} %s"
        levels = ("debug", "info", "warning", "error", "critical")

        for name in levels:
            self.assertIs(self.functions[f"log.{name}"](text), True)

        said = [
            (record.levelname.lower(), record.getMessage())
            for record in self.kept.records
            if record.name.endswith(".logmod")
        ]
        self.assertEqual(said, [(name, text) for name in levels])

    def test_exception(self) -> None:
        """C{log.exception} adds the exception that is handled."""
        try:
            raise ValueError("the reason")
        except ValueError:
            self.functions["log.exception"]("it failed")

        record = self.kept.records[-1]
        self.assertEqual((record.levelname, record.getMessage()), ("ERROR", "it failed"))
        self.assertIn("the reason", logging.Formatter().format(record))
