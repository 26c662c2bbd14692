"""
Names of refs, judged as git judges them.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.git import GitRemote, judge
from saltwisted.domain.git.agreement import aside_of, objects_of, tips_of
from saltwisted.errors import ConfigError
from saltwisted.refnames import is_branch, is_ref

A = "a" * 40
GOOD = (
    "refs/remotes/origin/master", "refs/remotes/origin/feature/x.y", "refs/tags/v1", "refs/tags/@",
    "refs/tags/\u00fc", "refs/tags/a@b", "refs/tags/-x", "refs/tags/a.lock.b", "refs/tags/{x}",
)  # fmt: skip
BAD = (
    "refs/remotes/../../x", "refs/remotes/origin/..", "refs/remotes/./x", "refs/tags/.x",
    "refs/tags/a/.b", "refs/tags/x.lock", "refs/tags/x.lock/y", "refs/tags/x.", "refs/tags/x/",
    "refs/tags//x", "refs/tags/", "refs/tags/a..b", "refs/tags/a@{1}", "refs/tags/a b",
    "refs/tags/a\nb", "refs/tags/a\tb", "refs/tags/a\0b", "refs/tags/a\x7fb", "refs/tags/a~b",
    "refs/tags/a^b", "refs/tags/a:b", "refs/tags/a?b", "refs/tags/a*b", "refs/tags/a[b",
    "refs/tags/a\\b",
)  # fmt: skip
"""Of which git dies where it reads them, or that it refuses to make."""
ELSEWHERE = ("refs/heads/master", "refs/saltwisted/" + A, "refs/x", "HEAD", "", "refs/remotes")


class RefNamesTests(SynchronousTestCase):
    """The function itself, and who asks it."""

    def test_is_ref(self) -> None:
        """Names are judged by the rules of C{git check-ref-format}."""
        self.assertEqual([name for name in GOOD if not is_ref(name)], [])
        self.assertEqual([name for name in BAD if is_ref(name)], [])
        self.assertTrue(is_branch("feature/x.y"))
        self.assertEqual([name for name in ("-x", "", "a..b", "/a") if is_branch(name)], [])

    def test_T_GIT_10_members(self) -> None:
        """
        T-GIT-10: a member names no ref of which git here would die, nor one that is not for
        members, wherever in a message it could.
        """
        for name in GOOD:
            self.assertEqual(objects_of({name: A}, 9), {name: A})
            aside_of({"seen": {name: A}, "refused": {name: [A, "why"]}}, 9)
        for name in (*BAD, *ELSEWHERE):
            for read in (
                lambda name: objects_of({name: A}, 9),
                lambda name: tips_of({name: [A, A, A]}, 9),
                lambda name: aside_of({"seen": {name: A}}, 9),
                lambda name: aside_of({"back": {name: [A, A, A]}}, 9),
                lambda name: aside_of({"refused": {name: [A, "why"]}}, 9),
            ):
                self.assertRaises(ValueError, read, name)

    def test_T_GIT_10_objects(self) -> None:
        """T-GIT-10: nor an object whose name would be several lines of a question to git."""
        odd: tuple[Any, ...] = ("", "x", f"{A}\n", f"{A}\n{A}", "A" * 40, "-" + "a" * 39, 7, None)
        for oid in odd:
            for name in ("pins", "signed", "good"):
                self.assertRaises(ValueError, aside_of, {name: [oid]}, 9)
            self.assertRaises(ValueError, aside_of, {"seen": {"refs/tags/a": oid}}, 9)
            self.assertRaises(ValueError, aside_of, {"refused": {"refs/tags/a": [oid, "x"]}}, 9)
        for name in ("pins", "signed", "good", "seen", "refused", "back"):
            self.assertRaises(ValueError, aside_of, {name: 7}, 9)

    def test_configuration(self) -> None:
        """A refspec that git would refuse at each fetch is refused at the start."""
        for spec in (
            "+refs/heads/*:refs/remotes/../../*",
            "+refs/heads/../x:refs/remotes/origin/x",
            "+refs/heads/*:refs/remotes/origin/*/*",
            "+refs/heads/x.lock:refs/remotes/origin/x",
            "^refs/heads/../x",
        ):
            remote = GitRemote(id="x", url="https://git.example/x", refspecs=(spec,))
            self.assertRaises(ConfigError, judge, remote)
        for spec in ("+refs/heads/*:refs/remotes/origin/*", "^refs/heads/x/*", "x:refs/tags/x"):
            judge(GitRemote(id="x", url="https://git.example/x", refspecs=(spec,)))
