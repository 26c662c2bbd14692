"""
Minion ids, and what a sign-in with a key means.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.keys import (
    Answer,
    IdLines,
    SignIn,
    clean_key,
    grains_match,
    id_matches,
    judge,
    may_be_trusted,
    signing_lines,
    valid_minion_id,
)
from tests.doors.measure import NOISE, least

KEY = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
OTHER = b"-----BEGIN PUBLIC KEY-----\nBBBB\n-----END PUBLIC KEY-----"


def ask(**facts: Any) -> Any:
    """The verdict on a sign-in of C{web1} with L{KEY}."""
    return judge(SignIn(**{"minion_id": "web1", "pub": KEY, **facts}))


class IdTests(SynchronousTestCase):
    """T-PATH-1: what may be an id."""

    def test_T_PATH_1_refused(self) -> None:
        """T-PATH-1: whatever could be a path, look like one, or hide, is no id."""
        for bad in (
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc/passwd",
            "a\\b",
            "a\0b",
            "..%2fx",
            "a%2Fb",
            "a%00",
            "a\u2215b",
            "a\u2044b",
            "a\uff0fb",
            "a\uff3cb",
            "x" * 256,
            "é" * 128,
            "x" * 300,
            "web1.",
            "web1 ",
            " web1",
            ".key_cache",
            ".hidden",
            "a\nb",
            "a\tb",
            "a\x7fb",
            "a\u2028b",
            "a\u00a0b",
            "a\u202eb",
            "a\udcffb",
            "CON",
            "nul",
            "Lpt1",
            None,
            b"web1",
            5,
            ["web1"],
        ):
            self.assertFalse(valid_minion_id(bad), repr(bad))

    def test_accepted(self) -> None:
        """The names that sites use are ids: host names, addresses, mail-like and national ones."""
        for good in (
            "web1",
            "web1.example.com",
            "aux.example.com",
            "10.0.0.1",
            "fe80::1",
            "Web_01-b",
            "my minion",
            "müller",
            "名前",
            "a@b",
            "x" * 255,
        ):
            self.assertTrue(valid_minion_id(good), repr(good))

    @given(st.text())
    def test_never_a_path(self, text: str) -> None:
        """No text that passes could leave its directory, or be too long for a name."""
        if valid_minion_id(text):
            self.assertNotIn("/", text)
            self.assertNotIn("\0", text)
            self.assertNotIn(text, (".", ".."))
            self.assertLessEqual(len(text.encode()), 255)


class JudgeTests(SynchronousTestCase):
    """The decision, row by row."""

    def test_rows(self) -> None:
        """Every state with every rule gives stock Salt's answer, event word and write."""
        table: list[tuple[dict[str, Any], tuple[Answer, str, str]]] = [
            ({}, (Answer.PENDING, "pend", "pending")),
            ({"autosign": True}, (Answer.ACCEPT, "accept", "accepted")),
            ({"autoreject": True, "autosign": True}, (Answer.REFUSED, "reject", "rejected")),
            ({"state": "pending", "stored": KEY}, (Answer.PENDING, "pend", "")),
            ({"state": "pending", "stored": OTHER}, (Answer.REFUSED, "denied", "denied")),
            (
                {"state": "pending", "stored": OTHER, "autosign": True},
                (Answer.REFUSED, "denied", "denied"),
            ),
            (
                {"state": "pending", "stored": KEY, "autosign": True},
                (Answer.ACCEPT, "accept", "accepted"),
            ),
            (
                {"state": "pending", "stored": OTHER, "autoreject": True},
                (Answer.REFUSED, "reject", "rejected"),
            ),
            ({"state": "accepted", "stored": KEY}, (Answer.ACCEPT, "accept", "")),
            ({"state": "accepted", "stored": OTHER}, (Answer.REFUSED, "denied", "denied")),
            (
                {"state": "accepted", "stored": OTHER, "autosign": True},
                (Answer.REFUSED, "denied", "denied"),
            ),
            (
                {"state": "accepted", "stored": KEY, "autoreject": True},
                (Answer.ACCEPT, "accept", ""),
            ),
            ({"state": "rejected", "stored": KEY}, (Answer.REFUSED, "reject", "")),
            (
                {"state": "rejected", "stored": KEY, "autosign": True},
                (Answer.REFUSED, "reject", ""),
            ),
            ({"open_mode": True}, (Answer.ACCEPT, "accept", "accepted")),
            (
                {"open_mode": True, "state": "accepted", "stored": OTHER},
                (Answer.ACCEPT, "accept", "accepted"),
            ),
            (
                {"open_mode": True, "state": "accepted", "stored": KEY},
                (Answer.ACCEPT, "accept", ""),
            ),
            (
                {"open_mode": True, "state": "rejected", "stored": KEY},
                (Answer.ACCEPT, "accept", "accepted"),
            ),
            ({"pub_is_good": False, "open_mode": True}, (Answer.REFUSED, "error", "")),
            ({"pub": b" \n"}, (Answer.REFUSED, "error", "")),
            ({"minion_id": "../x", "open_mode": True}, (Answer.REFUSED, "", "")),
        ]
        for facts, expected in table:
            verdict = ask(**facts)
            self.assertEqual((verdict.answer, verdict.act, verdict.write), expected, facts)
            self.assertEqual(verdict.result, expected[0] in (Answer.ACCEPT, Answer.PENDING))

    def test_full(self) -> None:
        """Above C{max_minions} a stranger is told so, and who is connected is not."""
        accepted = {"state": "accepted", "stored": KEY, "max_minions": 2}

        self.assertEqual(ask(**accepted, connected=3).answer, Answer.FULL)
        self.assertEqual(ask(**accepted, connected=3, is_connected=True).answer, Answer.ACCEPT)
        self.assertEqual(ask(**accepted, connected=2).answer, Answer.ACCEPT)

    def test_autoreject_keeps_the_stored_key(self) -> None:
        """A pending key that is rejected by rule is the stored one, not the one that was sent."""
        verdict = ask(state="pending", stored=OTHER + b"\n", autoreject=True)

        self.assertEqual(verdict.pub, OTHER)

    def test_white_space_does_not_matter(self) -> None:
        """A key is the same with other line ends and white space around it."""
        windows = b"\r\n" + KEY.replace(b"\n", b"\r\n") + b"\r\n\r\n"

        self.assertEqual(clean_key(windows), KEY)
        self.assertEqual(ask(state="accepted", stored=windows).answer, Answer.ACCEPT)

    def test_keys_are_not_shown(self) -> None:
        """The representation of a question holds no key."""
        self.assertNotIn("AAAA", repr(SignIn(minion_id="web1", pub=KEY, stored=KEY)))


