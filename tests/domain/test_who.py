"""
Who somebody is.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jobids import JobInParts
from saltwisted.domain.who import EAUTH, HOOK, LOCAL, MASTER, MINION, Who, local, who_in
from saltwisted.kinds import LOGINS

EACH = ("", LOCAL, MINION, MASTER, HOOK, *LOGINS.here)


class WhoTests(SynchronousTestCase):
    """Identities as values."""

    def test_T_WHO_1_same_name(self) -> None:
        """T-WHO-1: of one name by two backends neither is the other, nor is told as the other."""
        self.assertEqual(len({Who("root", backend) for backend in EACH}), len(EACH))
        told = [str(Who("root", backend)) for backend in (LOCAL, MINION, *LOGINS.here)]
        self.assertEqual(len(set(told)), len(told), told)
        self.assertEqual(told[:3], ["root", "minion root", "root (auto)"])

    def test_T_WHO_1_no_backend_is_ours(self) -> None:
        """T-WHO-1: no backend of Salt's has the name of one of those that nobody logs in by."""
        self.assertEqual({LOCAL, MINION, MASTER, HOOK} & {*LOGINS.here, *LOGINS.elsewhere}, set())

    def test_facts(self) -> None:
        """What records have is read as the same again."""
        for backend in EACH:
            self.assertEqual(who_in(Who("fred", backend).facts()), Who("fred", backend))
        self.assertEqual(local("fred").facts(), {"user": "fred", EAUTH: "local"})

    def test_T_WHO_1_old_records(self) -> None:
        """T-WHO-1: a record that names no backend, or none that is a text, is nobody's who asks."""
        for facts in (
            {"user": "fred"},
            {"user": "fred", EAUTH: ""},
            {"user": "fred", EAUTH: None},
            {"user": "fred", EAUTH: ["local"]},
            {"user": ["fred"], EAUTH: "local"},
            {EAUTH: "local"},
            {},
        ):
            self.assertEqual(who_in(facts).backend, "", facts)

    def test_T_WHO_1_parts(self) -> None:
        """T-WHO-1: nobody adds a part to the job of a namesake; an old one can be gone on with."""
        load = {"fun": "test.ping", "arg": []}
        mine = JobInParts.first(local("fred"), load, 1.0)
        theirs = JobInParts.first(Who("fred", "pam"), load, 1.0)
        self.assertFalse(mine.has_part(theirs))

        recorded = JobInParts.recorded({**load, **theirs.who.facts()})
        self.assertTrue(recorded.has_part(theirs))
        old = JobInParts.recorded({**load, "user": "fred"})
        self.assertFalse(old.has_part(theirs))
        self.assertTrue(old.has_part(JobInParts.first(who_in({"user": "fred"}), load, 1.0)))
