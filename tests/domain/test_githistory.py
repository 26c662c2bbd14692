"""
The commits that were served before are kept as what each generation changed.
"""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.git import history
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
        kept = CommitHistory()
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
            self.assertTrue(kept.add(str(number), remotes, number))
            added[str(number)] = remotes
            if dice.random() < 0.1:
                kept = CommitHistory(kept.rows())

        for number in range(MOST + 50):
            expected = added[str(number)] if number >= 50 else None
            self.assertEqual(kept.generation(str(number)), expected, number)
        self.assertEqual(len(kept.rows()), MOST)

    def test_used_before(self) -> None:
        """What was used when it was written down counts as used since the start, however late."""
        self.patch(history, "MOST", 2)
        late = 10.0 * history.USED
        for now, stays in ((None, False), (late, True)):
            kept = CommitHistory()
            for number in range(4):
                refs = {"r": {"refs/tags/1": tip(number + 1000)}}
                kept.add(str(number), refs, float(number), ["0"])
            kept = CommitHistory(kept.rows(), now)
            kept.add("new", {"r": {"refs/tags/1": tip(2000)}}, late + 1.0)
            self.assertEqual(kept.generation("0") is not None, stays)

    def test_used(self) -> None:
        """
        Beside the newest only what something runs on is kept: as it was, over a restart, at most so
        many, and not for ever when nobody says so any more.
        """
        self.patch(history, "MOST", 5)
        self.patch(history, "MOST_USED", 4)
        dice = random.Random(3)
        kept = CommitHistory()
        added: list[dict[str, dict[str, Tip]]] = []
        used: set[str] = set()
        for number in range(300):
            remotes = {name: dict(refs) for name, refs in added[-1].items()} if added else {}
            remotes.setdefault(f"r{dice.randrange(3)}", {})[f"{dice.randrange(5)}"] = tip(number)
            if dice.random() < 0.3:
                remotes.pop(dice.choice(sorted(remotes)))
            added.append(remotes)
            used = {name for name in used if dice.random() < 0.95}
            if dice.random() < 0.3:
                used.add(str(number))
            # Who is not used now was used so long ago that it does not count
            self.assertTrue(kept.add(str(number), remotes, number * history.USED, used))
            if dice.random() < 0.2:
                kept = CommitHistory(kept.rows())
            old = sorted((int(name) for name in used if int(name) <= number - 5), reverse=True)
            expected = {*range(max(0, number - 4), number + 1), *old[:4]}
            used = {name for name in used if int(name) in expected}
            self.assertEqual([row[0] for row in kept.rows()], [*map(str, sorted(expected))])
            for each in expected:
                self.assertEqual(kept.generation(str(each)), added[each], (number, each))

    def test_used_lately(self) -> None:
        """What was used just before a restart is kept until those who use it can say so again."""
        self.patch(history, "MOST", 2)
        kept = CommitHistory()
        kept.add("run", {"r": {"a": tip(1)}}, 0.0)
        kept.add("2", {"r": {"a": tip(2)}}, 1.0, {"run"})
        kept = CommitHistory(kept.rows())
        for number in range(3, 6):
            kept.add(str(number), {"r": {"a": tip(number)}}, 100.0 + number)
        self.assertEqual(kept.generation("run"), {"r": {"a": tip(1)}})
        kept.add("6", {"r": {"a": tip(6)}}, history.USED + 1.0)
        self.assertIsNone(kept.generation("run"))
        self.assertEqual(len(kept.rows()), 2)

    def test_commits(self) -> None:
        """The newest generation that had a commit is found by it; the same twice is one."""
        kept = CommitHistory()
        refs = {"r": {"refs/heads/a": tip(1)}}
        self.assertTrue(kept.add("one", refs, 1.0))
        self.assertFalse(kept.add("one", refs, 1.0))
        kept.add("two", {"r": {**refs["r"], "refs/heads/b": tip(2)}}, 2.0)
        kept.add("three", {"r": {"refs/heads/b": tip(2)}}, 3.0)
        newest = [(name, at, list(change["r"])) for name, at, change in kept.newest(2)]
        self.assertEqual(newest, [("three", 3.0, ["refs/heads/a"]), ("two", 2.0, ["refs/heads/b"])])

        self.assertEqual(kept.commits("0" * 39), {tip(1).commit, tip(2).commit})
        found = kept.serving(tip(1).commit)
        self.assertEqual(found, {"r": {"refs/heads/a": tip(1), "refs/heads/b": tip(2)}})
        self.assertIsNone(kept.serving(tip(9).commit))

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
            kept = CommitHistory(rows)
            self.assertEqual(kept.rows(), [])
            self.assertTrue(kept.add("one", {}, 1.0))
