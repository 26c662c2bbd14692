"""
What C{.ci/run} runs: nothing is left out by the way in which it is divided.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent
SMALL = '''
from tests.harness import needs_peers
from tests.sim.play import count

SEEDS = count(1, 2, 3)

class Seeds:
    def test_one(self):
        play(SEEDS)

class Case:
    """Neither."""

@NEEDS
class Beside(Case):
    def test_two(self): ...

class After(Beside):
    """Tests of its base."""

class Alike(Case):
    def test_three(self): ...
'''


def chosen() -> ModuleType:
    """The module of C{.ci}, which is no package."""
    path = ROOT / ".ci/chosen.py"
    spec = importlib.util.spec_from_file_location("saltwisted_ci_chosen", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


class SuiteTests(SynchronousTestCase):
    """The suites, by name."""

    def setUp(self) -> None:
        self.chosen = chosen()
        self.addCleanup(sys.modules.pop, "saltwisted_ci_chosen")

    def parts(self, *kind: str) -> list[str]:
        """What the suites of a kind run."""
        suites: list[Any] = self.chosen.read(ROOT / ".ci/suites")
        found = [one for one in suites if one.options & {"bare", "debian"} == set(kind)]
        return [test for one in found for test in one.tests]

    def modules(self) -> list[str]:
        """All modules of tests."""
        paths = (ROOT / "tests").rglob("test_*.py")
        return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)

    def runs(self, module: str, parts: list[str]) -> int:
        """How many of these run a module."""
        return sum(module == part or module.startswith(f"{part}.") for part in parts)

    def test_all_on_the_newest(self) -> None:
        """
        The suites without stock peers run each module once, as README's command does; but for the
        simulations whose first seeds those beside stock play as well.
        """
        suites = self.chosen.read(ROOT / ".ci/suites")
        seeds = [test for one in suites if "seeds" in one.options for test in one.tests]
        parts = [*self.parts("bare"), *seeds]

        self.assertEqual([one for one in self.modules() if self.runs(one, parts) != 1], [])
        for one in seeds:
            text = (ROOT / one.replace(".", "/")).with_suffix(".py").read_text()
            self.assertRegex(text, r"from tests\.sim\.play import .*\bcount\b", one)
            self.assertNotIn("PEERS", text, one)
            self.assertNotIn("peer_venv", text, one)

    def test_all_on_debian(self) -> None:
        """With C{--long} the same holds on Debian's packages; else nothing runs twice there."""
        usual = self.parts("bare", "debian")
        self.patch(self.chosen, "LONG", True)
        parts = self.parts("bare", "debian")

        self.assertEqual([one for one in self.modules() if self.runs(one, parts) != 1], [])
        self.assertEqual([one for one in usual if one not in parts], [])

    def test_all_beside_stock(self) -> None:
        """What needs a stock peer is in a suite that has them."""
        parts = [re.sub(r"\.[A-Z].*", "", part) for part in self.parts() + self.parts("debian")]
        needy = [
            one
            for one in self.modules()
            if re.search(
                r"^\s*@needs_peers$",
                (ROOT / one.replace(".", "/")).with_suffix(".py").read_text(),
                re.M,
            )
        ]

        self.assertGreater(len(needy), 20)
        self.assertEqual([one for one in needy if not self.runs(one, parts)], [])

    def test_more(self) -> None:
        """Of a module that is divided those classes run again that do more beside stock."""
        file = Path(self.mktemp()).resolve()
        file.mkdir()
        file /= "test_small.py"
        file.write_text(SMALL.replace("NEEDS", "needs_peers"))
        self.patch(self.chosen, "ROOT", file.parent)
        self.patch(self.chosen, "LONG", False)

        self.assertEqual(
            self.chosen.more("test_small"),
            ["test_small.Seeds", "test_small.Beside", "test_small.After"],
        )
