"""
What nodes tell each other of git repositories: what is refused, each condition alone.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.git.agreement import (
    BACK,
    NONE,
    aside_of,
    objects_of,
    tips_of,
    version_of,
)

REF, OID, LONG = "refs/remotes/origin/master", "1" * 40, "a" * 64
TIP = [OID, OID, OID]
ODD: tuple[Any, ...] = (1, 1.5, "x", b"x", True, [1], {"x": 1})


class AgreementTests(SynchronousTestCase):
    """T-GIT-10: another member's words."""

    def test_versions(self) -> None:
        """A version is three numbers from 0 on, or none."""
        self.assertEqual(version_of([3, 2, 1]), (3, 2, 1))
        self.assertEqual([version_of(value) for value in (None, [], (), 0, "")], [NONE] * 5)
        for value in (
            *ODD, [1, 2], [1, 2, 3, 4], {1: 1, 2: 2, 3: 3}, "123", b"123",
            ["1", 2, 3], [1, None, 3], [1, 2, 3.0], [-1, 2, 3], [1, 2, 1 << 62],
        ):  # fmt: skip
            self.assertRaises(ValueError, version_of, value)

    def test_objects(self) -> None:
        """Refs are those of remotes and tags; objects are names of 40 or 64 digits."""
        good = {REF: OID, "refs/tags/v1": LONG}
        self.assertEqual(objects_of(good, 2), good)
        for value in (
            *ODD, None, [REF], {b"refs/tags/a": OID}, {1: OID}, {"HEAD": OID},
            {"refs/heads/a": OID}, {"--refs/tags/a": OID}, {"refs/tags/a b": OID},
            {"refs/tags/a\n": OID}, {"refs/tags/\x7f": OID}, {"refs/tags/" + "x" * 4096: OID},
            {REF: None}, {REF: 1}, {REF: OID.encode()}, {REF: ""}, {REF: OID[1:]},
            {REF: OID + "1"}, {REF: "g" * 40}, {REF: "A" * 40}, {REF: list(OID)},
        ):  # fmt: skip
            self.assertRaises(ValueError, objects_of, value, 2)
        self.assertRaises(ValueError, objects_of, good, 1)

    def test_tips(self) -> None:
        """A tip is three objects, of which a tag of no commit has one."""
        self.assertEqual(tips_of({REF: tuple(TIP)}, 1), {REF: TIP})
        self.assertEqual(tips_of({REF: [OID, "", ""]}, 1), {REF: [OID, "", ""]})
        for value in (
            *ODD, None, [[REF, TIP]], {REF: OID}, {REF: None}, {REF: TIP[:2]}, {REF: [*TIP, OID]},
            {REF: {1: 1, 2: 2, 3: 3}}, {REF: "123"}, {"HEAD": TIP}, {REF: ["", OID, OID]},
            {REF: [OID, "x", OID]}, {REF: [OID, OID, "x"]},
        ):  # fmt: skip
            self.assertRaises(ValueError, tips_of, value, 1)

    def test_aside(self) -> None:
        """Beside the refs are names of objects, and why some are refused; of any type else none."""
        good: dict[str, Any] = {
            "seen": {REF: OID},
            "pins": [OID],
            "refused": {REF: [OID, "has no signature"]},
            "signed": [OID],
            "good": [LONG],
            "verify": "gpg:1",
            BACK: {REF: TIP},
        }
        self.assertEqual(aside_of(good, 10), good)
        self.assertEqual(aside_of({}, 10), {})
        for value in (*[each for each in ODD if each != {}], None, {**good, "refs": {}}):
            self.assertRaises(ValueError, aside_of, value, 10)
        for name, values in (
            ("seen", (*ODD[:6], None, {REF: 1}, {REF: "1" * 65})),
            ("pins", (*(1, 1.5, True, None), [1], ["1" * 65], [None])),
            ("signed", (*(1, None), [1], ["1" * 65])),
            ("good", (*(1, None), [1], ["1" * 65])),
            ("refused", (*ODD, None, {1: [OID, "x"]}, {REF: [OID]}, {REF: [OID, "x", "y"]})),
            ("refused", ({REF: (OID, "x")}, {REF: [1, "x"]}, {REF: [OID, 1]}, {REF: [OID, None]})),
            (BACK, (*ODD, None, {REF: OID})),
        ):
            for value in values:
                self.assertRaises(ValueError, aside_of, {**good, name: value}, 10)
