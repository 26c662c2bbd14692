"""
The renderer C{stateconf} where it is not as stock's, whose answers are recorded in
C{tests/interop/differential/cases/stateconf.yaml}.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.render.errors import TemplateFailure
from tests.domain.test_render import renderer


class StateConfTests(SynchronousTestCase):
    """Files that name their own states."""

    def test_wrong(self) -> None:
        """Wrong options and arguments are named; stock shows tracebacks for the last three."""
        for head, words in (("yaml", "Usage: #!stateconf [-GoSp]"), ("-x", "option -x not")):
            made = renderer({"base": {"a.sls": f"#!stateconf {head}\n.a: {{test.nop: []}}\n"}})
            failure = self.assertRaises(TemplateFailure, made.file, "DIR/base/a.sls", sls="a")
            self.assertIn(words, str(failure))
        for arguments, words in (("5", "is not formed as a list"), ("", "a trailing colon")):
            made = renderer({"base": {"a.sls": f"#!stateconf\n.a: {{test.nop: {arguments}}}\n"}})
            failure = self.assertRaises(TemplateFailure, made.file, "DIR/base/a.sls", sls="a")
            self.assertIn(words, str(failure))

    def test_orderAndIncludes(self) -> None:
        """With C{-o} a relative include is one; stock fails without a word about why."""
        text = "#!stateconf -o yaml . jinja\ninclude: [.b]\n.x: {test.nop: []}\n.y: {test.nop: []}"
        made = renderer({"base": {"a.sls": text}})

        data = made.file("DIR/base/a.sls", sls="s.a")

        self.assertEqual(data["include"], [{"base": "s.b"}])
        order = data["s.a::y"]["test.nop"]
        self.assertEqual(order, [{"name": "y"}, {"require": [{"test": "s.a::x"}]}])

    def test_apart(self) -> None:
        """What a file sets is seen by files after it in the same compilation, and by no other."""
        files = {
            "a.sls": "#!stateconf\n.v: {stateconf.set: [{n: 1}]}\n",
            "b.sls": "#!stateconf yaml . shown\n.x: {test.nop: []}\n",
        }

        def seen(*names: str) -> list[str]:
            made, found = renderer({"base": files}), list[str]()

            def shown(data: Any, job: Any) -> str:
                found.extend(job.context)
                return str(data)

            made.engines["shown"] = shown
            for name in names:
                made.file(f"DIR/base/{name}.sls", sls=name)
            return found

        self.assertEqual(seen("a", "b"), ["sls_dir", "a::v", "a::goal"])
        self.assertEqual(seen("b"), ["sls_dir"])
