"""
Who sees which events by HTTP, and what a hook's signature proves.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api.signatures import rules_for, signatures_of
from saltwisted.domain.api.watching import Eyes, JobUsers, Sight, minion_of, sight_of
from saltwisted.domain.who import Who
from saltwisted.errors import ConfigError

JOB = "salt/job/20261123100000000000"
FRED, EVE = Who("fred", "pam"), Who("eve", "pam")


class SightTests(SynchronousTestCase):
    """What rules let somebody see."""

    def test_everything(self) -> None:
        """Who may do everything sees everything; so does who has the word, or all."""
        self.assertTrue(sight_of([".*", "@runner", "@wheel"]).everything)
        self.assertTrue(sight_of(["@events"]).everything)
        self.assertTrue(sight_of([], for_all=True).everything)

    def test_less(self) -> None:
        """Less than everything is not everything."""
        less: list[list[Any]] = [
            [], [".*"], [".*", "@runner"], ["@runner", "@wheel"], ["test.*", "@runner", "@wheel"],
            [{".*": ["@runner", "@wheel"]}], [{"@events": ["x"]}], [{"web*": "test.*"}], [7, None],
        ]  # fmt: skip
        for rules in less:
            self.assertEqual(sight_of(rules), Sight(False), rules)

    def test_targets(self) -> None:
        """C{@events} under a target is for its minions, beside functions or alone."""
        rules = [{"web*": ["test.*", "@events"]}, {"G@os:Debian": "@events"}, {"db*": ["test.*"]}]
        self.assertEqual(sight_of(rules), Sight(False, ("web*", "G@os:Debian")))

    def test_minion(self) -> None:
        """Whose event it is, the master's own knowledge says, never the data."""
        for tag, minion in (
            (f"{JOB}/ret/web1", "web1"),
            (f"{JOB}/prog/web1/3", "web1"),
            (f"{JOB}/new", ""),
            ("salt/minion/web1/start", "web1"),
            ("salt/beacon/web1/load/", "web1"),
            ("salt/auth", ""),
            ("salt/key", ""),
            ("deploy/web1", ""),
            ("salt", ""),
            ("", ""),
        ):
            self.assertEqual(minion_of(tag, ""), minion, tag)
        self.assertEqual(minion_of("deploy/done", "web1"), "web1")

    def test_users(self) -> None:
        """A call's events are its user's, and a later event of the same jid changes nothing."""
        users, fred, eve = JobUsers(), FRED.facts(), EVE.facts()
        self.assertEqual(users.heard(f"{JOB}/new", fred), FRED)
        self.assertEqual(users.heard(f"{JOB}/new", eve), FRED)
        self.assertEqual(users.heard(f"{JOB}/ret/web1", eve), FRED)
        self.assertEqual(users.heard("salt/run/2/new", fred), FRED)
        self.assertIsNone(users.heard("salt/job/3/ret/web1", eve))
        self.assertIsNone(users.heard("deploy/x/3/new", eve))
        self.assertIsNone(users.heard("salt/job/4/new", {"user": "eve"}))
        self.assertEqual(users.heard("salt/job/4/new", eve), EVE)

    def test_users_bounded(self) -> None:
        """Only so many are remembered, the newest."""
        users = JobUsers(10)
        for n in range(100):
            users.heard(f"salt/job/{n}/new", FRED.facts())
        self.assertIsNone(users.heard("salt/job/0/ret/a", {}))
        self.assertEqual(users.heard("salt/job/99/ret/a", {}), FRED)

    def test_nobody(self) -> None:
        """An event of nobody's is seen by nobody, whatever his name is."""
        self.assertFalse(Eyes(Who("", "pam")).see("", None))
        self.assertFalse(Eyes(FRED, False, {"web1"}).see("", None))
        self.assertTrue(Eyes(FRED, False, {"web1"}).see("web1", EVE))
        self.assertTrue(Eyes(FRED).see("db1", FRED))

    def test_T_WHO_1_namesake(self) -> None:
        """T-WHO-1: a namesake's event is not one's own, whoever proved that name."""
        for backend in ("", "local", "minion", "master", "hook", "ldap", "sharedsecret"):
            self.assertFalse(Eyes(FRED).see("db1", Who("fred", backend)), backend)


class SignatureTests(SynchronousTestCase):
    """Signatures of hooks."""

    def signed(self, body: bytes, name: str = "sha256") -> str:
        """As GitHub sends it."""
        return f"{name}=" + hmac.new(b"a secret", body, getattr(hashlib, name)).hexdigest()

    def test_good_and_bad(self) -> None:
        """The body with the secret, and nothing else; with or without the name of the digest."""
        (rule,) = signatures_of({"deploy/*": "a secret"})
        good = self.signed(b"{}")
        header = "x-hub-signature-256"
        self.assertTrue(rule.verify({header: good}, b"{}"))
        self.assertTrue(rule.verify({header: good.partition("=")[2].upper()}, b"{}"))
        for wrong in ("", "sha256=", good[:-1], good + "0", self.signed(b"{} "), "ä", "=" * 99):
            self.assertFalse(rule.verify({header: wrong}, b"{}"), wrong)
        self.assertFalse(rule.verify({}, b"{}"))
        self.assertNotIn("secret'", repr(rule))

    def test_paths(self) -> None:
        """A path keeps every rule whose pattern it fits."""
        rules = signatures_of({"*": "a secret", "/deploy/*": {"secret": "another one"}})
        self.assertEqual(len(rules_for(rules, "deploy/web")), 2)
        self.assertEqual(len(rules_for(rules, "other")), 1)
        self.assertEqual(rules_for(rules[1:], "deploy"), [])

    def test_refused(self) -> None:
        """What cannot be read ends the start: a hook would be open that ought to be closed."""
        for option in (
            ["x"], "x", {"a": None}, {"a": "short"}, {"a": {}}, {"a": {"secrets": "long enough"}},
            {"a": {"secret": "long enough", "header": 1}},
            {"a": {"secret": "long enough", "algorithm": "md5"}},
        ):  # fmt: skip
            self.assertRaises(ConfigError, signatures_of, option)
        self.assertEqual(signatures_of(None), ())
