"""
C{retry} under C{test=True}.
"""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.fileclient import file_client
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.main import NoMaster
from saltwisted.worker.states.retry import retry_settings, would_retry

BRACES = "{x} {0} {} %s {"
TEXT = (
    "  The state would be retried every 7 seconds (with a splay of up to 0 seconds) a maximum of 3 "
    "times or until a result of True is returned"
)


class ForecastTests(SynchronousTestCase):
    """What is said of a state that would be repeated."""

    def test_braces(self) -> None:
        """A comment with braces is text: the run goes on, and what comes after it runs too."""
        top = Path(self.mktemp()).resolve()
        (top / "roots").mkdir(parents=True)
        (top / "roots" / "a.sls").write_text(
            "one:\n  test.configurable_test_state:\n    - changes: true\n    - result: true\n"
            f"    - comment: '{BRACES}'\n    - retry: {{attempts: 3, interval: 7}}\n"
            "two:\n  test.nop: []\n"
        )
        (top / "conf").mkdir()
        given = {
            "id": "m1",
            "root_dir": str(top),
            "file_client": "local",
            "file_roots": {"base": [str(top / "roots")]},
        }
        (top / "conf" / "minion").write_text(json.dumps(given))
        opts = load_from_disk("minion", str(top / "conf")).config.as_opts()
        master = NoMaster()
        loaders = Loaders(
            opts,
            grains={},
            pillar={},
            master=master,
            fileclient=lambda: file_client(opts, master),
            stock=False,
        )

        answer = loaders.modules["state.apply"]("a", test=True)

        comments = [each["comment"] for each in answer.values()]
        self.assertEqual(comments[0], BRACES + TEXT)
        self.assertEqual(len(comments), 2)

    def test_no_comment(self) -> None:
        """A state that says nothing is told of in the same words as in stock."""
        retry = retry_settings({"attempts": 3, "interval": 7})
        self.assertEqual(would_retry({"comment": ""}, retry), TEXT)
        self.assertEqual(would_retry({"comment": None}, retry), TEXT)