class RuleTests(SynchronousTestCase):
    """Autosign and autoreject."""

    def test_lines(self) -> None:
        """Comments, empty lines and white space are not entries."""
        self.assertEqual(signing_lines("# all\n\n web* \r\ndb1\n  #x"), ("web*", "db1"))

    def test_globs_and_expressions(self) -> None:
        """An entry is a glob or an expression for the whole id; a broken one matches nothing."""
        self.assertTrue(id_matches("web1", ["web*"]))
        self.assertTrue(id_matches("web1", [r"web\d"]))
        self.assertFalse(id_matches("web12", [r"web\d"]))
        self.assertFalse(id_matches("web1", ["("]))

    def test_lines_in_order(self) -> None:
        """Lines that are put in order mean the ids that they mean one by one."""
        pieces = st.lists(
            st.sampled_from(["a", "b", ".", "-", "*", "?", "[ab]", "\\d", "+", "|", "("]),
            max_size=5,
        ).map("".join)
        names = st.lists(st.sampled_from("ab.-\n"), max_size=5).map("".join)

        @settings(derandomize=True, max_examples=500, deadline=None, database=None)
        @given(st.lists(pieces, max_size=6), names)
        def same(lines: list[str], name: str) -> None:
            self.assertEqual(IdLines(lines).match(name), id_matches(name, lines), (name, lines))

        same()

    def test_T_COST_1_many_lines(self) -> None:
        """A file of ten thousand names costs a sign-in no more than a short one."""

        def lines(size: int) -> IdLines:
            return IdLines(f"web{n:05}.example.com" for n in range(size // 20))

        def act(made: IdLines) -> None:
            for n in range(200):
                made.match(f"web{n:05}xexample.net")

        few, many = lines(1000), lines(200_000)
        self.assertLess(least(lambda: act(many)), 5 * least(lambda: act(few)) + NOISE)

    def test_grains(self) -> None:
        """One equal value is enough, numbers compare as text, and what is not a map fails."""
        values = {"uuid": ("abc", "5"), "role": ()}

        self.assertTrue(grains_match({"uuid": "abc"}, values))
        self.assertTrue(grains_match({"uuid": 5}, values))
        self.assertFalse(grains_match({"uuid": "x", "role": "web", "other": "abc"}, values))
        self.assertFalse(grains_match(["uuid"], values))

    def test_who_may_write_the_rules(self) -> None:
        """Others never, a group only with permissive access, for root only one of his."""
        self.assertTrue(may_be_trusted(0o100644, 0, False, True, ()))
        self.assertFalse(may_be_trusted(0o100646, 0, True, True, (0,)))
        self.assertFalse(may_be_trusted(0o100664, 0, False, True, (0,)))
        self.assertTrue(may_be_trusted(0o100664, 0, True, True, (0,)))
        self.assertFalse(may_be_trusted(0o100664, 7, True, True, (0,)))
        self.assertTrue(may_be_trusted(0o100664, 7, True, False, (0,)))
