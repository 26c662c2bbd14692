"""
Outputters, against the recorded texts of stock Salt 3008.2 (see C{record.py}).
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import args, output
from tests.cli import record
from tests.cli.support import captured


def recorded(name: str) -> Any:
    """A recorded file."""
    with open(os.path.join(record.DATA, name), encoding="utf-8") as file:
        return json.load(file)


class RecordedTests(SynchronousTestCase):
    """Every recorded case, byte for byte."""

    def test_outputs(self) -> None:
        """Each outputter prints each case as stock does, with each set of options."""
        cases = record.cases()
        texts = recorded("outputs.json")["texts"]

        wrong = []
        for case, expected in zip(cases, texts, strict=True):
            kwargs = {"_retcode": case["retcode"]} if "retcode" in case else {}
            with captured(""):
                text = output.format_data(
                    copy.deepcopy(case["data"]), case["out"], dict(case["opts"]), **kwargs
                )
            if text != expected:
                wrong.append(
                    f"{case['out']} {case['name']} {case['opts']}\n{expected}\n---\n{text}"
                )

        self.assertEqual("\n\n".join(wrong[:3]), "", f"{len(wrong)} of {len(cases)} differ")

    def test_arguments(self) -> None:
        """Each word of the command line becomes the value that stock makes of it."""
        answers = recorded("args.json")["answers"]

        wrong = [
            (word, expected, repr(args.parse_input([word])))
            for word, expected in answers
            if repr(args.parse_input([word])) != expected
        ]

        self.assertEqual([word for word, _ in answers], record.words())
        self.assertEqual(wrong, [])
