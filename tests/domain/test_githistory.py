"""
The commits that were served before are kept as what each generation changed.
"""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.git.history import MOST, CommitHistory
from saltwisted.domain.git.mapping import Tip


def tip(number: int) -> Tip:
    """A commit of a number."""
    return Tip(f"{number:040x}", f"{number:040x}", f"{number + 1:040x}")


class CommitHistoryTests(SynchronousTestCase):
    """L{CommitHistory}."""

    def test_same(self) -> None:
        """Each generation that is kept is what was added, however refs and remotes came and went;
        so it is when it was written down and read again, and older ones are forgotten."""
        dice = random.Random(7)
        history = CommitHistory()
        added: dict[str, dict[str, dict[str, Tip]]] = {}
        remotes: dict[str, dict[str, Tip]] = {}
        for number in range(MOST + 50):
            remotes = {name: dict(refs) for name, refs in remotes.items()}
            for _ in range(dice.randrange(1, 4)):
                refs = remotes.setdefault(f"r{dice.randrange(3)}", {})
                refs[f"refs/tags/{dice.randrange(5)}"] = tip(number + 1000)
            for refs in list(remotes.values()):
                if refs and dice.random() < 0.2:
                    refs.pop(next(iter(refs)))
            if dice.random() < 0.1:
                remotes.pop(next(iter(remotes)))
            self.assertTrue(history.add(str(number), remotes, number))
            added[str(number)] = remotes
            if dice.random() < 0.1:
                history = CommitHistory(history.rows())

        for number in range(MOST + 50):
            expected = added[str(number)] if number >= 50 else None
            self.assertEqual(history.generation(str(number)), expected, number)
        self.assertEqual(len(history.rows()), MOST)

    def test_commits(self) -> None:
        """The newest generation that had a commit is found by it; the same twice is one."""
        history = CommitHistory()
        refs = {"r": {"refs/heads/a": tip(1)}}
        self.assertTrue(history.add("one", refs, 1.0))
        self.assertFalse(history.add("one", refs, 1.0))
        history.add("two", {"r": {**refs["r"], "refs/heads/b": tip(2)}}, 2.0)
        history.add("three", {"r": {"refs/heads/b": tip(2)}}, 3.0)
        newest = [(name, at, list(change["r"])) for name, at, change in history.newest(2)]
        self.assertEqual(newest, [("three", 3.0, ["refs/heads/a"]), ("two", 2.0, ["refs/heads/b"])])

        self.assertEqual(history.commits("0" * 39), {tip(1).commit, tip(2).commit})
        found = history.serving(tip(1).commit)
        self.assertEqual(found, {"r": {"refs/heads/a": tip(1), "refs/heads/b": tip(2)}})
        self.assertIsNone(history.serving(tip(9).commit))

    def test_odd_rows(self) -> None:
        """What is no history is an empty one."""
        for rows in (
            None,
            5,
            [1],
            [["a"]],
            [["a", 3, 1]],
            [["a", {"r": {"x": [1]}}, 1]],
            [["a", {"r": None}, 1]],
        ):
            history = CommitHistory(rows)
            self.assertEqual(history.rows(), [])
            self.assertTrue(history.add("one", {}, 1.0))
