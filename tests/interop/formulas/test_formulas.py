"""
Public formulas and sites' trees, compiled and tried by ours as by stock Salt 3008.2.

All of them take minutes and have to be fetched: with C{SALTWISTED_LONG}, from the folder that
C{SALTWISTED_FORMULAS} names or else from GitHub.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.harness import needs_peers
from tests.interop.formulas.applied import both, differing, place_of
from tests.interop.formulas.sides import CHANCE, alike, judge, steady
from tests.interop.formulas.trees import Tree, chosen, git_directory

LONG = os.environ.get("SALTWISTED_LONG", "0") == "1"
APPLIED = (
    *("chrony", "hostsfile", "nano", "openssh", "perl"),
    *("screen", "sudoers", "sysstat", "tmux", "vim"),
)
MIRROR = Path(os.environ.get("SALTWISTED_FORMULAS", "/tmp/saltwisted-formulas"))


class ComparingTests(SynchronousTestCase):
    """What counts as a difference."""

    def test_chance(self) -> None:
        """What stock does not answer twice alike is no difference; everything else is."""
        known = steady({"a": [1, "x"], "b": 2}, {"a": [1, "y"], "b": 2})

        self.assertEqual(known, {"a": [1, {CHANCE: True}], "b": 2})
        self.assertTrue(alike(known, {"a": [1, "z"], "b": 2}))
        self.assertFalse(alike(known, {"a": [2, "z"], "b": 2}))
        self.assertFalse(alike(known, {"a": [1, "z", 3], "b": 2}))
        self.assertFalse(alike(known, {"a": [1, "z"], "c": 2}))

    def test_places(self) -> None:
        """A line of what was left names its file or package, whatever else it says."""
        lines = ("package vim 2:9 install ok installed", "f 644 root:root /etc/a ", "0ab  /etc/a")

        self.assertEqual([place_of(line) for line in lines], ["package vim", "/etc/a", "/etc/a"])

    def test_chosen(self) -> None:
        """There are forty formulas and five sites at least, each with a whole commit."""
        trees = chosen().values()
        kinds = [tree.kind for tree in trees]

        self.assertGreaterEqual(kinds.count("formula"), 40)
        self.assertGreaterEqual(kinds.count("site"), 5)
        self.assertEqual({len(tree.commit) for tree in trees}, {40})


def fetched(names: Iterable[str]) -> dict[str, Tree]:
    """
    All trees that are listed, if those of these names can be had.

    @raises SkipTest: they cannot.
    """
    if not LONG:
        raise SkipTest("takes minutes: set SALTWISTED_LONG=1")
    trees = chosen()
    try:
        for name in names:
            git_directory(trees[name], MIRROR)
    except OSError as error:
        raise SkipTest(f"set SALTWISTED_FORMULAS to a folder of mirrors: {error}") from error
    return trees


@needs_peers
class FormulaTests(SynchronousTestCase):
    """Each tree on a machine of its own, for either side."""

    timeout = 3600

    def test_all(self) -> None:
        """
        Of those that stock runs the chunks are alike in 95 of 100, and what comes out differently
        is what the list says. What stock does not run ours refuses in the same words. Ours takes
        at most 0.45 of the processor time.
        """
        trees = fetched(chosen())
        whole = [tree for tree in trees.values() if tree.kind != "part"]

        with ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(lambda tree: judge(tree, trees, MIRROR), whole))

        ran = [one for one in verdicts if one.ran]
        differing = {one.tree.name: one.differs for one in verdicts if one.differs}
        written = {tree.name for tree in whole if tree.differs}
        self.assertEqual(set(differing) - written, set(), differing)
        compiled = [one for one in ran if "low" not in one.differs]
        self.assertGreaterEqual(len(compiled), 0.95 * len(ran), differing)
        mine, theirs = (sum(one.cpu[side] for one in ran) for side in ("ours", "stock"))
        self.assertLessEqual(mine, 0.45 * theirs)

    def test_applied(self) -> None:
        """
        Ten of them applied for real, twice, by either side: what is left is the same, no state
        fails, and the second run changes nothing.
        """
        trees = fetched(APPLIED)
        found = {}
        for name in APPLIED:
            theirs, mine = both(trees[name], trees, MIRROR)
            found[name] = [*differing(theirs, mine), *mine.failed, *mine.again]

        self.assertEqual({name: lines for name, lines in found.items() if lines}, {})
