"""
Why something failed, in words for people.
"""

from __future__ import annotations

import ast
from pathlib import Path

from OpenSSL import SSL
from twisted.internet import error
from twisted.internet.defer import FirstError
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.transports.reasons import why

SOURCE = Path(__file__).resolve().parents[2] / "saltwisted"


class ReasonsTests(SynchronousTestCase):
    """Errors of Twisted, OpenSSL and our own."""

    def test_known(self) -> None:
        """The usual ones are said as one says them."""
        for problem, words in (
            (error.ConnectionRefusedError(111, "Connection refused"), "connection refused"),
            (error.ConnectionDone(), "the connection was closed"),
            (error.ConnectionLost("x"), "the connection was lost"),
            (error.TimeoutError(), "no answer in time"),
            (TimeoutError(), "no answer in time"),
            (error.DNSLookupError("no results"), "this name cannot be resolved"),
            (error.ConnectError(113, "x"), "no route to host"),
            (
                SSL.Error([("SSL routines", "", "certificate unknown")]),
                "TLS failed: certificate unknown",
            ),
            (StoreError("disk full", "/x"), "/x: disk full"),
            (ValueError(), "ValueError"),
        ):
            self.assertEqual(why(problem), words)
            self.assertEqual(why(Failure(problem)), words)

    def test_nested(self) -> None:
        """Of several failures the one that counts is told, and never a traceback."""
        inner = Failure(error.ConnectionRefusedError())
        self.assertEqual(why(FirstError(inner, 0)), "connection refused")
        several = Exception()
        several.reasons = [Failure(ValueError("a")), inner]  # type: ignore[attr-defined]
        self.assertEqual(why(several), "connection refused")
        self.assertEqual(why(Exception(f"x {inner}")), "Exception")

    def test_everywhere(self) -> None:
        """Nobody writes Twisted's own text of a failure but this module and logs' inner keys."""
        found = []
        for path in sorted(SOURCE.rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text if "getErrorMessage" in text else "")):
                if isinstance(node, ast.Attribute) and node.attr == "getErrorMessage":
                    found.append(str(path.relative_to(SOURCE)))

        self.assertEqual(sorted(found), ["roles/logs.py", "stores/jobs/history.py"])
