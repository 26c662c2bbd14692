"""
The mutations of C{tests.mutants} fit the source; whether tests notice them is in no run of CI.
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT
from tests.mutants import generated
from tests.mutants.every import every, stale, threats
from tests.mutants.mutation import Mutation, NotApplying, source_of
from tests.mutants.reasons import REASONS


class MutantTests(SynchronousTestCase):
    """What is checked without running a test."""

    def test_they_apply(self) -> None:
        """Each mutation finds its text, once."""
        names = [each.name for each in every()]
        sources: dict[str, bytes] = {}
        for each in every():
            source = sources.setdefault(each.path, source_of(each.path))
            changed = each.change(source)
            self.assertNotEqual(changed, source, each.name)

        self.assertEqual(sorted(names), sorted(set(names)))
        self.assertGreater(len(names), 500)

    def test_every_threat_has_one(self) -> None:
        """For each threat of the page some defence is taken out."""
        page = (Path(ROOT) / "docs" / "threats.md").read_text(encoding="utf-8")
        ids = set(re.findall(r"^\| (T-[A-Z]+-[0-9]+) \|", page, re.M))
        tried = set().union(*(threats(each) for each in every()))

        self.assertEqual(ids - tried, set())
        self.assertEqual(tried - ids, set())

    def test_reasons(self) -> None:
        """Each reason is one, and is about a mutation that there is."""
        self.assertEqual(stale(), [])
        for name, reason in REASONS.items():
            self.assertGreater(len(reason.split()), 4, name)

    def test_tests(self) -> None:
        """The tests that are nearest are there."""
        for name in {test for each in every() for test in each.tests}:
            words = name.split(".")
            module = next(
                ".".join(words[:end]) for end in range(len(words), 0, -1) if is_module(words[:end])
            )
            spec = find_spec(module)
            assert spec is not None and spec.origin is not None
            text = Path(spec.origin).read_text(encoding="utf-8")
            for word in words[module.count(".") + 1 :]:
                self.assertRegex(text, rf"(class|def) {word}\b", name)

    def test_old_text(self) -> None:
        """A mutation whose text is gone, or stands twice, says so, and changes nothing."""
        row = {"name": "x", "path": "x.py", "new": "c", "tests": ()}
        one = Mutation(old="a", **row)
        self.assertEqual(one.change(b"b a b"), b"b c b")
        for source in (b"", b"b", b"a a"):
            self.assertRaises(NotApplying, one.change, source)
        self.assertRaises(NotApplying, Mutation(old="c", **row).change, b"c")
        self.assertRaises(NotApplying, Mutation(old="a", at=1, **row).change, b"a b")

    def test_kinds(self) -> None:
        """What is made of a source: each kind, by names that do not change with its lines."""
        source = (
            b"MOST = 3\n"
            b"def f(a):\n"
            b"    if a < 1 or a > MOST:\n"
            b"        raise ValueError('no')\n"
            b"    try:\n"
            b"        return g(a)\n"
            b"    except KeyError:\n"
            b"        raise ValueError('renamed')\n"
            b"class C:\n"
            b"    def may(self):\n"
            b"        if x or y:\n"
            b"            return False\n"
            b"        return True\n"
            b"def whom(a) -> Judging[Grant | None]:\n"
            b"    if a:\n"
            b"        return None\n"
            b"    return Standing.NEVER\n"
            b"def other(a) -> Refusal | None:\n"
            b"    return None\n"
        )
        self.patch(generated, "RIGHTS", {"x/y.py": ()})
        found = generated.of_source("x/y.py", source, ())

        self.assertEqual(
            {each.name: each.new for each in found},
            {
                "x.y: bound MOST": "1000 * (3)",
                "x.y.f: and a < 1 or a > MOST": "((a < 1) and (a > MOST))",
                "x.y.f: let a < 1 or a > MOST": "pass",
                "x.y.C.may: and x or y": "((x) and (y))",
                "x.y.C.may: yes x or y": "True",
                "x.y.whom: yes a": "Grant()",
                "x.y.whom: yes at the end": "Standing.FREE",
            },
        )
        for each in found:
            ast.parse(each.change(source))
        moved = generated.of_source("x/y.py", b"# a comment\n\n" + source, ())
        self.assertEqual([each.name for each in moved], [each.name for each in found])


def is_module(words: list[str]) -> bool:
    """Whether there is a module of these names."""
    path = Path(ROOT, *words)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
