"""
What C{minion_events} opens, and the line that is advised.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as some
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.document import parse
from saltwisted.domain.minionevents import MOST, adding, allowing, refusal

WORDS = some.text(some.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8)
GLOBS = some.sampled_from(("deploy/*", "salt/custom/*", "*", "app/[ab]", "it's", "a: b", "# x"))
OPTIONS = some.dictionaries(
    some.sampled_from(("*", "web1", "ci*", "web[0-9]+")), some.lists(GLOBS, max_size=3), max_size=4
)


class RefusalTests(SynchronousTestCase):
    """T-EVT-3, T-EVT-4."""

    def may(self, acl: dict[str, Any], tag: Any, minion: str = "web1") -> bool:
        """Whether a minion may fire it."""
        return refusal(acl, minion, tag) is None

    def test_T_EVT_4_rules(self) -> None:
        """T-EVT-4: only a rule that begins with C{salt/} opens more below it, for who it names."""
        tag = "salt/custom/x"
        for closed in ({}, {"*": ["*"]}, {"*": ["s*"]}, {"*": ["salt*"]}, {"ci*": ["salt/*"]}):
            self.assertFalse(self.may(closed, tag), closed)
        for opened in ({"*": ["salt/custom/*"]}, {"web1": "salt/custom/x"}, {"*": ["salt/*"]}):
            self.assertTrue(self.may(opened, tag), opened)
            self.assertFalse(self.may(opened, "salt/run/1/ret"))
            self.assertFalse(self.may(opened, "salt/minion/web2/start"))
            self.assertTrue(self.may(opened, "salt/minion/web1/start"))

    def test_T_EVT_4_hooks(self) -> None:
        """T-EVT-4: hooks and updates of files are the master's, unless a rule names them."""
        for tag in ("salt/netapi/hook/deploy", "salt/fileserver/gitfs/update"):
            self.assertFalse(self.may({}, tag))
            self.assertFalse(self.may({"*": ["*", "salt/custom/*"]}, tag))
            self.assertTrue(self.may({"*": [tag]}, tag))

    def test_never(self) -> None:
        """What no rule opens has its own counter, and no advice."""
        for tag in ("salt/run/1/ret", "salt/minion/web2/start", "", None, b"x", "x" * 5000):
            found = refusal({"*": ["*", "salt/*"]}, "web1", tag)
            assert found is not None
            self.assertEqual((found.counter, found.advice), ("dropped:event", ""))

    def test_example(self) -> None:
        """The line keeps all that was allowed; without the option that is all tags of its own."""
        self.assertEqual(
            allowing({}, "web1", "salt/custom/x"),
            "minion_events: {'*': ['*'], 'web1': ['salt/custom/x']}",
        )
        self.assertEqual(
            allowing({"web1": "a/*", "ci*": ["b"]}, "web1", "it's/[x]"),
            "minion_events: {'web1': ['a/*', 'it''s/[[]x]'], 'ci*': ['b']}",
        )

    @given(
        OPTIONS,
        some.lists(WORDS, min_size=1, max_size=3),
        some.sampled_from(("salt/", "salt/custom/", "site/", "")),
    )
    @example({}, ["x"], "salt/")
    @example({"*": ["a"]}, ["*?[x]"], "salt/")
    @example({}, ["\u2028"], "salt/")
    def test_T_EVT_4_advice(self, acl: dict[str, Any], words: list[str], head: str) -> None:
        """
        T-EVT-4: the line that is advised can be pasted: it allows this tag to this minion, takes
        nothing from anybody, and opens it for no other.
        """
        tag = head + "/".join(words)
        found = refusal(acl, "web1", tag)
        if found is None or found.counter == "dropped:event" or not found.advice:
            self.assertTrue(found is None or found.counter == "dropped:event" or not _plain(tag))
            return
        pasted = parse(found.advice, "master")["minion_events"]

        self.assertTrue(self.may(pasted, tag), found.advice)
        self.assertFalse(self.may(pasted, tag, "db9"), found.advice)
        for minion in ("web1", "web2", "ci1", "db9"):
            for other in ("deploy/x", "salt/custom/y", "app/a", "other", "salt/other"):
                if self.may(acl, other, minion):
                    self.assertTrue(self.may(pasted, other, minion), (minion, other))
                elif other != tag:
                    self.assertFalse(self.may(pasted, other, minion), (minion, other))

    def test_long(self) -> None:
        """Of an option with many rules the line is the minion's part; a tag of a page has none."""
        acl = {f"ci{n}": ["deploy/*"] for n in range(MOST)}
        line = allowing({**acl, "web1": ["a"]}, "web1", "salt/x")

        self.assertEqual(line, "'web1': ['a', 'salt/x']  # in minion_events")
        self.assertEqual(parse(line, "master"), {"web1": ["a", "salt/x"]})
        self.assertEqual(allowing({}, "web1", "salt/" + "x" * 200), "")
        self.assertEqual(allowing({}, "web1", "salt/\n"), "")
        self.assertIn("'*': ['*', 'salt/b/*']", adding({}, "*", ["salt/b/*"]))


def _plain(tag: str) -> bool:
    return tag.isprintable()
