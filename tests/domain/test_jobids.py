"""
Job ids that callers choose: their form, and what may be published under one that exists.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jobids import JobInParts, judged_jid, precedence
from saltwisted.domain.who import Who
from saltwisted.errors import RemoteError

JID = "20260701120000250000"
ANN = Who("ann", "pam")


class ChosenJidTests(SynchronousTestCase):
    """T-PATH-6, for jids that callers choose."""

    def test_T_PATH_6_form(self) -> None:
        """T-PATH-6: a jid has the form of one, as text or digits, or there is none."""
        self.assertEqual(judged_jid(JID), JID)
        self.assertEqual(judged_jid(int(JID)), JID)
        self.assertEqual([judged_jid(nothing) for nothing in (None, "")], ["", ""])
        for bad in ("../x", "req", "nocache", f"{JID}/..", f"{JID}\n", 5, 0, True, b"x", [JID], {}):
            self.assertRaises(RemoteError, judged_jid, bad)

    def test_T_PATH_6_parts(self) -> None:
        """T-PATH-6: a part has the user, function and arguments of the job's first part."""
        job = {**ANN.facts(), "fun": "state.apply,test.ping", "arg": [["x"], []]}
        first = JobInParts.first(ANN, job, 1.0)
        self.assertTrue(first.has_part(JobInParts.first(ANN, job, 9.0)))
        as_kept = {**job, "fun": ["state.apply", "test.ping"], "started": 1.0}
        self.assertTrue(JobInParts.recorded(as_kept).has_part(first))
        for who, change in (
            (Who("bob", "pam"), {}),
            (Who("ann", "ldap"), {}),
            (ANN, {"fun": "test.ping"}),
            (ANN, {"arg": [["y"], []]}),
        ):
            self.assertFalse(first.has_part(JobInParts.first(who, {**job, **change}, 1.0)))

    def test_minions_of_all_parts(self) -> None:
        """A job's minions are those of its parts, in order and each once."""
        job = JobInParts.recorded({"user": "ann", "minions": ["b", "a"], "started": 5.0})
        self.assertEqual(job.join(["c", "a"]), ["b", "a", "c"])
        self.assertEqual(job.begun, 5.0)

    def test_precedence(self) -> None:
        """The job that began first holds; later parts of it have its place."""
        first = precedence({"user": "ann"}, 1.0)
        part = precedence({"user": "ann", "begun": 1.0}, 3.0)
        other = precedence({"user": "bob", "begun": 2.0}, 2.0)
        self.assertEqual(first, part)
        self.assertLess(part, other)
