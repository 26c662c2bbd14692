"""
Lines that come again and again are written once, and then counted.
"""

from __future__ import annotations

import io
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import LogLevel
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.base import SETTLE, OrderedService
from saltwisted.roles.logs import FOREIGN, MOST, QUIET, TELL, SaltLog, Target


class RepeatsTests(SynchronousTestCase):
    """A console, and a clock in the events."""

    def setUp(self) -> None:
        self.stream = io.StringIO()
        self.log = SaltLog([Target(self.stream, 10, "%(levelname)s %(message)s", "")])

    def say(self, at: float, text: str, level: Any = LogLevel.warn, **more: Any) -> None:
        """One event."""
        self.log(
            {
                "log_time": at,
                "log_level": level,
                "log_namespace": "saltwisted.x",
                "log_format": "{text}",
                "text": text,
                **more,
            }
        )

    def lines(self) -> list[str]:
        """What was written since the last time."""
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return text.splitlines()

    def test_counted(self) -> None:
        """Twice a second for ten minutes: one line, and a count once a minute."""
        for half in range(1200):
            self.say(half / 2, "the disk is full")

        first, *counts = self.lines()
        self.assertEqual(first, "WARNING the disk is full")
        self.assertIn(len(counts), (9, 10))
        self.assertRegex(counts[0], r"^WARNING the disk is full \(\d+ times more within \d+ s\)$")
        self.log.settle(600.0, everything=True)
        counts += self.lines()
        self.assertEqual(sum(int(line.split("(")[1].split()[0]) for line in counts), 1199)

    def test_settled(self) -> None:
        """It has ended: the count is written, and later the line is new again."""
        self.say(0.0, "refused")
        self.say(1.0, "refused")
        self.log.settle(2.0)
        self.assertEqual(self.lines(), ["WARNING refused"])
        self.log.settle(1.0 + QUIET)
        self.assertEqual(self.lines(), ["WARNING refused (1 time more within 1 s)"])
        self.say(TELL, "refused")
        self.assertEqual(self.lines(), ["WARNING refused"])
        self.log.settle(2 * TELL)
        self.assertEqual(self.lines(), [])

    def test_different(self) -> None:
        """Another text, level or error is another line; details are never counted."""
        self.say(0.0, "a")
        self.say(0.1, "b")
        self.say(0.2, "a", LogLevel.error)
        self.say(0.3, "a", LogLevel.error, log_failure=Failure(ValueError("one")))
        self.say(0.4, "a", LogLevel.error, log_failure=Failure(ValueError("two")))
        self.say(0.5, "d", LogLevel.debug)
        self.say(0.6, "d", LogLevel.debug)
        self.say(0.7, "first", LogLevel.info, always=True)
        self.say(0.8, "first", LogLevel.info, always=True)

        shown = [line for line in self.lines() if line.split()[0].isupper()]
        self.assertEqual(
            shown,
            ["WARNING a", "WARNING b", "ERROR a", "ERROR a", "ERROR a", "DEBUG d", "DEBUG d",
             "INFO first", "INFO first"],
        )  # fmt: skip

    def test_last_word(self) -> None:
        """Of two lines that follow one another quickly, the one that came last is told last."""
        for at, text in enumerate(("up", "down", "up", "down", "up")):
            self.say(float(at), text)
        self.log.settle(100.0)

        self.assertEqual(
            self.lines(),
            ["WARNING up", "WARNING down", "WARNING down (1 time more within 2 s)",
             "WARNING up (2 times more within 4 s)"],
        )  # fmt: skip

    def test_bounded(self) -> None:
        """However many different lines come, only so many are remembered."""
        for number in range(3 * MOST):
            self.say(1.0, f"line {number}")

        self.assertLessEqual(len(self.log._repeats._lines), MOST + 1)
        self.assertEqual(len(self.lines()), 3 * MOST)

    def test_T_LOG_2_one_line(self) -> None:
        """A name with a newline in it makes no line of its own, nor does it move a cursor."""
        forged = "ann\nWARNING all is well\r\x1b[2K\u2028\u202e"
        self.say(0.0, forged)
        self.say(1.0, "x", LogLevel.error, log_failure=Failure(ValueError(forged)))

        first, second, *trace = self.lines()
        self.assertEqual(first, r"WARNING ann\nWARNING all is well\r\x1b[2K\u2028\u202e")
        self.assertEqual(second, "ERROR x")
        self.assertTrue(trace)
        self.assertEqual([line for line in trace if not line.startswith("    ")], [])
        self.assertTrue(all(line.isprintable() for line in trace), trace)

    def test_T_LOG_2_budget(self) -> None:
        """What strangers cause makes so many lines a minute; the others are counted, ours stand."""
        for number in range(200):
            self.say(number / 10, f"user {number} may not", foreign=True)
            self.say(number / 10, f"ours {number}")

        lines = self.lines()
        self.assertEqual(sum("may not" in line for line in lines), FOREIGN)
        self.assertEqual(sum("ours" in line for line in lines), 200)
        self.log.settle(2 * TELL)
        told = [line for line in self.lines() if "refused requests" in line]
        self.assertEqual(len(told), 1, told)
        self.assertIn(f"{200 - FOREIGN} more lines", told[0])

    def test_daemon(self) -> None:
        """A daemon tells the count when a line has ended, and when it stops."""
        clock = Clock()
        told: list[tuple[bool, float]] = []

        class Observer:
            def settle(self, now: float, everything: bool = False) -> None:
                told.append((everything, clock.seconds()))

            def __call__(self, event: Any) -> None:
                """Not used."""

        service = OrderedService(clock, [], failed=lambda error: None, observer=Observer())
        self.successResultOf(service.startService())
        clock.advance(SETTLE)
        self.successResultOf(service.stopService())

        self.assertEqual(told, [(False, SETTLE), (True, SETTLE)])
        self.assertEqual(clock.getDelayedCalls(), [])
