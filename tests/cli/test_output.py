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


class SiteTests(SynchronousTestCase):
    """Outputters of the site's own."""

    def shown(self, name: str, how: str = "outputter_dirs", **modules: str) -> tuple[str, str]:
        """What an outputter prints, and what is said on standard error."""
        folder = self.mktemp()
        os.makedirs(os.path.join(folder, "output"))
        for module, text in modules.items():
            with open(os.path.join(folder, "output", f"{module}.py"), "w") as file:
                file.write(text)
        value: Any = [os.path.join(folder, "output")] if how == "outputter_dirs" else folder
        with captured("") as said:
            text = output.format_data({"a": 1}, name, {how: value, "id": "m", "color": False})
        return str(text), said[1].getvalue()

    def test_called(self) -> None:
        """C{output} gets the data; C{__opts__} are those of the command."""
        text = "def output(data, **kwargs):\n    return f'{data} {__opts__[\"id\"]}  '\n"
        for how in ("outputter_dirs", "extension_modules"):
            self.assertEqual(self.shown("mine", how, mine=text), ("{'a': 1} m", ""))

    def test_replaced(self) -> None:
        """One of the site's takes the place of ours of the same name."""
        text = "def output(data, **kwargs):\n    return 'ours no more'\n"
        self.assertEqual(self.shown("json", json=text), ("ours no more", ""))

    def test_bad(self) -> None:
        """One that fails or cannot be executed is named once; the data is shown by C{nested}."""
        for text, why in (
            ("def output(data, **kwargs):\n    return 1 / 0\n", "failed: ZeroDivisionError"),
            ("def output(data):\n    import sys; sys.exit(1)\n", "failed: SystemExit"),
            ("raise NameError('x')\n", "cannot be used: NameError: x"),
            ("import sys; sys.exit()\n", "cannot be used: SystemExit"),
        ):
            shown, said = self.shown("bad", bad=text)
            self.assertEqual(shown, "a:\n    1")
            self.assertEqual(said.count("bad.py"), 1, said)
            self.assertIn(why, said)
