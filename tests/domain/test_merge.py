"""
What a merge of two masters would do, from what both have.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.merge import checked, compare, key_digest
from saltwisted.errors import WireError


def census(**parts: Any) -> dict[str, Any]:
    """One side."""
    return {"keys": {}, "files": {}, "options": {}, **parts}


class CompareTests(SynchronousTestCase):
    """Each kind of difference, and that equal sides have none."""

    def test_equal(self) -> None:
        """The same keys, files and options; pending keys are nobody's decision."""
        one = census(
            keys={"accepted": {"a": b"1"}, "pending": {"b": b"2"}},
            files={"file/base/0": {"top.sls": b"x"}},
            options={"peer": "{}"},
        )
        other = {**one, "keys": {"accepted": {"a": b"1"}}}
        self.assertEqual(compare(one, one), [])
        self.assertEqual(compare(one, other), [])
        self.assertEqual(compare(other, one), [])

    def test_keys(self) -> None:
        """Other keys under one id, other judgements of one key, and what only one side has."""
        here = census(
            keys={
                "accepted": {"both": b"1", "twin": b"2", "mine": b"3", "bad": b"4", "new": b"7"},
                "rejected": {"no": b"5"},
            }
        )
        there = census(
            keys={
                "accepted": {"both": b"1", "twin": b"9", "theirs": b"6", "no": b"5"},
                "rejected": {"bad": b"4"},
                "pending": {"new": b"7"},
            }
        )

        found = {one.id: one for one in compare(here, there)}

        self.assertEqual(list(found["key.other"].names), ["twin"])
        self.assertEqual(
            list(found["key.state"].names),
            ["bad: accepted here, rejected there", "no: rejected here, accepted there"],
        )
        self.assertEqual(list(found["key.here"].names), ["mine", "new"])
        self.assertEqual(list(found["key.there"].names), ["theirs"])
        self.assertEqual([one.decide for one in found.values()], [True, True, False, False])

    def test_files(self) -> None:
        """By share and path; a share that only one side has counts, too."""
        here = census(files={"file/base/0": {"a": b"1", "b": b"2"}, "pillar/base/0": {"p": b"3"}})
        there = census(files={"file/base/0": {"a": b"1", "b": b"9", "c": b"4"}})

        found = {one.id: list(one.names) for one in compare(here, there)}

        self.assertEqual(
            found,
            {
                "file.differs": ["file/base/0: b"],
                "file.here": ["pillar/base/0: p"],
                "file.there": ["file/base/0: c"],
            },
        )

    def test_options(self) -> None:
        """Both values are shown."""
        here, there = census(options={"peer": "{}", "x": "1"}), census(options={"peer": '{"a": 1}'})

        (one,) = compare(here, there)

        self.assertEqual((one.id, one.decide), ("option.differs", True))
        self.assertEqual(
            list(one.names), ['peer: {} here, {"a": 1} there', "x: 1 here, (not set) there"]
        )
        self.assertEqual(one.as_json()["count"], 2)

    def test_digest(self) -> None:
        """A key is the same however its lines end."""
        self.assertEqual(key_digest(b"a\nb\n"), key_digest(b"a\r\nb"))
        self.assertNotEqual(key_digest(b"a\nb\n"), key_digest(b"a\nc\n"))

    def test_foreign(self) -> None:
        """What another node says must have the form."""
        for bad in (
            None,
            [],
            {},
            census(keys=[]),
            census(files={"a": 1}),
            census(options={1: "a"}),
        ):
            self.assertRaises(WireError, checked, bad)
        self.assertEqual(checked(census()), census())
